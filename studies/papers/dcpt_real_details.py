"""Smaller questions of the D-CPT paper (Que et al. 2024, arXiv:2406.01375) on the measured runs of `domains`.

- sampling (appendix I): L3 fitted to the losses that each of the methods M1 to M4 keeps of two hundred along a run, and
  scored on all of them, and on the last third of the run from the first two; `studies/measured/dense.csv`;
- inflection ratio (appendix I.3): the share of general corpus below which the general loss rises with tokens, and a law
  of two pieces, one for runs below it, whose term in tokens may rise;
- size terms (appendix D): Chinchilla's against Kaplan's at fixed ratios, on all points and with one size held out;
- what a domain costs: forecast from the other domains and a probe, or fitted anew on fewer runs; tokens against errors.

Run it as ``python -m studies dcpt_real_details`` (minutes) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies import simulate
from studies.harness import MEASURED
from studies.papers.dcpt_cross_domain import FORMS
from studies.papers.dcpt_published_design import EVALS
from studies.papers.dcpt_real_runs import cross_domain, held, rmse

DENSE = MEASURED / "dense.csv"
METHODS = ("M1", "M2", "M3", "M4")
POINTS = 200  # losses along a run of the paper, one in a thousand steps
EARLY = 2.0  # tokens per parameter after which the first jump of the general loss is over
RISING = np.geomspace(0.05, 2.0, 40)  # exponents that are tried
PROBES = (4.0, 8.0, 16.0)  # tokens of a probe per parameter of the smallest size
ANEW = {"three ratios": (0.0, 0.5, 0.9), "five ratios": (0.0, 0.2, 0.5, 0.8, 1.0)}


def adapted(runs: cl.Runs) -> pd.DataFrame:
    """Return the rows of CPT."""
    frame = runs.frame
    return frame[frame["tokens"] > 0].reset_index(drop=True)


def sampling(frame: pd.DataFrame, starts: int) -> pd.DataFrame:
    """Return one row per method: how many points it keeps, and the errors of L3 fitted to these, in per cent.

    The paper's two hundred points are those of this run: its step 1,000 k is the k-th of ours.
    """
    place = np.ceil(POINTS * frame["step"] / frame.groupby("run", observed=True)["step"].transform("max") - 1e-9)
    frame = frame.assign(place=place).drop_duplicates(["run", "eval", "place"], keep="last").reset_index(drop=True)
    place = frame["place"]
    rows = []
    for method in METHODS:
        kept = place.isin(simulate.dcpt_steps(method) // 1000)
        row: dict[str, object] = {
            "method": method,
            "points per run": int(kept.sum() / frame.groupby(["run", "eval"]).ngroups),
        }
        for on, letter in EVALS.items():
            for name, fitted, scored in (
                ("all", kept, place > 0),
                ("last third", kept & (place <= 2 * POINTS / 3), place > 2 * POINTS / 3),
            ):
                errors = []
                for _, cell in frame[frame["eval"] == on].groupby("domain", observed=True):
                    mine, asked = cell[fitted[cell.index]], cell[scored[cell.index]]
                    fit = cl.fit("dcpt-l3", mine, on=on, starts=starts, fix=held(mine), restraint="none")
                    errors.append(100 * rmse(fit, asked))
                row[f"{letter}, {name}"] = float(np.mean(errors))
        rows.append(row)
    return pd.DataFrame(rows)


def inflection(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per domain and size: the share at which the general loss neither rises nor falls.

    ``rise`` is the change of the log loss from 2 tokens per parameter to the end, at each share of the general corpus.
    """
    rows = []
    late = frame[(frame["eval"] == "source") & (frame["tokens"] >= EARLY * frame["n_params"] * 0.97)]
    for (domain, size), cell in late.groupby(["domain", "n_params"], observed=True):
        rise = {}
        for share, run in cell.groupby("replay"):
            x, y = np.log(run["tokens"]), np.log(run["loss"])
            rise[float(share)] = float(np.polyfit(x, y, 1)[0] * (x.max() - x.min()))
        shares, change = np.array(list(rise)), np.array(list(rise.values()))
        falls = np.flatnonzero(change <= 0)
        place = np.nan
        if len(falls) and falls[0]:
            k = falls[0]
            place = float(np.interp(0.0, [change[k], change[k - 1]], [shares[k], shares[k - 1]]))
        row = {"domain": domain, "n_params": size, "inflection": 0.0 if len(falls) and not falls[0] else place}
        rows.append(row | {f"rise at {share:.2g}": 100 * value for share, value in rise.items()})
    return pd.DataFrame(rows)


def two_pieces(frame: pd.DataFrame, below: dict[str, float], starts: int) -> pd.DataFrame:
    """Return the error in per cent of the general loss at shares below the inflection: L3, and a piece of its own.

    The piece is L = a + b N^-0.3 + c r - d D^-beta, d of either sign. Both are fitted on all but the last third of the
    points of each run and scored there, and in sample.
    """
    rows = []
    source = frame[frame["eval"] == "source"]
    for domain, cell in source.groupby("domain", observed=True):
        small = cell["replay"] < below[str(domain)]
        if not small.any():
            continue
        place = cell.groupby("run", observed=True)["tokens"].rank(pct=True)
        row: dict[str, object] = {
            "domain": domain,
            "shares": ", ".join(f"{x:.2g}" for x in sorted(cell.loc[small, "replay"].unique())),
        }
        for name, fitted, scored in (("all", place > 0, place > 0), ("last third", place <= 2 / 3, place > 2 / 3)):
            fit = cl.fit("dcpt-l3", cell[fitted], on="source", starts=starts, fix=held(cell), restraint="none")
            row[f"L3, {name}"] = 100 * rmse(fit, cell[scored & small])
            row[f"piece, {name}"] = 100 * _piece(cell[fitted & small], cell[scored & small])
        rows.append(row)
    return pd.DataFrame(rows)


def _piece(fitted: pd.DataFrame, asked: pd.DataFrame) -> float:
    """Return the root mean square log error of the law of small shares."""

    def columns(rows: pd.DataFrame, beta: float) -> np.ndarray:
        size = rows["n_params"].to_numpy(dtype=float) / 1e5
        tokens = rows["tokens"].to_numpy(dtype=float) / 1e5
        return np.stack([np.ones(len(rows)), size**-0.3, rows["replay"].to_numpy(dtype=float), tokens**-beta], axis=1)

    loss, best = fitted["loss"].to_numpy(dtype=float), (np.inf, 0.0, np.zeros(4))
    for beta in RISING:
        found, *_ = np.linalg.lstsq(columns(fitted, beta), loss, rcond=None)
        best = min(
            best, (float(np.sum((columns(fitted, beta) @ found - loss) ** 2)), beta, found), key=lambda one: one[0]
        )
    expected = columns(asked, best[1]) @ best[2]
    return float(np.sqrt(np.mean(np.log(expected / asked["loss"].to_numpy(dtype=float)) ** 2)))


def size_terms(frame: pd.DataFrame, starts: int) -> pd.DataFrame:
    """Return errors in per cent of Chinchilla's and Kaplan's law at fixed ratios, means over domains and ratios."""
    sizes = sorted(frame["n_params"].unique())
    rows = []
    for (domain, on, replay), cell in frame.groupby(["domain", "eval", "replay"], observed=True):
        for law in ("chinchilla", "kaplan"):
            row = {"loss": EVALS[str(on)], "law": law, "domain": domain, "replay": replay}
            row["all"] = 100 * rmse(cl.fit(law, cell, on=str(on), starts=starts, restraint="none"), cell)
            if len(sizes) > 2:
                squares = []
                for size in sizes:
                    of = cell["n_params"] == size
                    squares.append(
                        rmse(cl.fit(law, cell[~of], on=str(on), starts=starts, restraint="none"), cell[of]) ** 2
                    )
                row["a size held out"] = 100 * float(np.mean(squares)) ** 0.5
            rows.append(row)
    table = pd.DataFrame(rows).drop(columns=["domain", "replay"])
    return table.groupby(["loss", "law"]).agg(["mean", "median"])


def prices(runs: cl.Runs, starts: int, probes: tuple[float, ...]) -> pd.DataFrame:
    """Return what a share of a domain's tokens tells of its losses: errors in per cent, means over domains."""
    frame = adapted(runs)
    size = float(frame["n_params"].min())
    rows = []
    for probe in probes:
        each = cross_domain(runs, starts, probe * size)
        found = each[each["domain"] != "all, R2"].mean(numeric_only=True)
        row = {"from": f"three domains and a probe, {probe:g} N", "share of tokens": found["probe's share of tokens"]}
        rows.append(row | {form.rpartition("-")[2].upper(): found[form] for form in FORMS})
    rows.append({"from": "three domains alone, L3", "share of tokens": 0.0, "L3": found["pooled L3"]})
    target = frame[frame["eval"] == "target"]
    designs = {f"{name}, smallest size": (ratios, 1) for name, ratios in ANEW.items()}
    designs |= {f"{name}, all sizes": (ratios, 0) for name, ratios in ANEW.items()}
    for name, (ratios, sizes) in designs.items():
        errors, shares = [], []
        for _, cell in target.groupby("domain", observed=True):
            mine = cell["replay"].isin(ratios) & ((cell["n_params"] == size) if sizes else True)
            fit = cl.fit("dcpt-l3", cell[mine], on="target", starts=starts, fix=held(cell[mine]), restraint="none")
            errors.append(100 * rmse(fit, cell[~mine]))
            spent = cell.groupby("run", observed=True)["tokens"].max()
            shares.append(float(spent[cell.loc[mine, "run"].unique()].sum() / spent.sum()))
        rows.append({"from": f"anew: {name}", "share of tokens": np.mean(shares), "L3": np.mean(errors)})
    return pd.DataFrame(rows)


def show(title: str, table: pd.DataFrame, index: bool = False) -> None:
    """Print a table."""
    print(f"\n## {title}\n\n{table.to_string(index=index, float_format='{:.3f}'.format, na_rep='-')}", flush=True)


def main() -> None:
    """Run all studies and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few starts, one probe: seconds")
    asked = parser.parse_args()
    runs, starts = cl.examples.load("domains"), 2 if asked.small else 8
    frame = adapted(runs)
    if DENSE.exists():
        dense = pd.read_csv(DENSE)
        show("Sampling", sampling(dense[dense["tokens"] > 0].reset_index(drop=True), starts))
        print("Published: M3 and M4 better than M2, M1 relatively poor.")
    bends = inflection(frame)
    show("Inflection: rise of the general loss from 2 tokens per parameter on, per cent", bends)
    show("Two pieces", two_pieces(frame, bends.groupby("domain")["inflection"].max().to_dict(), starts))
    if frame["n_params"].nunique() > 1:
        show("Size terms at fixed ratios", size_terms(frame, starts), index=True)
    show("What a domain costs", prices(runs, starts, PROBES[:1] if asked.small else PROBES))


if __name__ == "__main__":
    main()
