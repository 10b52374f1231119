"""Domains and budgets in one law, which neither D-CPT nor PTPP has: a corpus at budgets at which it was never run.

Fitted to four corpora at 62 tokens of pre-training per parameter (`domains`), and to French alone at 15 to 279
(`en-fr-ladder`, models up to 125K). Asked: German at 15, 31 and 124 (`studies/measured/german.csv`), and Python at 15,
31, 124 and 279 (`docs-to-code`), with replay, at the usual constant rate: the same base models and texts. The forms are
`dcpt-cross-k1` with its option ``ptpp``; beside them the law of each corpus at 62 alone, and the same times what the
law of French says that the budget changes.

Run it as ``python -m studies domains_and_budgets`` (minutes) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, progress, show, write_result
from studies.papers.dcpt_domains import PROBE, at_probe, percent

KNOWN = 62  # the budget at which all four corpora were run
FORMS = ("none", "floor", "gate", "gated-floor")
PEAKS = {30352: 0.003, 45936: 0.003, 75072: 0.0021, 124672: 0.0015}  # the usual rate of each size


def usual(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of sizes that the domains were run at, constant at the usual peak of each size, and the bases."""
    peak = frame["n_params"].map(PEAKS)
    trained = (frame["tokens"] > 0) & (frame["lr_schedule"] == "constant") & np.isclose(frame["lr_peak"], peak)
    return frame[trained | ((frame["tokens"] == 0) & frame["n_params"].isin(PEAKS))]


def fitted_rows() -> pd.DataFrame:
    """Return the rows that laws are fitted to: four corpora at one budget, French at all."""
    domains = cl.examples.load("domains").frame
    ladder = cl.examples.load("en-fr-ladder").frame
    annealed = ladder[(ladder["pretrain_decay"] > 0) & (ladder["ptpp"] < 800) & (ladder["ptpp"] != KNOWN)]
    french = annealed[annealed["seed"] == 0].assign(domain="french")
    both = pd.concat([domains, french.assign(run="ladder:" + french["run"].astype(str))], ignore_index=True)
    return usual(both.astype({"domain": object}))


def asked_rows() -> pd.DataFrame:
    """Return the measured rows of other corpora at other budgets."""
    german = pd.read_csv(MEASURED / "german.csv").assign(domain="german")
    python = cl.examples.load("docs-to-code").frame.assign(domain="python")
    rows = usual(pd.concat([german, python[python["seed"] == 0]], ignore_index=True))
    # What the laws of CPT are for: past the turn of the first steps, some replay.
    mixed = (rows["replay"] > 0) & (rows["replay"] < 1)
    return rows[(rows["tokens"] >= 1.9 * rows["n_params"]) & mixed & (rows["ptpp"] != KNOWN)]


def as_french(on: str, fitted: pd.DataFrame, asked: pd.DataFrame, starts: int) -> np.ndarray:
    """Return by what factor the law of French says that losses at the budgets asked differ from those at 62."""
    rows = fitted[(fitted["eval"] == on) & (fitted["tokens"] > 0)]
    french = cl.fit("ptpp-floor", rows[rows["domain"] == "french"], on=on, starts=starts)
    return np.asarray(french.predict(asked) / french.predict(asked.assign(ptpp=float(KNOWN))))


def own(on: str, fitted: pd.DataFrame, asked: pd.DataFrame, starts: int) -> np.ndarray:
    """Return losses by the law of each corpus at the known budget, which does not see that another is asked."""
    rows = fitted[(fitted["eval"] == on) & (fitted["tokens"] > 0) & (fitted["ptpp"] == KNOWN)]
    found = np.empty(len(asked))
    for domain in asked["domain"].unique():
        here = (asked["domain"] == domain).to_numpy()
        fit = cl.fit("dcpt-l3", rows[rows["domain"] == domain], on=on, starts=starts)
        found[here] = fit.predict(asked[here])
    return found


def errors(on: str, starts: int) -> pd.DataFrame:
    """Return the error of every law in per cent, a row a law, a column a corpus and budget."""
    fitted, asked = fitted_rows(), asked_rows()
    asked = asked[asked["eval"] == on].reset_index(drop=True)
    probe = PROBE * min(PEAKS)
    by_own = own(on, fitted, asked, starts)
    found = {
        "own law at 62": by_own,
        "own law at 62, moved as French": by_own * as_french(on, fitted, asked, starts),
    }
    for form in FORMS:
        progress(f"{on}: dcpt-cross-k1, budget {form}")
        law = at_probe("dcpt-cross-k1", min(PEAKS), probe, ptpp=form)
        fit = cl.fit(law, fitted[fitted["eval"] == on], on=on, where="tokens > 0", starts=starts)
        found[f"dcpt-cross-k1, {form}"] = fit.predict(asked)
    squares = pd.DataFrame({name: np.log(loss / asked["loss"]) ** 2 for name, loss in found.items()})
    cells = asked["domain"] + " at " + asked["ptpp"].map("{:.0f}".format)
    by_cell = squares.groupby(cells).mean().T
    order = sorted(by_cell, key=lambda cell: (cell.split()[0], float(cell.split()[-1])))
    shown = by_cell[order].assign(all=squares.mean()).map(lambda square: percent(np.array([square])))
    return shown.reset_index(names="law")


def probe() -> np.ndarray:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    fitted, asked = fitted_rows(), asked_rows().query("eval == 'target'").reset_index(drop=True)
    return as_french("target", fitted, asked, 2)


def main() -> None:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few starts, the target loss alone")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    made = {on: errors(on, 2 if asked.small else 16) for on in ("target", "source")[: 1 if asked.small else 2]}
    print(show(made))
    if asked.write:
        write_result("domains_and_budgets", made)


if __name__ == "__main__":
    main()
