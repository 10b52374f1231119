"""How likely what is measured keeps a limit, from the quantiles of a forecast; and the same in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.fitting.forecaster import Forecaster
from cptlaw.laws.calculus import Array
from cptlaw.units import format_percent

# At these the quantiles are asked for. Few do: between them the normal deviate is nearly straight in the log loss.
CHANCES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995)

# Upper end of each range, and what is said of probabilities in it, so that a coin toss never reads like advice.
SCALE = (
    (0.05, "almost certainly not"),
    (0.25, "unlikely"),
    (0.4, "less likely than not"),
    (0.6, "a coin toss"),
    (0.75, "more likely than not"),
    (0.9, "likely"),
    (0.975, "very likely"),
    (1.0, "almost certain"),
)


class HasQuantiles(Protocol):
    """A fitted score."""

    def quantiles(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Array:
        """Return quantiles of a measured score, (probabilities, n)."""


def probability_below(
    fitted: Forecaster, row: pd.DataFrame, limit: float, doubted: Callable[[Array, float], Array] | None = None
) -> float:
    """Return the probability that a loss measured at a row is at most a limit.

    It is 0 or 1 beyond the outermost quantiles, and nan where there are none.

    Parameters
    ----------
    fitted
        The fitted loss.
    row
        One row of inputs.
    limit
        In nats per token.
    doubted
        Returns the half-width in logs of the doubt about the loss beside its limit, which is in doubt as well, from
        that about the loss, (1,), and the coverage of an interval.
    """
    quantiles: Array = fitted.log_quantiles(row, CHANCES)[:, 0]
    if doubted is not None:
        centre, chances = float(np.log(fitted.predict(row))[0]), np.asarray(CHANCES)
        half_widths = [
            doubted(np.array([abs(quantile - centre)]), abs(2.0 * chance - 1.0))[0]
            for quantile, chance in zip(quantiles, chances, strict=True)
        ]
        quantiles = centre + np.sign(chances - 0.5) * np.array(half_widths)
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


def probability_above(fitted: HasQuantiles, row: pd.DataFrame, least: float) -> float:
    """Return the probability that a measured score at a row is at least so high, from the forecast's quantiles."""
    ordered = np.maximum.accumulate(fitted.quantiles(row, CHANCES)[:, 0])
    return 1.0 - float(np.interp(least, ordered, CHANCES, left=0.0, right=1.0))


def likelihood(probability: float | None) -> str:
    """Return a probability in words, with the number behind them; the words are those of the number that is shown.

    ``None`` is the probability that an error beside it leaves unsaid.

    Examples
    --------
    >>> likelihood(0.5), likelihood(0.8), likelihood(0.999)
    ('a coin toss (50%)', 'likely (80%)', 'almost certain (above 99%)')
    >>> likelihood(0.9000001), likelihood(0.906)
    ('likely (90%)', 'very likely (91%)')
    """
    if probability is None:
        return "not known: an error stands against it"
    if np.isnan(probability):
        return "not known: the data does not bound it"
    shown = round(probability, 2)
    words = next(words for top, words in SCALE if shown <= top)
    if probability > 0.99:
        return f"{words} (above 99%)"
    return f"{words} ({'below 1%' if probability < 0.01 else format_percent(shown)})"
