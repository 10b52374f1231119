"""The cross-domain D-CPT law (Que et al. 2024, tables 7 and 8) on measured runs: the four domains of `domains`.

- table 7: each form of K fitted to the runs of all domains, both losses where K can be formed;
- table 8: two domains fitted, the two others forecast from a short run each, all six choices. The law has four
  parameters that only domains tell (E, F, mu, w2), so two domains do not determine it: beside the rows alone stands
  what a user gets, `cl.fit` with its usual priors;
- the general loss: how far it is below the base model's, k2, by share of the general corpus. K2 to K4 need it above 0.
  The same without re-warm-up: base models that were never annealed, whose runs go on at their rate.

Run it as ``python -m studies dcpt_domains`` (minutes) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, show, write_result
from studies.papers.dcpt_cross_domain import FORMS

# R2 of the paper, general and domain loss: all six domains (table 7), two of six held out (table 8).
PUBLISHED = {
    "dcpt-cross-k1": (0.9853, 0.9462, 0.5855),
    "dcpt-cross-k2": (0.9875, 0.8526, 0.5865),
    "dcpt-cross-k3": (0.9889, 0.9918, 0.8611),
    "dcpt-cross-k4": (0.9854, 0.9928, 0.6763),
}
WITH_PRIORS = ("dcpt-cross-k1", "dcpt-cross-k3")
SHARE = 0.5  # of the general corpus in a probe
PROBE = 4.0  # its tokens per parameter of the smallest size


def at_probe(form: str, size: float, probe: float, **options: str) -> cl.laws.Law:
    """Return a form of the law, with options of its own, that reads K off the first tokens of a run at even shares."""
    shares = {"k1_tokens": probe / 4, "k2_tokens": probe / 2, "k3_tokens": probe}
    return cl.law(form, probe_n_params=size, probe_replay=SHARE, **shares, **options)


def of_eval(runs: cl.Runs, on: str) -> pd.DataFrame:
    """Return the rows of one loss; base models' source losses have no domain."""
    return runs.frame[runs.frame["eval"] == on].astype({"domain": object})


def squared_errors(fit: cl.Fit, points: pd.DataFrame) -> np.ndarray:
    """Return the squared log errors of a fit at measured points."""
    errors: np.ndarray = (np.log(fit.predict(points)) - np.log(points["loss"].to_numpy())) ** 2
    return errors


def all_domains(runs: cl.Runs, starts: int) -> pd.DataFrame:
    """Return rmse (per cent, on log losses) and R2 of each form fitted to the runs of all domains; table 7."""
    size = float(runs.frame["n_params"].min())
    rows = []
    for on, letter in (("source", "G"), ("target", "D")):
        table = of_eval(runs, on)
        known = table[table["tokens"] > 0]
        spread = float(np.var(np.log(known["loss"])))
        for form in (*FORMS, "dcpt-l3"):
            law = at_probe(form, size, PROBE * size) if form in FORMS else cl.law(form)
            row: dict[str, object] = {"loss": letter, "law": "pooled L3" if form == "dcpt-l3" else form}
            try:
                fit = cl.fit(law, table, on=on, starts=starts, restraint="none")
            except cl.DataError:  # K2 to K4 of a loss that has not fallen
                rows.append(row | {"rmse": "k2 below 0"})
                continue
            square = float(np.mean(squared_errors(fit, fit.data)))
            row |= {"rmse": f"{100 * square**0.5:.2f}", "R2": f"{1 - square / spread:.3f}"}
            paper = PUBLISHED.get(form)
            rows.append(row | ({} if paper is None else {"R2, paper": f"{paper[letter == 'D']:.3f}"}))
    return pd.DataFrame(rows).fillna("-")


def pairs(runs: cl.Runs, starts: int, choices: int) -> pd.DataFrame:
    """Fit two domains, and forecast the two others from a short run of each; table 8.

    Returns
    -------
    DataFrame
        A row for each pair that was fitted: rmse in per cent over both asked domains. Then R2 over all, and the
        paper's, of four fitted and two asked.
    """
    size = float(runs.frame["n_params"].min())
    table, probe = of_eval(runs, "target"), PROBE * size
    is_base = table["tokens"] == 0
    is_probe = (table["n_params"] == size) & (table["replay"] == SHARE) & (table["tokens"] <= 1.01 * probe)
    names = sorted(table["domain"].dropna().unique())
    own = {
        name: cl.fit("dcpt-l3", table[(table["domain"] == name) & ~is_base], "target", starts=starts, restraint="none")
        for name in names
    }
    rows: list[dict[str, str]] = []
    every: dict[str, list[np.ndarray]] = {}
    measured = []
    for fitted in list(itertools.combinations(names, 2))[:choices]:
        others = ~table["domain"].isin(fitted)
        asked = table[others & ~is_base & ~is_probe]
        measured.append(np.log(asked["loss"].to_numpy()))
        found: dict[str, np.ndarray] = {}
        for form in FORMS:
            law = at_probe(form, size, probe)
            points = law.attach(asked, law.learnability(table[others & (is_probe | is_base)]))
            for restraint in ("none", None)[: 1 + (form in WITH_PRIORS)]:
                fit = cl.fit(law, table[~others], on="target", starts=starts, restraint=restraint)
                found[form + ("" if restraint else ", priors")] = squared_errors(fit, points)
        pooled = cl.fit("dcpt-l3", table[~others & ~is_base], "target", starts=starts, restraint="none")
        found["pooled L3"] = squared_errors(pooled, asked)
        by_own = [squared_errors(own[name], rows_of) for name, rows_of in asked.groupby("domain")]
        found["own L3"] = np.concatenate(by_own)
        rows.append({"fitted": ", ".join(fitted)} | {name: percent(part) for name, part in found.items()})
        for name, part in found.items():
            every.setdefault(name, []).append(part)
    spread = float(np.var(np.concatenate(measured)))
    whole = {name: float(np.mean(np.concatenate(parts))) for name, parts in every.items()}
    rows.append({"fitted": "all pairs"} | {name: f"{100 * square**0.5:.2f}" for name, square in whole.items()})
    rows.append({"fitted": "R2"} | {name: f"{1 - square / spread:.3f}" for name, square in whole.items()})
    rows.append({"fitted": "R2, paper"} | {name: f"{values[2]:.3f}" for name, values in PUBLISHED.items()})
    return pd.DataFrame(rows).fillna("-")


def percent(squares: np.ndarray) -> str:
    """Print the root of a mean square of log errors, in per cent."""
    return f"{100 * float(np.mean(squares)) ** 0.5:.2f}"


def general(runs: cl.Runs) -> pd.DataFrame:
    """Return by how much the general loss is below the base model's at the end of runs, means over domains.

    At share 1 nothing is forgotten: what is left of the rise is re-warm-up, the rate above the last of pre-training.
    """
    return _below_base(of_eval(runs, "source"))


def stable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same by domain, of runs that go on at the rate of base models that were never annealed."""
    source = frame[frame["eval"] == "source"]
    parts = []
    for domain in sorted(source["domain"].dropna().unique()):
        found = _below_base(source[(source["tokens"] == 0) | (source["domain"] == domain)])
        parts.append(found.assign(domain=domain)[["domain", *found.columns]])
    return pd.concat(parts, ignore_index=True)


def _below_base(table: pd.DataFrame) -> pd.DataFrame:
    base = table[table["tokens"] == 0].groupby("n_params")["loss"].mean()
    adapted = table[table["tokens"] > 0]
    ends = adapted.loc[adapted.groupby(["domain", "run"], observed=True)["tokens"].idxmax()]
    ends = ends.assign(k2=base.reindex(ends["n_params"]).to_numpy() - ends["loss"])
    means = ends.groupby(["n_params", "replay"])["k2"].mean().unstack("replay")
    shown = means.map(lambda value: f"{value:.3f}").reset_index(names="parameters")
    return shown.assign(parameters=[f"{size / 1e3:.0f}K" for size in means.index]).rename(
        columns=lambda name: name if isinstance(name, str) else f"share {name:.2f}"
    )


def probe() -> list[np.ndarray]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    table = of_eval(cl.examples.load("domains").where("n_params < 50000"), "target")
    size = float(table["n_params"].min())
    laws = (at_probe("dcpt-cross-k3", size, PROBE * size), "dcpt-l3")
    fits = [cl.fit(law, table, on="target", starts=2, restraint="none") for law in laws]
    return [squared_errors(fit, fit.data) for fit in fits]


def main() -> None:
    """Run all studies and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="two sizes, few starts, one pair")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    runs = cl.examples.load("domains")
    starts, choices = (2, 1) if asked.small else (8, 6)
    runs = runs.where("n_params < 50000") if asked.small else runs
    without = stable(pd.read_csv(MEASURED / "domains_stable.csv"))
    made = {
        "general": general(runs),
        "stable": without,
        "all": all_domains(runs, starts),
        "pairs": pairs(runs, starts, choices),
    }
    print(show(made))
    if asked.write:
        write_result("dcpt_domains", made)


if __name__ == "__main__":
    main()
