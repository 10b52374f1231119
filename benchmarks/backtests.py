"""Back-tests on real runs: fit the lower levels, forecast the higher ones; free, tied and automatic restraint beside.

    python -m benchmarks.backtests [--only gadre] [--data FOLDER]

The hold-outs are used for nothing but the last two columns of each restraint. Public tables are read from the data
folder and left out, with a line that says so, where they are absent; the pilot runs come with the package.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from benchmarks.harness import Array, Clock, chinchilla_points, data_file, progress, seconds, table
from cptlaw.learned import leaving_out

INTERVAL = 0.9
RESTRAINTS: dict[str, dict[str, Any]] = {
    "free": {},
    "tied": {"tie": ["alpha,beta"]},
    "auto": {"restraint": "auto"},
}
STUDY = {"pilot": "en-fr-pilot"}
COLUMNS = ["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp"]


@dataclass(frozen=True)
class Case:
    """One back-test: the rows to fit and the rows to forecast."""

    group: str
    name: str
    law: str
    on: str
    fit: pd.DataFrame
    test: pd.DataFrame


@dataclass(frozen=True)
class Outcome:
    """How one restraint did: mean relative error, which points its intervals held, their half-width, CPU of the fit."""

    error: float
    held: Array
    half_width: float
    cpu: float
    chosen: str


def cases(folder: str | None, only: str = "") -> Iterator[Case]:
    """Yield the back-tests whose group contains `only`."""
    for group, build in (("gadre", _gadre), ("olmo", _olmo), ("chinchilla", _chinchilla), ("pilot", _pilot)):
        if only not in group:
            continue
        try:
            yield from build(folder)
        except SystemExit:  # the line that says what is missing is printed already; the others can still run
            continue


def _public(name: str, folder: str | None, domain: str | None = None) -> pd.DataFrame:
    frame = pd.read_csv(data_file(name, folder)).rename(columns={"run_id": "run"})
    frame = frame if domain is None else frame[frame["domain"] == domain]
    return frame.assign(eval="target").reset_index(drop=True)


def _case(group: str, name: str, frame: pd.DataFrame, fit: Any, test: Any, law: str = "chinchilla") -> Case:
    kept = frame[[column for column in COLUMNS if column in frame.columns]]
    return Case(group, name, law, str(kept["eval"].iloc[0]), kept[fit], kept[test])


def _gadre(folder: str | None) -> Iterator[Case]:
    frame = _public("gadre_overtraining_c4.csv", folder, "c4_val")
    each, size = frame["tokens_per_param"], frame["n_params"]
    yield _case("gadre", "<= 40 -> >= 300 tokens/parameter", frame, each <= 41, each >= 300)
    yield _case("gadre", "N < 200M -> N > 1B", frame, size < 200e6, size > 1e9)


def _olmo(folder: str | None) -> Iterator[Case]:
    path = data_file("olmo_ladder.csv", folder)
    for domain in sorted(pd.read_csv(path)["domain"].unique()):
        frame = _public("olmo_ladder.csv", folder, domain)
        largest = frame["n_params"] == frame["n_params"].max()
        yield _case("olmo", f"{domain}, up to 1.3B -> 3B", frame, ~largest, largest)


def _chinchilla(folder: str | None) -> Iterator[Case]:
    frame = chinchilla_points(folder).assign(eval="target")
    yield _case("chinchilla", "< 1e21 -> above, FLOP", frame, frame["flops"] < 1e21, frame["flops"] >= 1e21)


def _pilot(folder: str | None) -> Iterator[Case]:
    rows = cl.examples.load("en-fr-pilot").frame
    # The published laws can only fall, while the first points after the change of rate rise.
    rows = rows[rows["tokens"] >= 1.9 * rows["n_params"]]
    for law in ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor"):
        for on in ("source", "target"):
            frame = rows[rows["eval"] == on].reset_index(drop=True)
            budget = frame["ptpp"]
            yield _case("pilot", f"{law}, {on}, ptpp <= 124 -> 279", frame, budget <= 124, budget > 124, law)


def run(case: Case, restraint: dict[str, Any]) -> Outcome:
    """Fit, forecast, and only then look at the hold-out."""
    runs, clock = cl.read_runs(case.fit), Clock()
    with leaving_out(STUDY.get(case.group, case.group)):  # nothing learned from this study may speak of it
        with clock.running():
            fit = cl.fit(case.law, runs, on=case.on, **restraint)
        found = fit.forecast(case.test.drop(columns="loss"), INTERVAL)
    observed = case.test["loss"].to_numpy(dtype=float)
    loss, low, high = (found[name].to_numpy(dtype=float) for name in ("loss", "lo", "hi"))
    held = ~((observed < low) | (observed > high))  # an end that is missing holds whatever happens
    rollout = fit.options.rollout
    return Outcome(
        float(np.mean(np.abs(loss / observed - 1))),
        held.astype(float),
        float(np.nanmean(np.log(high / low)) / 2),
        clock.cpu,
        rollout["chosen"] if rollout else "",
    )


def main() -> None:
    """Run the back-tests and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="gadre, olmo, chinchilla or pilot")
    parser.add_argument("--data", help="folder of the public tables")
    options = parser.parse_args()
    rows, held = [], []
    for case in cases(options.data, options.only):
        progress(f"{case.group}: {case.name}")
        found = {name: run(case, restraint) for name, restraint in RESTRAINTS.items()}
        best = min(found["free"].error, found["tied"].error)
        held.append({"data": case.group} | {name: one.held for name, one in found.items()})
        rows.append(
            (
                f"{case.group}: {case.name}",
                f"{len(case.fit)}, {len(case.test)}",
                *(f"{found[name].error:.2%}" for name in RESTRAINTS),
                "yes" if round(found["auto"].error, 4) <= round(best, 4) else "**no**",
                *(f"{found[name].held.mean():.0%}" for name in RESTRAINTS),
                f"{found['auto'].half_width:.1%}",
                seconds(found["auto"].cpu),
                found["auto"].chosen,
            )
        )
    if not rows:
        return
    headers = ("back-test", "fitted, held out", *RESTRAINTS, "auto at or below the better", "free holds", "tied holds")
    print("\n" + table((*headers, "auto holds", "half-width", "CPU of auto", "chosen"), rows) + "\n")
    groups = list(dict.fromkeys(item["data"] for item in held))
    counted = {group: [item for item in held if item["data"] == group] for group in groups}
    shares = {
        group: [float(np.concatenate([item[name] for item in items]).mean()) for name in RESTRAINTS]
        for group, items in counted.items()
    }
    summary = [(group, *(f"{share:.0%}" for share in shares[group])) for group in groups]
    pooled = [float(np.concatenate([item[name] for item in held]).mean()) for name in RESTRAINTS]
    summary.append(("all points", *(f"{share:.0%}" for share in pooled)))
    even = np.mean([shares[group] for group in groups], axis=0)
    summary.append(("every source counts the same", *(f"{share:.0%}" for share in even)))
    print(f"Points within their {INTERVAL:.0%} interval:\n")
    print(table(("source", *RESTRAINTS), summary))


if __name__ == "__main__":
    main()
