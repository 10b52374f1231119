"""A loss over replay and tokens, evaluated once on a grid: for losses without an inverse, above all averages of laws.

A search for the fewest tokens asks for tens of thousands of losses, and an average of several laws takes milliseconds
for each call, however few. So the search runs on a spline through a grid, and once more through a fine one about its
answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import Loss

MOST = 50.0  # in log loss: what is not finite, or beyond, is this bad
NARROW = 1e-12  # a range of replay narrower than this is one replay


class Surface:
    """The log loss as a cubic spline.

    Parameters
    ----------
    replay, log_tokens
        Ends of the two ranges. Beyond them the value at the nearest end holds.
    shape
        Of the grid.
    """

    def __init__(
        self, loss: Loss, replay: tuple[float, float], log_tokens: tuple[float, float], shape: tuple[int, int]
    ) -> None:
        from scipy.interpolate import CubicSpline, RectBivariateSpline

        self.replay, self.log_tokens = replay, log_tokens
        single = not loss.reads("replay") or replay[1] - replay[0] <= NARROW
        shares = np.array(replay[:1]) if single else np.linspace(*replay, shape[0])
        logs = np.linspace(*log_tokens, shape[1])
        with np.errstate(all="ignore"):
            # Logs, so that a loss that falls by powers is nearly a plane, and a cubic through few points enough.
            values = np.log(loss.at(shares[:, None], np.exp(logs)[None, :]))
        values = np.clip(np.nan_to_num(values, nan=MOST, posinf=MOST, neginf=-MOST), -MOST, MOST)
        self._spline: Any = CubicSpline(logs, values[0]) if single else RectBivariateSpline(shares, logs, values, s=0)
        self._single = single

    def at(self, replay: Array, log_tokens: Array) -> Array:
        """Return losses at points of one shape."""
        # A cubic beyond its last knot runs off to anywhere.
        logs = np.clip(log_tokens, *self.log_tokens)
        if self._single:
            return np.asarray(np.exp(self._spline(logs)), dtype=float)
        shares = np.clip(replay, *self.replay)
        if np.ndim(logs) == 2 and logs.shape[1] > 1 and (logs == logs[:, :1]).all() and (shares == shares[:1]).all():
            # A scan asks for the same tokens at every replay: a grid, which costs a tenth of as many single points.
            rows, back = np.unique(shares[0], return_inverse=True)
            columns, place = np.unique(logs[:, 0], return_inverse=True)
            on_grid: Array = np.exp(self._spline(rows, columns))
            return np.asarray(on_grid[np.ix_(back, place)].T, dtype=float)
        found: Array = np.exp(self._spline.ev(shares.ravel(), logs.ravel()))
        return found.reshape(np.shape(logs))
