"""A fitted loss in a plan of schedules: a law of whole loss curves, and what it says of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.law_fit import LawFit
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import FitLike, LossBase, fit_of, losses_of
from cptlaw.schedules import Schedule
from cptlaw_curves.laws.curve_law import CurveLaw


@dataclass(frozen=True, eq=False)
class CurveLoss(LossBase):
    """The target or the source loss of a plan of schedules.

    Parameters
    ----------
    fit
        Fit of a curve law.
    n_params
        Parameters of the model; NaN where the law does not read them.
    """

    fit: LawFit
    role: Literal["source", "target"]
    n_params: float = float("nan")

    @classmethod
    def build(cls, fit: FitLike, role: Literal["source", "target"], n_params: float | None) -> CurveLoss:
        """Check that a fit can serve in this role.

        Raises
        ------
        UsageError
            If this is no fit of a curve law, its eval has the other role, or its law reads what the plan does not have.
        """
        curve = fit_of(fit, role)
        if not (isinstance(curve, LawFit) and isinstance(curve.law, CurveLaw)):
            raise UsageError(
                f"{role}: law {curve.law.name} knows no learning rates. A plan of schedules needs a law of whole loss "
                f"curves, such as cpt-dynamics, fitted with --schedules."
            )
        if "n_params" in curve.law.inputs and n_params is None:
            raise UsageError(f"{role}: law {curve.law.name} reads n_params. Give n_params= (--n-params), such as 106M.")
        return cls(curve, role, float("nan") if n_params is None else n_params)

    @cached_property
    def law(self) -> CurveLaw:
        """The law that reads schedules, with lambda held at its fitted value where it was fitted."""
        own = self.fit.law
        assert isinstance(own, CurveLaw)
        if own.decay != "fit":
            return own
        # Planning asks for thousands of schedules; at a fixed lambda their areas are sums, at a free one tables.
        held = own.with_options(decay=self.fit.params["lambda"])
        assert isinstance(held, CurveLaw)
        return held

    @cached_property
    def params(self) -> dict[str, float]:
        """The parameters of `law`."""
        return {name: self.fit.params[name] for name in self.law.parameters}

    @property
    def reads_replay(self) -> bool:
        """Whether the law depends on replay."""
        return "replay" in self.law.inputs

    @property
    def reading(self) -> tuple[object, ...]:
        """What decides which columns a schedule gives: losses that agree in it share them."""
        own = self.law
        return own.name if own.objects else "", own.computed, own.decay, own.lr_power, str(own.area_options)

    def columns(self, schedule: Schedule, steps: ArrayLike) -> Mapping[str, Array]:
        """Return the inputs that follow from a schedule, at steps counted across its phases."""
        return self.law.read(schedule, np.asarray(steps, dtype=int))

    def frame(self, columns: Mapping[str, object], replay: float | None) -> pd.DataFrame:
        """Return rows of the law's inputs."""
        rows = pd.DataFrame(dict(columns))
        if "n_params" in self.law.inputs:
            rows["n_params"] = self.n_params
        if self.reads_replay:
            rows["replay"] = 0.0 if replay is None else replay
        return rows

    def losses(self, columns: Mapping[str, object], replay: float | None) -> Array:
        """Return the losses of rows, (n,)."""
        return self.law.predict(self.params, self.frame(columns, replay), self.role)

    def curve(self, schedule: Schedule, replay: float | None, steps: ArrayLike) -> Array:
        """Return the loss at steps counted across the phases, (n,)."""
        return self.losses(self.columns(schedule, steps), replay)

    def at_end(self, schedule: Schedule, replay: float | None) -> pd.DataFrame:
        """Return the inputs of the law as it was fitted, at the last step, one row."""
        own = self.fit.law
        assert isinstance(own, CurveLaw)
        return self.frame(own.read(schedule, np.array([schedule.n_steps])), replay)

    def doubt(self, schedule: Schedule, replay: float | None, chance: float) -> float:
        """Return how far above its forecast a measured loss at the last step may lie, in logs, with a probability."""
        rows = self.at_end(schedule, replay)
        return float(self.fit.log_quantiles(rows, [chance])[0, 0] - np.log(self.fit.predict(rows))[0])

    def forecast(
        self, schedule: Schedule, replay: float | None, interval: float | None
    ) -> tuple[dict[str, float | None], tuple[Finding, ...]]:
        """Return the loss at the last step under ``""``, ``"_lo"`` and ``"_hi"``, and findings."""
        table = self.fit.forecast(self.at_end(schedule, replay), interval if self.knows_doubt else None)
        return {end: values[0] for end, values in losses_of(table).items()}, tuple(table["findings"].iloc[0])


def shared_columns(
    losses: Sequence[CurveLoss], schedule: Schedule, steps: ArrayLike
) -> dict[tuple[object, ...], Mapping[str, object]]:
    """Read a schedule once for all losses that read it alike."""
    result: dict[tuple[object, ...], Mapping[str, object]] = {}
    for loss in losses:
        if loss.reading not in result:
            result[loss.reading] = loss.columns(schedule, steps)
    return result
