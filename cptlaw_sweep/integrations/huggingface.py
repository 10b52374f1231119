"""A callback of Hugging Face's Trainer, and of all that is built on it: TRL, LLaMA-Factory, axolotl."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from cptlaw.errors import UsageError
from cptlaw_sweep.integrations.stopping import COST, MARGIN, Advice, StopRule, look_steps, schedule_of_rates

try:
    import transformers
except ImportError:
    raise UsageError("TrainerCallback needs transformers. Install it with: pip install transformers") from None

logger = logging.getLogger("cptlaw")

FREE_SECONDS = 5.0  # of forecasts that a run may spend whatever its length
MOST_RATES = 100_000  # steps at which the planned rate is asked for; in between it is drawn straight


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Measures both losses at log-spaced steps and forecasts where the run will end, with its interval.

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
        limits = {"target": max_target_loss, "source": max_source_loss}
        self._limits = {name: limit for name, limit in limits.items() if limit is not None}
        self._max_forgetting, self._stop, self._looks, self._margin = max_forgetting, stop, looks, margin
        if stop and not self._limits and max_forgetting is None:
            raise UsageError("stop=True needs a limit: max_target_loss, max_source_loss or max_forgetting.")
        StopRule(schedule_of_rates([1e-3, 1e-3]), self._limits, max_forgetting)  # a slip shows here, not hours later
        self._names = {source: "source", target: "target"}
        self._roles = {f"eval_{name}_loss": role for name, role in self._names.items()}
        self.advice: Advice | None = None
        self._rule: StopRule | None = None
        self._trainer: Any = None
        self._early: list[tuple[str, int, float]] = []
        self._spent, self._started, self._fresh = 0.0, time.monotonic(), set[str]()
        self._at: set[int] = set()

    def attach(self, trainer: Any) -> TrainerCallback:
        """Send forecasts to all that the trainer reports to (TensorBoard, W&B), beside its own history of logs.

        Parameters
        ----------
        trainer
            The trainer that the callback was given to.
        """
        self._trainer = trainer
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Read the whole plan of the learning rate, and choose when to look."""
        rates = planned_rates(given.get("lr_scheduler"), args, state.max_steps)
        warmup = int(args.get_warmup_steps(state.max_steps))
        self._rule = StopRule(schedule_of_rates(rates, warmup), self._limits, self._max_forgetting, margin=self._margin)
        self._at = set(look_steps(state.max_steps, self._looks))
        self._started = time.monotonic()
        for row in self._early:
            self._rule.measured(*row)
        if self._max_forgetting is not None and not self._early and state.global_step == 0 and not args.eval_on_start:
            logger.warning("cptlaw: max_forgetting needs the base model's loss: set eval_on_start=True.")

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
        """Ask for an evaluation at the next look."""
        if state.global_step in self._at:
            control.should_evaluate = True
        return control

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float] | None = None, **given: Any
    ) -> Any:
        """Note the losses; once all are there, forecast the end and give advice."""
        for key, loss in (metrics or {}).items():
            name = self._roles.get(key) or (
                "target" if key == "eval_loss" and "target" in self._names.values() else None
            )
            if name is None:
                continue
            self._fresh.add(name)
            if self._rule is None:
                self._early.append((name, state.global_step, float(loss)))
            else:
                self._rule.measured(name, state.global_step, float(loss))
        if self._rule is not None and state.global_step and self._is_complete(args) and self._is_cheap():
            begun = time.monotonic()
            self.advice = self._rule.look()
            self._spent += time.monotonic() - begun
            self._fresh = set()
            self._tell(state)
            if self.advice.stop and self._stop:
                control.should_training_stop = True
        return control

    def _is_complete(self, args: Any) -> bool:
        """Whether the losses of this step are all there; one validation set of two comes before the other."""
        assert self._rule is not None
        known = {row["eval"] for row in self._rule._rows}
        return bool(self._fresh) and self._fresh >= known

    def _is_cheap(self) -> bool:
        """Whether a forecast keeps the cost below its share of the time so far; the first seconds always do."""
        return self._spent <= max(FREE_SECONDS, COST * (time.monotonic() - self._started))

    def _tell(self, state: Any) -> None:
        """Log the forecast, on the first process."""
        assert self.advice is not None
        for finding in self.advice.findings:
            if finding.severity == "warning":
                logger.warning("cptlaw: no forecast at step %d: %s", state.global_step, finding.message)
        logs = self.advice.logs()
        if not logs or not state.is_world_process_zero:
            return
        if self._trainer is not None:
            self._trainer.log(dict(logs))
        else:
            state.log_history.append({**logs, "step": state.global_step})
        said = "; ".join(f"{label} {text}" for label, text in self.advice.lines)
        logger.warning("cptlaw: %s; %s", self.advice.title, said) if self.advice.stop else logger.info(
            "cptlaw: %s; %s", self.advice.title, said
        )


def planned_rates(scheduler: Any, args: Any, max_steps: int) -> list[float]:
    """Return the learning rate at each step of a run, 0 to the last, as its scheduler will set it.

    Parameters
    ----------
    scheduler
        Of torch; those of transformers give the rate as a function of the step.
    args
        The training arguments, for the peak.
    max_steps
        Steps of the run.

    Raises
    ------
    UsageError
        If the scheduler decides by the losses, so that its plan is not known.
    """
    import numpy as np

    inner = getattr(scheduler, "scheduler", scheduler)  # accelerate wraps it
    factors = getattr(inner, "lr_lambdas", None)
    if factors is None:
        raise UsageError(
            f"the plan of {type(inner).__name__} is not known ahead. Use a scheduler that is a function of the step, "
            "such as lr_scheduler_type='cosine'."
        )
    peak = max(float(rate) for rate in inner.base_lrs)
    steps = np.unique(np.linspace(0, max_steps, min(max_steps, MOST_RATES) + 1).round().astype(int))
    rates = [peak * float(factors[0](int(step))) for step in steps]
    if not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        raise UsageError("the scheduler gives rates that are no numbers of 0 or more.")
    found: list[float] = np.interp(np.arange(max_steps + 1), steps, rates).tolist()
    return found
