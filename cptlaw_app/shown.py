"""Findings, tables and runs as elements of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cptlaw.findings import Finding, by_severity
from cptlaw.result import Table
from cptlaw.runs import Runs
from cptlaw.runs.schema import COLUMNS
from cptlaw_app.layout import planning_laws
from cptlaw_app.sentences import advised

LEAST_SHOWN = 0.01  # weight of a law in an average


def findings(found: Iterable[Finding]) -> Any:
    """Return findings as a list, the worst first as they come."""
    from dash import html

    items = [
        html.Li(
            [
                html.Span(finding.severity, className="severity"),
                f" {finding.message}",
                html.Span(f" {finding.advice}", className="advice") if finding.advice else None,
            ],
            className=finding.severity,
        )
        for finding in dict.fromkeys(found)
    ]
    return html.Ul(items, className="findings") if items else html.P("Nothing stands out.", className="quiet")


def all_findings(of_answer: Sequence[Finding], of_fits: Sequence[Finding]) -> Any:
    """Return what stands against the answer, and what against the fits behind it."""
    from dash import html

    parts = [html.H3("About this answer"), findings(by_severity(of_answer))]
    return [*parts, html.H3("About the laws"), findings(by_severity(of_fits))]


def count(*found: Sequence[Finding]) -> str:
    """Return how many findings there are of each severity."""
    every = [finding for each in found for finding in dict.fromkeys(each)]
    counts = [(word, sum(finding.severity == word for finding in every)) for word in ("error", "warning", "info")]
    names = {"info": "note"}
    texts = [f"{n} {names.get(word, word)}{'s' if n > 1 else ''}" for word, n in counts if n]
    return ", ".join(texts) or "none"


def fits(found: Iterable[Any]) -> Any:
    """Return the laws that were fitted: what each weighs and is."""
    from dash import html

    parts = []
    for fit in found:
        members = getattr(fit, "members", None)
        if members:
            rows = [(f"{member.weight:.0%}", member.fit.law) for member in members if member.weight >= LEAST_SHOWN]
            text = f"the average of {len(members)} laws, weighted by how well each foresaw the larger runs"
        else:
            rows = [("", fit.law)]
            text = f"{fit.status}; {fit.n_agree} of {fit.n_starts} starts agree; rank {fit.rank} of {fit.n_free}"
        body = [
            html.Tr([html.Td(share), html.Th(law.spec, scope="row"), html.Td(_first_line(law))]) for share, law in rows
        ]
        parts += [
            html.H3(f"{fit.on} loss"),
            html.P(text),
            _scrolling(html.Table(html.Tbody(body)), f"laws of the {fit.on} loss"),
        ]
    return parts


def law_line(name: str) -> str:
    """Return what a law is, in a line."""
    from cptlaw.laws import law

    if name == "auto":
        return "The average of all laws that the columns allow, weighted by how well each foresaw the larger runs."
    known = law(name)
    return f"{_first_line(known)} {known.equation}"


def _first_line(law: Any) -> str:
    return (type(law).__doc__ or "").strip().splitlines()[0]


def laws_for(runs: Runs) -> list[str]:
    """Return the laws on offer that a table can feed, auto first."""
    from cptlaw.laws import law

    frame = runs.frame
    fed = [
        name
        for name in planning_laws()
        if all(column in frame.columns and frame[column].notna().any() for column in law(name).inputs)
    ]
    return ["auto", *fed]


def compared(columns: Sequence[Mapping[str, str]]) -> Any:
    """Return pinned scenarios side by side."""
    from dash import html

    if not columns:
        return None
    head = [
        html.Th(
            [
                html.Span(str(number), className="pin"),
                html.Button(
                    "Show", id={"type": "take", "index": number - 1}, type="button", title=f"Show scenario {number}"
                ),
                html.Button(
                    "Let go",
                    id={"type": "unpin", "index": number - 1},
                    type="button",
                    title=f"Let scenario {number} go",
                ),
            ],
            scope="col",
        )
        for number in range(1, len(columns) + 1)
    ]
    body = [
        html.Tr([html.Th(label, scope="row"), *(html.Td(column[label]) for column in columns)])
        for label in columns[0]
        if any(column[label] != "-" for column in columns)
    ]
    inner = html.Table([html.Thead(html.Tr([html.Td(""), *head])), html.Tbody(body)])
    label = "pinned scenarios"
    return [html.H2("Pinned scenarios"), _scrolling(inner, label)]


def suggested(found: Any) -> Any:
    """Return suggested runs."""
    parts = [lines(found.lines)]
    parts += [table(each, f"suggested runs, gain in {found.unit}") for each in found.tables if found.cells]
    return [*parts, findings(advised(finding) for finding in found.findings)]


def lines(pairs: Iterable[tuple[str, str]]) -> Any:
    """Return pairs of label and text as a table."""
    from dash import html

    rows = [html.Tr([html.Th(label, scope="row"), html.Td(text)]) for label, text in pairs]
    return _scrolling(html.Table(html.Tbody(rows)), "details")


def _scrolling(inner: Any, label: str) -> Any:
    """Return a box that scrolls where what it holds is too wide, by keyboard too."""
    from dash import html

    return html.Div(inner, className="scroll", tabIndex=0, role="region", **{"aria-label": label})


def table(found: Table, label: str) -> Any:
    """Return a table of an answer, which scrolls where it is too wide."""
    from dash import html

    body = [html.Tr([html.Td(text) for text in row]) for row in found.rows]
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in found.columns]))
    inner = html.Table([html.Caption(label), head, html.Tbody(body)])
    return _scrolling(inner, label)


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
