"""What the design of the runs can determine, before a fit: levels, confounding, identifiability, rising losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.solving.blocks import run_codes
from cptlaw.fitting.solving.identifiability import best_rank
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.base import LETTERS, Law
from cptlaw.laws.calculus import Array, Positive
from cptlaw.units import format_percent, format_quantity

CONFOUNDED = 0.95  # correlation of log N with log D from which their exponents trade off
RISE = 0.01  # relative rise of a loss along its run that the laws cannot show
FEW_AT_SMALL = 3  # runs below which the steep end of small replay rests on accidents
SMALL_REPLAY = 0.1


def check_rows(law: Law, frame: pd.DataFrame, problem: Problem) -> tuple[Finding, ...]:
    """Look at the rows that a law is to be fitted on, bound to it in `problem`; the worst comes first."""
    read = [name for name in law.inputs if name in frame.columns]  # a law may do without some
    runs, names = run_codes(frame)
    return by_severity(
        [
            *(finding for name in read for finding in _level_findings(law, frame, problem, name)),
            *_confounded(law, frame),
            *_few_runs(law, frame, problem),
            *_not_identified(law, problem),
            *_rising(law, frame, runs, names),
            *_small_replay(law, frame, runs),
        ]
    )


def _level_findings(law: Law, frame: pd.DataFrame, problem: Problem, name: str) -> Iterator[Finding]:
    """Say where one input has too few levels, or one at which the law as published is a barrier."""
    levels = np.unique(frame[name].to_numpy(dtype=float))
    lost = parameters_of_input(problem, name) if len(levels) < 3 else []
    if lost and len(levels) == 1 and name not in law.steady_inputs:
        yield _one_level(law, name, float(levels[0]), lost)
    if lost and name == "ptpp" and len(levels) == 2:
        yield _two_stages(levels)
    if name == "replay" and "eps" in law.constants:
        # The barrier stands where the law's own share is 0, whichever corpus that is the share of.
        at_barrier = frame["replay"][np.asarray(problem.x.r.value) <= law.ratio_margin]
        end = int(at_barrier.max() > 0)
        if len(at_barrier):
            yield Finding(
                "warning",
                "replay-at-zero",
                f"{len(at_barrier)} rows have replay {end}, where C/(r+eps)^gamma of {law.name} is a "
                f"barrier of C x {1 / law.constants['eps']:.0e}^gamma and bends the whole fit.",
                "Leave them out, or compare with the share of the other corpus as the law's ratio.",
                remedy=Remedy("where", "replay < 1" if end else "replay > 0"),
            )


def _confounded(law: Law, frame: pd.DataFrame) -> Iterator[Finding]:
    """Say where size and tokens grow together, so that their effects cannot be told apart."""
    if not {"n_params", "tokens"} <= set(law.inputs):
        return
    size, tokens = frame["n_params"].to_numpy(dtype=float), frame["tokens"].to_numpy(dtype=float)
    adapted = tokens > 0  # the base models' rows lie at no number of tokens
    size, tokens = np.log(size[adapted]), np.log(tokens[adapted])
    if not len(size) or np.ptp(size) == 0 or np.ptp(tokens) == 0:
        return
    correlation = float(np.corrcoef(size, tokens)[0, 1])
    if abs(correlation) > CONFOUNDED:
        # By how much the variance of either effect is larger than if they were varied apart.
        inflation = 1.0 / max(1.0 - correlation**2, 1e-12)
        yield Finding(
            "warning",
            "confounded",
            f"log n_params and log tokens correlate at {correlation:.3f} (variance inflation {inflation:.0f}): the "
            f"effects of size and of tokens can hardly be told apart.",
            "Add runs that break the ladder: a small model on many tokens, a large one on few.",
        )


def _few_runs(law: Law, frame: pd.DataFrame, problem: Problem) -> Iterator[Finding]:
    """Say where there are fewer runs than parameters; points of curves are counted after the fit, by correlation."""
    runs = frame["run"].nunique()
    # Rows of one run err together, so that runs are what is counted against parameters.
    if runs < problem.size and law.correlated_along is None:
        yield Finding(
            "warning",
            "few-runs",
            f"{runs} runs for {problem.size} free parameters. Points of one run are not independent.",
            "Hold or tie parameters, choose a smaller law, or add runs.",
            data={"n_runs": runs, "n_free": problem.size},
            remedy=Remedy("fix"),
        )


def _not_identified(law: Law, problem: Problem) -> Iterator[Finding]:
    """Say where no losses at these rows, however exact, could determine all parameters."""
    reachable = best_rank(problem)
    if reachable < problem.size:
        yield Finding(
            "warning",
            "not-identified",
            f"these rows identify at most {reachable} of the {problem.size} free parameters of {law.name}, "
            f"whatever the losses.",
            "Forecasts along the free directions are arbitrary: add levels, or hold parameters.",
            data={"rank": reachable, "n_free": problem.size},
            remedy=Remedy("fix"),
        )


def _one_level(law: Law, name: str, level: float, lost: list[str]) -> Finding:
    """Say that an input never varies, and which parameters that leaves undetermined."""
    text = format_percent(level) if name == "replay" else format_quantity(level)
    return Finding(
        "error",
        "one-level",
        f"column {name} has one level ({text}) in the rows chosen, so law {law.name} cannot determine "
        f"{', '.join(lost)}.",
        f"Add runs at another {name}, choose a law that does not use {name}, or hold these.",
        data={"column": name, "level": level, "parameters": list(lost)},
        remedy=Remedy("fix", ",".join(f"{p}=VALUE" for p in lost)),
    )


def parameters_of_input(problem: Problem, name: str) -> list[str]:
    """Return the free parameters of the terms that depend on an input, found by moving that input."""
    letter = LETTERS.get(name, name)
    column = getattr(problem.x, letter)
    # Any shapes will do: whether a term depends on an input does not depend on where it is asked.
    z = problem.starts(1, np.random.default_rng(0))
    values = getattr(column, "value", column)
    # Downwards where a share might leave [0, 1], upwards from zero.
    elsewhere = np.where(values > 0.9, values * 0.7, values * 0.7 + 0.05)
    moved = problem.at(letter, Positive(elsewhere) if isinstance(column, Positive) else elsewhere)
    result: list[str] = []
    for k, (old, new) in enumerate(zip(problem.columns(z), moved.columns(z), strict=True)):
        if not np.allclose(old.value, new.value, rtol=1e-12, atol=0):
            if k < problem.k:
                result += problem.amplitude_groups[k]
            # The shapes of a term that reads the input are lost with it: at one level any exponent goes with some
            # amplitude.
            result += [problem.shape_groups[index - problem.k][0] for index in old.slopes]
    return list(dict.fromkeys(result))


def _two_stages(levels: Array) -> Finding:
    # A large eta: no fall beyond the second budget. eta to 0: the same fall again for every such factor in the budget.
    low, high = float(levels[0]), float(levels[1])
    # How many of the known factors lie in a tenfold budget: each may bring the same fall again, or none.
    reach = math.log(10.0) / math.log(high / low)
    return Finding(
        "warning",
        "two-stages",
        f"ptpp has two levels ({low:g} and {high:g}). Two pre-training budgets do not determine how the loss goes "
        f"on: ten times beyond {high:g} the floor lies anywhere between its value there and {reach:.2f} times its last "
        f"drop below, whatever the amount of data.",
        "Add a third budget, and compare with ptpp-nearest, which extrapolates nothing.",
    )


def _rising(law: Law, frame: pd.DataFrame, runs: NDArray[np.intp], names: NDArray[np.str_]) -> Iterator[Finding]:
    if "tokens" not in law.decreasing or "tokens" not in frame.columns:
        return
    # First against last row: the warm-up transient and noise in between do not count as a rise.
    order = np.lexsort((frame["tokens"].to_numpy(dtype=float), runs))
    first = np.flatnonzero(np.diff(runs[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    loss = frame["loss"].to_numpy(dtype=float)[order]
    change = loss[last] / loss[first] - 1.0
    rising = int((change > RISE).sum())
    if rising:
        most = int(change.argmax())
        yield Finding(
            "warning",
            "rising-loss",
            f"the loss rises with tokens by more than {format_percent(RISE)} in {rising} of {len(change)} runs "
            f"(most: {format_percent(float(change[most]))} in {str(names[most])!r}); {law.name} can only fall.",
            "This is the small-replay regime, or the warm-up transient: leave it out, by tokens or by replay.",
            data={"rising": rising, "n_runs": len(change), "run": str(names[most]), "rise": float(change[most])},
            remedy=Remedy("where"),
        )


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
