"""The answer from runs of several kinds (`cptlaw.runs.kinds`): each is fitted alone, and the best one is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.answering.alternatives import measured_base
from cptlaw.answering.question import Asked
from cptlaw.answering.result import Answer
from cptlaw.errors import CptlawError, UsageError, join_names
from cptlaw.findings import Finding, by_severity
from cptlaw.runs import Runs
from cptlaw.runs.kinds import KINDS, Kind, kinds
from cptlaw.runs.metrics import USUAL_UNIT, loss_unit
from cptlaw.units import format_percent, format_quantity

UNLIKE = 0.01  # relative difference of two base models' source losses


def best_kind(runs: Runs, question: Asked, where: str | None, ask: Callable[[str | None], Answer]) -> Answer:
    """Return the answer for the kind of runs that the question names, else for the best one beside the others.

    Parameters
    ----------
    ask
        Returns the answer from the rows of a filter.

    Raises
    ------
    UsageError
        If there is no such kind, vocabularies differ and losses are per token, or forgetting is limited and would count
        from base models that differ.
    """
    left = _asked_for(runs, question, where)
    if not left[0].levels:
        return ask(where)
    queries = {str(kind): kind.query if where is None else f"({where}) and {kind.query}" for kind in left}
    if question.max_forgetting is not None and question.base_source_loss is None:
        _bases_that_differ(_measured_bases(runs, question, queries), question)  # known before minutes of fits
    answers: dict[str, Answer] = {}
    trouble: dict[str, CptlawError] = {}
    for kind, query in queries.items():
        try:
            answers[kind] = ask(query)
        except CptlawError as error:
            trouble[kind] = error
    if not answers:
        raise next(iter(trouble.values()))
    order = sorted(answers, key=lambda name: _rank_of_answer(answers[name]))
    best = answers[order[0]]
    levels: Mapping[str, Any] = next(kind.levels for kind in left if str(kind) == order[0])
    notes = [
        Finding("info", "kind-left-out", f"{name} has no answer: {error}", "Runs of it as of the others would tell.")
        for name, error in trouble.items()
    ]
    notes += _bases_that_differ({name: one.base_source_loss for name, one in answers.items()}, question)
    return replace(
        best,
        method=levels.get("method"),
        vocab_added=levels.get("vocab_added"),
        other_kinds=tuple(_kind_summary(name, answers[name]) for name in order[1:]),
        findings=by_severity([*best.findings, *notes]),
    )


def _asked_for(runs: Runs, question: Asked, where: str | None) -> list[Kind]:
    """Return the kinds of runs that the question leaves, whose losses compare.

    Raises
    ------
    UsageError
        If there is none, or vocabularies differ and losses are per token.
    """
    known = kinds(runs, where)
    asked = {name: getattr(question, name) for name in KINDS if getattr(question, name) is not None}
    left = [kind for kind in known if all(kind.levels.get(name) == value for name, value in asked.items())]
    if not left:
        flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in asked.items())
        have = "; ".join(filter(None, map(str, known))) or "of one kind"
        raise UsageError(f"{flags}: no runs of {runs.label} are of this kind. Its runs are {have}.")
    vocabularies = sorted({kind.levels.get("vocab_added", 0.0) for kind in left})
    units = {loss_unit(runs.on(name).frame) for name in runs.evals if name not in runs.scores}
    if len(vocabularies) > 1 and USUAL_UNIT in units:
        raise UsageError(
            f"{runs.label} has runs with {join_names([f'{each:g}' for each in vocabularies], 4)} tokens added to the "
            f"vocabulary (vocab_added), whose losses per token do not compare. Choose one: vocab_added= (--vocab-added "
            f"{vocabularies[-1]:g}); or give losses per byte, with a column metric of nats_per_byte."
        )
    return left


def _measured_bases(runs: Runs, question: Asked, queries: Mapping[str, str]) -> dict[str, float | None]:
    """Return the measured source loss of the asked base model by kind of runs; None where there is none."""
    source = next((name for name in runs.evals if runs.role(name) == "source"), None)
    if source is None:
        return {}
    rows = {kind: runs.where(query).base_losses(source) for kind, query in queries.items()}
    return {kind: measured_base(base, question.law_inputs) for kind, base in rows.items()}


def _bases_that_differ(by_kind: Mapping[str, float | None], question: Asked) -> list[Finding]:
    """Say where kinds of runs began from base models of different source losses.

    Raises
    ------
    UsageError
        If forgetting is limited, which counts from them.
    """
    bases = [loss for loss in by_kind.values() if loss is not None]
    if not bases or max(bases) <= (1.0 + UNLIKE) * min(bases):
        return []
    differ = (
        "forgetting counts from each one's own base model, and their source losses differ, "
        f"{min(bases):.4g} to {max(bases):.4g}"
    )
    if question.max_forgetting is not None:
        raise UsageError(f"{differ}: one limit means several. Choose one of {'; '.join(by_kind)} (--method).")
    return [Finding("warning", "bases-differ", f"{differ}.", "Compare the source losses themselves.")]


def _rank_of_answer(answer: Answer) -> tuple[bool, float]:
    """Return what sorts answers, the best first: limits kept, then least compute where that is asked, else target."""
    value = answer.flops if answer.kind == "min-tokens" else answer.target_loss
    return not answer.feasible, np.inf if value is None else value


def _kind_summary(name: str, answer: Answer) -> Mapping[str, object]:
    """Return an answer in words and numbers, to stand beside the best."""
    if not answer.feasible:
        return {"change": f"{name}: {answer.lines[0][1]}"}
    losses = {field: getattr(answer, field) for field in ("target_loss", "source_loss")}
    parts = [f"{name}: {format_quantity(answer.tokens or 0, 3)} tokens"]
    parts += [] if answer.replay is None else [f"{format_percent(answer.replay, 3)} replay"]
    parts += [f"{field.replace('_', ' ')} {value:.4g}" for field, value in losses.items() if value is not None]
    others = {field: getattr(answer, field) for field in ("replay", "tokens", "flops", "forgetting")}
    return {"change": ", ".join(parts), **others, **losses}
