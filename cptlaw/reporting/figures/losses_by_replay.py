"""Both losses along replay, where the tokens of a plan are given: what its replay was chosen from."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.laws.calculus import Array
from cptlaw.planning import MixPlan
from cptlaw.planning.loss import Loss
from cptlaw.reporting.figures.figure import (
    COLOURS,
    DASHES,
    INK,
    STAR,
    Drawing,
    Figure,
    add_limit,
    axis,
    bars,
    blank_drawing,
    level_text,
)
from cptlaw.units import format_quantity

PLACES = 61
SAME = 0.05  # e-folds: sizes, budgets and tokens closer than this are one


def losses_by_replay(plan: MixPlan) -> Figure:
    """Draw the losses that a plan's fits forecast along replay, its limits and its choice.

    Parameters
    ----------
    plan
        Answer of a plan of a mix that knows its fits.

    Returns
    -------
    Figure
        Data: replay, tokens, target_loss and, with a source fit, source_loss and forgetting. Rings are losses of the
        fitted runs nearest to the plan, with what the same laws forecast for these where they are not of its size.
    """
    mix = plan.fitted_mix
    # More places near none, where forgetting falls steeply.
    along = np.linspace(0.0, 1.0, PLACES) ** 2
    replay = mix.low + (min(mix.high, 0.999) - mix.low) * along if mix.high > mix.low else np.array([mix.low])
    tokens = _tokens_at(plan, replay)
    data = pd.DataFrame({"replay": replay, "tokens": tokens})
    drawing = blank_drawing()
    rings = []
    for place, loss in enumerate(mix.losses):
        name = f"{loss.role}_loss"
        data[name] = loss.at(replay, tokens)
        drawing.add_scatter(
            x=replay,
            y=data[name],
            mode="lines",
            line={"color": COLOURS[place], "width": 2.5, "dash": DASHES[place]},
            name=f"{loss.role} loss",
            hovertemplate=f"%{{x:.1%}} replay: {loss.role} loss %{{y:.4f}}<extra></extra>",
        )
        rings.append(_draw_measured_rings(drawing, loss, float(np.median(tokens)), COLOURS[place]))
    if mix.forgetting is not None and "source_loss" in data:
        data["forgetting"] = mix.forgetting.of(data["source_loss"].to_numpy())
    for limit in mix.limits:
        name = f"limit on {limit.name.removeprefix('max-').replace('-', ' ')}"
        add_limit(drawing, limit.threshold, (replay[0], replay[-1]), name)
    _mark_plan(drawing, plan)
    drawing.update_layout(xaxis=axis("replay"), yaxis=axis("loss", f"loss ({plan.unit})"))
    fixed = float(np.ptp(tokens)) == 0.0
    count = f"{format_quantity(float(tokens[0]))} tokens" if fixed else "as many tokens as the target text makes"
    caption = f"Losses that the fits forecast along replay, with {count}.{next(filter(None, rings), '')}"
    return Figure("losses-by-replay", plan.title, caption, data, drawing)


def _tokens_at(plan: MixPlan, replay: Array) -> Array:
    """Return the tokens of the mix at each replay: given ones, or those that hold the given target tokens."""
    given = plan.fitted_mix.given
    own = getattr(given, "target_tokens", None)
    if own is not None:
        return float(own) / (1.0 - replay)
    tokens = getattr(given, "tokens", None) or plan.tokens or plan.fitted_mix.largest_fitted_tokens
    return np.full(len(replay), float(tokens))


def _mark_plan(drawing: Drawing, plan: MixPlan) -> None:
    if not plan.feasible or plan.replay is None:
        return
    for name in ("target_loss", "source_loss"):
        value, *ends = (getattr(plan, name + end) for end in ("", "_lo", "_hi"))
        if value is None:
            continue
        drawing.add_scatter(
            x=[plan.replay],
            y=[value],
            error_y=bars(value, *ends, color=INK, thickness=1.5),
            mode="markers",
            marker=STAR | {"size": 16},
            name="plan",
            showlegend=name == "target_loss",
            hovertemplate=f"plan: %{{x:.1%}} replay, {name.replace('_', ' ')} %{{y:.4f}}<extra></extra>",
        )


def _draw_measured_rings(drawing: Drawing, loss: Loss, tokens: float, colour: str) -> str:
    """Draw what was measured nearest to the plan, and the forecast for it; return what the caption says of it."""
    wanted = {**loss.known, "tokens": tokens}
    rows, at = loss.fit.data, {}
    if rows.empty or not {"replay", "tokens"} <= set(rows.columns):
        return ""
    rows = rows[rows["tokens"] > 0]
    for name in ("n_params", "ptpp", "tokens"):
        if name not in rows.columns or name not in wanted or rows.empty:
            continue
        apart = np.abs(np.log(rows[name].astype(float) / wanted[name]))
        rows = rows[apart <= apart.min() + SAME]
        at[name] = float(np.median(rows[name].astype(float)))
    if rows.empty:
        return ""
    replay = np.linspace(float(rows["replay"].min()), float(rows["replay"].max()), PLACES)
    away = any(abs(np.log(value / wanted[name])) > SAME for name, value in at.items())
    if away and replay[-1] > replay[0]:
        there = loss.frame(replay, at["tokens"]).assign(**at)
        line = {"color": colour, "width": 1}
        drawing.add_scatter(
            x=replay, y=loss.predict(there), mode="lines", line=line, showlegend=False, hoverinfo="skip"
        )
    drawing.add_scatter(
        x=rows["replay"].astype(float),
        y=rows["loss"].astype(float),
        mode="markers",
        marker={"color": "#ffffff", "line": {"color": colour, "width": 1.5}, "size": 7, "symbol": "circle"},
        name=f"{loss.role} loss, measured",
        hovertemplate=f"measured at %{{x:.1%}} replay: {loss.role} loss %{{y:.4f}}<extra></extra>",
    )
    where = [level_text(name, at[name]) for name in ("n_params", "ptpp") if name in at]
    place = ", ".join([*where, f"{format_quantity(at['tokens'], 3)} tokens"])
    fine = ", with the thin line that the same laws forecast there" if away else ""
    return f" Rings are measured losses of the nearest runs ({place}){fine}."
