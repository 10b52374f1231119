"""Training and inference in few bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pandas as pd

from cptlaw.laws.base import EXPONENT, Amplitude, Law, Option, Shape
from cptlaw.laws.calculus import Letters, Value, exp, expm1, log
from cptlaw.laws.parameters import IN_RAW_COUNTS, some_of

TRAINED = {"bits_weights": "gamma_w", "bits_activations": "gamma_a", "bits_kv": "gamma_kv"}
POST = ("gamma_D", "gamma_N", "gamma_post")
OF_BITS = Shape(0.2, 10.0, start=(0.8, 4.0))


class Precision(Law):
    """L = A N_eff^-alpha + B D^-beta + E + C_T D^gamma_D N^-gamma_N exp(-P_post/gamma_post) (Kumar et al. 2024).

    arXiv:2411.04330, eq. 2 and 4: N_eff = N (1 - e^(-P_w/gamma_w)) (1 - e^(-P_a/gamma_a)) (1 - e^(-P_kv/gamma_kv)),
    with the bits of weights, activations and attention cache in training, and P_post those of the weights when
    quantised after it. A fit reads the columns of bits that its table has, each with more than one level. The paper's
    unified form, in which low precision in training makes a model less sensitive afterwards, is not included.
    """

    name = "precision"
    order = 16
    equation = (
        "L = E + A/N_eff^alpha + B/D^beta + C_T D^gamma_D/N^gamma_N e^(-P_post/gamma_post),  "
        "N_eff = N prod_i (1 - e^(-P_i/gamma_i))"
    )
    source = "Kumar et al. 2024, eq. 2 and 4, arXiv:2411.04330"
    right = "Runs trained in several precisions, or quantised afterwards to several."
    wrong = "Models that were trained in few bits and quantised further: they suffer less than it says."
    measured = "465 runs by its authors; here on no data of its own."
    inputs: tuple[str, ...] = ("n_params", "tokens", *TRAINED, "bits_post")
    amplitudes: tuple[str, ...] = (*IN_RAW_COUNTS, Amplitude("C_T", plausible=(0.005, 0.05)))
    shapes = {
        "alpha": EXPONENT,
        "beta": EXPONENT,
        **dict.fromkeys(TRAINED.values(), OF_BITS),
        "gamma_D": Shape(0.01, 2.0, start=(0.2, 0.7)),
        "gamma_N": Shape(0.01, 2.0, start=(0.2, 0.7)),
        "gamma_post": Shape(0.1, 5.0, start=(0.3, 1.0)),
    }
    decreasing: tuple[str, ...] = ("n_params", *TRAINED, "bits_post")
    diverges_at_zero = ("n_params",)
    choices = {
        "without": Option(
            (),
            f"some of {', '.join((*TRAINED, 'bits_post'))}, joined by +",
            "Columns of bits that are not read. A fit leaves out those that its rows lack, or have in one level alone.",
            some_of((*TRAINED, "bits_post")),
        )
    }
    without: tuple[str, ...]

    def configure(self) -> None:
        """Leave out the parameters of what is not read."""
        gone = {TRAINED[name] for name in self.without if name in TRAINED}
        gone |= set(POST) if "bits_post" in self.without else set()
        self.inputs = tuple(name for name in self.inputs if name not in self.without)
        self.decreasing = tuple(name for name in self.decreasing if name not in self.without)
        self.shapes = {name: shape for name, shape in self.shapes.items() if name not in gone}
        if "bits_post" in self.without:
            self.amplitudes = self.amplitudes[:-1]

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law that reads the bits that vary in these rows."""
        fixed = {name for name in (*TRAINED, "bits_post") if name not in frame or frame[name].nunique() < 2}
        if len(fixed) == len(TRAINED) + 1:
            fixed.remove("bits_weights")  # without any bits it would be another law: let the missing column be named
        return self.with_options(without=tuple(sorted({*self.without, *fixed})))

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the terms of effective size and of tokens, and what quantising afterwards costs."""
        size: Value = log(x.N)
        for name, gamma in TRAINED.items():
            if name not in self.without:
                # The logarithm of N_eff is a sum, so that one exp takes all powers of it.
                size = size + log(-1.0 * expm1(-1.0 * (getattr(x, name) * 1.0) / getattr(p, gamma)))
        terms = [1.0, exp(-p.alpha * size), x.D**-p.beta]
        if "bits_post" not in self.without:
            terms.append(exp(p.gamma_D * log(x.D) - p.gamma_N * log(x.N) - (x.bits_post * 1.0) / p.gamma_post))
        return terms
