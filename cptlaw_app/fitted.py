"""Two fitted losses as the app plans with them, and how far its controls go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.planning.loss import Loss
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.reference import measured_base_loss
from cptlaw.planning.scenario import ReferenceKind, read_scenario
from cptlaw_app.scenario import Scenario
from cptlaw_app.tabled import Remembering, tabled

BEYOND = {"n_params": 1000.0, "ptpp": 10.0, "tokens": 30.0}  # times beyond what was fitted that sliders reach
INPUTS = ("n_params", "ptpp", "replay", "tokens")
REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote")  # the first that can be had
OF_SOURCE = ("max_forgetting", "base_source_loss")
STILL_LIMITS = ("max_target_loss", "min_score", "max_drop")  # without a source, or where forgetting is not known


@dataclass(frozen=True, eq=False)
class Fitted:
    """Two fits and how far their controls go.

    Attributes
    ----------
    target, source
        The fits; there may be no source.
    ranges
        Least and largest value of each slider, raw.
    rates
        Peak rates that were run, where a law reads them.
    planned
        The fits as plans search them: `cptlaw_app.tabled`.
    scores, planned_scores
        Fits of the table's scores by eval, as they are and as plans search them.
    notes
        What is to be said of them.
    """

    target: Any
    source: Any
    ranges: dict[str, tuple[float, float]]
    rates: tuple[float, ...]
    planned: tuple[Any, Any]
    scores: Mapping[str, Any] = field(default_factory=dict)
    planned_scores: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Finding, ...] = ()
    _kinds: dict[Any, ReferenceKind | None] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls, target: Any, source: Any, scores: Mapping[str, Any] | None = None, notes: tuple[Finding, ...] = ()
    ) -> Fitted:
        """Take fits and find out how far the controls go."""
        fits = [fit for fit in (target, source) if fit is not None]
        ranges = slider_ranges(fits)
        replay, tokens = ranges.get("replay", (0.0, 0.0)), ranges.get("tokens")
        planned = [
            fit if fit is None or tokens is None else tabled(fit, replay, _fitted(fits)) for fit in (target, source)
        ]
        rates: tuple[float, ...] = ()
        if any("lr_peak" in fit.law.inputs and "lr_peak" in fit.data.columns for fit in fits):
            levels = np.concatenate([fit.data["lr_peak"].dropna() for fit in fits if "lr_peak" in fit.data.columns])
            rates = tuple(float(level) for level in np.unique(levels))
        known = {fit.on: one for fit, one in zip((target, source), planned, strict=True) if fit is not None}
        scores, carriers = scores or {}, {}
        for name, loss in ((name, loss) for score in scores.values() for name, loss in score.losses.items()):
            # One for all scores: what a loss says of a mix is the same for each that follows it.
            if name not in carriers:
                off_table = known.get(name) or (loss if tokens is None else tabled(loss, replay, _fitted(fits)))
                carriers[name] = Remembering(off_table)
        searched = {
            name: replace(score, ways=tuple(replace(way, loss=carriers.get(way.carrier)) for way in score.ways))
            for name, score in scores.items()
        }
        return cls(target, source, ranges, rates, (planned[0], planned[1]), scores, searched, notes)

    @property
    def fits(self) -> tuple[Any, ...]:
        """The fits that there are, the target first."""
        return (self.target,) if self.source is None else (self.target, self.source)

    def mixes(self, kind: Any, asked: Mapping[str, Any]) -> tuple[list[FittedMix], tuple[Finding, ...]]:
        """Return the mixes that a scenario allows, and what forgetting counts from where that was not measured."""
        # Without an interval is asked for by None, and is what makes an answer quick.
        given = {name: value for name, value in asked.items() if value is not None or name == "interval"}
        if self.source is None:
            given = {name: value for name, value in given.items() if name not in OF_SOURCE}
            if not any(name in given for name in STILL_LIMITS):
                given.pop("risk", None)
        if self.source is None or "base_source_loss" in given:
            return self._build(kind, given), ()
        place = (given.get("n_params"), given.get("ptpp"))
        for reference in REFERENCES if place not in self._kinds else (self._kinds[place],):
            if reference is None:
                break
            try:
                mixes = self._build(kind, {**given, "reference": reference})
            except UsageError:  # said below where it has another reason
                continue
            if mixes[0].forgetting is not None:
                self._kinds[place] = reference
                return mixes, _stands_in(mixes[0].forgetting.reference.kind)
        without = {name: value for name, value in given.items() if name not in OF_SOURCE}
        if not any(name in without for name in STILL_LIMITS):
            without.pop("risk", None)
        mixes = self._build(kind, without)
        self._kinds[place] = None
        return mixes, (
            Finding(
                "warning",
                "no-reference",
                "no source loss of this base model was measured, and the laws offer none: forgetting is not known.",
                "Type the base model's source loss into its field.",
            ),
        )

    def in_points(self, scenario: Scenario) -> dict[str, Any]:
        """Return what a plan is asked of scores, by option; nothing where none is limited.

        Raises
        ------
        UsageError
            If a limited score was not fitted, or a drop has no base model's score to count from.
        """
        names = scenario.limited_scores
        for name in names:
            if name not in self.scores:
                raise UsageError(f"{name}: no such score of this table was fitted, so that no limit on it can be kept.")
        if not names:
            return {}
        for name in scenario.max_drop:
            if name not in scenario.base_score and self.base_score(name, scenario) is None:
                raise UsageError(
                    f"A drop of {name} counts from the base model's score, and none was measured at this size and "
                    f"budget. Type the base model's score beside it, or choose a size and budget that was run."
                )
        return {
            "scores": {name: self.planned_scores[name] for name in names},
            "min_score": dict(scenario.min_score),
            "max_drop": dict(scenario.max_drop),
            "base_score": {name: value for name, value in scenario.base_score.items() if name in scenario.max_drop},
        }

    def base_score(self, name: str, scenario: Scenario) -> float | None:
        """Return the measured score of a scenario's base model; ``None`` where there is none."""
        known = {"n_params": scenario.n_params or 1.0} | ({"ptpp": scenario.ptpp} if scenario.ptpp else {})
        try:
            return measured_base_loss(Loss(self.planned_scores[name], "target", known))
        except UsageError:
            return None

    def _build(self, kind: Any, given: Mapping[str, Any]) -> list[FittedMix]:
        return build_mixes(kind, read_scenario(kind, dict(given), "plan"), *self.planned)


def _stands_in(kind: str) -> tuple[Finding, ...]:
    if kind in ("measured", "given", "law"):
        return ()
    words = {"base-law": "a law of base models", "asymptote": "the end of the source law, which overstates it"}
    return (
        Finding(
            "info",
            "reference",
            f"no source loss of a base model of this size and budget was measured; forgetting counts from "
            f"{words.get(kind, kind)}.",
            "Type the base model's source loss into its field where you know it.",
        ),
    )


def _fitted(fits: list[Any]) -> tuple[float, float]:
    values = np.concatenate([fit.data["tokens"].to_numpy(dtype=float) for fit in fits if "tokens" in fit.data.columns])
    values = values[values > 0]
    return float(values.min()), float(values.max())


def slider_ranges(fits: list[Any]) -> dict[str, tuple[float, float]]:
    """Return how far each slider goes: what was fitted and, upwards, far beyond; only inputs that a law reads."""
    ranges: dict[str, tuple[float, float]] = {}
    for name in INPUTS:
        if not any(name in fit.law.inputs for fit in fits):
            continue
        columns = [fit.data[name].dropna().to_numpy(dtype=float) for fit in fits if name in fit.data.columns]
        values = np.concatenate(columns) if columns else np.zeros(0)
        values = values if name == "replay" else values[values > 0]
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if name == "replay":
            mixed = values[values < 1]
            low, high = (float(mixed.min()), float(mixed.max())) if len(mixed) else (low, high)
            if high > low:
                ranges[name] = (low, high)
        else:
            ranges[name] = (low, high * BEYOND[name])
    return ranges
