"""The studies of the D-CPT law (Que et al. 2024, arXiv:2406.01375) on runs that were measured: the example `domains`.

The same questions as `dcpt_published_design.py` puts to simulated runs, of nine ratios and four domains:

- tables 1 to 4: seven laws fitted to all points; a size, a third of the tokens, two of the nine ratios held out;
- the paper's four requirements of a law, as a check of any law: does it fit, do its losses fall with size, tokens and
  the share of their own corpus, does more of the own corpus make tokens worth more, does one form serve both losses;
- usage 1, table 5: the ratio for a limit on forgetting, planned from five of the nine ratios, held against the others;
- tables 7 and 8: the cross-domain law, a domain forecast from one short run and the other domains.

Scores are medians over domains, errors in per cent (root mean square of log residuals). What the sizes measured do not
allow is said so. Run it as ``python -m studies dcpt_real_runs`` (a quarter of an hour, table 4 last) or with
``--small`` (half a minute).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import write_result
from studies.papers.dcpt_cross_domain import FORMS
from studies.papers.dcpt_published_design import EVALS, LAWS, PUBLISHED
from studies.papers.requirements import requirements

PLANNED_FROM = (0.0, 0.2, 0.5, 0.8, 1.0)
LIMITS = (0.05, 0.10, 0.20)


def held(frame: pd.DataFrame) -> dict[str, float]:
    """Return what is held in a fit: where one size was measured, its term is a constant, and E stands for both."""
    return {"A": 0.0, "alpha": 0.3} if frame["n_params"].nunique() == 1 else {}


_made: dict[tuple[str, str, int, str], cl.Fit] = {}


def plain_fit(law: str, rows: pd.DataFrame, on: str, starts: int) -> cl.Fit:
    """Fit a law without priors to the runs of CPT on one domain; what several tables ask for is made once."""
    key = (law, on, starts, hashlib.sha256(rows.to_csv().encode()).hexdigest())
    if key not in _made:
        _made[key] = cl.fit(law, rows, on=on, starts=starts, fix=held(rows), restraint="none")
    return _made[key]


def splits(frame: pd.DataFrame, kind: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (fitted, scored) masks of rows: ``all``, ``size``, ``tokens`` or ``ratios``, the folds of tables 1 to 4.

    Thirds of the tokens are thirds of the measured points of a run, which lie evenly in the logarithm of tokens.
    """
    if kind == "all":
        yield np.ones(len(frame), dtype=bool), np.ones(len(frame), dtype=bool)
        return
    if kind == "tokens":
        place = frame.groupby("run", observed=True)["tokens"].rank(pct=True).to_numpy()
        folds = [(place > third / 3) & (place <= (third + 1) / 3) for third in range(3)]
    else:
        column = "n_params" if kind == "size" else "replay"
        levels = sorted(frame[column].unique())
        held_out = itertools.combinations(levels, 1 if kind == "size" else 2)
        folds = [frame[column].isin(chosen).to_numpy() for chosen in held_out]
    yield from ((~fold, fold) for fold in folds)


def scores(runs: cl.Runs, laws: tuple[str, ...], starts: int, kind: str) -> pd.DataFrame:
    """Return rmse (per cent, on log losses) and R2 of both losses over all folds, medians over domains."""
    frame = runs.frame[runs.frame["tokens"] > 0]
    rows = []
    for (domain, on), cell in frame.groupby(["domain", "eval"], observed=True):
        for law in laws:
            errors = []
            for fitted, scored in splits(cell, kind):
                fit = plain_fit(law, cell[fitted], str(on), starts)
                errors.append(np.log(fit.predict(cell[scored])) - np.log(cell.loc[scored, "loss"].to_numpy()))
            logs = np.log(np.concatenate([cell.loc[scored, "loss"] for _, scored in splits(cell, kind)]))
            square = float(np.mean(np.concatenate(errors) ** 2))
            rows.append((law, domain, EVALS[str(on)], 100 * square**0.5, 1 - square / float(np.var(logs))))
    table = pd.DataFrame(rows, columns=["law", "domain", "loss", "rmse", "R2"])
    middle = table.groupby(["law", "loss"])[["rmse", "R2"]].median().unstack("loss")
    middle.columns = [f"{name} {letter}" for name, letter in middle.columns]
    return middle.loc[list(laws), ["rmse G", "rmse D", "R2 G", "R2 D"]]


def requirements_table(runs: cl.Runs, laws: tuple[str, ...], starts: int) -> pd.DataFrame:
    """Return the requirements of each law, means over domains, both losses."""
    frame = runs.frame[runs.frame["tokens"] > 0]
    rows = []
    for on, letter in EVALS.items():
        cells = [cell for _, cell in frame[frame["eval"] == on].groupby("domain", observed=True)]
        for law in laws:
            found = [requirements(plain_fit(law, cell, on, starts)) for cell in cells]
            rows.append({"loss": letter, "law": law, **pd.DataFrame(found).mean().to_dict()})
    return pd.DataFrame(rows)


def usage_one(runs: cl.Runs, law: str, starts: int) -> pd.DataFrame:
    """Plan the replay for limits on forgetting from five ratios, and read off all nine what it gives.

    Between measured ratios the measured losses are joined by straight lines, at the largest size and the longest runs.
    """
    frame, fix = runs.frame, held(runs.frame)
    size = float(frame["n_params"].max())
    rows = []
    listed = ", ".join(f"{ratio:g}" for ratio in PLANNED_FROM)
    base = frame[(frame["tokens"] == 0) & (frame["n_params"] == size) & (frame["eval"] == "source")]["loss"].mean()
    for domain in sorted(frame["domain"].dropna().astype(str).unique()):
        where = f'domain == "{domain}" and tokens > 0'
        target, source = (
            cl.fit(law, runs, on, f"{where} and replay in ({listed})", starts=starts, fix=fix, restraint="none")
            for on in ("target", "source")
        )
        ends = runs.where(f"{where} and n_params == {size}").frame
        ends = ends[ends["tokens"] == ends["tokens"].max()]
        measured = {on: ends[ends["eval"] == on].sort_values("replay") for on in ("source", "target")}
        tokens = float(ends["tokens"].iloc[0])
        for limit in LIMITS:
            plan = cl.plan.trade_off(
                target, source, n_params=size, tokens=tokens, max_forgetting=limit, base_source_loss=float(base)
            )
            known = measured["source"]
            forgets = known["loss"].to_numpy() / base - 1
            best = float(np.interp(-limit, -forgets, known["replay"])) if forgets.min() <= limit else np.nan
            row: dict[str, object] = {"domain": domain, "limit": limit, "best replay": best, "replay": np.nan}
            if plan.feasible:
                replay = float(plan.replay)
                lost = float(np.interp(replay, known["replay"], forgets))
                target_loss, best_loss = (
                    float(np.interp(x, measured["target"]["replay"], measured["target"]["loss"]))
                    for x in (replay, best)
                )
                row |= {"replay": replay, "forgetting": lost, "target loss above best": target_loss / best_loss - 1}
            rows.append(row)
    return pd.DataFrame(rows)


def cross_domain(runs: cl.Runs, starts: int, probe: float) -> pd.DataFrame:
    """Leave each domain out, and forecast it from the others and one short run at even shares.

    Returns
    -------
    DataFrame
        One row per domain: rmse in per cent of each form of K, of L3 pooled over the other domains, and of L3 fitted to
        the runs of the domain itself; the probe's share of the tokens of these runs. The last row is R2 over the points
        of all domains (table 7).
    """
    size = float(runs.frame["n_params"].min())
    table, fix = runs.frame[runs.frame["eval"] == "target"], held(runs.frame)
    rows = []
    pooled: dict[str, list[np.ndarray]] = {}
    measured = []
    for domain in sorted(table["domain"].astype(str).unique()):
        is_new = table["domain"] == domain
        is_probe = (table["n_params"] == size) & (table["replay"] == 0.5) & (table["tokens"] <= 1.01 * probe)
        given = table[is_new & (is_probe | (table["tokens"] == 0))]
        asked = table[is_new & (table["tokens"] > 0) & ~is_probe]
        row: dict[str, object] = {"domain": domain}
        shares = {"k1_tokens": probe / 4, "k2_tokens": probe / 2, "k3_tokens": probe}
        for form in FORMS:
            law = cl.law(form, probe_n_params=size, probe_replay=0.5, **shares)
            fit = cl.fit(law, table[~is_new], on="target", starts=starts, fix=fix, restraint="none")
            points = law.attach(asked, law.learnability(given))
            pooled.setdefault(form, []).append(residuals(fit, points))
        for name, rows_known in (("pooled L3", table[~is_new]), ("own L3", table[is_new])):
            known = rows_known[rows_known["tokens"] > 0]
            fit = plain_fit("dcpt-l3", known, "target", starts)
            pooled.setdefault(name, []).append(residuals(fit, asked))
        row |= {name: 100 * float(np.sqrt(np.mean(parts[-1] ** 2))) for name, parts in pooled.items()}
        measured.append(np.log(asked["loss"].to_numpy()))
        trained = asked.groupby("run", observed=True)["tokens"].max().sum()
        row["probe's share of tokens"] = probe / float(trained)
        rows.append(row)
    spread = float(np.var(np.concatenate(measured)))
    every = {name: 1.0 - float(np.mean(np.concatenate(parts) ** 2)) / spread for name, parts in pooled.items()}
    return pd.DataFrame([*rows, {"domain": "all, R2", **every}])


def residuals(fit: cl.Fit, points: pd.DataFrame) -> np.ndarray:
    """Return the log errors of a fit at measured points."""
    missed: np.ndarray = np.log(fit.predict(points)) - np.log(points["loss"].to_numpy())
    return missed


def rmse(fit: cl.Fit, points: pd.DataFrame) -> float:
    """Return the root mean square log error of a fit at measured points."""
    return float(np.sqrt(np.mean(residuals(fit, points) ** 2)))


def in_text(table: pd.DataFrame, published: dict[str, tuple[float, float, float, float]] | None = None) -> pd.DataFrame:
    """Return a table as it is shown, with the paper's R2 beside ours where there are some."""
    if published:
        names = ["Huber G", "Huber D", "R2 G, paper", "R2 D, paper"]
        known = pd.DataFrame.from_dict(published, orient="index", columns=names)
        table = table.join(known[names[2:]])
    table = table.reset_index() if table.index.name else table
    return table.map(lambda cell: cell if isinstance(cell, str) else "-" if np.isnan(cell) else f"{cell:.3f}")


def probe() -> list[np.ndarray]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    frame = cl.examples.load("domains").where('domain == "french" and n_params < 50000 and tokens > 0').frame
    cell = frame[frame["eval"] == "target"]
    return [plain_fit(law, cell, "target", 2).predict(cell) for law in ("dcpt-l3", "dcpt-l5")]


def main() -> None:
    """Run all studies and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", help="a runs table with the column domain; the package's `domains` where absent")
    parser.add_argument("--size", type=float, help="the runs of one size alone")
    parser.add_argument("--small", action="store_true", help="few laws and starts, table 4 of one domain and size")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    runs = cl.read_runs(asked.runs) if asked.runs else cl.examples.load("domains")
    runs = runs.where(f"n_params == {asked.size}") if asked.size else runs
    sizes = sorted(runs.frame["n_params"].unique())
    laws, starts = (LAWS, 12) if not asked.small else (("dcpt-l3", "dcpt-l5"), 4)
    print(f"sizes {', '.join(f'{size:,.0f}' for size in sizes)}; medians over domains; G general loss, D domain loss")
    made: dict[str, pd.DataFrame] = {}

    def show(key: str, title: str, table: pd.DataFrame, published: Any = None) -> None:
        made[key] = in_text(table, published)
        print(f"\n## {title}\n\n{made[key].to_string(index=False)}", flush=True)

    show("all", "Table 1: all points", scores(runs, laws, starts, "all"), PUBLISHED["table 1"])
    if len(sizes) > 2:
        show("size", "Table 2: one size held out", scores(runs, laws, starts, "size"), PUBLISHED["table 2"])
    else:
        print("\n## Table 2: not possible, fewer than three sizes have been measured")
    show("tokens", "Table 3: a third of each run held out", scores(runs, laws, starts, "tokens"), PUBLISHED["table 3"])
    show("requirements", "The four requirements: shares of points", requirements_table(runs, laws, starts))
    show("usage-1", "Usage 1: planned from five ratios", usage_one(runs, "dcpt-l3", starts))
    title = "Table 8: each domain from a probe and the others, rmse in per cent"
    show("cross-domain", title, cross_domain(runs, starts, probe=4 * sizes[0]))
    # 36 pairs of ratios, 28 without the runs on one corpus alone; in small one domain and size
    asked_of = runs.where(f'domain == "french" and n_params == {sizes[0]}') if asked.small else runs
    table = scores(asked_of, laws, 2, "ratios")
    show("ratios", "Table 4: two of nine ratios held out, all 36 choices", table, PUBLISHED["table 4"])
    if not asked.small:
        inner = runs.where("replay > 0 and replay < 1")
        show("inner", "Table 4 without the runs on one corpus alone", scores(inner, laws, 2, "ratios"))
    if asked.write:
        write_result("dcpt_real_runs", made)


if __name__ == "__main__":
    main()
