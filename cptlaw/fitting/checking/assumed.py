"""Rates that a point does not name: which ones were taken in their place."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.checking.distance import levels
from cptlaw.fitting.solving.open_rates import RATES, at_size
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.units import input_text

FAR = 2.0  # times between the lowest and the highest rate of which one is taken, from which that may mislead


def assumed(law: AnyLaw, data: pd.DataFrame, asked: pd.DataFrame, rows: pd.DataFrame) -> list[tuple[Finding, ...]]:
    """Say of each point asked for, (n,), which rates it leaves open where the fitted runs have several.

    `rows` are the points with the rates that were taken: see `cptlaw.fitting.solving.open_rates`.
    """
    findings: list[tuple[Finding, ...]] = [()] * len(asked)
    trains = asked["tokens"].to_numpy() != 0 if "tokens" in asked.columns else np.full(len(asked), True)
    for name in RATES:
        if name not in law.inputs or name not in data.columns:
            continue
        sizes = rows["n_params"].to_numpy(dtype=float) if "n_params" in rows.columns else np.full(len(rows), np.nan)
        *near, known = at_size(data, name, np.append(sizes, np.nan))
        if len(known) < 2 or np.ptp(known) == 0:
            continue
        low, high = (input_text(name, float(end)) for end in (known.min(), known.max()))
        open_ = trains & (asked[name].isna().to_numpy() if name in asked.columns else True)
        run = np.isin(sizes, levels(data, "n_params")) if "n_params" in data.columns else np.full(len(rows), False)
        for i in np.flatnonzero(open_).tolist():
            one = input_text(name, float(rows[name].iloc[i]))
            among = near[i] if run[i] else known
            several = np.ptp(near[i]) > 0
            which = ("the one with the lowest loss" if name == "lr_peak" else "the median") if several else "the rate"
            note = Finding(
                "warning" if among.max() >= FAR * among.min() else "info",
                "rate-assumed",
                f"no {name} is given: {one} is taken, {which} of the runs nearest in size ({low} to {high} at all "
                f"sizes).",
                f"Say it, as in {name}={one}.",
            )
            findings[i] = (*findings[i], note)
    return findings
