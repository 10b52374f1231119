"""A report as an answer: what was asked and found, what it costs, what is doubtful, what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.findings import MOST_SHOWN, Finding, group
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan, Suggestion
from cptlaw.reporting.figures import Figure
from cptlaw.result import Line, Result, Table
from cptlaw.runs import Runs
from cptlaw.runs.metrics import unit_of
from cptlaw.version import versions

PACKAGES = ("numpy", "scipy", "pandas", "plotly")  # what computed and drew; without Plotly there are no figures
TO_DO = ("extrapolation", "unseen-input")  # doubts whose advice is a run


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
    doubts
        Findings about data, fits, forecasts and plan, the worst first.
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
    """

    heading: str
    question: str
    answer: str
    cost: str
    chances: tuple[Line, ...]
    plan: MixPlan | None
    suggestion: Suggestion | None
    forecasts: pd.DataFrame
    doubts: tuple[Finding, ...]
    figures: tuple[Figure, ...]
    fits: tuple[Fit, ...]
    runs: Runs
    commands: tuple[str, ...]
    interval: float
    versions: Mapping[str, str] = field(default_factory=lambda: versions(PACKAGES))
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    to_train: str | None = None

    @property
    def title(self) -> str:
        """What was asked."""
        return self.question

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is doubtful, the worst first."""
        return self.doubts

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
        steps += [finding.advice for finding, _ in group(self.doubts) if finding.code in TO_DO]
        steps.append("Seal this forecast before the run is trained, and score it after.")
        if self.plan is not None and self.plan.feasible and self.plan.risk is None:
            steps.insert(0, "Ask for limits that hold with a probability, such as 80%, before you spend the compute.")
        return tuple(dict.fromkeys(steps))[:MOST_SHOWN]

    def to_html(self) -> str:
        """Return the page: one self-contained HTML document that asks no other machine for anything."""
        from cptlaw.reporting.page import page

        return page(self)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the page, in one step or not at all; `force` writes over a file that is no report."""
        from cptlaw.writing import REPORT, write_text

        return write_text(path, self.to_html(), REPORT, force=force)

    def save_figures(self, folder: str | Path, ending: str = "png", force: bool = False) -> list[Path]:
        """Write each figure as an image: ``"png"``, ``"pdf"`` or ``"svg"``."""
        from cptlaw.reporting.images import write_images

        return write_images(self.figures, folder, ending, force=force)

    def to_dict(self) -> dict[str, Any]:
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
            "findings": [finding.to_dict() for finding in self.doubts],
            "figures": [figure.name for figure in self.figures],
            "fingerprint": self.runs.fingerprint,
            "versions": dict(self.versions),
            "commands": list(self.commands),
        }
