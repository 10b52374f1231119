"""Mixes of k corpora in a table: a column ``mix_NAME`` for each corpus, or one column ``mix`` of mappings."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, MutableMapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.reading import plain_json
from cptlaw.runs.convert import to_numbers
from cptlaw.runs.naming import Naming
from cptlaw.runs.numbers import checked_numbers
from cptlaw.runs.problems import Problems
from cptlaw.runs.question import as_flag
from cptlaw.runs.schema import MIX, Column, canonical_name, column_of, corpus_of, mix_columns

MAPPING = "mix"
POOL = "unique_"  # and the name of a corpus: how many unique tokens there are of it
WORDS = "weights?|shares?|proportions?|fractions?|ratios?|portions?"  # for a share, where it is not mix_NAME
SHARES = (
    re.compile(rf"(?:{WORDS})[-_/. ](.+)$", re.IGNORECASE),
    re.compile(rf"(.+)[-_/. ](?:{WORDS})$", re.IGNORECASE),
)
OFF = 5e-3  # by which the shares of a mix may miss one: they are rounded when people write them
SAID_OFF = 1e-4  # from which the table is told that its shares were divided by their sum

Floats = npt.NDArray[np.float64]


def add_mix(
    data: MutableMapping[Hashable, object], frame: pd.DataFrame, naming: Naming, problems: Problems
) -> tuple[str, ...]:
    """Add the shares of the corpora to checked columns, in place, and return notes on them.

    Parameters
    ----------
    data
        Canonical columns, numbers as float64 arrays of shape (n,).

    Notes
    -----
    A field that is empty where other shares of the row add up to one is a share of zero. Rows of base models, and
    rows without any share, keep theirs empty. Shares are divided by their sum, which must be one up to rounding.
    """
    columns = {name: frame[naming.file_columns[name]] for name in mix_columns(naming.file_columns)}
    # Numbers in a column of that name are the share of one corpus, and no mapping.
    if not columns and MAPPING in frame.columns and to_numbers(frame[MAPPING])[1].any():
        columns = _shares_from_mappings(frame[MAPPING], problems)
    if not columns:
        return ()
    shares = pd.DataFrame(
        {name: checked_numbers(share, column_of(name), problems) for name, share in columns.items()}, index=frame.index
    )
    known = shares.notna().any(axis=1)
    sums = shares.sum(axis=1)
    if len(columns) == 1 and "replay" not in data and bool((sums[known] < 1.0 - OFF).any()):
        problems.add(*_share_of_one(str(shares.columns[0]), frame.columns))
        return ()
    filled = shares.where(~known, shares.fillna(0.0), axis=0)
    check_sums(filled, problems)
    data.update({name: np.asarray(filled[name] / sums.where(known & (sums > 0), 1.0), dtype=float) for name in shares})
    for corpus in (str(corpus_of(str(name))) for name in shares):
        if (pool := POOL + corpus) in frame.columns:
            column = Column(pool, f"unique tokens of the corpus {corpus}", positive=True, raw_count=True)
            data[pool] = checked_numbers(frame[pool], column, problems)
    notes = []
    if "replay" not in data and set(shares) == {MIX + "source", MIX + "target"}:
        data["replay"] = data[MIX + "source"]
        notes.append("replay: mix_source, as the mix is of source and target")
    if bool(((sums - 1.0).abs() > SAID_OFF)[known].any()):
        notes.append("mix: shares that miss one by their rounding are divided by their sum")
    return tuple(notes)


def _share_of_one(name: str, header: Iterable[object]) -> tuple[str, list[str]]:
    """Return what is asked where a mix names one of its corpora alone, and the choices."""
    place = next((str(one) for one in header if canonical_name(str(one)) == name), name)
    choices = [f"replay={place}", f"replay=1-{place}"]
    return (
        f"column {place!r} is the share of one corpus, and nothing says what the rest is. Say {as_flag(choices[0])} "
        f"where it is the old text, {as_flag(choices[1])} where it is the new one, or give each corpus a column "
        f"mix_NAME."
    ), choices


def check_sums(frame: pd.DataFrame, problems: Problems) -> None:
    """Add to the problems the rows whose shares do not add up to one."""
    names = mix_columns(frame.columns)
    if not names:
        return
    shares = frame[[*names]].to_numpy(dtype=float)
    sums = np.nansum(shares, axis=1)
    wrong = (np.abs(sums - 1.0) > OFF) & ~np.isnan(shares).all(axis=1)
    percent = bool(wrong.any()) and bool(np.all(np.abs(sums[wrong] - 100.0) < 1.0))
    where = f"the shares of {', '.join(str(corpus_of(name)) for name in names)}"
    remedy = "Give the share of every corpus of the mix; tokens become shares when divided by their sum."
    remedy = "Write 34% or 0.34 for 34 percent." if percent else remedy
    found = pd.Series(sums, index=frame.index)
    expected = "shares that add up to 1"
    problems.add_rows(where, found, wrong, expected, remedy, describe=lambda position: f"a sum of {sums[position]:.6g}")


def _shares_from_mappings(cells: pd.Series, problems: Problems) -> dict[str, pd.Series]:
    """Return a column for each corpus that is named in a column of mappings, JSON text among them."""
    rows: list[Mapping[str, object]] = []
    unread = np.zeros(len(cells), dtype=np.bool_)
    for i, value in enumerate(cells):
        mapping = _mapping(value)
        unread[i] = mapping is None
        rows.append(mapping or {})
    expected = 'a mapping from corpora to shares, such as {"code": 0.3, "web": 0.7}'
    remedy = "Write it as JSON, or give each corpus a column mix_NAME."
    problems.add_rows(f"column {MAPPING!r}", cells, unread, expected, remedy)
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {
        str(canonical_name(MIX + name)): pd.Series([row.get(name) for row in rows], cells.index, object, name)
        for name in names
    }


def _mapping(value: object) -> Mapping[str, object] | None:
    """Read one field: a mapping, JSON of one, or nothing; ``None`` where it is neither."""
    if isinstance(value, Mapping):
        return value
    if value is None or (isinstance(value, float) and np.isnan(value)) or not str(value).strip():
        return {}
    try:
        read = plain_json(str(value))
    except ValueError:
        return None
    return read if isinstance(read, dict) else None
