"""How likely a measured loss keeps a limit, from the quantiles of a forecast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.laws.calculus import Array

# At these the quantiles are asked for. Few do: between them the normal deviate is nearly straight in the log loss.
CHANCES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995)


def probability_below(fitted: Any, row: pd.DataFrame, limit: float) -> float:
    """Return the probability that a loss measured at a row is at most a limit.

    It is 0 or 1 beyond the outermost quantiles, and nan where there are none.

    Parameters
    ----------
    fitted
        A fitted loss, with `log_quantiles`.
    row
        Its inputs, one row.
    limit
        Nats per token.
    """
    quantiles: Array = fitted.log_quantiles(row, CHANCES)[0]
    known = np.isfinite(quantiles)  # a loss that the data does not bound has none at the ends
    if not known.any():
        return float("nan")
    # Each quantile comes from its own profile, so that two of them may cross by rounding; the normal scale makes the
    # steps between them nearly straight.
    quantiles, deviates = np.maximum.accumulate(quantiles[known]), special.ndtri(CHANCES)[known]
    asked = float(np.log(limit))
    if known.all() and not quantiles[0] <= asked <= quantiles[-1]:
        return 0.0 if asked < quantiles[0] else 1.0
    return float(special.ndtr(np.interp(asked, quantiles, deviates)))
