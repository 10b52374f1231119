"""Eighteen tables as people hold them, made from one truth, and what a person replies to what is asked of them.

The truth is messy/truth.csv: 72 runs of three sizes, four budgets, four shares of replay and two lengths.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

TRUTH = Path(__file__).parent / "messy" / "truth.csv"
LN2 = float(np.log(2.0))


@dataclass(frozen=True)
class Messy:
    """A table, its file name, and what a person who knows it replies."""

    name: str
    write: object
    replies: dict = field(default_factory=dict)
    asked: tuple = ()  # the columns that must be asked about
    refused: bool = False  # one message asks, and what it needs stands in no column


def truth():
    """Return the 72 runs, one row per loss."""
    return pd.read_csv(TRUTH)


def wide(frame=None, source="source_loss", target="target_loss"):
    """Return one row per run, with a column for each loss."""
    frame = truth() if frame is None else frame
    keys = [name for name in frame.columns if name not in ("eval", "loss")]
    table = frame.pivot(index=keys, columns="eval", values="loss").reset_index()
    return table.rename(columns={"source": source, "target": target})[[*keys, source, target]]


def renamed(**names):
    return truth().rename(columns=names)


def of(table):
    """Return a writer of a CSV file."""
    return lambda path: table.to_csv(path, index=False)


def text(form):
    return lambda path: path.write_text(form, encoding="utf-8")


def rr():
    return renamed(replay="rr")


def complement():
    return truth().assign(**{"data.ja_frac": lambda frame: 1 - frame["replay"]}).drop(columns="replay")


def percent():
    return truth().assign(old_ratio=lambda frame: 100 * frame["replay"]).drop(columns="replay")


def percent_of_new():
    return truth().assign(alpha=lambda frame: 100 * (1 - frame["replay"])).drop(columns="replay")


def per_parameter():
    frame = truth().assign(tok_per_param=lambda frame: frame["tokens"] / frame["n_params"])
    return frame.drop(columns="tokens")


def compute():
    return truth().assign(budget=lambda frame: 6 * frame["tokens"] * frame["n_params"]).drop(columns="tokens")


def billions():
    return truth().assign(D_cpt=lambda frame: frame["tokens"] / 1e9).drop(columns="tokens")


def all_at_once():
    frame = billions().rename(columns={"replay": "p_old", "ptpp": "PT/N", "n_params": "N", "lr_peak": "max_lr"})
    return frame.assign(note=[f"see {row % 5}" for row in range(len(frame))])


def deltas():
    table = wide(source="en", target="ja")
    base = {20.0: 3.2, 80.0: 3.0, 320.0: 2.9}
    start = table["ptpp"].map(base).fillna(3.1)
    return table.assign(delta_source=table["en"] - start, delta_target=table["ja"] - start).drop(columns=["en", "ja"])


def markdown():
    table = wide()
    lines = [" | ".join(table.columns), " | ".join(["---"] * len(table.columns))]
    lines += [" | ".join(map(str, row)) for row in table.itertuples(index=False)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def with_mean():
    table = wide().astype(object)
    mean = dict.fromkeys(table.columns, "") | {
        "run": "mean",
        "source_loss": round(float(table["source_loss"].mean()), 4),
        "target_loss": round(float(table["target_loss"].mean()), 4),
    }
    return pd.concat([table, pd.DataFrame([mean])])


def plus_minus():
    table = wide()
    columns = {name: [f"{value} ± 0.004" for value in table[name]] for name in ("source_loss", "target_loss")}
    return table.assign(**columns)


def parts():
    shares = [f"{round(100 * (1 - value)):d}:{round(100 * value):d}" for value in truth()["replay"]]
    return truth().assign(new_to_old=shares).drop(columns="replay")


def units_below():
    table = wide()
    units = {"n_params": "M", "tokens": "B", "replay": "%"}
    shown = table.assign(
        n_params=table["n_params"] / 1e6, tokens=table["tokens"] / 1e9, replay=100 * table["replay"]
    ).astype(object)
    first = pd.DataFrame([{name: units.get(name, "") for name in table.columns}])
    return "CPT sweep, final losses\n" + pd.concat([first, shown]).to_csv(index=False)


def keyed():
    return json.dumps({row.pop("run"): row for row in wide().to_dict("records")})


TABLES = (
    Messy("rr.csv", of(rr()), {"replay": "rr"}, ("rr",)),
    Messy("complement.csv", of(complement()), {"replay": "1-data.ja_frac"}, ("data.ja_frac",)),
    Messy("percent.csv", of(percent()), {"replay": "old_ratio%"}, ("old_ratio",)),
    Messy("percent_of_new.csv", of(percent_of_new()), {"replay": "1-alpha%"}, ("alpha",)),
    Messy("per_parameter.csv", of(per_parameter()), {"tokens": "tok_per_param*n_params"}, ("tok_per_param",)),
    Messy("compute.csv", of(compute()), {"tokens": "budget/(6*n_params)"}, ("budget",)),
    Messy("billions.csv", of(billions()), {"tokens": "D_cpt:B"}, ("D_cpt",)),
    Messy(
        "all_at_once.csv",
        of(all_at_once()),
        {"replay": "p_old", "tokens": "D_cpt:B", "ptpp": "PT/N"},
        ("p_old", "D_cpt", "PT/N"),
    ),
    Messy("deltas.csv", of(deltas()), refused=True),
    Messy("table.md", text(markdown())),
    Messy("pandas.json", lambda path: truth().to_json(path)),
    Messy("keyed.json", text(keyed())),
    Messy("with_mean.csv", of(with_mean())),
    Messy("plus_minus.csv", of(plus_minus())),
    Messy("parts.csv", of(parts()), {"replay": "1-new_to_old"}, ("new_to_old",)),
    Messy("units_below.csv", text(units_below())),
    Messy("utf16.csv", lambda path: truth().to_csv(path, index=False, encoding="utf-16")),
    Messy("sheet.xlsx", lambda path: wide().to_excel(path, index=False)),
)
