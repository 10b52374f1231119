"""What a source law's own loss without tokens misses a base model by, where no base model was measured.

    python -m studies guessed_bases --data ../shared/data            # the table; half a minute of CPU
    python -m studies guessed_bases --data ../shared/data --write    # and into studies/bench.md

Of each table the runs alone are fitted, without rows at tokens 0, and the law is asked for the base models that were
measured. What it misses them by is the doubt that a guessed reference of forgetting carries
(`cptlaw.fitting.study_prior`).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.base_models import KEYS, measured_bases
from cptlaw.fitting.learned import leaving_out
from cptlaw.fitting.study_prior import GUESS_SPREAD
from cptlaw.runs import Runs
from studies.forecasts import cpt_forecasts, rates_and_sizes
from studies.harness import progress, show, write_result


def tables(data: str | None) -> Iterator[tuple[str, str | None, Runs]]:
    """Yield name, study and runs of each table of CPT with measured base models."""
    for name, study in cpt_forecasts.TABLES.items():
        yield name, study, cpt_forecasts.load(name)
    file = rates_and_sizes.public_runs(data)
    for name in rates_and_sizes.CORPORA:
        frame = rates_and_sizes.load(file, *name.split(":")).reset_index(drop=True)
        yield name, "watts", cl.read_runs(frame)


def missed(runs: Runs) -> np.ndarray:
    """Return log(guessed) - log(measured) of the base models whose runs are fitted."""
    fit = cl.fit(runs.where("tokens > 0"), on="source")
    base = measured_bases(runs.base_losses("source"))
    base = base.merge(fit.data[list(KEYS)].drop_duplicates(), on=list(KEYS))
    others = {name: fit.data[name].median() for name in ("replay", "lr_peak", "lr_pretrain") if name in fit.data}
    guessed = fit.predict(base[list(KEYS)].assign(tokens=0.0, **others))
    return np.log(guessed / base["loss"].to_numpy(dtype=float))


def probe() -> np.ndarray:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return missed(cpt_forecasts.load("docs-to-manuals"))


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the table to studies/results")
    asked = parser.parse_args()
    lines, squares = [], []
    for name, study, runs in tables(asked.data):
        progress(name)
        with leaving_out(study), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = 100 * missed(runs)
        squares.append(float(np.mean(error**2)))
        lines.append([name, str(len(error)), f"{error.mean():+.1f}", f"{squares[-1] ** 0.5:.1f}"])
    middle = float(np.median(np.sqrt(squares)))
    lines.append(["median of the tables", "", "", f"{middle:.1f} ({100 * GUESS_SPREAD:.1f} is taken)"])
    made = {"tables": pd.DataFrame(lines, columns=["table", "base models", "mean", "root mean square"])}
    print(show(made))
    if asked.write:
        write_result("guessed_bases", made, "python -m studies guessed_bases --data ../shared/data --write")


if __name__ == "__main__":
    main()
