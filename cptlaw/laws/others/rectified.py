"""Fine-tuning on little text: the loss hardly moves at first, and is a power of the new text later on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cptlaw.laws.base import EXPONENT, Amplitude, Law, Shape

FEW = 1e6  # tokens or samples of a unit of D


class Rectified(Law):
    """L = E + A/N^alpha + B/(D_l + D^beta) (Lin et al. 2024, eq. 4, arXiv:2402.02314, with a term of size).

    D_l is what pre-training is worth to the new text: while D^beta is far below it, more text hardly helps. The paper
    fits E, B, D_l and beta to each base model; here base models of several sizes share them, and differ by A/N^alpha,
    which is ours. D may count samples as well as tokens.
    """

    name = "rectified"
    right = "Fine-tuning on 100 to a few million samples from base models of several sizes of one family."
    wrong = "Replay, forgetting, and base models of several families in one table."
    measured = "Fine-tuning of four families on FLAN, as a member of law auto: studies/bench.md."
    order = 70
    equation = "L = E + A/N^alpha + B/(D_l + D^beta)"
    source = "Lin et al. 2024, arXiv:2402.02314, with a term of size of this project"
    status = "secondary source"
    inputs = ("n_params", "tokens")
    units = {"n_params": 1e9, "tokens": FEW}
    amplitudes = (
        Amplitude("E", usual=(0.4, 0.6, "share")),
        Amplitude("A", usual=(0.2, 1.0, "share")),
        Amplitude("B", usual=(0.3, 1.0, "share")),
    )
    shapes = {
        "alpha": EXPONENT,
        "beta": Shape(0.05, 2.0, start=(0.2, 1.0), usual=(0.5, 0.5, "log")),
        "D_l": Shape(1e-4, 1e3, start=(0.03, 1.0), usual=(0.2, 1.0, "log")),
    }
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero = ("n_params",)

    def terms(self, x: Any, p: Any) -> Sequence[Any]:
        """Return the constant, the size term and the term of the new text."""
        return 1.0, x.N**-p.alpha, (x.D**p.beta + p.D_l) ** -1.0
