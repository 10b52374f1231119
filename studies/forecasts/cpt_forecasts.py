"""Forecasts inside this project's tables of continual pre-training: a budget, sizes and a mix beyond what is fitted.

    python -m studies cpt_forecasts                      # the table; a few minutes of CPU
    python -m studies cpt_forecasts --write              # and into studies/bench.md
    python -m studies cpt_forecasts --laws auto,shared-tokens,ptpp-nearest --tables code-to-prose
    python -m studies cpt_forecasts --members            # the laws that law auto averages, each on its own

On these forms of laws, rows and rules are chosen, so that the splits of the bench need not be looked at: of the two
pilots no row of budget 279 is read. Each table is forecast with what was learned from other studies
(`cptlaw.fitting.learned.leaving_out`).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.rows import choose_rows
from cptlaw.fitting.base_models import OF_TARGET, SHARE
from cptlaw.fitting.learned import leaving_out
from cptlaw.runs import Runs
from studies.harness import Clock, progress, seconds, show, write_result

# What was learned from a table's own runs does not count in it: the ladder grew out of the first pilot.
TABLES = {
    "en-fr-pilot": "en-fr-pilot",
    "docs-to-code": "docs-to-code",
    "code-to-prose": None,
    "docs-to-manuals": "docs-to-code",
    "en-fr-ladder": "en-fr-pilot",
}
JUDGED = ("en-fr-pilot", "docs-to-code")  # whose largest budget is for the bench
LARGEST = {"en-fr-ladder": 4e5}  # sizes above were sealed forecasts, and are no part of any choice
USUAL_BUDGETS = 500.0  # the one measured budget above is of one model
ROLES = ("target", "source")
MOST_POINTS = 12  # of a forecast whose intervals are computed
KINDS = {
    "two": "a budget ahead, from two",
    "two-far": "two budgets ahead and more, from two",
    "budget": "a budget ahead, from three",
    "size": "one size ahead",
    "sizes": "two sizes ahead",
    "size-based": "one size ahead, its base models known",
    "sizes-based": "two sizes ahead, their base models known",
    "mix": "replay 0.5 from up to 0.25",
}


@dataclass(frozen=True)
class Cut:
    """Rows to fit and rows to forecast, as filters; kind is one of `KINDS`."""

    kind: str
    fit: str
    test: str


def load(name: str) -> Runs:
    """Return a table as law auto reads it: one schedule, no warm-up, and nothing that is kept for judging."""
    runs = cl.examples.load(name)
    kept: set[Any] = set()
    for role in ROLES:
        kept |= set(choose_rows(runs, role, f"ptpp < {USUAL_BUDGETS:g}").frame.index)
    frame = runs.frame.loc[sorted(kept)]
    frame = frame[frame["n_params"] < LARGEST.get(name, np.inf)]
    if name in JUDGED:
        frame = frame[frame["ptpp"] < frame["ptpp"].max()]
    if "pretrain_decay" in frame.columns:  # base models that were not annealed are another question
        frame = frame[frame["pretrain_decay"] > 0]
    return replace(runs, frame=frame)


def cuts(runs: Runs) -> Iterator[Cut]:
    """Yield the cuts of one table."""
    adapted = runs.frame[runs.frame["tokens"] > 0]
    budgets, sizes = (np.sort(adapted[name].unique()) for name in ("ptpp", "n_params"))
    for i in range(1, len(budgets) - 1):
        low, last, following = budgets[i - 1], budgets[i], budgets[i + 1]
        pair = f"ptpp in ({low:g}, {last:g})"
        yield Cut("two", pair, f"ptpp == {following:g}")
        if i + 2 < len(budgets):
            yield Cut("two-far", pair, f"ptpp > {following:g}")
        if i > 1:
            yield Cut("budget", f"ptpp in ({budgets[i - 2]:g}, {low:g}, {last:g})", f"ptpp == {following:g}")
    for i in range(2, len(sizes)):
        for ahead, kind in ((0, "size"), (1, "sizes")):
            if i + ahead < len(sizes):
                edge, size = f"n_params < {0.99 * sizes[i]:g}", sizes[i + ahead]
                wanted = f"n_params > {0.99 * size:g} and n_params < {1.01 * size:g}"
                yield Cut(kind, edge, wanted)
                yield Cut(f"{kind}-based", f"{edge} or tokens == 0", wanted)
    if (adapted["replay"] == 0.5).any():
        yield Cut("mix", "replay <= 0.25 or tokens == 0", "replay == 0.5")


def without(name: str) -> AbstractContextManager[None]:
    """Use what was learned without the runs of a table."""
    study = TABLES[name]
    return nullcontext() if study is None else leaving_out(study)


def forecast(runs: Runs, cut: Cut, on: str, law: str, members: bool = False) -> Iterator[dict[str, Any]]:
    """Yield what a law makes of the rows to forecast: one row for it and, where asked, for each law it averages."""
    test = runs.on(on).where(f"({cut.test}) and tokens > 0").frame
    measured = test["loss"].to_numpy(dtype=float)
    shared = {"kind": cut.kind, "fit": cut.fit, "test": cut.test, "on": on, "n": len(test)}
    try:
        fit = cl.fit(law, runs, on, cut.fit)
        error = np.log(fit.predict(test) / measured)
    except CptlawError as problem:
        progress(f"{law} cannot be fitted: {problem}")
        return
    few = np.unique(np.linspace(0, len(test) - 1, MOST_POINTS).round().astype(int))
    said = fit.forecast(test.iloc[few], 0.9)
    low, high = said["lo"].to_numpy(dtype=float), said["hi"].to_numpy(dtype=float)
    inside = ~(measured[few] < low) & ~(measured[few] > high)  # an open end holds
    yield {**shared, "law": law, **_errors(error), "held": float(inside.mean()), **_base(fit, runs, test, error)}
    if members and isinstance(fit, Average):
        for member in fit.members:
            error = np.log(member.fit.predict(test) / measured)
            yield {**shared, "law": member.fit.law.spec, "weight": member.weight, **_errors(error)}


def _errors(error: Any) -> dict[str, float]:
    return {"mae": float(np.abs(error).mean()), "bias": float(error.mean())}


def _base(fit: Any, runs: Runs, test: pd.DataFrame, error: Any) -> dict[str, Any]:
    """Return, by base model, what its source loss is missed by and what its runs are: (measured over forecast)."""
    if not isinstance(fit, Average):
        return {}
    rows = runs.on("source").frame
    keys = ["n_params", "ptpp"]
    base = rows[rows["tokens"] == 0].groupby(keys)["loss"].mean()
    error = error - fit.bases().at(test)  # the forecasts have what is said here already
    of_runs = (-pd.Series(error, index=pd.MultiIndex.from_frame(test[keys]))).groupby(level=keys).mean()
    both = [key for key in of_runs.index if key in base.index]
    missed = fit.bases().missed(pd.DataFrame(both, columns=keys), base.loc[both].to_numpy(dtype=float))
    return {"base_missed": missed.tolist(), "runs_missed": of_runs.loc[both].tolist()}


def record(
    names: Iterable[str], laws: Iterable[str], kinds: Iterable[str] = KINDS, most: int | None = None, **options: Any
) -> pd.DataFrame:
    """Return one row per table, cut, loss and law.

    Parameters
    ----------
    names, laws, kinds
        Of tables, laws and cuts (`KINDS`).
    most
        At most so many cuts of each table and kind.
    **options
        ``members``, as for `forecast`.
    """
    found = []
    for name in names:
        runs = load(name)
        count: dict[str, int] = {}
        for cut in cuts(runs):
            count[cut.kind] = count.get(cut.kind, 0) + 1
            if cut.kind not in kinds or (most is not None and count[cut.kind] > most):
                continue
            progress(f"{name}: {cut.fit} -> {cut.test}")
            for on in ROLES:
                for law in laws:
                    with without(name), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found += [{"study": name, **row} for row in forecast(runs, cut, on, law, **options)]
    return pd.DataFrame(found)


def by_kind(found: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return means over the forecasts of each kind and table: target / source, in percent."""
    names = [name for name in TABLES if (found["study"] == name).any()]
    rows = []
    for kind in (kind for kind in KINDS if (found["kind"] == kind).any()):
        part = found[found["kind"] == kind]
        mean = 100 * part.groupby(["study", "on"])[column].mean()
        digits = 1 if column == "mae" else 0
        cells = []
        for name in names:
            told = [mean.get((name, on), np.nan) for on in ROLES]
            cells.append("-" if np.isnan(told).all() else " / ".join(f"{value:.{digits}f}" for value in told))
        rows.append([KINDS[kind], str(len(part) // len(ROLES)), *cells])
    return pd.DataFrame(rows, columns=["forecast", "n", *names])


def of_base_models(found: pd.DataFrame) -> pd.DataFrame:
    """Return what the measured source loss of a base model says of its runs' losses, at a budget held out."""
    rows = []
    for on, carried in (("source", SHARE), ("target", OF_TARGET)):
        part = found[(found["kind"] == "budget") & (found["on"] == on)]
        pairs = [
            (study, *both)
            for study, base, runs in zip(part["study"], part["base_missed"], part["runs_missed"], strict=True)
            for both in zip(base, runs, strict=True)
        ]
        models = pd.DataFrame(pairs, columns=["study", "base", "runs"]).dropna()
        for name, of_table in [*models.groupby("study", sort=False), ("all", models)]:
            base, runs = of_table["base"].to_numpy(), of_table["runs"].to_numpy()
            told = [100 * np.sqrt(np.mean((runs - share * base) ** 2)) for share in (0.0, carried)]
            best = float(base @ runs / (base @ base))
            rows.append([on, name, str(len(of_table)), *(f"{one:.2f}" for one in told), f"{carried:g}", f"{best:.2f}"])
    heads = ["loss", "table", "base models", "error", "with the share carried", "share", "best share"]
    return pd.DataFrame(rows, columns=heads)


def probe() -> list[dict[str, Any]]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    runs = load("docs-to-manuals").where("n_params < 50000 and ptpp < 100")
    return list(forecast(runs, next(cuts(runs)), "target", "auto"))


def main(arguments: list[str] | None = None) -> None:
    """Print the tables, and write those of law auto."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="auto", help="names of laws, with commas")
    parser.add_argument("--tables", default=",".join(TABLES), help="of this project's examples, with commas")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of forecasts, with commas: " + ", ".join(KINDS))
    parser.add_argument("--most", type=int, help="at most so many forecasts of each kind and table")
    parser.add_argument("--members", action="store_true", help="each law that law auto averages, too")
    parser.add_argument("--write", action="store_true", help="write the tables of law auto to studies/results")
    asked = parser.parse_args(arguments)
    names, laws, kinds = (getattr(asked, name).split(",") for name in ("tables", "laws", "kinds"))
    clock = Clock()
    with clock.running():
        found = record(names, laws, kinds, asked.most, members=asked.members)
    for law, part in found.groupby("law", sort=False):
        print(f"\n{law}, mean absolute error in percent, target / source\n\n{show({'errors': by_kind(part, 'mae')})}")
    auto = found[found["law"] == "auto"]
    tables = {"errors": by_kind(auto, "mae"), "inside": by_kind(auto, "held")} if len(auto) else {}
    if (auto["kind"] == "budget").any():
        tables["base-models"] = of_base_models(auto)
        print(f"\nlaw auto\n{show(tables)}")
    print(f"\n{len(found)} forecasts in {seconds(clock.cpu)} CPU")
    if asked.write:
        write_result("cpt_forecasts", tables)


if __name__ == "__main__":
    main()
