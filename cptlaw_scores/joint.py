"""A runs table with losses and scores side by side: one row per model, one column per eval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.findings import Finding
from cptlaw.runs import Runs
from cptlaw.runs.metrics import BITS_PER_BYTE, metric_of
from cptlaw.runs.schema import mix_columns
from cptlaw.units import format_percent
from cptlaw_scores.benchmarks import DEFAULT_ITEMS, chance_of, items_of_values
from cptlaw_scores.laws.score_law import Array

INPUTS = ("n_params", "tokens", "replay", "ptpp", "lr_peak", "lr_pretrain", "flops")
DIGITS = 9  # to which tokens of one model may differ between its evals
MEAN = "mean:"  # before the names of the tasks of which an eval is the mean
BELOW = 4.0  # standard errors below chance that are no accident
LEAST_ROWS = 4  # measured scores of a task, below which nothing is fitted to it


@dataclass(frozen=True, eq=False)
class Task:
    """One benchmark of a table.

    Parameters
    ----------
    name, metric
        The eval, and what its score is.
    chance
        Score of guessing.
    items
        Questions behind each score, (n,); nan where it was not measured.
    """

    name: str
    metric: str
    chance: float
    items: Array


@dataclass(frozen=True, eq=False)
class Joint:
    """Losses and scores of the same models.

    Parameters
    ----------
    frame
        One row per model: run, inputs, and under ``value:EVAL`` what each eval measured.
    tasks
        The benchmarks with enough rows, by name.
    losses
        Evals that are losses, in nats per token.
    bits
        Evals in bits per byte.
    findings
        What was assumed.
    """

    frame: pd.DataFrame
    tasks: dict[str, Task]
    losses: tuple[str, ...]
    bits: tuple[str, ...]
    findings: tuple[Finding, ...]

    def values(self, name: str) -> Array:
        """Return what an eval measured, (n,); nan where it did not."""
        result: Array = self.frame[column_of(name)].to_numpy(dtype=float)
        return result

    def agreement(self, task: str, loss: str) -> float | None:
        """Return the rank correlation of a score with minus a loss; None where too few models have both."""
        scores, losses = self.values(task), self.values(loss)
        good = np.isfinite(scores) & np.isfinite(losses)
        return rank_correlation(-losses[good], scores[good]) if good.sum() >= LEAST_ROWS else None

    def answers_of(self, task: str) -> str | None:
        """Return the eval that holds bits per byte of a task's own answers, by its name."""
        if task.startswith(MEAN):
            return None
        plain = task.partition(":")[0]
        # Named after the task in one way or another: harnesses put the metric before it or behind it.
        near = [name for name in self.bits if plain in name or name.partition(":")[0] in task]
        return min(near, key=len) if near else None


def column_of(name: str) -> str:
    """Return the column of a joint frame that holds what an eval measured."""
    return f"value:{name}"


def join(table: Runs) -> Joint:
    """Bring the evals of each model into one row.

    Rows of one model are those of one run with the same tokens, or the same step where tokens are not counted.
    """
    frame = table.frame
    keys = keys_of(frame)
    inputs = [*(name for name in INPUTS if name in frame.columns), *mix_columns(frame.columns)]
    rows = frame[inputs].assign(run=keys["run"], place=keys["place"])
    whole = (
        rows.groupby(["run", "place"], sort=False, as_index=False, observed=True)[inputs].first()
        if inputs
        else rows[["run", "place"]].drop_duplicates(ignore_index=True)
    )
    index = pd.MultiIndex.from_frame(whole[["run", "place"]])
    tasks: dict[str, Task] = {}
    losses, bits = list[str](), list[str]()
    findings: list[Finding] = []
    measured = {}
    for name in table.evals:
        mask = (frame["eval"] == name).to_numpy()
        own, at = frame[mask], pd.MultiIndex.from_frame(keys[mask])
        measured[column_of(name)] = measured_at(own, at, index)
        if name not in table.scores:
            (bits if metric_of(own) == BITS_PER_BYTE else losses).append(name)
            continue
        if int(np.isfinite(measured[column_of(name)]).sum()) < LEAST_ROWS:
            continue
        tasks[name], notes = task_of(name, table.scores[name], own, at, index)
        findings += notes
    result = pd.concat([whole.drop(columns="place"), pd.DataFrame(measured)], axis=1)
    if {"n_params", "tokens"} <= set(result.columns):
        # Integers of this size would overflow.
        product = 6.0 * result["n_params"].astype(float) * result["tokens"].astype(float)
        result["flops"] = result["flops"].fillna(product) if "flops" in result.columns else product
    if not tasks:
        listed = ", ".join(table.scores) or "none"
        raise DataError(
            f"{table.label}: no score was measured at {LEAST_ROWS} models or more. Scores found: {listed}. Expected "
            f"rows with metric accuracy, exact_match or pass@k, one per model and benchmark."
        )
    return Joint(result, tasks, tuple(losses), tuple(bits), tuple(findings))


def keys_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what tells the model of each row: its run, and its place, which is tokens, or step where none are."""
    where = next((name for name in ("tokens", "step") if name in frame.columns and frame[name].notna().any()), None)
    place = np.zeros(len(frame)) if where is None else frame[where].fillna(0.0).to_numpy(dtype=float)
    if where == "step" and "phase" in frame.columns:
        # Steps count from the start of their phase: those of pre-training lie before the first of CPT.
        place = np.where((frame["phase"] == "pretrain").to_numpy(dtype=bool), place - place.max() - 1.0, place)
    return pd.DataFrame({"run": frame["run"].astype(str).to_numpy(), "place": _rounded(place)}, index=frame.index)


def measured_at(own: pd.DataFrame, at: pd.MultiIndex, index: pd.MultiIndex) -> Array:
    """Return what the rows of one eval, at models, measured at the models of an index, (n,); nan where nothing."""
    # Several seeds of one model are one model; their mean has the noise of all their questions.
    values = pd.Series(own["loss"].to_numpy(dtype=float), index=at).groupby(level=[0, 1]).mean().reindex(index)
    result: Array = values.to_numpy(dtype=float)
    return result


def task_of(
    name: str, metric: str, own: pd.DataFrame, at: pd.MultiIndex, index: pd.MultiIndex
) -> tuple[Task, list[Finding]]:
    """Return one benchmark as its rows, at models, tell it, and what was assumed."""
    notes = []
    chance = own["chance"].dropna() if "chance" in own.columns else pd.Series(dtype=float)
    if len(chance):
        guess = float(chance.iloc[0])
    else:
        known = chance_of(name, metric)
        guess = 0.0 if known is None else known
        if known is None:
            notes.append(
                Finding(
                    "warning",
                    "chance-unknown",
                    f"{name}: nothing says what guessing scores; 0 is taken.",
                    "Give a column chance, such as 0.25 for four choices.",
                )
            )
    values = measured_at(own, at, index)
    counted = pd.Series(np.nan, index=index)
    if "n_items" in own.columns:
        # Summed where scores are averaged: three seeds of 100 questions are 300 answers.
        counted = pd.Series(own["n_items"].to_numpy(dtype=float), index=at).groupby(level=[0, 1]).sum(min_count=1)
        counted = counted.reindex(index)
    if counted.isna().to_numpy()[np.isfinite(values)].any():
        inferred = items_of_values(values)
        if inferred is None:
            notes.append(
                Finding(
                    "info",
                    "items-unknown",
                    f"{name}: nothing says how many questions a score counts; {DEFAULT_ITEMS:g} are taken, and the "
                    "scatter of the scores corrects that.",
                    "Give a column n_items.",
                )
            )
        counted = counted.fillna(DEFAULT_ITEMS if inferred is None else inferred)
    items = np.where(np.isfinite(values), counted, np.nan)
    notes += _below_chance(name, values, items, guess)
    return Task(name, metric, guess, items), notes


def tasks_at(
    table: Runs, names: Iterable[str], models_of: Iterable[str]
) -> tuple[pd.DataFrame, Array, Array, list[float]]:
    """Return the models at which one of some evals was measured, and what benchmarks measured there.

    Their first rows of these evals, which say what else is known of them; scores and questions, (tasks, n) each; and
    the chances of the benchmarks.
    """
    keys = keys_of(table.frame)
    of_models = table.frame["eval"].isin(list(models_of))
    first = (of_models & ~keys.where(of_models).duplicated()).to_numpy()
    index = pd.MultiIndex.from_frame(keys[first])
    scores, tasks = [], []
    for name in names:
        mask = (table.frame["eval"] == name).to_numpy()
        own, at = table.frame[mask], pd.MultiIndex.from_frame(keys[mask])
        scores.append(measured_at(own, at, index))
        tasks.append(task_of(name, table.scores[name], own, at, index)[0])
    items, chances = np.array([one.items for one in tasks]), [one.chance for one in tasks]
    return table.frame[first], np.array(scores), items, chances


def _below_chance(name: str, values: Array, items: Array, guess: float) -> list[Finding]:
    """Return what is to be said where even the best model lies below chance by more than its questions explain."""
    best = int(np.nanargmax(values))
    # Of guessing itself: far below it no number of questions explains the best model.
    error = math.sqrt(guess * (1.0 - guess) / items[best])
    if values[best] >= guess - BELOW * error:
        return []
    return [
        Finding(
            "error",
            "below-chance",
            f"{name}: all scores lie below the chance of {format_percent(guess)}, the best at "
            f"{format_percent(float(values[best]))}.",
            "Correct the column chance: 0 where answers are written out, 0.25 for four choices.",
        )
    ]


def rank_correlation(x: Array, y: Array) -> float:
    """Return the rank correlation of two columns; 0 where one of them does not move."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    left, right = (pd.Series(one).rank().to_numpy(dtype=float) for one in (x, y))
    return float(np.corrcoef(left, right)[0, 1])


def _rounded(values: Array) -> Array:
    """Round to a few digits, so that the same tokens written twice are the same."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.where(values == 0, 0.0, DIGITS - np.ceil(np.log10(np.abs(values))))
    # Only whole powers of ten are exact: 1e8 / 0.1 is not 1e9, and a value just above 1e9 would be another one.
    up, down = 10.0 ** np.maximum(digits, 0.0), 10.0 ** np.maximum(-digits, 0.0)
    result: Array = np.round(values / down * up) / up * down
    return result
