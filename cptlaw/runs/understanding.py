"""What was understood of a table before anything is answered from it: each column, and what is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.result import Line, Result, Table
from cptlaw.runs.base_rows import base_columns
from cptlaw.runs.convert import to_numbers
from cptlaw.runs.corpora import MAPPING
from cptlaw.runs.derive import BATCH_SIZES, LENGTHS
from cptlaw.runs.expressions import IGNORE, expression
from cptlaw.runs.metrics import loss_unit
from cptlaw.runs.question import Question, TableOptions, as_flag
from cptlaw.runs.questions import questions
from cptlaw.runs.read import ShapedTable, open_questions, shape_table
from cptlaw.runs.schema import COLUMNS, canonical_name, corpus_of, normal_name
from cptlaw.runs.table import Runs, RunsLike
from cptlaw.units import counted, format_quantity

UNUSED = "not used"
OF_BASE = ", base model"
NOTED = "used as the notes say"
UNITS = {
    "n_params": "parameters",
    "n_params_non_embedding": "parameters",
    **dict.fromkeys(("tokens", "pt_tokens", "unique_tokens"), "tokens"),
    "ptpp": "tokens per parameter",
    "replay": "fraction",
    "batch_tokens": "tokens per step",
    "flops": "FLOP",
    "step": "steps",
    "samples": "samples",
    "loss": "nats per token",
}


@dataclass(frozen=True)
class ReadColumn:
    """One column of a table, or one that follows from others, and what it was taken for.

    Parameters
    ----------
    name
        In the file; of a column that the file does not have, its own.
    meaning
        The column of a runs table, ``loss of EVAL``, the expression that it is a part of, or ``not used``.
    unit
        Of `low` and `high`; empty where there is none.
    low, high
        The range of its numbers; ``None`` for text.
    example
        Its first value, as it stands in the file.
    """

    name: str
    meaning: str
    unit: str
    low: float | None
    high: float | None
    example: str


@dataclass(frozen=True, repr=False, eq=False)
class Reading(Result):
    """How a source is read: what each column was taken for, and what is open.

    Parameters
    ----------
    columns
        Those of the file, in its order, then those that follow from them.
    open
        Columns that vary and are read as nothing, each a question; what explains losses first.
    notes
        What was assumed.
    runs
        The checked runs, where the table could be read as runs.
    """

    label: str
    columns: tuple[ReadColumn, ...]
    open: tuple[Question, ...]
    notes: tuple[str, ...]
    runs: Runs | None

    @property
    def understood(self) -> bool:
        """Whether nothing that is open explains losses, or keeps the table from being read."""
        return not any(one.explains for one in self.open)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Nothing: what is open is the answer itself."""
        return ()

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        from cptlaw.result import plain

        counted = {} if self.runs is None else {"rows": len(self.runs), "evals": list(self.runs.evals)}
        known = {"columns": self.columns, "open": self.open, "notes": self.notes}
        result: dict[str, object] = plain({"source": self.label, **counted, **known})
        return result

    @property
    def title(self) -> str:
        """What it is, in one line."""
        if self.runs is None:
            return f"{self.label}: not understood"
        state = "understood" if self.understood else "not understood"
        losses, runs = counted(len(self.runs), "loss", "losses"), counted(self.runs.frame["run"].nunique(), "run")
        return f"{self.label}: {losses} of {runs}, {state}"

    @property
    def lines(self) -> list[Line]:
        """The questions that are open, with the flags that answer them."""
        lines: list[Line] = [] if self.runs is None else self.runs.lines[:1]
        for number, one in enumerate(self.open, 1):
            lines.append((f"{'open' if one.explains else 'maybe'} {number}", one.question))
            lines += [("", as_flag(choice)) for choice in one.choices]
        return lines

    @property
    def tables(self) -> list[Table]:
        """What each column was taken for."""
        rows = [
            (one.name, one.meaning, one.unit, _shown(one.low), _shown(one.high), one.example) for one in self.columns
        ]
        return [Table(("column", "read as", "unit", "lowest", "highest", "example"), tuple(rows))]


def understand(source: RunsLike, *, where: str | None = None, **how: Unpack[TableOptions]) -> Reading:
    """Say how a table is read; see `cptlaw.read`. A table that cannot be read as runs has its reason among the open.

    Parameters
    ----------
    where
        Filter of the rows that questions are about.

    Raises
    ------
    DataError
        If there is no table to be read.
    """
    if isinstance(source, Runs):
        of_runs = _from_runs(source)
        return Reading(source.label, tuple(of_runs), questions(source, where), source.notes, source)
    table = shape_table(source, **how)
    asked = open_questions(table, source, how, where)
    notes = table.raw.notes if table.runs is None else table.runs.notes
    return Reading(table.raw.label, tuple(_columns(table)), tuple(asked), tuple(notes), table.runs)


def _columns(table: ShapedTable) -> Iterator[ReadColumn]:
    meanings = _meanings(table)
    frame = table.found.frame
    for name in map(str, frame.columns):
        meaning = meanings.get(name, UNUSED)
        yield _column(name, meaning, frame[name], table.runs, table.found.frame[name])
    told = {meanings[name] for name in map(str, frame.columns) if name in meanings}
    told |= {"eval", "loss"} if table.losses or table.scores else set()  # each stands in a column of its own
    for name in _canonical(table.runs):
        if name not in told and table.runs is not None and name not in table.runs.assumed:
            yield _column(name, name, table.runs.frame[name], table.runs, table.runs.frame[name])


def _from_runs(runs: Runs) -> Iterator[ReadColumn]:
    known = _canonical(runs)
    for name in map(str, runs.frame.columns):
        yield _column(name, name if name in known else UNUSED, runs.frame[name], runs, runs.frame[name])


def _canonical(runs: Runs | None) -> list[str]:
    names = [] if runs is None else [str(name) for name in runs.frame.columns]
    return [name for name in names if name in COLUMNS or corpus_of(name)]


def _meanings(table: ShapedTable) -> dict[str, str]:
    """Return what each column of the file was taken for."""
    raw, names = table.raw, [str(name) for name in table.found.frame.columns]
    result = {place: canonical for canonical, place in raw.taken.items()}
    for kind, evals in (("loss", table.losses), ("score", table.scores)):
        result |= {place: f"{kind} of {name}" for name, place in (evals or {}).items()}
    losses = [place for place, meaning in result.items() if meaning.partition(" ")[0] == "loss"]
    gone = [name for name in names if name not in raw.frame.columns and name not in result]
    result |= {base: result[loss] + OF_BASE for base, loss in base_columns(gone, losses).items()}
    for key, text in table.columns.items():
        result |= _as_said(key, text, table, result)
    return {**_followed(table, names), **result}


def _followed(table: ShapedTable, names: list[str]) -> dict[str, str]:
    """Return what columns became parts of, of which none was taken by its own name."""
    result = dict.fromkeys(table.raw.accounted_for, NOTED)
    if table.runs is not None and table.runs.corpora:
        result.setdefault(MAPPING, "mix")
    if table.runs is not None and "batch_tokens" in table.runs.frame.columns and "batch_tokens" not in table.raw.taken:
        ends = {name: normal_name(name.replace("/", ".").split(".")[-1]) for name in names}
        result = {name: "batch_tokens" for name, end in ends.items() if end in BATCH_SIZES + LENGTHS} | result
    return {name: meaning for name, meaning in result.items() if name in names}


def _as_said(key: str, text: str | list[str], table: ShapedTable, known: Mapping[str, str]) -> dict[str, str]:
    """Return what one entry of `--columns` says of the columns of the file."""
    if key == IGNORE:
        return dict.fromkeys([text] if isinstance(text, str) else text, "ignored, as given")
    names, canonical = [str(name) for name in table.found.frame.columns], canonical_name(str(key))
    rule = None if text in names else expression(str(text), [*names, *table.found.taken, *COLUMNS])
    places = [table.found.taken.get(name, name) for name in rule.names] if rule else []
    # The column of parameters is still that one where tokens are FLOPs over it.
    return {one: f"{key} = {text}" for one in places if one in names and known.get(one, canonical) in (None, canonical)}


def _column(name: str, meaning: str, cells: pd.Series, runs: Runs | None, found: pd.Series) -> ReadColumn:
    canonical = meaning.partition(" ")[0]
    values = cells
    if runs is not None and canonical in runs.frame.columns and canonical != "loss":
        values = runs.frame[canonical]
    elif runs is not None and meaning.startswith("loss of ") and meaning[8:] in runs.evals:
        values = runs.on(meaning[8:]).frame["loss"]
    numbers, unreadable = to_numbers(values)
    known = numbers[np.isfinite(numbers)]
    is_text = bool(unreadable.any()) or not known.size or (canonical in COLUMNS and not COLUMNS[canonical].numeric)
    present = list(found[found.notna()].head(1))
    unit = UNITS.get(canonical, "fraction" if corpus_of(canonical) else "")
    if canonical == "loss" and runs is not None:
        of_eval = meaning.removesuffix(OF_BASE)[8:]
        unit = loss_unit(runs.on(of_eval).frame if of_eval in runs.evals else runs.frame)
    low, high = (None, None) if is_text else (float(known.min()), float(known.max()))
    return ReadColumn(name, meaning, unit, low, high, str(present[0])[:40] if present else "")


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return format_quantity(value) if abs(value) >= 1e4 else f"{value:.5g}"
