"""Rows of a derived score, added to the table that it is made of."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from cptlaw.runs import Runs

DERIVED = "derived"  # column that tells rows which were computed from others


def appended(table: Runs, added: pd.DataFrame) -> Runs:
    """Return a table with the rows of a derived score."""
    marked = added.assign(**{DERIVED: True})
    marked.index = pd.RangeIndex(len(added)) + int(table.frame.index.max()) + 1
    texts = [one for one in table.frame.columns if isinstance(table.frame[one].dtype, pd.CategoricalDtype)]
    plain = table.frame.astype(dict.fromkeys(texts, object))
    joined = pd.concat([plain, marked.astype(dict.fromkeys(texts, object))])
    joined.index.name = table.frame.index.name
    return replace(table, frame=joined.astype(dict.fromkeys(texts, "category")))
