"""An answer that has no figures, as one HTML document: the answer of studies, which rests on no runs of one's own."""

from __future__ import annotations

import html

import pandas as pd

from cptlaw.answering.answered import Answer
from cptlaw.reporting.page import asset, policy
from cptlaw.result import LEFT, Line, Table, as_html
from cptlaw.units import format_percent, format_quantity


def plain_page(answer: Answer) -> str:
    """Return the document: question, answer, the pilots to run next and the studies that it rests on."""
    steps: list[Line] = [("next", step) for step in answer.steps]
    title, style = html.escape(answer.title), asset("page.css")
    body = as_html("The answer", [*answer.lines, *steps], [*answer.tables, _pilots(answer), _studies(answer)])
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


def _pilots(answer: Answer) -> Table:
    formats = {"replay": format_percent} | dict.fromkeys(("n_params", "ptpp", "tokens", "flops"), format_quantity)
    return Table.of(pd.DataFrame(answer.next_runs), formats, caption="Pilots that would narrow it most per FLOP")


def _studies(answer: Answer) -> Table:
    listed = pd.DataFrame(answer.evidence)[["outcome", "study", "shift", "source"]]
    return Table.of(listed, caption="Studies that it rests on")
