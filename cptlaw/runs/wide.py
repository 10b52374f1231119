"""Wide tables, with one column of losses per eval, made into one row per measured loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, join_names
from cptlaw.runs.convert import to_numbers
from cptlaw.runs.metrics import LOSS, NATS_PER_BYTE, PASS_AT, UNITS, metric_name
from cptlaw.runs.naming import no_column
from cptlaw.runs.number_formats import nats_of
from cptlaw.runs.numbers import checked_numbers
from cptlaw.runs.problems import Problems
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import COLUMNS
from cptlaw.units import counted

MEAN_OFF = 1e-3  # by which a mean that was rounded may miss


def wide_to_long(raw: RawTable, losses: Mapping[str, str] | None, scores: Mapping[str, str] | None = None) -> RawTable:
    """Return a table with one row per eval and row of a wide one.

    Parameters
    ----------
    losses
        Eval -> column of the table. An empty field is a loss that was not measured.
    scores
        Eval -> column of scores, such as accuracy; the metric is read off the column's name.

    Returns
    -------
    RawTable
        With the columns ``eval`` and ``loss``, and ``metric`` where there are scores, in place of those that were
        named; the rows of one run that stood in one row keep its number, which messages name.

    Raises
    ------
    UsageError
        If a column does not exist, or the table already has an eval or a loss for each row.
    DataError
        If a loss cannot be read, or no row holds any.
    """
    losses, scores = losses or {}, scores or {}
    _check_evals(raw, losses, scores)
    # Several evals may be read from one column, which then goes once.
    rest = raw.frame.drop(columns=list(dict.fromkeys([*losses.values(), *scores.values()]))).copy()
    taken = raw.reshaped(rest).taken
    for name in ("eval", "loss", *(["metric"] if scores else [])):
        if name in taken:
            raise UsageError(
                f"losses=: {raw.label} has the column {taken[name]!r} for {name} already, so that it is not a wide "
                f"table. Leave losses= (--losses) out, or rename that column."
            )
    # A missing loss is an eval that was not measured at that row, so it is no error here as it is in a long table.
    expected = replace(COLUMNS["loss"], required=False)
    problems = Problems(raw.label)
    parts, notes = [], []
    for name, place in losses.items():
        values = checked_numbers(raw.frame[place], expected, problems)
        values, what, unit = nats_of(place, values)
        metric = NATS_PER_BYTE if unit == UNITS[NATS_PER_BYTE] else LOSS
        notes += [f"eval {name!r}: {place!r} is {what}, converted to {unit}"] if what else []
        parts.append(rest.assign(eval=name, loss=values, metric=metric)[~np.isnan(values)])
    for name, place in scores.items():
        # Text stays as it is: whether scores are in percent is decided over the whole column, later.
        measured = raw.frame[place].notna().to_numpy() & (raw.frame[place].astype(str).str.strip() != "").to_numpy()
        of_eval = rest.assign(eval=name, loss=raw.frame[place].to_numpy(dtype=object), metric=score_of(place))
        parts.append(of_eval[measured])
    problems.raise_if_any()
    # The evals of a row stay together, in the order in which they were named.
    order = pd.Series(range(len(raw.frame)), index=raw.frame.index)
    frame = pd.concat(parts)
    frame = frame.iloc[np.argsort(order[frame.index].to_numpy(), kind="stable")]
    if not scores and (frame["metric"] == LOSS).all():
        frame = frame.drop(columns="metric")
    if frame.empty:
        named = ", ".join(map(repr, [*losses.values(), *scores.values()]))
        raise DataError(f"{raw.label}: the columns {named} hold no loss in any row.")
    if without := rest.index.difference(frame.index).tolist():
        notes.append(
            f"left out: {counted(len(without), 'row')} without any loss (row {join_names(map(str, without), 4)})"
        )
    return raw.reshaped(frame, *notes)


def _check_evals(raw: RawTable, losses: Mapping[str, str], scores: Mapping[str, str]) -> None:
    """Refuse evals that are no names, or whose columns do not exist."""
    names = [str(name) for name in raw.frame.columns]
    if not losses and not scores:
        raise UsageError("losses=: expected a mapping such as {'arxiv': 'arxiv_loss'} (--losses arxiv=arxiv_loss).")
    for option, given in (("losses", losses), ("scores", scores)):
        for name, column in given.items():
            if column not in names:
                raise no_column(column, names, f"{option}=: {raw.label}", f"to read the {option} of eval {name!r} from")
    if halves := [name for name in (*losses, *scores) if any("\ud800" <= one <= "\udfff" for one in name)]:
        raise UsageError(f"losses=: {halves[0]!a} holds half a character, and names no eval. Give another name.")
    if twice := sorted(set(losses) & set(scores)):
        raise UsageError(f"losses= and scores= both name the eval {twice[0]!r}. Give each a name of its own.")


def mean_of_others(frame: pd.DataFrame, places: list[str]) -> str | None:
    """Return the column of losses that is the mean of all others in every row; ``None`` where none is."""
    values = {place: to_numbers(frame[place])[0] for place in places} if len(places) > 2 else {}
    for place, mean in values.items():
        others = np.mean([one for other, one in values.items() if other != place], axis=0)
        if np.isfinite(mean).sum() > 1 and np.allclose(mean, others, rtol=MEAN_OFF, atol=0.0):
            return place
    return None


def score_of(column: str) -> str:
    """Return the metric that a column of scores is named after; accuracy where its name does not tell.

    Examples
    --------
    >>> score_of("downstream/piqa_len_norm"), score_of("gsm8k_exact_match"), score_of("math500")
    ('accuracy_norm', 'exact_match', 'accuracy')
    """
    word = column.lower()
    for ending in ("exact_match", "len_norm", "acc_norm", "f1"):
        if ending in word:
            return metric_name(ending)
    match = PASS_AT.search(word)
    return metric_name(match[0]) if match else "accuracy"
