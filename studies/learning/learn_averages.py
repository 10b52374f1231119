"""Roll law auto through the tables of other studies: how far an average of laws errs beyond its rows.

As `learn_rollouts` does with single laws; one cut of the rows along each direction, and of the studies with
many alike series a part, for a fit takes half a second. What is learned of the rate judges the share of one law's that
law auto takes (`cptlaw.fitting.doubt.OF_AN_AVERAGE`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pandas as pd
from scipy import special

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.checking.distance import outside
from cptlaw.fitting.doubt import parameter_doubt
from cptlaw.fitting.learned import leaving_out, studies
from cptlaw.fitting.rollouts import Rollout, directions, rollouts
from cptlaw.fitting.uncertainty.discrepancy import Scale
from cptlaw.fitting.uncertainty.inner_rollouts import InnerRollouts
from cptlaw.fitting.uncertainty.profile import noise
from studies.harness import Array
from studies.learning import learn_discrepancy
from studies.learning.learn_rollouts import ABSURD, MOST_DOUBT, Roll
from studies.series import Series

EVERY = {"olmo": 4, "dmsl": 4, "mixlaws-scratch": 7, "delphi": 4, "gadre": 3, "mixlaws-ct": 2}  # one series in so many
LEAST_ROWS, LOWER = 8, 0.6  # rows that are fitted, and their share that is sought
MOST_TESTED = 24
# Few studies roll averages: the numbers of single laws are where the search starts, and how firmly it is held there.
START_RATE = 0.009
SPREAD = np.array([0.5] * 7 + [2.0, 0.4, 0.15, 0.5, 1.0, 0.3, 0.3])


def averages(every: list[Series]) -> Iterator[Roll]:
    """Yield the rolls of law auto, each under what was learned from the other studies."""
    for series in thinned(every, EVERY):
        for fold in cuts(series):
            found = forecast_of(series, fold)
            if found is not None:
                told = _roll(series, fold.direction, *found)
                if len(told.error):
                    yield told


def thinned(every: Iterable[Series], one_in: Mapping[str, int]) -> Iterator[Series]:
    """Yield one series in so many of the studies that have many alike."""
    seen: Counter[str] = Counter()
    for series in every:
        if seen[series.study] % one_in.get(series.study, 1) == 0:
            yield series
        seen[series.study] += 1


def cuts(series: Series, most: int = 1) -> list[Rollout]:
    """Return the cuts along each direction, at most so many, whose lower rows are closest to three fifths."""
    every = [fold for fold in rollouts(series.frame, directions(series.frame)) if fold.fit.sum() >= LEAST_ROWS]
    if series.kind == "static":  # along tokens a static ladder goes where tokens per parameter and compute go
        every = [fold for fold in every if fold.direction != "tokens"]
    of_direction = {fold.direction: [one for one in every if one.direction == fold.direction] for fold in every}
    nearest = (sorted(folds, key=lambda one: abs(float(one.fit.mean()) - LOWER)) for folds in of_direction.values())
    return [fold for folds in nearest for fold in folds[:most]]


def forecast_of(series: Series, fold: Rollout) -> tuple[Average, pd.DataFrame] | None:
    """Return law auto fitted to the lower rows under what the other studies say, and the upper rows, spread, kept few.

    The fit is None where the lower rows do not allow one.
    """
    frame = series.frame
    upper = frame[fold.test]
    few = np.unique(np.linspace(0, len(upper) - 1, min(MOST_TESTED, len(upper))).round().astype(int))
    try:
        with without(series.study):
            fit = cl.fit("auto", frame[fold.fit].reset_index(drop=True), on=str(frame["eval"].iloc[0]))
    except (CptlawError, np.linalg.LinAlgError):
        return None
    return fit, upper.iloc[few].reset_index(drop=True)


def without(study: str) -> AbstractContextManager[None]:
    """Return the context in which nothing is known of a study."""
    return leaving_out(study) if study in studies() else nullcontext()


def _roll(series: Series, direction: str, fit: Average, upper: pd.DataFrame) -> Roll:
    with without(series.study):
        error = np.log(fit.predict(upper)) - np.log(upper["loss"].to_numpy(dtype=float))
        doubt = _own_doubt(fit, upper)
    kept = np.isfinite(error) & (np.abs(error) < ABSURD)
    along = directions(fit.data)
    return Roll(
        study=series.study,
        series=series.name,
        law="auto",
        direction=direction,
        spread=spread(fit),
        names=tuple(one.name for one in along),
        distance=outside(fit.data, upper, along)[kept],
        error=error[kept],
        doubt=np.minimum(doubt[kept], MOST_DOUBT),
        inner=in_rollouts(fit),
        params={},
        mean_loss=float(fit.data["loss"].mean()),
    )


def _own_doubt(fit: Average, frame: pd.DataFrame) -> Array:
    """Return the standard deviation of the log loss between the laws and by their parameters, (n,)."""
    share, centres, readable = fit._centres(frame)
    mean = np.sum(share * centres, axis=1)
    variance = np.sum(share * (centres - mean[:, None]) ** 2, axis=1)
    for j, (law, rows) in enumerate(zip(fit.fits, readable, strict=True)):
        if rows is not None:
            variance += share[:, j] * parameter_doubt(law, rows) ** 2
    found: Array = np.sqrt(variance)
    return found


def spread(fit: Average) -> float:
    """Return the spread of the residuals, the root mean square over the laws."""
    return float(np.sqrt(sum(member.weight * noise(member.fit).spread ** 2 for member in fit.members)))


def in_rollouts(fit: Average) -> InnerRollouts:
    """Return what the laws err by in the common rollouts, their mean by weight, one number for each."""
    error = np.array([member.weight for member in fit.members]) @ fit.scores.error
    along = tuple(one.name for one in directions(fit.data))
    names = np.array([fold.direction for fold in fit.folds])
    return InnerRollouts(np.arange(len(error)), names, fit.scores.reach.reshape(len(error), len(along)), error, along)


def start_of(scale: Scale) -> Array:
    """Return where the search starts, from the numbers of single laws, in the order of `learn_discrepancy.START`."""
    weights = [scale.weights[name] for name in learn_discrepancy.NAMES[1:]]
    rest = [
        np.log(START_RATE),
        np.log(scale.rate_sd),
        scale.rate_power,
        np.log(scale.freedom - 2.0),
        np.log(scale.inside),
        special.logit(scale.power),
        np.log(scale.noise),
    ]
    return np.array([*np.log(weights), *rest])
