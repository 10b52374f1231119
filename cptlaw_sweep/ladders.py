"""The base models of a sweep: ladders of pre-training, and given models.

Under wsd and constant schedules a ladder is one trunk at constant rate per model and seed, cut into stages. From the
end of each stage the trunk goes on, and a short decay branches off: the base model of that budget. So a ladder costs
little more than its largest stage. Schedules that fall all along (cosine, linear) share no trunk: each budget is a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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

    @property
    def name(self) -> str:
        """The base model in names of runs."""
        budget = "" if self.ptpp is None else f"-p{self.ptpp:g}"
        seed = f"-s{self.seed}" if not self.model.is_given else ""
        return f"{self.model.name}{budget}{seed}" + ("" if self.end is None else f"-e{self.end:g}")


@dataclass(frozen=True)
class _Plan:
    """What the recipe says about pre-training."""

    where: str
    asked: Pretrain
    carried: bool
    evals: list[Plain]

    @property
    def budgets(self) -> list[float]:
        """Tokens per parameter, rising."""
        return sorted(set(self.asked.ptpp))

    def measure_at(self, steps: list[int], tokens_per_step: int, n_params: int) -> set[int]:
        """Return the steps at which losses along pre-training are measured: counted down from each budget."""
        if self.asked.points_per_doubling is None:
            return set()
        first = max(1, round(self.asked.first_tokens_per_param * n_params / tokens_per_step))
        return {step for last in steps[-1:] for step in log_points(last, first, self.asked.points_per_doubling)}


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
    where = f"{recipe.path.name}: pretrain"
    targets = list(dict.fromkeys(block.target for block in recipe.asked.adapt))
    carried = any(block.is_carried for block in recipe.asked.adapt)
    plan = _Plan(where, asked, carried, recipe.eval_entries(asked.text, targets))
    jobs: list[Job] = []
    bases: list[Base] = []
    make = _falling if plan.asked.schedule in FALLING else _ladder
    for model in (model for model in recipe.models.values() if not model.is_given):
        for seed in model.seeds:
            for job, base in make(recipe, model, seed, plan):
                jobs.append(job)
                if base is not None:
                    bases.append(base)
    return jobs, bases


def _falling(recipe: Recipe, model: Model, seed: int, plan: _Plan) -> Iterator[tuple[Job, Base | None]]:
    """Yield one run per budget and end rate, each from scratch."""
    lr = rate_of(plan.asked.peak, model.name, model.total, f"{plan.where}: peak")
    for ptpp in plan.budgets:
        steps = _steps(recipe, model, ptpp, plan)
        for end in plan.asked.end:
            phase = make_phase(
                plan.where, phase="pretrain", peak=lr, warmup=plan.asked.warmup, steps=steps,
                schedule=plan.asked.schedule, end=end,
            )  # fmt: skip
            at = plan.measure_at([steps], recipe.asked.step_tokens, model.total) | {steps}
            yield _base_job(recipe, model, seed, ptpp, plan, phase, at, start={"seed": seed}, steps=[0, steps])


def _ladder(recipe: Recipe, model: Model, seed: int, plan: _Plan) -> Iterator[tuple[Job, Base | None]]:
    """Yield the stages of one trunk and the decays that branch off it."""
    lr = rate_of(plan.asked.peak, model.name, model.total, f"{plan.where}: peak")
    start: Plain = {"seed": seed}
    done, needs = 0, tuple[str, ...]()
    mix = {"texts": [recipe.text(plan.asked.text)], "share": "1", "seed": seed}
    decay = 0.0 if plan.asked.schedule == "constant" else plan.asked.decay
    all_steps = [_steps(recipe, model, ptpp, plan) for ptpp in plan.budgets]
    points = plan.measure_at(all_steps, recipe.asked.step_tokens, model.total)
    for ptpp, steps in zip(plan.budgets, all_steps, strict=True):
        # The decay is a part of the budget, not on top of it: a base model of so many tokens has seen just as many.
        branch = steps - round(decay * steps)
        if branch <= max(done, plan.asked.warmup):
            raise DataError(
                f"{plan.where}: model {model.name} reaches ptpp {ptpp:g} after {steps} steps, of which the last "
                f"{steps - branch} decay: no room after step {max(done, plan.asked.warmup)}, where the warm-up or "
                "the budget before ends. Leave the budget out, or take a shorter warm-up or smaller batches."
            )
        phase = {"phase": "pretrain", "peak": lr, "warmup": plan.asked.warmup}
        along = sorted(point for point in points if done < point <= branch)
        columns: Plain = {"ptpp": ptpp, "seed": seed}
        if points:
            columns |= {"trunk": f"trunk-{model.name}-s{seed}", "lr_schedule": "constant", "lr_peak": lr}
        trunk = recipe.job(
            model, f"trunk-{model.name}-p{ptpp:g}-s{seed}", "trunk", needs, columns,
            start=start, steps=[done, branch],
            phases=[make_phase(plan.where, **phase, steps=branch, schedule="constant")],
            mix=mix, evals=plan.evals if along else [], measure_at=along, keep="state",
        )  # fmt: skip
        yield trunk, None
        start, done, needs = {"state": trunk.id}, branch, (trunk.id,)
        for end in plan.asked.end:
            whole = (
                make_phase(plan.where, **phase, steps=steps, schedule="wsd", decay=steps - branch, end=end)
                if steps > branch
                else make_phase(plan.where, **phase, steps=steps, schedule="constant")
            )
            # Four points within the decay, where the loss falls fastest.
            inside = {branch + round(part * (steps - branch) / 4) for part in (1, 2, 3)} if points else set()
            at = {point for point in inside if branch < point} | {steps}
            yield _base_job(recipe, model, seed, ptpp, plan, whole, at, start=start, steps=[branch, steps], needs=needs)


def _base_job(
    recipe: Recipe,
    model: Model,
    seed: int,
    ptpp: float,
    plan: _Plan,
    phase: Plain,
    at: set[int],
    **rest: Any,
) -> tuple[Job, Base]:
    """Return the job that ends in a base model, and that model."""
    last = rest["steps"][1]
    # How far the rate fell before the base model was kept changes how CPT takes off, so that it is part of the name.
    share = float(phase.get("end") or 0.0) / phase["peak"] if phase["schedule"] != "constant" else None
    several = len(plan.asked.end) > 1 or (share is not None and share > 0)
    end = share if several and share is not None else None
    suffix = "" if end is None else f"-e{end:g}"
    name = f"base-{model.name}-p{ptpp:g}-s{seed}{suffix}"
    columns = {"ptpp": ptpp, "seed": seed, "base": name.removeprefix("base-")}
    columns |= {
        "lr_schedule": phase["schedule"],
        "lr_peak": phase["peak"],
        "pretrain_tokens": last * recipe.asked.step_tokens,
    }
    if end is not None:
        columns["pt_lr_end"] = end
    mix = {"texts": [recipe.text(plan.asked.text)], "share": "1", "seed": seed}
    needs = rest.pop("needs", ())
    job = recipe.job(
        model, name, "base", needs, columns, phases=[phase], mix=mix, evals=plan.evals, measure_at=sorted(at),
        keep="weights+state" if plan.carried else "weights", **rest,
    )  # fmt: skip
    return job, Base(model, seed, ptpp, {"weights": job.id}, (job.id,), end)


def _steps(recipe: Recipe, model: Model, ptpp: float, plan: _Plan) -> int:
    steps = ptpp * model.total / recipe.asked.step_tokens
    if steps < 1:
        raise DataError(
            f"{plan.where}: ptpp {ptpp:g} is less than one step of {recipe.asked.step_tokens} tokens: no room after "
            "step 0."
        )
    return whole_steps(plan.where, steps)
