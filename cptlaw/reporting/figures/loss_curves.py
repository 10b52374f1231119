"""Loss curves with the learning-rate schedule beneath: what a schedule does to a loss shows on one axis of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.fitting.fit import Fit
from cptlaw.laws.calculus import Array
from cptlaw.reporting.figures.figure import AXES, COLOURS, DASHES, SYMBOLS, Drawing, Figure, axis, blank_drawing
from cptlaw.runs import Runs
from cptlaw.runs.metrics import loss_unit
from cptlaw.schedules import Schedule

MOST_RUNS = 6


def loss_curves(
    runs: Runs,
    on: str,
    *,
    schedules: Mapping[str, Schedule] | None = None,
    names: Sequence[str] | None = None,
    fit: Fit | None = None,
) -> Figure:
    """Draw the losses of a few runs along their steps or tokens, and their learning rates beneath.

    Parameters
    ----------
    runs
        The runs table.
    on
        The eval whose loss is drawn, by name or role.
    schedules
        Learning rates by run; the column ``lr`` of the table where absent. Without either only losses are drawn.
    names
        The runs to draw; the longest few with different schedules where absent.
    fit
        A fit of this eval, whose losses are drawn as lines; only its runs are drawn then.

    Returns
    -------
    Figure
        Data: run, step or tokens, observed, fitted, lr.

    Raises
    ------
    UsageError
        If a name is no run of the table.
    """
    rows = runs.on(on).adapted().frame
    if fit is not None:  # runs that were left out of the fit are not counted
        rows = rows[rows["run"].astype(str).isin(set(fit.data["run"].astype(str)))]
    known = set(rows["run"].astype(str))
    missing = [name for name in names or () if name not in known]
    if missing:
        raise UsageError(f"names: there is no run {missing[0]!r} with losses on {on}.")
    chosen = list(names) if names else _different_runs(rows, schedules)
    along = "step" if "step" in rows.columns and rows["step"].notna().all() else "tokens"
    drawing = blank_drawing(height=520)
    parts = []
    for place, name in enumerate(chosen):
        part = rows[rows["run"].astype(str) == name].sort_values(along)
        table = pd.DataFrame({"run": name, along: part[along].to_numpy(), "observed": part["loss"].to_numpy()})
        if fit is not None:
            table["fitted"] = fit.predict(part)
        at, rates = _learning_rates(part, (schedules or {}).get(name), along)
        if len(at):
            table["lr"] = np.interp(table[along], at, rates)
        _add(drawing, table, along, name, place, (at, rates))
        parts.append(table)
    data = pd.concat(parts, ignore_index=True)
    x = axis(along, values=data[along].tolist())
    lowest = "lr" in data
    losses = axis("loss", f"{on} loss ({loss_unit(rows)})") | {"domain": [0.36, 1] if lowest else [0, 1]}
    drawing.update_layout(xaxis=x, yaxis=losses)
    if lowest:
        drawing.update_layout(
            xaxis={"anchor": "y2"},
            yaxis2=axis("lr") | {"domain": [0, 0.28], "anchor": "x", "rangemode": "tozero", "exponentformat": "e"},
        )
    what = ", the learning rate below" if lowest else "; the table holds no learning rates"
    return Figure(
        f"loss-curves-{on}",
        _falling_runs_title(on, data, along),
        f"{len(chosen)} of {len(known)} runs along {AXES[along]}, measured {on} losses above{what}."
        f"{' Lines are the fitted law.' if 'fitted' in data else ''}",
        data,
        drawing,
    )


def _falling_runs_title(on: str, data: pd.DataFrame, along: str) -> str:
    """Return how many of the runs that are drawn end below where they began."""
    ends = data.sort_values(along, kind="stable").groupby("run")["observed"].agg(["first", "last"])
    fallen = int((ends["last"] < ends["first"]).sum())
    return f"The {on} loss falls in {fallen} of {len(ends)} runs along training"


def _different_runs(rows: pd.DataFrame, schedules: Mapping[str, Schedule] | None) -> list[str]:
    """Choose the runs with the most points, different in as many ways as there are."""
    keys = [name for name in ("lr_schedule", "lr_peak", "replay", "ptpp", "n_params") if name in rows.columns]
    ends = rows.groupby("run", observed=True).agg(points=("loss", "size"), **{key: (key, "first") for key in keys})
    ends = ends[[bool(schedules is None or str(name) in schedules) for name in ends.index]] if schedules else ends
    ends = ends.sort_values("points", ascending=False, kind="stable")
    first = ends.drop_duplicates([key for key in keys if key in ("lr_schedule", "lr_peak", "replay")] or None)
    order = [*first.index, *(name for name in ends.index if name not in first.index)]
    return [str(name) for name in order[:MOST_RUNS]]


def _learning_rates(part: pd.DataFrame, schedule: Schedule | None, along: str) -> tuple[Array, Array]:
    """Return where the learning rate is known, and the rate there; nothing where the table does not tell."""
    if schedule is not None and along == "step":
        rates = schedule.lr[schedule.n_pretrain :]
        at = np.arange(len(rates))
        keep = np.unique(np.linspace(0, len(rates) - 1, min(len(rates), 400)).round().astype(int))
        return at[keep], rates[keep]
    if "lr" in part.columns and part["lr"].notna().any():
        known = part[part["lr"].notna()]
        return known[along].to_numpy(dtype=float), known["lr"].to_numpy(dtype=float)
    return np.zeros(0), np.zeros(0)


def _add(drawing: Drawing, table: pd.DataFrame, along: str, name: str, place: int, rates: tuple[Array, Array]) -> None:
    colour, fitted = COLOURS[place % len(COLOURS)], "fitted" in table
    line = {"color": colour, "width": 1.5, "dash": DASHES[place % len(DASHES)]}
    drawing.add_scatter(
        x=table[along],
        y=table["observed"],
        mode="markers" if fitted else "lines+markers",
        marker={"color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 7},
        line=line,
        name=name,
        legendgroup=name,
        hovertemplate="%{y:.4f}<extra>%{fullData.name}</extra>",
    )
    beside = {"mode": "lines", "line": line, "legendgroup": name, "showlegend": False}
    if fitted:
        said = "fitted %{y:.4f}<extra></extra>"
        drawing.add_scatter(x=table[along], y=table["fitted"], hovertemplate=said, **beside)
    if len(rates[0]):
        said = "learning rate %{y:.2e}<extra></extra>"
        drawing.add_scatter(x=rates[0], y=rates[1], yaxis="y2", hovertemplate=said, **beside)
