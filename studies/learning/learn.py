"""Learn from other studies what forecasts need, and write it to cptlaw/fitting/learned/learned.json.

    python -m studies learn [--data FOLDER] [--only priors|discrepancy|averages] [-o FILE]

Priors of parameters and how fast laws err with the distance from their data, each also without any one study, and a
table of how often intervals learned without a study hold that study's points, of single laws and of law auto. The same
files give the same numbers. About half an hour of one core.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cptlaw.fitting import learned
from cptlaw.fitting.checking.distance import REPLAY_OFFSET
from cptlaw.fitting.uncertainty.discrepancy import Scale
from studies.harness import ROOT, progress, table
from studies.learning import learn_averages
from studies.learning.learn_curves import curves
from studies.learning.learn_discrepancy import (
    SPREAD,
    START,
    STEPS,
    STEPS_WITHOUT,
    Points,
    half_widths,
    learn,
    rounded,
    scale_of,
)
from studies.learning.learn_priors import PUBLISHED, SOURCES, parameters, statistics
from studies.learning.learn_rollouts import Roll, rolls
from studies.series import STUDIES, Series, all_series

TARGET = ROOT / "cptlaw" / "fitting" / "learned" / "learned.json"
BLIND = ("n_params", "tokens", "ptpp", "replay", "lr_peak")
Row = tuple[str, ...]
PARTS = ("priors", "discrepancy", "averages")
HEADERS = ("study", "rollouts", "points", "50% holds", "90% holds", "half-width of 90%", "error", "residuals")


def discrepancy(
    every: list[Roll], belief: tuple[Any, Any] = (START, SPREAD), steps: int = STEPS
) -> tuple[dict[str, Any], list[Row]]:
    """Return the learned numbers with and without each study, and a row of the table for each study left out."""
    best = learn(Points(every), belief[0], steps, belief)
    found: dict[str, Any] = {"all": rounded(scale_of(best)), "without": {}}
    rows = []
    for study in sorted({roll.study for roll in every}):
        progress(f"learning without {study}")
        others = [roll for roll in every if roll.study != study]
        scale = scale_of(learn(Points(others), best, STEPS_WITHOUT, belief))
        found["without"][study] = rounded(scale)
        points = Points([roll for roll in every if roll.study == study])
        weight = points.weight / points.weight.sum()
        half = {coverage: half_widths(points, scale, coverage) for coverage in (0.5, 0.9)}
        held = [float(weight @ (np.abs(points.error) <= half[coverage])) for coverage in (0.5, 0.9)]
        error = float(np.sqrt(weight @ points.error**2))
        width, spread = float(np.median(half[0.9])), float(np.median(points.spread))
        counts = str(len(points.rolls)), str(len(points.error))
        rows.append(
            (study, *counts, *(f"{share:.0%}" for share in held), *(f"{100 * x:.2g} %" for x in (width, error, spread)))
        )
    return found, rows


def blind(several: Iterable[Series]) -> dict[str, dict[str, float]]:
    """Return by how much the log loss moves per e-fold of an input, by input and study: plain regressions."""
    found: dict[str, dict[str, list[float]]] = {}
    for series in several:
        frame = series.frame[series.frame["tokens"] > 0]
        names = [
            name for name in BLIND if name in frame.columns and frame[name].notna().all() and frame[name].nunique() > 1
        ]
        columns = [np.log(frame[name] + (REPLAY_OFFSET if name == "replay" else 0.0)) for name in names]
        slopes = np.linalg.lstsq(np.column_stack([*columns, np.ones(len(frame))]), np.log(frame["loss"]), rcond=None)[0]
        for name, slope in zip(names, slopes, strict=False):
            found.setdefault(name, {}).setdefault(series.study, []).append(float(slope))
    return {
        name: {study: round(float(np.sqrt(np.mean(np.square(slopes)))), 4) for study, slopes in studies.items()}
        for name, studies in found.items()
    }


def main() -> None:
    """Learn, write the file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--only", choices=PARTS, help="this part; averages are judged, and not written")
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    options = parser.parse_args()
    series = list(all_series(options.data))
    document: dict[str, Any] = json.loads(options.output.read_text()) if options.only else {}
    document["made_by"] = "python -m studies learn --data FOLDER"
    names = list(dict.fromkeys(one.study for one in series))
    document["studies"] = {
        name: {"file": STUDIES[name][0] or f"example {name}", "series": sum(one.study == name for one in series)}
        for name in names
    }
    document["published"] = {name: SOURCES[name] for name in PUBLISHED}
    if options.only in (None, "priors"):
        values: dict[str, list[dict[str, float]]] = {}
        for one in series:
            progress(f"priors: {one.study}, {one.name}")
            values.setdefault(one.study, []).extend(parameters(one))
        document["priors"] = statistics(values) | curves(options.data)
        document["blind"] = blind(series)
    if options.only in (None, "discrepancy"):
        every: list[Roll] = []
        for one in series:
            progress(f"rollouts: {one.study}, {one.name}")
            every += list(rolls(one))
        document["discrepancy"], rows = discrepancy(every)
        print(table(HEADERS, rows))
    if options.only != "averages":
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.only in (None, "averages"):
        learned.document.cache_clear()  # law auto takes what was just written
        of_one = Scale(**document["discrepancy"]["all"])
        of_averages: list[Roll] = []
        for roll in learn_averages.averages(series):
            progress(f"law auto: {roll.study}, {roll.series}, {roll.direction}")
            of_averages.append(roll)
        found, rows = discrepancy(of_averages, (learn_averages.start_of(of_one), learn_averages.SPREAD))
        print(table(HEADERS, rows))
        print(f"law auto errs by {found['all']['rate'] / of_one.rate:.2f} of what one law errs by per e-fold")


if __name__ == "__main__":
    main()
