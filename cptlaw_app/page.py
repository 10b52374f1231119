"""What the page shows: how a table was read, and an answer with its own sentence, lines, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding, Remedy
from cptlaw_app.question import EVALS, EXAMPLE, GIVEN, NO_RUNS, AnswerQueue, Problem, fields


def read_as(queue: AnswerQueue, given: Mapping[str, str]) -> dict[str, object]:
    """Return what the page shows of how the table of a form was read."""
    reading = None if given.get("table", NO_RUNS) == NO_RUNS else queue.read(given)
    if reading is None or isinstance(reading, Problem):
        return {"reading": None, "unread": reading}
    runs = reading.runs
    evals = () if runs is None else runs.evals
    roles = {name: runs.role(name) for name in evals} if runs is not None else {}
    return {
        "reading": reading,
        "unread": None,
        "headline": reading.title.removeprefix(f"{reading.label}: "),
        "evals": evals,
        "by_role": {field: next((one for one in evals if f"{roles[one]}_eval" == field), "") for field in EVALS},
        "columns": reading.tables[0].to_html(),
        "fixed": given["table"] in (EXAMPLE, GIVEN),  # read before the page was opened
    }


def answer_page(answer: cl.Answer) -> dict[str, object]:
    """Return what the page shows of an answer; every number is text of the answer itself."""
    findings = list(dict.fromkeys(answer.findings))
    above = [one for one in findings if one.code == "extrapolation" and one.severity != "info"]
    (_, sentence), *lines = answer.lines
    return {
        "question": answer.title,
        "sentence": sentence[:1].upper() + sentence[1:] + ".",
        "feasible": answer.feasible is not False,
        "above": [_finding_context(one) for one in above],
        "lines": lines,
        "details": answer.details,
        "tables": [table.to_html() for table in answer.tables if table.rows],
        "findings": [_finding_context(one) for one in findings if one not in above],
        "figures": [_figure_json(figure) for figure in answer_figures(answer)],
    }


def _finding_context(finding: Finding) -> dict[str, str]:
    return {"severity": finding.severity, "message": finding.message, "advice": finding.advice_text(on_this_page)}


def on_this_page(remedy: Remedy) -> str:
    """Return a remedy as the field that holds it; nothing where the form has none."""
    label = next((one.label for one in fields() if one.name == remedy.option), "")
    value = "" if remedy.value is None else f": {remedy.value}"
    return f"field {label!r}{value}" if label else ""


def answer_figures(answer: cl.Answer) -> Iterator[object]:
    """Yield the figures of an answer: both losses along the replay, and what shows its plan best."""
    by_replay: Any = cl.figures.losses_by_replay  # the function, which takes the place of its file
    names = set()
    for draw in (by_replay, cl.plot) if answer.plan is not None else (cl.plot,):
        try:
            figure = draw(answer.plan or answer)
        except CptlawError:  # plans of k corpora, for instance, have no losses along one replay
            continue
        if figure.name not in names:
            names.add(figure.name)
            yield figure


def _figure_json(figure: Any) -> dict[str, str]:
    # Inside a script element only an end tag could end the data.
    data = json.dumps(json.loads(figure.to_json())).replace("<", "\\u003c")
    return {"title": figure.title, "caption": figure.caption, "data": data}
