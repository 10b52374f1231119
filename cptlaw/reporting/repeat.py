"""How to repeat a report: the commands that lead to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.commands import command_line
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.law_fit import LawFit
from cptlaw.planning.options import points
from cptlaw.planning.report_scenario import ReportOfRuns
from cptlaw.planning.scenario import as_words
from cptlaw.reporting.points import IN_POINTS
from cptlaw.runs import Runs
from cptlaw.units import format_quantity
from cptlaw.writing import file_name


def commands(
    table: Runs,
    fits: tuple[Fit, ...],
    at: Mapping[str, object] | None,
    options: Mapping[str, Any],
    interval: float,
) -> tuple[str, ...]:
    """Return the commands that repeat a report, in order: the fits, then the report itself."""
    path = "RUNS.csv" if table.path is None else table.path.name
    reading = _reading_options(table)
    result = [fit_command(path, reading, fit) for fit in fits]
    words = ["cptlaw", "report", path, *reading, "--target", f"{fits[0].on}.json"]
    if len(fits) > 1:
        words += ["--source", f"{fits[1].on}.json"]
    if at is not None:
        words += ["--at", ",".join(f"{name}={_number(value)}" for name, value in at.items())]
    scores = options.get("scores") or {}
    result += [fit_command(path, reading, fit) for fit in scores.values()]
    words += [word for name in scores for word in ("--score", f"{file_name(name)}.json")]
    said = {name: value for name, value in options.items() if value is not None and name != "scores"}
    said |= {} if interval == 0.9 else {"interval": interval}
    texts: dict[str, Mapping[str, float] | str | float | None]
    texts = {name: points(said.pop(name), name) for name in IN_POINTS if name in said}
    texts |= {name: _number(value) for name, value in said.items()}
    return (*result, command_line([*words, *as_words(ReportOfRuns, texts), "-o", "report.html"]))


def fit_command(path: str, reading: list[str], fit: Forecaster) -> str:
    """Return the command that repeats a fit."""
    words = ["cptlaw", "fit", path, *reading, "--law", fit.law_option, "--on", fit.on]
    if fit.provenance.get("where"):
        words += ["--where", str(fit.provenance["where"])]
    if not isinstance(fit, LawFit):  # an average of laws chooses all that follows
        return command_line([*words, "-o", f"{file_name(fit.on)}.json"])
    options = fit.options
    if options.delta != fit.law.delta:
        words += ["--delta", f"{options.delta:g}"]
    if options.starts != fit.law.starts:
        words += ["--starts", str(options.starts)]
    if options.seed:
        words += ["--seed", str(options.seed)]
    restraint, found_again = options.restraint, {*fit.law.from_source, *fit.learned}
    for name, value in restraint.fixed.items():
        if name not in found_again:
            words += ["--fix", f"{name}={value!r}"]
    for group in restraint.tied:
        words += ["--tie", ",".join(group)]
    for name, (low, high) in restraint.bounds.items():
        words += ["--bound", f"{name}={low!r}:{high!r}"]
    for name, prior in restraint.priors.items():
        if name not in found_again:
            words += ["--prior", f"{name}=" + ":".join(map(str, prior.to_list()))]
    if fit.plain and fit.n_points and not fit.law.needs_schedules:
        words += ["--restraint", "none"]
    return command_line([*words, "-o", f"{fit.on}.json"])


def _reading_options(table: Runs) -> list[str]:
    words = list(table.read_with)
    for name, role in table.roles.items():
        words += [f"--{role}-eval", name]
    if table.n_params_kind is not None and "n_params_kind" not in table.frame.columns:
        words += ["--n-params-kind", table.n_params_kind]
    return words


def _number(value: object) -> str:
    if isinstance(value, float) and value >= 1000:
        short = format_quantity(value, 6)
        return f"{value:.10g}" if "e" in short or len(short) > 7 else short
    return f"{value:.10g}" if isinstance(value, float) else str(value)
