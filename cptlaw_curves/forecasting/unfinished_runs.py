"""Where an unfinished run will end: its first rows, the rest of its planned schedule, and runs like it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError, UsageError, did_you_mean, join_names
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.laws import law
from cptlaw.laws.curve_rows import curve_rows, global_steps, thinned
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.metrics import loss_unit
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import Schedule, SchedulesLike, areas, read_schedules
from cptlaw.units import parse_probability
from cptlaw_curves.forecasting.decay import FALL, Decay
from cptlaw_curves.forecasting.posterior import Normal, posterior
from cptlaw_curves.forecasting.prior_average import average
from cptlaw_curves.forecasting.priors import Coordinates
from cptlaw_curves.forecasting.run_forecast import RunForecast
from cptlaw_curves.laws.curve_law import CurveLaw

LEAST = 3  # rows of a run after its start, from which it is forecast
WIDER = 2.0  # factor on the spread of a prior, for its version with less weight
MOST = 120  # rows of one run that are looked at; longer logs are grouped
EARLY = 1000  # steps after the warm-up of a training from scratch that break the laws, at most a third of the log
ALIKE = ("n_params", "ptpp", "replay", "domain", "tokenizer", "batch_tokens")  # columns in which runs must agree
LEAST_FALLING = 4  # rows while the rate falls, from which a rise of the loss is looked for
SURE, LEAST_RISE = 3.0, 0.001  # standard errors, and half a rise in log loss, from which it is said
OTHER_RATE = 0.05  # relative difference between the logged and the planned rate from which it is said


def forecast_run(
    runs: RunsLike,
    schedules: SchedulesLike,
    run: str | None = None,
    *,
    interval: float | str = 0.9,
    law_name: str | None = None,
    where: str | None = None,
    every: int | None = None,
) -> RunForecast:
    """Forecast the losses at the end of runs that are not finished, or on the way to it.

    A run is unfinished where its schedule has more steps than its rows. The first rows of a run do not determine a
    curve law, so the forecast is a posterior: priors from the coefficients published for other models, rows of finished
    runs like it where the table has some, and its own rows. Call it again as rows arrive; nothing is kept in between.

    Parameters
    ----------
    runs
        The runs table, or what `read_runs` takes: run, eval, step and loss; phase where rows of both phases are there.
        Steps count from the start of their phase.
    schedules
        Schedules by run, or a schedules file: the whole plan of the unfinished runs, pre-training included where it is
        known. Finished runs may have theirs in the column ``lr``.
    run
        One run; all unfinished ones where not given.
    interval
        Probability that a loss measured at the end lies between lo and hi.
    law_name
        lr-annealing, or cpt-dynamics with options. Where not given: cpt-dynamics after a known pre-training, its
        open-base form without one, and lr-annealing for a training from scratch.
    where
        A filter of the rows.
    every
        Steps between forecasts on the way to the end, which is the last of them; the end alone where not given.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable, no run is unfinished, or a run has no schedule.

    Notes
    -----
    The law is averaged with the last value and a straight line through the later rows. The interval covers part of what
    the law leaves open and of what the three disagree by, what all of them miss on the way to go, and the noise, which
    is estimated from the rows with its correlation. The run's last row is forecast from its earlier ones too: priors
    that do this better count more, and where all of them missed by more than they should the interval is widened.
    studies/unfinished_runs.md has the back-test.

    Where the rate of a training from scratch falls at the end of its plan after a stretch at a constant one, and no
    other run shows what that gains, the decay is a line of its own in the rate that is left
    (`cptlaw_curves.forecasting.decay`), and no average.

    Examples
    --------
    >>> from cptlaw.schedules import Phase
    >>> step = np.arange(1000, 6001, 250)
    >>> log = pd.DataFrame({"run": "a", "eval": "other", "step": step, "loss": 2.6 + 0.5 * (1e-3 * step) ** -0.5})
    >>> plan = {"a": Schedule([Phase("pretrain", 20_000, "wsd", peak=1e-3, decay=4000)])}
    >>> forecast = forecast_run(log, plan)
    >>> row = forecast.points.iloc[0]
    >>> bool(row["lo"] < row["loss"] < row["hi"]), bool(row["loss"] < row["last_loss"])
    (True, True)
    """
    interval = parse_probability(interval, "interval (--interval)")
    if every is not None and not every > 0:
        raise UsageError(f"every={every} (--every): expected a number of steps, 1 or more.")
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    table = table.where(where) if where else table
    plans = read_schedules(schedules)
    table = _curve_rows(table, plans)
    frame = table.frame
    names = list(dict.fromkeys(frame["run"].astype(str)))
    wanted = _unfinished(frame, names, plans, run, table.label)
    rows: list[dict[str, object]] = []
    skipped: list[Finding] = []
    for name in wanted:
        own = frame[frame["run"].astype(str) == name]
        evals = list(dict.fromkeys(own["eval"].astype(str)))
        result = [
            _forecast_of_eval(table, name, on, plans=plans, interval=interval, law_name=law_name, spacing=every)
            for on in evals
        ]
        rows += [row for one in result if not isinstance(one, Finding) for row in one]
        skipped += [one for one in result if isinstance(one, Finding)]
        skipped += _missing_loss(name, plans[name], [table.role(on) for on in evals])
    if not rows:
        reasons = " ".join(f"{finding.message} {finding.advice}" for finding in skipped)
        raise DataError(f"{table.label}: nothing can be forecast yet. {reasons}")
    if run is None:
        skipped += _runs_without_schedule([name for name in names if name not in plans])
    units = dict.fromkeys(loss_unit(part) for _, part in frame.groupby("eval", observed=True))
    return RunForecast(pd.DataFrame(rows), interval, by_severity(skipped), " or ".join(units))


def _curve_rows(table: Runs, plans: Mapping[str, Schedule]) -> Runs:
    """Return the rows that stand on a curve; a log without a column run and one plan belong together."""
    frame = table.frame
    if "step" not in frame.columns:
        raise DataError(f"{table.label}: a run is followed by its steps, and the table has no column step. Add it.")
    if "tokens" in frame.columns:  # losses of base models
        frame = frame[~((frame["tokens"] == 0) & frame["step"].isna())]
    if "run" in table.assumed:
        if len(plans) != 1:
            raise UsageError(
                f"{table.label} has no column run, and there are {len(plans)} schedules. Add the column, or give one."
            )
        twice = frame.duplicated([name for name in ("eval", "phase", "step") if name in frame.columns])
        if twice.any():
            raise DataError(
                f"{table.label}, row {frame.index[twice][0]}: this step of this eval again. Expected each step of a "
                f"run once; where the table holds several runs, add the column run."
            )
        frame = frame.assign(run=next(iter(plans)))
    return replace(table, frame=frame)


def _unfinished(
    frame: pd.DataFrame, names: list[str], plans: Mapping[str, Schedule], run: str | None, label: str
) -> list[str]:
    if run is not None and run not in names:
        raise UsageError(f"run={run!r} is not in {label}.{did_you_mean(run, names)}")
    planned = [name for name in names if name in plans]
    if run is not None and run not in planned:
        raise UsageError(
            f"run {run!r} has no schedule.{did_you_mean(run, plans)} Give its whole plan in the schedules file."
        )
    if not planned:
        raise UsageError(
            f"no run of {label} has a schedule. The runs are {join_names(names)}; the schedules are of "
            f"{join_names(plans) or 'none'}. Expected schedules under the names of their runs."
        )
    result = []
    for name in [run] if run is not None else planned:
        rows = frame[frame["run"].astype(str) == name]
        last = int(global_steps(rows, plans[name], f"{label}, run {name!r}").max())
        if last < plans[name].n_steps:
            result.append(name)
    if not result:
        what = f"run {run!r} is" if run is not None else f"all {len(planned)} planned runs are"
        raise UsageError(f"{what} finished: the rows reach the last planned step. There is nothing left to forecast.")
    return result


def _forecast_of_eval(
    table: Runs,
    name: str,
    on: str,
    *,
    plans: Mapping[str, Schedule],
    interval: float,
    law_name: str | None,
    spacing: int | None,
) -> list[dict[str, object]] | Finding:
    """Forecast one eval of one run, at its end or on the way there."""
    plan, role = plans[name], table.role(on)
    chosen = law(law_name if law_name is not None else _law_of(plan))
    if not isinstance(chosen, CurveLaw):
        raise UsageError(f"law {chosen.name} knows no learning rates. Expected lr-annealing or cpt-dynamics.")
    if role == "other" and chosen.name != "lr-annealing":
        return Finding(
            "info",
            "role-unknown",
            f"eval {on!r} of run {name!r} is neither source nor target, so the sign of its shift is not known.",
            "Name its role.",
            remedy=Remedy("target_eval", str(on)),
        )
    every = table.on(on).frame
    own = every[every["run"].astype(str) == name]
    notes = list(_rate_off_plan(own, plan, name))
    like = _runs_alike(every, own, name, plans)
    try:
        frame = _rows_of_law(chosen, pd.concat([own, like]), plans, table.label)
    except DataError as error:
        like = like[like["run"].astype(str).isin(list(plans))]
        frame = _rows_of_law(chosen, pd.concat([own, like]), plans, table.label)
        notes.append(Finding("info", "others-unread", f"Runs without a schedule are not used. {error}"))
    mine = (frame["run"].astype(str) == name).to_numpy()
    ours, theirs = frame[mine], frame[~mine]
    if len(ours) < LEAST:
        return Finding(
            "info",
            "too-early",
            f"eval {on!r} of run {name!r} has {len(ours)} usable rows; {LEAST} are needed.",
            "Measure more often, or wait.",
        )
    kept = thinned(ours, MOST)[0].reset_index(drop=True)
    total = areas(plan, **chosen.area_options)
    last_loss = float(ours["loss"].iloc[-1])
    peak, area, area_cpt = float(plan.lr.max()), float(total.s1[-1]), float(total.s1_cpt[-1])
    coordinates = Coordinates(chosen, role, last_loss, peak, area, area_cpt)
    published = Normal.published(coordinates)
    # The nearest source of knowledge first; its wider version stands in where it is wrong about this run.
    priors = [(published, 0.10), (published.widened(WIDER), 0.05)]
    if len(theirs):
        alike = Normal.of_others(posterior(coordinates, thinned(theirs, MOST)[0], published))
        priors = [(alike, 0.60), (alike.widened(WIDER), 0.25), *priors]
    last = int(ours["_at"].iloc[-1])
    first = plan.n_pretrain if plan.n_cpt else 0
    progress = max(last - first, 0) / (plan.n_steps - first)
    learnt = average(coordinates, kept, priors, kept["_at"].to_numpy(dtype=float), float(first))
    asked = _forecast_steps(last, plan.n_steps, spacing)
    # In CPT the shift moves the loss as well, which the line of `Decay` does not have: then the law forecasts alone.
    law_alone = plan.n_cpt or law_name is not None or _others_decay(theirs, plans)
    decay = None if law_alone else Decay.of_plan(plan, first)
    steps, log_loss = ours["_at"].to_numpy(dtype=float) - first, np.log(ours["loss"].to_numpy(dtype=float))
    of_decay = None if decay is None else decay.forecast(steps, log_loss, (asked - first).astype(float))
    notes += [] if role == "source" else _rise_in_decay(plan, ours, name)
    inputs = pd.DataFrame(chosen.read(plan, asked))
    common = {
        "last_step": max(last - first, 0),
        "last_loss": last_loss,
        "progress": progress,
        "law": chosen.spec,
        "others": int(theirs["run"].nunique()),
        "n_effective": float(learnt.weights @ [one.effective[name] for one in learnt.posteriors]),
    }
    findings = by_severity([*notes, *_annealing_ahead(plan, last, len(theirs) > 0)])
    result = []
    for i, step in enumerate(asked.tolist()):
        if decay is not None and of_decay is not None and step - first > decay.begins:
            centre, width = of_decay[0][i], of_decay[1][i] * t_quantile(interval, float(len(ours)))
            loss, low, high = np.exp([centre, centre - width, centre + width]).tolist()
            common["law"] = "decay"
        else:
            # In ratios of steps: what the law misses grew with the logarithm of how far ahead the end lies.
            ahead = (step - first) / max(last - first, 1)
            loss, low, high = learnt.forecast(inputs.iloc[[i]], name, kept.iloc[[-1]], ahead, interval)
        where = {"run": name, "eval": on, "step": step - first}
        result.append({**where, **common, "loss": loss, "lo": low, "hi": high, "findings": findings})
    return result


def _forecast_steps(last: int, end: int, spacing: int | None) -> NDArray[np.intp]:
    """Return the steps that are forecast: the end, and those on the way there."""
    return np.array([end] if spacing is None else [*range(last + spacing, end, spacing), end])


def _others_decay(theirs: pd.DataFrame, plans: Mapping[str, Schedule]) -> bool:
    """Say whether other runs show what a decay gains."""
    names = theirs["run"].astype(str).unique()
    return any(name not in plans or plans[name].lr[-1] < (1.0 - FALL) * plans[name].lr.max() for name in names)


def _rise_in_decay(plan: Schedule, ours: pd.DataFrame, name: str) -> Iterator[Finding]:
    """Say where the loss rises while the rate falls."""
    at, log_loss = ours["_at"].to_numpy(dtype=int), np.log(ours["loss"].to_numpy(dtype=float))
    rate = plan.lr[at]
    # From the last row before which the rate fell on: nothing of a warm-up, and nothing of a constant stretch.
    begins = int(np.flatnonzero(np.append(True, np.diff(rate) >= 0))[-1])
    rate, log_loss = rate[begins:], log_loss[begins:]
    if len(rate) < LEAST_FALLING or rate[0] - rate[-1] < FALL * plan.lr.max():
        return
    place = np.linspace(-1.0, 1.0, len(rate))
    slope = float(place @ log_loss / (place @ place))
    missed = log_loss - log_loss.mean() - slope * place
    error = float(np.sqrt(missed @ missed / (len(rate) - 2) / (place @ place)))
    if slope > max(SURE * error, LEAST_RISE):
        yield Finding(
            "warning",
            "rising-in-decay",
            f"the loss of run {name!r} rises by {math.expm1(2.0 * slope):.1%} while the rate falls from {rate[0]:.3g} "
            f"to {rate[-1]:.3g}: a decay lowers the loss of data that are not yet learned by heart.",
            "Look whether the data are repeated; a stop at the lowest loss may be the better end.",
            data={"run": name, "rise": 2.0 * slope},
        )


def _law_of(plan: Schedule) -> str:
    if not plan.n_cpt:
        return "lr-annealing"
    return "cpt-dynamics" if plan.n_pretrain else "cpt-dynamics:open_base=true"


def _runs_alike(every: pd.DataFrame, own: pd.DataFrame, name: str, plans: Mapping[str, Schedule]) -> pd.DataFrame:
    """Return rows of other runs that agree with this one in size, base model and mix."""
    kept = every[every["run"].astype(str) != name]
    for column in ALIKE:
        values = own[column].dropna() if column in own.columns else pd.Series(dtype=object)
        # A column that varies within the run itself, as a learning rate, says nothing of which runs are like it.
        if values.nunique() == 1:
            kept = kept[kept[column].astype(object) == values.iloc[0]]
    scheduled = kept["run"].astype(str).isin(list(plans))
    if "lr" in kept.columns:
        scheduled |= kept["lr"].notna()
    return kept[scheduled]


def _rows_of_law(law: CurveLaw, frame: pd.DataFrame, plans: Mapping[str, Schedule], label: str) -> pd.DataFrame:
    """Return the rows that a law can hold, by run and step, with its inputs and _at: steps counted across phases.

    Left out are the first steps of a training from scratch and, where its pre-training is not known, the base model.
    """
    used = set(frame["run"].astype(str))
    frame, known, _ = curve_rows(law, frame, {run: plan for run, plan in plans.items() if run in used}, label)
    kept = []
    for name, rows in frame.groupby(frame["run"].astype(str), sort=False):
        plan = known[str(name)]
        at = global_steps(rows, plan, f"{label}, run {name!r}")
        if plan.n_pretrain:
            warmup = plan.phases[0].warmup
            # Rows of other runs lose their first steps too: with these left in, other runs made forecasts worse than
            # none.
            usable = at >= max(warmup, min(warmup + EARLY, at.max() / 3.0))
        else:
            # The loss of an open base model is left out: the law would have to explain the first jump by its shift.
            # With it, target losses of the pilot at a fifth of the run were missed by 13 %, without by 6 %.
            usable = at > 0
        kept.append(rows.assign(_at=at)[usable].sort_values("_at", kind="stable"))
    table: pd.DataFrame = pd.concat(kept)
    return table


def _rate_off_plan(own: pd.DataFrame, plan: Schedule, name: str) -> Iterator[Finding]:
    """Say where the logged learning rate is not the planned one."""
    if "lr" not in own.columns or not own["lr"].notna().any():
        return
    logged = own[own["lr"].notna()]
    at = global_steps(logged, plan, f"run {name!r}")
    away = np.abs(logged["lr"].to_numpy(dtype=float) - plan.lr[at]) / float(plan.lr.max())
    worst = int(np.argmax(away))
    if away[worst] > OTHER_RATE:
        yield Finding(
            "warning",
            "other-rate",
            f"run {name!r} logged the learning rate {logged['lr'].iloc[worst]:.3g} at step "
            f"{logged['step'].iloc[worst]:.0f}, where its plan has {plan.lr[at[worst]]:.3g}.",
            "Mend the schedules file: the forecast follows the plan.",
        )


def _runs_without_schedule(names: list[str]) -> Iterator[Finding]:
    """Say which runs are not forecast because nothing says where they end."""
    if names:
        yield Finding(
            "info",
            "no-schedule",
            f"{join_names(names)}: no schedule, so not forecast; where the column lr gives their rates, they count as "
            "finished.",
            "To forecast one, give its whole plan in the schedules file.",
        )


def _missing_loss(name: str, plan: Schedule, roles: list[str]) -> Iterator[Finding]:
    """Say where one of the two losses of continual pre-training is not there."""
    missing = [role for role in ("source", "target") if role not in roles]
    if plan.n_cpt and len(missing) == 1:
        yield Finding(
            "info",
            "one-loss",
            f"run {name!r} has no {missing[0]} loss, so only the other one is forecast.",
            f"Measure the {missing[0]} loss too, or name its eval.",
            remedy=Remedy(f"{missing[0]}_eval"),
        )


def _annealing_ahead(plan: Schedule, last: int, others: bool) -> Iterator[Finding]:
    """Say what of the forecast is prior alone."""
    # Only where most of the annealing lies ahead and none behind: a fifth of it already seen tells its size.
    ahead = float(plan.lr[last] - plan.lr[-1])
    seen = float(plan.lr[: last + 1].max() - plan.lr[last])
    if not others and ahead > 0.2 * plan.lr.max() and seen <= 0.2 * plan.lr.max():
        yield Finding(
            "info",
            "annealing-ahead",
            f"the learning rate falls from {plan.lr[last]:.3g} to {plan.lr[-1]:.3g} in the rest of the run, and "
            f"nothing has annealed yet: how much that gains is known from other models alone.",
            "Add a finished run like it to the table, if there is one.",
        )
