"""The bivariate law of a corpus' share and of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.laws.base import EXPONENT
from cptlaw.laws.calculus import Letters, Value
from cptlaw.laws.corpora import OWN, OfCorpora, own_corpus
from cptlaw.runs.schema import MIX


class BiMix(OfCorpora):
    """L_i = (A_i/r_i^alpha_i) (B_i/s^beta_i + C_i) (Ge et al. 2024, arXiv:2405.14908).

    r_i is the share of the eval's own corpus and s how far training has gone, here in tokens. The paper's A_i is a
    factor of both B_i and C_i, which no data can tell from them: it is part of B and C here. The law is infinite where
    the own corpus has no share; the other corpora count for nothing.
    """

    name = "bimix"
    order = 82
    equation = "L = r^-alpha (B/s^beta + C),  r the share of the eval's own corpus, s = D"
    source = "Ge et al. 2024, arXiv:2405.14908"
    status = "secondary source"
    right = "Several mixes and checkpoints of one model, and the loss of a corpus that is part of the mix."
    wrong = "Evals that no corpus of the mix is drawn from, corpora that help each other, and other sizes."
    measured = "60 mixes of seven corpora from scratch: studies/mixes.md."
    inputs: tuple[str, ...] = ("tokens",)
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes: tuple[str, ...] = ("B", "C")
    shapes = {"alpha": replace(EXPONENT, low=1e-4, start=(0.01, 0.3)), "beta": EXPONENT}
    decreasing = ("tokens",)
    vanishing = {"tokens": ("B",)}
    diverges_at_zero = ("tokens",)
    starts = 32

    choices = OfCorpora.choices | {"own": OWN}
    own: str

    def configure(self) -> None:
        """Check that the own corpus is one of those of the mix."""
        super().configure()
        if self.corpora and self.own and self.own not in self.corpora:
            raise UsageError(f"own={self.own}: expected one of {', '.join(self.corpora)}.")

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law of these corpora, with the one that the eval measures."""
        chosen = super().for_rows(frame, damage)
        return chosen if chosen.own else chosen.with_options(own=own_corpus(chosen, frame))

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the term of tokens and the constant, both times a power of the own share."""
        share = getattr(x, MIX + (self.own or self.names[-1]))
        return share**-p.alpha * x.D**-p.beta, share**-p.alpha
