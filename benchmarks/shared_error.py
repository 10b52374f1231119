"""What carrying the misses of base models over is worth: law auto rolled through studies, with and without.

    python -m benchmarks.shared_error --data ../shared/data

Of each study some series and one cut along each direction, as `benchmarks.learn_averages` takes them, each under what
the other studies say. Errors are means over rows, geometric means over cuts. Takes four minutes of CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pandas as pd

import cptlaw as cl
from benchmarks.learn_averages import EVERY, MOST_TESTED, cuts_of
from benchmarks.studies import Series, all_series
from cptlaw.auto.shared_error import SharedError
from cptlaw.errors import CptlawError
from cptlaw.learned import leaving_out, studies

LEAST = 1e-4  # error below which a forecast is as good as it gets


def errors(series: Series) -> Iterator[tuple[str, float, float]]:
    """Yield direction and mean absolute log error without and with what is carried, of each cut of a series."""
    frame = series.frame
    for fold in cuts_of(series):
        upper = frame[fold.test]
        few = np.unique(np.linspace(0, len(upper) - 1, min(MOST_TESTED, len(upper))).round().astype(int))
        upper = upper.iloc[few].reset_index(drop=True)
        try:
            with leaving_out(series.study) if series.study in studies() else nullcontext():
                fit = cl.fit("auto", frame[fold.fit].reset_index(drop=True), on=str(frame["eval"].iloc[0]))
                missed = np.log(fit.predict(upper)) - np.log(upper["loss"].to_numpy(dtype=float))
                carried = SharedError.of(fit.data, fit.residuals()).at(upper)
        except (CptlawError, np.linalg.LinAlgError):
            continue
        yield fold.direction, float(np.mean(np.abs(missed + carried))), float(np.mean(np.abs(missed)))


def main() -> None:
    """Print the errors by study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--only", default="", help="studies, separated by commas")
    asked = parser.parse_args()
    rows, seen = [], dict[str, int]()
    for series in all_series(asked.data, asked.only):
        seen[series.study] = seen.get(series.study, 0) + 1
        if (seen[series.study] - 1) % EVERY.get(series.study, 1) == 0:
            rows += [(series.study, *one) for one in errors(series)]
    found = pd.DataFrame(rows, columns=["study", "direction", "without", "with"])
    logs = np.log(np.maximum(found[["without", "with"]], LEAST)).assign(study=found["study"])
    mean = np.exp(logs.groupby("study", sort=False).mean())
    print("study             cuts   without   with   ratio")
    for study, row in mean.iterrows():
        count = int((found["study"] == study).sum())
        print(f"{study:16} {count:5} {row['without']:8.2%} {row['with']:7.2%} {row['with'] / row['without']:6.3f}")
    print(f"{'all':39} {np.exp(np.mean(np.log(mean['with'] / mean['without']))):6.3f}")


if __name__ == "__main__":
    main()
