"""The way in: from a file or a DataFrame to checked runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError
from cptlaw.reading import STDIN, existing_file
from cptlaw.runs.csv_file import read_csv
from cptlaw.runs.dataframe import from_dataframe
from cptlaw.runs.json_file import read_json
from cptlaw.runs.naming import Naming, name_columns
from cptlaw.runs.parquet_file import read_parquet
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import N_PARAMS_KINDS
from cptlaw.runs.table import Runs
from cptlaw.runs.validate import check_table
from cptlaw.runs.wide import stacked

_ENDINGS = ".csv, .tsv, .jsonl, .ndjson, .json (each also with .gz), .parquet"


def read_runs(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    losses: Mapping[str, str] | None = None,
    scores: Mapping[str, str] | None = None,
    source_eval: str | None = None,
    target_eval: str | None = None,
    n_params_kind: str | None = None,
) -> Runs:
    """Read a runs table and check every row of it.

    Parameters
    ----------
    source
        A path to a file (CSV, TSV, JSON Lines, each also with ``.gz``, or Parquet), ``"-"`` for CSV on standard input,
        a DataFrame of pandas or polars, a pyarrow Table, or runs that were read before.
    columns
        Column of cptlaw -> column of the file, where neither the name nor an alias tells, as ``{"eval": "domain"}``.
    losses
        Of a wide table, with one column of losses per eval: eval -> column, as ``{"arxiv": "arxiv_loss"}``.
    scores
        Of a wide table too: eval -> column of scores, such as accuracy, as ``{"gsm8k": "gsm8k_acc"}``.
    source_eval, target_eval
        The evals whose roles are source and target, where they are not called so.
    n_params_kind
        ``"non_embedding"`` or ``"total"``: what the column ``n_params`` counts.

    Returns
    -------
    Runs
        What was assumed on the way stands in its ``notes``.

    Raises
    ------
    DataError
        If the file cannot be read, or rows are bad: the message names file, row, column and what to do. The row is the
        line of a CSV or JSON Lines file (the header of a CSV file is line 1), else the position from 0.
    UsageError
        If an argument is unusable.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"run": ["a", "a"], "N": ["8.1B", "8.1B"], "D": ["1B", "2B"], "val_loss": [2.1, 2.0]})
    >>> runs = read_runs(table)
    >>> len(runs), runs.evals
    (2, ('target',))
    """
    if n_params_kind is not None and n_params_kind not in N_PARAMS_KINDS:
        raise UsageError(f"n_params_kind: found {n_params_kind!r}. Expected {' or '.join(N_PARAMS_KINDS)}.")
    if isinstance(source, Runs):
        if columns or losses or scores:
            raise UsageError(
                "columns=, losses= and scores= tell how to read a file, and these runs have been read. Leave them out."
            )
        return source.with_roles(source_eval, target_eval, n_params_kind)
    raw, naming = load_table(source, columns)
    if losses is not None or scores is not None:
        raw = stacked(raw, losses, columns, scores)
        naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
    checked = check_table(raw, naming, n_params_kind)
    runs = Runs(
        frame=checked.frame,
        path=raw.path,
        n_params_kind=checked.n_params_kind,
        notes=(*naming.notes, *checked.notes),
        assumed=checked.assumed,
    )
    return runs.with_roles(source_eval, target_eval)


def load_table(source: Any, columns: Mapping[str, str] | None) -> tuple[RawTable, Naming]:
    """Read a table as it was found and decide what its columns are, without checking its rows."""
    if not isinstance(source, str | Path):
        raw = from_dataframe(source)
        return raw, name_columns(raw.frame.columns, columns, raw.label)
    piped = str(source) == "-"
    path = existing_file(STDIN if piped else Path(source))
    label = "stdin" if piped else str(path)
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    ending = endings[-2] if len(endings) == 2 and endings[-1] == ".gz" else endings[-1] if endings else ""
    if ending in (".csv", ".tsv") or (not ending and (piped or path.is_fifo())):
        delimiter = "\t" if ending == ".tsv" else ","
        raw = read_csv(path, label, lambda header: name_columns(header, columns, label).text_columns, delimiter)
    elif ending in (".jsonl", ".ndjson", ".json"):
        raw = read_json(path, label)
    elif ending in (".parquet", ".pq"):
        raw = read_parquet(path, label)
    else:
        raise DataError(
            f"{label}: files ending in {ending!r} are not read. Expected {_ENDINGS}; save the table as CSV."
        )
    return raw, name_columns(raw.frame.columns, columns, label)
