"""A fitted score seen as an error rate, 1 - score, so that planners keep limits on it as they do on losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.fitting.members import LawsTogether
from cptlaw.laws.score_law import Array

LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorRate:
    """The share of items that are answered wrongly; it forecasts like a fitted loss."""

    score: Any
    role: str = "other"
    _cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def law(self) -> LawsTogether:
        """The law of the score."""
        found: LawsTogether = self.score.law
        return found

    @property
    def on(self) -> str:
        """The eval."""
        return str(self.score.on)

    @property
    def data(self) -> pd.DataFrame:
        """The measured scores."""
        found: pd.DataFrame = self.score.data
        return found

    @property
    def base(self) -> pd.DataFrame:
        """The measured scores of base models."""
        found: pd.DataFrame = self.score.base
        return found

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where the data came from."""
        found: Mapping[str, Any] = self.score.provenance
        return found

    def predict(self, frame: Any) -> Array:
        """Return the forecast error rate of each row, (n,)."""
        found: Array = np.maximum(1.0 - self.score.predict(frame), LEAST)
        return found

    def log_quantiles(self, frame: Any, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log error rate, (probabilities, n)."""
        shares = self.score.quantiles(frame, [1.0 - chance for chance in probabilities], measured)
        found: Array = np.log(np.maximum(1.0 - shares, LEAST))
        return found

    def forecast(self, frame: Any, interval: float | None = 0.9) -> pd.DataFrame:
        """Return the forecasts of the score with loss, lo and hi as error rates."""
        table: pd.DataFrame = self.score.forecast(frame, interval)
        swapped = {"loss": 1.0 - table["loss"]}
        if interval is not None:
            swapped |= {"lo": 1.0 - table["hi"], "hi": 1.0 - table["lo"]}
        return pd.DataFrame(table).assign(**swapped)
