"""Fit the scores of a table: every law of scores that its columns allow, or one, weighed by rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.errors import CptlawError, DataError, FitError, UsageError, did_you_mean
from cptlaw.findings import by_severity
from cptlaw.fitting.auto.fit_auto import fit_auto
from cptlaw.fitting.fit import Fit
from cptlaw.runs import Runs
from cptlaw.runs.schema import mix_columns
from cptlaw.schedules import SchedulesLike
from cptlaw_scores.derived import fingerprint_of, with_derived
from cptlaw_scores.joint import Joint, join
from cptlaw_scores.laws.score_law import Array, score_law
from cptlaw_scores.members import PlannedMember, ScoreMember
from cptlaw_scores.rollouts import ModelCut, carrier_in, folds_of, forecast_members
from cptlaw_scores.score_fit import ScoreFit
from cptlaw_scores.weights import Doubted, scale_of_losses, weighed

# Each is fitted anew in every rollout, and the fourth best loss seldom says what the first three do not.
MOST_CARRIERS = 3
THROUGH_LOSS = ("score-sigmoid", "score-exponential")
DIRECT = ("score-size", "score-compute")
MIXED = ("replay", "ptpp")  # what direct laws cannot see


def fit_scores(
    table: Runs,
    on: str,
    where: str | None = None,
    law_name: str = "auto",
    seed: int = 0,
    schedules: SchedulesLike | None = None,
) -> ScoreFit:
    """Fit the score of one benchmark; the others of the table lend it the shape of their links.

    Raises
    ------
    DataError, UsageError
        If the eval is no score, or a name is not known.
    FitError
        If no member can be fitted.
    """
    return fit_all_scores(table, [on], where, law_name=law_name, seed=seed, schedules=schedules)[on]


def fit_all_scores(
    table: Runs,
    names: Sequence[str] | None = None,
    where: str | None = None,
    *,
    law_name: str = "auto",
    seed: int = 0,
    schedules: SchedulesLike | None = None,
    losses: Mapping[str, Fit] | None = None,
) -> dict[str, ScoreFit]:
    """Fit several scores of a table at once; see `fit_scores`. All that have enough rows where `names` is absent.

    Fits of losses that are there already, by eval, are given as `losses`.
    """
    table = with_derived(table, names or ())
    rows = table if where is None else table.where(where)
    joint = join(rows)
    wanted = list(joint.tasks) if names is None else list(names)
    for name in wanted:
        if name not in joint.tasks:
            near = did_you_mean(name, joint.tasks)
            raise DataError(
                f"{table.label}: {name!r} is no score that was measured at four models or more.{near} "
                f"Scores found: {', '.join(joint.tasks)}."
            )
    wanted_losses = _wanted_losses(rows, joint, law_name)
    carriers = {one: fit for one, fit in (losses or {}).items() if one in wanted_losses}
    more, skipped = _fitted_losses(rows, [one for one in wanted_losses if one not in carriers], seed, schedules)
    carriers |= more
    plans = _plans(joint, carriers, law_name)
    if not plans:
        raise FitError(
            f"{table.label}: no law can be fitted: " + (" | ".join(skipped) or "no column that a law of scores reads.")
        )
    at_models = _all_losses(joint, carriers)
    ready = [plan.in_units_of(joint.frame, at_models) for plan in plans]
    pooled = [plan.fitted(joint, at_models) for plan in ready]
    folds = folds_of(joint)
    doubted = rollouts_of(joint, plans, carriers, folds)
    common = {
        "scale": doubted.scale,
        "loss_scale": doubted.loss_scale,
        "freedom": doubted.freedom,
        "rollouts": tuple(fold.label for fold in folds),
        "skipped": tuple(skipped),
        "provenance": {
            "source": str(table.path) if table.path else None,
            "fingerprint": fingerprint_of(table),
            "where": where,
            "n_params_kind": table.n_params_kind,
        },
    }
    result = {}
    for name in wanted:
        members = [
            replace(plan.part(fit, joint, name, carriers), weight=weight, error=error)
            for plan, fit, (weight, error) in zip(ready, pooled, doubted.weights[name], strict=True)
            if name in plan.tasks
        ]
        result[name] = _fit_of(rows, joint, name, members, doubted.growth[name], common)
    return result


def rollouts_of(
    joint: Joint, plans: Sequence[PlannedMember], carriers: Mapping[str, Fit], folds: Sequence[ModelCut]
) -> Doubted:
    """Return what rollouts say of members and their doubt, the carrying losses forecast in them too."""
    # Once for each rollout, not once for each member: several members read one loss.
    carried = [{one: carrier_in(fit, joint, fold) for one, fit in carriers.items()} for fold in folds]
    seen = [
        list(forecast_members(plans, joint, fold, losses_in)) for fold, losses_in in zip(folds, carried, strict=True)
    ]
    return replace(weighed(joint, plans, folds, seen), loss_scale=scale_of_losses(carried))


def _fit_of(
    table: Runs, joint: Joint, name: str, members: list[ScoreMember], growth: float, common: Mapping[str, Any]
) -> ScoreFit:
    """Return the fit of one score; `common` is what the fits of all scores share."""
    task = joint.tasks[name]
    values = joint.values(name)
    good = np.isfinite(values)
    columns = [one for one in joint.frame.columns if not str(one).startswith("value:")]
    data = joint.frame.loc[good, columns].assign(loss=values[good], n_items=task.items[good]).reset_index(drop=True)
    # The losses that were measured beside the scores: what the links were fitted to.
    carriers = dict.fromkeys(part.carrier for part in members if part.carrier is not None)
    data = data.assign(**{name: joint.values(name)[good] for name in carriers})
    if "tokens" in data.columns and (data["tokens"] > 0).any():
        data = data[data["tokens"] > 0].reset_index(drop=True)
    members = sorted(members, key=lambda part: -part.weight)
    total = sum(part.weight for part in members)
    # Adding up to one again: a task has only the members that can serve it.
    members = [replace(part, weight=part.weight / total) for part in members]
    own = [one for one in joint.findings if one.message.startswith(f"{name}:")]
    return ScoreFit(
        on=name,
        metric=task.metric,
        role=table.role(name),
        chance=task.chance,
        n_items=float(np.nanmedian(task.items[good])),
        members=tuple(members),
        growth=growth,
        data=data,
        base=table.base_losses(name),
        findings=by_severity(own),
        **common,
    )


def _all_losses(joint: Joint, fits: Mapping[str, Fit]) -> dict[str, Array]:
    """Return the carriers' losses at all models: measured, and where they were not, as their law has them."""
    result = {}
    for name, fit in fits.items():
        values = joint.values(name).copy()
        lacks = ~np.isfinite(values)
        if lacks.any():
            with suppress(CptlawError, KeyError):
                values[lacks] = fit.predict(joint.frame[lacks])
        result[name] = values
    return result


def _wanted_losses(table: Runs, joint: Joint, law_name: str) -> list[str]:
    """Return the losses that may carry scores: those in nats that go best with them, and the tasks' own answers."""
    name, _, option = law_name.partition(":")
    reads = None if name == "auto" else score_law(name).reads
    through = option.removeprefix("through=") if option else ""
    if option and (not option.startswith("through=") or reads not in ("loss", "answers")):
        raise UsageError(f"law {law_name!r}: expected {name}:through=EVAL for a law that reads a loss.")
    if through and through not in (*joint.losses, *joint.bits):
        known = [*joint.losses, *joint.bits]
        raise DataError(
            f"law {law_name!r}: {table.label} has no loss {through!r}.{did_you_mean(through, known)} Losses: "
            f"{', '.join(known) or 'none'}."
        )
    wanted: list[str] = []
    if through:
        wanted = [through]
    else:
        if reads in (None, "loss"):
            own = {joint.answers_of(task) for task in joint.tasks}
            wanted += _likely(table, joint, [*joint.losses, *(one for one in joint.bits if one not in own)])
        if reads in (None, "answers"):
            wanted += [one for task in joint.tasks if (one := joint.answers_of(task))]
    return list(dict.fromkeys(wanted))


def _fitted_losses(
    table: Runs, names: Sequence[str], seed: int, schedules: SchedulesLike | None
) -> tuple[dict[str, Fit], list[str]]:
    """Return the fits of losses by eval, and why others could not be fitted."""
    result: dict[str, Fit] = {}
    skipped = []
    for eval_name in names:
        try:
            result[eval_name] = fit_auto(table, eval_name, seed=seed, schedules=schedules)
        except CptlawError as error:
            skipped.append(f"{eval_name}: {error}")
    return result, skipped


def _likely(table: Runs, joint: Joint, names: Sequence[str]) -> list[str]:
    """Return the few losses that go best with the scores, source and target first."""
    rated = []
    for name in names:
        agree = [one for task in joint.tasks if (one := joint.agreement(task, name)) is not None]
        rated.append((table.role(name) == "other", -float(np.mean(agree or [-1.0])), name))
    return [name for _, _, name in sorted(rated)[:MOST_CARRIERS]]


def _only_scale_varies(joint: Joint) -> bool:
    """Whether size and tokens are known and neither mix nor base model changes, which direct laws cannot see."""
    unseen = [*(one for one in MIXED if one in joint.frame.columns), *mix_columns(joint.frame.columns)]
    mixed = any(joint.frame[one].nunique() > 1 for one in unseen)
    return {"n_params", "tokens"} <= set(joint.frame.columns) and not mixed


def _plans(joint: Joint, fits: dict[str, Fit], law_name: str) -> list[PlannedMember]:
    """Return the members that the columns allow, each with the tasks that it is for."""
    name, _, option = law_name.partition(":")
    through = option.removeprefix("through=")
    tasks = tuple(joint.tasks)
    result: list[PlannedMember] = []
    all_direct = name == "auto" and _only_scale_varies(joint)
    result += [PlannedMember(score_law(one), tasks) for one in DIRECT if name == one or all_direct]
    answers = {task: one for task in tasks if (one := joint.answers_of(task)) in fits and one is not None}
    nats = [one for one in fits if one not in answers.values() or one == through]
    for one in THROUGH_LOSS:
        if name in ("auto", one):
            share = 1.0 / max(len(nats), 1)
            result += [PlannedMember(score_law(one), tasks, dict.fromkeys(tasks, loss), share) for loss in nats]
    if name in ("auto", "score-answers") and answers:
        carriers = dict.fromkeys(tasks, through) if through else answers
        result.append(PlannedMember(score_law("score-answers"), tuple(carriers), carriers))
    if name in ("auto", "score-flat"):
        result.append(PlannedMember(score_law("score-flat"), tasks))
    return result
