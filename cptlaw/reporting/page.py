"""A report as one HTML document that needs nothing but itself: styles, drawings and plotly.js are inside.

A template (assets/report.html.j2) escapes all that comes from the user. The page's policy names its own scripts and
styles by their SHA-256, so that the browser runs nothing else, wherever it may have slipped in.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import MOST_SHOWN, Finding, group
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.points import score_table
from cptlaw.result import Result, Table
from cptlaw.runs.metrics import unit_of
from cptlaw.uncertainty.answers import interval_words
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import csv_text, file_name

if TYPE_CHECKING:
    from cptlaw.reporting.answer import Report

MOST_CSV = 100_000  # bytes of a figure's data that the page carries as a download
_OPTION = re.compile(r" (?:\w+= )?\(--[^)]*\)")  # as in "name a law (--law)"
_DANGLING = re.compile(r"\b(?:give|say|name|with|and|or|to|of|by|another)[.,:]", re.IGNORECASE)
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
        If Plotly or Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise UsageError("a report needs Jinja2. Install it with: pip install 'cptlaw[report]'") from None
    loader = PackageLoader("cptlaw.reporting", "assets")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    scripts, style = [_plotlyjs(), asset("page.js")], asset("page.css")
    return environment.get_template("report.html.j2").render(
        report=report,
        policy=policy(scripts, [style, ""]),  # Plotly makes an empty style and fills it by script
        scripts=[Markup(script) for script in scripts],
        style=Markup(style),
        doubts=[(without_flags(finding), count) for finding, count in group(report.doubts)],
        most=MOST_SHOWN,
        forecasts=forecast_table(report),
        scores=score_table(report.scores, report.interval),
        origin=origin_table(report),
        drawings=[_drawing(figure, place, Markup) for place, figure in enumerate(report.figures)],
        findings=findings_table(report.doubts),
        answers=[fit for fit in report.fits if isinstance(fit, Result)],
        glossary=[(name, text.format(unit=unit_of(*report.fits))) for name, text in GLOSSARY],
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def without_flags(finding: Finding) -> Finding:
    """Return a finding for a reader who runs nothing: options of commands stand in the appendix alone."""
    parts = re.split(r"(?<=\.)\s+", finding.advice)
    told = ((part, _OPTION.sub("", part)) for part in parts)
    # A sentence whose object was an option has lost its point with it.
    kept = [left for part, left in told if "--" not in left and not (left != part and _DANGLING.search(left))]
    return replace(finding, message=_OPTION.sub("", finding.message), advice=" ".join(kept))


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a content-security policy that allows these scripts and styles, and nothing from anywhere else."""
    allowed = {
        "script-src": " ".join(map(_digest, scripts)),
        "style-src": " ".join(map(_digest, styles)),
        "img-src": "data: blob:",
        "font-src": "data:",
    }
    return "; ".join(["default-src 'none'", *(f"{name} {value}" for name, value in allowed.items() if value)])


def asset(name: str) -> str:
    """Return a file that comes with this package."""
    return (resources.files("cptlaw.reporting") / "assets" / name).read_text(encoding="utf-8")


def forecast_table(report: Report) -> Table:
    """Return the forecasts at the mix that matters, one row per eval."""
    frame = report.forecasts
    shown = pd.DataFrame({"eval": frame["on"].astype(str), "law": frame["law"].astype(str)})
    for name in frame.columns.drop(["on", "law", "loss", "lo", "hi", "findings"], errors="ignore"):
        show = format_percent if name == "replay" else format_quantity
        shown[name] = [show(float(value)) if isinstance(value, int | float) else str(value) for value in frame[name]]
    for name, label in (("loss", f"loss ({unit_of(*report.fits)})"), ("lo", "lower end"), ("hi", "upper end")):
        shown[label] = ["not bounded" if pd.isna(value) else f"{value:.4f}" for value in frame[name]]
    covered = interval_words(report.interval)
    return Table.of(shown, caption=f"Forecasts at the mix that matters; lower to upper end: {covered}")


def origin_table(report: Report) -> Table:
    """Return data and versions."""
    runs = report.runs
    lines = [
        ("runs table", f"{runs.label.rsplit('/', 1)[-1]}: {len(runs)} rows, {runs.frame['run'].nunique()} runs"),
        ("fingerprint (SHA-256)", runs.fingerprint),
    ]
    for fit in report.fits:
        where = fit.provenance.get("where") or "all rows"
        lines.append((f"fitted on {fit.on}", f"{fit.n_points} points of {fit.n_runs} runs: {where}"))
    lines.append(("versions", ", ".join(f"{name} {version}" for name, version in report.versions.items())))
    return Table(("what", "value"), tuple(lines), "Data and versions")


def findings_table(findings: Iterable[Finding]) -> Table:
    """Return all findings with their codes, for the appendix."""
    rows = tuple((item.severity, item.code, item.message, item.advice) for item, _ in group(findings, by_code=False))
    return Table(("severity", "code", "what was found", "what to do"), rows, "All findings")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _plotlyjs() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UsageError("a report needs Plotly. Install it with: pip install 'cptlaw[report]'") from None
    return str(get_plotlyjs())


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
