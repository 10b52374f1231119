"""A Stopper of Ray Tune: ends trials whose forecast says that they will not reach the best one, or a limit."""

from __future__ import annotations

import math
from typing import Any

from cptlaw.errors import needed_for
from cptlaw.schedules import Schedule
from cptlaw_sweep.integrations.stopping import MARGIN, StopRule, WarnedOnce

with needed_for("LawStopper", "ray[tune]"):
    from ray.tune import Stopper


class LawStopper(Stopper):  # type: ignore[misc, unused-ignore]
    """Stops a trial once its loss at the end will lie above its limit, and ends none in another way.

    What fails, and a result without its fields, is warned of once, and nothing is stopped.

    Parameters
    ----------
    schedule
        The learning rates of a whole trial; all trials share its shape and length (rates may differ by a factor).
    metric
        The loss that trials report.
    step
        The field that holds optimiser steps.
    max_loss
        The limit. Where not given, the lowest loss at the end of any finished trial.
    margin
        Of the stop rule.

    Examples
    --------
    Tuner(.., run_config=RunConfig(stop=LawStopper(schedule, metric="eval_loss")))
    """

    def __init__(
        self,
        schedule: Schedule,
        metric: str = "loss",
        *,
        step: str = "step",
        max_loss: float | None = None,
        margin: float = MARGIN,
    ):
        self._schedule, self._metric, self._step = schedule, metric, step
        self._max_loss, self._margin = max_loss, margin
        StopRule(schedule, {} if max_loss is None else {"target": max_loss}, margin=margin)  # a slip shows here
        self._rules: dict[str, StopRule] = {}
        self._best = math.inf
        self._warned = WarnedOnce()

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
        """Return whether a trial is to be stopped after a result."""
        try:
            return self._is_lost(trial_id, result)
        except Exception as error:  # noqa: BLE001 - Ray would end all trials
            self._warned(f"LawStopper stops nothing: {type(error).__name__}: {error}")
            return False

    def _is_lost(self, trial_id: str, result: dict[str, Any]) -> bool:
        if self._metric not in result or self._step not in result:
            known = ", ".join(sorted(map(str, result))[:20])
            missing = f"a trial reports no {self._metric!r} or no {self._step!r}. It reports: {known}."
            self._warned(f"LawStopper stops nothing: {missing}")
            return False
        rule = self._rules.setdefault(trial_id, StopRule(self._schedule, margin=self._margin))
        step, loss = int(result[self._step]), float(result[self._metric])
        rule.measured("target", step, loss)
        if step >= rule.n_steps:
            self._best = min(self._best, loss if math.isfinite(loss) else math.inf)
            return False  # whether it goes on beyond its plan is its own affair
        limit = self._max_loss if self._max_loss is not None else self._best
        if not math.isfinite(limit) or limit <= 0:
            return False
        rule.limits = {"target": limit}
        return rule.look().stop

    def stop_all(self) -> bool:
        """Return whether all trials are to be stopped: never."""
        return False
