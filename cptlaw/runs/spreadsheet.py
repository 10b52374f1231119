"""Reading one sheet of a spreadsheet, with openpyxl where it is installed."""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cptlaw.errors import DataError, did_you_mean, needed_for
from cptlaw.reading import LARGEST_UNPACKED
from cptlaw.runs.pivot import header_of_two
from cptlaw.runs.raw_table import ROW, RawTable

ENDING = ".xlsx"
MOST_ROWS = 1_048_576  # of a sheet; a bomb of kilobytes holds millions
SIGN = "#"  # between the file and the name of a sheet


def file_and_sheet(source: str) -> tuple[Path, str | None]:
    """Return the file and the sheet that a source names, as in ``runs.xlsx#final``.

    Examples
    --------
    >>> file_and_sheet("runs.xlsx#final")[1], file_and_sheet("a#b.csv")[1]
    ('final', None)
    """
    place, sign, sheet = source.rpartition(SIGN)
    if sign and place.lower().endswith(ENDING) and not Path(source).exists():
        return Path(place), sheet
    return Path(source), None


def read_spreadsheet(path: Path, label: str, sheet: str | None) -> RawTable:
    """Read a sheet: the one that is named, else the only one.

    Returns
    -------
    RawTable
        The index holds the row of the sheet, its first row being 1.

    Raises
    ------
    DataError
        If it is no spreadsheet, unpacks to too much, has several sheets and none is named, or holds no table.
    UsageError
        If openpyxl is not installed.
    """
    if not zipfile.is_zipfile(path):
        raise DataError(f"{label}: damaged, or no spreadsheet. Copy it again, or save the table as CSV (.csv).")
    with needed_for(f"{label}: reading a spreadsheet (or save the table as CSV, .csv)", "cptlaw[spreadsheet]"):
        import openpyxl  # type: ignore[import-untyped, import-not-found, unused-ignore]
    try:
        # Opened here: openpyxl leaves a file open of which it meets the damage late.
        with path.open("rb") as file, zipfile.ZipFile(file) as packed:
            size = sum(part.file_size for part in packed.infolist())
            if size > LARGEST_UNPACKED:
                raise DataError(
                    f"{label}: unpacks to {size / 1e6:.0f} MB; at most {LARGEST_UNPACKED / 1e6:.0f} MB are read. Save "
                    f"the sheet as CSV, with the rows that matter."
                )
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            chosen = book[_chosen(book.sheetnames, sheet, label)]
            chosen.reset_dimensions()  # one cell in the last corner would fill a million rows of thousands of cells
            rows = [list(row) for row in itertools.islice(chosen.iter_rows(values_only=True), MOST_ROWS + 1)]
        if len(rows) > MOST_ROWS:
            raise DataError(f"{label}: more than {MOST_ROWS:,} rows, which no sheet has. Save the table as CSV (.csv).")
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a damaged file does to its reader
        raise DataError(
            f"{label}: damaged, or no spreadsheet ({error}). Copy it again, or save the table as CSV (.csv)."
        ) from None
    return _as_table(rows, path, label)


def _chosen(names: list[str], sheet: str | None, label: str) -> str:
    if sheet is None and len(names) == 1:
        return names[0]
    listed = ", ".join(map(repr, names))
    if sheet is None:
        raise DataError(f"{label}: {len(names)} sheets: {listed}. Say which one: '{label}{SIGN}{names[0]}'.")
    if sheet not in names:
        raise DataError(f"{label}: no sheet {sheet!r}.{did_you_mean(sheet, names)} Sheets: {listed}.")
    return sheet


def _as_table(rows: list[list[object]], path: Path, label: str) -> RawTable:
    """Return the rows below the header, which is the first row that is as full as any: titles stand above it."""
    filled = [sum(cell is not None and str(cell).strip() != "" for cell in row) for row in rows]
    full = max(filled, default=0)
    start = next((place for place, count in enumerate(filled) if count >= max(2, (full + 1) // 2)), None)
    if start is None or start + 1 >= len(rows):
        raise DataError(f"{label}: no table on the sheet. Expected a row with the names of the columns, then rows.")
    start, header = _header(rows, start)
    used = [place for place, name in enumerate(header) if name is not None and str(name).strip()]
    kept = {place + 1: rows[place] for place in range(start + 1, len(rows)) if filled[place]}
    names = [str(header[place]).strip() for place in used]
    columns = [[row[place] if place < len(row) else None for row in kept.values()] for place in used]
    index = pd.Index(list(kept), name=ROW)
    frame = pd.concat([pd.Series(column, index=index, dtype=object).infer_objects() for column in columns], axis=1)
    frame.columns = pd.Index(names)
    notes = (f"{start} rows above the header are left out",) if start else ()
    return RawTable(frame, label, path, notes=notes)


def _header(rows: list[list[object]], start: int) -> tuple[int, Sequence[object]]:
    """Return the last line of the header that begins at or above a row, and the names that it gives."""
    for first in (max(start - 1, 0), start):  # names over several columns leave the cells between them empty
        lines = itertools.zip_longest(*rows[first : first + 3])  # rows end with their last cell
        two = header_of_two([["" if cell is None else str(cell) for cell in row] for row in zip(*lines, strict=True)])
        if two is not None:
            return first + two[1] - 1, two[0]
    return start, rows[start]
