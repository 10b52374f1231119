"""A pruner of Optuna: prunes trials whose forecast says that they will not reach the best one, or a limit."""

from __future__ import annotations

import math
from typing import Any

from cptlaw.errors import needed_for
from cptlaw.schedules import Schedule
from cptlaw_sweep.integrations.stopping import MARGIN, StopRule, WarnedOnce

with needed_for("LawPruner", "optuna"):
    import optuna


class LawPruner(optuna.pruners.BasePruner):  # type: ignore[misc, unused-ignore]
    """Prunes a trial once its loss at the end will lie above its limit, and ends none in another way.

    What fails, and a study that maximises, is warned of once, and nothing is pruned.

    Parameters
    ----------
    schedule
        The learning rates of a whole trial. Steps of ``trial.report`` are its optimiser steps.
    max_loss
        The limit. Where not given, the best value of the study so far.
    margin
        Of the stop rule.

    Examples
    --------
    >>> import optuna
    >>> from cptlaw.schedules import Phase, Schedule
    >>> plan = Schedule([Phase("cpt", 1000, "constant", peak=1e-3, warmup=10)])
    >>> study = optuna.create_study(pruner=LawPruner(plan))
    """

    def __init__(self, schedule: Schedule, *, max_loss: float | None = None, margin: float = MARGIN):
        self._schedule, self._max_loss, self._margin = schedule, max_loss, margin
        StopRule(schedule, {} if max_loss is None else {"target": max_loss}, margin=margin)  # a slip shows here
        self._warned = WarnedOnce()

    def prune(self, study: object, trial: object) -> bool:
        """Return whether a trial is to be pruned after its last report."""
        try:
            return self._is_lost(study, trial)
        except Exception as error:  # noqa: BLE001 - raised into the training of a user, where it would end the study
            self._warned(f"LawPruner prunes nothing: {type(error).__name__}: {error}")
            return False

    def _is_lost(self, study: Any, trial: Any) -> bool:
        if study.direction != optuna.study.StudyDirection.MINIMIZE:
            self._warned("LawPruner forecasts losses, and the study maximises: nothing is pruned.")
            return False
        limit = self._max_loss
        if limit is None:
            finished = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
            limit = min((float(each.value) for each in finished if each.value is not None), default=math.inf)
        if not math.isfinite(limit) or limit <= 0:
            return False
        rule = StopRule(self._schedule, {"target": limit}, margin=self._margin)
        for step, loss in sorted(trial.intermediate_values.items()):
            rule.measured("target", int(step), float(loss))
        return rule.look().stop
