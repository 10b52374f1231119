"""What a move of a slider shows: forecast, plan and map, fast enough to follow the hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.fitting import Fit
from cptlaw.planning import MinTokensPlan, min_tokens
from cptlaw.planning.limits import Forgetting
from cptlaw.planning.reference import fit_base_law
from cptlaw.planning.result import flops_of
from cptlaw.planning.setting import Setting, build_setting
from cptlaw.reporting.app.doubt import Allowed, gather
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.forgetting_map import draw_map, map_grid
from cptlaw.units import format_percent, format_quantity

MAP_SHAPE = (41, 49)
BEYOND = {"n_params": 1000.0, "ptpp": 10.0, "tokens": 30.0}  # times beyond what was fitted that sliders reach
REFERENCES = ("measured", "base-law", "asymptote")  # the first that can be had
BASE = "base-law"
ROLES = ("target", "source", BASE)
LIMITS = ("max_forgetting", "max_target_loss")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Two fits and what is known about their doubt.

    Attributes
    ----------
    target, source
        The fits.
    ranges
        Least and largest value of each slider, raw.
    allowed
        The laws that the data allows, by role, and of base models under ``"base-law"``.
    """

    target: Fit
    source: Fit | None
    ranges: dict[str, tuple[float, float]]
    allowed: dict[str, Allowed | None] = field(default_factory=dict)

    @classmethod
    def build(cls, target: Fit, source: Fit | None) -> Fitted:
        """Take fits and find out how far the sliders go; `with_doubt` does the rest."""
        return cls(target, source, slider_ranges([fit for fit in (target, source) if fit is not None]))

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The fits that there are, the target first."""
        return (self.target,) if self.source is None else (self.target, self.source)

    def with_doubt(self, role: str) -> Fitted:
        """Return the same with the laws that the data allows for one role."""
        fit = {"target": self.target, "source": self.source, BASE: self._base_law()}[role]
        found = None if fit is None else gather(fit, self.ranges)
        return replace(self, allowed={**self.allowed, role: found})

    def _base_law(self) -> Fit | None:
        """Return the law of base models that stands in where the base model was not measured."""
        if self.source is None:
            return None
        try:
            return fit_base_law(self.source)
        except UsageError:
            return None


@dataclass(frozen=True, eq=False)
class Move:
    """What is shown after a move.

    Attributes
    ----------
    lines
        Label and text of each line of the forecast at the mix.
    plan_lines, plan_title, feasible
        The plan; ``feasible`` is ``None`` where no limit was given or it cannot be planned.
    figure
        The map, where there is a source fit.
    notes
        What to be wary of.
    """

    lines: tuple[tuple[str, str], ...]
    plan_title: str
    plan_lines: tuple[tuple[str, str], ...]
    feasible: bool | None
    figure: Figure | None
    notes: tuple[Finding, ...]


def slider_ranges(fits: list[Fit]) -> dict[str, tuple[float, float]]:
    """Return how far each slider goes: what was fitted and, upwards, far beyond."""
    ranges: dict[str, tuple[float, float]] = {}
    for name in ("n_params", "ptpp", "replay", "tokens"):
        columns = [fit.data[name].dropna().to_numpy(dtype=float) for fit in fits if name in fit.data.columns]
        values = np.concatenate(columns) if columns else np.zeros(0)
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if name == "replay":
            mixed = values[(values > 0) & (values < 1)]
            low, high = (float(mixed.min()), float(mixed.max())) if len(mixed) else (low, high)
            ranges[name] = (low, high)
        else:
            ranges[name] = (low, high * BEYOND[name])
    return ranges


def move(fitted: Fitted, question: Mapping[str, Any]) -> Move:
    """Answer a position of the sliders.

    Parameters
    ----------
    fitted
        Fits with their doubt.
    question
        n_params, ptpp, replay, tokens, max_forgetting, max_target_loss, risk, base_source_loss; raw, ``None`` for what
        is not asked.
    """
    limits: dict[str, Any] = {name: question[name] for name in LIMITS if question.get(name) is not None}
    if fitted.source is None:
        limits.pop("max_forgetting", None)
    reference, notes = reference_of(fitted, question)
    setting = build_setting(fitted.target, fitted.source, **_model(question), **limits, **reference, interval=None)
    lines = _forecast(fitted, setting, question)
    found = _plan(fitted, setting, question, {**limits, **reference}) if limits else None
    plan, edges = (None, {}) if found is None else found
    figure = None
    if setting.forgetting is not None and setting.source is not None and setting.reads_replay:
        tokens, replay = map_grid(setting, plan, float(question["tokens"]) * 1.2, MAP_SHAPE)
        # The plan was sought at every replay of the map and once in between.
        edges = {risk: needed[:: max((len(needed) - 1) // (MAP_SHAPE[0] - 1), 1)] for risk, needed in edges.items()}
        figure = draw_map(setting, plan, tokens, replay, edges, (float(question["tokens"]), float(question["replay"])))
    if plan is None:
        return Move(lines, "No limit is set.", (), None, figure, (*notes, *setting.findings))
    return Move(
        lines,
        plan.title,
        tuple(plan.lines),
        plan.feasible,
        figure,
        tuple(dict.fromkeys((*notes, *plan.findings))),
    )


def reference_of(fitted: Fitted, question: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return from which loss forgetting counts: the measured one, or what stands in for it, which a finding says."""
    if fitted.source is None:
        return {}, ()
    if question.get("base_source_loss") is not None:
        return {"base_source_loss": question["base_source_loss"]}, ()
    for kind in REFERENCES:
        try:
            build_setting(
                fitted.target, fitted.source, **_model(question), reference=kind, interval=None, max_forgetting=1
            )
        except UsageError:
            continue
        if kind == "measured":
            return {}, ()
        note = Finding(
            "info",
            "reference",
            f"no source loss of a base model of this size and budget was measured; forgetting counts from {kind}.",
            "Give the base model's source loss where you know it.",
        )
        return {"reference": kind}, (note,)
    return {}, ()


def _model(question: Mapping[str, Any]) -> dict[str, Any]:
    return {name: question[name] for name in ("n_params", "ptpp") if question.get(name) is not None}


def _forecast(fitted: Fitted, setting: Setting, question: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    tokens, replay = float(question["tokens"]), float(question.get("replay") or 0.0)
    lines = [("compute", f"{format_quantity(flops_of(setting.n_params, tokens))} FLOP")]
    for side in setting.sides:
        frame = side.frame(replay, tokens)
        loss = float(side.losses(replay, tokens)[0])
        text = f"{loss:.4f}"
        known = fitted.allowed.get(side.role)
        if known is not None:
            low, high = (float(end[0]) for end in known.interval(frame))
            text += f" ({low:.4f} to {high:.4f})"
        lines.append((f"{side.role} loss", f"{text} nats per token"))
        if side.role == "source" and setting.forgetting is not None:
            how = setting.forgetting
            show = format_percent if how.measure == "relative" else (lambda value: f"{value:.4g} nats")
            text = show(float(how.of(loss)))
            if known is not None:
                text += f" ({show(float(how.of(low)))} to {show(float(how.of(high)))})"
            lines.append(("forgetting", f"{text} of the base model's {how.reference.loss:.4g} ({how.reference.kind})"))
    return tuple(lines)


def _plan(
    fitted: Fitted, setting: Setting, question: Mapping[str, Any], limits: Mapping[str, Any]
) -> tuple[MinTokensPlan, dict[float, Any]]:
    """Return the plan on the forecasts alone or, with a risk, the quick one on the laws that the data allows."""
    plan = min_tokens(fitted.target, fitted.source, **_model(question), **limits, interval=None)
    risk = question.get("risk")
    if risk is None:
        return plan, {}
    if any(fitted.allowed.get(limit.side.role) is None for limit in setting.limits):
        raise UsageError("risk: these fits have too few runs to say how runs differ. Leave the risk out.")
    replay = (
        np.linspace(setting.low, setting.high, 2 * MAP_SHAPE[0] - 1)
        if setting.high > setting.low
        else np.array([setting.low])
    )
    needed = _edge(fitted, setting, replay, risk)
    best = int(np.argmin(needed))
    if not np.isfinite(needed[best]):
        quick = replace(
            plan, feasible=False, risk=risk, replay=None, tokens=None,
            blocking=plan.blocking or "with this much certainty, the limits together",
        )  # fmt: skip
        return quick, {risk: needed}
    tokens, share = max(float(needed[best]), setting.smallest_fitted_tokens), float(replay[best])
    how = setting.forgetting
    source_loss = None if setting.source is None else float(setting.source.losses(share, tokens)[0])
    quick = replace(
        plan,
        feasible=True,
        risk=risk,
        replay=share if setting.reads_replay else None,
        tokens=tokens,
        atpp=tokens / setting.n_params,
        flops=flops_of(setting.n_params, tokens),
        target_loss=float(setting.target.losses(share, tokens)[0]),
        source_loss=source_loss,
        forgetting=None if how is None or source_loss is None else float(how.of(source_loss)),
        price_of_doubt=tokens - plan.tokens if plan.feasible and plan.tokens is not None else None,
        binding=tuple(
            limit.name for limit in setting.limits
            if _edge(fitted, replace(setting, limits=(limit,)), replay[[best]], risk)[0] >= tokens * (1 - 1e-6)
        ),
    )  # fmt: skip
    return quick, {risk: needed}


def _edge(fitted: Fitted, setting: Setting, replay: Any, risk: float) -> Any:
    """Return the fewest tokens at which all limits hold with a probability, (r,)."""
    needed = np.zeros(len(replay))
    for limit in setting.limits:
        known = fitted.allowed[limit.side.role]
        assert known is not None
        how = limit.forgetting if limit.forgetting is None else _quick(fitted, setting, limit.forgetting)
        doubtful = replace(limit, risk=risk, laws=known.at(2.0 * risk - 1.0), forgetting=how)
        needed = np.maximum(needed, doubtful.tokens(replay))
    return needed


def _quick(fitted: Fitted, setting: Setting, how: Forgetting) -> Forgetting:
    """Return how forgetting counts with a reference whose own doubt is known without a walk."""
    known = fitted.allowed.get(BASE)
    if how.reference.kind != BASE or known is None:
        return how
    row = pd.DataFrame({"n_params": [setting.n_params], "ptpp": [setting.target.ptpp]})

    def half_width(coverage: float) -> float:
        centre = np.log(known.fit.predict(row))
        others = np.log(known.fit.law.predict_many(known.at(coverage), row, known.fit.role))
        return float(np.max(centre - others))

    return replace(how, reference=how.reference.with_half_width(half_width))
