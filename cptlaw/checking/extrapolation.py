"""How far outside the fitted data a forecast lies, in every direction that the law sees, and what it cannot see."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from cptlaw.checking.distance import Direction, outside, scaled, seen, unseen
from cptlaw.findings import Finding, by_severity
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array
from cptlaw.units import INPUT_WORDS, format_quantity, input_text

FAR = 2.0  # times outside the fitted range, in any direction, from which extrapolation is a warning
CONFOUNDED = 0.95  # correlation of log N with log D from which their effects can hardly be told apart
OFF_LADDER = 2.0  # standard deviations from the line along which size and tokens grew together


def extrapolation(law: Law, data: pd.DataFrame, row: pd.Series) -> tuple[Finding, ...]:
    """Say how far outside the fitted data a point lies, the worst first.

    Parameters
    ----------
    law
        The law.
    data
        The fitted rows.
    row
        One point, raw units.
    """
    known = [name for name in law.inputs if name in data.columns and name in row.index]
    point = pd.DataFrame({name: [row[name]] for name in known}, index=[0])
    directions = tuple(d for d in seen(law, data) if all(name in known for name, _ in d.powers))
    found: list[Finding] = []
    beyond = dict(zip([d.name for d in directions], outside(data, point, directions)[0], strict=True))
    for name in known:
        found += _single(law, data, name, float(row[name]))
    for direction in directions:
        parts = [name for name, _ in direction.powers]
        if len(parts) < 2 or abs(beyond[direction.name]) < math.log(FAR):
            continue
        # Compute beyond the range says nothing new where size or tokens lie beyond theirs already.
        if direction.name != "tokens_per_param" and any(abs(beyond.get(part, 0.0)) > 0 for part in parts):
            continue
        inside = all(beyond.get(part, 0.0) == 0 for part in parts)
        found.append(_joint(data, point, direction, beyond[direction.name], inside))
    found += _confounded_here(data, row, known, beyond)
    found += _blind(law, data, row)
    return by_severity(found)


def _single(law: Law, data: pd.DataFrame, name: str, value: float) -> list[Finding]:
    values = data[name].to_numpy(dtype=float)
    low, high = float(values.min()), float(values.max())
    if low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high):
        return []
    here, ends = input_text(name, value), [input_text(name, end) for end in (low, high)]
    if here in ends:  # the same to the digits that people write
        return []
    if low == high and name not in law.signed_inputs:
        return [
            Finding(
                "error",
                "unseen-input",
                f"every fitted row has {name} {ends[0]}, so that nothing in the runs says what {name} {here} changes: "
                f"the forecast rests on priors or held parameters there, and its interval on what laws missed in other "
                f"studies.",
                f"Add runs at another {name}.",
            )
        ]
    above = value > high
    how = "beyond" if above else "below"
    if name == "replay":
        edge = Direction(name, ((name, 1.0),), name)
        distance = outside(data, pd.DataFrame({name: [value]}), (edge,))[0, 0]
        far, times = not above or distance >= math.log(FAR), ""
    elif name in law.signed_inputs:  # zero lies inside: there is no factor to tell
        far, times = False, ""
    else:
        factor = value / high if above else low / max(value, 1e-300)
        far, times = factor >= FAR, f"{factor:.2g} times " if factor >= 1.05 else "just "
    return [
        Finding(
            "warning" if far else "info",
            "extrapolation",
            f"the forecast goes {times}{how} your {INPUT_WORDS.get(name, name)}: {name} {here}, and the runs have "
            f"{ends[0]} to {ends[1]}.",
            f"A run at or beyond {name} {here} would turn this into interpolation.",
        )
    ]


def _joint(data: pd.DataFrame, point: pd.DataFrame, direction: Direction, distance: float, inside: bool) -> Finding:
    fitted, asked = scaled(data, data, direction), float(scaled(data, point, direction)[0])
    fitted = fitted[np.isfinite(fitted)]
    value, low, high = (format_quantity(float(f"{math.exp(end):.3g}")) for end in (asked, fitted.min(), fitted.max()))
    limit = f"up to {high}" if distance > 0 else f"from {low}"
    parts = " and ".join(name for name, _ in direction.powers)
    return Finding(
        "warning",
        "extrapolation",
        f"asked at {value} {direction.words}, fitted {limit}: {math.exp(abs(distance)):.2g} times "
        f"{'beyond' if distance > 0 else 'below'}{f', though {parts} lie within their ranges' if inside else ''}.",
        f"A run at {value} {direction.words} would turn this into interpolation.",
    )


def _confounded_here(data: pd.DataFrame, row: pd.Series, known: list[str], beyond: dict[str, float]) -> list[Finding]:
    """Say where size and tokens, which grew together in the fitted rows, are asked for apart or further on."""
    if not {"n_params", "tokens"} <= set(known) or not {"n_params", "tokens"} <= set(beyond):
        return []
    kept = data[data["tokens"].to_numpy(dtype=float) > 0]
    if kept["n_params"].nunique() < 3 or kept["tokens"].nunique() < 3 or not float(row["tokens"]) > 0:
        return []
    size, tokens = (np.log(kept[name].to_numpy(dtype=float)) for name in ("n_params", "tokens"))
    correlation = float(np.corrcoef(size, tokens)[0, 1])
    if abs(correlation) <= CONFOUNDED:
        return []
    slope, start = np.polyfit(size, tokens, 1)
    usual = float(start + slope * math.log(float(row["n_params"])))
    off = math.log(float(row["tokens"])) - usual
    spread = max(float(np.std(tokens - start - slope * size)), 1e-6)
    further = max(abs(beyond["n_params"]), abs(beyond["tokens"])) >= math.log(FAR)
    if abs(off) <= OFF_LADDER * spread and not further:
        return []
    where = (
        f"here tokens are {math.exp(abs(off)):.2g} times {'more' if off > 0 else 'fewer'} than they were for this size"
        if abs(off) > OFF_LADDER * spread
        else "this point lies further up the same ladder"
    )
    return [
        Finding(
            "warning",
            "confounded-here",
            f"size and tokens grew together in the fitted rows (correlation {correlation:.3f}), so that their effects "
            f"can hardly be told apart, and {where}.",
            "Add runs that break the ladder: a small model on many tokens, a large one on few.",
        )
    ]


def _blind(law: Law, data: pd.DataFrame, row: pd.Series) -> list[Finding]:
    """Say which known inputs the law does not read although the point differs in them from the fitted rows."""
    found = []
    for direction in unseen(law, data):
        name = direction.name
        if name not in row.index or not _number(row[name]):
            continue
        levels: Array = np.unique(data[name].dropna().to_numpy(dtype=float))
        asked = float(row[name])
        if np.any(np.isclose(levels, asked, rtol=0.05, atol=1e-12)):
            continue
        one = len(levels) == 1
        fitted = ", ".join(input_text(name, level) for level in levels[:6]) + (" .." if len(levels) > 6 else "")
        found.append(
            Finding(
                "error" if one else "warning",
                "blind-to-budget" if name == "ptpp" else "blind-to-input",
                f"law {law.name} does not read {name} and was fitted at {fitted}: what "
                f"{'budget' if name == 'ptpp' else name} {input_text(name, asked)} changes is not in the forecast.",
                f"Compare with a law that reads {name}"
                + (", such as ptpp-floor." if name == "ptpp" else ", or add runs there."),
            )
        )
    return found


def _number(value: object) -> bool:
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
