"""The answer of `forecast_run`: one row per unfinished run and eval, with what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from cptlaw.findings import Finding, by_severity
from cptlaw.result import Result, Table, plain
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent

LOSSES = ("last_loss", "end_loss", "lo", "hi")


@dataclass(frozen=True, repr=False)
class RunForecast(Result):
    """Answer of `forecast_run`.

    Attributes
    ----------
    points
        One row per unfinished run and eval: run, eval, step (of the last planned phase), last_step, last_loss,
        progress, law, others (runs like it that were used), n_effective, loss, lo, hi, findings.
    interval
        Probability that a loss measured at the end lies between lo and hi.
    of_table
        Findings that concern the table as a whole.
    unit
        Of the losses.
    """

    points: pd.DataFrame
    interval: float
    of_table: tuple[Finding, ...] = ()
    unit: str = USUAL_UNIT

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        result: dict[str, object] = plain({"points": self.points, "interval": self.interval, "findings": self.of_table})
        return result

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, of the table and of its rows, the worst first."""
        return by_severity([*self.of_table, *(finding for row in self.points["findings"] for finding in row)])

    @property
    def title(self) -> str:
        """How many runs, and what lo and hi are."""
        n = len(self.points)
        bounds = f"lo to hi: {format_percent(self.interval)} interval of a loss measured at the last planned step"
        return f"{n} forecast{'' if n == 1 else 's'} of unfinished runs, {self.unit}; {bounds}"

    @property
    def tables(self) -> list[Table]:
        """The forecasts, one row for each run and eval."""
        seen = [
            f"{row['last_step']:,} of {row['step']:,} steps ({format_percent(row['progress'], 3)})"
            for row in self.points.to_dict("records")
        ]
        shown = self.points.assign(seen=seen).rename(columns={"loss": "end_loss"})
        columns = ["run", "eval", "seen", *LOSSES, "others", "law"]
        return [Table.of(shown[columns], dict.fromkeys(LOSSES, "{:.4f}".format))]
