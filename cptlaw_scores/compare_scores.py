"""Laws of scores judged by what they forecast: fitted to some models, losses included, and held against others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, FitError, UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.folds import split
from cptlaw.fitting.uncertainty.answers import AnswerFrame
from cptlaw.forecasting.backtest.metrics import error, half_width, inside
from cptlaw.forecasting.backtest.splits import HowToCompare
from cptlaw.result import Progress, Result, Table, plain
from cptlaw.runs import Runs
from cptlaw_scores.fit_scores import fit_scores

BASELINE = "score-flat"  # nothing moves: what every law has to beat
SHOWN = ("law", "mae_points", "bias_points", "covered", "half_width", "n_fit", "n_test")


@dataclass(frozen=True, repr=False, eq=False)
class ScoreComparison(Result):
    """Laws of scores by what they forecast.

    Attributes
    ----------
    on
        The eval.
    frame
        One row per law, best first: law, mae_points, bias_points, covered (share of measured scores within the 90 %
        interval), half_width (points), n_fit, n_test, findings.
    """

    on: str
    frame: pd.DataFrame

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands against laws."""
        return by_severity(finding for row in self.frame["findings"] for finding in row)

    @property
    def best(self) -> str:
        """The law that forecasts best."""
        return str(self.frame["law"].iloc[0])

    best_law = best  # no other forecasts stand beside the laws of scores

    @property
    def title(self) -> str:
        """Which law forecasts best, and by how much it is off."""
        row = self.frame.iloc[0]
        off = f"{row['mae_points']:.2g} points off on {row['n_test']} test points"
        return f"{self.best} forecasts {self.on} best: {off}"

    @property
    def tables(self) -> list[Table]:
        """The scores of the laws."""
        points = dict.fromkeys(("mae_points", "bias_points", "half_width"), "{:.2f}".format)
        note = "in points; covered: share of the measured scores within the 90% interval"
        return [Table.of(self.frame[list(SHOWN)], {**points, "covered": "{:.2f}".format}, note=note)]

    def to_dict(self) -> dict[str, object]:
        """Return the rows."""
        result: dict[str, object] = plain({"on": self.on, "rows": self.frame})
        return result


class ScoreComparisonFrame(AnswerFrame):
    """Laws of scores, best first; `answer` has them as text, page and JSON."""

    _metadata = ["on"]
    on: str = ""

    @property
    def answer(self) -> ScoreComparison:
        """The comparison in title, lines, tables and findings."""
        return ScoreComparison(self.on, self)


def compare_scores(
    laws: Sequence[str], runs: Runs, on: str, where: str | None, how: HowToCompare, progress: Progress | None
) -> ScoreComparisonFrame:
    """Fit laws of scores to some models and score their forecasts of others.

    Raises
    ------
    UsageError
        If there are anchors, which scores do not take.
    FitError
        If no law could be fitted.
    """
    if how.get("anchors_where") is not None:
        raise UsageError("--anchors-where goes with laws of losses, not with scores.")
    table = runs if where is None else runs.where(where)
    scored, cv = table.on(on).adapted(), how.get("cv")
    if cv is not None:
        folds, _ = split(scored.frame, cv)
        # Held-out models leave with their losses too, or the carrying loss would be known where the score is forecast.
        cuts = [(_without(table, scored.frame[fold.test]), scored.frame[fold.test]) for fold in folds]
    else:
        cuts = [(table.where(how.get("fit_where") or ""), scored.where(how.get("test_where") or "").frame)]
    rows = []
    for law in dict.fromkeys([*laws, BASELINE]):
        rows.append(_row(law, cuts, on, how.get("seed", 0)))
        if progress is not None and law in laws:
            progress(law)
    if not any("mae_points" in row for row in rows):
        raise FitError(" | ".join(f"{row['law']}: {row['findings'][0].message}" for row in rows))
    frame = pd.DataFrame(rows, columns=[*SHOWN, "findings"])
    result = ScoreComparisonFrame(frame.sort_values("mae_points", kind="stable", ignore_index=True))
    result.on = on
    return result


def _row(law: str, cuts: Sequence[tuple[Runs, pd.DataFrame]], on: str, seed: int) -> dict[str, Any]:
    parts, fitted = [], []
    try:
        for runs, test in cuts:
            fit = fit_scores(runs, on, law_name=law, seed=seed)
            # Inputs alone: a loss measured beside the held-out score must not be read.
            asked = test[[name for name in fit.law.inputs if name in test.columns] or ["n_params"]]
            parts.append(fit.forecast(asked)[["loss", "lo", "hi"]].assign(measured=test["loss"].to_numpy()))
            fitted.append(fit.n_points)
    except CptlawError as problem:
        return {"law": law, "n_fit": 0, "n_test": 0, "findings": (Finding("error", "not-fitted", str(problem)),)}
    table = pd.concat(parts).astype(float)
    missed = error(table["loss"].to_numpy(), table["measured"].to_numpy(), share=True)
    return {
        "law": law,
        "mae_points": 100.0 * float(np.abs(missed).mean()),
        "bias_points": 100.0 * float(missed.mean()),
        "covered": float(inside(table).mean()),
        "half_width": 100.0 * float(half_width(table).mean()),
        "n_fit": round(float(np.mean(fitted))),
        "n_test": len(table),
        "findings": (),
    }


def _without(table: Runs, held_out: pd.DataFrame) -> Runs:
    """Return the table without the runs that are held out, their losses included."""
    return table.keep(~table.frame["run"].astype(str).isin(set(held_out["run"].astype(str))).to_numpy())
