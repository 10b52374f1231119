"""Reading JSON Lines, and JSON files that hold one list of records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.errors import DataError, shown
from cptlaw.reading import plain_json, read_utf8
from cptlaw.runs.raw_table import ROW, RawTable

_ADVICE = 'Expected one object per line, such as {"run": "a", "eval": "target", "loss": 2.3}.'

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path, label: str) -> RawTable:
    """Read a file with one JSON object per line, or with one list of objects.

    Parameters
    ----------
    path
        The file, in UTF-8.
    label
        What stands for the file in messages.

    Returns
    -------
    RawTable
        The index holds the line of each object, or for a list its position from 0.

    Raises
    ------
    DataError
        If the file is unreadable, truncated, or holds something else.
    """
    content = read_utf8(path).decode("utf-8")
    if content.lstrip().startswith("["):
        records, rows = _read_list(content, label)
    else:
        records, rows = _read_lines(content, label)
    if not records:
        raise DataError(f"{label}: no rows. {_ADVICE}")
    if _SURROGATE.search(content):
        records = [_encodable(record) for record in records]
    for row, record in zip(rows, records, strict=True):
        if not isinstance(record, dict):
            raise DataError(f"{label}, row {row}: found {shown(record)}. {_ADVICE}")
    shapes = dict.fromkeys(map(tuple, records))
    names = list(dict.fromkeys(name for shape in shapes for name in shape))
    if not names:
        raise DataError(f"{label}: the objects are empty. {_ADVICE}")
    columns = {name: pd.Series([record.get(name) for record in records]) for name in names}
    frame = pd.DataFrame(columns)
    frame.index = pd.Index(rows, name=ROW)
    return RawTable(frame, label, path)


def _encodable(record: Any) -> Any:
    """Return a record in which halves of characters, which no column of text can hold, are written out."""
    if isinstance(record, str):
        return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", record)
    if isinstance(record, dict):
        return {_encodable(name): _encodable(value) for name, value in record.items()}
    return record


_LONE = re.compile("[\ud800-\udfff]")


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
