"""An answer that has no figures, as one HTML document: the answer of studies, which rests on no runs of one's own."""

from __future__ import annotations

import html
from collections.abc import Sequence

from cptlaw.reporting.page import asset, policy
from cptlaw.result import LEFT, Line, Result, Table, as_html


def plain_page(answer: Result, steps: Sequence[str], tables: Sequence[Table]) -> str:
    """Return the document."""
    following: list[Line] = [("next", step) for step in steps]
    title, style = html.escape(answer.title), asset("page.css")
    body = as_html("The answer", [*answer.lines, *following], [*answer.tables, *tables])
    doubts = as_html("What is doubtful", findings=answer.findings)
    # The page's style puts text at the left; its policy would refuse the attributes that do so in a notebook.
    main = (body + doubts).replace(LEFT, "")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="cptlaw">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # No script at all; the only style is the page's own, known by its SHA-256.
        f'<meta http-equiv="Content-Security-Policy" content="{policy([], [style])}">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<header><h1>{title}</h1></header>\n<main>{main}</main>\n</body>\n</html>\n"
    )
