"""Limits in points: the least score of a benchmark, and the most that it may fall below the base model's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from cptlaw.errors import UsageError, did_you_mean, wrong_type
from cptlaw.fitting.uncertainty.chances import probability_above, probability_below
from cptlaw.forecasting.scores import is_error_rate, is_score_fit, scoring
from cptlaw.forecasting.verbs import load_fit
from cptlaw.planning.limits import AboveBase, GivenLimit, Limited, LossLimit, MakeLimit
from cptlaw.planning.loss import Loss
from cptlaw.planning.reference import Reference, measured_base_loss
from cptlaw.planning.scenario import PlanQuestion
from cptlaw.planning.solve import Certificate, Limit

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

LEAST = "min "
DROP = "max-drop "


def score_reference(error_rate: float, n_items: float = math.inf) -> Reference:
    """Return the score from which a drop counts, as an error rate.

    Parameters
    ----------
    error_rate
        Of the base model.
    n_items
        Questions behind it; infinite where it is no measurement.
    """
    return Reference("measured", error_rate, _half_width=partial(_noise_of_items, error_rate, n_items))


def _noise_of_items(error_rate: float, n_items: float, probability: float) -> float:
    """Return how far, in logs, the error rate may lie below what was measured, by the noise of its items."""
    deviation = math.sqrt(max(error_rate * (1.0 - error_rate), 0.0) / n_items)
    return float(special.ndtri(0.5 + 0.5 * probability)) * deviation / max(error_rate, 1e-9)


def score_losses(fits: object, known: Mapping[str, float]) -> dict[str, Loss]:
    """Return the fitted scores of a plan as error rates at the planned model, by eval.

    Parameters
    ----------
    fits
        Fitted scores or their files: one, several, or a mapping.
    known
        Inputs that the scenario fixes.

    Raises
    ------
    UsageError
        If one of them is no fit of a score, or lacks an input.
    """
    return {name: Loss.build(scoring.ErrorRate(fit), name, known) for name, fit in score_fits(fits).items()}


def score_fits(fits: object) -> dict[str, ScoreFit]:
    """Return fitted scores by eval.

    Parameters
    ----------
    fits
        Fitted scores or their files: one, several, or a mapping.

    Raises
    ------
    UsageError
        If one of them is no fit of a score.
    """
    if fits is None:
        return {}
    several = fits.values() if isinstance(fits, Mapping) else fits
    if isinstance(fits, str | Path) or hasattr(fits, "predict"):
        several = [fits]
    if not isinstance(several, Iterable):
        raise wrong_type(fits, "scores (--score)", "fits of scores, or their files")
    result = {}
    for one in several:
        fit = load_fit(one) if isinstance(one, str | Path) else one
        if not is_score_fit(fit):
            raise UsageError(
                f"scores (--score): {one!s:.80} is no fit of a score. Expected what `cptlaw fit RUNS --on BENCHMARK` "
                f"writes for rows with a metric such as accuracy."
            )
        result[fit.on] = fit
    return result


def score_limits(
    given: PlanQuestion,
    losses: Mapping[str, Limited],
    limit: MakeLimit[Limited],
    base_of: Callable[[Limited], Reference],
) -> tuple[LossLimit, ...]:
    """Return the limits in points that were given.

    Parameters
    ----------
    given
        The values of a scenario with `cptlaw.planning.scenario.ScoreLimits`.
    losses
        The scores as error rates, by eval.
    limit
        Makes a limit.
    base_of
        Returns the base model's measured score of one of them, or raises `UsageError` where there is none.

    Raises
    ------
    UsageError
        If a benchmark has no fit, or no base score is known from which a drop would count.
    """
    limits = []
    for option, values in (("min_score (--min)", given.min_score), ("max_drop (--max-drop)", given.max_drop)):
        for name, value in (values or {}).items():
            if name not in losses:
                raise UsageError(
                    f"{option}: {name!r} has no fit here.{did_you_mean(name, losses)} Fits of scores: "
                    f"{', '.join(losses) or 'none'}. Give it with scores= (--score {name}.json)."
                )
            loss = losses[name]
            if values is given.max_drop:
                base = AboveBase(_base(given, name, loss, base_of), "absolute")
                limits.append(limit(GivenLimit(DROP + name, f"drop {name}", value, loss, base, given.risk)))
                continue
            if not 0 <= value < 1:
                raise UsageError(f"{option}: {name}={value:g} is no score. Expected 0% to below 100%, such as 60%.")
            # A least score is a most error rate, counted from an error rate of one: points lost of none at all.
            nothing = AboveBase(score_reference(1.0), "absolute")
            limits.append(limit(GivenLimit(LEAST + name, f"score {name}", -value, loss, nothing, given.risk)))
    return tuple(limits)


def _base(given: PlanQuestion, name: str, loss: Limited, base_of: Callable[[Limited], Reference]) -> Reference:
    if name in (given.base_score or {}):
        return score_reference(1.0 - given.base_score[name])
    try:
        return base_of(loss)
    except UsageError:
        raise UsageError(
            f"max_drop (--max-drop): a drop of {name} counts from the base model's score, and none was measured at "
            f"this size and budget. Give base_score= (--base-score {name}=43%), or rows with tokens = 0."
        ) from None


def base_score(loss: Loss, measured: Callable[[Loss], float] = measured_base_loss) -> Reference:
    """Return the base model's measured score of a fitted one.

    Raises
    ------
    UsageError
        If there is none.
    """
    assert is_error_rate(loss.fit)
    return score_reference(1.0 - measured(loss), loss.fit.score.n_items)


def score_fields(
    losses: Mapping[str, Loss], limits: Iterable[LossLimit], points: Mapping[str, ArrayLike], interval: float | None
) -> dict[str, dict[str, float | None]]:
    """Return what to expect of each score at a mix: score, score_lo, score_hi, and base and drop where known.

    Parameters
    ----------
    losses
        The scores as error rates, by eval.
    limits
        Those of the plan; drops count from the base that stands in them.
    points
        One mix, as the losses take it.
    interval
        Coverage of the ends; ``None`` for none.
    """
    limits = tuple(limits)
    result: dict[str, dict[str, float | None]] = {}
    for name, loss in losses.items():
        ends = loss.forecast(points, interval).losses
        wrong = {end: values[0] for end, values in ends.items()}
        fields = {
            f"score{end}": None if wrong[other] is None else float(1.0 - np.float64(wrong[other]))
            for end, other in (("", ""), ("_lo", "_hi"), ("_hi", "_lo"))
        }
        result[name] = fields | drop_of(name, wrong[""], limits)
    return result


def drop_of(name: str, wrong: float | None, limits: Iterable[LossLimit]) -> dict[str, float | None]:
    """Return the base model's score and the points below it at an error rate, where a limit says from what to count."""
    for limit in limits:
        if limit.name == DROP + name and limit.scale is not None and wrong is not None:
            base = limit.scale.reference.loss
            return {"base": 1.0 - base, "drop": wrong - base}
    return {}


def chances(limits: Iterable[LossLimit], row: pd.DataFrame) -> dict[str, float]:
    """Return with what probability a measured loss or score keeps each limit, by name, at one row of laws' inputs."""
    result, points = {}, {str(name): column.to_numpy() for name, column in row.items()}
    for limit in limits:
        fit, most = limit.loss.fit, limit.threshold
        if is_error_rate(fit):
            result[limit.name] = probability_above(fit.score, row, 1.0 - most)
        elif limit.scale is None:
            result[limit.name] = probability_below(fit, row, most)
        else:
            result[limit.name] = probability_below(fit, row, most, partial(limit.scale.half_width, points))
    return result


class Infeasible(TypedDict):
    """Fields of a plan that say why there is none: see `cptlaw.planning.result.LimitedPlan`."""

    feasible: bool
    blocking: str
    best_reachable: dict[str, float | None]
    feasible_from: dict[str, float]


def infeasible_fields(found: Certificate, limits: Iterable[Limit]) -> Infeasible:
    """Return the fields of a plan that say why there is none."""
    about = {limit.name: limit.about for limit in limits if isinstance(limit, LossLimit)}
    lowest = {about[name]: _as_written(name, value) for name, value in found.lowest.items() if name in about}
    granted = {name: _as_written(name, value) for name, value in found.feasible_from.items()}
    return {
        "feasible": False,
        "blocking": " and ".join(found.blocking),
        "best_reachable": lowest,
        "feasible_from": {name: value for name, value in granted.items() if value is not None},
    }


def _as_written(name: str, value: float) -> float | None:
    """Return a value of a limit as people write it: least scores are kept as upper limits below zero."""
    if not math.isfinite(value):
        return None
    return -value if name.startswith(LEAST) else value
