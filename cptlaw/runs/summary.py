"""A runs table in a few lines: for people, for notebooks, and as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from cptlaw.result import Line
from cptlaw.runs.levels import distinct_levels
from cptlaw.runs.metrics import loss_unit, score_evals
from cptlaw.runs.schema import COLUMNS, corpus_of, mix_columns
from cptlaw.units import format_percent, format_quantity

MOST_LEVELS_SHOWN = 8


def factor_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per number column: its levels, range, and missing values.

    Returns
    -------
    DataFrame
        Index ``factor``; columns ``levels`` (how many distinct values), ``min``, ``max``, ``missing`` (how many rows).

    Examples
    --------
    >>> factor_table(pd.DataFrame({"loss": [2.0, 3.0], "ptpp": [15.0, 15.0]})).loc["ptpp"].tolist()
    [1.0, 15.0, 15.0, 0.0]
    """
    rows = {}
    for name in (name for name, column in COLUMNS.items() if column.numeric and name in frame.columns):
        levels = distinct_levels(frame[name])
        low, high = (levels[0], levels[-1]) if levels.size else (np.nan, np.nan)
        rows[name] = (levels.size, low, high, int(frame[name].isna().sum()))
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["levels", "min", "max", "missing"])
    return table.rename_axis("factor")


def describe_levels(column: pd.Series) -> str:
    """Return the levels of a column in words: all of them where they are few, else how many and the range.

    Examples
    --------
    >>> describe_levels(pd.Series([31.0, 15.0, 31.0]))
    '15, 31'
    """
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        levels = distinct_levels(column)
        if levels.size > MOST_LEVELS_SHOWN:
            return f"{levels.size} levels from {format_quantity(levels[0])} to {format_quantity(levels[-1])}"
        return ", ".join(format_quantity(level) for level in levels) or "no value"
    words = sorted(str(word) for word in column.dropna().unique())
    more = f", and {len(words) - MOST_LEVELS_SHOWN} more" if len(words) > MOST_LEVELS_SHOWN else ""
    return ", ".join(words[:MOST_LEVELS_SHOWN]) + more or "no value"


def summary_lines(frame: pd.DataFrame, evals: Iterable[str], n_params_kind: str | None) -> list[Line]:
    """Return the summary as pairs of a name and what there is to say."""
    lines = [("evals", ", ".join(evals))]
    for name in ("n_params", "tokens", "replay", "ptpp", "lr_schedule", "lr_peak", "domain", "seed"):
        if name in frame.columns and frame[name].notna().any():
            kind = f" ({n_params_kind})" if name == "n_params" and n_params_kind else ""
            missing = int(frame[name].isna().sum())
            lines.append((name + kind, describe_levels(frame[name]) + (f" ({missing} missing)" if missing else "")))
    if mixed := mix_columns(frame.columns):
        corpora = ", ".join(str(corpus_of(one)) for one in mixed)
        lines.append(("mix", f"{len(frame[[*mixed]].drop_duplicates())} mixes of {len(mixed)} corpora: {corpora}"))
    scores = frame["eval"].astype(str).isin(list(score_evals(frame))).to_numpy()
    if (~scores).any():
        losses = frame.loc[~scores, "loss"]
        units = dict.fromkeys(loss_unit(rows) for _, rows in frame[~scores].groupby("eval", observed=True))
        lines.append(("loss", f"{losses.min():.4g} to {losses.max():.4g} {' or '.join(units)}"))
    if scores.any():
        shares = frame.loc[scores, "loss"]
        lines.append(("scores", f"{format_percent(shares.min())} to {format_percent(shares.max())}"))
    return lines
