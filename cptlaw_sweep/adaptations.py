"""Continual pre-training in a recipe: from each block of `adapt` to its runs, and the evaluation of what they keep."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from cptlaw.errors import DataError
from cptlaw_sweep.fields import Plain, exact_share
from cptlaw_sweep.jobs import Job, fingerprint_of
from cptlaw_sweep.ladders import Base, log_points
from cptlaw_sweep.phases import make_phase, rate_of
from cptlaw_sweep.recipe import Recipe

# Losses measured along a run of a given model, unless the recipe asks for others.
GIVEN_POINTS = 8

PARTS = 1_000_000  # weights of a mix are whole parts of this, so that rows are counted without rounding


def adaptations(recipe: Recipe, block: Plain, bases: list[Base]) -> list[Job]:
    """Return the runs of one block of `adapt`."""
    evals = recipe.eval_entries(block["source"], [block["target"]], block["others"])
    # One block of named mixes gives all rows of the table those columns, or they would be half empty.
    named = any("named" in each for entry in recipe.adapt for each in entry["mixes"])
    block = {**block, "has_columns_of_mix": named, "evals": evals}
    chosen = [
        base
        for base in bases
        if base.model.name in block["models"]
        and (block["ptpp"] is None or base.ptpp in block["ptpp"])
        and (block["seeds"] is None or base.seed in block["seeds"])
    ]
    if not chosen:
        raise DataError(f"{block['where']}: no base model has these models, ptpp and seeds.")
    jobs = []
    for base in chosen:
        if block["carried"] and base.model.is_given:
            raise DataError(
                f"{block['where']}: optimizer_state: {base.model.name} is given without the state of its optimiser. "
                "Leave it out: a run then begins with a fresh one."
            )
        lengths = _lengths(block, base)
        # Of 100,000 runs most share their phase: it is made and checked once, not once for each mix and order.
        planned = [_phases(block, base, schedule, lengths) for schedule in block["schedules"]]
        for mix in block["mixes"]:
            for phases in planned:
                for order in block["orders"]:
                    for phase in phases:
                        jobs.append(_adaptation(recipe, block, base, mix, phase, order, lengths))
    return jobs


def _phases(block: Plain, base: Base, schedule: Plain, lengths: list[int]) -> list[Plain]:
    """Return the phase of each length of run under a schedule."""
    peak = rate_of(schedule["peak"], base.model.name, base.model.total, f"{block['where']}: peak")
    # A run at constant rate passes every shorter one on its way.
    ends = lengths[-1:] if schedule["schedule"] == "constant" else lengths
    per_step = block["rows"].tokens
    shape = {**schedule, "peak": peak}
    return [make_phase(block["where"], phase="cpt", steps=steps, tokens_per_step=per_step, **shape) for steps in ends]


@lru_cache(maxsize=1024)
def _seed_of(seed: int, order: int) -> int:
    """Return the seed of a mix, which must be another for each base model and order."""
    # Of a fingerprint and not of a sum: seed 1 with order 0 must not be seed 0 with order 1.
    return int(fingerprint_of(["adapt", seed, order])[:12], 16)


def _lengths(block: Plain, base: Base) -> list[int]:
    """Return the lengths of the runs in steps: never shorter than asked."""
    tokens = block["tokens"] or [each * base.model.total for each in block["tokens_per_param"]]
    # Rounded up: a run of the tokens that were asked for must reach them.
    return sorted({max(1, -int(-each // block["rows"].tokens)) for each in tokens})


def _measure_at(block: Plain, base: Base, steps: int, lengths: list[int]) -> list[int]:
    """Return the steps at which a run is measured: its end, and back from there by a factor."""
    per_step, per_doubling = block["rows"].tokens, block["points_per_doubling"]
    at = {steps, *(length for length in lengths if length < steps)}
    if block["first_tokens"] is not None:
        first = max(1, round(block["first_tokens"] / per_step))
    else:
        first = max(1, round(block["first_tokens_per_param"] * base.model.total / per_step))
    at |= log_points(steps, first, per_doubling)
    least = block["points"] if block["points"] is not None else GIVEN_POINTS if base.model.is_given else 0
    if len(at) < least:
        # A large model sees few tokens per parameter: points by tokens, from a 128th of the run on, or closer.
        first = max(1, min(first, steps // 128))
        at |= (
            {max(1, round(first * (steps / first) ** (place / (least - 1)))) for place in range(least)}
            if least > 1
            else at
        )
        # Of a short run points by a factor fall on the same steps; then evenly.
        at |= {round(steps * (place + 1) / least) for place in range(least)} if len(at) < least <= steps else at
    # The base model of a ladder, or a given one, has been measured by its own job; only a ladder's is measured again.
    return sorted(at | (set() if base.model.is_given else {0}))


def _adaptation(
    recipe: Recipe,
    block: Plain,
    base: Base,
    mix: Plain,
    phase: Plain,
    order: int,
    lengths: list[int],
) -> Job:
    rows, steps, schedule, peak = block["rows"], phase["steps"], phase["schedule"], phase["peak"]
    total = base.model.total
    length = f"-{steps * rows.tokens / total:.3g}tpp" if len(lengths) > 1 and schedule != "constant" else ""
    share = _name_of(mix)
    parts = [base.name, block["target"], share, schedule, f"lr{peak:g}"]
    parts += ["carried"] if block["carried"] else []
    name = "-".join(parts) + (f"-o{order}" if order else "") + length
    columns: Plain = {"ptpp": base.ptpp, "seed": base.seed, "order": order, "replay": mix["replay"]}
    columns |= {"domain": block["target"], "lr_schedule": schedule, "lr_peak": peak}
    columns["base"] = base.name
    if base.end is not None:
        columns["pt_lr_end"] = base.end
    if block["carried"]:
        columns["optimizer_state"] = "carried"
    if block["has_columns_of_mix"]:
        columns["mix"] = {name: weight for name, weight in mix["weights"].items() if name is not None}
    extra: Plain = {"kept": block["keep"]} if block["keep"] != "no" else {}
    extra |= {"merge": sorted(set(block["merge"]))} if block["merge"] else {}
    start = {"state": base.start["weights"]} if block["carried"] else base.start
    mixed = _mix_of(recipe, block, mix, _seed_of(base.seed, order))
    return recipe.job(
        base.model, name, "adapt", base.needs, columns, rows,
        start=start, steps=[0, steps], phases=[phase], mix=mixed, evals=block["evals"],
        measure_at=_measure_at(block, base, steps, lengths), keep=None, **extra,
    )  # fmt: skip


def _name_of(mix: Plain) -> str:
    if "named" not in mix:
        return f"r{mix['replay']:g}"
    return "mix-" + "-".join(f"{name}{100 * weight:g}" for name, weight in mix["weights"].items() if weight)


def _mix_of(recipe: Recipe, block: Plain, mix: Plain, seed: int) -> Plain:
    """Return a mix as a job defines it: texts by fingerprint, shares exact."""
    weights = {name: weight for name, weight in mix["weights"].items() if weight}
    texts = [recipe.text(name) for name in weights]
    if len(weights) == 1:  # one corpus only
        result: Plain = {"texts": texts, "share": "1", "seed": seed}
    elif "named" not in mix:
        result = {"texts": texts, "share": exact_share(mix["replay"]), "seed": seed}
    else:
        parts = [round(weight * PARTS) for weight in weights.values()]
        # Rounded shares need not add up to one; the last corpus takes what is missing.
        parts[-1] += PARTS - sum(parts)
        result = {"texts": texts, "weights": [str(Fraction(part, PARTS)) for part in parts], "seed": seed}
    pools = {recipe.text(name): tokens for name, tokens in block["pools"].items() if name in weights}
    return result | ({"pools": pools} if pools else {})


def evaluations(recipe: Recipe, jobs: list[Job]) -> list[Job]:
    """Return a job for each run that keeps models: the recipe's command evaluates them, and its scores become rows."""
    if recipe.evaluate is None:
        return []
    kept = [job for job in jobs if job.definition.get("kept")]
    if not kept:
        raise DataError(f"{recipe.path.name}: evaluate: no model is kept. Say which with `keep: last`, best or all.")
    return [
        Job(
            name=f"evaluate-{job.name}",
            kind="evaluate",
            definition={"command": recipe.evaluate.command, "of": job.id},
            needs=(job.id,),
            gpus=job.gpus,
            memory=job.memory,
            columns={**job.columns, "run": job.name},
            run={"seconds": recipe.evaluate.seconds, "tokens_per_step": job.columns["batch_tokens"]},
        )
        for job in kept
    ]
