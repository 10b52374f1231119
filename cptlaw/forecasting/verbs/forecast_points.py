"""Forecast points with fits of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean, require_type
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.base_models import LOSS
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.one_corpus import fit_of_corpus
from cptlaw.fitting.solving.open_rates import with_rates
from cptlaw.fitting.uncertainty.answers import ForecastFrame
from cptlaw.forecasting.verbs.load_file import load_fit
from cptlaw.runs.points import PointsLike, as_points, in_tokens
from cptlaw.runs.schema import COLUMNS, corpus_of
from cptlaw.schedules import Schedule, SchedulesLike
from cptlaw.schedules.from_columns import phases_from_columns
from cptlaw.units import parse_probability


def forecast(
    fits: Fit | str | Path | Sequence[Fit | str | Path],
    at: PointsLike | str,
    interval: float | str | None = 0.9,
    schedules: SchedulesLike | None = None,
    *,
    every: int | None = None,
    domain: str | None = None,
) -> ForecastFrame:
    """Forecast points with one or several fits.

    Parameters
    ----------
    fits
        Fits, or their files.
    at
        Rows with the inputs of the laws: a DataFrame, a mapping of columns, or one point as text, such as
        ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"``.
    interval
        Probability that a measured loss lies between lo and hi; ``None`` leaves the two columns out.
    schedules
        For laws of loss curves: learning-rate schedules by run, or a schedules file, beside those of the fitted runs.
    every
        For laws of loss curves: each point names a run and no step, and stands for the curve of that run, a row at
        each multiple of so many steps up to the end of its schedule.
    domain
        The corpus that is asked about, where the fitted runs were on several (column ``domain``).

    Returns
    -------
    DataFrame
        One row per fit and point, as `Fit.forecast` gives them, with ``law`` and ``on``.

    Examples
    --------
    >>> import cptlaw as cl
    >>> rows = "replay in (0.1, 0.25, 0.5) and atpp >= 1.9 and ptpp in (31, 62, 124)"
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> fits = [cl.fit(law, runs, on="target", where=rows, starts=16) for law in ("ptpp-floor", "ptpp-nearest")]
    >>> table = cl.forecast(fits, "n_params=125K,tokens=1M,replay=25%,ptpp=279", interval=None)
    >>> table["law"].tolist()
    ['ptpp-floor', 'ptpp-nearest']
    """
    several: list[object] = list(fits) if isinstance(fits, list | tuple) else [fits]
    read: list[Any] = [load_fit(fit) if isinstance(fit, str | Path) else fit for fit in several]
    for fit in read:
        require_type(fit, Forecaster, "fits", "fits, as cl.fit(...) gives them, or their files")
    if schedules is not None:
        read = _with_schedules(read, schedules)
    if interval is not None:
        interval = parse_probability(interval, "interval (--interval)")
    frame = as_points(at)
    if domain is not None:
        if "domain" in frame.columns:
            raise UsageError("domain (--domain): the points name their corpora already. Give one of the two.")
        read = [fit_of_corpus(fit, domain) for fit in read]
    frame = frame if every is None else _along_schedules(frame, read, every)
    for fit in read:
        frame = in_tokens(frame, fit.data)
    if isinstance(at, str | Mapping):
        refuse_unknown(frame, read)
    # A point is one run for all evals: a rate that it leaves open is the one that the first fit of a target loss takes.
    of_target = next((fit for fit in read if fit.role == "target" and isinstance(fit, Fit)), None)
    rated = frame if of_target is None else with_rates(of_target, frame)
    asked = [(fit, frame if fit is of_target else rated) for fit in read]
    tables = [_forecast(fit, rows, interval).assign(law=fit.law.spec, on=fit.on) for fit, rows in asked]
    return ForecastFrame.of(pd.concat(tables, ignore_index=True), interval, read)


def _reads_schedules(fit: object) -> TypeGuard[LawFit | Average]:
    return isinstance(fit, LawFit | Average) and any(one.law.needs_schedules for one in fit.fits)


def _with_schedules(fits: Sequence[Forecaster], schedules: SchedulesLike) -> list[Forecaster]:
    """Return the fits with more schedules, those of them that read any."""
    if not any(map(_reads_schedules, fits)):
        names = ", ".join(dict.fromkeys(fit.law.spec for fit in fits))
        raise UsageError(
            f"schedules (--schedules): no law of {names} reads learning rates. Leave them out, or fit with them."
        )
    return [fit.with_schedules(schedules) if _reads_schedules(fit) else fit for fit in fits]


def _forecast(fit: Forecaster, frame: pd.DataFrame, interval: float | None) -> pd.DataFrame:
    """Forecast points; of laws of loss curves also such as name no run, each the end of a run of its own.

    Its pre-training is that of the run nearest to it, stretched to its budget; its CPT is what its columns tell
    (lr_schedule, lr_peak, warmup, lr_end, batch_tokens), else that of the same run, stretched to its tokens.
    """
    data = fit.data
    sized = [name for name in ("n_params", "ptpp", "tokens") if name in data.columns and name in frame.columns]
    given = "tokens" in sized and "step" in data.columns and not {"run", "step"} & set(frame.columns)
    if not _reads_schedules(fit) or not given or not bool((frame[sized] > 0).all(axis=None)):
        return fit.forecast(frame, interval)
    ends = _ends(data, fit.schedules)
    if ends.empty:
        return fit.forecast(frame, interval)
    near = [*sized, *(["lr_peak"] if "lr_peak" in frame.columns and "lr_peak" in ends.columns else [])]
    away = np.log(frame[near].to_numpy(dtype=float))[:, None] - np.log(ends[near].to_numpy(dtype=float))[None]
    nearest = ends.iloc[np.argmin(np.nansum(away**2, axis=2), axis=1)]
    schedules, assumed = {}, []
    for i in range(len(frame)):
        schedules[f"point {i}"], said = _schedule_of(frame.iloc[[i]], nearest.iloc[i], near, fit.schedules)
        assumed.append(said)
    points = frame.assign(run=list(schedules), step=[made.n_cpt for made in schedules.values()])
    forecasts = fit.with_schedules(schedules).forecast(points, interval)
    notes = [_note_of(said) for said in assumed]
    forecasts["findings"] = [(*rows, note) for rows, note in zip(forecasts["findings"], notes, strict=True)]
    return forecasts.drop(columns=["run", "step"])


def _ends(data: pd.DataFrame, schedules: Mapping[str, Schedule]) -> pd.DataFrame:
    """Return the last row of each run whose schedule is known."""
    known = data[data["run"].astype(str).isin(schedules) & data["step"].notna()]
    return known.loc[known.groupby("run", sort=False)["tokens"].idxmax()]


def _schedule_of(
    point: pd.DataFrame, nearest: pd.Series, near: Sequence[str], schedules: Mapping[str, Schedule]
) -> tuple[Schedule, list[str] | None]:
    """Return the schedule of a point, and what its columns leave to assume; None where they tell no schedule."""
    known = schedules[str(nearest["run"])]
    times = {name: float(point[name].iloc[0] / nearest[name]) for name in near}
    longer = float(np.prod([times[name] for name in near if name in ("n_params", "ptpp")]))
    rate = times["lr_peak"] if times.get("lr_peak", 0.0) > 0 else 1.0
    peak = float(np.max(np.asarray(known.lr)[known.n_pretrain + 1 :], initial=0.0))
    usual = {"lr_peak": peak * rate, "batch_tokens": float(nearest["tokens"] / nearest["step"])}
    told = point.drop(columns=[name for name in ("ptpp",) if name in point.columns])
    told = told.assign(**{name: told[name].fillna(one) if name in told else one for name, one in usual.items()})
    _, own, assumed = phases_from_columns(told, told.iloc[:0], "cpt")
    stretched = known.stretched(longer, times["tokens"] * float(nearest["step"]) / max(known.n_cpt, 1), rate)
    if own is None:
        return stretched, None
    return Schedule([*(phase for phase in stretched.phases if phase.phase == "pretrain"), own]), assumed


def _note_of(assumed: list[str] | None) -> Finding:
    """Say where the schedule of a point that names no run is from."""
    where = (
        "the point names no run: it is the end of a run of its own. Pre-training is that of the fitted run nearest to "
        "it, stretched to its budget;"
    )
    advice = "Give run and step of the point, with its schedule, if it will be trained otherwise."
    if assumed is None:
        said = f"{where} so is CPT, stretched to its tokens."
        return Finding("info", "schedule-of-nearest", said, advice, remedy=Remedy("schedules"))
    said = f"{where} CPT is as its columns say; assumed: {', '.join(assumed) or 'nothing'}."
    return Finding("info", "schedule-from-columns", said, advice, remedy=Remedy("schedules"))


def _along_schedules(frame: pd.DataFrame, fits: Sequence[Forecaster], every: int) -> pd.DataFrame:
    """Return points with a row at each multiple of so many steps of the last phase of their run's schedule."""
    if not every > 0:
        raise UsageError(f"every={every} (--every): expected a number of steps, 1 or more.")
    if "run" not in frame.columns or "step" in frame.columns:
        raise UsageError(
            "every (--every) gives the curve of a run: name it in the point, and no step, as in run=wsd-20k."
        )
    known: dict[str, Schedule] = {}
    for fit in fits:
        known |= getattr(fit, "schedules", {})
    curves = []
    for point in frame.to_dict("records"):
        name = str(point["run"])
        if name not in known:
            raise UsageError(
                f"every (--every): run {name!r} has no schedule.{did_you_mean(name, known)} Name it in a schedules "
                f"file (--schedules), and fit a law of loss curves."
            )
        end = known[name].n_cpt or known[name].n_pretrain
        steps = list(dict.fromkeys([*range(every, end, every), end]))
        curves.append(pd.DataFrame([point] * len(steps)).assign(step=steps))
    return pd.concat(curves, ignore_index=True)


def refuse_unknown(frame: pd.DataFrame, fits: Sequence[Forecaster]) -> None:
    """Refuse what a point says that is neither a column of runs tables nor one of the fitted rows.

    Raises
    ------
    UsageError
        If a key is unknown; the nearest one is named.
    """
    given = {name for fit in fits for name in (*fit.law.inputs, *fit.data.columns, *getattr(fit, "losses", ()))}
    known = [*dict.fromkeys([*COLUMNS, LOSS, *sorted(map(str, given))])]
    for name in map(str, frame.columns):
        if name not in known and not corpus_of(name):
            inputs = ", ".join(dict.fromkeys(one for fit in fits for one in fit.law.inputs))
            raise UsageError(f"points (--at): {name!r} is unknown.{did_you_mean(name, known)} The fit reads {inputs}.")
