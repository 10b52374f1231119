"""Learning rates by trial on a small ladder, and their fall with size.

The smallest models of the recipe are each trained at a few rates, a factor of two apart, until the best one lies
inside the range; a parabola in the logarithm of the rate through the best three gives its optimum. Over sizes it is a
power law, LR(N) = at * (N / n_params) ** power, as Bi et al. fit one in compute (arXiv:2401.02954, eq. 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.result import Line, Result, Table
from cptlaw.units import format_quantity
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.load_sweep import sweep_of
from cptlaw_sweep.phases import rate_of
from cptlaw_sweep.recipe import Recipe, read_recipe
from cptlaw_sweep.schema import SweepFile
from cptlaw_sweep.specs import TextSpec

if TYPE_CHECKING:
    import pandas as pd

SIZES = 3
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_ROUNDS = 3
# Tokens per parameter of a trial; the best rate of longer runs is a little lower.
MOST_PTPP = 20.0


@dataclass(frozen=True, repr=False)
class LearningRates(Result):
    """The best learning rate of each size, and the law through them.

    Attributes
    ----------
    frame
        One row per trial: model, n_params, lr, loss.
    best
        Model -> its best rate.
    rule
        ``{at, n_params, power}``, as `peak` of a recipe takes it.
    findings
        What to be careful with.
    """

    frame: pd.DataFrame
    best: Mapping[str, float]
    rule: Mapping[str, float]
    findings: tuple[Finding, ...] = ()

    @property
    def title(self) -> str:
        """The rule, ready for a recipe."""
        shown = ", ".join(f"{name}: {value:.3g}" for name, value in self.rule.items())
        return f"peak: {{{shown}}}"

    @property
    def lines(self) -> list[Line]:
        """The best rate of each size."""
        return [(name, f"{rate:.3g}") for name, rate in self.best.items()]

    @property
    def tables(self) -> list[Table]:
        """The losses of all trials, rates across."""
        wide = self.frame.pivot_table(index=["model", "n_params"], columns="lr", values="loss").reset_index()
        wide.columns = [name if isinstance(name, str) else f"{name:.3g}" for name in wide.columns]
        formats: dict[str, Callable[..., str]] = {"n_params": format_quantity}
        formats |= {name: lambda loss: f"{loss:.4f}" for name in wide.columns[2:]}
        return [Table.of(wide, formats, caption="loss at the end of each trial, by learning rate")]


def tune(path: Path, run: Callable[[Sweep], Callable[[Job], float | None]]) -> LearningRates:
    """Try learning rates on the smallest models of a recipe.

    Parameters
    ----------
    path
        The recipe. Its pre-training is tuned; or, where all models are given, its continual pre-training.
    run
        Trains the jobs of a sweep, and returns what gives the last loss of each.
    """
    import pandas as pd

    trial = _Trial(path)
    rows: list[dict[str, object]] = []
    best: dict[str, float] = {}
    sizes: dict[str, int] = {}
    findings: list[Finding] = []
    rates = {name: [trial.guess * factor for factor in FACTORS] for name in trial.models}
    for _ in range(MOST_ROUNDS):
        jobs = {(name, rate): trial.job(name, rate) for name in rates for rate in rates[name]}
        losses = run(trial.sweep())
        for (name, rate), job in jobs.items():
            loss = losses(job)
            sizes[name] = int(job.columns["n_params"])
            rows.append(
                {"model": name, "n_params": sizes[name], "lr": rate, "loss": math.nan if loss is None else loss}
            )
        frame = pd.DataFrame(rows)
        rates = {}
        for name in trial.models:
            mine = frame[frame["model"] == name].sort_values("lr")
            result, edge = vertex(mine["lr"].to_numpy(), mine["loss"].to_numpy())
            best[name] = result
            if edge:
                # Only towards the open side: what was tried already stays in the table and is not trained again.
                rates[name] = [result * (2.0**edge), result * (4.0**edge)]
        if not rates:
            break
    for name in rates:
        findings.append(
            Finding(
                "warning",
                "rate-at-edge",
                f"the best rate of {name} lies at the end of what was tried.",
                "Give another `peak` to begin from, and tune again.",
            )
        )
    rule, doubt = _rate_rule(best, sizes)
    return LearningRates(frame, best, rule, tuple(findings + doubt))


class _Trial:
    """The recipe of a trial: the same text, tokenizer, batch and shape of schedule, at another rate and shorter."""

    def __init__(self, path: Path):
        self._path = path
        self._content, value = read_recipe(path)
        whole = Recipe(value, path)
        self._asked = asked = whole.asked
        scratch = sorted((m for m in whole.models.values() if not m.is_given), key=lambda m: m.total)
        chosen = scratch[:SIZES] or list(whole.models.values())[:1]
        self.models = [model.name for model in chosen]
        self._pretrain = asked.pretrain if scratch else None
        if self._pretrain is None and not asked.adapt:
            raise UsageError(f"{path.name}: --tune-lr has nothing to tune: there is neither `pretrain` nor `adapt`.")
        peak = asked.adapt[0].schedules[0]["peak"] if self._pretrain is None else self._pretrain.peak
        self.guess = rate_of(peak, chosen[0].name, chosen[0].total, f"{path.name}: peak")
        self._sweeps: dict[float, Sweep] = {}
        self._jobs: dict[str, Job] = {}
        self._texts: dict[str, TextSpec] = {}

    def job(self, name: str, rate: float) -> Job:
        """Return the run of a model at a rate; what it needs is noted too."""
        if rate not in self._sweeps:
            self._sweeps[rate] = sweep_of(Recipe(self._at(rate), self._path), self._content)
        sweep = self._sweeps[rate]
        kind = "adapt" if self._pretrain is None else "base"
        # The last one: of several budgets that of the most tokens, which is what the rate is for.
        result = [job for job in sweep.jobs if job.kind == kind and job.columns["model"] == name][-1]
        for job in sweep.jobs:
            if job.id == result.id or job.id in result.needs:
                self._jobs[job.id] = replace(job, name=f"{job.name}-lr{rate:g}")
        self._texts |= sweep.texts
        return result

    def sweep(self) -> Sweep:
        """Return all runs so far, as one sweep."""
        return Sweep("tune-lr", tuple(self._jobs.values()), self._texts, self._content)

    def _at(self, rate: float) -> SweepFile:
        """Return the recipe at a rate: one short run of each model, of which nothing is kept."""
        if self._pretrain is not None:
            # Short and annealed to zero: trials at a constant rate would prefer rates that are too low for a run that
            # decays.
            short = {"ptpp": [min(MOST_PTPP, *self._pretrain.ptpp)], "end": [0.0], "points_per_doubling": None}
            changed: dict[str, object] = {
                "pretrain": self._pretrain.model_copy(update={"peak": rate, **short}),
                "models": {name: self._asked.models[name] for name in self.models},
                "adapt": [],
            }
        else:
            block = self._asked.adapt[0]
            one = {name: (getattr(block, name) or [])[:1] or None for name in ("replay", "mixes")}
            one |= {name: getattr(block, name)[:1] for name in ("tokens", "tokens_per_param")}
            one |= {"schedules": [{**block.schedules[0], "peak": rate}], "models": self.models}
            changed = {"adapt": [block.model_copy(update={**one, "keep": "no", "orders": [0]})]}
        return self._asked.model_copy(update={**changed, "keep": "no", "evaluate": None, "log": ["jsonl"]})


def vertex(rates: ArrayLike, losses: ArrayLike) -> tuple[float, int]:
    """Return the best rate, and -1 or 1 where it lies at the lower or upper end of those tried, else 0.

    Parameters
    ----------
    rates, losses
        (n,), rates rising; a loss that is not a number is a run that diverged.

    Examples
    --------
    >>> vertex(np.array([1e-3, 2e-3, 4e-3]), np.array([3.1, 3.0, 3.1]))
    (0.002, 0)
    """
    x, y = np.log2(np.asarray(rates, dtype=float)), np.asarray(losses, dtype=float)
    if not np.isfinite(y).any():
        raise DataError("all trials diverged. Give a lower `peak` to begin from.")
    # A run that diverged is the worst of all, and says that rates above it need not be tried.
    y = np.where(np.isfinite(y), y, np.inf)
    place = int(np.argmin(y))
    if place == 0 or place == len(x) - 1 or not np.isfinite(y[place + 1]):
        # Beside a run that diverged there is no parabola, and no reason to go on either: the best rate lies at that
        # wall.
        edge = -1 if place == 0 else 1 if place == len(x) - 1 else 0
        return float(2.0 ** x[place]), edge
    a, b, _ = np.polyfit(x[place - 1 : place + 2], y[place - 1 : place + 2], 2)
    best = float(np.clip(-b / (2 * a), x[place - 1], x[place + 1])) if a > 0 else float(x[place])
    return float(f"{2.0**best:.4g}"), 0


def _rate_rule(best: Mapping[str, float], sizes: Mapping[str, int]) -> tuple[dict[str, float], list[Finding]]:
    """Fit the fall of the best rate with size; with one size it is that of the maximal-update rule."""
    names = list(best)
    first = names[0]
    if len(names) == 1:
        advice = "Add a second size to the recipe to fit it."
        message = "one size does not show the fall with size: 1 / width was taken (arXiv:2203.03466)."
        rule = {"at": best[first], "n_params": float(sizes[first]), "power": -1 / 3}
        return rule, [Finding("info", "one-size", message, advice)]
    n = np.log([sizes[name] for name in names])
    slope, level = np.polyfit(n - n[0], np.log([best[name] for name in names]), 1)
    return {"at": float(f"{math.exp(level):.4g}"), "n_params": float(sizes[first]), "power": round(float(slope), 4)}, []
