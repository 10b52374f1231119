"""Roll laws through the tables of other studies: how far they err beyond the rows that they were fitted on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.fitting.checking.distance import outside, seen
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.learned import leaving_out, studies
from cptlaw.fitting.learned.priors import learned_priors
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows, training_rows
from cptlaw.fitting.uncertainty.inner_rollouts import InnerRollouts, cuts_of, inner_rollouts
from cptlaw.fitting.uncertainty.profile import noise
from cptlaw.laws import Law, law
from cptlaw.laws.base import Role
from cptlaw.runs import read_runs
from studies.harness import Array
from studies.series import Series

POOLS = {
    "static": ("chinchilla", "chinchilla:bend=1.5", "chinchilla:bend=2", "chinchilla:bend=3", "kaplan"),
    "cpt": ("shared-tokens", "ptpp-floor", "ptpp-gated-floor", "ptpp-blind"),
}
TIES = (("alpha", "beta"), ("alpha_N", "alpha_D"))
STARTS = 8
MOST_DOUBT = 0.5  # of the parameters, in log loss, that is counted
ABSURD = 2.0  # log error from which a forecast is left out: a fit that fell apart


@dataclass(frozen=True, eq=False)
class Roll:
    """One law fitted to the lower rows of one series, and its errors on the upper ones.

    Attributes
    ----------
    study, series, law, direction
        What was rolled, and along which direction.
    spread
        Spread of the residuals of the fit.
    names
        Directions that the law reads.
    distance, error, doubt
        Of the upper rows: e-folds outside by direction, (n, directions); log forecast minus log loss, (n,); standard
        deviation that the doubt about the parameters makes, (n,).
    inner
        The rollouts inside the lower rows.
    params, mean_loss
        Fitted parameters, and the mean loss of the lower rows.
    """

    study: str
    series: str
    law: str
    direction: str
    spread: float
    names: tuple[str, ...]
    distance: Array
    error: Array
    doubt: Array
    inner: InnerRollouts
    params: dict[str, float]
    mean_loss: float


def rolls(series: Series) -> Iterator[Roll]:
    """Yield every rollout of every law through one series, under priors learned from the other studies."""
    known = series.study if series.study in studies() else None
    with leaving_out(known):
        yield from list(_rolls(series))


def _rolls(series: Series) -> Iterator[Roll]:
    for name in POOLS[series.kind]:
        try:
            training = training_rows(law(name), read_runs(series.frame), str(series.frame["eval"].iloc[0]), None)
        except CptlawError:
            continue
        frame = training.frame.reset_index(drop=True)
        for direction, lower in cuts_of(frame, seen(training.law, frame)):
            found = _roll(series, replace(training, frame=frame), name, direction, lower)
            if found is not None and len(found.error):
                yield found


def _roll(series: Series, training: TrainingRows, name: str, direction: str, lower: Array) -> Roll | None:
    chosen, frame = training.law, training.frame
    part, upper = frame[lower].reset_index(drop=True), frame[~lower]
    own = Restraint().with_usual_priors(chosen, training.role)
    try:
        restraint = learned(chosen, own, float(part["loss"].min()), training.role)
        options = Options(chosen.delta, min(STARTS, chosen.starts), 0, restraint)
        fit = fit_rows(replace(training, frame=part), options)
        forecast = fit.predict(upper)
    except CptlawError:
        return None
    directions = seen(chosen, part)
    error = np.log(np.maximum(forecast, 1e-300)) - np.log(upper["loss"].to_numpy(dtype=float))
    kept = np.isfinite(error) & (np.abs(error) < ABSURD)
    return Roll(
        study=series.study,
        series=series.name,
        law=name,
        direction=direction,
        spread=noise(fit).spread,
        names=tuple(one.name for one in directions),
        distance=outside(part, upper, directions)[kept],
        error=error[kept],
        doubt=np.minimum(parameter_doubt(fit, upper)[kept], MOST_DOUBT),
        inner=inner_rollouts(fit),
        params=dict(fit.params),
        mean_loss=float(part["loss"].mean()),
    )


def learned(chosen: Law, own: Restraint, lowest_loss: float, role: Role) -> Restraint:
    """Return the restraint of a roll: exponents tied where a law has a pair, learned priors on the rest."""
    tied = tuple(tie for tie in TIES if all(name in chosen.shapes and name not in own.named for name in tie))
    taken = {*own.named, *chosen.derived, *(name for tie in tied for name in tie[1:])}
    priors = learned_priors(chosen, lowest_loss, role)
    weak = {name: prior for name, prior in priors.items() if name not in taken}
    return replace(own, tied=(*own.tied, *tied), priors={**own.priors, **weak})


def parameter_doubt(fit: LawFit, frame: pd.DataFrame) -> Array:
    """Return the standard deviation of the log loss that the doubt about the parameters makes, to first order, (n,)."""
    problem, at = fit.problem(), fit.optima[:1]
    goal = Objective(problem, fit.options.delta, penalty=fit.penalty(problem))
    curvature = goal.evaluate(at)["majoriser"][0]
    gradient = jacobian(
        problem, at[0, : problem.k], at[0, problem.k :], at=fit.law.bind(fit.completed(frame), fit.role)
    )
    scale = 1.0 / np.sqrt(np.maximum(np.diag(curvature), 1e-300))
    values, vectors = np.linalg.eigh(curvature * scale[:, None] * scale)
    along = (gradient * scale) @ vectors / np.sqrt(np.maximum(values, 1e-10 * values.max()))
    found: Array = np.sqrt(2.0 * noise(fit).rise * np.sum(along**2, axis=1))
    return found
