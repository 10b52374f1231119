"""A fitted score seen as an error rate, 1 - score, so that planners keep limits on it as they do on losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.cached import Cache
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.provenance import Provenance
from cptlaw.laws.combined_law import CombinedLaw
from cptlaw.runs.points import PointsLike
from cptlaw_scores.laws.score_law import Array
from cptlaw_scores.score_fit import ScoreFit

LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorRate(Forecaster):
    """The share of items that are answered wrongly; it forecasts like a fitted loss."""

    is_error_rate: ClassVar[bool] = True
    score: ScoreFit
    role: str = "other"
    _cache: Cache = field(default_factory=dict)

    @property
    def law(self) -> CombinedLaw:
        """The law of the score."""
        return self.score.law

    @property
    def on(self) -> str:
        """The eval."""
        return self.score.on

    @property
    def data(self) -> pd.DataFrame:
        """The measured scores."""
        return self.score.data

    @property
    def base(self) -> pd.DataFrame:
        """The measured scores of base models."""
        return self.score.base

    @property
    def provenance(self) -> Provenance:
        """Where the data came from."""
        return self.score.provenance

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the fit found about its rows and itself."""
        return self.score.findings

    def predict(self, frame: PointsLike) -> Array:
        """Return the forecast error rate of each row, (n,)."""
        values: Array = np.maximum(1.0 - self.score.predict(frame), LEAST)
        return values

    def log_quantiles(self, frame: PointsLike, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log error rate, (probabilities, n)."""
        shares = self.score.quantiles(frame, [1.0 - chance for chance in probabilities], measured)
        values: Array = np.log(np.maximum(1.0 - shares, LEAST))
        return values

    def forecast(self, frame: PointsLike, interval: float | str | None = 0.9) -> pd.DataFrame:
        """Return the forecasts of the score with loss, lo and hi as error rates."""
        table = self.score.forecast(frame, interval)
        swapped = {"loss": 1.0 - table["loss"]}
        if interval is not None:
            swapped |= {"lo": 1.0 - table["hi"], "hi": 1.0 - table["lo"]}
        return pd.DataFrame(table).assign(**swapped)
