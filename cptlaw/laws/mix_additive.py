"""The additive law of optimal mixes of k corpora."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pandas as pd

from cptlaw.laws.base import EXPONENT, Role
from cptlaw.laws.calculus import Letters, Value, reciprocal
from cptlaw.laws.corpora import BENT, OF_LOSS, WORTH, OfScale
from cptlaw.laws.described import Status
from cptlaw.laws.parameters import UsualPrior


class MixAdditive(OfScale):
    """L = E + 1/sum_i C_i h_i^gamma_i + A/N^alpha + B/D^beta (Shukor et al. 2025, arXiv:2507.09404).

    h_i is the share of corpus i in the mix. Size and tokens add to what the mix makes of the loss, so that the best
    mix is the same at every scale. Read in a public account of the paper that quotes the equation and this property;
    the paper itself was not at hand.
    """

    name = "mix-additive"
    order = 82
    equation = "L = E + 1/sum_i C_i h_i^gamma_i + A/N^alpha + B/D^beta"
    source = "Shukor et al. 2025, arXiv:2507.09404"
    status: ClassVar[Status] = "secondary source"
    right = "Twenty mixes and more of k corpora, at one scale or several: which mix is best, and what it reaches."
    wrong = "Where the best mix changes with scale, as with little data of one corpus: it says the same mix everywhere."
    measured = "60 mixes of seven corpora from scratch: studies/mixes.md."
    inputs: tuple[str, ...] = ("n_params", "tokens")
    amplitudes: tuple[str, ...] = ("E", "A", "B")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT}
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero = ("n_params", "tokens")
    starts = 16

    def configure(self) -> None:
        """Give each corpus its worth and its exponent."""
        super().configure()
        self.shapes = self.shapes | dict.fromkeys(self.per_corpus("C"), WORTH)
        self.shapes |= dict.fromkeys(self.per_corpus("gamma"), BENT)

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors; worths are one over what a mix changes, in any unit of the loss."""
        known = super().usual_of(role, frame)
        if frame is None:
            return known
        mean = 1.0 / (OF_LOSS * float(frame["loss"].mean()))
        return known | {name: (mean, *known[name][1:]) for name in self.per_corpus("C")}

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the terms of size and tokens, and the term of the mix, which has no amplitude."""
        scale: dict[str, Callable[[], Value]] = {"A": lambda: x.N**-p.alpha, "B": lambda: x.D**-p.beta}
        return 1.0, *(scale[name]() for name in self.amplitudes[1:]), self.of_mix(x, p)

    def of_mix(self, x: Letters, p: Letters) -> Value:
        """Return 1 / sum_i C_i h_i^gamma_i, what the mix adds to the loss whatever the scale."""
        worth: Value = 0.0
        for share, c, gamma in zip(self.shares_of(x), self.per_corpus("C"), self.per_corpus("gamma"), strict=True):
            worth = worth + getattr(p, c) * share ** getattr(p, gamma)
        return reciprocal(worth)
