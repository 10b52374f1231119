"""Whether intervals hold what was held out, at a few points of each fold: an interval costs more than a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.laws.calculus import Array

SHARE = 0.9
MOST_POINTS = 16  # per law, over all folds; each costs about a tenth of a second of CPU


def points_of_fold(folds: int) -> int:
    """Return at how many points of each of so many folds intervals are asked for."""
    return max(MOST_POINTS // max(folds, 1), 1)


def held(fitted: Any, test: pd.DataFrame, most: int) -> Array:
    """Return at points spread over the test rows whether the interval holds what was measured: 1, 0, nan where unknown.

    Parameters
    ----------
    fitted
        A fit of one law, or the average of several.
    test
        Rows with inputs and measured losses.
    most
        Points at most.
    """
    few = test.iloc[np.unique(np.linspace(0, len(test) - 1, most).round().astype(int))]
    try:
        forecast = fitted.forecast(few, SHARE)
    except CptlawError:
        return np.full(len(few), np.nan)
    low, high = (forecast[end].to_numpy(dtype=float) for end in ("lo", "hi"))
    loss = few["loss"].to_numpy(dtype=float)
    inside = (~(loss < low) & ~(loss > high)).astype(float)  # an open end holds
    # Without both ends nothing was claimed: too few runs, parameters that were typed in.
    return np.where(np.isnan(low) & np.isnan(high), np.nan, inside)


def coverage(parts: Sequence[Array]) -> float:
    """Return the share of points whose interval held; nan where no interval was given."""
    known = np.concatenate([np.zeros(0), *parts])
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else float("nan")
