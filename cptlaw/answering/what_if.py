"""What would change an answer: mixes near the planned one, and other models for the same compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.answering.planned import plan
from cptlaw.answering.question import Asked
from cptlaw.answering.without_runs import INTERVAL, SHARES
from cptlaw.errors import CptlawError
from cptlaw.fitting.base_models import LOSS
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan
from cptlaw.planning.result import flops_of
from cptlaw.units import format_percent, format_quantity

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

REPLAYS = (("half", 0.5), ("twice", 2.0))
MOST_REPLAY = 0.45  # of a mix whose replay can be doubled
OTHER_END = {"": "", "_lo": "_hi", "_hi": "_lo"}
NEXT_SIZES = 2  # the nearest that the runs have, one on either side where there are


def point_of(question: Asked, plan: MixPlan) -> dict[str, float]:
    """Return the inputs of laws at a planned mix."""
    known = getattr(plan.fitted_mix, "target", None)
    point = {**question.law_inputs, **({} if known is None else known.known)}  # a size that stands for a measured one
    point |= {"tokens": plan.tokens, "replay": plan.replay}
    point[LOSS] = question.base_source_loss  # where it was given, the forecast hears of it too
    return {name: float(value) for name, value in point.items() if value is not None}


def what_if(question: Asked, fits: Mapping[str, Fit], planned: MixPlan) -> tuple[Mapping[str, object], ...]:
    """Return what other mixes would do, the tokens and the replay changed by as much as people would change them."""
    if not planned.feasible:
        return ()
    changed = _changed_points(question, fits, point_of(question, planned))
    if not changed:
        return ()
    rows = pd.DataFrame([values for _, values in changed])
    losses = {f"{loss.role}_loss": loss.predict(rows) for loss in planned.fitted_mix.losses}
    result = []
    for place, (change, values) in enumerate(changed):
        own = {name: float(each[place]) for name, each in losses.items()}
        if "source_loss" in own and planned.base_source_loss is not None:
            own["forgetting"] = own["source_loss"] / planned.base_source_loss - 1.0
        result.append({"change": change, **values, **own})
    return tuple(result)


def by_replay(
    question: Asked, planned: MixPlan, base_target_loss: float | None
) -> tuple[Mapping[str, float | None], ...]:
    """Return what each share of replay costs and brings, at the planned tokens and rate.

    Parameters
    ----------
    question
        With unique tokens of the target corpus, each share is trained on all of them.
    planned
        The plan, whose losses are forecast.
    base_target_loss
        Measured target loss of the base model, from which the gain counts; ``None`` without one.
    """
    if not planned.feasible or planned.replay is None or planned.tokens is None:
        return ()
    shares = np.array(SHARES)
    tokens = np.full(len(shares), float(planned.tokens))
    if question.kind == "limited-data":  # as many tokens of the new domain
        tokens *= (1.0 - planned.replay) / (1.0 - shares)
    rows: list[dict[str, float | None]] = [
        {"replay": share, "tokens": spent, "flops": flops_of(question.trained, spent)}
        for share, spent in zip(SHARES, map(float, tokens), strict=True)
    ]
    for loss in planned.fitted_mix.losses:
        ends = loss.forecast({"replay": shares, "tokens": tokens}, INTERVAL).losses
        for place, row in enumerate(rows):
            of_loss = {end: values[place] for end, values in ends.items()}
            point = {"replay": shares[place], "tokens": tokens[place]}
            row |= {f"{loss.role}_loss{end}": value for end, value in of_loss.items()}
            if loss.role == "source" and (how := planned.fitted_mix.forgetting) is not None:
                share = replace(how, measure="relative")
                row |= {f"forgetting{end}": value for end, value in share.ends(point, of_loss, INTERVAL).items()}
            if loss.role == "target" and base_target_loss is not None:
                for end, value in of_loss.items():  # the higher end of a loss is the lower one of its fall
                    row[f"target_gain{OTHER_END[end]}"] = None if value is None else 1.0 - value / base_target_loss
    return tuple(rows)


def measured_rates(fits: Mapping[str, Fit], planned: MixPlan, given: float | None) -> dict[str, object]:
    """Return the planned peak rate, the range that was run and why it was taken, where laws read rates."""
    rate = getattr(planned, "lr_peak", None)
    known = [fit.data["lr_peak"].dropna() for fit in fits.values() if "lr_peak" in fit.data.columns]
    levels = sorted({float(level) for each in known for level in each})
    if rate is None or not levels:
        return {"lr_peak": rate}
    low, high = levels[0], levels[-1]
    why = (
        "the only peak rate that was run"
        if low == high
        else f"the best {'of' if rate in levels else 'between'} the peak rates run near this size, "
        f"{low:.3g} to {high:.3g} over all sizes"
    )
    if given is not None:
        why = f"as asked; what was run: {low:.3g}" + (f" to {high:.3g}" if high > low else "")
    return {"lr_peak": rate, "lr_peak_lo": low, "lr_peak_hi": high, "lr_why": why}


def _changed_points(
    question: Asked, fits: Mapping[str, Fit], point: Mapping[str, float]
) -> list[tuple[str, dict[str, float]]]:
    read = {name for fit in fits.values() for name in fit.law.inputs}
    limited_data = question.kind == "limited-data"
    changed = []
    # A change that no law reads would show the same losses twice.
    if "tokens" in point and "tokens" in read:
        words = "twice the tokens of the new domain" if limited_data else "twice the tokens"
        changed.append((words, {**point, "tokens": 2.0 * point["tokens"]}))
    replay = point.get("replay", 0.0)
    if 0 < replay <= MOST_REPLAY and "replay" in read:
        for word, factor in REPLAYS:
            other = {**point, "replay": factor * replay}
            if limited_data:  # as many tokens of the new domain
                other["tokens"] = point["tokens"] * (1.0 - replay) / (1.0 - factor * replay)
            changed.append((f"{word} the replay", other))
    return changed


def other_sizes(
    question: Asked, fits: Mapping[str, Fit], risk: float | None, scores: Mapping[str, ScoreFit]
) -> tuple[Mapping[str, object], ...]:
    """Return the best mixes of the models of other sizes that were run, where compute is what is given.

    Parameters
    ----------
    question
        What is asked; sizes are compared only under a budget of compute.
    fits, risk, scores
        As for `cptlaw.answering.planned.plan`.
    """
    if question.budget is None or not all("n_params" in fit.law.inputs for fit in fits.values()):
        return ()
    run = np.unique(np.concatenate([fit.data["n_params"].to_numpy(dtype=float) for fit in fits.values()]))
    others = run[np.abs(np.log(run / question.n_params)) > 0.05]
    smaller, larger = others[others < question.n_params], others[others > question.n_params]
    nearest = [*smaller[-1:], *larger[:1]] or list(others[:NEXT_SIZES])
    result = []
    for size in nearest:
        # A measured loss of the asked base model is none of another's.
        asked = question.replaced(n_params=float(size), n_active=None, base_source_loss=None)
        try:
            best = plan(asked, fits, risk, scores)
        except CptlawError:
            continue
        if best.feasible and best.tokens is not None:
            result.append(_best_of_size(asked, best))
    return tuple(result)


def _best_of_size(asked: Asked, best: MixPlan) -> dict[str, object]:
    mix = f"{format_quantity(asked.n_params, 3)} parameters on {format_quantity(best.tokens or 0, 3)} tokens"
    mix += "" if best.replay is None else f", {format_percent(best.replay, 3)} replay"
    losses = {name: getattr(best, name) for name in ("target_loss", "source_loss", "forgetting")}
    return {
        "change": mix,
        **point_of(asked, best),
        **{name: value for name, value in losses.items() if value is not None},
        "flops": flops_of(asked.trained, best.tokens or 0),
    }
