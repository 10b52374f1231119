"""The D-CPT law and its alternatives L1 to L7 (Que et al. 2024, arXiv:2406.01375).

The ratio r is the share of the corpus whose loss is predicted: replay for the source loss, 1 - replay for the target
loss. N and D are in billions. Every law is fitted once for each of the two losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.laws.base import EXPONENT, Option, Shape
from cptlaw.laws.bend import RATIO, Bent, as_ratio
from cptlaw.laws.calculus import Letters, Number, Value, exp, log
from cptlaw.laws.parameters import positive

# 1,000 steps of 131,072 tokens, rounded: where the published constraint holds from (section 4.2 of the paper).
PUBLISHED_MIN_TOKENS = 0.1311e9

EPSILON = Shape(1e-6, 2.0, start=(0.02, 0.5))


class _DCPT(Bent):
    """What L1 to L7 share: inputs, units, the meaning of r, and the constraint that keeps the loss falling in r."""

    order = 20
    right = "One base model budget, several replays and sizes; the target loss above all."
    wrong = (
        "It does not know how long the base model was trained, and a sum of falling powers cannot follow the early "
        "rise of the source loss."
    )
    measured = "Four domains at nine ratios, 30K to 125K parameters (example domains): studies/measured_tables.md."
    source = "Que et al. 2024, table 1, arXiv:2406.01375"
    inputs: tuple[str, ...] = ("n_params", "tokens", "replay")
    ratio_of = "own"
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes: tuple[str, ...] = ("E", "A", "B", "C")
    decreasing: tuple[str, ...] = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero: tuple[str, ...] = ("n_params", "tokens")
    choices = Bent.choices | {
        "monotone": Option(
            "none",
            ("none", "soft", "paper"),
            "none leaves the law free; soft penalises a loss that rises with r at the fitted points; paper keeps C at "
            "or above the bound C0 that makes dL/dr < 0 for all r and all tokens from min_tokens on (the published "
            "limited-data optimum is impossible under it).",
        ),
        "min_tokens": Option(
            PUBLISHED_MIN_TOKENS,
            "a positive number of tokens, such as 131.1M",
            "Tokens from which monotone=paper guarantees a falling loss.",
            positive,
        ),
    }
    monotone: Literal["none", "soft", "paper"]
    min_tokens: float

    def configure(self) -> None:
        """Make C, where the constraint binds it, a parameter that follows from others."""
        self._min_d = self.min_tokens / self.units["tokens"]
        bounded = type(self).lower_bound_of_c is not _DCPT.lower_bound_of_c
        self.derived = ("C",) if self.monotone == "paper" and bounded else ()
        if self.derived and self.bend != 1:
            raise UsageError(
                f"law {self.name}: monotone=paper is proved for the plain sum of the terms; with bend={self.bend:g} "
                f"take monotone=soft."
            )
        super().configure()

    def lower_bound_of_c(self, p: Letters) -> Value | None:
        """Return C0 / B: the least C, per unit of B, at which the loss falls with r everywhere; None if it always does.

        A function of the shape parameters and `min_tokens`, sufficient for all r in (0, 1] and D >= min_tokens.
        """
        return None

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the published terms."""
        raise NotImplementedError

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the published terms or, under ``monotone="paper"``, the same with C written as C0 + C1.

        C0 is proportional to B, so the constrained law is still a sum of non-negative amplitudes times terms: the
        B-term carries its C0, and the last amplitude is the excess C1 >= 0.
        """
        terms = super().terms(x, p)
        # Exact, not a penalty: C0 is proportional to B, so C = C0 + C1 keeps the law a sum of non-negative amplitudes
        # times terms, and the same search applies.
        ratio = self.lower_bound_of_c(p) if self.monotone == "paper" else None
        if ratio is None:
            return terms
        one, size, data, barrier = terms
        return one, size, data + ratio * barrier, barrier

    def published(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn the excess C1 of the constrained fit back into the published C = C0 + C1."""
        return super().published(self._shift_c(params, 1.0))

    def fitted(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn the published C into the excess C1 that the terms use."""
        return self._shift_c(super().fitted(params), -1.0)

    def _shift_c(self, params: Mapping[str, Number], sign: float) -> dict[str, Number]:
        ratio = self.lower_bound_of_c(Letters(**params)) if self.monotone == "paper" else None
        return dict(params) if ratio is None else {**params, "C": params["C"] + np.asarray(sign * ratio) * params["B"]}


class DCPT1(_DCPT):
    """L1 = E + A/N^alpha + B/D^beta + C/(r+eps)^gamma: ratio and tokens do not interact."""

    name = "dcpt-l1"
    equation = "L = E + A/N^alpha + B/D^beta + C/(r+eps)^gamma"
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "gamma": EXPONENT, "eps": EPSILON}
    decreasing = ("n_params", "tokens", "share")

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four published terms."""
        return 1.0, x.N**-p.alpha, x.D**-p.beta, (x.r + p.eps) ** -p.gamma


class DCPT2(_DCPT):
    """L2 = E + A/N^alpha + (B/D^beta + C/(r+eps)^gamma)^eta: at fixed r not Chinchilla's law unless eta = 1.

    B and C carry a power of the loss's unit that depends on eta. A fit searches B^eta, which is linear in the loss, and
    C / B, which has no unit; `published` and `fitted` turn them into B and C and back.
    """

    name = "dcpt-l2"
    version = 2
    equation = "L = E + A/N^alpha + (B/D^beta + C/(r+eps)^gamma)^eta"
    amplitudes = ("E", "A", "B")
    shapes = {
        "C": RATIO,
        "alpha": EXPONENT,
        "beta": EXPONENT,
        "gamma": EXPONENT,
        "eta": Shape(0.05, 10.0, start=(0.4, 2.5)),
        "eps": EPSILON,
    }
    derived = ("B", "C")
    decreasing = ("n_params", "tokens", "share")
    vanishing = {"n_params": ("A",)}
    choices = {name: option for name, option in _DCPT.choices.items() if name != "bend"}
    bend = 1  # it joins tokens and ratio, not tokens and size

    def configure(self) -> None:
        """Leave B and C derived: no constraint on C is known for this form."""

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term, and the joint term of tokens and ratio."""
        return 1.0, x.N**-p.alpha, (x.D**-p.beta + p.C * (x.r + p.eps) ** -p.gamma) ** p.eta

    def published(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn B^eta and C / B into B and C."""
        scale = params["B"] ** (1.0 / params["eta"])
        return {**params, "B": scale, "C": params["C"] * scale}

    def fitted(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn B and C into B^eta and C / B."""
        return {**params, "B": params["B"] ** params["eta"], "C": as_ratio(params["C"], params["B"])}


class DCPT3(_DCPT):
    """L3, the D-CPT law: E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma (eq. 1 and eq. 6)."""

    name = "dcpt-l3"
    right = (
        "One base model budget, several replays and sizes: of the seven the best for the target loss, on all points "
        "and on held-out tokens."
    )
    wrong = (
        "The source loss while adaptation begins; runs on one corpus alone, where nothing bounds it (11 % error "
        "with two ratios held out)."
    )
    measured = (
        "Four domains at nine ratios, 30K to 125K parameters: R2 0.992 of the target loss, 0.964 of the source loss "
        "(studies/measured_tables.md)."
    )
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma"
    source = "Que et al. 2024, eq. 6, arXiv:2406.01375"
    shapes = {
        "alpha": EXPONENT,
        "beta": EXPONENT,
        "gamma": EXPONENT,
        "eta": Shape(0.01, 10.0, start=(0.1, 3.0)),
        "eps": EPSILON,
    }

    def configure(self) -> None:
        """Keep eta above 1 under the constraint: the proof of dL/dr < 0 needs it."""
        super().configure()
        if self.monotone == "paper":
            self.shapes = self.shapes | {"eta": Shape(1.0, 10.0, start=(1.05, 3.0))}

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four published terms."""
        return 1.0, x.N**-p.alpha, x.r**p.eta * x.D**-p.beta, (x.r + p.eps) ** -p.gamma

    def lower_bound_of_c(self, p: Letters) -> Value:
        """Return C0 / B = eta (1+eps)^(gamma+1) / (gamma D_min^beta)."""
        return p.eta * (1.0 + p.eps) ** (p.gamma + 1.0) / (p.gamma * self._min_d**p.beta)


class DCPT4(_DCPT):
    """L4 = E + A/N^alpha + B b^r/D^beta + C/c^r."""

    name = "dcpt-l4"
    equation = "L = E + A/N^alpha + B b^r/D^beta + C/c^r"
    shapes = {
        "alpha": EXPONENT,
        "beta": EXPONENT,
        "b": Shape(1e-4, 1e4, start=(0.1, 20.0)),
        "c": Shape(1e-4, 1e8, start=(1.1, 100.0)),
    }

    def configure(self) -> None:
        """Keep b and c above 1 under the constraint: the bound is derived for such."""
        super().configure()
        if self.monotone == "paper":
            self.shapes = self.shapes | {
                "b": Shape(1.0001, 1e4, start=(1.1, 20.0)),
                "c": Shape(1.01, 1e8, start=(1.5, 100.0)),
            }

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four published terms."""
        return 1.0, x.N**-p.alpha, p.b**x.r * x.D**-p.beta, (1.0 / p.c) ** x.r

    def lower_bound_of_c(self, p: Letters) -> Value:
        """Return C0 / B = ln(b) b c / (ln(c) D_min^beta), from dL/dr = 0 at r = 1 and D = D_min."""
        return log(p.b) * p.b * p.c / (log(p.c) * self._min_d**p.beta)


class DCPT5(_DCPT):
    """L5 = E + A/N^alpha + B/(r D + (1-r) sigma)^beta, as printed: sigma in billions of tokens."""

    name = "dcpt-l5"
    right = "To repeat the paper's comparison."
    wrong = "To forecast: it did not fit the measured runs (R2 0.65)."
    measured = (
        "Four domains at nine ratios, 30K to 125K parameters: R2 0.64 and 0.66 on its own fitted rows "
        "(studies/measured_tables.md)."
    )
    equation = "L = E + A/N^alpha + B/(r D + (1-r) sigma)^beta"
    amplitudes = ("E", "A", "B")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "sigma": Shape(1e-6, 1e3, start=(0.01, 3.0))}
    diverges_at_zero: tuple[str, ...] = ("n_params",)
    vanishing = {"n_params": ("A",)}
    choices = _DCPT.choices | {
        "sigma": Option(
            "tokens",
            ("tokens", "rate"),
            "tokens is the printed form; rate reads the foreign share as (1-r) sigma D, sigma being the worth of a "
            "foreign token: the printed form may have lost that D (reconstructed).",
        )
    }
    sigma: Literal["tokens", "rate"]

    def configure(self) -> None:
        """Read sigma as a rate, which makes the term of data a power of tokens."""
        if self.sigma == "rate":
            self.diverges_at_zero = ("n_params", "tokens")
            self.vanishing = {"n_params": ("A",), "tokens": ("B",)}
        super().configure()

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term and the term of effective tokens."""
        foreign = (1.0 - x.r) * p.sigma
        if self.sigma == "tokens":
            return 1.0, x.N**-p.alpha, (x.r * x.D + foreign) ** -p.beta
        return 1.0, x.N**-p.alpha, (x.r + foreign) ** -p.beta * x.D**-p.beta


class DCPT6(_DCPT):
    """L6 = E + A/N^alpha + B e^r/D^beta + C/(r+eps)^gamma (appendix)."""

    name = "dcpt-l6"
    equation = "L = E + A/N^alpha + B e^r/D^beta + C/(r+eps)^gamma"
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "gamma": EXPONENT, "eps": EPSILON}

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four published terms."""
        return 1.0, x.N**-p.alpha, exp(1.0 * x.r) * x.D**-p.beta, (x.r + p.eps) ** -p.gamma

    def lower_bound_of_c(self, p: Letters) -> Value:
        """Return C0 / B = e (1+eps)^(gamma+1) / (gamma D_min^beta)."""
        return math.e * (1.0 + p.eps) ** (p.gamma + 1.0) / (p.gamma * self._min_d**p.beta)


class DCPT7(_DCPT):
    """L7 = E + A/N^alpha + B (r+eps)^eta/D^beta + C/(r+eps)^gamma (appendix)."""

    name = "dcpt-l7"
    equation = "L = E + A/N^alpha + B (r+eps)^eta/D^beta + C/(r+eps)^gamma"
    shapes = DCPT3.shapes

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four published terms."""
        share = x.r + p.eps
        return 1.0, x.N**-p.alpha, share**p.eta * x.D**-p.beta, share**-p.gamma

    def lower_bound_of_c(self, p: Letters) -> Value:
        """Return C0 / B = eta (1+eps)^(eta+gamma) / (gamma D_min^beta)."""
        return p.eta * (1.0 + p.eps) ** (p.eta + p.gamma) / (p.gamma * self._min_d**p.beta)
