"""Whether intervals hold what was held out, at a few points of each fold: an interval costs more than a forecast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.laws.calculus import Array

SHARE = 0.9
MOST_POINTS = 16  # per law, over all folds; each costs about a tenth of a second of CPU


def points_of_fold(folds: int) -> int:
    """Return at how many points of each of so many folds intervals are asked for."""
    return max(MOST_POINTS // max(folds, 1), 1)


def held(fitted: Forecaster, test: pd.DataFrame, most: int) -> Array:
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
    few = spread_over(test, most)
    try:
        forecast = fitted.forecast(few, SHARE)
    except CptlawError:
        return np.full(len(few), np.nan)
    # Without both ends nothing was claimed: too few runs, parameters that were typed in.
    silent = (forecast["lo"].isna() & forecast["hi"].isna()).to_numpy()
    return np.where(silent, np.nan, inside(forecast, few["loss"].to_numpy(dtype=float)))


def spread_over(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return so many rows at most, spread over all."""
    return rows.iloc[np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))]


def inside(forecast: pd.DataFrame, measured: Array) -> Array:
    """Return 1 where an interval holds what was measured, else 0, (n,); an end that is missing holds everything."""
    low, high = (forecast[end].to_numpy(dtype=float) for end in ("lo", "hi"))
    return (~(measured < low) & ~(measured > high)).astype(float)
