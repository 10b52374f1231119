"""The way in: from a file or a DataFrame to checked runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.reading import STDIN, existing_file
from cptlaw.runs.as_found import by_amount, joined_shares, parameters_in, runs_of_steps, unnested, values_beside_losses
from cptlaw.runs.corpora import unnamed_mix
from cptlaw.runs.csv_file import read_csv
from cptlaw.runs.dataframe import from_dataframe
from cptlaw.runs.json_file import read_json
from cptlaw.runs.naming import Naming, about_scores, loss_columns, name_columns
from cptlaw.runs.parquet_file import read_parquet
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import N_PARAMS_KINDS, canonical_name, column_of
from cptlaw.runs.table import Runs
from cptlaw.runs.validate import check_table
from cptlaw.runs.wide import stacked
from cptlaw.units import parse_quantity

LEAST_WIDE = 2  # columns of losses that make a table a wide one without being told
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
        Column of cptlaw -> column of the file, where neither the name nor an alias tells, as ``{"eval": "domain"}``;
        or one value for all rows, as ``{"n_params": "8B"}``.
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
    # Kept with the table, so that answers can name commands that read it in the same way.
    read_with = _as_flags(columns, losses, scores)
    columns, constants = _constants(columns)
    raw, naming = load_table(source, columns)
    raw, notes = by_amount(raw, naming)
    if implied := parameters_in(raw.frame, naming):
        columns = {**(columns or {}), **implied}
    naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
    if shares := unnamed_mix(raw.frame, naming):
        columns = {**(columns or {}), **shares}
        read_as = ", ".join(f"{name} from {place!r}" for name, place in shares.items())
        notes += (f"shares that add up to one are those of the mix: {read_as}",)
        naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
    if constants:
        notes += tuple(
            f"{name}: {value:.10g} in all rows, as given{_instead(raw, naming, name)}"
            for name, value in constants.items()
        )
        raw = replace(raw, frame=raw.frame.assign(**constants))
        naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
    if losses is None and "loss" not in naming.file_columns and "eval" not in naming.file_columns:
        losses, said = _wide_losses(raw, scores is not None)
        notes += said
    if losses is not None or scores is not None:
        raw = stacked(raw, losses, columns, scores)
        naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
    elif (place := _names_evals(raw, naming)) is not None:
        naming = name_columns(map(str, raw.frame.columns), {**(columns or {}), "eval": place}, raw.label)
        columns = {**(columns or {}), "eval": place}
        notes += (f"column {place!r} is read as the name of the eval: runs have several losses at a point otherwise",)
    for shape in (joined_shares, runs_of_steps, values_beside_losses):
        raw, said = shape(raw, naming)
        naming = name_columns(map(str, raw.frame.columns), columns, raw.label)
        notes += said
    checked = check_table(raw, naming, n_params_kind)
    runs = Runs(
        frame=checked.frame,
        path=raw.path,
        n_params_kind=checked.n_params_kind,
        notes=(*naming.notes, *notes, *checked.notes),
        assumed=checked.assumed,
        read_with=tuple(read_with),
    )
    return runs.with_roles(source_eval, target_eval)


def _as_flags(
    columns: Mapping[str, str] | None, losses: Mapping[str, str] | None, scores: Mapping[str, str] | None
) -> list[str]:
    """Return what a command line needs to read the table in the same way again."""
    flags = [word for name, place in (columns or {}).items() for word in ("--columns", f"{name}={place}")]
    for flag, named in (("--losses", losses), ("--scores", scores)):
        if named:
            flags += [flag, ",".join(f"{name}={place}" for name, place in named.items())]
    return flags


def _constants(columns: Mapping[str, str] | None) -> tuple[Mapping[str, str] | None, dict[str, float]]:
    """Return which columns are read under which names, apart from those that have one value in all rows."""
    named, constants = {}, {}
    for name, place in (columns or {}).items():
        canonical = canonical_name(str(name))
        number = None
        if canonical is not None and column_of(canonical).numeric and canonical != "loss":
            with contextlib.suppress(CptlawError):
                number = parse_quantity(place)
        # A column may well be called 8B; only a name that reads as a number of a numeric column is taken for a value.
        if number is None or canonical is None:
            named[name] = place
        else:
            constants[canonical] = number
    return named or None, constants


def _instead(raw: RawTable, naming: Naming, name: str) -> str:
    """Return which values of the file one value for all rows displaces, if they differ among themselves."""
    place = naming.file_columns.get(name)
    count = 0 if place is None else raw.frame[place].nunique()
    return f", and not the {count} values of the file's column {place!r}" if count > 1 else ""


def _wide_losses(raw: RawTable, scored: bool) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """Return the losses of a table that plainly has one column of them per eval, and what is to be said of that."""
    found = loss_columns(map(str, raw.frame.columns))
    if len(found) < LEAST_WIDE:
        return None, ()
    said = f"one column of losses per eval: read as evals {', '.join(found)} (--losses NAME=COLUMN,.. chooses)"
    scores = "" if scored else about_scores(map(str, raw.frame.columns))
    return found, (said, *([f"{scores} reads them"] if scores else []))


def _names_evals(raw: RawTable, naming: Naming) -> str | None:
    """Return the column of a table without evals whose values tell its rows apart, where it is the domain's."""
    taken = naming.file_columns
    if "eval" in taken or "domain" not in taken:
        return None
    point = [taken[name] for name in ("run", "step", "tokens") if name in taken]
    if "run" not in taken:  # all that tells rows apart
        point = [name for name in raw.frame.columns if name not in (taken["domain"], taken.get("loss"))]
        if not point:
            return None
    # Only where rows of one run and step would otherwise repeat each other: a table with one eval keeps its domains.
    # As text: a cell of a DataFrame may hold a list, which cannot be looked up.
    told = raw.frame[[*point, taken["domain"]]].astype(str)
    if not told.duplicated(point).any() or told.duplicated().any():
        return None
    return taken["domain"]


def load_table(source: Any, columns: Mapping[str, str] | None) -> tuple[RawTable, Naming]:
    """Read a table as it was found and decide what its columns are, without checking its rows."""
    if not isinstance(source, str | Path):
        raw = unnested(from_dataframe(source))
        return raw, name_columns(raw.frame.columns, columns, raw.label)
    piped = str(source) == "-"
    path = existing_file(STDIN if piped else Path(source))
    label = "stdin" if piped else str(path)
    # Two, for .csv.gz.
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    ending = endings[-2] if len(endings) == 2 and endings[-1] == ".gz" else endings[-1] if endings else ""
    if ending in (".csv", ".tsv") or (not ending and (piped or path.is_fifo())):
        delimiter = "\t" if ending == ".tsv" else ","
        raw = read_csv(path, label, lambda header: name_columns(header, columns, label).text_columns, delimiter)
    elif ending in (".jsonl", ".ndjson", ".json"):
        raw = unnested(read_json(path, label))
    elif ending in (".parquet", ".pq"):
        raw = unnested(read_parquet(path, label))
    else:
        raise DataError(
            f"{label}: files ending in {ending!r} are not read. Expected {_ENDINGS}; save the table as CSV."
        )
    return raw, name_columns(raw.frame.columns, columns, label)
