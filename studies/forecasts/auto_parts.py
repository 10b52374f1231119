"""What parts of law auto are worth: rolled through studies with and without each.

    python -m studies auto_parts --data ../shared/data

The parts: what is missed of a base model, carried to its runs (`cptlaw.fitting.shared_error`), and priors that a ladder
from scratch does not outvote (`auto.candidates.tighten_priors`). Of each study some series and one cut along each
direction, as `learn_averages` takes them, each under what the other studies say. Errors are means over rows,
geometric means over cuts. Takes two minutes of CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd

from cptlaw.fitting.auto import candidates
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.rollouts import Rollout
from cptlaw.fitting.shared_error import SharedError
from studies.learning.learn_averages import EVERY, cuts, forecast_of, thinned, without
from studies.series import Series, all_series

PARTS = ("neither", "carried", "firm", "both")
LEAST = 1e-4  # error below which a forecast is as good as it gets


@contextmanager
def usual_priors() -> Iterator[None]:
    """Take what was learned as it is."""
    tighten_priors = candidates.tighten_priors
    candidates.tighten_priors = lambda priors, count: dict(priors)
    FITS.clear()
    try:
        yield
    finally:
        candidates.tighten_priors = tighten_priors
        FITS.clear()


def errors(series: Series) -> Iterator[list[float]]:
    """Yield the mean absolute log errors with the parts in the order of `PARTS`, of each cut of a series."""
    for fold in cuts(series):
        firm = usual = _scores_of_split(series, fold)
        if series.kind == "static":  # laws of CPT keep their priors
            with usual_priors():
                usual = _scores_of_split(series, fold)
        if usual is not None and firm is not None:
            yield [*usual, *firm]


def _scores_of_split(series: Series, fold: Rollout) -> tuple[float, float] | None:
    """Return the mean absolute log error of law auto without and with what is carried."""
    found = forecast_of(series, fold)
    if found is None:
        return None
    fit, upper = found
    with without(series.study):
        missed = np.log(fit.predict(upper)) - np.log(upper["loss"].to_numpy(dtype=float))
        alone = missed + SharedError.of(fit.data, fit.residuals()).at(upper)
    return float(np.mean(np.abs(alone))), float(np.mean(np.abs(missed)))


def main() -> None:
    """Print the errors by study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--only", default="", help="studies, separated by commas")
    asked = parser.parse_args()
    only = asked.only.split(",") if asked.only else None
    every = (one for one in thinned(all_series(asked.data), EVERY) if only is None or one.study in only)
    rows = [(series.study, *one) for series in every for one in errors(series)]
    found = pd.DataFrame(rows, columns=["study", *PARTS])
    logs = np.log(np.maximum(found[list(PARTS)], LEAST)).assign(study=found["study"])
    mean = np.exp(logs.groupby("study", sort=False).mean())
    print("study             cuts  neither  carried     firm     both    (the last three beside the first)")
    for study, row in mean.iterrows():
        beside = "".join(f"{row[part] / row['neither']:9.3f}" for part in PARTS[1:])
        print(f"{study:16} {int((found['study'] == study).sum()):5} {row['neither']:8.2%}{beside}")
    beside = mean[list(PARTS[1:])].div(mean["neither"], axis=0)
    print(f"{'all':31}{''.join(f'{value:9.3f}' for value in np.exp(np.log(beside).mean()))}")


if __name__ == "__main__":
    main()
