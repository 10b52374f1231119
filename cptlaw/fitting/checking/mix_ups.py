"""Rows that look as if another unit, another tokenizer or another eval had slipped in. No law is fitted here.

A run is compared with what all others say: a plain robust regression of the log loss on the logs of the inputs. It is
no law, but what it misses by tens of per cent is no law's shortcoming either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding, Remedy
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array
from cptlaw.units import format_percent

LEAST_RUNS = 6
STRANGE = 0.15  # log loss by which a whole run lies off the others
STRANGE_ALONE = 0.28  # the same for runs on one corpus alone, beside others; bits for nats are .37
TIMES = 6.0  # and times the usual scatter of runs
ROUNDS = 20
# What a mix-up of units would multiply a loss by.
FACTORS = {
    "in bits instead of nats": 1.0 / math.log(2.0),
    "in nats instead of bits": math.log(2.0),
}
MANY_IN_BITS = (0.1, 0.5)  # share of rows: fewer are runs that slipped, of more the others would be
UNITS = (1e3, 1e6, 1e9)  # factors between tokens, thousands, millions and billions of them
HIGHEST_LOSS = 20.0  # nats per token: a uniform guess over half a billion words
FEW_AT_SMALL = 3  # runs below which the steep end of small replay rests on accidents
SMALL_REPLAY = 0.1


def suspicions(law: Law, frame: pd.DataFrame, runs: NDArray[np.intp], names: NDArray[np.str_]) -> list[Finding]:
    """Return what looks mixed up in the rows of one eval, and where the steep end of replay is thin.

    `runs` is the run of each row as a number, (n,), and `names` what these numbers stand for.
    """
    return [*_units(frame, runs, names), *_strange_runs(frame, runs, names), *_small_replay(law, frame, runs)]


def _units(frame: pd.DataFrame, runs: NDArray[np.intp], names: NDArray[np.str_]) -> Iterator[Finding]:
    loss = frame["loss"].to_numpy(dtype=float)
    if float(np.median(loss)) > HIGHEST_LOSS:
        yield Finding(
            "warning",
            "suspected-units",
            f"the median loss is {np.median(loss):.4g}: more than any guess over a vocabulary costs in nats. It "
            f"looks like a perplexity.",
            "Give losses in nats per token: the natural logarithm of the perplexity.",
        )
    if not {"tokens", "n_params"} <= set(frame.columns):
        return
    tokens, size = frame["tokens"].to_numpy(dtype=float), frame["n_params"].to_numpy(dtype=float)
    highest = np.full(len(names), -np.inf)
    used = (tokens > 0) & (size > 0)
    np.maximum.at(highest, runs[used], np.log10(tokens[used] / size[used]))
    names, highest = names[np.isfinite(highest)], highest[np.isfinite(highest)]
    if len(highest) < LEAST_RUNS:
        return
    middle = float(np.median(highest))
    far = np.abs(highest - middle)
    # Only the run that lies farther out than all others can be one; it must not widen the range that it is measured by.
    farthest, others = int(far.argmax()), float(np.sort(far)[-2])
    gap = float(highest[farthest]) - middle
    near = UNITS[int(np.abs(np.log10(UNITS) - abs(gap)).argmin())]
    # Far outside the others, and among them once the unit is put right.
    if abs(gap) > others + 1.0 and abs(abs(gap) - math.log10(near)) < others + 0.3:
        yield Finding(
            "warning",
            "suspected-units",
            f"run {str(names[farthest])!r} has {10.0 ** float(highest[farthest]):.3g} tokens per parameter, "
            f"{10.0**gap:.2g} times the median of all runs: its tokens or its n_params look as if given in units of "
            f"{near:.0e}.",
            "Write both as plain numbers, or with their unit, as in 8.1B.",
        )


def _strange_runs(frame: pd.DataFrame, runs: NDArray[np.intp], names: NDArray[np.str_]) -> Iterator[Finding]:
    """Say which runs lie off all others as a whole."""
    trained = (frame["tokens"] != 0).to_numpy() if "tokens" in frame.columns else np.full(len(frame), True)
    if trained.any() and not trained.all():
        # Zero has no logarithm, and a base model is no run of the table's kind.
        kept, runs = np.unique(runs[trained], return_inverse=True)
        frame, names = frame[trained], names[kept]
    columns = [np.ones(len(frame))]
    for name in (name for name in ("n_params", "tokens", "ptpp", "replay") if name in frame.columns):
        values = frame[name].to_numpy(dtype=float)
        if not np.all(np.isfinite(values)) or np.ptp(values) == 0:
            continue
        # Effects of sizes and tokens are powers; a replay of zero has no logarithm.
        place = values if name == "replay" else np.log(np.maximum(values, 1e-300))
        place = (place - place.mean()) / place.std()
        # A parabola in logarithms follows any of the laws closely enough to see a run that lies 15 % off it.
        columns += [place, place**2] if len(np.unique(values)) > 2 else [place]
    alone = np.zeros(len(frame), dtype=bool)
    if "replay" in frame.columns:
        # On one corpus alone nothing of the other is learned, or nothing kept: no parabola of other mixes goes there.
        ends = [(frame["replay"] == end).to_numpy() for end in (0.0, 1.0)]
        ends = [end for end in ends if 0 < end.sum() < len(end)]
        columns += [end.astype(float) for end in ends]
        alone = np.any([alone, *ends], axis=0)
    if "domain" in frame.columns and frame["domain"].nunique() > 1:
        known = sorted(frame["domain"].dropna().unique())
        columns += [(frame["domain"] == name).to_numpy(dtype=float) for name in known[1:]]
    if len(frame) < max(LEAST_RUNS, 2 * len(columns)):
        return
    residual = _robust_residuals(np.column_stack(columns), np.log(frame["loss"].to_numpy(dtype=float)))
    if of_units := _rows_in_bits(residual):
        yield of_units
        return
    if len(names) < max(LEAST_RUNS, 2 * len(columns)):
        return
    counts = np.bincount(runs)
    first = np.cumsum(counts) - counts
    ordered = residual[np.lexsort((residual, runs))]
    by_run = 0.5 * (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2])
    away = by_run - np.median(by_run)
    # The median absolute deviation as a standard deviation of normal errors: the strange run has no part in it.
    usual = 1.4826 * float(np.median(np.abs(away)))
    limit = np.where(np.bincount(runs, alone) > 0, STRANGE_ALONE, STRANGE)
    strange = np.flatnonzero((np.abs(away) > limit) & (np.abs(away) > TIMES * usual))
    if len(strange) > 0.2 * len(by_run):  # many are a pattern, not a slip
        return
    for run, gap in zip(names[strange].tolist(), away[strange].tolist(), strict=True):
        near = next((how for how, by in FACTORS.items() if abs(gap - math.log(by)) < max(0.05, 3 * usual)), None)
        guess = f", as if {near}" if near else ""
        yield Finding(
            "warning",
            "suspected-mix-up",
            f"the losses of run {run!r} lie {abs(math.expm1(gap)):.0%} {'above' if gap > 0 else 'below'} what the "
            f"other runs lead one to expect{guess}.",
            "Another tokenizer, unit, eval or model may have slipped in: look at this run, or leave it out.",
            data={"run": str(run), "gap": gap},
            remedy=Remedy("where", f'run != "{run}"'),
        )


def _rows_in_bits(residual: Array) -> Finding | None:
    """Say that a part of the rows lies off the others by the factor between nats and bits."""
    usual = 1.4826 * float(np.median(np.abs(residual)))
    near = max(0.05, min(3.0 * usual, 0.12))
    for how, factor in FACTORS.items():
        off = np.abs(residual - math.log(factor)) < near
        alike = np.abs(residual) < near
        # Two heaps and next to nothing between them: what a missing input does is spread.
        if MANY_IN_BITS[0] <= off.mean() <= MANY_IN_BITS[1] and (off | alike).mean() > 0.95:
            where = f"{abs(factor - 1):.0%} {'above' if factor > 1 else 'below'}"
            text = f"{off.sum()} of {len(residual)} rows lie {where} what the others lead one to expect, as if {how}."
            advice = "Give all losses in nats per token: bits times 0.6931."
            return Finding("warning", "suspected-mix-up", text, advice)
    return None


def _robust_residuals(design: Array, values: Array) -> Array:
    """Return residuals of a regression by least absolute deviations, by reweighted least squares."""
    scaled = design / np.maximum(np.linalg.norm(design, axis=0), 1e-300)
    weight = np.ones(len(values))
    residual = values
    for _ in range(ROUNDS):
        # By the normal equations: the columns are few, centred and scaled, and rows may be a million.
        weighted = scaled.T * weight
        solved = np.linalg.lstsq(weighted @ scaled, weighted @ values, rcond=1e-12)[0]
        residual = values - scaled @ solved
        # Least absolute deviations: a run that was mixed up must not bend the curve that shows it.
        weight = 1.0 / np.maximum(np.abs(residual), 1e-4)
    return residual


def _small_replay(law: Law, frame: pd.DataFrame, runs: NDArray[np.intp]) -> Iterator[Finding]:
    """Say that the steep end of small replay rests on few runs."""
    if "replay" not in law.inputs or "replay" not in frame.columns or law.ratio_of is None:
        return
    share = frame["replay"].to_numpy(dtype=float)
    small, levels = (share > 0) & (share <= SMALL_REPLAY * (1 + 1e-9)), np.unique(share[share > 0])
    count = len(np.unique(runs[small]))
    if count >= FEW_AT_SMALL or len(levels) < 2:
        return
    few = f"{count} run lies" if count == 1 else f"{count} runs lie" if count else "no run lies"
    rests = "them alone" if count > 1 else "it alone" if count else "runs at more of it"
    yield Finding(
        "info",
        "few-at-small-replay",
        f"{few} at a replay of {SMALL_REPLAY:.0%} or less (the lowest level is {format_percent(levels[0])}). "
        f"Forgetting changes fastest there, and what {law.name} says of small replay rests on {rests}.",
        "Do not plan below the lowest level; one or two runs there are cheap and worth much.",
    )
