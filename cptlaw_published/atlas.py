"""What the tokens of other corpora, and repeated ones, are worth to one corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.laws.base import EXPONENT, Amplitude, Option, Shape
from cptlaw.laws.calculus import Computed, Letters, Value, expm1, maximum, minimum
from cptlaw.laws.corpora import OWN, OfCorpora, own_corpus
from cptlaw.runs.schema import MIX

POOL = "unique_"


class Atlas(OfCorpora):
    """L = E + A/N^alpha + B/D_eff^beta with the effective tokens of a mix (Longpre et al. 2025, arXiv:2510.22037).

    D_eff = S(D_t; U_t) + sum_i tau_i S(D_i; U_i): the tokens of the eval's own corpus, and of every other one times
    what its tokens are worth to it, each of them saturating when its U unique tokens are repeated:

        S(D; U) = D up to U, and U (1 + (1 - exp(-lambda (D/U - 1)))/lambda) beyond.

    U stands in columns ``unique_NAME``; a corpus without one never ends. Here every corpus has a tau of its own, where
    the paper pools most languages in one. Read in public accounts of the paper that print these equations; its
    coefficients could not be looked up.
    """

    name = "atlas"
    order = 83
    equation = (
        "L = E + A/N^alpha + B/(S(D_t) + sum_i tau_i S(D_i))^beta,  "
        "S(D) = U (1 + (1 - e^(-lambda (D/U - 1)))/lambda) for D above U"
    )
    source = "Longpre et al. 2025, arXiv:2510.22037"
    status = "secondary source"
    right = "A scarce corpus beside others: what their tokens, and its own read again, are worth to it."
    wrong = "Corpora that do harm: no tau is below zero. Large models on small pools lose more from repetition."
    measured = "774 runs by its authors; here on no data of its own."
    inputs: tuple[str, ...] = ("n_params", "tokens")
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A", Amplitude("B", plausible=(0.2, 2.0)))
    shapes = {"alpha": EXPONENT, "beta": EXPONENT}
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",)}
    diverges_at_zero = ("n_params", "tokens")
    starts = 32
    choices = OfCorpora.choices | {
        "own": OWN,
        "pools": Option(
            (),
            "names of corpora joined by +",
            "The corpora with a column unique_NAME. A fit takes those that its table has.",
            lambda given: tuple(sorted(given.split("+") if isinstance(given, str) and given else given or ())),
        ),
    }
    own: str
    pools: tuple[str, ...]

    def configure(self) -> None:
        """Give each other corpus its worth, and repetition its decay where there are pools."""
        super().configure()
        for name in (*self.pools, *((self.own,) if self.own else ())):
            if self.corpora and name not in self.corpora:
                raise UsageError(f"{name!r} is no corpus of this mix; expected one of {', '.join(self.corpora)}.")
        others = [name for name in self.names if name != self.target]
        self.shapes = self.shapes | {f"tau_{name}": Shape(1e-4, 10.0, start=(0.03, 0.6)) for name in others}
        if self.pools:
            self.shapes["lambda"] = Shape(1e-3, 10.0, start=(0.03, 1.0))
            # A pool of one size is no defect of the design: what counts is how often it is read.
            self.steady_inputs = tuple(POOL + name for name in self.pools)
            self.inputs = (*self.inputs, *self.steady_inputs)

    @property
    def target(self) -> str:
        """The corpus that the eval measures."""
        return self.own or self.names[-1]

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law of these corpora and pools, with the corpus that the eval measures."""
        chosen = super().for_rows(frame, damage)
        pools = tuple(name for name in chosen.names if POOL + name in frame and frame[POOL + name].notna().any())
        return chosen.with_options(own=chosen.own or own_corpus(chosen, frame), pools=chosen.pools or pools)

    def saturated(self, name: str, x: Letters, p: Letters) -> Computed:
        """Return S(D; U) of one corpus, in the law's units."""
        # Tokens of this corpus: its share of all that was read.
        read: Computed = (getattr(x, MIX + name) * 1.0) * x.D
        if name not in self.pools:
            return read
        unique: Computed = (getattr(x, POOL + name) * 1.0) / self.units["tokens"]
        decay: Computed = getattr(p, "lambda")
        return minimum(read, unique) - unique * expm1(-decay * maximum(read / unique - 1.0, 0.0)) / decay

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the term of size and the term of effective tokens."""
        tokens = self.saturated(self.target, x, p)
        for name in self.names:
            if name != self.target:
                tokens = tokens + getattr(p, f"tau_{name}") * self.saturated(name, x, p)
        return 1.0, x.N**-p.alpha, tokens**-p.beta
