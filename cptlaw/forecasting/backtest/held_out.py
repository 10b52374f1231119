"""The one act of every judgement of forecasts: fit some rows, forecast those held out, and keep both to be scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, FitError, UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.folds import Fold
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.forecasting.backtest.baselines import BASELINES
from cptlaw.forecasting.backtest.metrics import half_width, inside, mean_of_known, metrics, regret
from cptlaw.laws.calculus import Array
from cptlaw.result import Progress

SHARE = 0.9
MOST_POINTS = 16  # per law, over all folds; each costs about a tenth of a second of CPU


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that were not fitted, and what was forecast of them.

    Attributes
    ----------
    rows
        The rows, with what was measured in column ``loss``.
    predicted
        Forecast losses, nats per token, (n,).
    n_fit, n_free
        Rows that were fitted, and parameters.
    intervals
        By probability, what `intervals_at` gives at some of the rows; none of a forecast without intervals.
    findings
        What the fit found.
    """

    rows: pd.DataFrame
    predicted: Array
    n_fit: int
    n_free: int = 0
    intervals: Mapping[float, pd.DataFrame] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def measured(self) -> Array:
        """Measured losses, nats per token, (n,)."""
        return self.rows["loss"].to_numpy(dtype=float)

    @property
    def log_error(self) -> pd.Series[float]:
        """Log forecast minus log loss, under the index of the rows."""
        return pd.Series(np.log(self.predicted) - np.log(self.measured), self.rows.index)


def held_out(fitted: Fit, rows: pd.DataFrame, shares: Sequence[float], most: int) -> HeldOut:
    """Forecast rows that a fit has not seen, with intervals of these probabilities at so many of them at most."""
    intervals = {share: intervals_at(fitted, rows, share, most) for share in shares}
    counts = fitted.n_points, fitted.leading.n_free
    return HeldOut(rows, fitted.predict(rows), *counts, intervals, fitted.findings)


def guessed(name: str, fitted: pd.DataFrame, rows: pd.DataFrame) -> HeldOut:
    """Forecast rows by a baseline, which reads the fitted ones and has no law."""
    return HeldOut(rows, BASELINES[name](fitted, rows), int((fitted["tokens"] > 0).sum()))


def intervals_at(fitted: Forecaster, rows: pd.DataFrame, share: float, most: int) -> pd.DataFrame:
    """Return loss, lo, hi and measured at so many rows at most, spread over all: an interval costs more than a loss."""
    few = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))]
    return fitted.forecast(few, share)[["loss", "lo", "hi"]].assign(measured=few["loss"].to_numpy(dtype=float))


def scores(held: Sequence[HeldOut], silent: float = np.nan) -> dict[str, float]:
    """Return how good forecasts are, several of one law pooled; comparisons show of it what their columns name.

    Parameters
    ----------
    held
        Of one law, or of a guess, which has no intervals.
    silent
        What an interval without both ends counts as; by default as nothing claimed (`inside`).

    Returns
    -------
    dict
        What `metrics` gives; by probability of an interval ``coverage_90``, the share that held, and ``width_90``, half
        the median width as a share of the loss, infinite where that has no end; `regret`, its mean; n_fit, the mean;
        n_test; and n_params_free, the most.
    """
    measured = np.concatenate([one.measured for one in held])
    result = metrics(np.concatenate([one.predicted for one in held]), measured)
    result["regret"] = mean_of_known(regret(one.rows, one.predicted) for one in held)
    for share in held[0].intervals:
        at = pd.concat([one.intervals[share] for one in held])
        width = half_width(at) / at["loss"].to_numpy(dtype=float)
        result[f"coverage_{100 * share:.0f}"] = mean_of_known(inside(at, silent))
        result[f"width_{100 * share:.0f}"] = float(np.median(np.where(np.isfinite(width), width, np.inf)))
    counts = {"n_fit": round(float(np.mean([one.n_fit for one in held]))), "n_test": len(measured)}
    return {**result, **counts, "n_params_free": max(one.n_free for one in held)}


def backtest(
    name: str,
    frame: pd.DataFrame,
    folds: Sequence[Fold],
    fit: Callable[[Fold], Fit],
    shares: Sequence[float] = (SHARE,),
    progress: Progress | None = None,
) -> tuple[dict[str, HeldOut], list[Finding]]:
    """Fit each fold and forecast what it holds out.

    Parameters
    ----------
    name
        What is judged, as messages and `progress` say it.
    frame
        All rows, (n,).
    folds
        Which of them are fitted and which are forecast.
    fit
        Gives the fit to what a fold leaves.
    shares
        Probabilities of the intervals that are asked for, at `MOST_POINTS` rows over all folds.

    Returns
    -------
    held
        By the labels of the folds that could be fitted.
    findings
        Of all fits, once each, and which folds were skipped.

    Raises
    ------
    FitError
        If no fold could be fitted; where there is one, as its fit says.
    """
    held: dict[str, HeldOut] = {}
    skipped: list[str] = []
    for fold in folds:
        try:
            held[fold.label] = held_out(fit(fold), frame[fold.test], shares, max(MOST_POINTS // len(folds), 1))
        except CptlawError as error:
            if len(folds) == 1 or isinstance(error, UsageError):
                raise
            # One fold without levels must not end a comparison of twenty.
            skipped.append(f"{fold.label} ({error})")
        if progress is not None:
            progress(f"{name}: {fold.label}")
    if not held:
        raise FitError(f"law {name} could not be fitted in any fold: {'; '.join(skipped[:2])}")
    found = [[one for one in fold.findings if one.code != "base-rows"] for fold in held.values()]
    findings = _once_with_counts(found) if len(folds) > 1 else found[0]
    if skipped:
        message = (
            f"{len(skipped)} of {len(folds)} folds could not be fitted and are left out of the scores: "
            f"{'; '.join(skipped[:2])}"
        )
        advice = "Add levels, or choose a split with more levels to fit on."
        findings.append(Finding("warning", "folds-skipped", message, advice))
    return held, findings


def _once_with_counts(found: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Return one finding per code, the first of its kind, with the number of folds that have it in its message."""
    count = Counter(chain(*({one.code for one in findings} for findings in found)))
    first: dict[str, Finding] = {}
    for one in chain(*found):
        first.setdefault(one.code, one)
    return [
        replace(one, message=f"in {count[code]} of {len(found)} folds, first: {one.message}")
        for code, one in first.items()
    ]
