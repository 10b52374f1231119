"""The long jobs of the app: fits, next runs, the report. Each is one call of the library."""

from __future__ import annotations

from typing import Any

from cptlaw.errors import UsageError
from cptlaw.planning import suggest
from cptlaw.planning.loss import laws_of
from cptlaw.reporting.make_report import report
from cptlaw.verbs import fit
from cptlaw.webapp.fitted import Fitted
from cptlaw.webapp.moves import move
from cptlaw.webapp.scenario import Scenario
from cptlaw.webapp.session import Loaded, Session, Shelf, Stage

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
            tell(f"finding the laws of the {role} loss", 0.05 + 0.9 * place / len(roles))
            fits[role] = fit(loaded.laws[role], loaded.runs, role, loaded.where or None)
        fitted = Fitted.build(fits["target"], fits.get("source"))
    ready = loaded.with_fits(fitted)
    shelf.keep(ready)
    session.take(ready)


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
    if scenario.tokens is None and fitted.source is not None:
        limits = {"max_forgetting": scenario.max_forgetting, "max_target_loss": scenario.max_target_loss}
        limits |= {"base_source_loss": scenario.base_source_loss, "risk": scenario.risk}
    known = {"n_params": scenario.n_params, "ptpp": scenario.ptpp} if limits else {"at": point}
    found = report(
        loaded.runs,
        fitted.target,
        fitted.source,
        **known,
        **limits,
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
