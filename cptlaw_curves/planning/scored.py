"""A fitted score in a plan of schedules: what it comes to at the losses that the plan's laws forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.forecasting.scores import scoring
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.planning.loss import LossBase, base_losses
from cptlaw.planning.points import score_fits, score_reference
from cptlaw.planning.reference import Reference
from cptlaw.schedules import Schedule
from cptlaw.units import format_percent
from cptlaw_curves.planning.curve_loss import CurveLoss

if TYPE_CHECKING:
    from cptlaw_scores import ErrorRate, ScoreFit

SEEN = 0.5  # weight of the members through the plan's losses below which the rest is worth a word


@dataclass(frozen=True, eq=False)
class LossAtEnd:
    """The loss at the last step of one schedule, as the members of a score read a fitted loss.

    Parameters
    ----------
    loss
        The law of whole curves.
    rows
        Its inputs at that step, one row.
    """

    loss: CurveLoss
    rows: pd.DataFrame

    @property
    def law(self) -> AnyLaw:
        """The law."""
        return self.loss.fit.law

    def predict(self, frame: pd.DataFrame) -> Array:
        """Return the loss, (1,), whatever the row: the schedule says it."""
        values: Array = self.loss.fit.predict(self.rows)
        return values

    def log_quantiles(self, frame: pd.DataFrame, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss, (probabilities, 1)."""
        values: Array = self.loss.fit.log_quantiles(self.rows, probabilities, measured)
        return values


@dataclass(frozen=True, eq=False)
class ScheduledScore(LossBase):
    """A score as an error rate, which a plan of schedules keeps below a limit.

    Parameters
    ----------
    fit
        The score by the members through losses of the plan, whose weights add up to one.
    role
        The eval.
    losses
        The losses that carry it, by eval.
    n_params
        Parameters of the model; ``None`` where they are not known.
    """

    fit: ScoreFit
    role: str
    losses: Mapping[str, CurveLoss]
    n_params: float | None

    @property
    def knows_doubt(self) -> bool:
        """Whether there are enough runs to say how runs differ."""
        return all(loss.knows_doubt for loss in self.losses.values())

    def error_rate(self, losses: Mapping[str, float]) -> float:
        """Return the error rate at losses that are forecast, by role as in ``target_loss``."""
        row = pd.DataFrame(index=range(1))
        shares = [
            part.weight * part.score(row, np.array([losses[f"{self.losses[str(part.carrier)].role}_loss"]]))[0]
            for part in self.fit.members
        ]
        return float(1.0 - np.sum(shares))

    def after(self, schedule: Schedule, replay: float | None) -> ErrorRate:
        """Return the score after a schedule, with the doubt of its losses there."""
        ends = {name: LossAtEnd(loss, loss.at_end(schedule, replay)) for name, loss in self.losses.items()}
        return scoring.ErrorRate(
            replace(self.fit, members=tuple(replace(part, loss=ends[str(part.carrier)]) for part in self.fit.members))
        )

    @property
    def row(self) -> pd.DataFrame:
        """The model, one row; how far it lies from the models with scores is all that the score reads of it."""
        return pd.DataFrame({} if self.n_params is None else {"n_params": [self.n_params]}, index=range(1))

    def doubt(self, schedule: Schedule, replay: float | None, chance: float) -> float:
        """Return how far above its forecast the error rate may lie, in logs, with a probability; items count."""
        there = self.after(schedule, replay)
        return float(there.log_quantiles(self.row, [chance])[0, 0] - np.log(there.predict(self.row))[0])

    def forecast(self, schedule: Schedule, replay: float | None, interval: float | None) -> dict[str, float | None]:
        """Return score, score_lo and score_hi after a schedule."""
        score = self.after(schedule, replay).score
        result: dict[str, float | None] = {
            "score": float(score.predict(self.row)[0]),
            "score_lo": None,
            "score_hi": None,
        }
        if interval is not None and self.knows_doubt:
            low, high = score.quantiles(self.row, [0.5 - 0.5 * interval, 0.5 + 0.5 * interval])[:, 0]
            result |= {"score_lo": float(low), "score_hi": float(high)}
        return result

    @property
    def base(self) -> Reference:
        """The base model's measured score.

        Raises
        ------
        UsageError
            If there is none.
        """
        measured = np.unique(base_losses(self.fit, self.n_params))
        if len(measured) != 1:
            raise UsageError(f"{self.role}: no one score of the base model was measured.")
        return score_reference(1.0 - float(measured[0]), self.fit.n_items)


def scheduled_scores(
    fits: object, losses: Sequence[CurveLoss], n_params: float | None
) -> tuple[dict[str, ScheduledScore], list[Finding]]:
    """Return the scores of a plan by eval, and what of their fits sees no schedule.

    Parameters
    ----------
    fits
        Fitted scores or their files: one, several, or a mapping.
    losses
        The losses of the plan.
    n_params
        Parameters of the model, where they are known.

    Raises
    ------
    UsageError
        If one of them is no fit of a score, or goes through none of the plan's losses.
    """
    carriers = {loss.fit.on: loss for loss in losses}
    result, notes = {}, []
    for name, fit in score_fits(fits).items():
        kept = [part for part in fit.members if part.carrier in carriers]
        seen = sum(part.weight for part in kept)
        if not kept or seen <= 0:
            through = next(iter(carriers))
            raise UsageError(
                f"scores (--score): no law of {name} reads a loss of this plan ({', '.join(carriers)}), and "
                f"the others see no schedule. Its laws: {', '.join(part.name for part in fit.members)}. Fit one "
                f"that does, on a table with both: cptlaw fit RUNS --on {name} --law score-sigmoid:through={through}"
            )
        if seen < SEEN:
            notes.append(
                Finding(
                    "warning",
                    "ways-left-out",
                    f"{name}: laws with {format_percent(1.0 - seen, 2)} of the weight go through none of the plan's "
                    f"losses and see no schedule; the plan rests on the others.",
                    f"See `cptlaw fit` on {name}: which loss carries it?",
                )
            )
        members = tuple(replace(part, weight=part.weight / seen) for part in kept)
        used = {str(part.carrier): carriers[str(part.carrier)] for part in members}
        result[name] = ScheduledScore(replace(fit, members=members), name, used, n_params)
    return result, notes
