"""The commands that repeat an answer step by step. Each of them can be pasted: what an answer found stands in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from cptlaw.answering.question import Asked
from cptlaw.answering.what_if import point_of
from cptlaw.commands import command_line
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan
from cptlaw.planning.result import flops_of
from cptlaw.planning.scenario import SCENARIOS, as_words, options_of
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike
from cptlaw.writing import file_name

NEXT_RUNS = 2  # that an answer names


def commands(
    runs: Runs,
    question: Asked,
    where: str | None,
    fits: Mapping[str, Fit],
    planned: MixPlan,
    *,
    scores: Collection[str] = (),
    how: Iterable[str] = (),
    spending: float | None = None,
) -> tuple[str, ...]:
    """Return the commands: the fits, fitted as `how` says, the forecast, the plan, and what to spend on next runs."""
    chosen = [*chosen_rows(runs, where), *how]
    evals = [*fits, *scores]
    files = {name: f"{file_name(name)}.json" for name in evals}
    lines = [command_line(["cptlaw", "fit", *chosen, "--on", name, "-o", files[name]]) for name in evals]
    if planned.feasible and planned.tokens is not None:
        at = ",".join(f"{name}={value:.6g}" for name, value in point_of(question, planned).items())
        lines.append(command_line(["cptlaw", "forecast", *files.values(), "--at", at]))
    if (words := _plan(question, fits, planned)) is not None:
        words += [word for name in scores for word in ("--score", files[name])]
        lines.append(command_line(words))
    if planned.feasible and spending is not None:
        words = ["--on", to_sharpen(question, fits), "--at", at, "--budget", f"{spending:.6g}", "-n", str(NEXT_RUNS)]
        words += [] if question.n_active is None else ["--n-active", f"{question.n_active:.6g}"]
        lines.append(command_line(["cptlaw", "suggest", *chosen, *words]))
    return tuple(lines)


def to_sharpen(question: Asked, fits: Collection[str]) -> str:
    """Return the loss whose next runs are asked for: where forgetting is limited, small runs inform it most."""
    return "source" if "source" in fits and question.max_forgetting is not None else "target"


def answer_command(runs: Runs, question: Asked, where: str | None, how: Iterable[str]) -> str:
    """Return the command that asks the question again and writes its page."""
    words = [*chosen_rows(runs, where), *how, *question.command_words]
    return command_line(["cptlaw", "answer", *words, "-o", "report.html"])


def how_fitted(schedules: SchedulesLike | None, seed: int) -> list[str]:
    """Return the words that say how losses are fitted, beside their rows."""
    named = str(schedules) if isinstance(schedules, str | Path) else "SCHEDULES.yaml"
    return [*([] if schedules is None else ["--schedules", named]), *(["--seed", str(seed)] if seed else [])]


def chosen_rows(runs: Runs, where: str | None) -> list[str]:
    """Return the words that name the table, how it is read, and its rows."""
    table = runs.label if runs.path is not None else "RUNS.csv"
    roles = [word for name, role in runs.roles.items() for word in (f"--{role}-eval", name)]
    return [table, *runs.read_with, *roles, *(["--where", where] if where else [])]


def _plan(question: Asked, fits: Mapping[str, Fit], planned: MixPlan) -> list[str] | None:
    """Return the words of the plan; a question without limits has one only where there is a source loss to weigh."""
    kind, given = question.kind, question.plan_arguments
    given |= planned.searched_range
    if kind == "trade-off" and planned.tokens is not None:
        given["tokens"] = planned.tokens  # a budget need not be spent
    if kind in ("trade-off", "pareto") and not question.limited:
        kind = "pareto"
        given["budget"] = question.budget or flops_of(question.trained, float(given["tokens"]))
    if kind in ("trade-off", "pareto") and "source" not in fits:
        return None
    if "source" not in fits:
        given.pop("base_source_loss", None)
    # The default, `measured`, carries what near base models show by these laws; by name they would say the law alone.
    if planned.reference not in (None, "measured", "base-law", "law"):
        given["reference"] = planned.reference
    words = ["cptlaw", "plan", kind, "--target", "target.json"]
    words += ["--source", "source.json"] if "source" in fits else []
    known = options_of(SCENARIOS[kind])
    return words + as_words(SCENARIOS[kind], {name: value for name, value in given.items() if name in known})
