"""What an average of laws says of itself where one law is expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from cptlaw.laws.base import Context, Law, Shape


@dataclass(frozen=True, eq=False)
class CombinedLaw:
    """What an average of laws says of itself where one law is expected.

    Attributes
    ----------
    inputs
        Columns that any of the laws reads.
    needs_schedules
        Whether all of them read learning-rate schedules.
    decreasing
        Inputs in which all of them never rise.
    """

    inputs: tuple[str, ...]
    needs_schedules: bool
    decreasing: tuple[str, ...]
    signed_inputs: tuple[str, ...] = ()
    diverges_at_zero: tuple[str, ...] = ()
    name: str = "auto"
    spec: str = "auto"
    version: int = 1
    on_base_models: bool = False
    equation: str = "the average of several laws, weighted by rollouts"
    units: Mapping[str, float] = field(default_factory=lambda: {"n_params": 1.0, "tokens": 1.0})
    amplitudes: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Return the rows as they are; every law completes its own."""
        return frame


AnyLaw = Law | CombinedLaw
