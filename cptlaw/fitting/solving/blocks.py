"""How many independent points a loss curve is worth, and which of its points err together.

Residuals of neighbouring points of a curve are alike: what one batch order or one misfit of the law does to a point, it
does to the next ones. Counting each point would make every doubt too small by a large factor.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cptlaw.laws.calculus import Array

MERGE = re.compile(r"(.+)-w(\d*\.?\d+)")  # the name of a merge, as a sweep writes it


def correlation_time(residual: Array) -> float:
    """Return over how many consecutive points residuals are alike: 1 + 2 sum of the autocorrelations.

    The sum ends where a pair of autocorrelations is no longer positive (Geyer 1992, initial positive sequence). The
    residuals are not centred: a whole curve on one side of the law is one error, not many.

    Parameters
    ----------
    residual
        Of one run in the order of its steps, (n,).

    Examples
    --------
    >>> correlation_time(np.ones(50)), correlation_time(np.array([1.0, -1.0] * 25))
    (50.0, 1.0)
    """
    n = len(residual)
    power = float(residual @ residual)
    if n < 3 or power <= 0:
        return 1.0
    # Padded to twice the length, or the end of the run would correlate with its start.
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(residual, size)) ** 2
    alike = np.fft.irfft(spectrum, size)[:n] / power
    total = 0.0
    # In pairs: by noise single autocorrelations are negative now and then, sums of neighbouring ones much less often.
    for k in range(1, n, 2):
        pair = float(alike[k] + (alike[k + 1] if k + 1 < n else 0.0))
        if pair <= 0:
            break
        total += pair
    return float(np.clip(1.0 + 2.0 * total, 1.0, n))


def trainings(frame: pd.DataFrame) -> NDArray[np.generic]:
    """Return the name of the training that each row comes from, (n,): its run, or the run whose weights were merged.

    Each weight of a merge is a run of its own, called after the adapted one, as in ``a-w0.3``. What that training did
    by chance is in all of them.

    Examples
    --------
    >>> trainings(pd.DataFrame({"run": ["a", "a-w0.3", "b-w2"], "merge_weight": [1.0, 0.3, 1.0]})).tolist()
    ['a', 'a', 'b-w2']
    """
    names = frame["run"].astype(str).to_numpy()
    if "merge_weight" not in frame.columns:
        return names
    matches = (MERGE.fullmatch(name) for name in names)
    pairs = zip(names, matches, frame["merge_weight"], strict=True)
    return np.array([match[1] if match and float(match[2]) == weight else name for name, match, weight in pairs])


def run_codes(frame: pd.DataFrame) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Return the run of each row as a number from 0, (n,), and the names of the runs, sorted, (r,)."""
    codes, names = pd.factorize(frame["run"], sort=True)
    return np.asarray(codes, dtype=np.intp), np.asarray(names, dtype=str)


def along_runs(frame: pd.DataFrame) -> Array:
    """Return what orders rows along their runs, (n,): the step, CPT after pre-training."""
    step = frame["step"].to_numpy(dtype=float)
    later = (frame["phase"] == "cpt").to_numpy() if "phase" in frame.columns else np.zeros(len(step))
    # Steps count from the start of each phase, so that CPT is put behind the last step of pre-training.
    return np.asarray(step + later * (1.0 + step.max()), dtype=float)


def independent_blocks(run: ArrayLike, order: Array, residual: Array) -> tuple[NDArray[np.intp], dict[str, float]]:
    """Cut the rows of each run into blocks that err independently of each other.

    Parameters
    ----------
    run, order, residual
        Run, step (counted across its phases) and log residual of each row, (n,).

    Returns
    -------
    labels
        Number of the block of each row, (n,). A block is two correlation times long, or the whole run.
    effective
        Effective number of points by run.
    """
    labels = np.zeros(len(residual), dtype=int)
    effective: dict[str, float] = {}
    first = 0
    codes, names = pd.factorize(np.asarray(run, dtype=str))
    # All rows run by run, each run in the order of its steps: cut once, not searched for once per run.
    by_run = np.lexsort((order, codes))
    for name, rows in zip(names, np.split(by_run, np.cumsum(np.bincount(codes))[:-1]), strict=True):
        time = correlation_time(residual[rows])
        effective[str(name)] = len(rows) / time
        # Twice the correlation time: neighbouring blocks then err nearly independently, and there are as many as
        # possible.
        count = max(1, int(len(rows) / (2.0 * time)))
        labels[rows] = first + np.arange(len(rows)) * count // len(rows)
        first += count
    return labels, effective
