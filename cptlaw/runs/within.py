"""How two numbers go together among rows that are alike in all else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.runs.convert import row_codes

Floats = npt.NDArray[np.float64]

SETTINGS = ("n_params", "ptpp", "lr_peak", "lr_schedule", "domain")  # that runs are given, beside tokens and mix
# Log loss by which the ends of runs alike in all but their seed differ. Usually; at most, where models of 125,000
# parameters had .038 (the example pilot) and larger ones .008; and with one seed, as the order of text is left (.005).
SEEDS, SEEDS_MOST, SEEDS_MOST_OF_LARGE, LARGE, ONE_SEED = 0.003, 0.05, 0.02, 1e7, 0.01
STEP = 20.0  # tokens of rows alike differ by a twentieth: runs end with a whole step


def rounded(tokens: pd.Series) -> Floats:
    """Return a number for each count of tokens, the same where they differ by a twentieth, (n,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.round(STEP * np.log(tokens.to_numpy(dtype=float)))
    return result


def less_mean(values: Floats, alike: npt.NDArray[np.intp]) -> Floats:
    """Return values less the mean of their group, (n,)."""
    counts = np.bincount(alike)
    result: Floats = values - (np.bincount(alike, values) / np.maximum(counts, 1))[alike]
    return result


def correlation_within(first: Floats, second: Floats, alike: npt.NDArray[np.intp]) -> float | None:
    """Return the correlation of two numbers, each less its mean among rows alike; ``None`` where nothing varies there.

    Examples
    --------
    >>> correlation_within(np.array([1.0, 2.0, 5.0, 6.0]), np.array([3.0, 2.0, 9.0, 8.0]), np.array([0, 0, 1, 1]))
    -1.0
    """
    one, other = less_mean(first, alike), less_mean(second, alike)
    size = float((one @ one) * (other @ other)) ** 0.5
    return float(one @ other) / size if size > 0 else None


def correlation_with_replay(rows: pd.DataFrame) -> float | None:
    """Return the correlation of log loss and replay between rows of adapted models; ``None`` without rows alike else.

    The loss on the target corpus rises with replay, that on the source corpus falls.
    """
    if not {"replay", "tokens"} <= set(rows.columns):
        return None
    rows = rows[(rows["tokens"] > 0) & rows["replay"].notna()]
    if rows.empty:
        return None
    settings = rows[[name for name in (*SETTINGS, "step") if name in rows.columns]]
    alike = row_codes(settings.assign(at=rounded(rows["tokens"])))
    replay, loss = (rows[name].to_numpy(dtype=float) for name in ("replay", "loss"))
    return correlation_within(replay, np.log(loss), alike)
