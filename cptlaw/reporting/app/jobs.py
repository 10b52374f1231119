"""The long jobs of the app: fit, suggest, the full plan, the report. Each is one call of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.fitting import fit
from cptlaw.planning import min_tokens, suggest
from cptlaw.reporting.app.moves import LIMITS, Fitted, reference_of
from cptlaw.reporting.app.session import Session, Stage
from cptlaw.reporting.make_report import report
from cptlaw.runs import Runs

MOST_CELLS = 12
REPORT_PARTS = 16


def fit_both(
    session: Session, runs: Runs, laws: Mapping[str, str], evals: Mapping[str, str], where: str | None, tell: Stage
) -> None:
    """Fit both losses."""
    fits = {}
    for place, (role, name) in enumerate(evals.items()):
        tell(f"fitting the {role} loss", 0.02 + 0.5 * place)
        fits[role] = fit(laws[role], runs, name, where or None)
    fitted = Fitted.build(fits["target"], fits.get("source"))
    session.where = where or ""
    session.suggestion, session.exact, session.report = None, None, None
    session.fitted = fitted
    tell("done", 1.0)


def suggest_cells(session: Session, question: Mapping[str, Any], budget: str, tell: Stage) -> None:
    """Ask for the next runs for the forecast at the sliders."""
    fitted, runs = _ready(session)
    tell("choosing runs", 0.3)
    target = fitted.target
    at = ",".join(f"{name}={question[name]!r}" for name in target.law.inputs)
    session.suggestion = suggest(
        target.law, runs, target.on, session.where or None, at=at, budget=budget, n=MOST_CELLS, seed=target.options.seed
    )
    tell("done", 1.0)


def full_plan(session: Session, question: Mapping[str, Any], tell: Stage) -> None:
    """Plan with full intervals, as the command line does."""
    fitted, _ = _ready(session)
    tell("walking along the profile at the plan", 0.3)
    limits, reference, model = _asked(fitted, question)
    session.exact = min_tokens(
        fitted.target, fitted.source, **model, **limits, **reference, risk=question.get("risk"), interval=0.9
    )
    tell("done", 1.0)


def make_page(session: Session, question: Mapping[str, Any], tell: Stage) -> None:
    """Make the report of what the sliders ask."""
    fitted, runs = _ready(session)
    limits, reference, model = _asked(fitted, question)
    parts = iter(range(1, 10 * REPORT_PARTS))
    at = {name: question[name] for name in ("n_params", "ptpp", "replay", "tokens") if question.get(name) is not None}
    if limits:
        limits = {**limits, **reference, "risk": question.get("risk")}
    found = report(
        runs,
        fitted.target,
        fitted.source,
        **(model if limits else {"at": at}),
        **limits,
        progress=lambda part: tell(f"drawing: {part}", min(next(parts) / REPORT_PARTS, 0.98)),
    )
    session.report = found.to_html().encode()
    tell("done", 1.0)


def _ready(session: Session) -> tuple[Fitted, Runs]:
    assert session.fitted is not None
    assert session.runs is not None
    return session.fitted, session.runs


def _asked(fitted: Fitted, question: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    limits = {name: question[name] for name in LIMITS if question.get(name) is not None}
    if fitted.source is None:
        limits.pop("max_forgetting", None)
    reference, _ = reference_of(fitted, question)
    model = {name: question[name] for name in ("n_params", "ptpp") if question.get(name) is not None}
    return limits, reference, model
