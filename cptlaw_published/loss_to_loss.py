"""One loss from another: the shifted power law between two evals, or between runs on two corpora."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pandas as pd

from cptlaw.laws.base import Law, Option, Shape
from cptlaw.laws.calculus import Letters, Value, maximum
from cptlaw.laws.parameters import positive

LEAST = 1e-6  # nats, of L0 - E0
BELOW = 0.999  # of the lowest loss that was fitted: up to where E0 is searched


class LossToLoss(Law):
    """L1 = E1 + K (L0 - E0)^kappa (Brandfonbrener et al. 2024, arXiv:2411.12925).

    L0 is another loss of the same run, or the loss of a run of the same compute on another corpus: column
    ``from_loss``. E0 lies below the lowest of the fitted ones, E1 is the loss that is left where L0 reaches E0. Read in
    public accounts of the paper that print the equation.
    """

    name = "loss-to-loss"
    order = 84
    equation = "L1 = E1 + K (L0 - E0)^kappa"
    source = "Brandfonbrener et al. 2024, arXiv:2411.12925"
    status = "secondary source"
    right = "A loss that another one, which is known or cheaper to forecast, goes along with: one eval from another."
    wrong = (
        "Other sizes of the step between the two: over-trained models, other tokenizers. E0 and E1 are hardly known."
    )
    measured = "Six corpora, up to 20 times the fitted compute, by its authors; here on no data of its own."
    inputs = ("from_loss",)
    amplitudes = ("E1", "K")
    shapes = {"E0": Shape(0.0, 1.0, start=(0.0, 0.9), scale="linear"), "kappa": Shape(0.05, 10.0, start=(0.5, 2.0))}
    choices = {
        "lowest": Option(
            0.4,
            "a positive number of nats",
            "Below which E0 lies. A fit takes the lowest loss that it reads.",
            positive,
        )
    }
    lowest: float

    def configure(self) -> None:
        """Keep E0 below the lowest loss."""
        top = BELOW * self.lowest
        self.shapes = self.shapes | {"E0": Shape(0.0, top, start=(0.0, 0.9 * top), scale="linear")}

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law whose E0 lies below the losses of these rows."""
        return self.with_options(lowest=float(frame["from_loss"].min())) if "from_loss" in frame.columns else self

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and the power of the other loss."""
        return 1.0, maximum((x.from_loss * 1.0) - p.E0, LEAST) ** p.kappa
