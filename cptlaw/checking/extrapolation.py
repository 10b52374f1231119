"""How far outside the fitted data a forecast lies."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.laws.base import Law
from cptlaw.units import INPUT_WORDS, input_text

FAR = 10.0  # times outside the fitted range from which extrapolation is a warning


def extrapolation(law: Law, data: pd.DataFrame, row: pd.Series) -> tuple[Finding, ...]:
    """Say how far outside the fitted data each input of a point lies."""
    found = []
    for name in law.inputs:
        if name not in data.columns or name not in row.index:
            continue
        values = data[name].to_numpy(dtype=float)
        low, high, value = float(values.min()), float(values.max()), float(row[name])
        if low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high):
            continue
        ends = [input_text(name, end) for end in (low, high)]
        here = input_text(name, value)
        if here in ends:  # the same to the digits that people write
            continue
        if name == "replay":
            far, how = value < low, "below" if value < low else "beyond"
            times = ""
        elif name in law.signed_inputs:  # zero lies inside: there is no factor to tell
            far, how, times = False, "below" if value < low else "beyond", ""
        else:
            factor = value / high if value > high else low / max(value, 1e-300)
            far, how = factor >= FAR, "beyond" if value > high else "below"
            times = f"{factor:.2g} times " if factor >= 1.05 else "just "
        found.append(
            Finding(
                "warning" if far else "info",
                "extrapolation",
                f"the forecast goes {times}{how} your {INPUT_WORDS.get(name, name)}: {name} {here}, and the runs have "
                f"{ends[0]} to {ends[1]}.",
                f"A run at or beyond {name} {here} would turn this into interpolation.",
            )
        )
    if "ptpp" in row.index and "ptpp" in data.columns and "ptpp" not in law.inputs:
        budgets, asked = np.unique(data["ptpp"].dropna().to_numpy(dtype=float)), float(row["ptpp"])
        if len(budgets) and not np.any(np.isclose(budgets, asked)):
            found.append(
                Finding(
                    "warning",
                    "blind-to-budget",
                    f"law {law.name} does not read ptpp and was fitted at {', '.join(f'{b:g}' for b in budgets)}: "
                    f"what budget {asked:g} changes is neither in the forecast nor in its interval.",
                    "Compare with a law that reads ptpp, such as ptpp-floor.",
                )
            )
    return tuple(found)
