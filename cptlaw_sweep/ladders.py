"""The base models of a sweep: ladders of pre-training, and given models.

Under wsd and constant schedules a ladder is one trunk at constant rate per model and seed, cut into stages. From the
end of each stage the trunk goes on, and a short decay branches off: the base model of that budget. So a ladder costs
little more than its largest stage. Schedules that fall all along (cosine, linear) share no trunk: each budget is a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cptlaw.errors import DataError
from cptlaw_sweep.fields import Plain
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.model_spec import Model
from cptlaw_sweep.phases import make_phase, rate_of, whole_steps
from cptlaw_sweep.recipe import Recipe
from cptlaw_sweep.schema import Pretrain

# They fall from the first step on, so that no stage of one budget is a stage of another.
FALLING = ("cosine", "linear")


@dataclass(frozen=True)
class Base:
    """A model to adapt: kept by a job of a ladder, or given."""

    model: Model
    seed: int
    ptpp: float | None
    start: Plain
    needs: tuple[str, ...]
    end: float | None = None

    @cached_property
    def name(self) -> str:
        """The base model in names of runs."""
        budget = "" if self.ptpp is None else f"-p{self.ptpp:g}"
        seed = f"-s{self.seed}" if not self.model.is_given else ""
        return f"{self.model.name}{budget}{seed}" + ("" if self.end is None else f"-e{self.end:g}")


def log_points(last: int, first: int, per_doubling: float) -> set[int]:
    """Return steps from the last one down to the first, so many to each doubling.

    Examples
    --------
    >>> sorted(log_points(80, 10, 1.0))
    [10, 20, 40, 80]
    """
    result, point, ratio = {last}, float(last), 2.0 ** (1.0 / per_doubling)
    while point >= first:
        result.add(round(point))
        point /= ratio
    return result


def given_bases(recipe: Recipe) -> tuple[list[Job], list[Base]]:
    """Return a measurement of each given model, and the given models.

    The losses of a base model come before any run that starts from it: they are the reference for forgetting.
    """
    jobs: dict[str, Job] = {}
    bases = []
    for model in (model for model in recipe.models.values() if model.is_given):
        base = Base(model, 0, model.ptpp, {"pretrained": True}, ())
        bases.append(base)
        # The base model is measured before any adapter is put on.
        untrained = {name: value for name, value in model.spec.items() if name != "lora"}
        # Losses depend on the context and on the evals alone, so that blocks that share both share one measurement.
        seen: set[tuple[int, str]] = set()
        for block in recipe.asked.adapt:
            key = (block.context, block.target)
            if key in seen or model.name not in (block.models or ()):
                continue
            seen.add(key)
            suffix = f"-{block.target}-c{block.context}" if len(seen) > 1 else ""
            mix = {"texts": [recipe.text(block.source or block.target)], "share": "1", "seed": 0}
            evals = recipe.eval_entries(block.source, [block.target], block.others)
            columns = {"ptpp": model.ptpp, "seed": 0, "base": base.name, "domain": None}
            job = recipe.job(
                model, f"base-{base.name}{suffix}", "base", (), columns, block, model=untrained,
                start={"pretrained": True}, steps=[0, 0], phases=[], mix=mix, evals=evals, measure_at=[0], keep=None,
            )  # fmt: skip
            jobs[job.id] = job
    return list(jobs.values()), bases


def ladders(recipe: Recipe, asked: Pretrain) -> tuple[list[Job], list[Base]]:
    """Return the jobs of pre-training and the base models that they make."""
    plan = _Plan(recipe, asked)
    make = plan.decayed_runs if asked.schedule in FALLING else plan.trunk_and_branches
    scratch = [model for model in recipe.models.values() if not model.is_given]
    made = [pair for model in scratch for seed in model.seeds for pair in make(model, seed)]
    return [job for job, _ in made], [base for _, base in made if base is not None]


class _Plan:
    """What the recipe says about pre-training, as jobs of one model and seed."""

    def __init__(self, recipe: Recipe, asked: Pretrain):
        self._recipe, self._asked, self._where = recipe, asked, f"{recipe.path.name}: pretrain"
        blocks = recipe.asked.adapt
        self._evals = recipe.eval_entries(asked.text, list(dict.fromkeys(block.target for block in blocks)))
        self._keep = "weights+state" if any(block.is_carried for block in blocks) else "weights"

    def decayed_runs(self, model: Model, seed: int) -> Iterator[tuple[Job, Base]]:
        """Yield one run per budget and end rate, each from scratch."""
        for ptpp, steps in self._budgets(model):
            for end in self._asked.end:
                phase = self._phase(model, steps=steps, schedule=self._asked.schedule, end=end)
                at = self._points(model, steps) | {steps}
                yield self._base_job(model, seed, ptpp, phase, at, start={"seed": seed}, steps=[0, steps])

    def trunk_and_branches(self, model: Model, seed: int) -> Iterator[tuple[Job, Base | None]]:
        """Yield the stages of one trunk and the decays that branch off it."""
        start: Plain = {"seed": seed}
        done, needs = 0, tuple[str, ...]()
        decay = 0.0 if self._asked.schedule == "constant" else self._asked.decay
        budgets = self._budgets(model)
        points = self._points(model, budgets[-1][1])
        for ptpp, steps in budgets:
            # The decay is a part of the budget, not on top of it: a base model of so many tokens has seen just as many.
            branch = steps - round(decay * steps)
            if branch <= max(done, self._asked.warmup):
                raise DataError(
                    f"{self._where}: model {model.name} reaches ptpp {ptpp:g} after {steps} steps, of which the last "
                    f"{steps - branch} decay: no room after step {max(done, self._asked.warmup)}, where the warm-up or "
                    "the budget before ends. Leave the budget out, or take a shorter warm-up or smaller batches."
                )
            along = sorted(point for point in points if done < point <= branch)
            columns: Plain = {"ptpp": ptpp, "seed": seed}
            stage = self._phase(model, steps=branch, schedule="constant")
            if points:
                columns |= {"trunk": f"trunk-{model.name}-s{seed}", "lr_schedule": "constant", "lr_peak": stage["peak"]}
            trunk = self._recipe.job(
                model, f"trunk-{model.name}-p{ptpp:g}-s{seed}", "trunk", needs, columns,
                start=start, steps=[done, branch], phases=[stage], mix=self._mix(seed),
                evals=self._evals if along else [], measure_at=along, keep="state",
            )  # fmt: skip
            yield trunk, None
            start, done, needs = {"state": trunk.id}, branch, (trunk.id,)
            for end in self._asked.end:
                shape = {"schedule": "wsd", "decay": steps - branch, "end": end}
                whole = self._phase(model, steps=steps, **(shape if steps > branch else {"schedule": "constant"}))
                # Four points within the decay, where the loss falls fastest.
                inside = {branch + round(part * (steps - branch) / 4) for part in (1, 2, 3)} if points else set()
                at = {point for point in inside if branch < point} | {steps}
                yield self._base_job(model, seed, ptpp, whole, at, needs, start=start, steps=[branch, steps])

    def _budgets(self, model: Model) -> list[tuple[float, int]]:
        """Return tokens per parameter, rising, each with the steps that they take."""
        result = []
        per_step = self._recipe.asked.step_tokens
        for ptpp in sorted(set(self._asked.ptpp)):
            steps = ptpp * model.total / per_step
            if steps < 1:
                raise DataError(
                    f"{self._where}: ptpp {ptpp:g} is less than one step of {per_step} tokens: no room after step 0."
                )
            result.append((ptpp, whole_steps(self._where, steps)))
        return result

    def _points(self, model: Model, last: int) -> set[int]:
        """Return the steps at which losses along pre-training are measured: counted down from the last one."""
        if self._asked.points_per_doubling is None:
            return set()
        first = max(1, round(self._asked.first_tokens_per_param * model.total / self._recipe.asked.step_tokens))
        return log_points(last, first, self._asked.points_per_doubling)

    def _phase(self, model: Model, **shape: object) -> Plain:
        peak = rate_of(self._asked.peak, model.name, model.total, f"{self._where}: peak")
        return make_phase(self._where, phase="pretrain", peak=peak, warmup=self._asked.warmup, **shape)

    def _mix(self, seed: int) -> Plain:
        return {"texts": [self._recipe.text(self._asked.text)], "share": "1", "seed": seed}

    def _base_job(
        self, model: Model, seed: int, ptpp: float, phase: Plain, at: set[int], needs: tuple[str, ...] = (), **rest: Any
    ) -> tuple[Job, Base]:
        """Return the job that ends in a base model, and that model."""
        # How far the rate fell before the base model was kept changes how CPT takes off, so that it is part of the
        # name.
        end = float(phase.get("end") or 0.0) / phase["peak"] if phase["schedule"] != "constant" else None
        end = end if end or len(self._asked.end) > 1 else None
        name = f"{model.name}-p{ptpp:g}-s{seed}" + ("" if end is None else f"-e{end:g}")
        columns = {"ptpp": ptpp, "seed": seed, "base": name, "lr_schedule": phase["schedule"]}
        columns |= {"lr_peak": phase["peak"], "pretrain_tokens": rest["steps"][1] * self._recipe.asked.step_tokens}
        columns |= {} if end is None else {"pt_lr_end": end}
        job = self._recipe.job(
            model, f"base-{name}", "base", needs, columns, phases=[phase], mix=self._mix(seed), evals=self._evals,
            measure_at=sorted(at), keep=self._keep, **rest,
        )  # fmt: skip
        return job, Base(model, seed, ptpp, {"weights": job.id}, (job.id,), end)
