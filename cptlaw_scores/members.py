"""One member of a fitted score: a law of scores, fitted, with the loss that carries it where it reads one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.laws.combined_law import AnyLaw
from cptlaw_scores.fisher import Tasks
from cptlaw_scores.joint import Joint
from cptlaw_scores.laws.score_law import LEAST, Array, ScoreLaw
from cptlaw_scores.pooling import Pooled, fit_pooled

# Losses at the rows of a table, (n,), by eval.
Losses = Mapping[str, Array]


@dataclass(frozen=True)
class PlannedMember:
    """A member before it is fitted, for the tasks that it can serve.

    Parameters
    ----------
    tasks
        The benchmarks, in the order of the fit.
    carriers
        The eval whose loss carries each of them; empty where the law reads none.
    share
        What the member counts before rollouts are seen.
    units
        What each input counts in: by column, or by eval for the carriers' losses.
    """

    law: ScoreLaw
    tasks: tuple[str, ...]
    carriers: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0
    units: Mapping[str, float] = field(default_factory=dict)

    def in_units_of(self, frame: pd.DataFrame, losses: Losses) -> PlannedMember:
        """Return the plan with the units of its inputs: their geometric means over the rows."""
        raw = {name: _column(frame, name) for name in self.law.inputs if name != "carrier"}
        raw |= {name: losses[name] for name in set(self.carriers.values())}
        units = {}
        for name, values in raw.items():
            known = values[np.isfinite(values) & (values > 0)]
            # About the middle of the data, so that slope and place of a link hardly correlate and one prior serves
            # tables of any scale.
            units[name] = float(np.exp(np.log(known).mean())) if len(known) else 1.0
        return replace(self, units=units)

    def tasks_in(self, joint: Joint, losses: Losses, rows: NDArray[np.bool_] | None = None) -> Tasks:
        """Return the scores of the tasks as the member reads them; rows without its inputs have no items."""
        shape = (len(self.tasks), len(joint.frame))
        x = {}
        good = np.ones(shape, dtype=bool) if rows is None else np.broadcast_to(rows, shape).copy()
        for name in self.law.inputs:
            values = (
                np.array([losses[self.carriers[task]] / self.units[self.carriers[task]] for task in self.tasks])
                if name == "carrier"
                else np.broadcast_to(_column(joint.frame, name) / self.units[name], shape)
            )
            known = np.isfinite(values) & (values > 0)
            good &= known
            x[name] = np.where(known, values, 1.0)
        y = np.array([joint.values(task) for task in self.tasks])
        items = np.array([joint.tasks[task].items for task in self.tasks])
        # A row that was not measured has no items, and so no part in likelihood or curvature; shapes stay whole.
        items = np.where(np.isfinite(y) & np.isfinite(items) & good, items, 0.0)
        chance = np.array([[joint.tasks[task].chance] for task in self.tasks])
        return Tasks(x, np.where(np.isfinite(y), y, 0.5), items, chance)

    def fitted(self, joint: Joint, losses: Losses, rows: NDArray[np.bool_] | None = None) -> Pooled:
        """Fit the member to some rows of its tasks."""
        return fit_pooled(self.law, self.tasks_in(joint, losses, rows))

    def part(self, pooled: Pooled, joint: Joint, task: str, fits: Mapping[str, Carrier]) -> ScoreMember:
        """Return the fitted member of one task."""
        place = self.tasks.index(task)
        carrier = self.carriers.get(task)
        units = {name: self.units[carrier or "" if name == "carrier" else name] for name in self.law.inputs}
        return ScoreMember(
            law=self.law,
            carrier=carrier,
            units=units,
            theta=pooled.posterior.theta[place],
            covariance=pooled.posterior.covariance[place],
            rho=float(pooled.rho[place]),
            chance=joint.tasks[task].chance,
            loss=fits.get(carrier or ""),
        )


class Carrier(Protocol):
    """A fitted loss, as the members of a score read it."""

    @property
    def law(self) -> AnyLaw:
        """Its law."""

    def predict(self, frame: pd.DataFrame) -> Array:
        """Return the loss of each row, (n,)."""

    def log_quantiles(self, frame: pd.DataFrame, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss, (probabilities, n)."""


@dataclass(frozen=True, eq=False)
class ScoreMember:
    """A member, fitted to one task.

    Parameters
    ----------
    carrier
        The eval whose loss it reads; ``None`` where it reads none.
    units
        What its inputs count in, by column.
    theta, covariance
        Coordinates, (k,), and their covariance, (k, k).
    rho
        Correlation of the items of a run.
    chance
        Score of guessing.
    loss
        The fit of the carrier's loss; ``None`` where there is none.
    weight
        What the member counts.
    error
        Its root mean square error in rollouts, in shares; nan where there were none.
    """

    law: ScoreLaw
    carrier: str | None
    units: Mapping[str, float]
    theta: Array
    covariance: Array
    rho: float
    chance: float
    loss: Carrier | None = None
    weight: float = 1.0
    error: float = float("nan")

    @property
    def name(self) -> str:
        """The law, and through which eval, as ``--law`` takes it."""
        return self.law.name if self.carrier is None else f"{self.law.name}:through={self.carrier}"

    @property
    def params(self) -> dict[str, float]:
        """Parameters by name."""
        return self.law.params(self.theta)

    def given(self, frame: pd.DataFrame) -> Array | None:
        """Return the carrier's losses where the rows say them themselves, (n,)."""
        if self.carrier is None or self.carrier not in frame.columns:
            return None
        values: Array = frame[self.carrier].to_numpy(dtype=float)
        return values if bool(np.isfinite(values).all()) else None

    def losses(self, frame: pd.DataFrame) -> Array | None:
        """Return the carrier's losses at rows, as they stand there or as its law forecasts them, (n,)."""
        if self.carrier is None:
            return None
        given = self.given(frame)
        if given is not None:
            return given
        assert self.loss is not None
        return np.asarray(self.loss.predict(frame), dtype=float)

    def score(self, frame: pd.DataFrame, losses: Array | None) -> Array:
        """Return scores, (n,), without their doubt, which costs five times as much."""
        p = self.law.score(self.theta[None], self._inputs(frame, losses), np.full((1, 1), self.chance))[0]
        values: Array = np.broadcast_to(np.clip(p, LEAST, 1.0 - LEAST), (len(frame),)).copy()
        return values

    def _inputs(self, frame: pd.DataFrame, losses: Array | None) -> dict[str, Array]:
        return {
            name: np.asarray(losses if name == "carrier" else _column(frame, name), dtype=float) / self.units[name]
            for name in self.law.inputs
        }

    def at(self, frame: pd.DataFrame, losses: Array | None) -> tuple[Array, Array]:
        """Return scores, (n,), and the standard deviation that the doubt about the link gives them, (n,)."""
        x = self._inputs(frame, losses)
        p, slopes = self.law.score_and_slopes(self.theta[None], x, np.full((1, 1), self.chance))
        p = np.broadcast_to(p[0], (len(frame),))
        slope = np.broadcast_to(slopes[0], (len(frame), len(self.theta)))
        variance = np.einsum("nk,kl,nl->n", slope, self.covariance, slope)
        return p.copy(), np.sqrt(np.maximum(variance, 0.0))


def _column(frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
    if name == "flops" and (name not in frame.columns or frame[name].isna().all()):
        # Products of integers of this size would overflow.
        counted: Array = 6.0 * frame["n_params"].to_numpy(dtype=float) * frame["tokens"].to_numpy(dtype=float)
        return counted
    values: Array = frame[name].to_numpy(dtype=float)
    return values
