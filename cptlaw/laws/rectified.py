"""Fine-tuning on little text: the loss hardly moves at first, and is a power of the new text later on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cptlaw.laws.base import EXPONENT, Amplitude, Law, Role, Shape
from cptlaw.laws.calculus import Letters, Value, exp, log
from cptlaw.laws.parameters import UsualPrior


class Rectified(Law):
    """L = E + B N^-alpha/(1 + (D/D_0)^beta) (Lin et al. 2024, eq. 4, arXiv:2402.02314, with a factor of size).

    The paper has B/(D_l + D^beta) and fits it to each base model; D_0^beta is its D_l, what pre-training is worth to
    the new text: far below D_0 more text hardly helps. Here base models of several sizes share E, D_0 and beta, and
    what is left to learn goes as N^-alpha, which is ours: what one size is ahead of another shrinks as both learn. D
    may count samples as well as tokens.
    """

    name = "rectified"
    version = 2
    right = "Fine-tuning on 100 to a few million samples from base models of several sizes of one family."
    wrong = "Replay, forgetting, and base models of several families in one table."
    measured = "Fine-tuning of eight families on FLAN, as a member of law auto: studies/bench.md."
    order = 70
    equation = "L = E + B N^-alpha/(1 + (D/D_0)^beta)"
    source = "Lin et al. 2024, arXiv:2402.02314, with a factor of size of this project"
    status = "secondary source"
    inputs = ("n_params", "tokens")
    units = {"n_params": 1e9, "tokens": 1.0}
    amplitudes = (Amplitude("E", usual=(0.2, 0.6, "share")), Amplitude("B", usual=(0.3, 1.0, "share")))
    shapes = {
        "alpha": EXPONENT,
        "beta": Shape(0.05, 2.0, start=(0.2, 1.0), usual=(0.5, 0.5, "log")),
        "D_0": Shape(1e-3, 1e15, start=(1e3, 1e8)),
    }
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("B",), "tokens": ("B",)}
    diverges_at_zero = ("n_params",)

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors: the loss begins to fall somewhere among the rows, whatever D counts."""
        known = super().usual_of(role, frame)
        amounts = () if frame is None else frame.loc[frame["tokens"] > 0, "tokens"]
        return known | {"D_0": (float(np.exp(np.log(amounts).mean())), 2.0, "log")} if len(amounts) else known

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and what is left to learn."""
        return 1.0, x.N**-p.alpha * (1.0 + exp(p.beta * (log(x.D) - log(p.D_0)))) ** -1.0
