"""Score sealed forecasts against what was measured since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean, join_names
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.solving.origin import digest
from cptlaw.forecasting.backtest.metrics import error, inside
from cptlaw.forecasting.sealing.seal import NOT_INPUTS, Seal, is_empty, is_score, load_seal
from cptlaw.result import Result, Table, plain
from cptlaw.runs import Runs, read_runs
from cptlaw.units import format_percent, format_quantity

# How far, relatively, a run may be from what was forecast: runs end with a whole step, and sizes are named roundly.
TOLERANCE = {"tokens": 0.02, "n_params": 0.005, "ptpp": 0.005, "lr_peak": 0.005}
Point = Mapping[str, str | float | None]  # of a seal: the inputs, and what was forecast there
FIRST, LAST = ("seal", "law", "on", "run"), ("loss", "lo", "hi", "measured", "error", "inside")
ABSOLUTE = {"replay": 1e-4, "ratio": 1e-4, "step": 0.5}


@dataclass(frozen=True, repr=False)
class Scores(Result):
    """Sealed forecasts beside their measurements.

    Attributes
    ----------
    frame
        One row per forecast and measured run: seal, law, on, run, the inputs as forecast, loss, lo, hi,
        measured (nats), error (forecast / measured - 1; of a score forecast - measured) and inside: whether the
        interval held, missing without one.
    totals
        One row per seal, law and eval: measured runs, mean absolute and mean error, share inside, interval asked.
    findings
        What was not measured, and what was known before.
    """

    frame: pd.DataFrame
    totals: pd.DataFrame
    findings: tuple[Finding, ...] = ()

    @property
    def title(self) -> str:
        """What was scored."""
        seals, scores = self.frame["seal"].nunique(), len(self.frame)
        return f"{scores} score{'s' * (scores != 1)} of {seals} sealed forecast{'s' * (seals != 1)}"

    @property
    def tables(self) -> list[Table]:
        """The totals, and every forecast beside its measurement."""
        signed, share = "{:+.2%}".format, "{:.0%}".format
        totals = {"mean absolute error": "{:.2%}".format, "mean error": signed, "inside": share, "asked": share}
        rows: dict[str, Callable[..., str]] = dict.fromkeys(("n_params", "tokens", "ptpp"), format_quantity)
        rows |= dict.fromkeys(("loss", "lo", "hi", "measured"), "{:.4f}".format)
        rows |= {"replay": format_percent, "error": signed, "inside": lambda held: "yes" if held else "no"}
        named = self.totals.rename(columns=lambda name: name.replace("_", " "))
        return [
            Table.of(named if self.frame["seal"].nunique() > 1 else named.drop(columns="seal"), totals),
            Table.of(self.frame.drop(columns="seal"), rows),
        ]

    def to_dict(self) -> dict[str, object]:
        """Return rows, totals and findings as plain data."""
        result: dict[str, object] = plain({"rows": self.frame, "totals": self.totals, "findings": self.findings})
        return result


def score(
    seals: Seal | str | Path | Sequence[Seal | str | Path],
    runs: Runs | pd.DataFrame | str | Path,
    where: str | None = None,
) -> Scores:
    """Read what was measured at the points of sealed forecasts.

    Parameters
    ----------
    seals
        Sealed forecasts, or their files.
    runs
        A runs table with the measurements.
    where
        Keep these rows of it: what the forecast does not say, such as the schedule.

    Raises
    ------
    DataError
        If a seal was broken, an eval is not in the table, or no point of the seals has been measured.

    Notes
    -----
    A run belongs to a point if the inputs agree: sizes, budgets and rates to 0.5 %, tokens to 2 % (of a run's rows, the
    nearest counts), replay to 0.0001. Every run counts, so several seeds are several measurements. Runs whose losses
    were among the fitted rows are left out: they were known.
    """
    several = [seals] if isinstance(seals, Seal | str | Path) else list(seals)
    read = [item if isinstance(item, Seal) else load_seal(item) for item in several]
    if twice := [seal.label for place, seal in enumerate(read) if seal.sha256 in {one.sha256 for one in read[:place]}]:
        raise UsageError(
            f"{twice[0]} is given twice, or under two names: its forecasts would count twice. Leave it out."
        )
    if not read:
        raise UsageError("score needs sealed forecasts, written by `cptlaw register FORECAST.json -o SEALED.json`.")
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    if where is not None:
        table = table.where(where)
    rows: list[dict[str, object]] = []
    findings: list[Finding] = []
    for seal in read:
        result, notes = _score_one(seal, table)
        rows += result
        findings += notes
    if not rows:
        asked = " ".join(dict.fromkeys(finding.message for finding in findings))
        raise DataError(f"{table.label}: nothing to score. {asked}")
    frame = pd.DataFrame(rows)
    inputs = [name for name in frame.columns if name not in (*FIRST, *LAST)]  # seals need not name the same ones
    frame = frame[[*FIRST, *inputs, *LAST]]
    return Scores(frame, _totals(frame, read), by_severity(findings))


def _score_one(seal: Seal, table: Runs) -> tuple[list[dict[str, object]], list[Finding]]:
    known = {(item.get("law"), item.get("on")): set(str(item.get("fitted_runs") or "").split()) for item in seal.laws}
    rows, missing, seen = [], list[str](), dict[str, None]()
    for point in seal.points:
        on = str(point["on"])
        if on not in table.evals:
            raise DataError(
                f"{seal.label}: forecasts the eval {on!r}, which {table.label} does not have."
                f"{did_you_mean(on, table.evals)} Its evals: {', '.join(table.evals)}. Read the column of that loss "
                f"as {on!r}, or score another table."
            )
        measured = _measured_at(point, table.frame[table.frame["eval"] == on], seal, table)
        # The average of laws knows what any of them was fitted to.
        of_eval = set().union(*(names for (_, fitted_eval), names in known.items() if fitted_eval == on))
        fitted = known.get((point.get("law"), on)) or of_eval
        for run, loss in measured.items():
            # Names of runs are kept as digests: a seal may be shown to those who must not see the table.
            if digest(run) in fitted:
                seen[run] = None
            else:
                rows.append(_row(seal, point, run, loss))
        if not measured:
            missing.append(_described(point))
    notes = []
    if missing:
        every = list(dict.fromkeys(missing))
        shown = "; ".join(every) if len(every) <= 3 else f"{every[0]} and {len(every) - 1} more"
        message = f"{seal.label}: {len(missing)} of {len(seal.points)} forecasts have no run in {table.label}: {shown}."
        advice = "Score again when these runs are measured; until then this is a part of what was sealed."
        notes.append(Finding("warning", "not-measured", message, advice))
    if seen:
        message = f"{seal.label}: {join_names(seen, 3)} had been fitted when this was sealed; no score counts them."
        advice = "A forecast is scored on runs that it has not seen."
        notes.append(Finding("warning", "known-before", message, advice))
    return rows, notes


def _measured_at(point: Point, frame: pd.DataFrame, seal: Seal, table: Runs) -> dict[str, float]:
    """Return the loss of each run that was measured at a point, at the nearest tokens."""
    keep, distance = np.ones(len(frame), dtype=bool), np.zeros(len(frame))
    for name, value in _inputs(point).items():
        if name not in frame.columns:
            raise DataError(
                f"{seal.label}: point: was forecast at {name} {value}, and {table.label} has no column {name!r} to "
                f"find its run by."
            )
        if isinstance(value, str):
            # One by one: pandas refuses a column in which some text holds half a character.
            keep &= np.array([str(one) == value for one in frame[name]], dtype=bool)
            continue
        with np.errstate(all="ignore"):
            apart = np.abs(frame[name].to_numpy(dtype=float) - value) / (1.0 if name in ABSOLUTE else abs(value) or 1.0)
        # Trainers round: sizes to whole layers, tokens to whole batches, so that no run lies at the very point.
        keep &= apart <= ABSOLUTE.get(name, TOLERANCE.get(name, 0.005))
        distance = apart if name == "tokens" else distance
    chosen = frame[keep].assign(_distance=distance[keep])
    # One row of a run: its neighbours along the curve err with it and would count it many times.
    nearest = chosen.sort_values("_distance", kind="stable").drop_duplicates("run").sort_index()
    return dict(zip(nearest["run"].astype(str), nearest["loss"].astype(float), strict=True))


def _row(seal: Seal, point: Mapping[str, Any], run: str, measured: float) -> dict[str, object]:
    about = {"seal": seal.label, "law": point.get("law"), "on": point["on"], "run": run}
    inputs = {name: value for name, value in point.items() if name not in NOT_INPUTS and name != "run"}
    loss, ends = float(point["loss"]), {"lo": point.get("lo"), "hi": point.get("hi"), "measured": measured}
    held = None if None in ends.values() or is_empty(point) else bool(inside(ends))
    return {**about, **inputs, "loss": loss, **ends, "error": error(loss, measured, is_score(point)), "inside": held}


def _totals(frame: pd.DataFrame, seals: Sequence[Seal]) -> pd.DataFrame:
    # Seal by seal: two seals of one law are two forecasts, of other fits, and their mean is neither's.
    groups = frame.groupby(["seal", "law", "on"], sort=False, dropna=False)
    totals = groups.agg(
        measured=("run", "size"),
        runs=("run", "nunique"),
        mean_absolute_error=("error", lambda missed: missed.abs().mean()),
        mean_error=("error", "mean"),
        inside=("inside", lambda held: held.dropna().astype(float).mean()),
    ).reset_index()
    totals["asked"] = totals["seal"].map({seal.label: seal.interval for seal in seals})
    return totals.sort_values(["on", "mean_absolute_error"], ignore_index=True)


def _inputs(point: Point) -> dict[str, str | float]:
    return {name: value for name, value in point.items() if name not in NOT_INPUTS and value is not None}


def _described(point: Point) -> str:
    told = (f"{name} {one if isinstance(one, str) else format_quantity(one)}" for name, one in _inputs(point).items())
    return f"{point['on']} at {', '.join(told)}"
