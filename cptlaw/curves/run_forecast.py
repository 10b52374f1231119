"""The answer of `forecast_run`: one row per unfinished run and eval, with what stands in the way."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cptlaw.findings import Finding, by_severity
from cptlaw.units import format_percent


@dataclass(frozen=True, repr=False)
class RunForecast:
    """Answer of `forecast_run`.

    Attributes
    ----------
    points
        One row per unfinished run and eval: run, eval, step (of the last planned phase), last_step, last_loss,
        progress, law, others (runs like it that were used), n_effective, loss, lo, hi, findings.
    interval
        Probability that a loss measured at the end lies between lo and hi.
    findings
        What concerns the table as a whole.
    """

    points: pd.DataFrame
    interval: float
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        records = [
            {**row, "findings": [finding.to_dict() for finding in row["findings"]]}
            for row in self.points.to_dict("records")
        ]
        return {
            "points": records,
            "interval": self.interval,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """All findings, of the table and of its rows, the worst first."""
        return by_severity([*self.findings, *(finding for row in self.points["findings"] for finding in row)])

    def summary(self) -> str:
        """Return the forecast as text."""
        shown = pd.DataFrame(
            {
                "run": self.points["run"],
                "eval": self.points["eval"],
                "seen": [
                    f"{row['last_step']:,} of {row['step']:,} steps ({format_percent(row['progress'], 3)})"
                    for row in self.points.to_dict("records")
                ],
                "last_loss": self.points["last_loss"],
                "end_loss": self.points["loss"],
                "lo": self.points["lo"],
                "hi": self.points["hi"],
                "others": self.points["others"],
                "law": self.points["law"],
            }
        )
        text = shown.to_string(index=False, float_format="{:.4f}".format)
        return "\n".join([text, *(f"  {finding}" for finding in self.all_findings)])

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(str(finding))}</li>" for finding in self.all_findings)
        return f"{self.points.drop(columns='findings').to_html(index=False)}<ul>{notes}</ul>"
