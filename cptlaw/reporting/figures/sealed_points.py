"""What a sealed forecast promises: its losses with their intervals."""

from __future__ import annotations

import pandas as pd

from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.figures.forecast_points import along_points
from cptlaw.sealing import Seal


def sealed_points(seal: Seal, along: str | None = None) -> Figure:
    """Draw the losses of a sealed forecast with their intervals.

    Parameters
    ----------
    seal
        As `cptlaw.register` and `cptlaw.load_seal` give it.
    along
        Column of the horizontal axis; where absent the input with the most levels.

    Returns
    -------
    Figure
        Data: one row per sealed loss.

    Raises
    ------
    UsageError
        If there is no such column.
    """
    return along_points("sealed-points", seal.title, pd.DataFrame([dict(point) for point in seal.points]), along, seal)
