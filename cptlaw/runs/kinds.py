"""Kinds of runs that no law tells apart: ways of adapting a model, and vocabularies.

Runs of one kind are fitted together with the base models that they start from; `answer` takes the best kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.runs.table import Runs
from cptlaw.runs.where import Mask

# Column -> what an empty cell of an adapted model means. Losses per token of two vocabularies do not compare.
KINDS: Mapping[str, str | float] = {"method": "full", "vocab_added": 0.0}


NAMES = 4  # methods from which on each must have two runs in the mean: else they are names of runs


@dataclass(frozen=True)
class Kind:
    """Rows that belong together.

    Parameters
    ----------
    levels
        What tells the kind, by column; empty where there is but one.
    query
        The filter that chooses its rows and those of base models.
    mask
        Its rows and those of its own base models, (n,).
    adapted
        Its rows of adapted models, (n,).
    """

    levels: Mapping[str, str | float]
    query: str
    mask: Mask
    adapted: Mask

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {level if isinstance(level, str) else f'{level:g}'}" for name, level in self.levels.items()
        )


def kinds(runs: Runs, where: str | None = None) -> list[Kind]:
    """Return the kinds of runs among the rows of a filter, the one of most runs first; one where nothing tells them.

    A method that ranks of adapters or weights of merges tell as well is none: laws read these columns.
    """
    frame = runs.frame
    every = np.ones(len(frame), dtype=bool)
    adapted = (frame["tokens"] != 0).to_numpy(dtype=bool) if "tokens" in frame.columns else every
    result = [Kind({}, "", every, adapted)]
    for name in [name for name in KINDS if name in frame.columns]:
        split = list(_split(frame, name, adapted))
        result = [
            Kind({**kind.levels, name: one}, " and ".join(filter(None, (kind.query, query))), mask, mask & adapted)
            for kind in (result if split else [])
            for one, query, rows in split
            for mask in [kind.mask & rows]
        ] or result
    chosen = frame.index.isin((runs if where is None else runs.where(where)).frame.index)
    count = {kind.query: frame.loc[kind.adapted & chosen, "run"].nunique() for kind in result}
    kept = [kind for kind in result if count[kind.query] or len(result) == 1]
    return sorted(kept, key=lambda kind: -count[kind.query])


def _split(frame: pd.DataFrame, name: str, adapted: Mask) -> Iterator[tuple[str | float, str, Mask]]:
    """Yield each level of a column that tells kinds, the filter of its rows, and these with their base models."""
    level = frame[name].astype(object)
    level = level.where(level.notna() | ~adapted, KINDS[name])
    known = sorted(level[adapted].unique())
    read = [frame.loc[adapted, one].fillna(1.0) != 1.0 for one in ("lora_rank", "merge_weight") if one in frame]
    names_runs = name == "method" and len(known) > max(NAMES, frame.loc[adapted, "run"].nunique() / 2)
    if names_runs or level[adapted].groupby(read or np.zeros(adapted.sum())).nunique().max() < 2:
        return
    for one in known:
        rows = (level == one).to_numpy(dtype=bool)
        # A base model that names no kind of the adapted ones is the start of all; so is that of the one method
        # which measured any, for the others.
        alone = name == "method" and not (rows & ~adapted).any() and level[~adapted].nunique() < 2
        bases = ~adapted if alone else ~adapted & ~level.isin(known).to_numpy(dtype=bool)
        others = ", ".join(_text(other) for other in known if other != one)
        told = frame.loc[rows & adapted, name].notna().all()
        query = f"{name} == {_text(one)}" if told else f"not {name} in ({others})"
        yield one, f"({query} or tokens == 0)" if "tokens" in frame.columns else query, rows | bases


def _text(level: str | float) -> str:
    if not isinstance(level, str):
        return f"{level:g}"
    return f"'{level}'" if '"' in level else f'"{level}"'
