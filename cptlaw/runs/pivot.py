"""Pivot tables: a column of losses for each amount of data or share of replay, below one or two lines of names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.numbers import Floats
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.schema import canonical_name
from cptlaw.units import parse_quantity

LEAST_AMOUNTS = 3  # columns named by numbers that make a table one with a column for each amount of data
LEAST_TOKENS = 1000  # what a table counts in smaller numbers are no tokens
BETWEEN_LEVELS = " / "
_BETWEEN = re.compile(r" / |\s*@\s*| at ")
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
    >>> header_of_two([["model", "", "loss", ""], ["N", "D", "en", "fr"], ["1B", "2B", "2.1", "2.9"]])
    (['N', 'D', 'en loss', 'fr loss'], 2)
    """
    if not _may_be_header(lines[:3]):
        return None
    first, second, third = ([str(cell or "").strip() for cell in line] for line in lines[:3])
    # Empty above the names of the rows' own columns, of which pandas writes one on a line of its own.
    own = max(1, next((place for place, cell in enumerate(first) if cell and place), 1))
    below = third[0] and not any(third[1:])  # pandas names the rows on a line of their own
    if not _are_names(first, second, own) or not (below or _has_numbers(third[1:])):
        return None
    of_rows = [third[0] if below else second[0] or first[0], *second[1:own]]
    names = _names_of_amounts(first[own:], second[own:], of_rows)
    if not names and not below:
        names = _names_in_groups(first, second, own)
    return (names, 3 if below else 2) if names and len(set(names)) == len(names) else None


def _may_be_header(lines: Sequence[Sequence[str]]) -> bool:
    """Whether there are three lines of as many cells, enough of them for amounts."""
    return len(lines) == 3 and len({len(line) for line in lines}) == 1 and len(lines[0]) >= LEAST_AMOUNTS


def _names_of_amounts(first: list[str], second: list[str], of_rows: list[str]) -> list[str]:
    """Return the names of columns, those of rows before them, where all but these are amounts; else nothing."""
    names = [f"{above}{BETWEEN_LEVELS}{name}" for above, name in _under(first, second)]
    return [*of_rows, *names] if all(amount_of(name) is not None for name in names) else []


def _names_in_groups(first: list[str], second: list[str], own: int) -> list[str]:
    """Return the names of columns in groups, of which one may say that all below it are losses; nothing for others."""
    if not all(second) or _has_numbers(second) or all(first[own:]):
        return []
    return [f"{name} loss" if "loss" in above.lower() else name for above, name in _under(first, second)]


def _under(first: list[str], second: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of columns, each with that of the group above it."""
    over = ""
    for above, name in zip(first, second, strict=True):
        over = above or over
        yield over, name


def _are_names(above: list[str], names: list[str], own: int) -> bool:
    """Whether names stand over several columns: written once, with nothing beside it, or over each."""
    spans = len({*above[own:]} - {""}) <= (len(above) - own) / 2
    return spans and len([cell for cell in names if cell]) >= len(names) - 1 and not _has_numbers(names[:own])


def _has_numbers(cells: list[str]) -> bool:
    return any(_quantity(cell) is not None for cell in cells)


def amount_of(name: str) -> Amount | None:
    """Read the name of a column as an amount, perhaps with an eval before or behind it.

    Examples
    --------
    >>> amount_of("2B tokens").value, amount_of("fr / 25%"), amount_of("loss")
    (2000000000.0, Amount(name='fr / 25%', value=0.25, eval='fr', is_share=True, per_param=False), None)
    """
    per_param = _PER_PARAM.search(name) is not None
    parts = _BETWEEN.split(_PER_PARAM.sub("", name))
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

    Amounts are adaptation tokens, tokens per parameter or, where they are as few as examples are, samples. Each row is
    a run, unless the columns are shares, of which each run has one.
    """
    amounts = [one for one in map(amount_of, map(str, raw.frame.columns)) if one is not None]
    if not _is_pivot(raw, amounts):
        return raw
    shares, kind, size = _what_is_counted(raw, amounts)
    rest = _rows_of_pivot(raw, amounts, shares)
    parts = [
        rest.assign(**{kind: one.value * size}, **({"eval": one.eval} if one.eval else {}), loss=raw.frame[one.name])
        for one in amounts
    ]
    frame = pd.concat(parts, keys=[one.name for one in amounts])
    frame = frame.sort_index(level=1, sort_remaining=False, kind="stable")
    # Rows are told apart by their labels, so that each loss needs one of its own.
    frame.index = pd.Index([f"{row}, column {name}" for name, row in frame.index], name=ROW)
    note = (
        f"one column of losses for each amount of data: {amounts[0].name}, {amounts[1].name} .. {amounts[-1].name} are "
        f"read as {kind}{' and evals' * (len({one.eval for one in amounts}) > 1)}{', each row as a run' * (not shares)}"
    )
    return raw.reshaped(frame[frame["loss"].notna()], note)


def _are_shares(amounts: Sequence[Amount]) -> bool:
    return all(one.is_share or one.value == 0 for one in amounts) and any(one.is_share for one in amounts)


def _is_pivot(raw: RawTable, amounts: Sequence[Amount]) -> bool:
    """Whether columns are called by amounts, enough of them, and nothing else counts these."""
    counted = {"loss", "replay"} if _are_shares(amounts) else {"loss", "tokens", "step", "samples"}
    # Names that say what they count, or have an eval beside, are no numbers by chance.
    sure = len({one.eval for one in amounts}) > 1 or all(_counts(one.name) for one in amounts)
    enough = len({one.value for one in amounts}) >= (2 if sure else LEAST_AMOUNTS)
    # A file without a header has numbers for names too, in its first column as well.
    headed = len(amounts) < raw.frame.shape[1] and amount_of(str(raw.frame.columns[0])) is None
    return enough and headed and not counted & set(raw.taken)


def _what_is_counted(raw: RawTable, amounts: Sequence[Amount]) -> tuple[bool, str, Floats | float]:
    """Return whether amounts are shares, the column that they are of, and what they are multiplied by."""
    if _are_shares(amounts):
        return True, "replay", 1.0
    if all(one.per_param or one.value == 0 for one in amounts) and "n_params" in raw.taken:
        return False, "tokens", to_numbers(raw.frame[raw.taken["n_params"]])[0]
    few = any(0 < one.value < LEAST_TOKENS for one in amounts)
    return False, "samples" if few else "tokens", 1.0


def _rows_of_pivot(raw: RawTable, amounts: Sequence[Amount], shares: bool) -> pd.DataFrame:
    """Return what stands beside the losses of each row, its corner named after the rows alone."""
    rest, first = raw.frame.drop(columns=[one.name for one in amounts]), str(raw.frame.columns[0])
    corner = _OF_ROWS_AND_COLUMNS.split(first)[0].strip()
    if canonical_name(first) is None and canonical_name(corner) is not None:
        rest = rest.rename(columns={first: corner})
    if "run" not in raw.taken and not shares:
        texts = [name for name in texts_of(rest) if hashable(rest[name]).is_unique and canonical_name(name) is None]
        rest = rest.assign(run=rest[texts[0]] if texts else [f"row-{row}" for row in rest.index])
    return rest


def texts_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that hold no numbers."""
    return [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
