"""From a table as it was found to one with canonical columns, or to a list of all that is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.runs.convert import to_numbers, to_text
from cptlaw.runs.corpora import add_mix
from cptlaw.runs.derive import derived
from cptlaw.runs.metrics import INSTEAD, KNOWN, LOSS, as_shares, is_known, metrics_of, named_apart
from cptlaw.runs.missing_losses import no_losses
from cptlaw.runs.naming import Naming
from cptlaw.runs.numbers import Floats, checked_numbers, place_of
from cptlaw.runs.problems import Problems
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.repeats import add_repeated_rows
from cptlaw.runs.schema import COLUMNS, N_PARAMS_KINDS, SMALLEST_RAW_COUNT, Column
from cptlaw.runs.table import Runs

Mask = npt.NDArray[np.bool_]
MOST_SAMPLES = 1e7  # of a fine-tuning set

ASSUMED = {
    "run": "no column 'run': every row is taken as a run of its own ({!r}, ..)",
    "eval": "no column 'eval': every loss is taken as one of eval 'target'",
}


def check_table(raw: RawTable, n_params_kind: str | None = None) -> Runs:
    """Convert the columns of a table and check its rows, so that every law may rely on them.

    Raises
    ------
    DataError
        Naming every kind of problem, with the number of bad rows and the first few of them.
    """
    problems, rows = Problems(raw.label), raw.frame.index
    naming = _with_samples(raw.frame, raw.naming)
    if "loss" not in naming.file_columns:
        raise no_losses(raw)
    data: dict[Hashable, object] = {
        name: _checked_column(raw.frame, naming, column, problems)
        for name, column in COLUMNS.items()
        if name in naming.file_columns
    }
    notes = [*naming.notes, *raw.notes, *add_mix(data, raw.frame, naming, problems), *derived(data, raw.frame)]
    assumed = _assume_missing(data, rows)
    notes += [ASSUMED[name].format(f"row-{rows[0]}") for name in assumed]
    if "metric" in data:
        notes += _scores_in(data, raw.frame[naming.file_columns["loss"]], problems)
    used = set(naming.file_columns.values())
    rest = [name for name in raw.frame.columns if name not in used and name not in data and name not in COLUMNS]
    data |= {name: raw.frame[name].array for name in rest}
    # Known columns first and in one order, so that tables print alike wherever they came from.
    order = [*(name for name in COLUMNS if name in data), *(name for name in data if name not in COLUMNS)]
    # Else pandas would look for a type of its own for text of any kind, and fail on halves of characters.
    index = pd.Index(rows, name=ROW)
    columns = {name: _as_found(data[name], index) for name in order}
    frame = pd.DataFrame(columns, index=index)
    kind = _checked_kind(frame, n_params_kind, problems) or naming.n_params_kind
    # Rows whose step or tokens could not be read would look alike; what is wrong with them has been said.
    unread = any(f"column {name!r}" in text for name in ("step", "tokens") for text in problems.messages)
    if "run" not in assumed and not unread:
        add_repeated_rows(frame, "eval" in assumed, problems)
    _check_tokenizers(frame, problems)
    problems.raise_if_any()
    return Runs(
        frame, raw.path, n_params_kind=kind, notes=tuple(notes), assumed=assumed, accounted_for=raw.accounted_for
    )


def _with_samples(frame: pd.DataFrame, naming: Naming) -> Naming:
    """Return the naming with a column of tokens read as samples, where it counts what fine-tuning sets hold.

    Such a table has base models (tokens 0), no mix and no budget, and too few tokens in some rows but not in all:
    where all are few, billions may be meant, and beside billions a few are a slip.
    """
    known = dict(naming.file_columns)
    if "tokens" not in known or {"samples", "step", "replay", "ptpp", "pt_tokens"} & set(known):
        return naming
    counts, _ = to_numbers(frame[known["tokens"]])
    few, largest = counts < SMALLEST_RAW_COUNT, np.nanmax(counts, initial=0.0)
    if not ((counts == 0).any() and (few & (counts > 0)).any() and SMALLEST_RAW_COUNT <= largest <= MOST_SAMPLES):
        return naming
    return replace(naming, file_columns={"samples": known.pop("tokens"), **known})


def _checked_column(frame: pd.DataFrame, naming: Naming, column: Column, problems: Problems) -> object:
    """Read one column of the schema: losses that may be scores, numbers, or text."""
    if column.name == "loss" and "metric" in naming.file_columns:
        return _checked_values(frame, naming, column, problems)
    result = frame[naming.file_columns[column.name]]
    return checked_numbers(result, column, problems) if column.numeric else _checked_text(result, column, problems)


def _checked_values(frame: pd.DataFrame, naming: Naming, column: Column, problems: Problems) -> Floats:
    """Read the column of losses where some of its rows hold scores, which may be 0."""
    result = frame[naming.file_columns["loss"]]
    _, scores = metrics_of(frame[naming.file_columns["metric"]])
    of_score = replace(column, meaning="a score from 0 to 1, or in percent", positive=False, highest=100.0)
    values = np.full(len(result), np.nan)
    for mask, kind in ((~scores, column), (scores, of_score)):
        if mask.any():
            values[mask] = checked_numbers(result[mask], kind, problems)
    return values


def _scores_in(data: dict[Hashable, object], result: pd.Series, problems: Problems) -> tuple[str, ...]:
    """Bring metrics to their own names and scores to shares, in place, and return notes on it."""
    metric, scores = metrics_of(pd.Series(data["metric"]))
    evals = pd.Series(data["eval"])
    # A loss is what a row holds where nothing is said: a table of losses alone is the same with the column and without.
    data["metric"] = to_text(pd.Series([None if name == LOSS else name for name in metric], dtype=object))
    _check_metrics(metric, result.index, problems)
    if not scores.any():
        return ()
    evals, notes = named_apart(evals, metric)
    data["eval"] = to_text(evals)
    values = np.asarray(data["loss"], dtype=float)
    values[scores], more = as_shares(values[scores], metric[scores], evals[scores], result[scores], problems)
    data["loss"] = values
    return (*notes, *more)


def _check_metrics(metric: npt.NDArray[np.object_], rows: pd.Index, problems: Problems) -> None:
    """Refuse rows of which nothing is known: fitted like a loss, what rises with quality would be forecast to fall."""
    strange, cells = [name for name in dict.fromkeys(metric) if not is_known(name)], pd.Series(metric, index=rows)
    for name in strange:
        remedy = INSTEAD.get(name, "Name the one that it is, or leave these rows out.")
        problems.add_rows("column 'metric'", cells, metric == name, f"one of {KNOWN}", remedy)


def _as_found(values: object, index: pd.Index) -> object:
    is_any = str(getattr(values, "dtype", "")) == "object"
    return pd.Series(np.asarray(values, dtype=object), index=index, dtype=object) if is_any else values


def _checked_text(result: pd.Series, column: Column, problems: Problems) -> pd.Categorical:
    values = to_text(result)
    if column.required:
        missing = np.asarray(values.codes == -1)
        remedy = "Fill the field, or remove the row."
        problems.add_rows(
            place_of(result, column), result, missing, column.expected, remedy, describe=lambda _: "nothing"
        )
    return values


def _assume_missing(data: dict[Hashable, object], rows: pd.Index) -> tuple[str, ...]:
    """Fill in the columns ``run`` and ``eval`` where they are not there, and return which these are."""
    assumed = tuple(name for name in ("run", "eval") if name not in data)
    for name in assumed:
        data[name] = to_text(pd.Series([f"row-{row}" if name == "run" else "target" for row in rows]))
    return assumed


def _checked_kind(frame: pd.DataFrame, given: str | None, problems: Problems) -> str | None:
    if "n_params_kind" not in frame.columns:
        return given
    column = frame["n_params_kind"]
    unknown = (column.notna() & ~column.isin(N_PARAMS_KINDS)).to_numpy(dtype=np.bool_)
    remedy = "Write one of the two, or leave the field empty."
    problems.add_rows("column 'n_params_kind'", column, unknown, " or ".join(N_PARAMS_KINDS), remedy)
    kinds = [kind for kind in N_PARAMS_KINDS if (column == kind).any()]
    if len(kinds) > 1:
        first = {kind: frame.index[np.flatnonzero(column == kind)[0]] for kind in kinds}
        listed = ", ".join(f"{kind} (row {row})" for kind, row in first.items())
        problems.add(
            f"column 'n_params_kind' mixes {listed}. Expected one kind in a table, as sizes are compared with each "
            "other. Give n_params of all rows in one kind."
        )
    elif given and kinds and kinds != [given]:
        problems.add(
            f"column 'n_params_kind' says {kinds[0]}, and n_params_kind={given!r} was asked for. Expected the same; "
            "leave one of them out."
        )
    return kinds[0] if kinds else given


def _check_tokenizers(frame: pd.DataFrame, problems: Problems) -> None:
    if "tokenizer" not in frame.columns:
        return
    known = frame.loc[frame["tokenizer"].notna(), ["eval", "tokenizer"]].drop_duplicates()
    for name, group in known.groupby("eval", observed=True):
        if len(group) > 1:
            listed = ", ".join(f"{tokenizer} (row {row})" for row, tokenizer in group["tokenizer"].items())
            problems.add(
                f"column 'tokenizer': eval {str(name)!r} mixes {listed}. Expected one tokenizer in an eval, as nats "
                "per token of different tokenizers do not compare. Give each an eval of its own, or keep one of them."
            )
