"""Rates that a point does not name: which ones were taken in their place."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.checking.distance import levels
from cptlaw.findings import Finding
from cptlaw.laws.base import Law
from cptlaw.units import input_text

RATES = ("lr_peak", "lr_pretrain")
FAR = 2.0  # times between the lowest and the highest fitted rate, from which the silent choice of one may mislead


def assumed(law: Law, data: pd.DataFrame, asked: pd.DataFrame) -> list[tuple[Finding, ...]]:
    """Say of each point asked for, (n,), which rates it leaves open where the fitted runs have several."""
    found: list[tuple[Finding, ...]] = [()] * len(asked)
    trains = asked["tokens"].to_numpy() != 0 if "tokens" in asked.columns else np.full(len(asked), True)
    for name in RATES:
        if name not in law.inputs or name not in data.columns or len(levels(data, name)) < 2:
            continue
        fitted = levels(data, name)
        low, taken, high = (input_text(name, float(one)) for one in (fitted[0], float(data[name].median()), fitted[-1]))
        open_ = asked[name].isna().to_numpy() if name in asked.columns else np.full(len(asked), True)
        note = Finding(
            "warning" if fitted[-1] >= FAR * fitted[0] else "info",
            "rate-assumed",
            f"no {name} is given: {taken}, the median of the fitted rows ({low} to {high}), is taken.",
            f"Say it, as in {name}={taken}." + (" A plan takes the best one." if name == "lr_peak" else ""),
        )
        for i in np.flatnonzero(open_ & trains).tolist():
            found[i] = (*found[i], note)
    return found
