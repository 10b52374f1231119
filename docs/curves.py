"""The curve on the card of a law: its shape, with every term of equal size at one point; a sketch, no fit."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.laws import Law
from cptlaw.schedules import Phase, Schedule
from cptlaw.units import format_percent, format_quantity

# Along what a law is drawn: the first of these that it reads; lines differ in the first of the second list.
ALONG = {
    "tokens": np.geomspace(2e8, 1e11, 80),
    "ptpp": np.geomspace(10, 2000, 81),
    "mix_target": np.linspace(0.01, 0.99, 99),
    "replay": np.linspace(0.01, 0.99, 99),
    "from_loss": np.linspace(1.8, 3.5, 80),
}
LINES: dict[str, tuple[float, float]] = {"replay": (0.05, 0.5), "mix_target": (0.5, 0.95), "n_params": (1e9, 8e9)}
AT = {"n_params": 1e9, "tokens": 1e10, "replay": 0.25, "ptpp": 100.0, "unique_tokens": 2e9, "lr_peak": 1e-4}
AT |= {"lr_pretrain": 3e-4, "base_loss": 2.0, "from_loss": 2.5, "mix_target": 0.75, "k1": 0.3, "k2": 0.3, "k3": 0.3}
BITS = 8.0
NAMES = {"tokens": "tokens", "ptpp": "pre-training tokens per parameter", "replay": "replay", "step": "optimiser step"}
NAMES |= {"mix_target": "new corpus (share)", "n_params": "parameters", "from_loss": "loss of another eval"}
# Where 0.3 for every exponent hides what the law says: values near the published ones.
GIVEN: dict[str, dict[str, float]] = {
    "kaplan": {"alpha_N": 0.076, "alpha_D": 0.095, "N_c": 8.8e13, "D_c": 5.4e13},
    "repeated": {"R_D": 15.0, "R_N": 5.0},
    "two-stage": {"alpha1": 0.2, "alpha2": 0.2, "alpha3": 0.01},
    "mix-additive": {"C_source": 0.2, "C_target": 3.0},
    "mix-joint": {"C_source": 0.2, "C_target": 3.0},
    "mix-exponential": {"t_target": -1.0},
    "precision": {"gamma_w": 2.5, "gamma_a": 2.5, "gamma_kv": 2.5},
}
CURVE = Schedule(
    [
        Phase("pretrain", 8000, "wsd", peak=1e-3, warmup=100, decay=1600, end=0.0),
        Phase("cpt", 4000, "wsd", peak=1e-3, warmup=100, decay=1000, end=0.0),
    ]
)
FLOOR, TERM = 1.6, 0.4  # of the constant, and of every other term, at that point
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BELOW = 600, 230, 42, 150, 12, 42
COLOURS = ("#0072b2", "#d55e00")


def card_curve(law: Law) -> str:
    """Return the curve of a law as a figure in HTML."""
    along, x, frames = _points(law)
    params = _equal_terms(law, frames[next(iter(frames))])
    lines = {name: law.predict(params, frame, "target") for name, frame in frames.items()}
    label = f"{law.name}: the loss along {NAMES.get(along, along)}"
    shares = along in ("mix_target", "replay")
    drawn = _svg(x, lines, NAMES.get(along, along), along in ("tokens", "ptpp"), shares, label)
    said = "Its shape, with every term of one size at one point: a sketch, no fit."
    return f'<figure class="curve">{drawn}<figcaption>{said}</figcaption></figure>'


def _points(law: Law) -> tuple[str, Any, dict[str, pd.DataFrame]]:
    """Return along what a law is drawn, where, and its inputs for each line."""
    reads = law.inputs
    fixed = {name: AT.get(name, BITS) for name in reads} | {"mix_source": 0.25}
    if law.needs_schedules:
        along, x = "step", np.arange(25, 4001, 25)
        rows = pd.DataFrame({"run": "a", "eval": "target", "step": x, **fixed}).drop(
            columns=list(law.computed), errors="ignore"
        )
        known: Mapping[str, Any] = law.attach(rows, {"a": CURVE}).drop(columns="eval")  # type: ignore[attr-defined]
    else:
        along = next(name for name in ALONG if name in reads)
        x, known = ALONG[along], {along: ALONG[along]}
    by = next((name for name in LINES if name in reads and name != along), "")
    frames = {}
    for value in LINES.get(by, (0.0,)):
        frame = pd.DataFrame({**fixed, **known, **({by: value} if by else {})}, index=range(len(x)))
        frame["mix_source"] = 1 - frame["mix_target"] if "mix_target" in frame else 0.25
        text = format_percent(value) if by != "n_params" else format_quantity(value)
        frames[f"{NAMES[by].partition(' (')[0]} {text}" if by else ""] = frame.assign(eval="target")
    return along, x, frames


def _equal_terms(law: Law, frame: pd.DataFrame) -> dict[str, float]:
    """Return parameters: usual shapes, or plain ones, and amplitudes that give each term its size in mid-line."""
    at = frame.iloc[[-1 if law.needs_schedules else len(frame) // 2]]  # at its end a run has annealed
    shapes = {name: float(law.usual[name][0]) if name in law.usual else _plain(one) for name, one in law.shapes.items()}
    shapes |= GIVEN.get(law.name, {})
    sizes = {}
    for place, name in enumerate(law.amplitudes):
        alone = {other: float(other == name) for other in law.amplitudes}
        with np.errstate(all="ignore"):
            size = abs(float(law.predict({**shapes, **alone}, at, "target")[0]))
        sizes[name] = (TERM if place else FLOOR) / size if np.isfinite(size) and size > 0 else 1.0
    return {**shapes, **sizes, **{name: value for name, value in GIVEN.get(law.name, {}).items() if name in sizes}}


def _plain(shape: Any) -> float:
    """Return a value of a shape parameter in its range: an exponent of 0.3, or the middle."""
    return float(np.clip(0.3, shape.low, shape.high))


def _svg(x: Any, lines: Mapping[str, Any], name: str, logarithmic: bool, shares: bool, label: str) -> str:
    """Return lines as an SVG element."""
    values = np.concatenate(list(lines.values()))
    low, high = values.min(), values.max()
    low, high = low - 0.06 * (high - low) - 1e-9, high + 0.06 * (high - low) + 1e-9
    scale = np.log10 if logarithmic else np.asarray
    start, end = scale(x[0]), scale(x[-1])
    right, bottom = WIDTH - RIGHT, HEIGHT - BELOW

    def across(value: Any) -> Any:
        return LEFT + (scale(value) - start) / (end - start) * (right - LEFT)

    def up(value: Any) -> Any:
        return bottom - (value - low) / (high - low) * (bottom - TOP)

    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor" stroke-opacity="0.4"/>']
    ticks = (
        10.0 ** np.arange(np.ceil(start), np.floor(end) + 1)
        if logarithmic
        else np.array((0.25, 0.5, 0.75))
        if shares
        else np.linspace(x[0], x[-1], 5)
    )
    for value in ticks:
        text = format_percent(float(value)) if shares else format_quantity(float(value))
        parts.append(f'<text x="{across(value):.0f}" y="{bottom + 16}" text-anchor="middle">{text}</text>')
    parts.append(f'<text x="{LEFT - 8}" y="{TOP + 10}" text-anchor="end">loss</text>')
    parts.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(name)}</text>')
    for place, ((line, y), colour, dash) in enumerate(zip(lines.items(), COLOURS, ("none", "6 4"), strict=False)):
        path = "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(x, y, strict=True))
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash}"/>')
        if line:
            key = TOP + 6 + 20 * place
            stroke = f'stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash}"'
            parts.append(f'<path d="M{right + 8} {key}h22" {stroke}/>')
            parts.append(f'<text x="{right + 36}" y="{key + 4}">{html.escape(line)}</text>')
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">{body}</svg>'
