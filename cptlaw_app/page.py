"""An answer as a piece of the page: its own sentence, lines, tables and findings, and its figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding, Remedy
from cptlaw.result import Table
from cptlaw_app.question import fields


def shown(answer: Any) -> dict[str, Any]:
    """Return what the page shows of an answer; every number is text of the answer itself."""
    findings = list(dict.fromkeys(answer.findings))
    above = [one for one in findings if one.code == "extrapolation" and one.severity != "info"]
    (_, sentence), *lines = answer.lines
    return {
        "question": answer.title,
        "sentence": sentence[:1].upper() + sentence[1:] + ".",
        "feasible": answer.feasible is not False,
        "above": [_told(one) for one in above],
        "lines": lines,
        "tables": [table.to_html() for table in _tables(answer) if table.rows],
        "findings": [_told(one) for one in findings if one not in above],
        "figures": [_figure(figure) for figure in drawn(answer)],
        "next": answer.following,
    }


def _tables(answer: Any) -> list[Table]:
    """Return the tables of an answer, and that of replay shares where it stands apart from them."""
    options = getattr(answer, "options", None)
    return [*answer.tables, *([options] if isinstance(options, Table) and options not in answer.tables else [])]


def _told(finding: Finding) -> dict[str, str]:
    return {"severity": finding.severity, "message": finding.message, "advice": finding.advised(on_this_page)}


def on_this_page(remedy: Remedy) -> str:
    """Return a remedy as the field that holds it; nothing where the form has none."""
    label = next((one.label for one in fields() if one.name == remedy.option), "")
    value = "" if remedy.value is None else f": {remedy.value}"
    return f"field {label!r}{value}" if label else ""


def drawn(answer: Any) -> Iterator[Any]:
    """Yield the figures of an answer: what shows its plan best, and both losses along the replay."""
    plan = getattr(answer, "plan", None)
    if plan is None or not answer.feasible:
        return
    names = set()
    by_replay: Any = cl.figures.losses_by_replay  # the function, which takes the place of its file
    for draw in (cl.plot, by_replay):
        try:
            figure = draw(plan)
        except CptlawError:  # plans of k corpora, for instance, have no losses along one replay
            continue
        if figure.name not in names:
            names.add(figure.name)
            yield figure


def _figure(figure: Any) -> dict[str, str]:
    # Inside a script element only an end tag could end the data.
    data = json.dumps(json.loads(figure.to_json())).replace("<", "\\u003c")
    return {"title": figure.title, "caption": figure.caption, "data": data}
