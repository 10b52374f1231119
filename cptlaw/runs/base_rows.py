"""Base models that stand beside their runs, as in a column ``base_source_loss``: made into rows at tokens 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.runs.convert import hashable, row_codes, to_numbers
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.tracker_names import words_of
from cptlaw.units import counted

# Words that make a name that of a loss before training, where the rest of it is the name of another column of losses.
BASE_WORDS = frozenset("base before initial init start pretrained pt zero".split())
END_WORDS = frozenset("after final end last cpt post".split())  # of the losses of runs beside them
# What tells base models apart, and what else a row may keep where all runs of a base model have it alike.
OF_BASE = ("n_params", "n_params_non_embedding", "ptpp", "pt_tokens", "lr_pretrain", "vocab_added", "eval")
BESIDE = ("method", "tokenizer", "metric", "n_params_kind")


def base_columns(names: list[str], losses: list[str]) -> dict[str, str]:
    """Return the columns that hold base models' losses: column -> the column with those of their runs.

    Examples
    --------
    >>> base_columns(["source_loss", "base_source_loss", "fr_loss", "base"], ["source_loss", "fr_loss"])
    {'base_source_loss': 'source_loss'}
    >>> base_columns(["en loss before", "en loss after"], ["en loss after"])
    {'en loss before': 'en loss after'}
    """
    words = {name: words_of(name) for name in [*names, *losses]}
    own = {loss: words[loss] - END_WORDS or words[loss] for loss in losses}
    return {
        name: loss
        for loss in losses
        for name in names
        if name != loss and own[loss] < words[name] and words[name] - own[loss] <= BASE_WORDS
    }


def named_bases(raw: RawTable) -> RawTable:
    """Return a table with base models at tokens 0, of one that calls rows without tokens by such a name."""
    if not {"run", "tokens"} <= raw.taken.keys():
        return raw
    places = [raw.taken[name] for name in ("run", "tokens")]
    tokens = to_numbers(raw.frame[places[1]])[0]
    is_base, stated = np.isnan(tokens), tokens == 0
    run = hashable(raw.frame[places[0]]).astype(object)
    if stated.any():
        return _told_apart(raw, run.where(stated & ~run.isin(run[~stated])))
    if not is_base.any() or is_base.all():
        return raw
    is_base[is_base] = [bool(BASE_WORDS & words_of(str(name))) for name in run[is_base]]
    if not is_base.any():
        return raw
    # One name for all base models would make them one run.
    names = run.where(~is_base | ~run.duplicated(keep=False), [f"{name} ({row})" for row, name in run.items()])
    frame = raw.frame.assign(**{places[0]: names, places[1]: raw.frame[places[1]].astype(object).where(~is_base, 0)})
    return raw.reshaped(frame, f"{counted(int(is_base.sum()), 'row')} without tokens, base models by name: tokens 0")


def _told_apart(raw: RawTable, run: pd.Series) -> RawTable:
    """Return a table whose base models of several sizes or budgets are runs of their own, whatever they are called.

    So are the losses of one base model beside runs on several corpora, as its loss on each stands once a corpus.

    Parameters
    ----------
    run
        The names of the runs that have rows at tokens 0 alone, missing elsewhere.
    """
    keys = [raw.taken[name] for name in (*OF_BASE, "domain") if name in raw.taken and name != "eval"]
    if not keys or not run.notna().any():
        return raw
    values = pd.DataFrame({name: to_numbers(raw.frame[name])[0] for name in keys}, index=run.index)
    if "domain" in raw.taken:
        corpus = pd.Series(pd.factorize(hashable(raw.frame[raw.taken["domain"]]))[0], index=run.index)
        values[raw.taken["domain"]] = corpus.where(corpus >= 0)
    several = run.isin(run[(values.groupby(run).transform("nunique") > 1).any(axis=1)].dropna())
    if not several.any():
        return raw
    place, model = raw.taken["run"], row_codes(values)
    own = [f"{name} ({code})" for name, code in zip(run, model, strict=True)]
    frame = raw.frame.assign(**{place: raw.frame[place].astype(object).where(~several, own)})
    count = len(np.unique(model[several]))
    return raw.reshaped(frame, f"{count} base models of one name are told apart by {join_names(keys)}")


def base_rows(raw: RawTable, losses: Mapping[str, str] | None) -> RawTable:
    """Return a table with a row at tokens 0 for each base model, of one that has their losses beside those of runs."""
    taken = raw.taken
    counted = [name for name in ("tokens", "samples") if name in taken]
    places = list(losses.values()) if losses else [taken["loss"]] if "loss" in taken else []
    known = {*taken.values(), *places}
    pairs = base_columns([name for name in map(str, raw.frame.columns) if name not in known], places)
    if not pairs or not counted or (to_numbers(raw.frame[taken[counted[0]]])[0] == 0).any():
        return raw
    rest = raw.frame.drop(columns=[*pairs])
    parts = [rest, *(_base_model_rows(raw, rest, base, loss, places) for base, loss in pairs.items())]
    models = sum(len(part) for part in parts[1:])
    said = ", ".join(f"{base!r} beside {loss!r}" for base, loss in pairs.items())
    frame = pd.concat([part.astype(object) for part in parts]) if models else rest
    return raw.reshaped(frame, f"losses of base models, read as {models} rows at tokens 0: {said}")


def _base_model_rows(raw: RawTable, rest: pd.DataFrame, base: str, loss: str, places: list[str]) -> pd.DataFrame:
    taken, stated = raw.taken, raw.frame[raw.frame[base].notna()]
    keys = [taken[name] for name in OF_BASE if name in taken]
    if "domain" in taken and stated[taken["domain"]].nunique() > 1:
        # A loss of its own on each corpus is one of that corpus; the old text's is the same, whichever was learned.
        keys += [taken["domain"]] if _levels(stated, keys, base) == _levels(stated, keys, taken["domain"], base) else []
    model = row_codes(stated[[*keys, base]])
    first = ~pd.Series(model).duplicated().to_numpy()
    free = [name for name in raw.free if name in rest.columns and name not in places]
    beside = [name for name in (*free, *(taken[one] for one in BESIDE if one in taken)) if name not in keys]
    rows = stated.loc[first, keys].copy()
    for name in beside:
        alike = hashable(stated[name]).groupby(model).nunique(dropna=False).to_numpy() == 1
        rows[name] = stated.loc[first, name].where(alike[model[first]])
    # What measures progress is 0 before any; which run, rate or mix comes later is not told.
    rows = rows.assign(**{taken[name]: 0 for name in ("tokens", "samples", "step") if name in taken})
    rows[loss] = stated.loc[first, base]
    if "run" in taken:
        rows[taken["run"]] = [f"base of {run}" for run in stated.loc[first, taken["run"]]]
    # Rows are told apart by their labels.
    rows.index = pd.Index([f"{row}, column {base}" for row in stated.index[first]], name=ROW)
    return rows.reindex(columns=rest.columns)


def _levels(frame: pd.DataFrame, keys: list[str], *others: str) -> int:
    return len(np.unique(row_codes(frame[[*keys, *others]])))
