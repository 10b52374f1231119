"""Tables in the shapes in which people publish them, brought to one row per measured loss before they are read."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.reading import flatten
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.corpora import MAPPING, OFF
from cptlaw.runs.naming import Naming, is_number
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import MIX, canonical_name, corpus_of, mix_columns

LEAST_AMOUNTS = 3  # columns named by numbers that make a table one with a column for each amount of data
LEAST_TOKENS = 1000  # what a table counts in smaller numbers are no tokens
LEAST_SIZE = 1e4  # parameters; a column of smaller numbers that is called size counts something else
JOINED = re.compile(r"\d*\.?\d+(?:\s*[-_/:;|,]\s*\d*\.?\d+)+")
VALUE = "value"  # where tables of losses and scores keep the scores
BETWEEN = re.compile(r"\s*[-_/:;|,]\s*")
# What names a run whose table counts steps and has no column for it.
SETTINGS = ("n_params", "replay", "ptpp", "pt_tokens", "lr_peak", "lr_schedule", "seed", "batch_tokens")


def unnested(raw: RawTable) -> RawTable:
    """Return a table whose objects within objects, as of a trainer's settings, are columns with their names joined."""
    frame = raw.frame
    if not frame.columns.is_unique:  # which is complained of when its columns are named
        return raw
    nested = [
        name
        for name in frame.columns
        if frame[name].dtype == object and name != MAPPING and any(isinstance(value, dict) for value in frame[name])
    ]
    if not nested:
        return raw
    columns: dict[str, pd.Series] = {}
    for name in frame.columns:
        cells = [flatten(value, str(name)) for value in frame[name]] if name in nested else []
        for inner in dict.fromkeys(key for cell in cells for key in cell) if name in nested else [name]:
            if inner in columns:
                raise DataError(f"{raw.label}: column {inner!r} is there nested and by itself. Rename one of them.")
            columns[inner] = pd.Series([cell.get(inner) for cell in cells], index=frame.index) if cells else frame[name]
    return replace(raw, frame=pd.DataFrame(columns, index=frame.index))


def by_amount(raw: RawTable, naming: Naming) -> tuple[RawTable, tuple[str, ...]]:
    """Return a table with one row per loss, of one with a column of losses for each amount of data.

    Its columns are named by numbers: adaptation tokens or, where they are as few as examples are, steps, whose tokens
    the user says. Each of its rows is a run.
    """
    names = [str(name) for name in raw.frame.columns]
    amounts = [name for name in names if is_number(name) and float(name) >= 0]
    # A file without a header has numbers for names too, in its first column as well.
    headed = len(amounts) < len(names) and names[0] not in amounts
    if {"loss", "tokens", "step"} & set(naming.file_columns) or len(amounts) < LEAST_AMOUNTS or not headed:
        return raw, ()
    rest = raw.frame.drop(columns=amounts)
    if "run" not in naming.file_columns:
        texts = [name for name in _texts(rest) if hashable(rest[name]).is_unique]
        rest = rest.assign(run=rest[texts[0]] if texts else [f"row-{row}" for row in rest.index])
    few = any(0 < float(name) < LEAST_TOKENS for name in amounts)
    parts = [rest.assign(**{"step" if few else "tokens": float(name)}, loss=raw.frame[name]) for name in amounts]
    frame = pd.concat(parts).sort_index(kind="stable")
    note = (
        f"one column of losses for each amount of data: {amounts[0]}, {amounts[1]} .. {amounts[-1]} are read as "
        f"{'steps of one example (--columns batch_tokens=TOKENS OF ONE)' if few else 'tokens'}, each row as a run"
    )
    return replace(raw, frame=frame[frame["loss"].notna()]), (note,)


def _texts(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]


def parameters_in(frame: pd.DataFrame, naming: Naming) -> dict[str, str]:
    """Return the column that counts parameters where it is called size and nothing else counts them."""
    if "n_params" in naming.file_columns:
        return {}
    for name in frame.columns:
        if str(name).strip().lower() == "size":
            values, unreadable = to_numbers(frame[name])
            if not unreadable.any() and len(values) and np.nanmin(values) >= LEAST_SIZE:
                return {"n_params": str(name)}
    return {}


def values_beside_losses(raw: RawTable, naming: Naming) -> tuple[RawTable, tuple[str, ...]]:
    """Return a table with its scores in the column of losses, of one that has them in a column ``value`` beside it."""
    taken = naming.file_columns
    if not {"loss", "metric"} <= set(taken) or VALUE not in raw.frame.columns or VALUE in taken.values():
        return raw, ()
    loss, value = raw.frame[taken["loss"]], raw.frame[VALUE]
    told = loss.isna() & value.notna() & raw.frame[taken["metric"]].notna()
    if not told.any():
        return raw, ()
    note = f"{int(told.sum())} rows have no {taken['loss']!r} and a metric: theirs is read from {VALUE!r}"
    filled = loss.astype(object).where(~told, value)
    return replace(raw, frame=raw.frame.assign(**{taken["loss"]: filled})), (note,)


def joined_shares(raw: RawTable, naming: Naming) -> tuple[RawTable, tuple[str, ...]]:
    """Return a table with a column ``mix_NAME`` for each corpus, of one that joins the shares, as in ``0.25-0.75``.

    The shares have no names there. Where there are as many evals as shares, each share is that of the eval whose loss
    falls with it; else the table stays as it is, and its reader is told what to write.
    """
    frame = raw.frame
    if mix_columns(naming.file_columns) or MAPPING in frame.columns or "replay" in naming.file_columns:
        return raw, ()
    for name in _texts(frame):
        if name in naming.file_columns.values():
            continue
        shares = _split(frame[name])
        if shares is None:
            continue
        columns = _named(frame, shares, naming)
        if columns is None:
            return raw, (f"column {name!r} holds shares without their corpora: give each a column mix_NAME",)
        read = ", ".join(f"{corpus_of(column)} {place + 1}." for column, place in _places(columns, shares).items())
        note = f"column {name!r} holds the shares of the mix, named after the eval whose loss falls with each: {read}"
        return replace(raw, frame=frame.assign(**columns)), (note,)
    return raw, ()


def _split(column: pd.Series) -> list[tuple[float, ...]] | None:
    """Return the shares that each field joins, or ``None`` where a field is no mix."""
    by_text: dict[str, tuple[float, ...]] = {}
    texts = [str(value).strip() for value in column]
    for text in dict.fromkeys(texts):
        if JOINED.fullmatch(text) is None:
            return None
        by_text[text] = tuple(float(part) for part in BETWEEN.split(text))
        if abs(sum(by_text[text]) - 1.0) > OFF:
            return None
    return [by_text[text] for text in texts] or None


def _named(frame: pd.DataFrame, shares: list[tuple[float, ...]], naming: Naming) -> dict[str, np.ndarray] | None:
    """Return the shares by the names of their corpora, each group of mixes of as many corpora by itself."""
    taken = naming.file_columns
    if not {"eval", "loss"} <= set(taken):
        return None
    evals, losses = np.array([str(name) for name in frame[taken["eval"]]]), to_numbers(frame[taken["loss"]])[0]
    # Sizes and lengths move the loss by more than mixes do: only rows alike in them are compared.
    scales = [taken[name] for name in ("n_params", "tokens", "step") if name in taken]
    counts = np.array([len(one) for one in shares])
    found: dict[str, np.ndarray] = {}
    for k in np.unique(counts):
        rows = counts == k
        table = np.array([one for one in shares if len(one) == k])
        order = _order(frame.loc[rows, scales], evals[rows], losses[rows], table)
        if order is None:
            return None
        for place, corpus in enumerate(order):
            column = found.setdefault(str(canonical_name(MIX + corpus)), np.full(len(frame), np.nan))
            column[rows] = table[:, place]
    return found


def _order(scales: pd.DataFrame, evals: np.ndarray, losses: np.ndarray, table: np.ndarray) -> list[str] | None:
    """Return the name of each share's corpus, or ``None`` where the losses do not tell."""
    names = list(dict.fromkeys(evals))
    if len(names) != table.shape[1]:
        return None
    keys = [scales[name].to_numpy() for name in scales.columns]
    slopes = np.zeros((len(names), table.shape[1]))
    for i, name in enumerate(names):
        own = evals == name
        groups = [key[own] for key in keys] or [np.zeros(own.sum())]
        alike = pd.DataFrame(table[own]).assign(loss=np.log(losses[own])).groupby(groups)
        within = alike.transform(lambda values: values - values.mean())
        spread = within.std().to_numpy() + 1e-12
        moved = within.drop(columns="loss").mul(within["loss"], axis=0).mean().to_numpy()
        slopes[i] = moved / spread[:-1] / spread[-1]
    from scipy.optimize import linear_sum_assignment  # few tables need it, and it takes long to load

    # All shares at once: a loss may fall with two of them, as that of books does with web text.
    of_eval, places = linear_sum_assignment(slopes)
    if slopes[of_eval, places].max() >= 0:
        return None
    by_place = dict(zip(places.tolist(), of_eval.tolist(), strict=True))
    return [names[by_place[place]] for place in range(len(names))]


def _places(columns: dict[str, np.ndarray], shares: list[tuple[float, ...]]) -> dict[str, int]:
    """Return which share of the longest mixes is which corpus, for the note on it."""
    row = int(np.argmax([len(one) for one in shares]))
    left = list(enumerate(shares[row]))
    found = {}
    for name, values in columns.items():
        place = next((place for place in left if place[1] == values[row]), None)
        if place is not None:
            left.remove(place)
            found[name] = place[0]
    return found


def runs_of_steps(raw: RawTable, naming: Naming) -> tuple[RawTable, tuple[str, ...]]:
    """Return a table of checkpoints with a column ``run`` where it has none: rows that differ in their steps alone.

    Without it every checkpoint would count as a run, and runs are what doubt is counted in.
    """
    taken, frame = naming.file_columns, raw.frame
    if "run" in taken or "step" not in taken or "eval" not in taken:
        return raw, ()
    read = set(taken.values())
    texts = [name for name in _texts(frame) if name not in read]
    shares = () if texts else mix_columns(taken)  # a text beside them names the mix, or joins its shares
    settings = [*texts, *(taken[name] for name in (*SETTINGS, *shares) if name in taken)]
    told = frame[list(dict.fromkeys([*settings, taken["eval"], taken["step"]]))].apply(hashable)
    if not settings or told.duplicated().any() or not told.duplicated([*settings, taken["eval"]]).any():
        return raw, ()
    varied = [name for name in settings if told[name].nunique() > 1] or settings[:1]
    names = [" ".join(str(part) for part in row) for row in told[varied].itertuples(index=False)]
    listed = ", ".join(map(repr, varied))
    return replace(raw, frame=frame.assign(run=names)), (f"no column 'run': rows alike in {listed} are one run",)
