"""Tables as they stand in spreadsheets and messages: units below the header, lines of means, errors, failed runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.runs.convert import MISSING_WORDS, hashable, texts_in, to_numbers, with_cells
from cptlaw.runs.naming import loss_columns
from cptlaw.runs.question import NotUnderstoodError, as_flag
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.schema import canonical_name
from cptlaw.runs.tracker_names import AMOUNTS, PERCENT
from cptlaw.units import NUMBER, counted

MOST_SETTINGS, LEAST_KNOWN = 60, 3  # rows of a table that lies on its side, and of these by a name that is known
LEAST_MERGED = 6  # rows of a table with merged cells; in a small one an empty cell is a slip
LAST = 10  # rows at the end of a table, among which lines of means may be
SUMMARIES = frozenset("mean means average avg median std sd stdev total sum min max".split())
# What stands in the place of a loss that was not measured because the run did not come so far.
FAILED = frozenset(
    "oom failed crash crashed diverged killed timeout preempted running pending skipped error cancelled aborted".split()
)
_OTHER_UNITS = frozenset(
    "nat nats token tokens tok toks param params parameters step steps frac fraction bits per - id name text".split()
)
_ERROR = re.compile(rf"\s*({NUMBER})\s*(?:±|\+/-|\+-|\\pm)\s*{NUMBER}\s*|\s*({NUMBER})\s*(?:\([0-9.]+\)|[*†‡]+)\s*")
_PARTS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%?\s*(:|/|to)\s*(\d+(?:\.\d+)?)\s*%?\s*")
FEW = 10  # one row in so many may lack its loss, before the table is taken to be damaged
_PARTED = 0.5  # percent by which two parts of a whole may miss a hundred


def upright(raw: RawTable) -> RawTable:
    """Return a table with a run in each row, of one that has a run in each column and a setting in each row."""
    frame = raw.frame
    if not 2 < len(frame) <= MOST_SETTINGS or len(frame.columns) < 3 or not frame.columns.is_unique:
        return raw
    names = [str(name) for name in frame.iloc[:, 0]]
    known = [canonical_name(name) for name in names]
    if sum(name is not None for name in known) < LEAST_KNOWN or any(
        canonical_name(str(one)) for one in frame.columns[1:]
    ):
        return raw
    turned = frame.iloc[:, 1:].T.set_axis(names, axis=1).rename_axis(index=None)
    turned.insert(0, "run", turned.index.map(str))
    turned.index = pd.RangeIndex(len(turned), name=ROW)
    return raw.reshaped(turned.infer_objects(), "each column of the file is read as a run, and each row as a setting")


def filled_down(raw: RawTable) -> RawTable:
    """Return a table with the values of merged cells in each of their rows, of one that has them in the first alone."""
    frame, begins, columns = raw.frame, np.zeros(len(raw.frame), dtype=bool), dict[str, pd.Series]()
    for name in frame.columns if frame.columns.is_unique and len(frame) >= LEAST_MERGED else ():
        known = frame[name].notna().to_numpy(dtype=bool)
        if known.all() and not columns and hashable(frame[name]).is_unique:
            continue  # numbers of rows, or names of runs
        # Those to the left begin with each that they span.
        is_set = canonical_name(str(name)) not in ("run", "eval", "loss")
        if not is_set or not known[0] or 2 * known.sum() > len(frame) or (begins & ~known).any():
            break
        begins, columns[name] = known, frame[name].ffill()
    if not columns or len(columns) == len(frame.columns):
        return raw
    return raw.reshaped(frame.assign(**columns), f"cells below a value are read as that one: {join_names(columns)}")


def units_below(raw: RawTable) -> RawTable:
    """Return a table whose first row is data, of one that has the units of its columns there."""
    frame = raw.frame
    if len(frame) < 2 or not frame.columns.is_unique:
        return raw
    first = {str(name): frame[name].iloc[0] for name in frame.columns}
    if not all(isinstance(cell, str) or _is_missing(cell) for cell in first.values()):
        return raw  # a number, or a list
    units = {name: cell.strip() for name, cell in first.items() if isinstance(cell, str) and cell.strip()}
    known = {name: _unit(text) for name, text in units.items()}
    if (
        not units
        or None in known.values()
        or not any(np.isfinite(to_numbers(frame[name][1:2])[0]).all() for name in units)
    ):
        return raw
    # Of "M params" the first word scales, and the rest is what the column's own name says too.
    kept = {name: f"{name} ({units[name].strip('[]()').split()[0]})" for name, kind in known.items() if kind}
    rest = frame.iloc[1:].rename(columns=kept)
    return raw.reshaped(rest, f"the row below the header holds units: {join_names(kept.values() or units.values())}")


def _unit(text: str) -> str | None:
    """Return ``"scaled"`` for a unit that scales its numbers, nothing for another unit, ``None`` for what is none."""
    words = text.strip().strip("[]()").lower().split()
    first, rest = words[0] if words else "", set(words[1:])
    if rest <= _OTHER_UNITS and (first in AMOUNTS or first in PERCENT or first == "%"):
        return "scaled"
    return "" if set(words) <= _OTHER_UNITS or "/" in first else None


def without_summaries(raw: RawTable) -> RawTable:
    """Return a table without lines of means and the like, which are no runs."""
    frame = raw.frame
    texts = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    if not frame.columns.is_unique:
        return raw
    name = raw.taken.get("run") or (texts[0] if texts else None)
    if name is None or name not in texts:
        return raw
    # They stand at the end, or nobody would take them for what they are; a table of many rows is not gone through.
    of_end = np.zeros(len(frame), dtype=bool)
    of_end[-LAST:] = [str(cell).strip().strip("*_").lower() in SUMMARIES for cell in frame[name].iloc[-LAST:]]
    if not of_end.any() or of_end.sum() > max(1, len(frame) // 4):
        return raw
    names, lines = join_names(frame[name][of_end].map(repr)), ", ".join(map(str, frame.index[of_end][:4]))
    return raw.reshaped(frame[~of_end], f"left out as no runs: {names} (row {lines})")


def without_errors(raw: RawTable) -> RawTable:
    """Return a table whose numbers stand alone, of one that has their errors beside them, as in ``1.947 ± 0.007``."""
    return _mapped(
        raw, _ERROR, lambda match: match[1] or match[2], "errors and marks beside numbers are left out in {}"
    )


def parts_as_shares(raw: RawTable) -> RawTable:
    """Return a table with the first share of two, as in ``80:20``, ``80/20`` and ``4:1``, in columns of shares."""

    def share(match: re.Match[str]) -> float | None:
        first, whole = float(match[1]), float(match[1]) + float(match[3])
        # A slash may stand for a fraction; parts of a hundred are none.
        return first / whole if abs(whole - 100) <= _PARTED or (whole and match[2] != "/") else None

    result = _mapped(raw, _PARTS, share, "of the two shares in {} the first is read", whole=True)
    place = raw.taken.get("replay")
    if place is None or "replay" in (raw.columns or {}) or result.frame[place].equals(raw.frame[place]):
        return result
    choices = [f"replay={place}", f"replay=1-{place}"]
    first, other = choices if float(result.frame[place].mean()) <= 1 / 2 else choices[::-1]
    raise NotUnderstoodError(
        f"{raw.label}: column {place!r} holds both parts of the mix, as in {raw.frame[place].dropna().iloc[0]!r}. Say "
        f"{as_flag(choices[0])} if the first is the old text's, {as_flag(choices[1])} if the second is.",
        [first, other],
    )


def _mapped(
    raw: RawTable, form: re.Pattern[str], value: Callable[[re.Match[str]], object], note: str, whole: bool = False
) -> RawTable:
    """Return a table with the cells of a form replaced: in each column, or in shares that have no other cells."""
    texts, columns = raw.naming.text_columns, {}
    # A base model has no mix of its own.
    tokens = raw.taken.get("tokens")
    untrained = np.zeros(len(raw.frame), dtype=bool) if tokens is None else ~(to_numbers(raw.frame[tokens])[0] > 0)
    shares = [*raw.free, *([raw.taken["replay"]] if "replay" in raw.taken else [])]
    for name in shares if whole else map(str, raw.frame.columns):
        cells = raw.frame[name]
        if name in texts or pd.api.types.is_numeric_dtype(cells):
            continue
        said = [cell for cell in texts_in(cells) if cell.strip().lower() not in MISSING_WORDS]
        known = {cell.strip(): form.fullmatch(cell) for cell in said}
        read = {cell: value(match) for cell, match in known.items() if match}
        unread = len(read) < len(known) or None in read.values()
        if not read or (whole and (unread or any(map(_says_nothing, cells[~untrained])))):
            continue
        columns[name] = with_cells(cells, read)
    if not columns:
        return raw
    return raw.reshaped(raw.frame.assign(**columns), note.format(join_names(map(repr, columns))))


def without_failed(raw: RawTable) -> RawTable:
    """Return a table without the losses of runs that did not come so far: a word such as OOM stands for them.

    Or nothing, in a few rows of many; a slip in a small table is complained of.
    """
    long = raw.taken.get("loss")
    places = [long] if long is not None else list(loss_columns(map(str, raw.frame.columns)).values())
    columns, words, left, count = {}, dict[str, None](), np.ones(len(raw.frame), dtype=bool), 0
    for name in places:
        cells = raw.frame[name]
        failed = np.zeros(len(cells), dtype=bool)
        if not pd.api.types.is_numeric_dtype(cells):
            failed = np.array([isinstance(cell, str) and cell.strip().strip(".").lower() in FAILED for cell in cells])
            words |= dict.fromkeys(cell.strip() for cell in cells[failed])
        if long is not None:
            empty = cells.isna().to_numpy(dtype=bool) & ~failed
            if 0 < empty.sum() <= len(cells) // FEW:
                failed |= empty
                words["nothing"] = None
        if failed.any() and not failed.all():
            columns[name] = cells.mask(failed, None)
            left, count = left & ~failed, count + int(failed.sum())
    if not columns:
        return raw
    frame = raw.frame[left] if long is not None else raw.frame.assign(**columns)
    return raw.reshaped(frame, f"left out: {counted(count, 'loss', 'losses')} that say {join_names(map(repr, words))}")


def without_unfinished(raw: RawTable) -> RawTable:
    """Return a table without the runs whose column of states says that they did not finish."""
    for name in raw.free:
        if name.strip().lower().rpartition(".")[2] not in ("state", "status"):
            continue
        states = raw.frame[name].map(lambda cell: str(cell).strip().lower())
        failed = states.isin(FAILED).to_numpy()
        if failed.any() and not failed.all():
            said = join_names(map(repr, sorted(states[failed].unique())))
            note = f"left out: {failed.sum()} rows of runs whose {name!r} is {said} (--all-runs keeps them)"
            return raw.reshaped(raw.frame[~failed], note)
    return raw


def _is_missing(cell: Any) -> bool:
    return cell is None or (pd.api.types.is_scalar(cell) and bool(pd.isna(cell)))


def _says_nothing(cell: object) -> bool:
    return _is_missing(cell) or str(cell).strip().lower() in MISSING_WORDS
