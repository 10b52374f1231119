"""A report: what was asked and found, what it costs, what is doubtful, what to do next, on one page to send.

The page is one HTML document that needs nothing but itself: styles, drawings and plotly.js are inside. A template
(assets/report.html.j2) escapes all that comes from the user. The page's policy names its own scripts and styles by
their SHA-256, so that the browser runs nothing else, wherever it may have slipped in.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from cptlaw.errors import needed_for
from cptlaw.findings import MOST_SHOWN, Finding, group
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan, Suggestion
from cptlaw.planning.plan_fields import PLAN_FIELDS
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.figure import asset
from cptlaw.reporting.images import write_images
from cptlaw.reporting.points import score_table
from cptlaw.reporting.still import drawing_to_svg
from cptlaw.result import Line, Result, Table
from cptlaw.runs import Runs
from cptlaw.runs.metrics import unit_of
from cptlaw.version import versions
from cptlaw.writing import REPORT, csv_text, file_name, file_names, write_text

PACKAGES = ("numpy", "scipy", "pandas", "plotly")  # what computed and drew; without Plotly there are no figures
TO_DO = ("extrapolation", "unseen-input")  # doubts whose advice is a run
MOST_CSV = 100_000  # bytes of a figure's data that the page carries as a download
# Labels of a plan's lines that the answer, the limits or the cost have said.
SAID = ("replay", "lr_peak", "tokens", "flops", "target_loss", "source_loss", "forgetting")
IN_ANSWER = {"answer", "binding", "risk", *(PLAN_FIELDS[name].label for name in SAID)}


@dataclass(frozen=True, repr=False)
class Report(Result):
    """A report, ready to be written as a page.

    Attributes
    ----------
    heading, question, answer
        What it is about, what was asked, and the answer in one sentence.
    cost
        FLOPs, and hours of GPUs, in words.
    chances
        For each limit, how likely it holds, in words.
    plan
        The plan, where limits were given.
    suggestion
        The runs to make next, where they were asked for.
    forecasts
        Losses with their intervals at the mix that matters: one row per eval.
    findings
        What is doubtful about data, fits, forecasts and plan, the worst first.
    figures
        What there is to see.
    fits
        The fits that it rests on, the target first.
    runs
        The runs table.
    commands
        The commands that repeat it.
    interval
        Coverage of all intervals.
    versions
        Package -> version.
    scores
        Scores at the mix that matters, see `expected_scores`; empty where there are none.
    to_train
        The runs worth buying next in words, where the page is that of an answer, which chose them; none where no run
        is worth its cost.
    instead
        What else could be trained, where the page is that of an answer.
    """

    heading: str
    question: str
    answer: str
    cost: str
    chances: tuple[Line, ...]
    plan: MixPlan | None
    suggestion: Suggestion | None
    forecasts: pd.DataFrame
    findings: tuple[Finding, ...]
    figures: tuple[Figure, ...]
    fits: tuple[Fit, ...]
    runs: Runs
    commands: tuple[str, ...]
    interval: float
    versions: Mapping[str, str] = field(default_factory=lambda: versions(PACKAGES))
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    to_train: str | None = None
    instead: tuple[Table, ...] = ()

    @property
    def title(self) -> str:
        """What was asked."""
        return self.question

    @property
    def lines(self) -> list[Line]:
        """The answer, how likely it holds, and its cost."""
        return [("answer", self.answer), *self.chances, *([("cost", self.cost)] if self.cost else [])]

    @property
    def tables(self) -> list[Table]:
        """The runs to make next, where they were asked for."""
        return [] if self.suggestion is None else self.suggestion.tables

    @property
    def feasible(self) -> bool:
        """Whether there is a plan, where one was asked for."""
        return self.plan is None or self.plan.feasible

    @property
    def next_steps(self) -> tuple[str, ...]:
        """What to do next, in words: the runs that were suggested, and the advice on the worst doubts."""
        steps = []
        if self.to_train:
            steps.append(f"Train next, as what narrows the answer most for its compute: {self.to_train}.")
        if self.suggestion is not None and self.suggestion.cells:
            low, high = self.suggestion.interval_after
            ends = "" if low is None or high is None else f" to {low:.4g} to {high:.4g} {unit_of(self.fits[0])}"
            steps.append(f"Train the {len(self.suggestion.cells)} suggested runs: they narrow the interval{ends}.")
        elif self.suggestion is None and self.to_train is None:
            steps.append("Ask which small runs would narrow this forecast most for their compute.")
        steps += [finding.advice for finding, _ in group(self.findings) if finding.code in TO_DO]
        steps.append("Seal this forecast before the run is trained, and score it after.")
        if self.plan is not None and self.plan.feasible and self.plan.risk is None:
            steps.insert(0, "Ask for limits that hold with a probability, such as 80%, before you spend the compute.")
        return tuple(dict.fromkeys(steps))[:MOST_SHOWN]

    def to_html(self) -> str:
        """Return the page: one self-contained HTML document that asks no other machine for anything.

        Raises
        ------
        UsageError
            If Jinja2 is not installed.
        """
        with needed_for("a report", "cptlaw[report]"):
            from jinja2 import Environment, PackageLoader, StrictUndefined
            from markupsafe import Markup
        loader = PackageLoader("cptlaw.reporting", "assets")
        environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        scripts, style = [asset("plotly-cartesian.min.js"), asset("page.js")], asset("page.css")
        doubts = group(self.findings)[:MOST_SHOWN]
        rest = [finding for finding in self.findings if finding not in [values for values, _ in doubts]]
        drawings = [_template_entry(figure, place, Markup) for place, figure in enumerate(self.figures)]
        planned = [] if self.plan is None else self.plan.lines
        return environment.get_template(
            "report.html.j2"
        ).render(
            report=self,
            policy=policy(scripts, [style, ""]),  # Plotly makes an empty style and fills it by script
            # What to expect and what it costs, but for what the answer itself says.
            expected=self.lines[1:] + [(label, text) for label, text in planned if label not in IN_ANSWER],
            scripts=[Markup(script) for script in scripts],
            style=Markup(style),
            doubts=doubts,
            scores=score_table(self.scores, self.interval),
            lead=drawings[:1],
            drawings=drawings[1:],
            findings=findings_table(rest),
            answers=[fit for fit in self.fits if isinstance(fit, Result)],
            unit=unit_of(*self.fits),
            made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the page, in one step or not at all; `force` writes over a file that is no report."""
        return write_text(path, self.to_html(), REPORT, force=force)

    def save_figures(self, folder: str | Path, ending: str = "png", force: bool = False) -> list[Path]:
        """Write each figure as an image: ``"png"``, ``"pdf"`` or ``"svg"``."""
        # Figures are named after evals, and those may be called anything.
        names = file_names(figure.name for figure in self.figures)
        drawings = {f"{name}.{ending}": one.drawing for name, one in zip(names, self.figures, strict=True)}
        return write_images(drawings, folder, ending, force=force)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "title": self.heading,
            "question": self.question,
            "answer": self.answer,
            "cost": self.cost,
            "chances": dict(self.chances),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "suggestion": None if self.suggestion is None else self.suggestion.to_dict(),
            "points": self.forecasts.drop(columns="findings").to_dict("records"),
            "scores": self.scores.to_dict("records"),
            "findings": [finding.to_dict() for finding in self.findings],
            "figures": [figure.name for figure in self.figures],
            "fingerprint": self.runs.fingerprint,
            "versions": dict(self.versions),
            "commands": list(self.commands),
        }


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a content-security policy that allows these scripts and styles, and nothing from anywhere else."""
    allowed = {
        "script-src": " ".join(map(_policy_digest, scripts)),
        # Drawing sets style attributes too, empty ones in fact: only those with a digest named here pass.
        "style-src": " ".join(["'unsafe-hashes'", *map(_policy_digest, styles)]),
        "img-src": "data: blob:",
        "font-src": "data:",
    }
    return "; ".join(["default-src 'none'", *(f"{name} {value}" for name, value in allowed.items() if value)])


def findings_table(findings: Iterable[Finding]) -> Table:
    """Return findings with their codes, for the appendix."""
    rows = tuple((item.severity, item.code, item.message, item.advice) for item, _ in group(findings, by_code=False))
    return Table(("severity", "code", "finding", "what to do"), rows, "Other findings")


def _policy_digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _template_entry(figure: Figure, place: int, markup: Callable[[str], str]) -> dict[str, object]:
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
        "still": markup(drawing_to_svg(figure.drawing, f"{figure.title}: {figure.caption}")),
        "csv": f"data:text/csv;base64,{base64.b64encode(content).decode()}" if small else "",
    }
