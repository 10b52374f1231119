"""One law of an average."""

from __future__ import annotations

from dataclasses import dataclass

from cptlaw.fitting.solving.law_on_rows import LawOnRows


@dataclass(frozen=True, eq=False)
class Member:
    """One law of an average.

    Attributes
    ----------
    fit
        The law, fitted.
    weight
        What it counts where nothing is extrapolated; at a point, rollouts that go its way count more.
    error
        Its root mean square log error over the common rollouts; nan where none could be fitted.
    """

    fit: LawOnRows
    weight: float
    error: float
