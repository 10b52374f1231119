"""An average of laws read off a table of replay and tokens: what makes a slider move at once.

An average takes milliseconds for every call, however few rows it has, and a plan makes hundreds of calls at one model.
Here it is evaluated once over all mixes of that model, and splines go through the values, right to 1e-5. Forecasts that
are shown are still the average's own: only the search for a plan and the colours of the map are read off the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import Columns
from cptlaw.planning.loss import laws_of
from cptlaw.planning.mixes.min_tokens import MOST_TIMES
from cptlaw.runs.points import as_points

SHARES, NEAR, FAR = 17, 57, 40  # grid points: replay, log tokens about the fitted runs, and as far as plans look
ABOUT = 100.0  # times the most fitted tokens up to which the grid is fine
BEYOND = 0.002  # of replay, on either side of what plans search: slopes are taken there
WORST = 50.0  # in log loss, for what is not finite
MOST_TABLES = 32
MOST_KNOWN = 512
LEAST_GRID = 256  # points from which it is worth looking whether they are a grid


class Tabled:
    """A fitted average whose losses at many mixes of one model come off a table; all else is the average's own.

    Parameters
    ----------
    fit
        The average.
    replay, tokens
        Smallest and largest value that plans search, tokens raw.
    """

    reads_columns = True  # without a table of pandas around them

    def __init__(self, fit: Any, replay: tuple[float, float], tokens: tuple[float, float]) -> None:
        self._fit = fit
        self._replay = (max(replay[0] - BEYOND, 0.0), min(replay[1] + BEYOND, 1.0))
        self._ends = (0.4 * tokens[0], ABOUT * tokens[1], 1.1 * MOST_TIMES * tokens[1])
        self._tables: OrderedDict[Any, Callable[[Array, Array], Array]] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fit, name)

    def predict(self, frame: Any) -> Array:
        """Return the loss of each row, nats per token, (n,)."""
        if isinstance(frame, Columns):
            found = self._read(list(frame.columns), np.column_stack(list(frame.columns.values())))
            if found is not None:
                return np.asarray(np.exp(found), dtype=float)
            frame = pd.DataFrame(dict(frame.columns))
        rows = as_points(frame)
        found = self._read(list(rows.columns), rows.to_numpy(dtype=float))
        return np.asarray(self._fit.predict(rows) if found is None else np.exp(found), dtype=float)

    def _read(self, names: list[str], values: Array) -> Array | None:
        """Return log losses off a table; ``None`` where the rows are no mixes of one model within it."""
        if "tokens" not in names or not len(values):
            return None
        fixed = [place for place, name in enumerate(names) if name not in ("replay", "tokens")]
        tokens = values[:, names.index("tokens")]
        replay = values[:, names.index("replay")] if "replay" in names else np.full(len(values), self._replay[0])
        within = (self._replay[0] <= replay) & (replay <= self._replay[1])
        within &= (self._ends[0] <= tokens) & (tokens <= self._ends[2])
        if not within.all() or (values[:, fixed] != values[0, fixed]).any():
            return None
        key = (tuple(names), values[0, fixed].tobytes())
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._tabulate(pd.DataFrame(values[:1], columns=names))
            while len(self._tables) > MOST_TABLES:
                self._tables.popitem(last=False)
        return table(replay, np.log(tokens))

    def _tabulate(self, row: pd.DataFrame) -> Callable[[Array, Array], Array]:
        from scipy.interpolate import RectBivariateSpline, make_interp_spline

        first, about, last = np.log(self._ends)
        logs = np.concatenate([np.linspace(first, about, NEAR), np.linspace(about, last, FAR + 1)[1:]])
        mixed = "replay" in row.columns and self._replay[1] - self._replay[0] > 2.5 * BEYOND
        replay = np.linspace(*self._replay, SHARES) if mixed else np.array(self._replay[:1])
        grid = row.iloc[np.zeros(len(replay) * len(logs), dtype=int)].reset_index(drop=True)
        grid["tokens"] = np.tile(np.exp(logs), len(replay))
        if "replay" in grid.columns:
            grid["replay"] = np.repeat(replay, len(logs))
        with np.errstate(all="ignore"):
            values = np.log(self._fit.predict(grid))
        values = np.clip(np.nan_to_num(values, nan=WORST, posinf=WORST, neginf=-WORST), -WORST, WORST)
        if not mixed:
            line = make_interp_spline(logs, values)
            return lambda _, at: np.asarray(line(at), dtype=float)
        surface: Any = RectBivariateSpline(replay, logs, values.reshape(len(replay), len(logs)))
        return lambda share, at: _read_off(surface, share, at)


def _read_off(surface: Any, replay: Array, logs: Array) -> Array:
    """Return a spline at points, (n,); where they are all mixes of a few levels as a grid, at a tenth of the cost."""
    if len(replay) > LEAST_GRID:
        (shares, row), (tokens, column) = (np.unique(values, return_inverse=True) for values in (replay, logs))
        if len(shares) * len(tokens) <= 2 * len(replay):
            return np.asarray(surface(shares, tokens)[row, column], dtype=float)
    return np.asarray(surface.ev(replay, logs), dtype=float)


class Remembering:
    """A fitted loss that carries scores: what it says of a mix is asked once and not by each score anew."""

    def __init__(self, fit: Any) -> None:
        self._fit = fit
        self._known: dict[Any, Array] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fit, name)

    def log_quantiles(self, frame: pd.DataFrame, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss at each row, (probabilities, n)."""
        key = tuple(frame.columns), frame.to_numpy(dtype=float).tobytes(), tuple(probabilities), measured
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known = {}
            found = self._known[key] = np.asarray(self._fit.log_quantiles(frame, probabilities, measured), dtype=float)
        return found


def tabled(fit: Any, replay: tuple[float, float], tokens: tuple[float, float]) -> Any:
    """Return a fit as the app plans with it: an average off tables, a single law as it is."""
    return Tabled(fit, replay, tokens) if len(laws_of(fit)) > 1 else fit
