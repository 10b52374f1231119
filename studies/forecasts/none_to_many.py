"""One question asked with no run, one, three and ten: forgetting of a model three times the size of the runs.

    python -m studies none_to_many --data ../shared/data            # the table
    python -m studies none_to_many --data ../shared/data --write    # and its file; then python docs/none_to_many.py

English to French, tiny decoders (`en-fr-ladder`): 125K parameters at 279 tokens per parameter, 16 more tokens per
parameter of CPT, its base model measured. All that runs to French say is left out of what other studies say. The runs
that are added were chosen before any was forecast: one mix of the next smaller model but one, then three of two sizes,
then ten of three.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import forgetting_and_gain, leaving_out
from cptlaw.units import short_percent
from studies.forecasts import cpt_forecasts, few_runs
from studies.harness import show, write_result
from studies.learning import learn_studies

TABLE = "en-fr-ladder"
ASKED = {"n_params": 124_672, "ptpp": 279, "lr_peak": 0.0015}
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5)
THREE = ((45_936, 0.1), (45_936, 0.25), (30_352, 0.1))
TEN = (
    *((45_936, share) for share in SHARES),
    *((30_352, share) for share in (0.0, 0.1, 0.25, 0.5)),
    (75_072, 0.1),
)
STEPS: dict[str, tuple[tuple[int, float], ...]] = {
    "no run": (),
    "one run": THREE[:1],
    "three runs": THREE,
    "ten runs": TEN,
}


def ladder() -> pd.DataFrame:
    """Return the rows of the ladder at the asked budget: first seed, constant rate, annealed base models."""
    rows = cl.examples.load(TABLE).frame
    rows = rows[(rows["ptpp"].round() == ASKED["ptpp"]) & (rows["seed"] == 0) & (rows["pretrain_decay"] != 0.0)]
    usual = rows.groupby("n_params")["lr_peak"].transform(lambda rates: rates.mode().iloc[0])
    trained = (rows["lr_schedule"].astype(str) == "constant") & (rows["lr_peak"] == usual)
    return rows[(rows["tokens"] == 0) | trained]


def asked_with(rows: pd.DataFrame, runs: tuple[tuple[int, float], ...]) -> cl.Answer:
    """Return the answer from the base models of these runs and of the asked one, and the runs' rows."""
    own = rows[rows["n_params"] == ASKED["n_params"]]
    question = {**ASKED, "tokens": float(own["tokens"].max())}
    base = own[own["tokens"] == 0].set_index("eval")["loss"]
    if not runs:
        known = {"base_source_loss": base["source"], "base_target_loss": base["target"]}
        return cl.answer(shift="language", lr_pretrain=learn_studies.OWN_PRETRAIN, **known, **question)
    sizes = {size for size, _ in runs} | {ASKED["n_params"]}
    kept = (rows["tokens"] == 0) & rows["n_params"].isin(sizes)
    for size, share in runs:
        kept |= (rows["tokens"] > 0) & (rows["n_params"] == size) & (rows["replay"] == share)
    return cl.answer(cl.read_runs(rows[kept], n_params_kind="total"), shift="language", anyway=True, **question)


def measured(rows: pd.DataFrame) -> pd.Series:
    """Return the forgetting that the asked model showed, by share of replay."""
    own = rows[(rows["n_params"] == ASKED["n_params"]) & (rows["eval"] == "source")]
    base = own.loc[own["tokens"] == 0, "loss"].mean()
    return own[own["tokens"] == own["tokens"].max()].set_index("replay")["loss"] / base - 1.0


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    rows = ladder()
    return [asked_with(rows, runs).options for runs in ((), THREE[:1])]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public tables")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    others_say = few_runs.without(TABLE, learn_studies.everything(asked.data))
    rows = ladder()
    truth = measured(rows)
    lines = []
    with patch.object(forgetting_and_gain, "learned", others_say), leaving_out(cpt_forecasts.TABLES[TABLE]):
        for step, runs in STEPS.items():
            for option in asked_with(rows, runs).options:
                if option["replay"] in SHARES:
                    ends = [short_percent(option[f"forgetting{end}"]) for end in ("", "_lo", "_hi")]
                    lines.append([step, f"{option['replay']:.0%}", *ends, short_percent(truth[option["replay"]])])
    heads = ["from", "replay", "forgetting", "90 % from", "to", "measured"]
    tables = {"forgetting": pd.DataFrame(lines, columns=heads)}
    print(show(tables))
    if asked.write:
        write_result("none_to_many", tables, "python -m studies none_to_many --data ../shared/data --write")


if __name__ == "__main__":
    main()
