"""An answer without fits as one HTML document: of studies, which rests on no runs, or of mixes of k corpora."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from string import Template

from cptlaw.findings import Finding, group
from cptlaw.reporting.figures.figure import Figure, asset
from cptlaw.reporting.page import policy
from cptlaw.reporting.still import drawing_to_svg
from cptlaw.result import Line, Result, Table


def plain_page(
    answer: Result,
    lines: Sequence[Line],
    doing: Sequence[str],
    tables: Sequence[Table],
    steps: Sequence[str],
    figure: Figure | None = None,
) -> str:
    """Return the document, laid out as the first screen of a report.

    Parameters
    ----------
    answer
        Its title is the question and its first line the answer; its findings are shown too.
    lines
        What else there is to say, line by line.
    doing
        What to do next, in words.
    tables
        What else it rests on.
    steps
        The commands that repeat it.
    figure
        A picture beside the answer, drawn without a script.
    """
    first, style = answer.lines[0][1], asset("page.css")
    page = Template(asset("plain.html"))
    return page.substitute(
        policy=policy([], [style]),  # no script at all; the only style is the page's own, known by its SHA-256
        style=style,
        question=html.escape(answer.title),
        no=" no" if getattr(answer, "feasible", True) is False else "",
        answer=html.escape(first[:1].upper() + first[1:]),
        lines=_lines_html(lines),
        doubts=_findings_html(answer.findings),
        figure="" if figure is None else _figure_html(figure),
        doing="".join(f"<li>{html.escape(text)}</li>" for text in doing),
        listed="".join(_table_html(table) for table in tables if table.rows),
        repeat="\n".join(map(html.escape, steps)),
    )


def _figure_html(figure: Figure) -> str:
    caption = html.escape(figure.caption)
    return f"<figure>{drawing_to_svg(figure.drawing, figure.title)}<figcaption>{caption}</figcaption></figure>\n"


def _lines_html(lines: Iterable[Line]) -> str:
    rows = (
        f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(text)}</td></tr>\n' for label, text in lines
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>\n"


def _findings_html(findings: Iterable[Finding]) -> str:
    """Return the findings for a reader who runs nothing, all of them: nothing else on the page has the others."""
    items = []
    for finding, count in group(findings):
        advice = f' <span class="advice">{html.escape(finding.advice)}</span>' if finding.advice else ""
        like = f' <span class="more">+{count - 1} like it</span>' if count > 1 else ""
        items.append(f'<li class="{finding.severity}">{html.escape(finding.message)}{advice}{like}</li>\n')
    return f'<ul class="findings">{"".join(items)}</ul>\n' if items else "<p>Nothing stands out.</p>\n"


def _table_html(table: Table) -> str:
    """Return a table under its caption as a heading; a wide one is scrolled in its own box."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in table.rows)
    caption = html.escape(table.caption or "More")
    return (
        f'<section><h2>{caption}</h2>\n<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></section>\n"
    )
