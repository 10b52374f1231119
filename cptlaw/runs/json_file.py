"""Reading JSON Lines, and JSON files that hold one list of records."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.commands import command_line
from cptlaw.errors import DataError, quote
from cptlaw.reading import plain_json, read_utf8
from cptlaw.runs.csv_file import EXACT
from cptlaw.runs.raw_table import ROW, RawTable

HEAD_OF_FIT = 1000  # bytes in which a fit says of which eval it is
_ADVICE = 'Expected one object per line, such as {"run": "a", "eval": "target", "loss": 2.3}.'


def read_json(path: Path, label: str) -> RawTable:
    """Read a file with one JSON object per line, or with one list of objects.

    Parameters
    ----------
    path
        The file, in UTF-8.

    Returns
    -------
    RawTable
        The index holds the line of each object, or for a list its position from 0.

    Raises
    ------
    DataError
        If the file is unreadable, truncated, or holds something else.
    """
    encoded = read_utf8(path)
    if encoded.lstrip().startswith(b'{"format": "cptlaw-fit"'):
        target, source = ("T.json", label) if b'"on": "source"' in encoded[:HEAD_OF_FIT] else (label, "S.json")
        plan = ["cptlaw", "plan", "min-tokens", "--target", target, "--source", source]
        raise DataError(
            f"{label}: this is a fit of cptlaw, no table of runs, which answer, check and fit expect: give them the "
            f"runs behind it. From fits of both losses an answer is {command_line(plan)} --n-params N --ptpp P "
            f"--max-forgetting 2%; forecast, report and suggest take a fit too."
        )
    plain = _plain_lines(encoded)
    if plain is not None:
        return RawTable(plain, label, path)
    content = encoded.decode("utf-8")
    if (keyed := _keyed(content)) is not None:
        return RawTable(keyed, label, path)
    if content.lstrip().startswith("["):
        records, rows = _read_list(content, label)
    else:
        records, rows = _read_lines(content, label)
    if not records:
        raise DataError(f"{label}: no rows. {_ADVICE}")
    for row, record in zip(rows, records, strict=True):
        if not isinstance(record, dict):
            raise DataError(f"{label}, row {row}: found {quote(record)}. {_ADVICE}")
    shapes = dict.fromkeys(map(tuple, records))
    names = list(dict.fromkeys(name for shape in shapes for name in shape))
    if not names:
        raise DataError(f"{label}: the objects are empty. {_ADVICE}")
    if len(shapes) == 1:
        columns = dict(zip(names, map(pd.Series, zip(*map(dict.values, records), strict=True)), strict=True))
    else:
        columns = {name: pd.Series([record.get(name) for record in records]) for name in names}
    frame = pd.DataFrame(columns)
    frame.index = pd.Index(rows, name=ROW)
    return RawTable(frame, label, path)


_NUMBER = rb"(?:-?[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+|null|NaN)"
_TEXT = rb'"[^"\\,:{}\n\r\t]*+"'
_SPACE = rb"[ ]?+"


def _plain_lines(content: bytes) -> pd.DataFrame | None:
    """Return lines that all have the keys of the first one, in its order, with plain numbers and words; else ``None``.

    A million of them are read ten times as fast as by one object a line: once each line is known to be of that form,
    all that tells it from a line of CSV are single characters.
    """
    try:
        first = json.loads(content[: max(content.find(b"\n"), 0) or None])
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict) or not first:
        return None
    texts = [isinstance(value, str) for value in first.values()]
    keys = [json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass") for key in first]
    if not all(re.fullmatch(_TEXT, key) for key in keys):
        return None
    pairs = [
        re.escape(key) + _SPACE + b":" + _SPACE + (_TEXT if is_text else _NUMBER)
        for key, is_text in zip(keys, texts, strict=True)
    ]
    line = rb"\{" + (_SPACE + b"," + _SPACE).join(pairs) + rb"\}"
    # Possessive quantifiers: what does not fit fails in linear time, whatever a hostile line holds.
    if re.fullmatch(rb"(?:" + line + rb"\n)*+(?:" + line + rb")?+", content) is None:
        return None
    names = list(first)
    values = range(1, 2 * len(names), 2)  # between the keys
    frame: pd.DataFrame = pd.read_csv(
        io.BytesIO(content.translate(bytes.maketrans(b":", b","), b'{}"')),
        header=None,
        names=[str(place) for place in range(2 * len(names))],
        usecols=[str(place) for place in values],
        dtype={str(place): object for place, is_text in zip(values, texts, strict=True) if is_text},
        keep_default_na=False,
        na_values={str(place): ["null", "NaN"] for place, is_text in zip(values, texts, strict=True) if not is_text},
        skipinitialspace=True,
        skip_blank_lines=False,
        quoting=csv.QUOTE_NONE,
        low_memory=False,
        **EXACT,
    )
    frame.columns = pd.Index(names)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name=ROW)
    return frame


def _keyed(content: str) -> pd.DataFrame | None:
    """Return a file that is one object of objects: by column and row, as pandas writes it, or by run; else ``None``."""
    if not content.lstrip().startswith("{"):
        return None
    try:
        whole = plain_json(content)
    except ValueError:
        return None
    objects = (
        isinstance(whole, dict) and len(whole) > 1 and all(isinstance(one, dict) and one for one in whole.values())
    )
    return (
        (_by_row(whole) if all(map(str.isdigit, next(iter(whole.values())))) else _by_run(whole)) if objects else None
    )


def _by_row(columns: dict[str, dict[str, object]]) -> pd.DataFrame | None:
    rows = list(next(iter(columns.values())))
    if any(set(one) != set(rows) for one in columns.values()):
        return None
    frame = pd.DataFrame({name: pd.Series([column[row] for row in rows]) for name, column in columns.items()})
    return frame.set_axis(pd.Index([int(row) for row in rows], name=ROW))


def _by_run(runs: dict[str, dict[str, object]]) -> pd.DataFrame | None:
    # The settings of one run and its results, each an object, have little in common; runs have their keys in common.
    shared = set.intersection(*map(set, runs.values()))
    if len(shared) < 2 or any(2 * len(shared) < len(one) for one in runs.values()):
        return None
    names = list(dict.fromkeys(name for one in runs.values() for name in one))
    columns: dict[str, list[object]] = {} if "run" in names else {"run": list(runs)}
    columns |= {name: [one.get(name) for one in runs.values()] for name in names}
    frame = pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})
    return frame.set_axis(pd.RangeIndex(len(frame), name=ROW))


def _read_list(content: str, label: str) -> tuple[list[Any], list[int]]:
    try:
        records = plain_json(content)
    except ValueError as error:
        raise DataError(f"{label}: the list is truncated or not JSON ({error}). {_ADVICE}") from None
    return records, list(range(len(records)))


def _read_lines(content: str, label: str) -> tuple[list[Any], list[int]]:
    lines = content.split("\n")
    rows = [row for row, line in enumerate(lines, 1) if line.strip()]
    try:
        # All lines at once, three times as fast; one by one only to find what is wrong.
        records = plain_json(f"[{','.join(lines[row - 1] for row in rows)}]")
        if len(records) == len(rows):
            return records, rows
    except ValueError:
        pass
    records = []
    for row in rows:
        line = lines[row - 1]
        try:
            records.append(plain_json(line))
        except ValueError as error:
            # What json says of "line 1" is of no help: it sees one line at a time.
            reason = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
            if row != rows[-1]:
                whole = " Is the whole file one object? Write it as one object per line." if row == 1 else ""
                raise DataError(f"{label}, row {row}: not JSON ({reason}).{whole} {_ADVICE}") from None
            raise DataError(
                f"{label}, row {row}: the last line is truncated ({reason}). {_ADVICE} "
                "Was the file written to the end? Copy it again, or remove the last line."
            ) from None
    return records, rows
