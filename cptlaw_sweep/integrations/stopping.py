"""When to give a run up: its end is forecast as it goes, and advice to stop holds over all looks together.

At a look the forecast of the last loss is ``loss`` with a lower end ``lo`` (`cptlaw.forecast_run`); its doubt is
`WIDTH` of ``loss - lo``, `AHEAD` of the loss times the root of steps to come over steps done, and `FALL` of the loss
for the share of the peak rate that is still to fall, added as squares. No advice is given before `FIRST` of the
steps. The rule says stop once ``loss - MARGIN * doubt`` lies above the limit. The margin is conformal (Vovk et al.
2005; split conformal, arXiv:2107.07511): over finished curves, the worst overestimate of the end at any look, in
units of the doubt there, is ranked, and the margin is the rank that leaves 2 % of them above. A run whose end is
within its limit is then stopped at any of its looks, whatever the limit, with at most that probability, if it is like
those curves.
``python -m studies stop_advice`` measures both the error and the saving, each study by the others.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Severity
from cptlaw.result import Line, Result
from cptlaw.units import format_span, parse_share

if TYPE_CHECKING:
    import pandas as pd

    from cptlaw.schedules import Schedule

# Share of the forecast's own half-width that counts: early in a run it is far wider than what forecasts err, and at its
# full width, and with a doubt that went with the logarithm of the steps, the rule saved 3 % less.
WIDTH = 0.6

# Share of the loss that the doubt has at half of the steps; it goes as the root of steps to come over steps done.
AHEAD = 0.03

# Share of the loss that a fall of the rate from its peak to 0, all of it ahead, adds to the doubt.
FALL = 0.02

# Times the doubt, as measured over 611 curves of eleven studies: studies/unfinished_runs.md says how.
MARGIN = 1.22

FIRST = 0.05  # of the steps, before which nothing is stopped: the margin was measured from there on
INTERVAL = 0.9
EARLY = 32  # steps, by which the first look comes in a run of any length: the first forecast is there by about 300
LEAST = 4  # measurements of a loss before its end is forecast
COST = 0.01  # share of the training's time that forecasts may take
KNOWN_WITHIN = 2.0  # factor around a forecast beyond which it says nothing: it is not logged, and waits for more rows


def doubt_of(loss: object, lo: ArrayLike, progress: object, falling: ArrayLike = 0.0) -> Any:
    """Return the doubt of forecasts of the end, in nats, (looks,).

    Parameters
    ----------
    loss, lo
        Forecasts and their lower ends, (looks,).
    progress
        Share of the steps that were done, above 0, (looks,).
    falling
        Share of the peak rate that is still to fall until the end, 0 to 1, (looks,) or one number.
    """
    level = np.asarray(loss, dtype=float)
    # Early looks know less than their intervals say; the root of steps to come over steps done is zero at the end.
    done = np.clip(np.asarray(progress, dtype=float), 1e-9, 1.0)
    ahead = AHEAD * level * np.sqrt(1.0 / done - 1.0)
    # Before the decay begins, what it will gain is known from other models only, and at times forecast too small.
    annealing = FALL * level * np.clip(np.asarray(falling, dtype=float), 0.0, 1.0)
    return np.maximum(np.sqrt((WIDTH * (level - np.asarray(lo))) ** 2 + ahead**2 + annealing**2), 1e-12)


def falling_after(rates: ArrayLike, step: int) -> float:
    """Return the share of the peak rate that is still to fall after a step.

    Parameters
    ----------
    rates
        The rate at each step of the whole run, (steps + 1,).
    step
        Where the run stands.
    """
    rates = np.asarray(rates, dtype=float)
    return float(max(rates[step] - rates[-1], 0.0) / rates.max())


@dataclass(frozen=True, repr=False)
class Advice(Result):
    """What a look at an unfinished run says.

    Attributes
    ----------
    step
        Where the run stands.
    points
        One row per loss: eval, loss (at the end), lo, hi, limit (missing where there is none), bound (what the loss at
        the end will be at least, by the rule).
    stop
        Whether the run will miss a limit.
    findings
        Why there is no forecast, where there is none.
    """

    step: int
    points: pd.DataFrame
    stop: bool
    findings: tuple[Finding, ...] = ()

    @property
    def title(self) -> str:
        """The advice in one line."""
        over = [row for row in self.points.to_dict("records") if _is_over(row)]
        if over:
            row = over[0]
            return f"step {self.step}: stop; the {row['eval']} loss will end above its limit of {row['limit']:.4g}"
        return f"step {self.step}: go on"

    @property
    def lines(self) -> list[Line]:
        """The forecast of each loss that says something."""
        return [(str(row["eval"]), format_span(row["loss"], row["lo"], row["hi"])) for row in self._bounded()]

    def logs(self) -> dict[str, float]:
        """Return the forecast as flat numbers, as trainers log them; of a loss that nothing bounds yet, none."""
        result: dict[str, float] = {}
        for row in self._bounded():
            for name in ("loss", "lo", "hi"):
                result[f"forecast/{row['eval']}_{name}"] = float(row[name])
        return {**result, "forecast/stop": float(self.stop)} if result else {}

    def _bounded(self) -> list[dict[Hashable, Any]]:
        # While the rate is warming up forecasts run from 1e-4 to infinity: no chart and no JSON file holds these.
        rows = self.points.to_dict("records")
        return [row for row in rows if row["loss"] / KNOWN_WITHIN < row["lo"] <= row["hi"] < row["loss"] * KNOWN_WITHIN]


def _is_over(row: Mapping[Any, Any]) -> bool:
    limit = row.get("limit")
    return limit is not None and math.isfinite(limit) and bool(row["bound"] > limit)


class WarnedOnce:
    """Warns of each thing once, in the log of ``cptlaw``."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        """Warn, unless the same was said before."""
        if text not in self._said:
            self._said.add(text)
            logging.getLogger("cptlaw").warning("cptlaw: %s", text)


@dataclass
class StopRule:
    """Follows one run and says whether it will miss its limits.

    Parameters
    ----------
    schedule
        The whole plan of the run. Steps count from where the training at hand begins: a pre-training in it lies before.
    limits
        Eval -> the highest loss at which the run is still wanted.
    max_forgetting
        The highest relative rise of the source loss over the base model's, as 0.02 or ``"2%"``. Needs a source loss
        at step 0.
    margin
        See the module.

    Examples
    --------
    >>> from cptlaw.schedules import Phase, Schedule
    >>> rule = StopRule(Schedule([Phase("cpt", 1000, "constant", peak=1e-3, warmup=10)]), {"target": 1.0})
    >>> for step in range(50, 500, 50):
    ...     rule.measured("target", step, 2.0 + step**-0.5)
    >>> rule.look().stop
    True
    """

    schedule: Schedule
    limits: Mapping[str, float] = field(default_factory=dict)
    max_forgetting: float | str | None = None
    margin: float = MARGIN
    _rows: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not math.isfinite(limit) or limit <= 0:
                raise UsageError(f"limits: {name} {limit!r}: expected a loss above 0.")
        if self.max_forgetting is not None:
            self.max_forgetting = parse_share(self.max_forgetting, "max_forgetting", -1.0, math.inf, limit=True)
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise UsageError(f"margin {self.margin!r}: expected times the doubt, 0 or more.")

    @property
    def n_steps(self) -> int:
        """Steps of the training at hand: without the pre-training before it, where the plan has that too."""
        return self.schedule.n_cpt or self.schedule.n_steps

    def measured(self, on: str, step: int, loss: float) -> None:
        """Note a loss.

        Parameters
        ----------
        on
            The eval.
        step
            Optimiser steps so far; 0 is the base model.
        loss
            In nats per token. One that is not finite is a run that diverged: it is left out.
        """
        if math.isfinite(loss) and loss > 0:
            self._rows.append({"run": "run", "eval": on, "step": int(step), "loss": float(loss)})

    def of_training(self, schedule: Schedule) -> StopRule:
        """Return the rule of a training that begins now, with what was measured of its base model."""
        return replace(self, schedule=schedule, _rows=[row for row in self._rows if row["step"] == 0])

    def without_rows(self) -> StopRule:
        """Return the same rule of a run of which nothing was measured yet."""
        return replace(self, _rows=[])

    @property
    def evals(self) -> set[str]:
        """The evals that were measured."""
        return {row["eval"] for row in self._rows}

    def all_limits(self) -> dict[str, float]:
        """Return eval -> limit, that of forgetting included once the base model was measured."""
        limits = dict(self.limits)
        # The reference is the model that training starts from, measured by the same trainer on the same set.
        bases = [row["loss"] for row in self._rows if row["eval"] == "source" and row["step"] == 0]
        if self.max_forgetting is not None and bases:
            most = bases[-1] * (1 + float(self.max_forgetting))
            limits["source"] = min(limits.get("source", math.inf), most)
        return limits

    def look(self) -> Advice:
        """Forecast the end from what was measured so far."""
        import pandas as pd

        from cptlaw import forecast_run

        last = max((row["step"] for row in self._rows), default=0)
        columns = ["eval", "loss", "lo", "hi", "limit", "bound"]
        empty = Advice(last, pd.DataFrame(columns=columns), stop=False)
        counts = pd.Series([row["eval"] for row in self._rows if row["step"] > 0], dtype=object).value_counts()
        ready = [str(name) for name in counts.index[counts >= LEAST]]
        if not ready or last >= self.n_steps:
            return empty
        frame = pd.DataFrame([row for row in self._rows if row["eval"] in ready and row["step"] > 0])
        # A run that was resumed logs the same steps again; the last values belong to the weights at hand.
        frame = frame.drop_duplicates(["eval", "step"], keep="last")
        has_role = bool(set(ready) & {"source", "target"})
        if not has_role:  # a name that says no role: its loss only falls
            frame = frame[frame["eval"] == ready[0]].assign(eval="target")
        try:
            forecast = forecast_run(frame[["run", "eval", "step", "loss"]], {"run": self.schedule}, interval=INTERVAL)
        except Exception as error:  # noqa: BLE001 - whatever it is
            # Days of training must not end for want of advice. Rows that do not suffice yet are no surprise.
            severity: Severity = "info" if isinstance(error, DataError) else "warning"
            return Advice(last, empty.points, stop=False, findings=(Finding(severity, "no-forecast", str(error)),))
        points = forecast.points[["eval", "loss", "lo", "hi"]].copy()
        points["eval"] = points["eval"].astype(str) if has_role else ready[0]
        limits = self.all_limits()
        points["limit"] = [limits.get(str(name), math.nan) for name in points["eval"]]
        progress = last / self.n_steps
        rates = self.schedule.lr[self.schedule.n_steps - self.n_steps :].copy()
        rates[0] = 0.0  # before its first update; a pre-training before it may have ended at any rate
        doubt = doubt_of(points["loss"], points["lo"], progress, falling_after(rates, last))
        points["bound"] = points["loss"] - self.margin * doubt
        stop = progress >= FIRST and any(_is_over(row) for row in points.to_dict("records"))
        return Advice(last, points[columns].reset_index(drop=True), stop)


def look_steps(n_steps: int, looks: int = 16, first: int | None = None) -> list[int]:
    """Return the steps of log-spaced looks, the last one at the end.

    Examples
    --------
    >>> look_steps(1000, 5, 10)
    [10, 32, 100, 316, 1000]
    """
    begin = max(1, first or min(n_steps // 128, EARLY))
    if n_steps <= begin:
        return [n_steps]
    return sorted({round(begin * (n_steps / begin) ** (k / max(looks - 1, 1))) for k in range(looks)})


def schedule_of_rates(rates: Sequence[float], warmup: int = 0) -> Schedule:
    """Return the schedule of a run of continual pre-training whose learning rate at every step is known.

    Parameters
    ----------
    rates
        At steps 0, 1, .., n.
    warmup
        Its first steps of warm-up.
    """
    from cptlaw.schedules import Schedule

    return Schedule.from_lr(np.arange(len(rates)), np.asarray(rates, dtype=float), warmup=warmup)
