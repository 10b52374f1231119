"""Pivot tables: a column of losses for each amount of data or share of replay, below one or two lines of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.schema import canonical_name
from cptlaw.units import parse_quantity

LEAST_AMOUNTS = 3  # columns named by numbers that make a table one with a column for each amount of data
LEAST_TOKENS = 1000  # what a table counts in smaller numbers are no tokens
BETWEEN_LEVELS = " / "
_WORDS = re.compile(r"\b(?:tokens?|toks?|replay|loss|steps?)\b|=", re.IGNORECASE)
_PER_PARAM = re.compile(r"\b(?:tok(?:en)?s?)?\s*(?:/|per)\s*param(?:eter)?s?\b|\btpp\b", re.IGNORECASE)
_OF_ROWS_AND_COLUMNS = re.compile(r"\s*[\\↓→]\s*|\s*/\s*|\s+(?:vs\.?|by)\s+")


@dataclass(frozen=True)
class Amount:
    """What the name of a column of a pivot table tells: how much of something, and of which eval."""

    name: str
    value: float
    eval: str
    is_share: bool
    per_param: bool


def header_of_two(lines: Sequence[Sequence[str]]) -> tuple[list[str], int] | None:
    """Return the names that two lines of a header give together, and how many lines it has; ``None`` for one line.

    Examples
    --------
    >>> header_of_two([["", "1B", "", "2B", ""], ["replay", "en", "fr", "en", "fr"], ["0.1", "2", "3", "2", "3"]])
    (['replay', '1B / en', '1B / fr', '2B / en', '2B / fr'], 2)
    """
    if len(lines) < 3 or len({len(line) for line in lines[:3]}) != 1 or len(lines[0]) < LEAST_AMOUNTS:
        return None
    first, second, third = ([str(cell or "").strip() for cell in line] for line in lines[:3])
    # Empty above the names of the rows' own columns, of which pandas writes one on a line of its own.
    own = max(1, next((place for place, cell in enumerate(first) if cell and place), 1))
    # One name over several columns: written once, with nothing beside it, or over each.
    spans = len({*first[own:]} - {""}) <= (len(first) - own) / 2
    words = [cell for cell in second if cell]
    if not spans or len(words) < len(second) - 1 or any(_quantity(cell) is not None for cell in second[:own]):
        return None
    below = third[0] and not any(third[1:])  # pandas names the rows on a line of their own
    if not (below or any(_quantity(cell) is not None for cell in third[1:])):
        return None
    names, over = [third[0] if below else second[0] or first[0], *second[1:own]], ""
    for above, name in zip(first[own:], second[own:], strict=True):
        over = above or over
        names.append(f"{over}{BETWEEN_LEVELS}{name}")
    has_amounts = all(amount_of(name) is not None for name in names[own:])
    return (names, 3 if below else 2) if has_amounts and len(set(names)) == len(names) else None


def amount_of(name: str) -> Amount | None:
    """Read the name of a column as an amount, perhaps with an eval before or behind it.

    Examples
    --------
    >>> amount_of("2B tokens").value, amount_of("fr / 25%"), amount_of("loss")
    (2000000000.0, Amount(name='fr / 25%', value=0.25, eval='fr', is_share=True, per_param=False), None)
    """
    per_param = _PER_PARAM.search(name) is not None
    parts = _PER_PARAM.sub("", name).split(BETWEEN_LEVELS)
    values = [_quantity(part) for part in parts]
    known = [place for place, value in enumerate(values) if value is not None]
    if len(known) != 1 or len(parts) > 2:
        return None
    value = values[known[0]]
    rest = _WORDS.sub("", parts[1 - known[0]]).strip(" _-") if len(parts) == 2 else ""
    if value is None or value < 0:
        return None
    return Amount(name, value, rest, not per_param and value <= 1.0 and (value > 0 or "%" in name), per_param)


def _counts(name: str) -> bool:
    """Whether a name says what its number counts."""
    return _WORDS.search(name) is not None or _PER_PARAM.search(name) is not None


def _quantity(text: str) -> float | None:
    try:
        return parse_quantity(_WORDS.sub("", str(text)).strip())
    except CptlawError:
        return None


def by_amount(raw: RawTable) -> RawTable:
    """Return a table with one row per loss, of one with a column of losses for each amount of data or share of replay.

    Amounts are adaptation tokens or, where they are as few as examples are, samples. Each row is a run, unless the
    columns are shares, of which each run has one.
    """
    names = [str(name) for name in raw.frame.columns]
    amounts = [one for one in map(amount_of, names) if one is not None]
    shares = (
        bool(amounts) and all(one.is_share or one.value == 0 for one in amounts) and any(a.is_share for a in amounts)
    )
    counted = {"loss", "replay"} if shares else {"loss", "tokens", "step", "samples"}
    levels = {one.value for one in amounts}
    # A file without a header has numbers for names too, in its first column as well.
    headed = len(amounts) < len(names) and amount_of(names[0]) is None
    several = len({one.eval for one in amounts}) > 1
    least = 2 if several or all(_counts(one.name) for one in amounts) else LEAST_AMOUNTS
    if counted & set(raw.taken) or len(levels) < least or not headed:
        return raw
    rest = raw.frame.drop(columns=[one.name for one in amounts])
    corner = _OF_ROWS_AND_COLUMNS.split(names[0])[0].strip()
    if canonical_name(names[0]) is None and canonical_name(corner) is not None:
        rest = rest.rename(columns={names[0]: corner})
    if "run" not in raw.taken and not shares:
        texts = [name for name in texts_of(rest) if hashable(rest[name]).is_unique and canonical_name(name) is None]
        rest = rest.assign(run=rest[texts[0]] if texts else [f"row-{row}" for row in rest.index])
    size: Any = 1.0
    if per_param := all(one.per_param or one.value == 0 for one in amounts) and "n_params" in raw.taken:
        size = to_numbers(raw.frame[raw.taken["n_params"]])[0]
    few = any(0 < one.value < LEAST_TOKENS for one in amounts)
    kind = "replay" if shares else "samples" if few and not per_param else "tokens"
    parts = [
        rest.assign(**{kind: one.value * size}, **({"eval": one.eval} if one.eval else {}), loss=raw.frame[one.name])
        for one in amounts
    ]
    frame = pd.concat(parts, keys=[one.name for one in amounts])
    frame = frame.sort_index(level=1, sort_remaining=False, kind="stable")
    # Rows are told apart by their labels, so that each loss needs one of its own.
    frame.index = pd.Index([f"{row}, column {name}" for name, row in frame.index], name=ROW)
    what = f"{kind}{' and evals' if several else ''}"
    first = [one.name for one in amounts]
    note = (
        f"one column of losses for each amount of data: {first[0]}, {first[1]} .. {first[-1]} are read as "
        f"{what}{'' if shares else ', each row as a run'}"
    )
    return raw.reshaped(frame[frame["loss"].notna()], note)


def texts_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that hold no numbers."""
    return [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
