"""The long jobs of the app: fits, next runs, the report. Each is one call of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.errors import CptlawError, UsageError
from cptlaw.findings import Finding
from cptlaw.planning import suggest
from cptlaw.planning.loss import laws_of
from cptlaw.reporting.make_report import report
from cptlaw.scores import fit_all_scores
from cptlaw.verbs import fit
from cptlaw_app.fitted import Fitted
from cptlaw_app.moves import move
from cptlaw_app.scenario import IN_POINTS, Scenario
from cptlaw_app.session import Loaded, Session, Shelf, Stage

MOST_CELLS = 8
REPORT_PARTS = 16


def fit_both(session: Session, shelf: Shelf, loaded: Loaded, tell: Stage) -> None:
    """Fit both losses of a table, and only then show it."""
    fitted = shelf.fits(loaded)
    if fitted is None:
        roles = [
            role for role in ("target", "source") if any(loaded.runs.role(name) == role for name in loaded.runs.evals)
        ]
        fits = {}
        for place, role in enumerate(roles):
            tell(f"finding the laws of the {role} loss", 0.05 + 0.7 * place / len(roles))
            fits[role] = fit(loaded.laws[role], loaded.runs, role, loaded.where or None)
        if loaded.runs.scores:
            tell("finding how the scores follow the losses", 0.75)
        fitted = Fitted.build(fits["target"], fits.get("source"), *_scores(loaded, fits))
    ready = loaded.with_fits(fitted)
    shelf.keep(ready)
    session.take(ready)


def _scores(loaded: Loaded, fits: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return the fits of the table's scores, and why there are none where they cannot be fitted."""
    if not loaded.runs.scores:
        return {}, ()
    try:
        losses = {one.on: one for one in fits.values()}
        return fit_all_scores(loaded.runs, None, loaded.where or None, losses=losses), ()
    except CptlawError as error:  # the losses have their answer all the same
        return {}, (Finding("warning", "scores-not-fitted", f"The table's scores could not be fitted: {error}"),)


def suggest_cells(loaded: Loaded, scenario: Scenario, budget: str, tell: Stage) -> Any:
    """Ask for the next runs for the mix that is shown."""
    assert loaded.fitted is not None
    tell("choosing runs", 0.3)
    target = loaded.fitted.target
    point = _point(loaded.fitted, scenario)
    at = ",".join(f"{name}={point[name]!r}" for name in target.law.inputs if name in point)
    # The doubt of an average is mostly that of the law which counts most.
    law = target.law if len(laws_of(target)) == 1 else target.leading.law
    return suggest(law, loaded.runs, target.on, loaded.where or None, at=at, budget=budget, n=MOST_CELLS)


def make_page(loaded: Loaded, scenario: Scenario, tell: Stage) -> bytes:
    """Make the report of what the controls ask."""
    fitted = loaded.fitted
    assert fitted is not None
    parts = iter(range(1, 10 * REPORT_PARTS))
    point = _point(fitted, scenario)
    limits: dict[str, Any] = {}
    in_points: dict[str, Any] = {"scores": fitted.scores} if fitted.scores else {}
    if scenario.tokens is None and fitted.source is not None:
        limits = {"max_forgetting": scenario.max_forgetting, "max_target_loss": scenario.max_target_loss}
        limits |= {"base_source_loss": scenario.base_source_loss, "risk": scenario.risk}
        in_points |= {name: dict(getattr(scenario, name)) for name in IN_POINTS if getattr(scenario, name)}
    known = {"n_params": scenario.n_params, "ptpp": scenario.ptpp} if limits else {"at": point}
    found = report(
        loaded.runs,
        fitted.target,
        fitted.source,
        **known,
        **limits,
        **in_points,
        progress=lambda part: tell(f"drawing: {part}", min(next(parts) / REPORT_PARTS, 0.98)),
    )
    return found.to_html().encode()


def _point(fitted: Fitted, scenario: Scenario) -> dict[str, float]:
    """Return the mix that answers a scenario, as inputs of the laws."""
    plan = move(fitted, scenario, draws=False).plan
    if not plan.feasible:
        raise UsageError("There is no mix to speak of: loosen the limits first, or choose tokens and replay yourself.")
    names = ("n_params", "ptpp", "replay", "tokens", "lr_peak")
    return {name: float(value) for name in names if (value := getattr(plan, name)) is not None}
