"""Losses on a third corpus as a combination of source and target losses (Wang et al. 2025, eq. 6, arXiv:2505.07796)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.result import Line, Result
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.table import RunsLike

KEYS = ("run", "phase", "step", "tokens")
LARGEST_CONDITION = 30.0  # of the two columns scaled to length one; a correlation of .998 without an intercept
SURE = 0.1  # standard deviation of a share below which conditioning does no harm
LEAST_RUNS = 3


@dataclass(frozen=True, repr=False)
class OutOfDomain(Result):
    """L = target_share x target loss + source_share x source loss.

    Parameters
    ----------
    on
        The eval that is combined.
    target_share, source_share
        Coefficients; they may be negative and need not sum to one.
    target_share_sd, source_share_sd
        Their standard deviations, by leaving out one run at a time; nan with fewer than three runs.
    max_abs_error, rmse, r2
        Of the fitted rows, in nats.
    left_out_rmse
        Root mean square error on runs that were left out, in nats; nan with fewer than three runs.
    condition
        Condition number of the two losses as columns of length one.
    n_points, n_runs
        Points and runs fitted.
    findings
        Whether the coefficients are determined.
    """

    on: str
    target_share: float
    source_share: float
    target_share_sd: float
    source_share_sd: float
    max_abs_error: float
    rmse: float
    r2: float
    left_out_rmse: float
    condition: float
    n_points: int
    n_runs: int
    findings: tuple[Finding, ...] = ()

    def predict(self, target_loss: ArrayLike, source_loss: ArrayLike) -> Array:
        """Return the loss, in nats, from forecast or measured target and source losses."""
        target, source = np.asarray(target_loss, dtype=float), np.asarray(source_loss, dtype=float)
        values: Array = self.target_share * target + self.source_share * source
        return values

    @property
    def title(self) -> str:
        """The combination."""
        return f"{self.on} = {self.target_share:.3f} target + {self.source_share:.3f} source"

    @property
    def lines(self) -> list[Line]:
        """How well it holds."""
        return [
            ("largest error", f"{self.max_abs_error:.4f}"),
            ("on runs left out", f"{self.left_out_rmse:.4f}, root mean square"),
            ("condition", f"{self.condition:.3g}"),
        ]


def fit_out_of_domain(runs: RunsLike, on: str, where: str | None = None) -> OutOfDomain:
    """Combine source and target losses into the loss on a third corpus, by least squares without an intercept.

    Parameters
    ----------
    runs
        A runs table that measures the three evals at the same points of its runs.
    on
        The third eval.
    where
        Filter of rows.

    Returns
    -------
    OutOfDomain

    Raises
    ------
    DataError, UsageError
        If an eval is absent or is one of the two, or fewer than three points have all three losses.

    Notes
    -----
    Along a run the source loss rises as the target loss falls, so that the two columns may be nearly one: the
    coefficients then mean nothing one by one although the sum fits. The condition number and the scatter of the
    coefficients over left-out runs say so. The authors warn that the combination is not universal.

    Examples
    --------
    >>> steps = np.arange(1, 5)
    >>> parts = {"source": 2.5 + 0.05 * steps, "target": 2.0 - 0.1 * steps**0.5}
    >>> parts["c4"] = 0.152 * parts["target"] + 0.867 * parts["source"]
    >>> rows = [pd.DataFrame({"run": "a", "step": steps, "eval": name, "loss": loss}) for name, loss in parts.items()]
    >>> fit = fit_out_of_domain(pd.concat(rows), "c4")
    >>> round(fit.target_share, 3), round(fit.source_share, 3)
    (0.152, 0.867)
    """
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    table = table.where(where) if where else table
    parts = {name: table.on(name).frame for name in ("target", "source", on)}
    if table.role(on) in ("source", "target"):
        raise UsageError(f"on={on!r}: that is the {table.role(on)} eval itself. Name a third eval, of another corpus.")
    keys = [name for name in KEYS if all(name in part.columns and part[name].notna().all() for part in parts.values())]
    # Seeds measured at one point are averaged, and only points that have all three losses are used.
    means = [part.groupby(keys, sort=False, observed=True)["loss"].mean() for part in parts.values()]
    joined = pd.concat(means, axis=1, join="inner", keys=["target", "source", "other"])
    if len(joined) < 3:
        raise DataError(
            f"{table.label}: {len(joined)} points have losses on source, target and {on!r} at the same "
            f"{', '.join(keys)}; expected three or more. Measure all three at the same steps."
        )
    columns, loss = joined[["target", "source"]].to_numpy(dtype=float), joined["other"].to_numpy(dtype=float)
    run = joined.index.get_level_values("run").astype(str).to_numpy()
    shares = _least_squares(columns, loss)
    residual = columns @ shares - loss
    # Of columns of length one: the units of two losses are the same, and their sizes say nothing of how alike they are.
    condition = float(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)))
    sd, left_out = _left_out(columns, loss, run)
    spread = float(np.sum((loss - loss.mean()) ** 2))
    return OutOfDomain(
        on,
        float(shares[0]),
        float(shares[1]),
        *sd,
        float(np.abs(residual).max()),
        float(np.sqrt(np.mean(residual**2))),
        1.0 - float(residual @ residual) / spread if spread > 0 else math.nan,
        left_out,
        condition,
        len(loss),
        len(np.unique(run)),
        _notes(condition, shares, sd),
    )


def _least_squares(columns: Array, loss: Array) -> Array:
    return np.asarray(np.linalg.lstsq(columns, loss, rcond=None)[0], dtype=np.float64)


def _left_out(columns: Array, loss: Array, run: ArrayLike) -> tuple[tuple[float, float], float]:
    """Return the jackknife standard deviations of the shares, and the error on runs that were left out."""
    names = np.unique(run)
    if len(names) < LEAST_RUNS:
        return (math.nan, math.nan), math.nan
    result, residuals = [], []
    for name in names:
        # Whole runs: points of one run would forecast each other.
        rest = run != name
        result.append(_least_squares(columns[rest], loss[rest]))
        residuals.append(columns[~rest] @ result[-1] - loss[~rest])
    scatter = np.stack(result) - np.mean(result, axis=0)
    # Jackknife (Tukey 1958): the scatter of n leave-one-out estimates is that of one estimate over n - 1.
    sd = np.sqrt((len(names) - 1) / len(names) * np.sum(scatter**2, axis=0))
    return (float(sd[0]), float(sd[1])), float(np.sqrt(np.mean(np.concatenate(residuals) ** 2)))


def _notes(condition: float, shares: Array, sd: tuple[float, float]) -> tuple[Finding, ...]:
    if condition <= LARGEST_CONDITION or max(sd) <= SURE:
        return ()
    scatter = "unknown with so few runs" if math.isnan(sd[0]) else f"{sd[0]:.2g} and {sd[1]:.2g}"
    return (
        Finding(
            "warning",
            "ill-conditioned",
            f"source and target losses are nearly proportional in these rows (condition {condition:.3g}): the two "
            f"shares together, about {shares.sum():.3f}, are determined, and how that is divided is hardly (standard "
            f"deviations {scatter}).",
            "Forecast only mixes of losses like the fitted ones, or add runs at another replay, length or schedule.",
        ),
    )
