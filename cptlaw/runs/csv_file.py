"""Reading CSV: fast where the file is sound, exact about the row where it is not."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.reading import read_utf8
from cptlaw.runs.convert import MISSING_WORDS
from cptlaw.runs.pivot import header_of_two
from cptlaw.runs.problems import Problems
from cptlaw.runs.raw_table import ROW, RawTable, check_columns

HEAD = 65536  # bytes in which the header begins
MOST_ABOVE = 10  # lines of a title
LONGEST = 10_000_000  # bytes of a line or of a quoted text: as a field it takes five times as much memory and more
FEW_ROWS = 4  # lines with as many marks each, which make a table below a title
PickTextColumns = Callable[[list[str]], Collection[str]]

_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MISSING_NUMBERS = sorted({spelt for word in MISSING_WORDS for spelt in (word, word.upper(), word.title())} | {"NaN"})
# Exact to the last bit, as a value in a Parquet file is. Newer pandas is always exact and warns of the option.
EXACT: dict[str, Any] = (
    {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}
)


def read_csv(path: Path, label: str, pick_text_columns: PickTextColumns, delimiter: str = ",") -> RawTable:
    """Read a CSV file.

    Parameters
    ----------
    path
        The file, in UTF-8, with a header line.
    pick_text_columns
        Given the header, tells which columns hold text even where it looks like numbers.

    Returns
    -------
    RawTable
        The index holds the line of the file of each row, the header being line 1.

    Raises
    ------
    DataError
        If the file is unreadable, holds a line of megabytes, or any row has too few or too many fields.
    """
    content = read_utf8(path)
    _refuse_too_long(content, label)
    content, above = _without_title(content)
    header, result = _read_header(content, label, delimiter)
    if (two := _two_lines(content, result)) is not None:
        header, content = two
    notes: tuple[str, ...] = (f"{above} line{'s' * (above > 1)} above the header left out",) if above else ()
    notes += () if result == delimiter else (f"the fields are separated by {_MARKS[result]}",)
    delimiter = result
    text_columns = pick_text_columns(header)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(content),
                sep=delimiter,
                header=0,
                names=header,
                # Else a row with one field too many would turn the first column into an index.
                index_col=False,
                # As written: "category" would turn the id 007 into the number 7.
                dtype=dict.fromkeys(text_columns, object),
                keep_default_na=False,
                # A run may well be called NA; a number may not.
                na_values={name: [""] if name in text_columns else _MISSING_NUMBERS for name in header},
                skipinitialspace=True,
                low_memory=False,
                **EXACT,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _find_lines(content, label, delimiter, header)
        raise DataError(
            f"{label}: the file cannot be read as CSV ({error}). Check its quotes and delimiters."
        ) from None
    if frame.empty:
        raise DataError(
            f"{label}: a header without rows. Expected one row per measured loss; was it written to the end?"
        )
    if _is_plain(content, delimiter, len(header), len(frame)):
        frame.index = pd.RangeIndex(2, len(frame) + 2, name=ROW)
    else:
        lines = _find_lines(content, label, delimiter, header)
        if len(lines) != len(frame):
            raise DataError(
                f"{label}: found lines that can be read as blank or as rows, such as a bare pair of quotes. "
                f"Expected {len(header)} fields in every row, as in the header. Remove these lines."
            )
        frame.index = pd.Index(lines, name=ROW)
    # A spreadsheet leaves lines of bare commas; they are blank lines.
    empty = frame.iloc[:, 0].isna().to_numpy(copy=True) if len(header) > 1 else np.zeros(len(frame), dtype=np.bool_)
    if empty.any():
        empty[empty] = frame[empty].isna().all(axis="columns").to_numpy()
        frame = frame[~empty]
    if frame.empty:
        raise DataError(f"{label}: all rows are empty. Expected one row per measured loss.")
    return RawTable(frame, label, path, notes=notes)


def _refuse_too_long(content: bytes, label: str) -> None:
    blocks = range(0, len(content) - LONGEST + 1, LONGEST)
    line = next((start for start in blocks if content.find(b"\n", start, start + LONGEST) < 0), None)
    text = re.search(rb'"[^"]{%d}' % LONGEST, content)
    if line is None and text is None:
        return
    row = content.count(b"\n", 0, line if text is None else text.start()) + 1
    raise DataError(
        f"{label}, row {row}: holds a {'line' if text is None else 'quoted text'} of more than {LONGEST / 1e6:g} MB. "
        "Expected one row per measured loss; look whether a quote or a line end is missing, or another file was meant."
    )


def _without_title(content: bytes) -> tuple[bytes, int]:
    """Return a file with blank lines in the place of a title above its header, and how many lines that has.

    A title has fewer than half of the marks that the header has, and all rows below it.
    """
    head = content[:HEAD].split(b"\n")[: MOST_ABOVE + FEW_ROWS]
    filled = [place for place, line in enumerate(head) if line.strip()]
    for mark in (mark.encode() for mark in _MARKS):
        counts = [head[place].count(mark) for place in filled]
        most = max(counts, default=0)
        first = counts.index(most) if most > 1 else 0
        if any(head[place].count(other.encode()) > 1 for place in filled[:first] for other in _MARKS):
            continue  # the header of another mark
        below = counts[first : first + FEW_ROWS]
        if first and len(below) == FEW_ROWS and min(below) == most and all(2 * one < most for one in counts[:first]):
            start = filled[first]
            return b"\n" * start + content[sum(len(line) + 1 for line in head[:start]) :], first
    return content, 0


def _read_header(content: bytes, label: str, delimiter: str) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter: the usual one of the file's kind, or the one that it has."""
    # Spreadsheets of half of Europe write semicolons, as their decimal mark is a comma.
    for mark in (delimiter, *(other for other in _MARKS if other != delimiter)):
        head = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")
        try:
            header = next((fields for _, fields in _records(head, mark)), [])
        except csv.Error as error:
            raise DataError(f"{label}, row 1: the header cannot be read ({error}). Check its quotes.") from None
        if len(header) != 1 or not any(other in header[0] for other in _MARKS):
            break
    check_columns(len(header), label)
    if not header:
        raise DataError(f"{label}: no header. Expected a line with the names of the columns, then rows.")
    return [field.strip() or f"column_{position}" for position, field in enumerate(header, 1)], mark


def _two_lines(content: bytes, delimiter: str) -> tuple[list[str], bytes] | None:
    """Return the names that a header of two lines gives, and the file with one line of it; ``None`` for one line."""
    lines = content[:HEAD].split(b"\n")
    filled = [place for place, line in enumerate(lines) if line.strip()][:3]
    try:
        rows = [next(csv.reader([lines[place].decode("utf-8")], delimiter=delimiter)) for place in filled]
    except (csv.Error, UnicodeDecodeError, StopIteration):
        return None
    found = header_of_two(rows)
    if found is None:
        return None
    names, count = found
    last = filled[count - 1]
    return names, b"\n" * last + content[sum(len(line) + 1 for line in lines[:last]) :]


def _is_plain(content: bytes, delimiter: str, n_columns: int, n_rows: int) -> bool:
    """Whether each line is one row with all its fields, told by counting bytes: the row of line k is then k - 2."""
    n_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    # Rows with too many fields were refused before, so that none can make up for one with too few.
    # Counting bytes is far faster than going through the fields, and without quotes it is exact.
    n_delimiters = content.count(delimiter.encode())
    return b'"' not in content and n_lines == n_rows + 1 and n_delimiters == (n_columns - 1) * (n_rows + 1)


def _find_lines(content: bytes, label: str, delimiter: str, header: list[str]) -> list[int]:
    """Return the line of each row, going through the file field by field."""
    records = _records(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""), delimiter)
    lines: list[int] = []
    counts: list[int] = []
    try:
        next(records)
        for line, fields in records:
            lines.append(line)
            counts.append(len(fields))
    except csv.Error as error:
        raise DataError(f"{label}, row {lines[-1] + 1 if lines else 2}: cannot be read as CSV ({error}).") from None
    n_fields = np.array(counts, dtype=np.int64)
    counted = pd.Series(n_fields, index=lines)
    short, long = n_fields < len(header), n_fields > len(header)
    problems = Problems(label)
    expected = f"{len(header)} fields, as in the header"
    # A last line that stops short is a file that was not written to its end, which has another remedy than a missing
    # field.
    if n_fields.size and short[-1]:
        remedy = "Was the file written or copied to the end? Copy it again, or remove the last line."
        end = f"the end of the file after {n_fields[-1]} fields: the last line is truncated"
        problems.add_rows(
            f"column {header[n_fields[-1]]!r}", counted[-1:], short[-1:], expected, remedy, describe=lambda _: end
        )
        short[-1] = False
    for bad, remedy in (
        (short, "Fill the missing fields (leave an empty one for a missing value)."),
        (long, "Remove the surplus fields; put text that holds a delimiter in double quotes."),
    ):
        where = f"columns {header[0]!r} to {header[-1]!r}"
        problems.add_rows(
            where, counted, bad, expected, remedy, describe=lambda position: f"{n_fields[position]} fields"
        )
    problems.raise_if_any()
    return lines


def _records(text: io.TextIOBase, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of every record that is not blank."""
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
    line = 1
    for fields in reader:
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield line, fields
        line = reader.line_num + 1
