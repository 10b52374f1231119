"""The way in: from a file or a DataFrame to checked runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from cptlaw.errors import CptlawError, DataError, UsageError, did_you_mean, require_type
from cptlaw.reading import STDIN, existing_file
from cptlaw.runs.base_rows import base_columns, base_rows, named_bases
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.csv_file import read_csv
from cptlaw.runs.dataframe import from_dataframe
from cptlaw.runs.expressions import IGNORE, Expression, expression
from cptlaw.runs.json_file import read_json
from cptlaw.runs.known_models import models_named
from cptlaw.runs.layouts import (
    filled_down,
    parts_as_shares,
    units_below,
    upright,
    without_errors,
    without_failed,
    without_summaries,
    without_unfinished,
)
from cptlaw.runs.markdown_file import read_markdown
from cptlaw.runs.metrics import is_known, metric_name
from cptlaw.runs.missing_losses import is_base_loss_column, refuse_differences
from cptlaw.runs.naming import about_scores, loss_columns, name_columns, no_column
from cptlaw.runs.number_formats import (
    budget_or_progress,
    decimal_marks,
    loss_in_other_units,
    peak_of_rates,
    plain_units,
    tokens_of_base,
)
from cptlaw.runs.parquet_file import read_parquet
from cptlaw.runs.pivot import by_amount
from cptlaw.runs.question import (
    MAPPINGS,
    TEXTS,
    ColumnNames,
    NotUnderstoodError,
    Question,
    TableOptions,
    UnreadColumnError,
    flags_of,
    with_reply,
)
from cptlaw.runs.questions import questions, refuse_likely
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.replies import with_replies
from cptlaw.runs.reshape import (
    evals_in_domain,
    joined_shares,
    named_runs,
    parameters_in,
    runs_of_seeds,
    runs_of_steps,
    unnamed_mix,
    unnested,
    values_beside_losses,
)
from cptlaw.runs.run_names import named_parts
from cptlaw.runs.schema import N_PARAMS_KINDS, canonical_name, column_of
from cptlaw.runs.spreadsheet import ENDING, file_and_sheet, read_spreadsheet
from cptlaw.runs.table import Runs, RunsLike
from cptlaw.runs.validate import check_table
from cptlaw.runs.wide import mean_of_others, wide_to_long
from cptlaw.units import parse_quantity

LAYOUTS = (without_summaries, without_errors, parts_as_shares, without_unfinished, without_failed)
PLAIN = (decimal_marks, plain_units, tokens_of_base, budget_or_progress)
MOST_TROUBLES = 4  # of a kind that keeps a table from being read: each shows only once the one before is answered
LEAST_WIDE = 2  # columns of losses that make a table a wide one without being told
_ENDINGS = ".csv, .tsv, .jsonl, .ndjson, .json (each also with .gz), .parquet, .xlsx (or .xlsx#SHEET), .md"


def read_runs(
    source: RunsLike,
    *,
    columns: Mapping[str, str | list[str]] | None = None,
    losses: Mapping[str, str] | None = None,
    scores: Mapping[str, str] | None = None,
    source_eval: str | None = None,
    target_eval: str | None = None,
    n_params_kind: str | None = None,
    all_runs: bool = False,
) -> Runs:
    """Read a runs table and check every row of it.

    Parameters
    ----------
    source
        A path to a file (CSV, TSV, JSON Lines, each also with ``.gz``, or Parquet), ``"-"`` for CSV on standard input,
        a DataFrame of pandas or polars, a pyarrow Table, or runs that were read before.
    columns
        Column of cptlaw -> column of the file, where neither the name nor an alias tells, as ``{"eval": "domain"}``;
        one value for all rows, as ``{"n_params": "8B"}``; or what follows from columns, as
        ``{"replay": "1-ja_frac", "tokens": "btok:B"}``. ``"ignore"`` -> columns that are no setting of the runs.
    losses
        Of a wide table, with one column of losses per eval: eval -> column, as ``{"arxiv": "arxiv_loss"}``.
    scores
        Of a wide table too: eval -> column of scores, such as accuracy, as ``{"gsm8k": "gsm8k_acc"}``.
    source_eval, target_eval
        The evals whose roles are source and target, where they are not called so.
    n_params_kind
        ``"non_embedding"`` or ``"total"``: what the column ``n_params`` counts.
    all_runs
        Whether runs count that did not finish, and all of a sweep of rate and batch. Else laws are fitted to the best
        run of each cell: of the same size, tokens, budget, mix and corpus.

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
    if isinstance(source, Runs):
        if columns or losses or scores:
            raise UsageError(
                "columns=, losses= and scores= tell how to read a file, and these runs have been read. Leave them out."
            )
        kept: Runs = replace(source, all_runs=source.all_runs or all_runs)
        return kept.with_roles(source_eval, target_eval, _checked_kind(n_params_kind))
    options: TableOptions = {"columns": columns, "losses": losses, "scores": scores, "all_runs": all_runs}
    options |= {"source_eval": source_eval, "target_eval": target_eval, "n_params_kind": n_params_kind}
    table = shape_table(source, **options)
    if table.runs is None:
        asked = tuple(open_questions(table, source, options))
        raise UnreadColumnError(table.raw.label, asked) if len(asked) > 1 else table.error or DataError("no runs")
    refuse_likely(table.runs)
    return table.runs


@dataclass(frozen=True)
class ShapedTable:
    """A table as its source has it, in one row per loss, and as checked runs.

    Parameters
    ----------
    found
        As its source has it.
    raw
        With one row per measured loss.
    columns, losses, scores
        How it was read.
    runs
        The checked runs; ``None`` where it cannot be read as runs, as `error` says.
    """

    found: RawTable
    raw: RawTable
    columns: ColumnNames
    losses: Mapping[str, str] | None
    scores: Mapping[str, str] | None
    runs: Runs | None
    error: CptlawError | None = None


def _checked_kind(n_params_kind: str | None) -> str | None:
    if n_params_kind is not None and n_params_kind not in N_PARAMS_KINDS:
        raise UsageError(f"n_params_kind: found {n_params_kind!r}. Expected {' or '.join(N_PARAMS_KINDS)}.")
    return n_params_kind


def _check_types(options: TableOptions) -> None:
    """Refuse arguments of other types than `read_runs` takes."""
    examples = ("{'eval': 'domain'}", "{'code': 'code_loss'}", "{'gsm8k': 'acc'}")
    for name, example in zip(MAPPINGS, examples, strict=True):
        wanted = f"a mapping of names, such as {example}"
        given = options.get(name)
        require_type({} if given is None else given, Mapping, f"{name}=", wanted)
        for key, value in (given or {}).items():
            require_type(key, str, f"{name}=", wanted)
            several = value if key == IGNORE and isinstance(value, list | tuple) else [value]
            for one in several:
                require_type(one, (str, int, float) if name == "columns" else str, f"{name}= for {key!r}", wanted)
    for text in TEXTS:
        require_type("" if options.get(text) is None else options[text], str, f"{text}=", "a name")


def shape_table(source: RunsLike, **options: Unpack[TableOptions]) -> ShapedTable:
    """Read a table as `read_runs` does, and return it as its source has it, in one row per loss, and as runs.

    Raises
    ------
    DataError
        If there is no table to be read. What is wrong with its columns and rows is the `error` of what is returned.
    UsageError
        If an argument is unusable.
    """
    _check_types(options)
    _checked_kind(options.get("n_params_kind"))
    # Kept with the table, so that answers can name commands that read it in the same way.
    read_with = flags_of(options)
    options, kept = with_replies(source, options)
    columns, losses, scores = options.get("columns"), options.get("losses"), options.get("scores")
    named, constants = _constants(columns)
    found = raw = _table_as_found(source, named)
    try:
        layouts = [shape for shape in LAYOUTS if shape is not without_unfinished or not options.get("all_runs")]
        for shape in (*layouts, named_runs, runs_of_seeds, *PLAIN, parameters_in, models_named, by_amount, unnamed_mix):
            raw = shape(raw)
        raw = _with_expressions(_with_constants(raw, constants), named or {})
        if losses is None and not {"loss", "eval"} & set(raw.taken):
            losses, raw = _wide_losses(raw, scores is not None)
        raw = base_rows(_with_expressions(named_bases(raw), losses or {}, of_losses=True), losses)
        raw = evals_in_domain(raw) if losses is None and scores is None else wide_to_long(raw, losses, scores)
        for shape in (loss_in_other_units, joined_shares, runs_of_steps, values_beside_losses, peak_of_rates):
            raw = shape(raw)
        runs = check_table(replace(raw, notes=(*kept, *raw.notes)), options.get("n_params_kind"))
        runs = replace(runs, read_with=tuple(read_with), all_runs=bool(options.get("all_runs")))
        told = _roles_in_column(runs)
        source_eval = options.get("source_eval") or told.get("source")
        runs = runs.with_roles(source_eval, options.get("target_eval") or told.get("target"))
    except DataError as error:
        return ShapedTable(found, raw, columns or {}, losses, scores, None, error)
    return ShapedTable(found, raw, columns or {}, losses, scores, runs)


def _roles_in_column(runs: Runs) -> dict[str, str]:
    """Return the evals that a column ``role`` calls source or target, where it does so of one eval alone."""
    if "role" not in runs.frame.columns:
        return {}
    pairs = runs.frame[["eval", "role"]].astype(str).drop_duplicates()
    named = {role: pairs.loc[pairs["role"].str.strip().str.lower() == role, "eval"] for role in ("source", "target")}
    own = {"source", "target"} & set(runs.evals)
    return {role: str(evals.iloc[0]) for role, evals in named.items() if len(evals) == 1 and not own}


def open_questions(
    table: ShapedTable, source: RunsLike, options: TableOptions, where: str | None = None
) -> Iterator[Question]:
    """Yield all questions that a table leaves open.

    Some follow from its rows, which cannot be read before earlier ones are answered: each of these is taken to have its
    likeliest answer, and the table is read on.
    """
    for _ in range(MOST_TROUBLES):
        asked = questions(table.runs, where) if table.runs is not None else ()
        # Whatever else is asked is another question for each eval than for all of them together.
        of_evals = [one for one in asked if one.choices[:1] == (f"eval={one.name}",)]
        if table.runs is not None and not of_evals:
            yield from asked
            return
        error = table.error if isinstance(table.error, NotUnderstoodError) else NotUnderstoodError(table.error)
        trouble = of_evals[0] if of_evals else error.asked[0]
        yield trouble
        if not trouble.choices:
            return
        more = with_reply(options, trouble.choices[0])
        if more == options:
            return
        options = more
        table = shape_table(source, **options)


def _constants(columns: ColumnNames | None) -> tuple[ColumnNames | None, dict[str, float | str]]:
    """Return which columns are read under which names, apart from those that have one value in all rows."""
    named: dict[str, str | list[str]] = {}
    constants: dict[str, float | str] = {}
    for name, place in (columns or {}).items():
        canonical = canonical_name(str(name))
        number = None
        if canonical is not None and column_of(canonical).numeric and canonical != "loss":
            with contextlib.suppress(CptlawError):
                number = parse_quantity(place)
        # A column may well be called 8B; only a name that reads as a number of a numeric column is taken for a value.
        if canonical == "metric" and is_known(metric_name(str(place))):
            constants[canonical] = str(place)
        elif number is None or canonical is None:
            named[name] = place
        else:
            constants[canonical] = number
    return named or None, constants


def _with_constants(raw: RawTable, constants: Mapping[str, float | str]) -> RawTable:
    """Return a table with columns of one value each, saying which values of the file these displace."""
    notes = []
    for name, value in constants.items():
        place = raw.taken.get(name)
        count = 0 if place is None else hashable(raw.frame[place]).nunique()
        instead = f", and not the {count} values of the file's column {place!r}" if count > 1 else ""
        said = value if isinstance(value, str) else f"{value:.10g}"
        notes.append(f"{name}: {said} in all rows, as given{instead}")
    return raw.reshaped(raw.frame.assign(**constants), *notes) if constants else raw


def _with_expressions(raw: RawTable, columns: ColumnNames, of_losses: bool = False) -> RawTable:
    """Return a table with the columns that follow from others, as they were given; of losses under what was given."""
    notes, accounted_for = [], set(raw.accounted_for)
    # Sizes first, of which other columns may follow.
    for key, text in sorted(columns.items(), key=lambda pair: pair[0] != "n_params"):
        if key == IGNORE and not of_losses:
            accounted_for |= {text} if isinstance(text, str) else set(text)
            if missing := sorted(accounted_for - set(raw.frame.columns) - raw.accounted_for):
                raise no_column(missing[0], raw.frame.columns, f"columns=: {raw.label}", "to ignore")
            continue
        canonical = str(text) if of_losses else str(canonical_name(str(key)))
        rule = None if text in list(raw.frame.columns) else _expression_of(str(text), raw, of_losses)
        if rule is None:
            continue
        places = [name if name in raw.frame.columns else raw.taken[name] for name in rule.names]
        # By its own name a column is what stands in the file, by the canonical one it is in plain units.
        parts = {
            name: to_numbers(raw.frame[place])[0] / raw.scales.get(name, 1.0)
            for name, place in zip(rule.names, places, strict=True)
        }
        values = rule.values(parts.__getitem__)
        accounted_for |= {*places}
        notes.append(f"{key}: {text}, as given")
        raw = raw.reshaped(raw.frame.assign(**{canonical: values}))
        raw = raw if of_losses else raw.named({canonical: canonical})
    return replace(raw, notes=(*raw.notes, *notes), accounted_for=frozenset(accounted_for))


def _expression_of(text: str, raw: RawTable, of_losses: bool) -> Expression | None:
    """Return a text as an expression of columns; None where it is rather a misspelt column of losses."""
    try:
        return expression(text, _known_names(raw))
    except UsageError:
        if of_losses and did_you_mean(text, map(str, raw.frame.columns)):
            return None
        raise


def _known_names(raw: RawTable) -> list[str]:
    return [*map(str, raw.frame.columns), *raw.taken]


def _wide_losses(raw: RawTable, scored: bool) -> tuple[dict[str, str] | None, RawTable]:
    """Return the losses of a table that plainly has one column of them per eval, and the table with what is said."""
    result = loss_columns(name for name in map(str, raw.frame.columns) if name not in raw.ignored)
    bases = base_columns(list(result.values()), list(result.values()))
    result = {name: place for name, place in result.items() if place not in bases}
    alone = [place for place in result.values() if is_base_loss_column(raw, place)]
    alone = alone if len(alone) < len(result) else []
    refuse_differences(raw, result)
    result = {name: place for name, place in result.items() if place not in alone}
    raw = raw.named({}, *(f"left out: {place!r}, a loss of base models that no run has" for place in alone))
    mean = mean_of_others(raw.frame, list(result.values()))
    result = {name: place for name, place in result.items() if place != mean}
    if len(result) + len(bases) + len(alone) < LEAST_WIDE:
        return None, raw
    text = f"one column of losses per eval: read as evals {', '.join(result)} (--losses NAME=COLUMN,.. chooses)"
    scores = "" if scored else about_scores(map(str, raw.frame.columns))
    raw = raw if mean is None else raw.named({}, f"left out: {mean!r}, the mean of the other losses")
    return result, raw.named({}, text, *([f"{scores} reads them"] if scores else []))


def load_table(source: RunsLike, columns: ColumnNames | None) -> RawTable:
    """Read a table as it was found, numbers made plain; no row is checked."""
    raw = _table_as_found(source, columns)
    for shape in (*LAYOUTS, *PLAIN):
        raw = shape(raw)
    return raw


def _table_as_found(source: RunsLike, columns: ColumnNames | None) -> RawTable:
    """Return a table as it stands in its source."""
    raw = filled_down(units_below(upright(unnested(_read_source(source, columns)))))
    return replace(named_parts(raw, columns), columns=columns)


def _read_source(source: RunsLike, columns: ColumnNames | None) -> RawTable:
    if not isinstance(source, str | Path):
        return from_dataframe(source)
    piped = str(source) == "-"
    place, sheet = file_and_sheet(str(source))
    path = existing_file(STDIN if piped else place)
    label = "stdin" if piped else str(path)
    # Two, for .csv.gz.
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    ending = endings[-2] if len(endings) == 2 and endings[-1] == ".gz" else endings[-1] if endings else ""
    if ending in (".csv", ".tsv") or (not ending and (piped or path.is_fifo())):
        delimiter = "\t" if ending == ".tsv" else ","

        def texts(header: list[str]) -> frozenset[str]:
            # Names that are made later, of units below the header or of parts of run names, are not yet there.
            own = {name: place for name, place in (columns or {}).items() if place in header}
            return name_columns(header, own, label).text_columns

        return read_csv(path, label, texts, delimiter)
    if ending in (".jsonl", ".ndjson", ".json"):
        return read_json(path, label)
    if ending in (".parquet", ".pq"):
        return read_parquet(path, label)
    if ending == ENDING:
        return read_spreadsheet(path, label, sheet)
    if ending in (".md", ".markdown"):
        return read_markdown(path, label)
    raise DataError(f"{label}: files ending in {ending!r} are not read. Expected {_ENDINGS}; save the table as CSV.")
