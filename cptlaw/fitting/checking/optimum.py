"""What an optimum shows, after a fit: bounds, terms at zero, directions without data, points that err together."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.solving.identifiability import null_directions
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array

FEW_PER_PARAMETER = 3  # independent points per free parameter below which there is a warning


def check_optimum(law: Law, problem: Problem, c: Array, z: Array, matrix: Array, rank: int) -> tuple[Finding, ...]:
    """Look at the optimum: parameters at bounds, dead terms, directions that the data does not see."""
    at_zero, dead = _terms_at_zero(problem, c)
    return *at_zero, *_at_bounds(law, problem, z, dead), *_unseen(problem, matrix, rank, dead)


def _terms_at_zero(problem: Problem, c: Array) -> tuple[list[Finding], set[str]]:
    """Say which amplitudes are zero, and return the shapes that mean nothing without them."""
    # A shape of a term that is zero moves nothing: it may lie on a bound or along a silent direction without meaning.
    result, dead = [], set[str]()
    for k, group in enumerate(problem.amplitude_groups):
        if problem.c_low[k] != 0 or not c[k] <= 1e-9 * float(np.mean(problem.loss)):
            continue
        shapes = sorted(_shapes_of(problem, k))
        dead.update(shapes)
        rest = f", so {' and '.join(shapes)} {'mean' if len(shapes) > 1 else 'means'} nothing here" if shapes else ""
        result.append(
            Finding(
                "info",
                "term-at-zero",
                f"{' = '.join(group)} = 0: the data sees no such term{rest}.",
                "The same law without this term has fewer parameters.",
                data={"parameters": list(group)},
                remedy=Remedy("fix", f"{group[0]}=0"),
            )
        )
    return result, dead


def _at_bounds(law: Law, problem: Problem, z: Array, dead: set[str]) -> Iterator[Finding]:
    """Say which shapes end on a bound."""
    for m, group in enumerate(problem.shape_groups):
        ends = ((problem.z_low[m], "lower"), (problem.z_high[m], "upper"))
        on = [(end, word) for end, word in ends if math.isclose(z[m], end, rel_tol=1e-9, abs_tol=1e-12)]
        if not on or group[0] in dead:
            continue
        end, word = on[0]
        yield Finding(
            "warning",
            "at-bound",
            f"{' = '.join(group)} ends on its {word} bound {float(law.shapes[group[0]].from_axis(end)):g}.",
            "The data wants it further out or does not see it: forecasts far from the data rest on the bound. Add "
            "levels of the input that it belongs to, put a prior on it, or hold it.",
            data={"parameters": list(group), "end": word},
            remedy=Remedy("prior"),
        )


def _unseen(problem: Problem, matrix: Array, rank: int, dead: set[str]) -> Iterator[Finding]:
    """Say along which directions the fit does not change."""
    if rank >= problem.size:
        return
    directions = [
        " and ".join(list(shares)[:4]) for shares in null_directions(matrix, problem.free) if not set(shares) <= dead
    ]
    if directions:
        yield Finding(
            "warning",
            "rank",
            f"the Jacobian has rank {rank} of {problem.size}: the fit does not change along {'; '.join(directions)}.",
            "No standard error exists for these. Add levels, or hold one of them.",
            data={"rank": rank, "n_free": problem.size, "directions": directions},
            remedy=Remedy("fix"),
        )


def check_search(converged: bool, agree: int, starts: int) -> Iterator[Finding]:
    """Say where the polish ended too early, and where few starts came to the best optimum."""
    if not converged:
        yield Finding(
            "warning",
            "not-converged",
            "the polish used up its steps before it converged.",
            "The optimum lies in a flat valley: hold parameters, or choose a smaller law.",
            remedy=Remedy("fix"),
        )
    if starts > 1 and agree < max(2, starts // 20):
        yield Finding(
            "warning",
            "few-starts-agree",
            f"{agree} of {starts} starts reached the best optimum.",
            "Search from more starts, or hold parameters.",
            data={"n_agree": agree, "n_starts": starts},
            remedy=Remedy("starts", 4 * starts),
        )


def check_independence(fit: LawOnRows) -> Iterator[Finding]:
    """Say how many independent points loss curves are worth."""
    if fit.law.correlated_along not in fit.data.columns:
        return
    by_run = fit.n_effective
    total = sum(by_run.values())
    few = total < FEW_PER_PARAMETER * fit.n_free
    least = sorted(by_run.items(), key=lambda item: item[1])[:3]
    listed = ", ".join(f"{run} {value:.3g}" for run, value in least)
    yield Finding(
        "warning" if few else "info",
        "autocorrelated",
        f"residuals of neighbouring points are alike: {fit.n_points} points of {fit.n_runs} runs count as about "
        f"{total:.3g} independent ones{' for ' + str(fit.n_free) + ' free parameters' if few else ''} "
        f"({'fewest' if len(by_run) > 3 else 'by run'}: {listed}).",
        "Intervals and draws count them so. More runs under other schedules help more than more points." if few else "",
    )


def _shapes_of(problem: Problem, k: int) -> set[str]:
    """Return the shape parameters that occur in column k and in no other."""
    columns = problem.columns(problem.starts(1, np.random.default_rng(0)))
    used = [set(column.slopes.tolist()) for column in columns]
    elsewhere = set().union(*(used[i] for i in range(len(used)) if i != k))
    return {problem.shape_groups[index - problem.k][0] for index in used[k] - elsewhere}
