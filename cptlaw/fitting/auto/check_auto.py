"""Look at runs before law auto is fitted: which laws the columns allow, what the rows determine, what is odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from cptlaw.errors import CptlawError, FitError, UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.auto.candidates import candidates
from cptlaw.fitting.auto.curve_tables import as_curves
from cptlaw.fitting.auto.fit_auto import INPUTS, design_findings, reasons_in_words, refuse_untrained
from cptlaw.fitting.auto.other_corpora import by_corpus
from cptlaw.fitting.auto.rows import choose_rows, main_kind, with_source_rows
from cptlaw.fitting.checking.design import check_rows
from cptlaw.fitting.checking.extrapolation import extrapolations
from cptlaw.fitting.rollouts import directions, rollouts
from cptlaw.fitting.solving import identifiability as identify
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.laws.parameters import short_specs
from cptlaw.result import Line, Result, Table
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike
from cptlaw.units import input_text

# Findings about the rows themselves, whichever law is fitted. What one law cannot determine is held by its priors here.
OF_THE_ROWS = ("suspected-units", "suspected-mix-up", "confounded", "few-at-small-replay")


@dataclass(frozen=True)
class Readable:
    """A law that the columns allow.

    Attributes
    ----------
    law
        With its options.
    n_free, rank
        Its free parameters, and how many of them the rows determine at best; priors hold the rest.
    """

    law: str
    n_free: int
    rank: int


@dataclass(frozen=True, repr=False, eq=False)
class AutoCheck(Result):
    """What law auto would find in the runs.

    Attributes
    ----------
    on
        The eval.
    n_points, n_runs
        Size of the data that a fit would use.
    laws
        The laws that the columns allow.
    along
        Inputs along which part of the rows can forecast the rest: by these rollouts the laws are weighed.
    levels
        One row per input: number of levels, min, max.
    findings
        The worst first.
    """

    on: str
    n_points: int
    n_runs: int
    laws: tuple[Readable, ...]
    along: tuple[str, ...]
    levels: pd.DataFrame
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "law": "auto",
            "on": self.on,
            "n_points": self.n_points,
            "n_runs": self.n_runs,
            "laws": [asdict(one) for one in self.laws],
            "along": list(self.along),
            "levels": self.levels.to_dict("index"),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @property
    def title(self) -> str:
        """What law auto would find, in one line."""
        count = f"{self.n_points} points of {self.n_runs} runs allow {len(self.laws)} law"
        return f"auto on {self.on}: {count}{'' if len(self.laws) == 1 else 's'}"

    @property
    def lines(self) -> list[Line]:
        """By what several laws would be weighed."""
        if len(self.laws) < 2:
            return []
        how = f"rollouts along {', '.join(self.along)}" if self.along else "what is usual: no rollout can be fitted"
        return [("weights", f"by {how}")]

    @property
    def details(self) -> list[Line]:
        """The laws with every option that the table gives them."""
        return [("law", one.law) for one in self.laws]

    @property
    def tables(self) -> list[Table]:
        """The levels of the inputs, and the laws."""
        names = short_specs([one.law for one in self.laws])
        laws = tuple((name, str(one.n_free), str(one.rank)) for name, one in zip(names, self.laws, strict=True))
        note = "determined: at best, by these rows alone; the rest is held near what other studies say"
        return [levels_table(self.levels), Table(("law", "parameters", "determined"), laws, note=note)]


def levels_table(levels: pd.DataFrame) -> Table:
    """Return how many levels each input has, and from where to where they go."""
    rows = tuple(
        (str(name), str(row["levels"]), *(input_text(str(name), row[end]) for end in ("min", "max")))
        for name, row in levels.to_dict("index").items()
    )
    return Table(("input", "levels", "min", "max"), rows)


def check_auto(
    table: Runs,
    on: str,
    where: str | None,
    schedules: SchedulesLike | None,
    points: pd.DataFrame,
) -> AutoCheck:
    """Check runs for law auto without fitting it, and how far points lie outside them; as `cptlaw.check`.

    Raises
    ------
    FitError
        If the columns allow no law; the reasons of all are given.
    """
    table, notes = main_kind(table, where)
    table, _ = by_corpus(table, on, where)
    rows = choose_rows(table, on, where, schedules is not None)
    rows = as_curves(rows, schedules) or rows
    refuse_untrained(table, rows, where)
    frame = rows.frame
    name = str(frame["eval"].iloc[0])
    paired = with_source_rows(table, rows, where, schedules is not None)
    adapted = frame[frame["tokens"] > 0] if "tokens" in frame.columns else frame
    laws: list[Readable] = []
    noticed: dict[Finding, None] = {}
    skipped: dict[str, str] = {}
    for candidate in candidates(rows, table.role(name), schedules is not None):
        try:
            needed = schedules if candidate.law.needs_schedules else None
            training = training_rows(candidate.law, paired, name, None, needed)
            chosen, read = training.law, training.frame
            loss = read["loss"].to_numpy(dtype=float)
            problem = Problem(chosen, chosen.bind(read, training.role), loss, Restraint(tied=candidate.tied))
            laws.append(Readable(chosen.spec, problem.size, identify.best_rank(problem)))
            if not laws[1:]:  # the first law, which is preferred
                noticed |= dict.fromkeys(far for notes in extrapolations(chosen, read, points) for far in notes)
            noticed |= dict.fromkeys(one for one in check_rows(chosen, read, problem) if one.code in OF_THE_ROWS)
        except (CptlawError, ValueError) as error:
            skipped[candidate.law.spec] = str(error)
    if not laws:
        raise FitError(f"no law can be fitted to the {len(frame)} rows of {name!r}: {reasons_in_words(skipped)}")
    # The same cuts that a fit would be weighed by: what stands in the check holds for the fit.
    folds = rollouts(frame, directions(adapted)) if len(laws) > 1 else []
    inputs = adapted[[one for one in INPUTS if one in adapted.columns and adapted[one].notna().any()]].astype(float)
    # Several laws notice the same in other words: the first one's count.
    first = {(one.code, one.message if one.code == "extrapolation" else ""): one for one in reversed(noticed)}
    return AutoCheck(
        on=name,
        n_points=len(adapted),
        n_runs=int(adapted["run"].nunique()),
        laws=tuple(laws),
        along=tuple(dict.fromkeys(fold.direction for fold in folds)),
        levels=pd.DataFrame({"levels": inputs.nunique(), "min": inputs.min(), "max": inputs.max()}),
        findings=by_severity([*notes, *rows.findings, *design_findings(rows, adapted), *first.values()]),
    )


def refuse_restraint(restraint: Mapping[str, object], why: str = "law auto fits several") -> None:
    """Refuse what is about one law."""
    for name, value in restraint.items():
        if value:
            raise UsageError(f"{name} (--{name}) is about one law of losses; {why}. Name a law (--law).")
