"""What each law is worth that law auto averages, of models from scratch: rolled through studies with it and without it.

    python -m studies candidates_worth --data ../shared/data            # print the table
    python -m studies candidates_worth --data ../shared/data --write    # and write it into studies/bench.md

Every cut is fitted once with a wide pool: the laws that law auto takes and those that it once took. Averages of any of
them then follow from the same rollouts, each under what the other studies say. Errors are means over rows, geometric
means over cuts and then over studies. Takes four minutes of CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.fitting.auto import candidates
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.candidates import Candidate
from cptlaw.fitting.auto.rows import Chosen
from cptlaw.fitting.checking.distance import outside
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.rollouts import directions
from cptlaw.fitting.shared_error import SharedError
from cptlaw.fitting.weights import RolloutScores, left_by_rollouts
from cptlaw.laws import law
from cptlaw.laws.base import Role
from studies.harness import Array, progress, show, skip, write_result
from studies.learning.learn_averages import cuts, forecast_of, thinned, without
from studies.series import Series, all_series

EVERY = {"olmo": 4, "dmsl": 6, "mixlaws-scratch": 9, "delphi": 4, "gadre": 3}  # one series in so many
TIED = (("alpha", "beta"),)
# What was in the pool, with what it counts before rollouts.
MORE = (
    *(Candidate(law("chinchilla", bend=bend), TIED, share, TIED[0], tight_priors=True) for bend, share in ((3, 0.25),)),
    *(Candidate(law("chinchilla", bend=bend), (), 0.3, TIED[0], tight_priors=True) for bend in (1, 1.5, 2)),
    Candidate(law("kaplan"), (), 0.05, tight_priors=True),
    Candidate(law("over-training"), tight_priors=True),
)
LEAST = 1e-4  # error below which a forecast is as good as it gets


@contextmanager
def wide_pool(taken: list[str]) -> Iterator[None]:
    """Let law auto fit the laws of a wide pool; `taken` then holds which of them it would take."""
    usual = candidates.candidates

    def wide(rows: Chosen, role: Role, has_schedules: bool) -> Iterator[Candidate]:
        own = list(usual(rows, role, has_schedules))
        taken[:] = [name_of(one.law.name, one.law.options(), one.tied) for one in own]
        yield from own
        yield from (one for one in MORE if name_of(one.law.name, one.law.options(), one.tied) not in taken)

    fitting = import_module("cptlaw.fitting.auto.fit_auto")
    setattr(fitting, "candidates", wide)  # noqa: B010 - a module that is imported by name has no such attribute to mypy
    FITS.clear()
    try:
        yield
    finally:
        setattr(fitting, "candidates", usual)  # noqa: B010
        FITS.clear()


def name_of(name: str, options: dict[str, object], tied: object) -> str:
    """Return what a candidate is called: its law with the options that its rows did not choose, and whether tied."""
    kept = [f"{key}={options[key]}" for key in ("bend", "transfer", "mix") if key in options]
    return ":".join([name, *kept]) + (", tied" if tied else "")


@dataclass(frozen=True)
class Cut:
    """One cut with what every law of the wide pool makes of it."""

    fit: Average
    upper: pd.DataFrame
    names: list[str]

    def error(self, names: set[str]) -> tuple[float, dict[str, float]]:
        """Return the mean absolute log error of the average of some laws, and their mean weights by name."""
        kept = [i for i, name in enumerate(self.names) if name in names]
        scores = self.fit.scores
        share = scores.share[kept] / left_by_rollouts(scores.error)[kept] * left_by_rollouts(scores.error[kept])
        some = RolloutScores(share, scores.error[kept], scores.reach)
        members = [self.fit.members[i].fit for i in kept]
        data = self.fit.data
        along = directions(data)
        weight = some.weights(outside(data, self.upper, along))
        inside = some.weights(np.zeros((len(data), len(along))))
        residual = self._average(members, data, inside) - np.log(data["loss"].to_numpy(dtype=float))
        found = self._average(members, self.upper, weight) - SharedError.of(data, residual).at(self.upper)
        missed = np.abs(found - np.log(self.upper["loss"].to_numpy(dtype=float)))
        of_name = zip((self.names[i] for i in kept), weight.mean(axis=0).tolist(), strict=True)
        return max(float(missed.mean()), LEAST), dict(of_name)

    def _average(self, members: list[LawFit], frame: pd.DataFrame, weight: Array) -> Array:
        logs = np.column_stack([np.log(one.predict(frame)) for one in members])
        found: Array = np.sum(weight * logs, axis=1)
        return found


def worth(series: Series) -> Iterator[dict[str, object]]:
    """Yield, of each cut and each law of the wide pool, the error with it beside that without it."""
    taken: list[str] = []
    for fold in cuts(series):
        with wide_pool(taken), np.errstate(all="ignore"):
            made = forecast_of(series, fold)
            if made is None:
                continue
            fit, upper = made
            names = [
                name_of(one.fit.law.name, one.fit.law.options(), one.fit.options.restraint.tied) for one in fit.members
            ]
            cut = Cut(fit, upper, names)
            with without(series.study):
                pool = set(taken) & set(names)
                try:
                    error, weights = cut.error(pool)
                    for name in names:
                        other, more = cut.error(pool - {name} if name in pool else pool | {name})
                        beside = error / other if name in pool else other / error
                        weight = weights[name] if name in pool else more[name]
                        yield {
                            "study": series.study,
                            "law": name,
                            "taken": name in pool,
                            "weight": weight,
                            "beside": beside,
                        }
                except (CptlawError, ZeroDivisionError):
                    continue


def by_law(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line per law."""
    lines = []
    for name, part in rows.groupby("law", sort=False):
        by_study = np.log(part["beside"].astype(float)).groupby(part["study"]).mean()
        lines.append(
            [
                str(name),
                f"{part['taken'].mean():.0%}",
                str(len(part)),
                f"{part['weight'].mean():.2f}",
                f"{np.exp(by_study.mean()):.3f}",
                f"{np.exp(by_study.min()):.2f} to {np.exp(by_study.max()):.2f}",
            ]
        )
    header = ["law", "taken in", "cuts", "weight", "error with it / without", "by study"]
    return pd.DataFrame(sorted(lines, key=lambda one: (-float(one[1][:-1]), float(one[4]))), columns=header)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    series = next((one for one in all_series(None) if one.kind == "static"), None) or skip("no public table is there")
    fit, upper = forecast_of(series, cuts(series)[0]) or skip("the first cut allows no fit")
    return [fit.predict(upper), [member.weight for member in fit.members]]


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--only", default="", help="studies, separated by commas")
    parser.add_argument("--write", action="store_true", help="write the table to studies/results")
    asked = parser.parse_args()
    only = asked.only.split(",") if asked.only else None
    found = []
    for series in thinned(all_series(asked.data), EVERY):
        if series.kind == "static" and (only is None or series.study in only):
            progress(f"{series.study}, {series.name}")
            found += list(worth(series))
    tables = {"laws": by_law(pd.DataFrame(found))}
    print(show(tables))
    if asked.write:
        write_result("candidates_worth", tables, "python -m studies candidates_worth --data ../shared/data --write")


if __name__ == "__main__":
    main()
