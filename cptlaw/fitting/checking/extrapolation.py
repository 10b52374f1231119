"""How far outside the fitted data a forecast lies, in every direction that the law sees, and what it cannot see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.cached import cached_stat
from cptlaw.fitting.checking.distance import Direction, levels, outside, reach, scaled, seen, unseen
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.laws.inputs import Columns
from cptlaw.units import INPUT_WORDS, format_quantity, input_text

FAR = 2.0  # times outside the fitted range, in any direction, from which extrapolation is a warning
ROUNDED = 0.02  # in logs: a model of 70.4M is asked for as 70M
CONFOUNDED = 0.95  # correlation of log N with log D from which their effects can hardly be told apart
OFF_LADDER = 2.0  # standard deviations from the line along which size and tokens grew together


def extrapolations(law: AnyLaw, data: pd.DataFrame, frame: pd.DataFrame | Columns) -> list[tuple[Finding, ...]]:
    """Say of each point, (n,), how far outside the fitted data it lies, the worst first."""
    known = [name for name in law.inputs if name in data.columns and name in frame.columns]
    points = {name: np.asarray(frame[name], dtype=float) for name in known}
    directions = tuple(d for d in seen(law, data) if all(name in known for name, _ in d.powers))
    away = outside(data, points, directions) if known else np.zeros((len(frame), 0))
    names = [direction.name for direction in directions]
    ladder = cached_stat(data, "ladder", lambda: _Ladder.of(data)) if {"n_params", "tokens"} <= set(names) else None
    unread = _unread(law, data, frame)
    result: list[list[Finding]] = [[] for _ in range(len(frame))]
    for name, values in points.items():
        ends = _ends(data, name)
        for i in _beyond(values, *ends):
            result[i] += _single(law, data, name, float(values[i]), ends)
    for i in np.flatnonzero(np.abs(away).max(axis=1, initial=0.0) >= math.log(FAR)).tolist():
        beyond = dict(zip(names, away[i], strict=True))
        result[i] += _jointly(data, {name: values[[i]] for name, values in points.items()}, directions, beyond)
    for i in range(len(frame)):
        if ladder is not None:
            beyond = dict(zip(names, away[i], strict=True))
            result[i] += ladder.findings(float(points["n_params"][i]), float(points["tokens"][i]), beyond)
        for name, measured, asked in unread:
            result[i] += _blind(law, name, measured, asked[i])
    return [by_severity(findings) for findings in result]


def _ends(data: pd.DataFrame, name: str) -> tuple[float, float]:
    return cached_stat(data, ("ends", name), lambda: (float(data[name].min()), float(data[name].max())))


def _unread(law: AnyLaw, data: pd.DataFrame, frame: pd.DataFrame | Columns) -> list[tuple[str, Array, list[float]]]:
    """Return inputs of rows and points that the law does not read: name, levels of the rows, and of each point."""
    return [
        (one.name, levels(data, one.name), np.asarray(frame[one.name], dtype=float).tolist())
        for one in unseen(law, data)
        if one.name in frame.columns
    ]


def _beyond(values: Array, low: float, high: float) -> list[int]:
    """Return which values lie outside a range, by more than rounding."""
    inside = (low - 1e-9 * abs(low) <= values) & (values <= high + 1e-9 * abs(high))
    outside_: list[int] = np.flatnonzero(~inside).tolist()
    return outside_


def _jointly(
    data: pd.DataFrame, point: dict[str, Array], directions: tuple[Direction, ...], beyond: dict[str, float]
) -> Iterator[Finding]:
    """Say in which products of inputs a point lies far outside."""
    for direction in directions:
        parts = [name for name, _ in direction.powers]
        if len(parts) < 2 or abs(beyond[direction.name]) < math.log(FAR):
            continue
        # Compute beyond the range says nothing new where size or tokens lie beyond theirs already.
        if direction.name != "tokens_per_param" and any(abs(beyond.get(part, 0.0)) > 0 for part in parts):
            continue
        inside = all(beyond.get(part, 0.0) == 0 for part in parts)
        yield _joint(data, point, direction, beyond[direction.name], inside)


def _single(law: AnyLaw, data: pd.DataFrame, name: str, value: float, ends: tuple[float, float]) -> Iterator[Finding]:
    low, high = ends
    here, shown = input_text(name, value), [input_text(name, end) for end in ends]
    if here in shown:  # the same to the digits that people write
        return
    # One level is worse than a wide gap: along this input the law was never fitted at all.
    if low == high and name not in law.signed_inputs:
        if not (low > 0 and value > 0 and abs(math.log(value / low)) < ROUNDED):
            yield Finding(
                "error",
                "unseen-input",
                f"every fitted row has {name} {shown[0]}, so that nothing in the runs shows what {name} {here} "
                f"changes: the forecast rests on priors or held parameters there, and its interval on what laws missed "
                f"in other studies.",
                f"Add runs at another {name}.",
            )
        return
    above = value > high
    how = "beyond" if above else "below"
    if name == "replay":
        edge = Direction(name, ((name, 1.0),), name)
        distance = outside(data, {name: np.array([value])}, (edge,))[0, 0]
        far, times = not above or distance >= math.log(FAR), ""
        factor = math.exp(min(distance, 700.0))
    elif name in law.signed_inputs:  # zero lies inside: there is no factor to tell
        far, times, factor = False, "", 1.0
    else:
        factor = value / high if above else low / max(value, 1e-300)
        far, times = factor >= FAR, f"{_factor(factor)} times " if factor >= 1.05 else "just "
    yield Finding(
        "warning" if far else "info",
        "extrapolation",
        f"the forecast goes {times}{how} your {_words(name, data)}: {name} {here}, and the runs have "
        f"{shown[0]} to {shown[1]}.",
        f"A run at or {how} {name} {here} would turn this into interpolation.",
        factor,
    )


def _words(name: str, data: pd.DataFrame) -> str:
    """Return what an input is called; tokens of models from scratch adapt nothing."""
    from_scratch = name == "tokens" and not {"ptpp", "replay"} & set(data.columns)
    return "training tokens" if from_scratch else INPUT_WORDS.get(name, name)


def _joint(data: pd.DataFrame, point: dict[str, Array], direction: Direction, distance: float, inside: bool) -> Finding:
    ends = reach(data, direction) or (math.nan, math.nan)
    asked = float(scaled(data, point, direction)[0])
    value, low, high = (format_quantity(float(f"{math.exp(end):.3g}")) for end in (asked, *ends))
    limit = f"up to {high}" if distance > 0 else f"from {low}"
    parts = " and ".join(name for name, _ in direction.powers)
    # Where budgets of pre-training are counted per parameter too, it is said which tokens are meant.
    adapting = direction.name == "tokens_per_param" and "ptpp" in data.columns
    words = f"adaptation {direction.words}" if adapting else direction.words
    return Finding(
        "warning",
        "extrapolation",
        f"asked at {value} {words}, fitted {limit}: {_factor(math.exp(abs(distance)))} times "
        f"{'beyond' if distance > 0 else 'below'}{f', though {parts} lie within their ranges' if inside else ''}.",
        f"A run at {value} {words} would turn this into interpolation.",
        math.exp(abs(distance)),
    )


def _factor(times: float) -> str:
    """Return a factor to two digits, with commas: 65,000 rather than 6.5e+04."""
    return f"{float(f'{times:.2g}'):,.10g}"


@dataclass(frozen=True)
class _Ladder:
    """Sizes and tokens that grew together in the fitted rows: log tokens = start + slope * log size."""

    correlation: float
    slope: float
    start: float
    spread: float

    @classmethod
    def of(cls, data: pd.DataFrame) -> _Ladder | None:
        """Return the ladder of the fitted rows, None where they are no ladder."""
        kept = data[data["tokens"].to_numpy(dtype=float) > 0]
        if kept["n_params"].nunique() < 3 or kept["tokens"].nunique() < 3:
            return None
        size, tokens = (np.log(kept[name].to_numpy(dtype=float)) for name in ("n_params", "tokens"))
        correlation = float(np.corrcoef(size, tokens)[0, 1])
        if abs(correlation) <= CONFOUNDED:
            return None
        slope, start = np.polyfit(size, tokens, 1)
        # On an exact ladder, tokens a fixed multiple of size, nothing scatters; then any other ratio is off it.
        spread = max(float(np.std(tokens - start - slope * size)), 1e-6)
        return cls(correlation, float(slope), float(start), spread)

    def findings(self, n_params: float, tokens: float, beyond: dict[str, float]) -> Iterator[Finding]:
        """Say where size and tokens are asked for apart or further on."""
        if not tokens > 0:
            return
        off = math.log(tokens) - self.start - self.slope * math.log(n_params)
        further = max(abs(beyond["n_params"]), abs(beyond["tokens"])) >= math.log(FAR)
        apart = abs(off) > OFF_LADDER * self.spread
        if not apart and not further:
            return
        where = (
            f"here tokens are {math.exp(abs(off)):.2g} times {'more' if off > 0 else 'fewer'} than they were for this "
            f"size"
            if apart
            else "this point lies further up the same ladder"
        )
        yield Finding(
            "warning",
            "confounded-here",
            f"size and tokens grew together in the fitted rows (correlation {self.correlation:.3f}), so that their "
            f"effects can hardly be told apart, and {where}.",
            "Add runs that break the ladder: a small model on many tokens, a large one on few.",
        )


def _blind(law: AnyLaw, name: str, levels: Array, asked: float) -> Iterator[Finding]:
    """Say where a point differs from the fitted rows in an input that the law does not read."""
    # Five per cent: a budget of 99 beside one of 100 is the same model to a law and to a reader.
    if not math.isfinite(asked) or np.any(np.isclose(levels, asked, rtol=0.05, atol=1e-12)):
        return
    one = len(levels) == 1
    fitted = ", ".join(input_text(name, level) for level in levels[:6]) + (" .." if len(levels) > 6 else "")
    yield Finding(
        "error" if one else "warning",
        "blind-to-budget" if name == "ptpp" else "blind-to-input",
        f"law {law.name} does not read {name} and was fitted at {fitted}: what "
        f"{'budget' if name == 'ptpp' else name} {input_text(name, asked)} changes is not in the forecast.",
        f"Compare with a law that reads {name}"
        + (", such as ptpp-floor." if name == "ptpp" else ", or add runs there."),
    )
