"""Continual pre-training in a recipe: from each block of `adapt` to its runs, and the evaluation of what they keep."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from cptlaw.errors import DataError
from cptlaw_sweep.fields import Plain, exact_share
from cptlaw_sweep.jobs import Job, fingerprint_of
from cptlaw_sweep.ladders import Base, log_points
from cptlaw_sweep.phases import make_phase, rate_of
from cptlaw_sweep.recipe import Recipe
from cptlaw_sweep.schema import Adapt

# Losses measured along a run of a given model, unless the recipe asks for others.
GIVEN_POINTS = 8

PARTS = 1_000_000  # weights of a mix are whole parts of this, so that rows are counted without rounding


@lru_cache(maxsize=1024)
def _seed_of(seed: int, order: int) -> int:
    """Return the seed of a mix, which must be another for each base model and order."""
    # Of a fingerprint and not of a sum: seed 1 with order 0 must not be seed 0 with order 1.
    return int(fingerprint_of(["adapt", seed, order])[:12], 16)


def adaptations(recipe: Recipe, place: int, bases: list[Base]) -> list[Job]:
    """Return the runs of one block of `adapt`."""
    return _Block(recipe, recipe.asked.adapt[place], recipe.place_of(place)).jobs(bases)


class _Block:
    """A block of `adapt`: the lengths, measurements and mixes of its runs."""

    def __init__(self, recipe: Recipe, asked: Adapt, where: str):
        self._recipe, self._asked, self._where = recipe, asked, where
        self._evals = recipe.eval_entries(asked.source, [asked.target], asked.others)
        # One block of named mixes gives all rows of the table those columns, or they would be half empty.
        self._measured: dict[tuple[str, int], list[int]] = {}
        self._mixes: dict[tuple[object, ...], Plain] = {}
        self._has_columns_of_mix = any(block.mixes for block in recipe.asked.adapt)

    def jobs(self, bases: list[Base]) -> list[Job]:
        """Return its runs of those base models that it asks for."""
        asked = self._asked
        chosen = [
            base
            for base in bases
            if base.model.name in (asked.models or ())
            and (asked.ptpp is None or base.ptpp in asked.ptpp)
            and (asked.seeds is None or base.seed in asked.seeds)
        ]
        if not chosen:
            raise DataError(f"{self._where}: no base model has these models, ptpp and seeds.")
        jobs = []
        for base in chosen:
            if asked.is_carried and base.model.is_given:
                raise DataError(
                    f"{self._where}: optimizer_state: {base.model.name} is given without the state of its optimiser. "
                    "Leave it out: a run then begins with a fresh one."
                )
            lengths = self._lengths(base)
            # Of 100,000 runs most share their phase: it is made and checked once, not once for each mix and order.
            planned = [self._phases(base, schedule, lengths) for schedule in asked.schedules]
            for weights in asked.weights:
                for phases in planned:
                    for order in asked.orders:
                        jobs += [self._job(base, weights, along, order, lengths) for along in phases]
        return jobs

    def _lengths(self, base: Base) -> list[int]:
        """Return the lengths of the runs in steps: never shorter than asked."""
        tokens = self._asked.tokens or [each * base.model.total for each in self._asked.tokens_per_param]
        # Rounded up: a run of the tokens that were asked for must reach them.
        return sorted({max(1, -int(-each // self._asked.step_tokens)) for each in tokens})

    def _phases(self, base: Base, schedule: Plain, lengths: list[int]) -> list[Plain]:
        """Return steps, phases and measurements of each length of run under a schedule, as a job defines them."""
        peak = rate_of(schedule["peak"], base.model.name, base.model.total, f"{self._where}: peak")
        # A run at constant rate passes every shorter one on its way.
        ends = lengths[-1:] if schedule["schedule"] == "constant" else lengths
        shape = {**schedule, "phase": "cpt", "peak": peak, "tokens_per_step": self._asked.step_tokens}
        return [
            {
                "steps": [0, steps],
                "phases": [make_phase(self._where, steps=steps, **shape)],
                "measure_at": self._measure_at(base, steps, lengths),
            }
            for steps in ends
        ]

    def _measure_at(self, base: Base, steps: int, lengths: list[int]) -> list[int]:
        """Return the steps at which a run is measured: its end, and back from there by a factor."""
        key = base.model.name, steps
        if key not in self._measured:
            self._measured[key] = self._points(base, steps, lengths)
        return self._measured[key]

    def _points(self, base: Base, steps: int, lengths: list[int]) -> list[int]:
        asked = self._asked
        first_tokens = asked.first_tokens
        if first_tokens is None:
            first_tokens = asked.first_tokens_per_param * base.model.total
        first = max(1, round(first_tokens / asked.step_tokens))
        at = {steps, *(length for length in lengths if length < steps)}
        at |= log_points(steps, first, asked.points_per_doubling)
        least = asked.points if asked.points is not None else GIVEN_POINTS if base.model.is_given else 0
        if least > 1 and len(at) < least:
            # A large model sees few tokens per parameter: points by tokens, from a 128th of the run on, or closer.
            first = max(1, min(first, steps // 128))
            at |= {max(1, round(first * (steps / first) ** (place / (least - 1)))) for place in range(least)}
        if len(at) < least <= steps:
            # Of a short run points by a factor fall on the same steps; then evenly.
            at |= {round(steps * (place + 1) / least) for place in range(least)}
        # The base model of a ladder, or a given one, has been measured by its own job; only a ladder's is measured
        # again.
        return sorted(at | (set() if base.model.is_given else {0}))

    def _job(self, base: Base, weights: dict[object, float], along: Plain, order: int, lengths: list[int]) -> Job:
        (phase,) = along["phases"]
        asked, steps, schedule, peak = self._asked, phase["steps"], phase["schedule"], phase["peak"]
        replay = None if asked.source is None and asked.mixes else weights.get(asked.source, 0.0)
        share = f"r{replay:g}"
        if asked.mixes:
            share = "mix-" + "-".join(f"{name}{100 * weight:g}" for name, weight in weights.items() if weight)
        parts = [base.name, asked.target, share, schedule, f"lr{peak:g}"]
        parts += ["carried"] if asked.is_carried else []
        parts += [f"o{order}"] if order else []
        if len(lengths) > 1 and schedule != "constant":
            parts.append(f"{steps * asked.step_tokens / base.model.total:.3g}tpp")
        columns: Plain = {"ptpp": base.ptpp, "seed": base.seed, "order": order, "replay": replay}
        columns |= {"domain": asked.target, "lr_schedule": schedule, "lr_peak": peak, "base": base.name}
        columns |= {} if base.end is None else {"pt_lr_end": base.end}
        columns |= {"optimizer_state": "carried"} if asked.is_carried else {}
        if self._has_columns_of_mix:
            columns["mix"] = {name: weight for name, weight in weights.items() if name is not None}
        extra: Plain = {"kept": asked.keep} if asked.keep != "no" else {}
        extra |= {"merge": sorted(set(asked.merge))} if asked.merge else {}
        return self._recipe.job(
            base.model, "-".join(parts), "adapt", base.needs, columns, asked,
            start={"state": base.start["weights"]} if asked.is_carried else base.start, steps=along["steps"],
            phases=along["phases"], mix=self._mix(weights, replay, _seed_of(base.seed, order)), evals=self._evals,
            measure_at=along["measure_at"], keep=None, **extra,
        )  # fmt: skip

    def _mix(self, weights: dict[Any, float], replay: float | None, seed: int) -> Plain:
        """Return a mix as a job defines it: texts by fingerprint, shares exact; one for all runs on it."""
        key = (*weights.items(), seed)
        if key not in self._mixes:
            self._mixes[key] = self._new_mix(weights, replay, seed)
        return self._mixes[key]

    def _new_mix(self, weights: dict[Any, float], replay: float | None, seed: int) -> Plain:
        used = {name: weight for name, weight in weights.items() if weight}
        texts = [self._recipe.text(name) for name in used]
        if len(used) == 1:  # one corpus only
            result: Plain = {"texts": texts, "share": "1", "seed": seed}
        elif self._asked.mixes is None and replay is not None:
            result = {"texts": texts, "share": exact_share(replay), "seed": seed}
        else:
            parts = [round(weight * PARTS) for weight in used.values()]
            # Rounded shares need not add up to one; the last corpus takes what is missing.
            parts[-1] += PARTS - sum(parts)
            result = {"texts": texts, "weights": [str(Fraction(part, PARTS)) for part in parts], "seed": seed}
        pools = {self._recipe.text(name): int(tokens) for name, tokens in self._asked.pools.items() if name in used}
        return result | ({"pools": pools} if pools else {})


def evaluations(recipe: Recipe, jobs: list[Job]) -> list[Job]:
    """Return a job for each run that keeps models: the recipe's command evaluates them, and its scores become rows."""
    if recipe.asked.evaluate is None:
        return []
    kept = [job for job in jobs if job.definition.get("kept")]
    if not kept:
        raise DataError(f"{recipe.path.name}: evaluate: no model is kept. Say which with `keep: last`, best or all.")
    return [
        Job(
            name=f"evaluate-{job.name}",
            kind="evaluate",
            definition={"command": recipe.asked.evaluate.command, "of": job.id},
            needs=(job.id,),
            gpus=job.gpus,
            memory=job.memory,
            columns={**job.columns, "run": job.name},
            run={"seconds": recipe.asked.evaluate.seconds, "tokens_per_step": job.columns["batch_tokens"]},
        )
        for job in kept
    ]
