"""Forecasts of one model of both losses beside those of law auto, on the cuts of `cpt_forecasts`.

python -m studies one_model              # every third cut; two minutes of CPU, most of it law auto's
python -m studies one_model --every 1    # all of them
python -m studies one_model --alone      # without law auto
python -m studies one_model --write      # and into studies/bench.md
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import cptlaw as cl
from cptlaw.fitting.auto.candidates import all_priors, middle_of_cpt
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.runs import Runs
from studies.forecasts import cpt_forecasts
from studies.harness import Array, show, write_result
from studies.one_model.law_mean import LawMean
from studies.one_model.posterior import Posterior

ROLES = ("source", "target")


def fitted(runs: Runs, where: str) -> Posterior:
    """Return the posterior of both losses, with the law that stands in the middle of those for CPT."""
    means, frames = [], []
    for role in ROLES:
        chosen = middle_of_cpt(runs.on(role).where(where).frame).law.with_options(mix="rehearsal")
        training = training_rows(chosen, runs, role, where)
        priors = all_priors(training.law, role, training.frame)
        means.append(LawMean(training, Restraint(priors=priors)))
        frames.append(training.frame)
    return Posterior(means, frames)


def scored(runs: Runs, cut: cpt_forecasts.Cut, alone: bool) -> Iterator[dict[str, Any]]:
    """Yield errors and interval scores of both models, a row for each loss."""
    begun = time.process_time()
    model = fitted(runs, cut.fit)
    cpu = time.process_time() - begun
    for output, role in enumerate(ROLES):
        test = runs.on(role).where(f"({cut.test}) and tokens > 0").frame
        loss = np.log(test["loss"].to_numpy(dtype=float))
        mean, covariance = model.posterior(test.drop(columns="run"), np.full(len(test), output))
        half = special.stdtrit(model.freedom, 0.95) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        yield {"model": "one", "loss": role, "cpu": cpu / 2} | _scores(mean, mean - half, mean + half, loss)
        if alone:
            continue
        FITS.clear()
        begun = time.process_time()
        fit = cl.fit(runs, on=role, where=cut.fit)
        low, middle, high = fit.log_quantiles(test, [0.05, 0.5, 0.95])
        yield {"model": "auto", "loss": role, "cpu": time.process_time() - begun} | _scores(middle, low, high, loss)


def _scores(mean: Array, low: Array, high: Array, loss: Array) -> dict[str, float]:
    beyond = np.maximum(low - loss, 0.0) + np.maximum(loss - high, 0.0)
    return {
        "error": 100 * float(np.abs(mean - loss).mean()),
        "inside": float(((low <= loss) & (loss <= high)).mean()),
        "score": 100 * float((high - low + 20.0 * beyond).mean()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=3, help="one cut in so many of each table")
    parser.add_argument("--alone", action="store_true", help="without law auto")
    parser.add_argument("--write", action="store_true", help="write the table to studies/results")
    asked = parser.parse_args()
    rows = []
    for name in cpt_forecasts.TABLES:
        runs = cpt_forecasts.load(name)
        for cut in list(cpt_forecasts.cuts(runs))[:: asked.every]:
            with cpt_forecasts.without(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows += [{"kind": cut.kind, **row} for row in scored(runs, cut, asked.alone)]
    found = pd.DataFrame(rows).groupby(["loss", "model"])
    means = found[["error", "inside", "score"]].mean().round(2).assign(cpu=found["cpu"].sum().round(0))
    made = {"models": means.reset_index().astype(str)}
    print(show(made))
    if asked.write:
        write_result("one_model", made, "python -m studies one_model --write")


if __name__ == "__main__":
    main()
