"""A report as one HTML document that needs nothing but itself: styles, drawings and plotly.js are inside.

A template (assets/report.html.j2) escapes all that comes from the user. The page's policy names its own scripts and
styles by their SHA-256, so that the browser runs nothing else, wherever it may have slipped in.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING, Any

from cptlaw.errors import UsageError
from cptlaw.findings import MOST_SHOWN, Finding, group
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.points import score_table
from cptlaw.result import Line, Result, Table
from cptlaw.runs.metrics import unit_of
from cptlaw.writing import csv_text, file_name

if TYPE_CHECKING:
    from cptlaw.reporting.answer import Report

MOST_CSV = 100_000  # bytes of a figure's data that the page carries as a download
# Labels of a plan's lines that the answer, the limits or the cost have said.
IN_ANSWER = {
    "answer",
    "binding",
    "replay",
    "peak rate",
    "tokens",
    "flops",
    "target loss",
    "source loss",
    "forgetting",
    "risk",
}
GLOSSARY = (
    ("CPT", "continual pre-training: training a base model on, on a mix of new and old text"),
    ("source, target", "what the base model already knew, and the new domain; a loss is measured on each"),
    ("loss", "validation cross-entropy, in {unit}"),
    ("replay", "share of the mix drawn from the source corpus"),
    ("forgetting", "by how much the source loss has risen over that of the base model, as a share of it"),
    ("PTPP", "pre-training tokens per parameter of the base model"),
    ("ATPP", "adaptation tokens per parameter: tokens of CPT, replay included, over parameters"),
    ("interval", "range that holds a measured loss with the probability given, as far as law and noise are as fitted"),
    ("held out", "measured, and not used for the fit: what a forecast is judged on"),
    ("law", "formula of the loss in size, tokens, replay and budget; its parameters are fitted to runs"),
    ("FLOP, utilisation", "floating-point operation, 6 x parameters x tokens in all; share of a device's peak reached"),
)


def page(report: Report) -> str:
    """Return the document.

    Raises
    ------
    UsageError
        If Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise UsageError("a report needs Jinja2. Install it with: pip install 'cptlaw[report]'") from None
    loader = PackageLoader("cptlaw.reporting", "assets")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    scripts, style = [asset("plotly-cartesian.min.js"), asset("page.js")], asset("page.css")
    shown = group(report.doubts)[:MOST_SHOWN]
    rest = [finding for finding in report.doubts if finding not in [values for values, _ in shown]]
    drawings = [_drawing(figure, place, Markup) for place, figure in enumerate(report.figures)]
    return environment.get_template(
        "report.html.j2"
    ).render(
        report=report,
        policy=policy(scripts, [style, ""]),  # Plotly makes an empty style and fills it by script
        expected=_expected(report),
        scripts=[Markup(script) for script in scripts],
        style=Markup(style),
        doubts=shown,
        scores=score_table(report.scores, report.interval),
        origin=origin_table(report),
        lead=drawings[:1],
        drawings=drawings[1:],
        findings=findings_table(rest),
        answers=[fit for fit in report.fits if isinstance(fit, Result)],
        glossary=[(name, text.format(unit=unit_of(*report.fits))) for name, text in GLOSSARY],
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a content-security policy that allows these scripts and styles, and nothing from anywhere else."""
    allowed = {
        "script-src": " ".join(map(_digest, scripts)),
        # Drawing sets style attributes too, empty ones in fact: only those with a digest named here pass.
        "style-src": " ".join(["'unsafe-hashes'", *map(_digest, styles)]),
        "img-src": "data: blob:",
        "font-src": "data:",
    }
    return "; ".join(["default-src 'none'", *(f"{name} {value}" for name, value in allowed.items() if value)])


def asset(name: str) -> str:
    """Return a file that comes with this package."""
    return (resources.files("cptlaw.reporting") / "assets" / name).read_text(encoding="utf-8")


def _expected(report: Report) -> list[Line]:
    """Return what to expect and what it costs, but for what the answer itself says."""
    planned = [] if report.plan is None else report.plan.lines
    return report.lines[1:] + [(label, text) for label, text in planned if label not in IN_ANSWER]


def origin_table(report: Report) -> Table:
    """Return data and versions."""
    runs = report.runs
    lines = [
        ("runs table", runs.label.rsplit("/", 1)[-1]),
        ("fingerprint (SHA-256)", runs.fingerprint),
    ]
    for fit in report.fits:
        where = fit.provenance.get("where") or "all rows"
        lines.append((f"fitted on {fit.on}", f"{fit.n_points} points of {fit.n_runs} runs: {where}"))
    lines.append(("versions", ", ".join(f"{name} {version}" for name, version in report.versions.items())))
    return Table(("what", "value"), tuple(lines), "Data and versions")


def findings_table(findings: Iterable[Finding]) -> Table:
    """Return findings with their codes, for the appendix."""
    rows = tuple((item.severity, item.code, item.message, item.advice) for item, _ in group(findings, by_code=False))
    return Table(("severity", "code", "finding", "what to do"), rows, "Other findings")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _drawing(figure: Figure, place: int, markup: Any) -> dict[str, Any]:
    """Return what the template shows of a figure."""
    # An end tag inside a string would end the script.
    text = figure.to_json().replace("<", "\\u003c")
    content = csv_text(figure.data, float_format="%.8g").encode()
    small = len(content) <= MOST_CSV
    return {
        "name": file_name(figure.name),
        "id": f"figure-{place}",
        "title": figure.title,
        "caption": figure.caption,
        "height": figure.height,
        "json": markup(text),
        "csv": f"data:text/csv;base64,{base64.b64encode(content).decode()}" if small else "",
    }
