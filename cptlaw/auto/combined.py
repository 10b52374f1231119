"""What an average of laws and a fitted score have in common: the rows that they rest on."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cptlaw.fitting.saved import Saved
from cptlaw.runs.points import as_points


class Combined(Saved):
    """Base of what several fits make together; it forecasts and plans like one fit."""

    data: pd.DataFrame

    @property
    def n_points(self) -> int:
        """Measured rows."""
        return len(self.data)

    @property
    def n_runs(self) -> int:
        """Runs that they belong to."""
        return int(self.data["run"].nunique())

    @property
    def status(self) -> str:
        """How the searches ended."""
        raise NotImplementedError

    @property
    def rests_on(self) -> dict[str, Any]:
        """The last keys of its JSON: rows, searches and findings."""
        return {
            "n_points": self.n_points,
            "n_runs": self.n_runs,
            "status": self.status,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def completed(self, frame: Any) -> pd.DataFrame:
        """Return rows as laws read them."""
        return as_points(frame)
