"""Do the intervals hold? Nominal 90 % intervals of forecasts, counted on simulated runs of the published designs.

Each data set is one design of a published study with losses that follow a known law and noise of the published size.
The law is fitted, a few points are forecast, and it is counted how often the interval holds a new measurement there
and how often the part of it that is about the law holds the law's true loss. Beside it stand the intervals that users
of other tools would have from the same data and the same optimum:

- delta: the linear error propagation of ``scipy.optimize.curve_fit``, from the Jacobian at the optimum;
- bootstrap: points resampled with replacement, refitted from the optimum, percentiles, residuals as noise.

Both treat points as independent. In designs marked "not identified" the data leaves the forecast at an unseen
pre-training budget open (laws with two budgets); the right interval there is as wide as what the data allows.

Run it as ``python -m studies interval_coverage`` (many minutes) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
from scipy import special

import cptlaw as cl
from cptlaw.fitting.solving import newton
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.uncertainty.intervals import measurement_scatter
from cptlaw.fitting.uncertainty.profile import profiles
from cptlaw.laws import law
from cptlaw.laws.calculus import Array
from studies import simulate

LEVEL = 0.9
REFITS = 100  # of the peers' bootstrap
SMALL_SETS = {"chinchilla-60": 10, "ptpp-floor-2": 4}
KINDS = ("interpolation", "moderate", "far")
METHODS = ("cptlaw", "delta", "bootstrap")


@dataclass(frozen=True)
class Design:
    """One design: which points are measured, what is true, and where is forecast.

    Parameters
    ----------
    name
        Of the row in the table.
    law
        The law that is true and fitted.
    params
        Its true parameters.
    rows
        Points with run and the law's inputs.
    points
        Where is forecast: one row each for interpolation, moderate and far extrapolation.
    identified
        Whether the data determines the law at all points.
    on
        The eval: its role sets the meaning of the ratio.
    noise, run_noise, correlation
        As for `simulate.measure`.
    tails
        Degrees of freedom of the noise, Student's t scaled to `noise`; normal where absent.
    starts
        Of each fit.
    """

    name: str
    law: str
    params: dict[str, float]
    rows: pd.DataFrame
    points: pd.DataFrame
    identified: bool = True
    on: str = "target"
    noise: float = 0.002
    run_noise: float = 0.0
    correlation: float = 0.0
    tails: int | None = None
    starts: int = 8
    labels: tuple[str, ...] = field(default=KINDS)

    def runs(self, seed: int) -> pd.DataFrame:
        """Return one simulated data set."""
        truths = {self.on: simulate.Truth(self.law, self.params)}
        spread = 0.0 if self.tails else self.noise
        frame = simulate.measure(self.rows, truths, spread, self.correlation, self.run_noise, seed)
        if self.tails:
            frame["loss"] *= np.exp(self.noise * _student(np.random.default_rng([seed, 7]), self.tails, len(frame)))
        return frame

    def truth(self) -> Array:
        """Return the true losses at the points."""
        return law(self.law).predict(self.params, self.points.assign(eval=self.on))

    def measured(self, seed: int) -> Array:
        """Return one new measurement at each point, each from a run of its own."""
        rng = np.random.default_rng([seed, 8])
        count = len(self.points)
        error = _student(rng, self.tails, count) if self.tails else rng.standard_normal(count)
        return self.truth() * np.exp(self.noise * error + self.run_noise * rng.standard_normal(count))


def _student(rng: np.random.Generator, freedom: int, count: int) -> Array:
    """Return draws of Student's t with standard deviation one."""
    return np.asarray(rng.standard_t(freedom, count) / np.sqrt(freedom / (freedom - 2)))


# -- designs -------------------------------------------------------------------------------------------------------


def points(**columns: tuple[float, ...]) -> pd.DataFrame:
    """Return points; ``atpp`` becomes tokens."""
    frame = pd.DataFrame(columns, dtype=float)
    if "atpp" in frame:
        frame["tokens"] = frame.pop("atpp") * frame["n_params"]
    return frame


def chinchilla_rows(count: int) -> pd.DataFrame:
    """Return independent runs over 50M to 10B parameters and 3 to 300 tokens per parameter, one point each."""
    rng = np.random.default_rng(count)
    sizes = 10 ** rng.uniform(np.log10(50e6), 10.0, count)
    ratio = 10 ** rng.uniform(np.log10(3.0), np.log10(300.0), count)
    return pd.DataFrame({"run": [f"run-{i}" for i in range(count)], "n_params": sizes, "tokens": sizes * ratio})


def ptpp_truth(name: str, role: str) -> dict[str, float]:
    """Return the parameters of the package's PTPP truth that a law has."""
    given = simulate.PTPP_TRUTHS[role].params
    return {key: given[key] for key in law(name).parameters}


def designs() -> list[Design]:
    """Return all designs of the study."""
    epoch = {"E": 1.81722, "A": 477.826, "B": 2143.417, "alpha": 0.34731, "beta": 0.36717}
    beyond = points(n_params=(1e9, 40e9, 1e12), tokens=(20e9, 800e9, 20e12))
    chinchilla = partial(Design, law="chinchilla", params=epoch, points=beyond, noise=0.006)
    mixes = simulate.DCPT_REPLAY
    dcpt_points = points(n_params=(1.8e9, 7e9, 14e9), tokens=(10e9, 26e9, 100e9), replay=(0.4, 0.33, 0.75))
    dcpt = partial(
        Design,
        law="dcpt-l3",
        params=dict(simulate.DCPT_TRUTHS["target"]["chemistry"].params),
        points=dcpt_points,
    )
    sizes = simulate.PTPP_SIZES[:3]
    three = simulate.ptpp_design(n_params=sizes, atpp=(1.0, 4.0, 16.0))
    two = simulate.ptpp_design(n_params=sizes, ptpp=(15.0, 31.0), atpp=(1.0, 4.0, 16.0))
    three_points = points(
        n_params=(517e6, 8.1e9, 8.1e9), atpp=(8.0, 8.0, 32.0), replay=(0.25, 0.34, 0.25), ptpp=(100.0, 279.0, 1000.0)
    )
    two_points = points(
        n_params=(517e6, 1.4e9, 8.1e9), atpp=(8.0, 8.0, 8.0), replay=(0.25, 0.34, 0.34), ptpp=(20.0, 62.0, 279.0)
    )
    found = [
        chinchilla(name="chinchilla-60", rows=chinchilla_rows(60)),
        chinchilla(name="chinchilla-240-tails", rows=chinchilla_rows(240), tails=3),
        dcpt(name="dcpt", rows=simulate.dcpt_design(("chemistry",), replay=mixes[1:-1], sampling=6)),
        dcpt(
            name="dcpt-by-run",
            rows=simulate.dcpt_design(("chemistry",), replay=mixes[1:-1], sampling=8),
            noise=0.0015,
            run_noise=0.0015,
            correlation=0.7,
        ),
        Design("ptpp-floor-3", "ptpp-floor", ptpp_truth("ptpp-floor", "target"), three, three_points),
        Design(
            "ptpp-floor-3-by-run",
            "ptpp-floor",
            ptpp_truth("ptpp-floor", "source"),
            three,
            three_points,
            on="source",
            noise=0.004,
            run_noise=0.004,
        ),
        Design("ptpp-gated-floor-3", "ptpp-gated-floor", ptpp_truth("ptpp-gated-floor", "target"), three, three_points),
    ]
    found += [
        Design(f"{name}-2", name, ptpp_truth(name, "target"), two, two_points, identified=False)
        for name in ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor")
    ]
    return found


# -- intervals on log losses: shape (points, 2) --------------------------------------------------------------------


def delta_method(fit: cl.Fit, at: pd.DataFrame, with_noise: bool) -> Array:
    """Propagate the covariance s^2 (J'J)^-1 linearly, as users of curve_fit do; singular values cut as it does."""
    problem = fit.problem()
    start, k = fit.optima[0], problem.k
    matrix = jacobian(problem, start[:k], start[k:])
    _, singular, directions = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > np.finfo(float).eps * max(matrix.shape) * singular[0]
    slopes = jacobian(problem, start[:k], start[k:], at=fit.law.bind(at, fit.role))
    freedom = max(fit.n_points - fit.n_free, 1)
    variance = float(np.sum(fit.residuals() ** 2)) / freedom
    spread = variance * np.sum((slopes @ directions[kept].T / singular[kept]) ** 2, axis=1)
    half = special.stdtrit(freedom, 0.5 + 0.5 * LEVEL) * np.sqrt(spread + (variance if with_noise else 0.0))
    centre = np.log(fit.predict(at))
    return np.column_stack([centre - half, centre + half])


def point_bootstrap(fit: cl.Fit, at: pd.DataFrame, seed: int) -> tuple[Array, Array]:
    """Resample points, refit from the optimum; return percentile intervals without and with residuals as noise."""
    rng = np.random.default_rng([seed, 9])
    problem = fit.problem()
    weights = rng.multinomial(fit.n_points, np.full(fit.n_points, 1 / fit.n_points), size=REFITS).astype(float)
    start = np.repeat(fit.optima[:1], REFITS, axis=0)
    goal = Objective(problem, fit.options.delta, weights=weights)
    found = newton.descend(goal, start[:, : problem.k], start[:, problem.k :], iterations=40, tolerance=1e-7)
    losses = np.log(fit.law.predict_many(problem.parameters(found.c, found.z), at, fit.role))
    shares = [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL]
    noisy = losses + rng.choice(fit.residuals(), size=losses.shape)
    return np.quantile(losses, shares, axis=0).T, np.quantile(noisy, shares, axis=0).T


def closed_form(fit: cl.Fit, at: pd.DataFrame) -> tuple[float, float, float]:
    """Return what ptpp-floor fitted at two budgets must leave open at one point, in log losses.

    The data gives the floors c = E + F/P^eta at the two budgets P1 < P2 only. With d = c(P1) - c(P2) the floor at P
    lies between c(P2) - ratio d (eta -> 0) and c(P2) (eta -> infinity), where ratio = ln(P/P2) / ln(P2/P1). The first
    end needs E -> -infinity; with E >= 0, as the law demands, the lowest is the power law c(P2) (c(P2)/c(P1))^ratio.

    Returns
    -------
    lower end, lower end with E >= 0, upper end
    """
    low, high = np.unique(fit.data["ptpp"])
    floors = {p: fit.params["E"] + fit.params["F"] * p ** -fit.params["eta"] for p in (low, high)}
    budget = float(at["ptpp"].iloc[0])
    rest = float(fit.predict(at.assign(ptpp=high))[0]) - floors[high]
    ratio = np.log(budget / high) / np.log(high / low)
    free = rest + floors[high] - ratio * (floors[low] - floors[high])
    positive = rest + floors[high] * (floors[high] / floors[low]) ** ratio
    return float(np.log(free)), float(np.log(positive)), float(np.log(rest + floors[high]))


# -- counting ------------------------------------------------------------------------------------------------------


def one_set(design: Design, seed: int) -> list[dict[str, object]]:
    """Simulate one data set and return a record per method and point."""
    fit = cl.fit(design.law, design.runs(seed), on=design.on, starts=design.starts, seed=seed, restraint="none")
    at = design.points
    centre = np.log(fit.predict(at))
    # The law is true here, so that what forecasts add for a wrong form stays out. An end that the data does not bound
    # holds everything on its side.
    inner = profiles(fit, at, [LEVEL])[0]
    ends = centre[:, None] + np.array([-1.0, 1.0]) * np.hypot(inner - centre[:, None], measurement_scatter(fit, LEVEL))
    narrow, wide = point_bootstrap(fit, at, seed)
    intervals = {
        "cptlaw": (inner, ends),
        "delta": (delta_method(fit, at, with_noise=False), delta_method(fit, at, with_noise=True)),
        "bootstrap": (narrow, wide),
    }
    truth, measured = np.log(design.truth()), np.log(design.measured(seed))
    closed: dict[str, object] = {}
    if design.law == "ptpp-floor" and not design.identified:
        (inner_lo, inner_hi), (free, positive, top) = intervals["cptlaw"][0][-1], closed_form(fit, at.tail(1))
        slack = 0.02 * (top - free)
        closed = {
            "closed form": inner_lo <= free + slack and inner_hi >= top - slack,
            "closed form, E >= 0": inner_lo <= positive + slack and inner_hi >= top - slack,
        }
    return [
        {
            "design": design.name,
            "method": method,
            "point": kind,
            "measured": lo < measured[i] < hi,
            "truth": inner_lo <= truth[i] <= inner_hi,
            "width": hi - lo,
            **closed,
        }
        for method, (inner, outer) in intervals.items()
        for i, (kind, (lo, hi), (inner_lo, inner_hi)) in enumerate(zip(design.labels, outer, inner, strict=True))
    ]


def study(chosen: Iterable[Design], sets: dict[str, int], jobs: int) -> Iterator[pd.DataFrame]:
    """Yield the records of one design after the other."""
    with multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else _InProcess() as pool:
        for design in chosen:
            began = time.monotonic()
            records = pool.map(partial(one_set, design), range(sets[design.name]))
            took = time.monotonic() - began
            print(f"{design.name}: {sets[design.name]} data sets in {took:.0f} s", file=sys.stderr, flush=True)
            yield pd.DataFrame([record for several in records for record in several])


class _InProcess:
    """A pool of no processes."""

    map = staticmethod(lambda function, items: [function(item) for item in items])

    def __enter__(self) -> _InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def summary(records: pd.DataFrame) -> pd.DataFrame:
    """Return per design and point: share of measurements and of true losses inside, and median width, by method."""
    numbers = records.astype({"measured": float, "truth": float, "width": float})
    columns = {}
    for method in METHODS:
        cells = numbers[numbers["method"] == method].groupby(["design", "point"], sort=False)
        columns[method, "measured"] = 100 * cells["measured"].mean()
        columns[method, "truth"] = 100 * cells["truth"].mean()
        columns[method, "width"] = 100 * cells["width"].median()
    return pd.DataFrame(columns)


def markdown(table: pd.DataFrame, chosen: Iterable[Design]) -> str:
    """Return the table for the documents."""
    status = {design.name: "yes" if design.identified else "no" for design in chosen}
    lines = [
        "| design | identified | point | "
        + " | ".join(f"{method} {column}" for method in METHODS for column in ("measured", "true", "width"))
        + " |",
        "|---|---|---|" + "---:|" * 9,
    ]
    for key, row in zip(table.index, table.to_numpy(dtype=float), strict=True):
        name, point = key
        cells = [f"{value:.{2 if column % 3 == 2 else 1}f}" for column, value in enumerate(row)]
        lines.append(f"| {name} | {status[name]} | {point} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="two designs, few data sets: seconds instead of minutes")
    parser.add_argument("--sets", type=int, default=200, help="data sets per design")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--designs", nargs="*", help="only these designs")
    arguments = parser.parse_args()
    chosen = [design for design in designs() if not arguments.designs or design.name in arguments.designs]
    sets = {design.name: arguments.sets for design in chosen}
    if arguments.small:
        chosen = [design for design in chosen if design.name in SMALL_SETS]
        sets = SMALL_SETS
    records = pd.concat(study(chosen, sets, 1 if arguments.small else arguments.jobs), ignore_index=True)
    print(
        f"Nominal {100 * LEVEL:.0f} % intervals; {', '.join(sorted({str(sets[d.name]) for d in chosen}))} data sets a "
        "design. measured, true: per cent inside;\nwidth: median of log(hi/lo) in per cent, noise of a measurement "
        "included.\n"
    )
    print(markdown(summary(records), chosen))
    for claim in ("closed form", "closed form, E >= 0"):
        if claim in records:
            share = (
                100 * records.loc[records["method"].eq("cptlaw") & records["point"].eq("far"), claim].dropna().mean()
            )
            print(f"\nptpp-floor-2, far: the interval about the law holds all of the {claim} in {share:.0f} % of sets.")


if __name__ == "__main__":
    main()
