"""Base models that people continue, by the names and Hugging Face ids that they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.runs.convert import texts_in
from cptlaw.runs.raw_table import RawTable
from cptlaw.units import parse_quantity

# What a name says of post-training, and what versions and families put around the name of a base model.
_POST_TRAINED = re.compile(r"[-_](?:instruct|it|chat|sft|dpo|rlvr|rl|think|thinking|reasoning|nothink)(?=[-_]|$)", re.I)
_AROUND = re.compile(r"^(?:meta|nvidia|hf)-|-(?:hf|base|pt|deduped|bf16)(?=-|$)")
_VERSION = re.compile(r"-v\d+(?:\.\d+)*$")
_SIZE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[MB](?![A-Za-z0-9])", re.IGNORECASE)  # as in my-model-350M
MOST_MODELS = 40  # names in a column; more name runs


def bases() -> pd.DataFrame:
    """Return the known open base models, one a row.

    Returns
    -------
    DataFrame
        name, hugging_face (ids, the first one the base model's own), n_params (all of them, those of idle experts too),
        n_active (those that a token passes; of a dense model all), pt_tokens and ptpp (NaN where the tokens are not
        published), lr_pretrain (likewise), public_text (whether anybody can have its text: yes or no), source.

    Examples
    --------
    >>> float(bases().set_index("name").loc["llama-3.1-8b", "lr_pretrain"])
    0.0003
    """
    listed = pd.read_csv(Path(__file__).with_name("bases.csv"))
    listed["n_active"] = listed["n_active"].fillna(listed["n_params"])
    listed.insert(5, "ptpp", listed["pt_tokens"] / listed["n_params"])
    return listed


def known_model(name: str, listed: pd.DataFrame) -> tuple[Mapping[str, Any], bool] | None:
    """Return the row of a model that a name means and whether it is the base model itself; ``None`` if none is known.

    Parameters
    ----------
    name
        A name of the list, an id on Hugging Face, or one near to them; that of a post-trained model means its base.
    listed
        What `bases` returns.

    Examples
    --------
    >>> row, is_base = known_model("Qwen/Qwen2.5-1.5B-Instruct", bases())
    >>> row["name"], is_base, known_model("my-model", bases())
    ('qwen2.5-1.5b', False, None)
    """
    exact: dict[str, int] = {}
    loose: dict[str, int] = {}
    own = listed["name"].tolist()
    rows = [dict(zip(listed.columns, row, strict=True)) for row in listed.itertuples(index=False, name=None)]
    for place, ids in enumerate(listed["hugging_face"].str.split()):
        exact |= {one.lower(): place for one in [own[place], *ids]}
        loose |= {_plain(one): place for one in [*ids[::-1], own[place]]}
    asked = name.strip().lower()
    if asked in exact:
        return rows[exact[asked]], True
    without = _POST_TRAINED.sub("", asked)
    for one in (_plain(without), _VERSION.sub("", _plain(without))):
        if one in loose:
            row = rows[loose[one]]
            model = str(row["hugging_face"]).split()[0]
            return row, without == asked and not ("/" in asked and _is_sibling(asked, model))
    return None


def _plain(name: str) -> str:
    """Return a name without the organisation and what is put around it: Meta-Llama-3.1-8B is llama-3.1-8b."""
    plain = name.lower().rpartition("/")[2].replace("_", "-")
    return _AROUND.sub("", _AROUND.sub("", plain))


def _is_sibling(asked: str, model: str) -> bool:
    """Say whether an id is that of the post-trained model of the same organisation, whose base is called so."""
    organisation, _, tail = model.lower().rpartition("/")
    return asked.startswith(f"{organisation}/") and re.search(r"-(?:base|pt)(?=-|$)", tail) is not None


def models_named(raw: RawTable) -> RawTable:
    """Return a table with the sizes and budgets of its models, of one that gives their names and no sizes."""
    if "n_params" in raw.taken or not raw.free:
        return raw
    listed = None
    for name in raw.free:
        texts = texts_in(raw.frame[name])
        if not texts or len(texts) > MOST_MODELS or pd.api.types.is_numeric_dtype(raw.frame[name]):
            continue
        listed = bases() if listed is None else listed
        rows = {text: known[0] for text in texts if (known := known_model(text, listed)) is not None}
        sizes = {text: rows[text]["n_params"] if text in rows else _size_in(text) for text in texts}
        if None in sizes.values() or not (rows or "model" in name.lower()):
            continue
        columns = {"n_params": raw.frame[name].map(sizes)}
        if len(rows) == len(texts) and not {"ptpp", "pt_tokens"} & set(raw.taken):
            columns["pt_tokens"] = raw.frame[name].map({text: row["pt_tokens"] for text, row in rows.items()})
        said = "as published" if rows else "as in their names"
        note = f"{', '.join(columns)}: of the models that column {name!r} names, {said}"
        raw = raw.reshaped(raw.frame.assign(**columns), note)
        return replace(raw, accounted_for=raw.accounted_for | {name})
    return raw


def _size_in(name: str) -> float | None:
    found = _SIZE.findall(name)
    return parse_quantity(found[0]) if len(found) == 1 else None
