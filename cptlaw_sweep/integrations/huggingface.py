"""A callback of Hugging Face's Trainer, and of all that is built on it: TRL, LLaMA-Factory, axolotl."""

from __future__ import annotations

import copy
import functools
import logging
import math
import time
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cptlaw.errors import UsageError, needed_for
from cptlaw_sweep.integrations.stopping import COST, MARGIN, Advice, StopRule, look_steps, schedule_of_rates

with needed_for("TrainerCallback", "transformers"):
    import transformers

logger = logging.getLogger("cptlaw")

FREE_SECONDS = 5.0  # of forecasts that a run may spend whatever its length, spread over its looks
RAISED = 300  # steps after which a warm-up that still goes on is waited for no longer
MOST_RATES = 100_000  # steps at which the planned rate is asked for; in between it is drawn straight


def harmless(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a hook of the callback fail without ending the training: it warns, once, and the callback stays silent."""

    @functools.wraps(hook)
    def run(self: TrainerCallback, args: Any, state: Any, control: Any, *more: Any, **given: Any) -> Any:
        if self._failed:
            return control
        try:
            return hook(self, args, state, control, *more, **given)
        except Exception as error:  # noqa: BLE001 - days of training must not end for want of a forecast
            self._failed = True
            logger.warning("cptlaw: no more forecasts in this run, which goes on: %s: %s", type(error).__name__, error)
            return control

    return run


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Measures both losses at log-spaced steps and forecasts where the run will end, with its interval.

    It never ends a training by a fault of its own: what fails is warned of once, and the training goes on. Where the
    learning rate is not planned ahead, as under ReduceLROnPlateau, forecasts hold the last one, and no
    run is stopped.

    Give the trainer ``eval_dataset={"source": .., "target": ..}``; the names are free, and `source` and `target` say
    which they are. With ``eval_on_start=True`` the base model is measured too, which forgetting needs.

    Parameters
    ----------
    max_target_loss, max_source_loss
        Limits, in nats per token.
    max_forgetting
        The highest relative rise of the source loss over the base model's, as 0.02.
    stop
        Whether to end a run that will miss a limit. Else the advice is logged and the run goes on. Of runs that would
        have kept their limits, at most 2 % are stopped (`cptlaw_sweep.integrations.stopping`).
    looks
        How often the losses are measured, spaced evenly in the logarithm of tokens.
    source, target
        Names of the validation sets, where they are others.
    margin
        Of the stop rule.

    Attributes
    ----------
    advice
        The last `Advice`.

    Examples
    --------
    Trainer(.., eval_dataset={"source": old, "target": new}, callbacks=[TrainerCallback(max_forgetting=0.02)])
    """

    def __init__(
        self,
        *,
        max_target_loss: float | None = None,
        max_source_loss: float | None = None,
        max_forgetting: float | None = None,
        stop: bool = False,
        looks: int = 16,
        source: str = "source",
        target: str = "target",
        margin: float = MARGIN,
    ):
        given = {"target": max_target_loss, "source": max_source_loss}
        limits = {name: limit for name, limit in given.items() if limit is not None}
        self._stop, self._looks = stop, looks
        if stop and not limits and max_forgetting is None:
            raise UsageError("stop=True needs a limit: max_target_loss, max_source_loss or max_forgetting.")
        # Made before the schedule is known: a slip shows here, not hours later, and the base model may be measured.
        self._rule = StopRule(schedule_of_rates([1e-3, 1e-3]), limits, max_forgetting, margin)
        self._roles = {"eval_loss": "target", f"eval_{source}_loss": "source", f"eval_{target}_loss": "target"}
        self.advice: Advice | None = None
        self._trainer: Any = None
        self._spent, self._started, self._fresh = 0.0, time.monotonic(), set[str]()
        self._at: set[int] = set()
        self._rates: dict[int, float] = {}  # as the optimiser had them, where the plan is not known
        self._warmup, self._failed = 0, False
        self._said: set[str] = set()

    def attach(self, trainer: Any) -> TrainerCallback:
        """Send forecasts to all that the trainer reports to (TensorBoard, W&B), beside its own history of logs.

        Parameters
        ----------
        trainer
            The trainer that the callback was given to.
        """
        self._trainer = trainer
        return self

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Read the whole plan of the learning rate, and choose when to look."""
        past = {entry["step"]: entry["learning_rate"] for entry in state.log_history if "learning_rate" in entry}
        rates = planned_rates(given.get("lr_scheduler"), state.max_steps, past)
        self._warmup = min(int(args.get_warmup_steps(state.max_steps)), state.max_steps)
        if rates is None:
            self._rates = past or {0: float(args.learning_rate)}
            rates = drawn(self._rates, state.max_steps)
            name = type(getattr(given.get("lr_scheduler"), "scheduler", given.get("lr_scheduler"))).__name__
            self._warn(f"the plan of {name} is not known ahead: forecasts hold the last rate, and no run is stopped.")
        self._rule = self._rule.of_training(schedule_of_rates(rates, self._warmup))
        self._at = set(look_steps(state.max_steps, self._looks))
        self._started = time.monotonic()
        is_measured = "source" in self._rule.evals or state.global_step > 0 or args.eval_on_start
        if self._rule.max_forgetting is not None and not is_measured:
            self._warn("max_forgetting needs the base model's loss: set eval_on_start=True.")

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
        """Ask for an evaluation at the next look, and note the rate where it is not planned."""
        if self._rates and given.get("optimizer") is not None:
            self._rates[state.global_step] = _rate_of(given["optimizer"])
        if state.global_step in self._at:
            control.should_evaluate = True
        return control

    @harmless
    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float] | None = None, **given: Any
    ) -> Any:
        """Note the losses; once all are there, forecast the end and give advice."""
        for key, loss in (metrics or {}).items():
            name = self._roles.get(key)
            if name is None:
                continue
            self._fresh.add(name)
            self._rule.measured(name, state.global_step, float(loss))
        if not (self._at and self._fresh and state.global_step):
            return control
        # One validation set of two comes before the other.
        if self._fresh >= self._rule.evals and self._is_due(state):
            begun = time.monotonic()
            if self._rates:
                self._rule.schedule = schedule_of_rates(drawn(self._rates, state.max_steps), self._warmup)
            self.advice = self._rule.look()
            self._spent += time.monotonic() - begun
            self._fresh = set()
            self._tell(state)
            if self.advice.stop and self._stop and not self._rates:
                control.should_training_stop = True
        return control

    def _is_due(self, state: Any) -> bool:
        """Whether the rate has been raised, and a forecast keeps its cost below its share of the time so far."""
        if state.global_step <= min(self._warmup, RAISED, state.max_steps // 3):
            return False
        # Looks are dense at the beginning, where little is known: free seconds that were not spread would be gone.
        free = FREE_SECONDS * sum(step <= state.global_step for step in self._at) / len(self._at)
        return bool(self._spent <= max(free, COST * (time.monotonic() - self._started)))

    def _tell(self, state: Any) -> None:
        """Log the forecast, on the first process."""
        assert self.advice is not None
        for finding in self.advice.findings:
            if finding.severity == "warning":
                self._warn(f"no forecast at step {state.global_step}: {finding.message}", finding.code)
        logs = self.advice.logs()
        if not logs or not state.is_world_process_zero:
            return
        if self._trainer is not None:
            self._trainer.log(dict(logs))
        else:
            state.log_history.append({**logs, "step": state.global_step})
        values = "; ".join(f"{label} loss at the end {text}" for label, text in self.advice.lines)
        if self.advice.stop or "first" not in self._said:  # libraries show warnings alone
            self._said.add("first")
            logger.warning("cptlaw: %s; %s", self.advice.title, values)
        else:
            logger.info("cptlaw: %s; %s", self.advice.title, values)

    def _warn(self, text: str, kind: str = "") -> None:
        """Warn once of each kind."""
        if (kind or text) not in self._said:
            self._said.add(kind or text)
            logger.warning("cptlaw: %s", text)


def planned_rates(scheduler: Any, max_steps: int, past: Mapping[int, float] | None = None) -> list[float] | None:
    """Return the learning rate at each step of a run, 0 to the last, as its scheduler will set it.

    Parameters
    ----------
    scheduler
        Of torch, at the step where the training begins. Those of transformers give the rate as a function of the step;
        others are run ahead on a copy.
    max_steps
        Steps of the run.
    past
        Step -> rate, of a run that is resumed.

    Returns
    -------
    list or None
        Rates, (max_steps + 1,); nothing where the plan is not known ahead, as where it follows the losses.
    """
    inner = getattr(scheduler, "scheduler", scheduler)  # accelerate wraps it
    factors = getattr(inner, "lr_lambdas", None)
    begin = 0
    if factors and all(factors):
        steps = np.unique(np.linspace(0, max_steps, min(max_steps, MOST_RATES) + 1).round().astype(int))
        peak = max(float(rate) for rate in inner.base_lrs)
        rates = [peak * float(factors[0](int(step))) for step in steps]
    else:
        begin = int(getattr(inner, "last_epoch", 0))
        rates = _run_ahead(inner, max_steps - begin)
        steps = np.arange(begin, begin + len(rates))
    if not rates or not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        return None
    known = {step: rate for step, rate in (past or {}).items() if step < begin}
    return drawn({**known, **dict(zip(steps.tolist(), rates, strict=True))}, max_steps)


def _run_ahead(scheduler: Any, steps: int) -> list[float]:
    """Return the rates at this step and the next ones, of a copy that drives no optimiser; none if that fails."""
    optimiser = scheduler.optimizer
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimiser.param_groups]
    try:
        # The weights and what the optimiser remembers of them are not copied: a plan needs neither.
        idle = types.SimpleNamespace(
            param_groups=copy.deepcopy(groups), defaults=optimiser.defaults, step=optimiser.step
        )
        ahead = copy.deepcopy(scheduler, {id(optimiser): idle})
        rates = [_rate_of(idle)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no optimiser makes these steps
            for _ in range(steps):
                ahead.step()
                rates.append(_rate_of(idle))
    except Exception:  # noqa: BLE001 - a scheduler may be anything, and may need a loss to go on
        return []
    return rates


def _rate_of(optimiser: Any) -> float:
    return max(float(group["lr"]) for group in optimiser.param_groups)


def drawn(rates: Mapping[int, float], max_steps: int) -> list[float]:
    """Return the rate at each step from those at some: straight in between, held at both ends."""
    steps = sorted(rates)
    values: list[float] = np.interp(np.arange(max_steps + 1), steps, [rates[step] for step in steps]).tolist()
    return values
