"""Ten questions of people without runs, each answered from the studies, beside what a published report measured.

An eleventh is about an adapter, which the answer tells from what tiny models showed (`cptlaw.answering.alternatives`).

    python -m studies ten_questions --data ../shared/data            # the table
    python -m studies ten_questions --data ../shared/data --write    # and its file for pages

Where a report measured it, its whole study is left out of what answers.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import forgetting_and_gain as studies
from cptlaw.units import short_percent
from studies.harness import show, write_result
from studies.learning import learn_studies

GERMAN, SLIM, SLIM_10B, CHEMISTRY, PYTHON = (
    "pile-to-german-405m",
    "pile-to-slimpajama-405m",
    "pile-to-slimpajama-10b",
    "dolma-to-chemistry-1.8b",
    "pile-to-python-70m",
)
IBRAHIM = (405e6, 300e9 / 405e6)
# Question, kind of shift, parameters, tokens per parameter, tokens, replay, rate of CPT and of pre-training, study that
# measured it, its forgetting, and the base model's target loss over its source loss where both are printed
QUESTIONS = (
    ("405M to German, 25 % replay", "language", *IBRAHIM, 200e9, 0.25, 3e-4, 3e-4, GERMAN, 2.33 / 2.17 - 1),
    ("405M to German, none, rate 3e-4", "language", *IBRAHIM, 200e9, 0.0, 3e-4, 3e-4, GERMAN, 3.56 / 2.17 - 1),
    ("405M to German, none, rate 3e-5", "language", *IBRAHIM, 200e9, 0.0, 3e-5, 3e-4, GERMAN, 3.22 / 2.17 - 1),
    ("405M, Pile to SlimPajama, 5 %", "near", *IBRAHIM, 300e9, 0.05, 3e-4, 3e-4, SLIM, 2.23 / 2.17 - 1, 2.7 / 2.17),
    (
        "10B, Pile to SlimPajama, 5 %",
        "near",
        10e9,
        30.0,
        300e9,
        0.05,
        3e-4,
        3e-4,
        SLIM_10B,
        1.79 / 1.75 - 1,
        2.24 / 1.75,
    ),
    ("1.8B to chemistry, 10 %", "domain", 1.8e9, 1222.0, 10e9, 0.1, None, None, CHEMISTRY, 2.9052 / 2.8602 - 1),
    (
        "70M to Python, 25 %",
        "code",
        70.4e6,
        596.0,
        21e9,
        0.25,
        None,
        1e-3,
        PYTHON,
        2.880493 / 2.873368 - 1,
        1.838 / 2.873,
    ),
    ("8B to Japanese on 100B, 25 %", "language", 8.03e9, 1868.0, 100e9, 0.25, 9e-5, 3e-4, None, None),
    ("70B to medicine on 5B, 10 %", "domain", 70.6e9, 212.0, 5e9, 0.1, 4.5e-5, 1.5e-4, None, None),
    ("1.8B to code on 20B, 10 %", "code", 1.8e9, 1222.0, 20e9, 0.1, None, None, None, None),
)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    told = []
    for _, shift, n_params, ptpp, tokens, replay, peak, pretrain, *_ in QUESTIONS:
        frame = studies.rows_of(shift, n_params, ptpp, [(replay, tokens)], peak, pretrain)
        said = studies.expected("forgetting", frame, *map(studies.learned, ("forgetting", "gain")))
        told.append([said.quantile(p) for p in (0.05, 0.5, 0.95)])
    return [told, cl.answer(base="llama-3.1-8b", target_tokens="100B", shift="language").alternatives[1]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public tables")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = learn_studies.everything(asked.data)
    sources = rows.groupby("study")["source_of"].first()
    laws: dict[object, tuple[studies.Learned, studies.Learned]] = {}
    lines = []
    for text, shift, n_params, ptpp, tokens, replay, peak, pretrain, study, measured, *new in QUESTIONS:
        if study not in laws:
            laws[study] = learn_studies.without(rows, study)
        known = {"novelty": math.log(new[0]) if new else None, "unread": study in learn_studies.UNREAD}
        frame = studies.rows_of(shift, n_params, ptpp, [(replay, tokens)], peak, pretrain, **known)
        said = studies.expected("forgetting", frame, *laws[study])
        low, middle, high = (short_percent(float(said.quantile(p)[0])) for p in (0.05, 0.5, 0.95))
        beside = "-" if measured is None else short_percent(measured)
        lines.append([text, f"{middle} ({low} to {high})", beside, sources.get(study, "no report read")])
    adapter = cl.answer(base="llama-3.1-8b", target_tokens="100B", shift="language").alternatives[1]
    low, middle, high = (short_percent(adapter[f"forgetting{end}"]) for end in ("_lo", "", "_hi"))
    text = f"8B to Japanese on 100B, none, LoRA of {adapter['rank_over_width']:.1g} x width"
    lines.append([text, f"{middle} ({low} to {high})", "-", "no report read"])
    heads = ["question", "forgetting (90 % interval)", "measured", "source"]
    tables = {"answers": pd.DataFrame(lines, columns=heads)}
    print(show(tables))
    if asked.write:
        write_result("ten_questions", tables, "python -m studies ten_questions --data ../shared/data --write")


if __name__ == "__main__":
    main()
