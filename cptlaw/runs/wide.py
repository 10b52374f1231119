"""Wide tables, with one column of losses per eval, made into one row per measured loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.runs.naming import name_columns
from cptlaw.runs.problems import Problems
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import COLUMNS
from cptlaw.runs.validate import checked_numbers


def stacked(raw: RawTable, losses: Mapping[str, str], columns: Mapping[str, str] | None) -> RawTable:
    """Return a table with one row per eval and row of a wide one.

    Parameters
    ----------
    raw
        The table as it was found, one column of losses per eval.
    losses
        Eval -> column of the table. An empty field is a loss that was not measured.
    columns
        As for `cptlaw.runs.read_runs`.

    Returns
    -------
    RawTable
        With the columns ``eval`` and ``loss`` in place of those named in `losses`; the rows of one run that stood in
        one row keep its number, which messages name.

    Raises
    ------
    UsageError
        If a column does not exist, or the table already has an eval or a loss for each row.
    DataError
        If a loss cannot be read, or no row holds any.
    """
    names = [str(name) for name in raw.frame.columns]
    if not losses:
        raise UsageError("losses=: expected a mapping such as {'arxiv': 'arxiv_loss'} (--losses arxiv=arxiv_loss).")
    for name, column in losses.items():
        if column not in names:
            raise UsageError(
                f"losses=: {raw.label} has no column {column!r} to read the losses of eval {name!r} from."
                f"{did_you_mean(column, names)} Columns found: {', '.join(map(repr, names))}."
            )
    rest = raw.frame.drop(columns=list(losses.values()))
    taken = name_columns(map(str, rest.columns), columns, raw.label).file_columns
    for name in ("eval", "loss"):
        if name in taken:
            raise UsageError(
                f"losses=: {raw.label} has the column {taken[name]!r} for {name} already, so that it is not a wide "
                f"table. Leave losses= (--losses) out, or rename that column."
            )
    # A missing loss is an eval that was not measured at that row, so it is no error here as it is in a long table.
    expected = replace(COLUMNS["loss"], required=False)
    problems = Problems(raw.label)
    parts = []
    for name, place in losses.items():
        values = checked_numbers(raw.frame[place], expected, problems)
        parts.append(rest.assign(eval=name, loss=values)[~np.isnan(values)])
    problems.raise_if_any()
    # A stable sort keeps the evals of a row together, in the order in which they were named.
    frame = pd.concat(parts).sort_index(kind="stable")
    if frame.empty:
        raise DataError(f"{raw.label}: the columns {', '.join(map(repr, losses.values()))} hold no loss in any row.")
    return replace(raw, frame=frame)
