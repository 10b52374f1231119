"""Rows cut into lower levels, which are fitted, and higher ones, which are forecast: what rollouts are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.fitting.cached import HasCache, cached
from cptlaw.laws.calculus import Array

SAME_LEVEL = 0.05  # e-folds: tokens are rounded to whole batches, so that levels closer than this are one


def highest_level_of_run(level: Array, run: NDArray[np.object_]) -> Array:
    """Return the level of each row's run, which is its highest, (n,).

    A run that was cut in two would be forecast from its own first half, which is far easier than a run that nobody has
    seen.
    """
    return np.asarray(pd.Series(level).groupby(run).transform("max"), dtype=float)


def apart(levels: Array) -> Array:
    """Return the sorted levels that lie more than `SAME_LEVEL` above their neighbour below."""
    edges = np.unique(levels)
    return np.asarray(edges[np.append(True, np.diff(edges) > SAME_LEVEL)])


def cuts(
    level: Array, edges: Array, shares: Sequence[float], counted: NDArray[np.bool_] | None = None, lowest: int = 0
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield cuts as the highest level that is fitted and the mask of the rows at or below it, (n,).

    Parameters
    ----------
    level
        Of each row, in e-folds, (n,).
    edges
        The distinct levels, rising.
    shares
        Of the rows that are to be fitted; the cut nearest to each is taken, and none twice.
    counted
        The rows that the shares are of; all where absent.
    lowest
        The lowest level that may be the highest fitted one.
    """
    # A rounding above its edge, so that a level is never cut from itself.
    code = np.searchsorted(edges, level + 1e-9, side="right") - 1
    lasts = range(lowest, len(edges) - 1)
    below = np.array([np.mean((code if counted is None else code[counted]) <= last) for last in lasts])
    # Cuts that leave nearly the same rows would count one rollout twice.
    for place in dict.fromkeys(int(np.abs(below - share).argmin()) for share in shares if len(below)):
        yield lasts[place], np.asarray(code <= lasts[place])


@cached
def trained_rows(fit: HasCache) -> pd.DataFrame:
    """Return the fitted rows of trained models; all where there are no others."""
    # A base model that was measured at a size or budget says nothing of how CPT goes on there.
    frame = fit.data
    mask = trained(frame)
    return frame if mask.all() or not mask.any() else frame[mask]


def trained(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are of trained models, and no losses of base models, (n,)."""
    mask: NDArray[np.bool_] = (
        (frame["tokens"] > 0).to_numpy() if "tokens" in frame.columns else np.full(len(frame), True)
    )
    return mask
