"""A report as one HTML document that needs nothing but itself: styles, drawings and plotly.js are inside."""

from __future__ import annotations

import base64
import datetime
import html
import re
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.reporting.figures import Figure
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import csv_text

if TYPE_CHECKING:
    from cptlaw.reporting.make_report import Report

MOST_CSV = 100_000  # bytes of a figure's data that the page carries as a download
# Nothing is loaded from anywhere: the browser is told to refuse it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)


def page(report: Report) -> str:
    """Return the document.

    Raises
    ------
    UsageError
        If Plotly is not installed.
    """
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="cptlaw {html.escape(report.versions["cptlaw"])}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{html.escape(report.title)}</title>
<style>{asset("page.css")}</style>
</head>
<body>
<header>
<h1>{html.escape(report.title)}</h1>
{_head(report)}
</header>
<main>
{_plan(report)}
<section><h2>Forecast at the mix that matters</h2>
{_table(_forecasts(report.forecasts), "Forecasts with their intervals")}
</section>
{_suggestion(report)}
<section><h2>Doubts</h2>
{_findings(report.doubts)}
</section>
<section><h2>Figures</h2>
{"".join(_figure(figure) for figure in report.figures)}
</section>
<section><h2>Fits</h2>
{"".join(f"<h3>{html.escape(fit.on)}</h3><div class='scroll'>{fit._repr_html_()}</div>" for fit in report.fits)}
</section>
<section><h2>Data and how to repeat this</h2>
{_table(_origin(report), "Data and versions", header=False)}
<p>With the table and these commands the report comes out again:</p>
<pre tabindex="0" aria-label="commands"><code>{html.escape(chr(10).join(report.commands))}</code></pre>
</section>
</main>
<footer>Made {made} by cptlaw {html.escape(report.versions["cptlaw"])}. Nothing here comes from the network.</footer>
<script>{_plotlyjs()}</script>
<script>{asset("page.js")}</script>
</body>
</html>
"""


def summary(report: Report) -> str:
    """Return title, answer and plan for a notebook."""
    return f"<h3>{html.escape(report.title)}</h3>{_head(report)}{_plan(report)}"


def asset(name: str) -> str:
    """Return a file that comes with this package."""
    return (resources.files("cptlaw.reporting") / "assets" / name).read_text(encoding="utf-8")


def _plotlyjs() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UsageError("a report needs Plotly. Install it with: pip install 'cptlaw[report]'") from None
    return str(get_plotlyjs())


def _head(report: Report) -> str:
    no = " no" if report.plan is not None and not report.plan.feasible else ""
    return (
        f'<p class="question">{html.escape(report.question)}</p><p class="answer{no}">{html.escape(report.answer)}</p>'
    )


def _plan(report: Report) -> str:
    if report.plan is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(text)}</td></tr>'
        for label, text in report.plan.lines
    )
    title = html.escape(report.plan.title)
    return f'<section><h2>Plan</h2><p>{title}</p><div class="scroll"><table>{rows}</table></div></section>'


def _suggestion(report: Report) -> str:
    if report.suggestion is None:
        return ""
    title = html.escape(report.suggestion.title)
    cells = report.suggestion.tables[0]
    table = _table(pd.DataFrame(cells.rows, columns=list(cells.columns)), "Suggested runs")
    return f"<section><h2>The next experiments</h2><p>{title}</p>{table}</section>"


def _forecasts(frame: pd.DataFrame) -> pd.DataFrame:
    shown = pd.DataFrame({"eval": frame["on"], "law": frame["law"]})
    for name in frame.columns.drop(["on", "law", "loss", "lo", "hi", "findings"], errors="ignore"):
        show = format_percent if name == "replay" else format_quantity
        shown[name] = [show(float(value)) if isinstance(value, int | float) else str(value) for value in frame[name]]
    for name, label in (("loss", "loss (nats per token)"), ("lo", "lower end"), ("hi", "upper end")):
        shown[label] = ["not bounded" if pd.isna(value) else f"{value:.4f}" for value in frame[name]]
    return shown


def _origin(report: Report) -> pd.DataFrame:
    runs = report.runs
    lines = [
        ("runs table", f"{runs.label.rsplit('/', 1)[-1]}: {len(runs)} rows, {runs.frame['run'].nunique()} runs"),
        ("fingerprint (SHA-256)", runs.fingerprint),
    ]
    for fit in report.fits:
        where = fit.provenance.get("where") or "all rows"
        lines.append((f"fitted on {fit.on}", f"{fit.n_points} points of {fit.n_runs} runs: {where}"))
    lines.append(("versions", ", ".join(f"{name} {version}" for name, version in report.versions.items())))
    return pd.DataFrame(lines)


def _table(frame: pd.DataFrame, label: str, header: bool = True) -> str:
    head = ""
    if header:
        head = "<tr>" + "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in frame.columns) + "</tr>"
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{html.escape(str(value))}</th>' if i == 0 else f"<td>{html.escape(str(value))}</td>"
            for i, value in enumerate(row)
        )
        + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{head}{body}</table></div>'


def _findings(findings: Iterable[Finding]) -> str:
    items = "".join(
        f'<li class="{finding.severity}"><span class="severity">{finding.severity}</span> '
        f"[{html.escape(finding.code)}] {html.escape(finding.message)}"
        + (f'<br><span class="advice">{html.escape(finding.advice)}</span>' if finding.advice else "")
        + "</li>"
        for finding in findings
    )
    return f'<ul class="findings">{items}</ul>' if items else "<p>None were found.</p>"


def _figure(figure: Figure) -> str:
    # An end tag inside a string would end the script.
    drawing = re.sub(r"<(?=[/!])", r"\\u003c", figure.to_json())
    return (
        f'<figure id="{figure.name}"><h3>{html.escape(figure.title)}</h3>'
        f'<div class="drawing" data-figure="data-{figure.name}" style="height:{figure.height}px" role="group" '
        f'aria-label="{html.escape(figure.title)}: {html.escape(figure.caption)}"></div>'
        f"<figcaption>{html.escape(figure.caption)} {_download(figure)}</figcaption>"
        f'<script type="application/json" id="data-{figure.name}">{drawing}</script></figure>'
    )


def _download(figure: Figure) -> str:
    content = csv_text(figure.data, float_format="%.8g").encode()
    if len(content) > MOST_CSV:
        return ""
    link = f"data:text/csv;base64,{base64.b64encode(content).decode()}"
    return f'<a class="download" download="{figure.name}.csv" href="{link}">Data of this figure</a>'
