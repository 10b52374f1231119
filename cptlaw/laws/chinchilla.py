"""Laws of pre-training from scratch, the baselines of the field: Chinchilla and Kaplan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cptlaw.laws.base import EXPONENT, Law, Shape
from cptlaw.laws.bend import RATIO, Bent, as_ratio
from cptlaw.laws.calculus import Letters, Number, Value

BILLION = 1e9


class Chinchilla(Bent):
    """L = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, eq. 2, arXiv:2203.15556).

    N counts parameters and D tokens, both raw. Refitted by Besiroglu et al. 2024 (arXiv:2404.10102).
    """

    name = "chinchilla"
    right = (
        "One corpus, training from scratch, several sizes and token counts. With bend=2 it forecasts over-trained "
        "models better."
    )
    wrong = (
        "It knows no replay, no second corpus and no base model: continual pre-training looks to it like a fresh start."
    )
    measured = (
        "Six public ladders (chinchilla, gadre, olmo, dmsl, lr_schedules, marin) and both example pilots: "
        "studies/bench.md, studies/intervals.md."
    )
    order = 10
    equation = "L = E + A/N^alpha + B/D^beta"
    source = "Hoffmann et al. 2022, eq. 2, arXiv:2203.15556"
    inputs = ("n_params", "tokens")
    amplitudes = ("E", "A", "B")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT}
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero = ("n_params", "tokens")

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term and the token term."""
        return 1.0, x.N**-p.alpha, x.D**-p.beta

    def log_unit(self, p: Letters) -> Value:
        """Return log((1e9)^(beta - alpha)): the two terms are compared at a billion parameters and tokens."""
        return (p.beta - p.alpha) * math.log(BILLION)


class Kaplan(Law):
    """L = [(N_c/N)^(alpha_N/alpha_D) + D_c/D]^alpha_D (Kaplan et al. 2020, eq. 1.5, arXiv:2001.08361).

    N counts non-embedding parameters. There is no irreducible loss: the law goes to zero with both N and D. N_c and D_c
    carry powers of the loss's unit: a fit searches the loss at a billion parameters and endless tokens in place of N_c,
    and the ratio of the two terms at a billion each in place of D_c.
    """

    name = "kaplan"
    right = "Beside chinchilla on tables of training from scratch, as a second opinion."
    wrong = (
        "It has no irreducible loss, so it promises ever lower losses with size; on public ladders law auto gives "
        "it little weight."
    )
    measured = "The same public ladders as chinchilla, as a member of law auto: studies/bench.md."
    order = 10
    equation = "L = [(N_c/N)^(alpha_N/alpha_D) + D_c/D]^alpha_D"
    source = "Kaplan et al. 2020, eq. 1.5, arXiv:2001.08361"
    inputs = ("n_params", "tokens")
    version = 2
    amplitudes = ("N_c",)
    shapes = {
        "alpha_N": Shape(0.005, 2.0, start=(0.03, 0.4)),
        "alpha_D": Shape(0.005, 2.0, start=(0.03, 0.4)),
        "D_c": RATIO,
    }
    derived = ("N_c", "D_c")
    decreasing = ("n_params", "tokens")
    diverges_at_zero = ("n_params", "tokens")

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the single term, N and D in billions."""
        power = p.alpha_N / p.alpha_D
        return ((x.N**-power * BILLION**power + p.D_c * BILLION * x.D**-1.0) ** p.alpha_D,)

    def published(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn the loss of a billion parameters on endless tokens, and the ratio of the terms, into N_c and D_c."""
        with np.errstate(over="ignore"):  # a fit whose parameters no float can hold is refused
            sizes, tokens = (np.float64(params["N_c"]) ** (1.0 / params[name]) for name in ("alpha_N", "alpha_D"))
            return {**params, "N_c": BILLION * sizes, "D_c": BILLION * params["D_c"] * tokens}

    def fitted(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn N_c and D_c into that loss, which has its unit, and that ratio, which has none."""
        loss = (params["N_c"] / BILLION) ** params["alpha_N"]
        tokens = (params["N_c"] / BILLION) ** (params["alpha_N"] / params["alpha_D"])
        return {**params, "N_c": loss, "D_c": as_ratio(params["D_c"] / BILLION, tokens)}
