"""Forecast points with fits of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.fitting.fitted_law import Fit
from cptlaw.runs.points import as_points
from cptlaw.schedules import Schedule
from cptlaw.uncertainty.answers import ForecastFrame
from cptlaw.units import parse_probability
from cptlaw.verbs.load_file import load_fit


def forecast(
    fits: Fit | str | Path | Sequence[Fit | str | Path],
    at: Any,
    interval: float | str | None = 0.9,
    schedules: Mapping[str, Schedule] | str | Path | None = None,
) -> ForecastFrame:
    """Forecast points with one or several fits.

    Parameters
    ----------
    fits
        Fits, or their files.
    at
        Rows with the inputs of the laws: a DataFrame, a mapping of columns, or one point as text, such as
        ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"``.
    interval
        Probability that a measured loss lies between lo and hi; ``None`` leaves the two columns out.
    schedules
        For laws of loss curves: learning-rate schedules by run, or a schedules file, beside those of the fitted runs.

    Returns
    -------
    DataFrame
        One row per fit and point, as `Fit.forecast` gives them, with ``law`` and ``on``.

    Examples
    --------
    >>> import cptlaw as cl
    >>> rows = "replay in (0.1, 0.25, 0.5) and atpp >= 1.9 and ptpp in (31, 62, 124)"
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> fits = [cl.fit(law, runs, on="target", where=rows, starts=16) for law in ("ptpp-floor", "ptpp-nearest")]
    >>> found = cl.forecast(fits, "n_params=125K,tokens=1M,replay=25%,ptpp=279", interval=None)
    >>> found["law"].tolist()
    ['ptpp-floor', 'ptpp-nearest']
    """
    several: list[Any] = list(fits) if isinstance(fits, list | tuple) else [fits]
    read: list[Any] = [load_fit(fit) if isinstance(fit, str | Path) else fit for fit in several]
    if schedules is not None:
        read = [fit.with_schedules(schedules) if fit.law.needs_schedules else fit for fit in read]
    if interval is not None:
        interval = parse_probability(interval, "interval (--interval)")
    frame = as_points(at)
    tables = [fit.forecast(frame, interval).assign(law=fit.law.spec, on=fit.on) for fit in read]
    return ForecastFrame.of(pd.concat(tables, ignore_index=True), interval, read)
