"""A callback of Hugging Face's Trainer, and of all that is built on it: TRL, LLaMA-Factory, axolotl."""

from __future__ import annotations

import copy
import functools
import gc
import logging
import math
import time
import types
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cptlaw.errors import DataError, UsageError, needed_for
from cptlaw_sweep.integrations.measuring import HeldOutLosses
from cptlaw_sweep.integrations.stopping import COST, LEAST, MARGIN, Advice, StopRule, look_steps, schedule_of_rates

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler
    from transformers import PreTrainedModel, Trainer, TrainerControl, TrainerState, TrainingArguments

with needed_for("TrainerCallback", "transformers"):
    import transformers

logger = logging.getLogger("cptlaw")

FREE_SECONDS = 5.0  # that measurements, and forecasts, may take whatever the run's length, spread over its looks
FIRST_SECONDS = 60.0  # that the base model is measured for at most: what is not reached is never measured
MEASURING = 0.02  # share of the training's time that measurements may take
RAISED = 300  # steps after which a warm-up that still goes on is waited for no longer
MOST_RATES = 100_000  # steps at which the planned rate is asked for; in between it is drawn straight


def warn_on_errors(hook: Callable[..., None]) -> Callable[..., None]:
    """Let a hook of the callback fail without ending the training: it warns, once, and the callback stays silent."""

    @functools.wraps(hook)
    def run(
        self: TrainerCallback, args: object, state: object, control: object, *more: object, **given: object
    ) -> None:
        if self._failed:
            return
        try:
            hook(self, args, state, control, *more, **given)
        except Exception as error:  # noqa: BLE001 - days of training must not end for want of a forecast
            self._failed = True
            logger.warning("cptlaw: no more forecasts in this run, which goes on: %s: %s", type(error).__name__, error)

    return run


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Measures both losses at log-spaced steps and forecasts where the run will end, with its interval.

    The training is the same with it and without it, to the last digit, unless `stop` is asked for: the callback
    measures by itself, on the same rows each time, and asks the trainer for no evaluation, on which early stopping,
    schedulers and checkpoints hang. What fails is warned of once, and the training goes on. Where the learning rate is
    not planned ahead, as under ReduceLROnPlateau, forecasts hold the last one, and no run is stopped.

    Give the trainer ``eval_dataset={"source": .., "target": ..}`` (the names are free, and `source` and `target` say
    which they are), and call `attach`. Where the callback cannot measure by itself, it takes the evaluations that
    happen anyhow: without `attach`, on several processes, on sets that are streams, with schedule-free optimisers.

    Parameters
    ----------
    max_target_loss, max_source_loss
        Limits, in nats per token.
    max_forgetting
        The highest relative rise of the source loss over the base model's, as 0.02 or ``"2%"``.
    stop
        Whether to end a run that will miss a limit. Else the advice is logged and the run goes on. Of runs that would
        have kept their limits, at most 2 % are stopped (`cptlaw_sweep.integrations.stopping`).
    looks
        How often the losses are measured, spaced evenly in the logarithm of tokens.
    rows
        How many rows of each set are measured: the more, the longer a look takes. All looks together take at most
        2 % of the training's time, or five seconds.
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
    callback = TrainerCallback(max_forgetting=0.02)
    trainer = Trainer(.., eval_dataset={"source": old, "target": new}, callbacks=[callback])
    callback.attach(trainer)
    """

    def __init__(
        self,
        *,
        max_target_loss: float | None = None,
        max_source_loss: float | None = None,
        max_forgetting: float | str | None = None,
        stop: bool = False,
        looks: int = 16,
        rows: int = 256,
        source: str = "source",
        target: str = "target",
        margin: float = MARGIN,
    ):
        given = {"target": max_target_loss, "source": max_source_loss}
        limits = {name: limit for name, limit in given.items() if limit is not None}
        if stop and not limits and max_forgetting is None:
            raise UsageError("stop=True needs a limit: max_target_loss, max_source_loss or max_forgetting.")
        if source == target:
            raise UsageError(f"source and target are both {source!r}: they are two validation sets.")
        if not _is_count(looks) or looks < LEAST:
            raise UsageError(f"looks={looks!r}: a forecast needs {LEAST} looks at least.")
        if not _is_count(rows):
            raise UsageError(f"rows={rows!r}: expected a number of rows, 1 or more.")
        self._stop, self._looks, self._rows = stop, looks, rows
        # Made before the schedule is known: a slip shows here, not hours later, and the base model may be measured.
        self._rule = StopRule(schedule_of_rates([1e-3, 1e-3]), limits, max_forgetting, margin)
        self._names = {source: "source", target: "target"}
        self._roles = {"eval_loss": "target", f"eval_{source}_loss": "source", f"eval_{target}_loss": "target"}
        self.advice: Advice | None = None
        self._trainer: Any = None
        self._held_out: HeldOutLosses | None = None
        self._forecasting, self._measuring, self._started = 0.0, 0.0, time.monotonic()
        self._fresh = set[str]()
        self._at, self._is_look_due = set[int](), False
        self._rates: dict[int, float] = {}  # as the optimiser had them, where the plan is not known
        self._warmup, self._failed = 0, False
        self._said: set[str] = set()

    def attach(self, trainer: object) -> TrainerCallback:
        """Measure on the trainer's validation sets, and send forecasts to where it reports (TensorBoard, W&B).

        Parameters
        ----------
        trainer
            The trainer that the callback was given to.
        """
        self._trainer = trainer
        return self

    @warn_on_errors
    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: object, **given: object) -> None:
        """Read the whole plan of the learning rate, choose when to look, and measure the base model."""
        past = {entry["step"]: entry["learning_rate"] for entry in state.log_history if "learning_rate" in entry}
        rates = planned_rates(given.get("lr_scheduler"), state.max_steps, past)
        self._warmup = min(int(args.get_warmup_steps(state.max_steps)), state.max_steps)
        self._rates = {}
        if rates is None:
            self._rates = past or {0: float(args.learning_rate)}
            rates = interpolate_rates(self._rates, state.max_steps)
            name = type(getattr(given.get("lr_scheduler"), "scheduler", given.get("lr_scheduler"))).__name__
            self._warn(f"the plan of {name} is not known ahead: forecasts hold the last rate, and no run is stopped.")
        self._rule = self._rule.of_training(schedule_of_rates(rates, self._warmup))
        self._at = {step for step in look_steps(state.max_steps, self._looks) if step > state.global_step}
        self._forecasting, self._measuring, self._started = 0.0, 0.0, time.monotonic()
        self._held_out = self._own_losses(args, state, given.get("optimizer"))
        if self._held_out is not None:
            self._rule = self._rule.without_rows()
        self._take_up(state)
        if self._held_out is not None and state.global_step == 0:
            self._measure(state, given["model"], FIRST_SECONDS)
        is_measured = "source" in self._rule.evals or args.eval_on_start
        if self._rule.max_forgetting is not None and not is_measured:
            self._warn("max_forgetting needs the base model's loss: set eval_on_start=True, or attach(trainer).")

    def _own_losses(self, args: TrainingArguments, state: TrainerState, optimizer: object) -> HeldOutLosses | None:
        """Return what the callback measures by itself; nothing, and say so, where it has to take evaluations."""
        try:
            return held_out(self._trainer, self._names, optimizer, self._rows)
        except DataError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - sets and collators are anybody's
            reason = f"{type(error).__name__}: {error}"
        is_planned = str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no"
        remedy = "those of the trainer's evaluations are taken" if is_planned else "set eval_strategy for evaluations"
        (logger.info if is_planned else self._warn)(f"losses are not measured by the callback: {reason}; {remedy}.")
        return None

    def _take_up(self, state: TrainerState) -> None:
        """Note what an earlier part of this run has measured, of which the trainer keeps the logs."""
        own = self._held_out is not None
        roles = {f"measured/{role}_loss": role for role in self._names.values()} if own else self._roles
        for entry in state.log_history:
            for key in entry.keys() & roles.keys():
                if entry.get("step", math.inf) <= state.global_step:
                    self._rule.measured(roles[key], entry["step"], float(entry[key]))
            if self._held_out is not None and "measured/rows" in entry:
                self._held_out.keep(int(entry["measured/rows"]))

    @warn_on_errors
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: object, **given: object) -> None:
        """Note the rate where it is not planned; at a look measure, forecast the end and give advice."""
        if self._rates and given.get("optimizer") is not None:
            self._rates[state.global_step] = _rate_of(given["optimizer"])
        if self._held_out is None:
            return
        self._is_look_due |= state.global_step in self._at
        # A look that its share of the time does not allow yet comes later.
        if self._is_look_due and self._may_spend(self._measuring, MEASURING, state):
            self._is_look_due = False
            self._measure(state, given["model"])
            self._look(state, control)

    def _measure(self, state: TrainerState, model: PreTrainedModel, seconds: float | None = None) -> None:
        """Measure the losses, and log them. Where that fails, the trainer's evaluations are taken from now on."""
        assert self._held_out is not None
        begun = time.monotonic()
        try:
            losses = self._held_out.measure(model, seconds)
        except Exception as error:  # noqa: BLE001 - the model is anybody's, and memory may run out
            self._warn(f"losses are no longer measured by the callback: {type(error).__name__}: {error}")
            rows, self._held_out = self._held_out.rows, None
            logger.info("cptlaw: %d rows of each set were to be measured", rows)
            self._rule = self._rule.without_rows()  # evaluations of whole sets are another series
            self._fresh = set()
            if "memory" in str(error).lower():
                _free_memory()
            return
        finally:
            if state.global_step:  # the base model's has its own bound
                self._measuring += time.monotonic() - begun
        for name, loss in losses.items():
            self._note(name, state.global_step, loss)
        found = {f"measured/{name}_loss": loss for name, loss in losses.items() if math.isfinite(loss)}
        self._log({**found, "measured/rows": float(self._held_out.rows)}, state)

    @warn_on_errors
    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: object,
        metrics: Mapping[str, float] | None = None,
        **given: object,
    ) -> None:
        """Note the losses of an evaluation, where the callback does not measure by itself."""
        if self._held_out is not None:
            return
        for key, loss in (metrics or {}).items():
            if key in self._roles:
                self._note(self._roles[key], state.global_step, float(loss))
        self._look(state, control)

    def _note(self, name: str, step: int, loss: float) -> None:
        self._fresh.add(name)
        self._rule.measured(name, step, loss)

    def _look(self, state: TrainerState, control: TrainerControl) -> None:
        """Once all losses are there, forecast the end and give advice."""
        if not (self._fresh and state.global_step and self._rule.n_steps > 1):
            return
        # One validation set of two comes before the other.
        if self._fresh >= self._rule.evals and self._is_due(state):
            begun = time.monotonic()
            if self._rates:
                self._rule.schedule = schedule_of_rates(interpolate_rates(self._rates, state.max_steps), self._warmup)
            self.advice = self._rule.look()
            self._forecasting += time.monotonic() - begun
            self._fresh = set()
            self._tell(state)
            if self.advice.stop and self._stop and not self._rates:
                control.should_training_stop = True

    def _is_due(self, state: TrainerState) -> bool:
        """Whether the rate has been raised, and a forecast keeps its cost below its share of the time so far."""
        if state.global_step <= min(self._warmup, RAISED, state.max_steps // 3):
            return False
        return self._may_spend(self._forecasting, COST, state)

    def _may_spend(self, spent: float, share: float, state: TrainerState) -> bool:
        # Looks are dense at the beginning, where little is known: free seconds that were not spread would be gone.
        at = look_steps(state.max_steps, self._looks)
        free = FREE_SECONDS * sum(step <= state.global_step for step in at) / len(at)
        return bool(spent <= max(free, share * (time.monotonic() - self._started)))

    def _tell(self, state: TrainerState) -> None:
        """Log the forecast."""
        assert self.advice is not None
        for finding in self.advice.findings:
            if finding.severity == "warning":
                self._warn(f"no forecast at step {state.global_step}: {finding.message}", finding.code)
        logs = self.advice.logs()
        if not logs or not state.is_world_process_zero:
            return
        self._log(logs, state)
        values = "; ".join(f"{label} loss at the end {text}" for label, text in self.advice.lines)
        is_whole = len(self.advice.lines) == len(self.advice.points)
        if self.advice.stop or (is_whole and "first" not in self._said):  # libraries show warnings alone
            self._said.add("first")
            logger.warning("cptlaw: %s; %s", self.advice.title, values)
        else:
            logger.info("cptlaw: %s; %s", self.advice.title, values)

    def _log(self, values: Mapping[str, float], state: TrainerState) -> None:
        """Write numbers into the history of the run and to the trackers that transformers itself brings."""
        if not state.is_world_process_zero:
            return
        state.log_history.append({**values, "step": state.global_step})
        # Not by trainer.log: it would say that this step is logged already, and TRL hands its own means out with it.
        for each in self._trainer.callback_handler.callbacks if self._trainer is not None else ():
            if type(each).__module__.startswith("transformers.integrations"):
                each.on_log(
                    self._trainer.args,
                    state,
                    transformers.TrainerControl(),
                    logs=dict(values),
                    model=self._trainer.model,
                )

    def _warn(self, text: str, kind: str = "") -> None:
        """Warn once of each kind."""
        if (kind or text) not in self._said:
            self._said.add(kind or text)
            logger.warning("cptlaw: %s", text)


def held_out(trainer: Trainer, names: Mapping[str, str], optimizer: object, rows: int) -> HeldOutLosses:
    """Return what can be measured beside a trainer, on its own validation sets.

    Parameters
    ----------
    trainer
        Of transformers; ``None`` where it is not known.
    names
        Name of a validation set -> ``"source"`` or ``"target"``. A single set is the target's.
    optimizer
        Of the training.
    rows
        Of each set, at most.

    Raises
    ------
    DataError
        If nothing can be measured without the trainer's help; it says why.
    """
    if trainer is None:
        raise DataError("attach(trainer) was not called")
    if trainer.args.world_size > 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        raise DataError("the model is trained by several processes")
    if callable(getattr(getattr(optimizer, "optimizer", optimizer), "eval", None)):
        raise DataError("the optimiser trains other weights than are evaluated")
    given = trainer.eval_dataset
    if isinstance(given, Mapping):
        sets = {role: given[name] for name, role in names.items() if given.get(name) is not None}
        if not sets:
            raise DataError(f"eval_dataset has {', '.join(map(str, given)) or 'nothing'}, not {' or '.join(names)}")
    elif given is not None:
        sets = {"target": given}
    else:
        raise DataError("the trainer has no eval_dataset")
    collate = trainer._get_collator_with_removed_columns(trainer.data_collator, description="evaluation")
    return HeldOutLosses(sets, collate, batch_size=trainer.args.eval_batch_size, rows=rows)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _free_memory() -> None:
    """Give back what a measurement that ran out of memory had reserved: the training needs it."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def planned_rates(
    scheduler: LRScheduler, max_steps: int, past: Mapping[int, float] | None = None
) -> list[float] | None:
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
    return interpolate_rates({**known, **dict(zip(steps.tolist(), rates, strict=True))}, max_steps)


def _run_ahead(scheduler: LRScheduler, steps: int) -> list[float]:
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


def _rate_of(optimiser: Optimizer) -> float:
    return max(float(group["lr"]) for group in optimiser.param_groups)


def interpolate_rates(rates: Mapping[int, float], max_steps: int) -> list[float]:
    """Return the rate at each step from those at some: straight in between, held at both ends."""
    steps = sorted(rates)
    values: list[float] = np.interp(np.arange(max_steps + 1), steps, [rates[step] for step in steps]).tolist()
    return values
