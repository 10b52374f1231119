"""Look at runs before a law is fitted to them: levels, what the design can identify, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

import pandas as pd

from cptlaw.errors import refuse_others
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.auto.check_auto import AutoCheck, check_auto, levels_table, refuse_restraint
from cptlaw.fitting.checking.design import check_rows
from cptlaw.fitting.checking.extrapolation import extrapolations
from cptlaw.fitting.solving import identifiability as identify
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.restraint import GivenRestraint, Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.forecasting.scores import resolve_score_or_eval, scoring
from cptlaw.forecasting.verbs.arguments import parse_fit_arguments
from cptlaw.laws import Law, law
from cptlaw.result import Line, Result, Table, plain
from cptlaw.runs import unread_findings
from cptlaw.runs.data_errors import data_errors
from cptlaw.runs.points import PointsLike, as_points, in_tokens
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import SchedulesLike
from cptlaw.signatures import spell_out
from cptlaw.units import counted

if TYPE_CHECKING:
    from cptlaw_scores import ScoreCheck


@dataclass(frozen=True, repr=False, eq=False)
class Check(Result):
    """What a law would find in the runs.

    Attributes
    ----------
    law, on
        The law and the eval.
    n_points, n_runs
        Size of the data that a fit would use.
    n_free, rank
        Free parameters, and how many of them these rows can identify at best, whatever the losses.
    levels
        One row per input of the law: number of levels, min, max.
    findings
        The worst first.
    """

    law: Law
    on: str
    n_points: int
    n_runs: int
    n_free: int
    rank: int
    levels: pd.DataFrame
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        counts = {name: getattr(self, name) for name in ("n_points", "n_runs", "n_free", "rank")}
        levels = self.levels.to_dict("index")
        result: dict[str, object] = plain(
            {"law": self.law.spec, "on": self.on, **counts, "levels": levels, "findings": self.findings}
        )
        return result

    @property
    def title(self) -> str:
        """What the law would find, in one line."""
        return (
            f"{self.law.spec} on {self.on}: {counted(self.n_points, 'point')} of {counted(self.n_runs, 'run')} "
            f"identify {'all' if self.rank == self.n_free else f'at best {self.rank}'} of {self.n_free} free parameters"
        )

    @property
    def lines(self) -> list[Line]:
        """What to do where nothing was noticed."""
        return [] if self.findings else [("", "nothing stands in the way of a fit")]

    @property
    def tables(self) -> list[Table]:
        """The levels of the inputs."""
        return [levels_table(self.levels)]


def check(
    law_name: str | Law | type[Law] | RunsLike | None,
    runs: RunsLike | None = None,
    on: str | None = None,
    where: str | None = None,
    *,
    schedules: SchedulesLike | None = None,
    at: PointsLike | None = None,
    **restraint: Unpack[GivenRestraint],
) -> Check | AutoCheck | ScoreCheck:
    """Check runs against a law without fitting it; of a score: which scores of the table carry signal, and why not.

    Parameters
    ----------
    law_name, runs, where, schedules
        As in `cptlaw.fit`; the runs alone stand for law auto.
    on
        The eval; where it is left out, the only one, else the target.
    at
        The forecasts that matter: rows, or one point as text, such as ``"n_params=8.1B,ptpp=279"``. How far they lie
        outside the runs is then said.
    **restraint
        fix, tie, bound, prior as in `cptlaw.fit`.

    Raises
    ------
    DataError, UsageError, FitError
        If rows, names or options are unusable.
    """
    refuse_others(restraint, GivenRestraint.__annotations__, "check")
    named, runs, on, where = parse_fit_arguments(law_name, runs, on, where)
    table, on, copied = resolve_score_or_eval(runs, on, "target")
    copied += unread_findings(table, where)
    points = pd.DataFrame() if at is None else in_tokens(as_points(at), table.frame)
    if on in table.scores:
        return scoring.check_scores(table, on, where)
    rows = table if where is None else table.where(where)
    # A fit looks at its own eval, which is neither source nor target perhaps.
    about = [*copied, *dict.fromkeys([*data_errors(rows), *(data_errors(rows, on) if on in rows.evals else ())])]
    if named == "auto":
        refuse_restraint(restraint)
        fit_auto_in_fold = check_auto(table, on, where, schedules, points)
        return replace(fit_auto_in_fold, findings=by_severity([*about, *fit_auto_in_fold.findings]))
    chosen = law(named)
    training = training_rows(chosen, table, on, where, schedules)
    frame = training.chosen().frame
    problem = Problem(
        chosen,
        chosen.bind(frame, training.role),
        frame["loss"].to_numpy(dtype=float),
        Restraint.build(chosen, **restraint),
    )
    # The law's own inputs: levels of a column that it does not read say nothing of it.
    inputs = frame[[name for name in chosen.inputs if name in frame.columns]].astype(float)
    far = [finding for several in extrapolations(chosen, frame, points) for finding in several]
    return Check(
        law=chosen,
        on=training.on,
        n_points=problem.n,
        n_runs=int(frame["run"].nunique()),
        n_free=problem.size,
        rank=identify.best_rank(problem),
        levels=pd.DataFrame({"levels": inputs.nunique(), "min": inputs.min(), "max": inputs.max()}),
        findings=by_severity([*about, *training.findings, *check_rows(chosen, frame, problem), *far]),
    )


spell_out(check, GivenRestraint)
