"""Roll law auto through whole studies: how often its intervals hold what lies beyond the fitted rows.

    python -m studies whole_studies --data ../shared/data            # print the table
    python -m studies whole_studies --data ../shared/data --write    # and write it into studies/bench.md

Up to three cuts along every direction of every loss, each forecast under what the other studies say. Rollouts of a loss
count alike, and losses of a study. About seven minutes of one core.

Points of one rollout err together, so that few studies would lie near nine of ten even if no interval were too wide or
too narrow: `by_luck` says how many, from the same rollouts dealt out anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.fitting.auto.average import Average
from studies.harness import Array, progress, show, skip, write_result
from studies.learning.learn_averages import cuts, forecast_of, thinned, without
from studies.series import Series, all_series

EVERY = {"dmsl": 3, "mixlaws-scratch": 3}  # one series in so many of the studies that have many alike
MOST_CUTS = 3
COVERAGES = (0.5, 0.9)
AIM = (0.85, 0.95)  # of a study's held-out points inside the 90 % interval
DEALS = 2000
ABSURD = 1.0  # log error from which a rollout is left out: a fit that fell apart


def interval_score(error: Array, half: Array, coverage: float) -> float:
    """Return the mean interval score of central intervals, log loss (Gneiting and Raftery 2007, eq. 43)."""
    return float(np.mean(2.0 * half + 2.0 / (1.0 - coverage) * np.maximum(np.abs(error) - half, 0.0)))


def scored(fit: Average, upper: pd.DataFrame) -> dict[str, Any]:
    """Return what the intervals of a forecast hold, how wide they are, and what is missed, log loss.

    ``beyond`` is what each point is missed by, in half-widths of the 90 % interval.
    """
    loss = np.log(upper["loss"].to_numpy(dtype=float))
    error = np.log(fit.predict(upper)) - loss
    found: dict[str, Any] = {"error": float(np.sqrt(np.mean(error**2))), "worst": float(np.abs(error).max())}
    for coverage in COVERAGES:
        low, high = fit.log_quantiles(upper, [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
        half = 0.5 * (high - low)
        found[f"inside_{100 * coverage:.0f}"] = float(np.mean((low <= loss) & (loss <= high)))
        found[f"half_{100 * coverage:.0f}"] = float(np.median(half))
        found[f"score_{100 * coverage:.0f}"] = interval_score(error, half, coverage)
    return found | {"beyond": np.abs(error) / half}


def rows_of(every: Iterable[Series]) -> Iterator[dict[str, Any]]:
    """Yield what each rollout scored."""
    for series in thinned(every, EVERY):
        progress(f"{series.study}, {series.name}")
        for fold in cuts(series, MOST_CUTS):
            found = forecast_of(series, fold)
            if found is None:
                continue
            with without(series.study):
                yield {"study": series.study, "series": series.name, "cut": fold.label, **scored(*found)}


def by_study(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over the losses of each study, with the number of its rollouts."""
    numbers = rows.drop(columns=["cut", "beyond"])
    found = numbers.groupby(["study", "series"], sort=False).mean().groupby("study", sort=False).mean()
    return found.assign(rollouts=rows.groupby("study", sort=False).size())


def by_luck(rows: pd.DataFrame, seed: int = 0) -> Array:
    """Return how many studies would lie within the aim if their rollouts were anyone's, (deals,).

    All intervals are first widened by the one factor with which studies hold nine of ten on average. Each study is then
    dealt as many rollouts as it has cuts, for the losses of one cut share their runs.
    """
    weight = 1.0 / rows.groupby("study")["cut"].transform("size").to_numpy()
    weight = weight / weight.sum()
    factors = np.geomspace(0.25, 4.0, 200)
    held = np.array([[np.mean(beyond <= factor) for beyond in rows["beyond"]] for factor in factors])
    fair = held[np.abs(held @ weight - COVERAGES[-1]).argmin()]
    generator = np.random.default_rng(seed)
    within = np.zeros(DEALS)
    for _, part in rows.groupby("study"):
        dealt = generator.choice(fair, size=(DEALS, part["cut"].nunique()), p=weight).mean(axis=1)
        within += _within(dealt)
    return within


def _within(coverage: Any) -> Any:
    rounded = np.round(coverage, 2)
    return (rounded >= AIM[0]) & (rounded <= AIM[1])


HEADS = ["study", "rollouts", "inside 90 %", "inside 50 %", "half-width of 90 %", "error", "interval score of 90 %"]


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return one line per study, and what they come to: half-width, error and score in percent of the loss."""
    found = by_study(rows)
    lines = [
        [one.Index, one.rollouts, f"{one.inside_90:.2f}", f"{one.inside_50:.2f}"]
        + [f"{100 * value:.1f}" for value in (one.half_90, one.error, one.score_90)]
        for one in found.itertuples()
    ]
    middle, mean = (getattr(found[["inside_90", "inside_50"]], kind)() for kind in ("median", "mean"))
    luck = by_luck(rows)
    low, high = np.percentile(luck, [5, 95])
    told = {
        f"studies from {AIM[0]:.2f} to {AIM[1]:.2f}": f"{int(_within(found['inside_90']).sum())} of {len(found)}",
        "by luck, intervals all alike": f"{luck.mean():.1f} ({low:.0f} to {high:.0f})",
        "median inside 90 % (50 %)": f"{middle['inside_90']:.2f} ({middle['inside_50']:.2f})",
        "mean": f"{mean['inside_90']:.2f} ({mean['inside_50']:.2f})",
        "interval score, geometric mean": f"{100 * np.exp(np.log(found['score_90']).mean()):.1f}",
    }
    return {"studies": pd.DataFrame(lines, columns=HEADS), "all": pd.DataFrame([told])}


def probe() -> dict[str, Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    series = next(one for one in all_series(None) if one.study == "docs-to-code")
    fit, upper = forecast_of(series, cuts(series, 1)[0]) or skip("the first cut allows no fit")
    with without(series.study):
        return scored(fit, upper)


def main() -> None:
    """Roll, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    found = pd.DataFrame(list(rows_of(all_series(asked.data, further=True))))
    made = tables(found[found["worst"] < ABSURD])
    print(show(made))
    if asked.write:
        write_result("whole_studies", made, "python -m studies whole_studies --data ../shared/data --write")


if __name__ == "__main__":
    main()
