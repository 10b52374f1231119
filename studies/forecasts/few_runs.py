"""Forecasts from one to six runs: other sizes and budgets than were run, by what laws and studies of others say.

    python -m studies few_runs --data ../shared/data            # the tables; minutes of CPU
    python -m studies few_runs --data ../shared/data --write    # and into studies/bench.md

Of each table of `cpt_forecasts` runs of one base model are drawn, or runs of any, with all base models measured or only
their own; the losses of runs from other base models are asked, and forgetting. What studies say is learned without
every table of the same two corpora. What is chosen on these forecasts is scored on each table as the others choose it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.fitting import study_prior
from cptlaw.fitting.base_models import KEYS
from cptlaw.fitting.learned import forgetting_and_gain, leaving_out
from cptlaw.planning.limits import AboveBase
from cptlaw.planning.loss import Loss
from cptlaw.planning.reference import find_reference
from cptlaw.runs import Runs
from studies.forecasts import cpt_forecasts
from studies.harness import progress, show, write_result
from studies.learning import learn_studies

ROLES = ("target", "source")
ASKED = 6  # points of each draw
COVERAGES = (0.8, 0.9)
KINDS = ("one base model", "any")  # whose runs are drawn
SAME_CORPORA = (("en-fr-pilot", "en-fr-ladder", "docs-to-french"), ("docs-to-code", "docs-to-python"))
MORE = ("replay", "lr_peak", "lr_pretrain")  # inputs of a point beside its base model and tokens
FADES = (4.0, 10.0, 20.0, 40.0, np.inf)
LEAST = (1.0, 3.0, 5.0, 8.0)
MOST = (8.0, 10.0, 15.0, 30.0)
BETWEEN = (10, 28)  # runs of a third of the base models
BY = ["table", "bases", "what"]


@dataclass(frozen=True, eq=False)
class Draw:
    """Few runs of a table, fitted, and what is asked of them.

    Parameters
    ----------
    table, kind, bases, n_runs
        Of which table, by which of `KINDS`, with which base models measured, and how many.
    fits
        By role.
    asked
        Rows with the inputs, the measured losses by role, and the base models' as ``base_source``.
    """

    table: str
    kind: str
    bases: str
    n_runs: int
    fits: Mapping[str, Any]
    asked: pd.DataFrame

    def forecasts(self) -> pd.DataFrame:
        """Return what is forecast and what was measured, in logs of losses: a row for each point and quantity."""
        rows = []
        points = self.asked.drop(columns=[*ROLES, "base_source"])
        fits = {role: replace(fit, _cache={}) for role, fit in self.fits.items()}
        for role, fit in fits.items():
            ends = {coverage: fit.forecast(points, coverage) for coverage in COVERAGES}
            middle = np.log(ends[COVERAGES[0]]["loss"].to_numpy(dtype=float))
            for i, measured in enumerate(np.log(self.asked[role].to_numpy(dtype=float))):
                pairs = [np.log(ends[c][["lo", "hi"]].iloc[i].to_numpy(dtype=float)) for c in COVERAGES]
                rows.append((role, measured, middle[i], *np.concatenate(pairs)))
        for _, point in self.asked.iterrows():
            found = forgetting_of(fits["source"], point)
            rows.append(("forgetting", point["source"] / point["base_source"] - 1.0, *found))
        names = ["what", "measured", "forecast", *(f"{end}_{c:g}" for c in COVERAGES for end in ("lo", "hi"))]
        draw = {"table": self.table, "kind": self.kind, "bases": self.bases, "runs": self.n_runs}
        return pd.DataFrame(rows, columns=names).assign(**draw)


def forgetting_of(fit: Any, point: pd.Series[Any]) -> list[float]:
    """Return the forgetting that is forecast at a point, and the ends of its intervals, as a plan has them."""
    known = {name: float(point[name]) for name in (*KEYS, *MORE[1:]) if name in point.index}
    source = Loss.build(fit, "source", {name: value for name, value in known.items() if np.isfinite(value)})
    reference = find_reference(source, "measured")
    above = AboveBase(reference, "relative", source if reference.of_the_laws else None)
    at = {"replay": float(point.get("replay", 0.0)), "tokens": float(point["tokens"])}
    found: list[Any] = []
    for coverage in COVERAGES:
        ends = {end: value[0] for end, value in source.forecast(at, coverage).losses.items()}
        values = above.ends(at, ends, coverage)
        found += [values["_lo"], values["_hi"]] if found else [values[""], values["_lo"], values["_hi"]]
    return [np.nan if value is None else value for value in found]


def draws(name: str, runs: Runs, count: int, least: int = 1, most: int = 6) -> Iterator[Draw]:
    """Yield so many draws of a table, of `least` to `most` runs, with all base models and their own.

    Of both kinds; of more than one run at least, those of a third of the base models.
    """
    rng = np.random.default_rng(sum(map(ord, name)))
    frame = runs.frame.assign(eval=runs.frame["eval"].astype(str))
    names = {role: next(one for one in runs.evals if runs.role(one) == role) for role in ROLES}
    ends = last_rows(frame, names)
    for i in range(count):
        kind, every = KINDS[i % 2], i // 2 % 2
        of = ends
        if least > 1:
            models = ends[list(KEYS)].drop_duplicates()
            chosen = models.sample(max(2, len(models) // 3), random_state=int(rng.integers(1 << 30)))
            kind, of = KINDS[1], ends[from_bases_of(ends, chosen)]
        elif kind == KINDS[0]:
            size, budget = ends[list(KEYS)].iloc[int(rng.integers(len(ends)))]
            of = ends[(ends["n_params"] == size) & (ends["ptpp"] == budget)]
        chosen = of.sample(min(int(rng.integers(least, most + 1)), len(of)), random_state=int(rng.integers(1 << 30)))
        base = frame["tokens"] == 0
        if not every:
            base &= from_bases_of(frame, chosen)
        few = replace(runs, frame=runs.frame[(frame["run"].astype(str).isin(chosen["run"]) | base).to_numpy()])
        far = ends[~from_bases_of(ends, chosen)]
        asked = far.sample(min(ASKED, len(far)), random_state=int(rng.integers(1 << 30))).drop(columns="run")
        try:
            fits = {role: cl.fit(few, on=names[role]) for role in ROLES}
        except CptlawError as error:
            print(f"{name}, {len(chosen)} runs: not fitted, {error}")
            continue
        yield Draw(name, kind, "all" if every else "own", len(chosen), fits, asked)


def from_bases_of(rows: pd.DataFrame, runs: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows start from the base models of some runs, or are these."""
    at, models = (pd.MultiIndex.from_frame(one[list(KEYS)]) for one in (rows, runs))
    return np.asarray(at.isin(models))


def last_rows(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the last points of all runs with both losses, and the source loss of their base models, where measured."""
    keys = [name for name in ("run", *KEYS, "tokens", *MORE) if name in frame.columns]
    trained = frame[frame["tokens"] > 0]
    last = trained[trained["tokens"] == trained.groupby("run", observed=True)["tokens"].transform("max")]
    sides = [last[last["eval"] == one].set_index("run")["loss"].rename(role) for role, one in names.items()]
    rows = last[keys].drop_duplicates("run").assign(run=lambda rows: rows["run"].astype(str))
    for side in sides:
        rows[side.name] = rows["run"].map(side.groupby(level=0, observed=True).mean().rename(index=str))
    base = frame[(frame["tokens"] == 0) & (frame["eval"] == names["source"])].groupby(list(KEYS))["loss"].mean()
    rows["base_source"] = pd.MultiIndex.from_frame(rows[list(KEYS)]).map(base.to_dict())
    return rows.dropna(subset=[*ROLES, "base_source"]).reset_index(drop=True)


def without(name: str, rows: pd.DataFrame | None) -> Callable[[Any], Any]:
    """Return what studies say of an outcome without those of a table's corpora; as shipped where no rows are there."""
    if rows is None:
        return forgetting_and_gain.learned
    group = next((one for one in SAME_CORPORA if name in one), (name,))
    both = dict(zip(("forgetting", "gain"), learn_studies.without(rows[~rows["study"].isin(group)], None), strict=True))
    return both.__getitem__


@dataclass(frozen=True)
class Judge:
    """Draws of all tables, whose fits are asked again under other numbers.

    Parameters
    ----------
    all_draws
        By table.
    says
        What studies of others say, by table.
    """

    all_draws: Mapping[str, Sequence[Draw]]
    says: Mapping[str, Callable[[Any], Any]]

    @classmethod
    def of(
        cls,
        count: int,
        data: Path | None,
        names: Sequence[str] = tuple(cpt_forecasts.TABLES),
        between: tuple[int, int] = (1, 6),
    ) -> Judge:
        """Draw and fit, each table with what was learned from others, of so many runs."""
        rows = None if data is None else learn_studies.everything(data)
        all_draws, says = {}, {}
        for name in names:
            progress(name)
            says[name] = without(name, rows)
            with leaving_out(cpt_forecasts.TABLES[name]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                all_draws[name] = list(draws(name, cpt_forecasts.load(name), count, *between))
        return cls(all_draws, says)

    def forecasts(self, *changed: tuple[Any, str, Any]) -> pd.DataFrame:
        """Return the forecasts of all draws, with some numbers of modules changed: (module, name, value) each."""
        parts = []
        for name, some in self.all_draws.items():
            with ExitStack() as stack:
                stack.enter_context(leaving_out(cpt_forecasts.TABLES[name]))
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                stack.enter_context(mock.patch.object(forgetting_and_gain, "learned", self.says[name]))
                for one in changed:
                    stack.enter_context(mock.patch.object(*one))
                parts += [draw.forecasts() for draw in some]
        return scored(pd.concat(parts, ignore_index=True))


def scored(rows: pd.DataFrame) -> pd.DataFrame:
    """Return forecasts with their error, the interval score at 80 %, and whether intervals hold; in per cent."""
    rows = rows.assign(error=100 * (rows["forecast"] - rows["measured"]).abs())
    for coverage in COVERAGES:
        low, high = (rows[f"{end}_{coverage:g}"] for end in ("lo", "hi"))
        rows[f"in_{coverage:g}"] = ~((rows["measured"] < low) | (rows["measured"] > high))
    # An end that is left open is scored as a factor of two, the farthest that is looked at.
    low, high = (rows[f"{end}_0.8"] for end in ("lo", "hi"))
    low, high = low.fillna(rows["forecast"] - np.log(2.0)), high.fillna(rows["forecast"] + np.log(2.0))
    beyond = np.maximum(low - rows["measured"], 0.0) + np.maximum(rows["measured"] - high, 0.0)
    return rows.assign(score=100 * (high - low + 10.0 * beyond))


def summary(rows: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return error, coverage and interval score by table, base models and quantity."""
    columns = {"in_0.8": "in 80 %", "in_0.9": "in 90 %"}
    means = rows.groupby(list(by), sort=False)[["error", "in_0.8", "in_0.9", "score"]].mean()
    return means.assign(points=rows.groupby(list(by), sort=False).size()).rename(columns=columns).reset_index()


def left_out(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Score candidates on each table, and what the other tables would choose for it.

    Parameters
    ----------
    found
        Forecasts by candidate. Judged by the mean over quantities and base models of the log of the interval score.
    """
    by_table = pd.DataFrame(
        {
            name: np.log(rows.groupby(BY)["score"].mean()).groupby("table", sort=False).mean()
            for name, rows in found.items()
        }
    )
    lines = []
    for table in by_table.index:
        others = by_table.drop(index=table).mean()
        best = str(others.idxmin())
        values = {name: f"{np.exp(by_table.loc[table, name]):.1f}" for name in found}
        lines.append(
            {"table": table, **values, "others choose": best, "its score": f"{np.exp(by_table.loc[table, best]):.1f}"}
        )
    mean = {name: f"{np.exp(by_table[name].mean()):.1f}" for name in found}
    inside = {name: f"{rows['in_0.8'].mean():.2f}" for name, rows in found.items()}
    chosen = np.exp(np.mean([by_table.loc[line["table"], line["others choose"]] for line in lines]))
    lines.append({"table": "all", **mean, "others choose": str(by_table.mean().idxmin()), "its score": f"{chosen:.1f}"})
    lines.append({"table": "inside 80 %", **inside, "others choose": "", "its score": ""})
    return pd.DataFrame(lines)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a summary as pages show it."""
    formats = {"error": "{:.2f}", "in 80 %": "{:.2f}", "in 90 %": "{:.2f}", "score": "{:.1f}", "points": "{:d}"}
    return table.assign(**{name: table[name].map(how.format) for name, how in formats.items()})


def tables(judge: Judge, of_more: Judge) -> dict[str, pd.DataFrame]:
    """Return what the page shows, by draws of few runs and of more."""
    now, of_more_now = judge.forecasts(), of_more.forecasts()

    def candidates(
        module: Any, name: str, values: Sequence[float], by: Judge = judge, now: pd.DataFrame = now
    ) -> pd.DataFrame:
        chosen = getattr(module, name)
        return left_out({f"{one:g}": now if one == chosen else by.forecasts((module, name, one)) for one in values})

    return {
        "forecasts": shown(summary(now)),
        "tables": shown(summary(now, ["table"])),
        "runs": shown(summary(now, ["runs"])),
        "fades": candidates(forgetting_and_gain, "SIMILARITY_EFOLDS", FADES),
        "least": candidates(study_prior, "LEAST", LEAST),
        "more": shown(summary(of_more_now, ["table"])),
        "most": candidates(study_prior, "MOST", MOST, of_more, of_more_now),
    }


def probe() -> list[pd.DataFrame]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    draw = next(draws("docs-to-code", cpt_forecasts.load("docs-to-code"), 1))
    points = draw.asked.drop(columns=[*ROLES, "base_source"])
    return [fit.forecast(points, COVERAGES[0]) for fit in draw.fits.values()]


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of public tables, from which studies are learned anew")
    parser.add_argument("--draws", type=int, default=4, help="of each table")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    of_more = Judge.of(2 * asked.draws, asked.data, between=BETWEEN)
    made = tables(Judge.of(asked.draws, asked.data), of_more)
    print(show(made))
    if asked.write:
        write_result("few_runs", made, "python -m studies few_runs --data ../shared/data --write")


if __name__ == "__main__":
    main()
