"""The evaluation of kept models: a command of the user's own, whose scores come back as rows.

The command runs without a shell, once per model. ``{model}`` stands for the model's folder, ``{output}`` for where the
scores go, ``{run}`` and ``{step}`` for the run. It leaves JSON: ``{"NAME": 0.41}``, or ``{"NAME": {"value": 0.41,
"metric": "accuracy", "n_items": 1319, "chance": 0.25}}``, or results of lm-evaluation-harness or LightEval (a file or a
folder).
"""

from __future__ import annotations

import math
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any, cast

from cptlaw import import_logs
from cptlaw.errors import DataError
from cptlaw.reading import read_json
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.saved_models import folder_of, kept_steps
from cptlaw_sweep.specs import JobReport, MeasuredRow
from cptlaw_sweep.store import Store

Row = dict[str, Any]

SHOWN = 600  # last characters of what a failed command printed


def scores_of(job: Job, store: Store, cache: Path) -> tuple[list[MeasuredRow], JobReport]:
    """Run the command on each model that a run kept.

    Returns
    -------
    tuple
        One row per score, and the report of the job.

    Raises
    ------
    DataError
        If the command fails or leaves no scores.
    """
    trained, name = str(job.definition["of"]), str(job.columns["run"])
    started, rows = time.monotonic(), list[MeasuredRow]()
    per_step = int(job.run["tokens_per_step"])
    for step in kept_steps(store, trained):
        model = store.get_folder(folder_of(trained, step), cache)
        scratch = store.scratch()
        output = scratch / "scores.json"
        _call_program(job, {"model": str(model), "output": str(output), "run": name, "step": str(step)})
        for metric, score in read_scores(output).items():
            row = {"eval": metric, "domain": None, "step": step, "tokens": step * per_step, "lr": None, **score}
            rows.append(cast("MeasuredRow", row))
        store.remove(f"scratch/{scratch.name}")
    if not rows:
        raise DataError("no model was kept, so nothing was evaluated")
    seconds = time.monotonic() - started
    return rows, {"name": job.name, "kind": job.kind, "seconds": seconds, "tokens_per_second": None}


def _call_program(job: Job, values: dict[str, str]) -> None:
    words = []
    for word in shlex.split(str(job.definition["command"])):
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)
        words.append(word)
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=float(job.run["seconds"])
        )
    except OSError as error:
        raise DataError(f"evaluate: {words[0]} cannot be started ({error})") from None
    except subprocess.TimeoutExpired:
        raise DataError(f"evaluate: {words[0]} took longer than {job.run['seconds']:g} seconds") from None
    if ended.returncode:
        message = (ended.stderr or ended.stdout).strip()[-SHOWN:]
        raise DataError(f"evaluate: {words[0]} ended with code {ended.returncode}: {message}")


def read_scores(path: Path) -> dict[str, Row]:
    """Read what an evaluation left: score name -> loss (the value), metric, n_items, chance.

    Raises
    ------
    DataError
        If there is nothing, or nothing that reads as scores.
    """
    if path.is_dir():
        result = sorted(path.rglob("results*.json"))
        if not result:
            raise DataError(f"evaluate: the command left no results*.json in {path.name}")
        path = result[-1]
    try:
        value = read_json(path)
        if isinstance(value, dict) and isinstance(
            value.get("results"), dict
        ):  # of a package: as `cptlaw import` reads it
            frame = import_logs(path).frame.set_index("eval").reindex(columns=["loss", "metric", "n_items"])
            frame = frame.astype({"metric": object})
            return {str(name): {str(key): one for key, one in row.dropna().items()} for name, row in frame.iterrows()}
    except DataError as error:
        raise DataError(f"evaluate: the command left no scores: {error}") from None
    if not isinstance(value, dict) or not value:
        raise DataError(f"evaluate: expected scores by name, found {str(value)[:60]}")
    return {str(name): _score_row(name, score) for name, score in value.items()}


def _score_row(name: object, score: object) -> Row:
    entry = score if isinstance(score, dict) else {"value": score}
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"evaluate: the score {name!r} is {value!r}. Expected a number.")
    row: Row = {"loss": float(value), "metric": str(entry.get("metric", "score"))}
    return row | {key: entry[key] for key in ("n_items", "chance") if isinstance(entry.get(key), int | float)}
