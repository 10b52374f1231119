"""What a law of continual pre-training must do (Que et al. 2024, arXiv:2406.01375, section 3), put to any fit."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.laws.calculus import Array

NEEDED = ("n_params", "tokens", "replay")
MIXED = (0.05, 0.95)  # replays between which slopes in it are looked at: both sides stay mixes
FACTOR, SHIFT = 1.05, 0.02  # of the differences that slopes are read off: sizes and tokens, and the share of a corpus
SAME = 1e-9  # nats, and of powers relative: what rounding leaves


def requirements(fit: LawOnRows) -> dict[str, float]:
    """Hold a fit against the four requirements of the D-CPT paper, at the points that it was fitted to.

    Parameters
    ----------
    fit
        A fit of one loss whose rows have sizes, tokens and replays; of any law.

    Returns
    -------
    dict
        ``adaptability``: R squared of the log losses. Explicit trends: the shares of points at which the loss falls, or
        does not change, with ``size``, with ``tokens`` and with the share of its ``own corpus``. ``implicit trend``:
        the share at which it falls faster with tokens where there is more of the own corpus. ``consistency``: the share
        of the replays at which the law is Chinchilla's, a constant and one power each of size and tokens.

    Raises
    ------
    DataError
        If the fitted rows lack sizes, tokens or replays.
    """
    rows = fit.data.copy()
    lacking = [name for name in NEEDED if name not in rows.columns or rows[name].isna().all()]
    if lacking:
        raise DataError(
            f"the fitted rows have no {', '.join(lacking)}. The four requirements are about sizes, tokens and replays: "
            f"fit runs that differ in them."
        )
    points = rows[rows["replay"].between(*MIXED)]
    own = 1.0 if fit.role == "source" else -1.0

    def change(at: pd.DataFrame, **changed: pd.Series[float]) -> Array:
        return np.asarray(fit.predict(at.assign(**changed)) - fit.predict(at))

    more = points.assign(replay=(points["replay"] + own * SHIFT).clip(0, 1))
    falls = change(points, tokens=points["tokens"] * FACTOR)
    falls_with_more = change(more, tokens=more["tokens"] * FACTOR)
    levels = sorted(points["replay"].unique())
    observed, fitted = np.log(rows["loss"]), np.log(fit.predict(rows))
    return {
        "adaptability": 1 - float(((observed - fitted) ** 2).sum() / ((observed - observed.mean()) ** 2).sum()),
        "size": float(np.mean(change(points, n_params=points["n_params"] * FACTOR) <= 0)),
        "tokens": float(np.mean(falls <= 0)),
        "own corpus": float(np.mean(change(points, replay=more["replay"]) <= 0)),
        "implicit trend": float(np.mean(falls_with_more < falls - SAME)),  # equal where a law has no such term
        "consistency": float(np.mean([_is_chinchilla(fit, rows, replay) for replay in levels])),
    }


def _is_chinchilla(fit: LawOnRows, rows: pd.DataFrame, replay: float) -> bool:
    """Say whether at one replay the loss is a constant and a power each of size and tokens.

    On a grid of equal ratios such a law has no interaction of the two, and successive differences along either stand in
    one ratio.
    """
    places = [np.geomspace(rows[name].min(), rows[name].max() * FACTOR, 4) for name in ("n_params", "tokens")]
    sizes, tokens = (part.ravel() for part in np.meshgrid(*places, indexing="ij"))
    grid = pd.DataFrame([rows.iloc[0]] * len(sizes)).reset_index(drop=True)
    losses = np.asarray(fit.predict(grid.assign(n_params=sizes, tokens=tokens, replay=replay))).reshape(4, 4)
    mixed = np.diff(np.diff(losses, axis=0), axis=1)
    if np.abs(mixed).max() > SAME:
        return False
    steps = (np.diff(losses[:, 0]), np.diff(losses[0]))
    return all(abs(first * third - second**2) <= SAME * max(second**2, SAME) for first, second, third in steps)
