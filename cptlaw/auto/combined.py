"""What an average of laws and a fitted score have in common: the rows that they rest on, and their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.result import Result
from cptlaw.runs.points import as_points


class Combined(Result):
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

    def text(self) -> str:
        """Return the content of its file."""
        raise NotImplementedError

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write it with all its fits to one JSON file for `load_fit`; only `force` overwrites what is no fit."""
        from cptlaw.writing import FIT, write_text

        return write_text(path, self.text(), FIT, force=force)
