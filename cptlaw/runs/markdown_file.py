"""Reading the first table of a Markdown file, as colleagues send them."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from cptlaw.errors import DataError
from cptlaw.reading import read_utf8
from cptlaw.runs.problems import Problems
from cptlaw.runs.raw_table import ROW, RawTable

_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_BAR = re.compile(r"(?<!\\)\|")


def read_markdown(path: Path, label: str) -> RawTable:
    """Read the first table of a Markdown file.

    Returns
    -------
    RawTable
        The index holds the line of the file of each row.

    Raises
    ------
    DataError
        If there is no table, or a row has too few or too many fields.
    """
    lines = read_utf8(path).decode("utf-8").splitlines()
    rules = [number for number, line in enumerate(lines) if number and "|" in line and _RULE.fullmatch(line)]
    rules = [number for number in rules if "|" in lines[number - 1]]
    if not rules:
        raise DataError(
            f"{label}: no table in it. Expected a line with names between bars, one with dashes, then rows, as in "
            f"'| run | loss |', '|---|---|', '| a | 2.1 |'."
        )
    header = _fields(lines[rules[0] - 1])
    rows: dict[int, list[str]] = {}
    for number in range(rules[0] + 1, len(lines)):
        if "|" not in lines[number]:
            break
        rows[number + 1] = _fields(lines[number])
    if not rows:
        raise DataError(f"{label}: a table without rows. Expected one row per measured loss.")
    counts = pd.Series({line: len(fields) for line, fields in rows.items()})
    problems = Problems(label)
    wrong = (counts != len(header)).to_numpy()
    expected = f"{len(header)} fields, as in the header"
    problems.add_rows(
        "the table", counts, wrong, expected, "Mend the row.", describe=lambda place: f"{counts.iloc[place]} fields"
    )
    problems.raise_if_any()
    names = [name or f"column_{place}" for place, name in enumerate(header, 1)]
    # An empty field is a missing one, as in CSV.
    cells = [[field or None for field in fields] for fields in rows.values()]
    frame = pd.DataFrame(cells, columns=names, index=pd.Index(list(rows), name=ROW), dtype=object)
    others = f"{len(rules) - 1} further tables of the file are not read"
    return RawTable(frame, label, path, notes=(others,) if len(rules) > 1 else ())


def _fields(line: str) -> list[str]:
    text = line.strip().removeprefix("|")
    text = text[:-1] if text.endswith("|") and not text.endswith("\\|") else text
    return [field.strip().replace("\\|", "|").strip("*`").strip() for field in _BAR.split(text)]
