"""Pilot runs as files: a recipe that `cptlaw sweep` trains, and a manifest a run for any other trainer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cptlaw.errors import DataError, wrong_type
from cptlaw.units import format_quantity
from cptlaw.writing import write_all_to_edit

if TYPE_CHECKING:
    from cptlaw.answering.result import Answer

RECIPE = "pilots.yaml"
CONTEXT, USUAL_BATCH = 1024, 65_536  # tokens
NOT_OF_THE_RUN = ("gain", "narrows", "gpu_hours", "days", "cost")
NEEDED = ("replay", "tokens", "lr_peak", "ptpp", "n_params")
MODEL = "PATH_OR_NAME_OF_YOUR_BASE_MODEL"
SOURCE, TARGET = "PATH_TO_TEXT_LIKE_ITS_PRETRAINING/*.jsonl", "PATH_TO_TEXT_OF_THE_NEW_DOMAIN/*.jsonl"


def write_pilots(runs: Answer | Sequence[Mapping[str, object]], folder: str | Path) -> list[Path]:
    """Write pilots to a folder: ``pilots.yaml`` and ``pilot-1.json``, ``pilot-2.json``, ..

    Parameters
    ----------
    runs
        An answer, whose `next_runs` are meant, or such runs: with n_params, ptpp, replay, tokens, flops, lr_peak and,
        where it is advised, batch_tokens.
    folder
        Made where it does not exist. A file in it that says anything else stays, and ``pilots-2.yaml`` is written.

    Raises
    ------
    DataError
        If there is no run to write, a run lacks something, or the folder cannot be made.
    """
    cells = runs if isinstance(runs, Sequence) else getattr(runs, "next_runs", None)
    if not isinstance(cells, Sequence) or not all(isinstance(cell, Mapping) for cell in cells):
        raise wrong_type(runs, "runs", "an answer, or its next_runs")
    for cell in cells:
        if missing := [name for name in NEEDED if name not in cell]:
            raise DataError(f"{folder}: a run lacks {', '.join(missing)}. Expected next_runs of an answer.")
    if not cells:
        raise DataError(f"{folder}: there are no runs to write as pilots.")
    contents = {RECIPE: recipe(cells)}
    for number, cell in enumerate(cells, 1):
        manifest = {
            "format": "cptlaw-pilot",
            "run": f"pilot-{number}",
            **{key: cell[key] for key in sorted(cell) if key not in NOT_OF_THE_RUN and cell[key] is not None},
        }
        contents[f"pilot-{number}.json"] = json.dumps(manifest, indent=1) + "\n"
    return write_all_to_edit(contents, folder)


def recipe(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return the recipe of the pilots, with what only the user knows in capitals."""
    import yaml  # few answers write one

    blocks = [
        {
            "source": "source",
            "target": "target",
            "replay": float(cell["replay"]),
            "tokens": int(cell["tokens"]),
            "schedules": {"schedule": "constant", "peak": float(f"{cell['lr_peak']:.3g}"), "warmup": 50},
        }
        for cell in cells
    ]
    document = {
        "name": "pilots",
        "text": {"source": {"files": SOURCE}, "target": {"files": TARGET}},
        "tokenizer": {"pretrained": MODEL},
        "context": CONTEXT,
        "batch": max(1, round(float(cells[0].get("batch_tokens") or USUAL_BATCH) / CONTEXT)),
        "precision": "bf16",
        "models": {"base": {"pretrained": MODEL, "ptpp": float(cells[0]["ptpp"])}},
        "adapt": blocks,
    }
    size, active = (format_quantity(float(cells[0].get(name) or 0.0), 4) for name in ("n_params", "n_active"))
    size += f" parameters, {active} of them active" if cells[0].get("n_active") else " parameters"
    return (
        f"# Pilot runs of a base model of {size}. Put in what stands in capitals, then:\n"
        "# cptlaw sweep pilots.yaml --dry-run\n"
        "# Afterwards: cptlaw answer pilots/runs.csv, with the same question.\n"
        + yaml.safe_dump(document, sort_keys=False, width=100)
    )
