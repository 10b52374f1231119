"""Findings, tables and runs as elements of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cptlaw.findings import Finding
from cptlaw.result import Table
from cptlaw.runs import Runs
from cptlaw.runs.schema import COLUMNS


def findings(found: Iterable[Finding]) -> Any:
    """Return findings as a list, the worst first as they come."""
    from dash import html

    items = [
        html.Li(
            [
                html.Span(finding.severity, className="severity"),
                f" [{finding.code}] {finding.message}",
                html.Br(),
                html.Span(finding.advice, className="advice"),
            ],
            className=finding.severity,
        )
        for finding in dict.fromkeys(found)
    ]
    return html.Ul(items, className="findings") if items else None


def lines(pairs: Iterable[tuple[str, str]]) -> Any:
    """Return pairs of label and text as a table."""
    from dash import html

    rows = [html.Tr([html.Th(label, scope="row"), html.Td(text)]) for label, text in pairs]
    return html.Div(html.Table(html.Tbody(rows)), className="scroll")


def table(found: Table, label: str) -> Any:
    """Return a table of an answer, which scrolls where it is too wide."""
    from dash import html

    body = [html.Tr([html.Td(text) for text in row]) for row in found.rows]
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in found.columns]))
    inner = html.Table([html.Caption(label), head, html.Tbody(body)])
    return html.Div(inner, className="scroll", tabIndex=0, role="region", **{"aria-label": label})


def runs(found: Runs) -> Any:
    """Return what was read: title, levels, and what was assumed."""
    from dash import html

    notes = [html.Li(f"note: {note}") for note in found.notes]
    return html.Div([html.P(html.B(found.title)), lines(found.lines), html.Ul(notes) if notes else None])


def column_choices(names: Sequence[str], taken: dict[str, str]) -> Any:
    """Return one choice per column of a runs table: which column of the file it is."""
    from dash import dcc, html

    wanted = ("run", "eval", "loss", "n_params", "tokens", "replay", "ptpp")
    fields = []
    for name in wanted:
        key = {"type": "column", "name": name}
        fields.append(
            html.Div(
                [
                    html.Label(f"{name}: {COLUMNS[name].meaning}", id=f"label-column-{name}"),
                    dcc.Dropdown(
                        id=key, options=list(names), value=taken.get(name), placeholder="not in the file",
                        searchable=False,
                    ),
                ],
                className="field",
            )
        )  # fmt: skip
    return fields
