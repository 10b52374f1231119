"""What can be said about rows before a fit, and about a fit after it: findings with numbers and advice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.checking.mix_ups import suspicions
from cptlaw.findings import Finding, by_severity
from cptlaw.laws.base import LETTERS, Law
from cptlaw.laws.calculus import Array, Jet, Positive
from cptlaw.solving.identifiability import best_rank, null_directions
from cptlaw.solving.problem import Problem
from cptlaw.units import format_percent, format_quantity

if TYPE_CHECKING:
    from cptlaw.fitting.fitted_law import Fit

CONFOUNDED = 0.95  # correlation of log N with log D from which their exponents trade off
FEW_PER_PARAMETER = 3  # independent points per free parameter below which there is a warning
RISE = 0.01  # relative rise of a loss along its run that the laws cannot show


def check_rows(law: Law, frame: pd.DataFrame, problem: Problem) -> tuple[Finding, ...]:
    """Look at the rows that a law is to be fitted on.

    Parameters
    ----------
    law
        The law.
    frame
        The rows of one eval, as they go into the fit.
    problem
        The law bound to these rows, with its restraint.

    Returns
    -------
    tuple of Finding
        The worst first.
    """
    found: list[Finding] = []
    n_runs = frame["run"].nunique()
    for name in (name for name in law.inputs if name in frame.columns):  # a law may do without some
        levels = np.unique(frame[name].to_numpy(dtype=float))
        if len(levels) == 1 and parameters_of_input(problem, name):
            found.append(one_level(law, problem, name, float(levels[0])))
        if name == "ptpp" and len(levels) == 2 and parameters_of_input(problem, name):
            found.append(_two_stages(levels))
        if name == "replay" and levels[0] == 0 and law.ratio_of == "source" and law.ratio_margin:
            found.append(
                Finding(
                    "warning",
                    "replay-at-zero",
                    f"{int((frame['replay'] == 0).sum())} rows have replay 0, where C/(r+eps)^gamma of {law.name} is a "
                    f"barrier of C x {1 / law.constants['eps']:.0e}^gamma and bends the whole fit.",
                    "Leave them out with --where 'replay > 0', or compare with ratio_of=own.",
                )
            )
    if {"n_params", "tokens"} <= set(law.inputs) and frame["n_params"].nunique() > 1 and frame["tokens"].nunique() > 1:
        adapted = frame[frame["tokens"] > 0]
        size, tokens = np.log(adapted["n_params"].to_numpy()), np.log(adapted["tokens"].to_numpy())
        correlation = float(np.corrcoef(size, tokens)[0, 1])
        if abs(correlation) > CONFOUNDED:
            vif = 1.0 / max(1.0 - correlation**2, 1e-12)
            found.append(
                Finding(
                    "warning",
                    "confounded",
                    f"log n_params and log tokens correlate at {correlation:.3f} (variance inflation {vif:.0f}): the "
                    f"effects of size and of tokens can hardly be told apart.",
                    "Add runs that break the ladder: a small model on many tokens, a large one on few.",
                )
            )
    if n_runs < problem.size and law.correlated_along is None:
        found.append(
            Finding(
                "warning",
                "few-runs",
                f"{n_runs} runs for {problem.size} free parameters. Points of one run are not independent.",
                "Hold parameters with --fix, --tie or --prior, choose a smaller law, or add runs.",
            )
        )
    reachable = best_rank(problem)
    if reachable < problem.size:
        found.append(
            Finding(
                "warning",
                "not-identified",
                f"these rows identify at most {reachable} of the {problem.size} free parameters of {law.name}, "
                f"whatever the losses.",
                "Forecasts along the free directions are arbitrary: add levels, or hold parameters with --fix.",
            )
        )
    found += _rising(law, frame)
    found += suspicions(law, frame)
    return by_severity(found)


def check_fit(law: Law, problem: Problem, c: Array, z: Array, matrix: Array, rank: int) -> tuple[Finding, ...]:
    """Look at the optimum: parameters at bounds, dead terms, directions that the data does not see."""
    found: list[Finding] = []
    dead: set[str] = set()
    for k, group in enumerate(problem.amplitude_groups):
        if c[k] <= max(problem.c_low[k], 1e-9 * float(np.mean(problem.loss))) and problem.c_low[k] == 0:
            shapes = sorted(_shapes_of(problem, k))
            dead.update(shapes)
            rest = (
                f", so {' and '.join(shapes)} {'mean' if len(shapes) > 1 else 'means'} nothing here" if shapes else ""
            )
            found.append(
                Finding(
                    "info",
                    "term-at-zero",
                    f"{' = '.join(group)} = 0: the data sees no such term{rest}.",
                    f"A smaller law, or --fix {group[0]}=0, says the same with fewer parameters.",
                )
            )
    for m, group in enumerate(problem.shape_groups):
        axis = law.shapes[group[0]]
        for end, word in ((problem.z_low[m], "lower"), (problem.z_high[m], "upper")):
            if math.isclose(z[m], end, rel_tol=1e-9, abs_tol=1e-12) and group[0] not in dead:
                value = float(axis.from_axis(end))
                found.append(
                    Finding(
                        "warning",
                        "at-bound",
                        f"{' = '.join(group)} ends on its {word} bound {value:g}.",
                        "The data wants it further out or does not see it: forecasts far from the data rest on the "
                        "bound. Hold it with --fix or --prior, or add levels of the input that it belongs to.",
                    )
                )
                break
    if rank < problem.size:
        directions = [
            " and ".join(list(shares)[:4])
            for shares in null_directions(matrix, problem.free)
            if not set(shares) <= dead
        ]
        if directions:
            found.append(
                Finding(
                    "warning",
                    "rank",
                    f"the Jacobian has rank {rank} of {problem.size}: the fit does not change along "
                    f"{'; '.join(directions)}.",
                    "No standard error exists for these. Add levels, or hold one of them with --fix or --prior.",
                )
            )
    return tuple(found)


def check_independence(fit: Fit) -> tuple[Finding, ...]:
    """Say how many independent points loss curves are worth."""
    if fit.law.correlated_along not in fit.data.columns:
        return ()
    by_run = fit.n_effective
    total = sum(by_run.values())
    few = total < FEW_PER_PARAMETER * fit.n_free
    least = sorted(by_run.items(), key=lambda item: item[1])[:3]
    listed = ", ".join(f"{run} {value:.3g}" for run, value in least)
    return (
        Finding(
            "warning" if few else "info",
            "autocorrelated",
            f"residuals of neighbouring points are alike: {fit.n_points} points of {fit.n_runs} runs count as about "
            f"{total:.3g} independent ones{' for ' + str(fit.n_free) + ' free parameters' if few else ''} "
            f"({'fewest' if len(by_run) > 3 else 'by run'}: {listed}).",
            "Intervals and draws count them so. More runs under other schedules help more than more points."
            if few
            else "",
        ),
    )


def one_level(law: Law, problem: Problem, name: str, level: float) -> Finding:
    """Say that an input never varies, and which parameters that leaves undetermined."""
    lost = parameters_of_input(problem, name)
    text = format_percent(level) if name == "replay" else format_quantity(level)
    return Finding(
        "error",
        "one-level",
        f"column {name} has one level ({text}) in the rows chosen, so law {law.name} cannot determine "
        f"{', '.join(lost)}.",
        f"Add runs at another {name}, choose a law that does not use {name}, or hold these with "
        f"--fix {','.join(f'{p}=VALUE' for p in lost)}.",
    )


def parameters_of_input(problem: Problem, name: str) -> list[str]:
    """Return the free parameters of the terms that depend on an input, found by moving that input."""
    letter = LETTERS.get(name, name)
    column = getattr(problem.x, letter)
    z = problem.starts(1, np.random.default_rng(0))
    values = getattr(column, "value", column)
    elsewhere = np.where(values > 0.9, values * 0.7, values * 0.7 + 0.05)
    moved = problem.at(letter, Positive(elsewhere) if isinstance(column, Positive) else elsewhere)
    found: list[str] = []
    before, after = problem.columns(z)[1], moved.columns(z)[1]
    offsets = problem.columns(z)[0], moved.columns(z)[0]
    for k, (old, new) in enumerate([*zip(before, after, strict=True), offsets]):
        old_value, new_value = (item.value if isinstance(item, Jet) else item for item in (old, new))
        if not np.allclose(old_value, new_value, rtol=1e-12, atol=0):
            if k < problem.k:
                found += problem.amplitude_groups[k]
            if isinstance(old, Jet):
                found += [problem.shape_groups[index - problem.k][0] for index in old.slopes]
    return list(dict.fromkeys(found))


def _shapes_of(problem: Problem, k: int) -> set[str]:
    """Return the shape parameters that occur in column k and in no other."""
    offset, columns = problem.columns(problem.starts(1, np.random.default_rng(0)))
    used = [set(part.slopes) if isinstance(part, Jet) else set() for part in [*columns, offset]]
    elsewhere = set().union(*(used[i] for i in range(len(used)) if i != k))
    return {problem.shape_groups[index - problem.k][0] for index in used[k] - elsewhere}


def _two_stages(levels: Array) -> Finding:
    low, high = float(levels[0]), float(levels[1])
    reach = math.log(10.0) / math.log(high / low)
    return Finding(
        "warning",
        "two-stages",
        f"ptpp has two levels ({low:g} and {high:g}). Two pre-training budgets do not determine how the loss goes "
        f"on: ten times beyond {high:g} the floor lies anywhere between its value there and {reach:.2f} times its last "
        f"drop below, whatever the amount of data.",
        "Add a third budget, and compare with ptpp-nearest, which extrapolates nothing.",
    )


def _rising(law: Law, frame: pd.DataFrame) -> list[Finding]:
    if "tokens" not in law.decreasing or not {"run", "tokens"} <= set(frame.columns):
        return []
    ordered = frame.sort_values("tokens", kind="stable").groupby("run", observed=True, sort=False)["loss"]
    change = ordered.last() / ordered.first() - 1.0
    rising = change[change > RISE]
    if rising.empty:
        return []
    return [
        Finding(
            "warning",
            "rising-loss",
            f"the loss rises with tokens by more than {format_percent(RISE)} in {len(rising)} of {len(change)} runs "
            f"(most: {format_percent(float(rising.max()))} in {rising.idxmax()!r}); {law.name} can only fall.",
            "This is the small-replay regime, or the warm-up transient: leave it out with --where, for instance by "
            "tokens or replay.",
        )
    ]
