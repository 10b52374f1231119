"""What everything that forecasts can do, whatever stands behind it: the protocol that plans and reports speak to.

One law, an average of several, what studies say without a row, the link of a score to losses: each is a `Forecaster`,
and so is whatever another package derives from it. Nothing above asks which of them it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.solving.open_rates import RATES
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.runs.points import PointsLike, as_points

if TYPE_CHECKING:
    from cptlaw.fitting.solving.law_on_rows import LawOnRows


@runtime_checkable
class Forecaster(Protocol):
    """A forecast of one eval.

    Attributes
    ----------
    on, role
        The eval and its role.
    data
        The fitted rows: run, inputs in raw units, loss; none where nothing was fitted.
    base
        Measured losses of base models: n_params, ptpp, loss.
    provenance
        Where the rows came from.
    """

    if TYPE_CHECKING:  # values here would stand in the way of dataclasses that have them as fields

        @property
        def on(self) -> str:
            """The eval."""

        @property
        def role(self) -> str:
            """Its role."""

        @property
        def data(self) -> pd.DataFrame:
            """The fitted rows."""

        @property
        def base(self) -> pd.DataFrame:
            """Measured losses of base models."""

        @property
        def provenance(self) -> Provenance:
            """Where the rows came from."""

        @property
        def findings(self) -> tuple[Finding, ...]:
            """What the fit found about its rows and itself."""

        @property
        def law(self) -> AnyLaw:
            """The law, or what stands for it: which inputs are read."""

    def predict(self, frame: PointsLike) -> Array:
        """Return the forecast loss of each row, (n,)."""
        ...

    def log_quantiles(self, frame: PointsLike, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss, shape (probabilities, n)."""
        ...

    def forecast(self, frame: PointsLike, interval: float | str | None = 0.9) -> pd.DataFrame:
        """Return the rows of `frame` with loss, lo, hi and findings."""
        ...

    # -- what most of them have alike ----------------------------------------------------------------------------------

    def completed(self, frame: PointsLike) -> pd.DataFrame:
        """Return rows as laws read them, with the rates that they leave open."""
        return as_points(frame)

    @property
    def laws(self) -> tuple[AnyLaw, ...]:
        """The law, or those that are averaged."""
        return (self.law,)

    @property
    def fits(self) -> Sequence[LawOnRows]:
        """The fits of single laws that it is made of."""
        return ()

    @property
    def law_option(self) -> str:
        """What ``--law`` takes to fit it again."""
        return self.law.spec

    @property
    def uses_studies(self) -> bool:
        """Whether studies of others say how sure it is, where it has few runs."""
        return False

    @property
    def of_changes(self) -> bool:
        """Whether it forecasts changes from a base model's loss, so that a guess of that makes none of them unsure."""
        return False

    def fills_in(self, name: str) -> bool:
        """Whether a point may leave an input open: the rows have none of it, or it is a rate, which fits choose."""
        return not self.data.empty and (name in RATES or name not in self.data.columns)

    def half_width_of_change(self, rows: pd.DataFrame, half_width: Array, coverage: float) -> Array | None:
        """Return the half-width of the log of a loss over its base model's, (n,), given that of the log loss.

        None where what is in doubt about the two together is not known.
        """
        return None
