"""An answer as a configuration of a trainer: mix, peak rate, warm-up, schedule, steps, and both losses from step 0 on.

One template for each trainer, in the folder `templates`. What an answer cannot know stands in capitals there: the base
model and where the texts lie.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.reading import read_json
from cptlaw.units import parse_quantity
from cptlaw.writing import Kind, make_folder, write_text

TEMPLATES = Path(__file__).parent / "templates"
TRAINERS = {
    "axolotl": "axolotl.yaml",
    "llamafactory": "llamafactory.yaml",
    "automodel": "automodel.yaml",
    "torchtitan": "torchtitan.toml",
    "trl": "train_trl.py",
    "megatron": "megatron.sh",
}
SIGN = "# Written by cptlaw export."
OURS = Kind("an exported configuration", lambda path: path.read_bytes().startswith(SIGN.encode()))
LEAST_STEPS = 200  # below these a schedule has no shape; the batch is made smaller for them
LOOKS = 20  # evaluations of both losses


def export(
    answer: str | Path | Mapping[str, Any],
    to: str,
    folder: str | Path = ".",
    *,
    lr_peak: Any = None,
    context: Any = 4096,
    batch: Any = 256,
    warmup: Any = 0.01,
    end: Any = 0.1,
    force: bool = False,
) -> list[Path]:
    """Write the run of an answer as the configuration of a trainer.

    Parameters
    ----------
    answer
        What `cptlaw.answer` found, or the file of ``cptlaw answer --json``.
    to
        The trainer: one of `TRAINERS`.
    folder
        Where the file goes.
    lr_peak
        Peak rate; that of the answer where it has one.
    context
        Tokens of a row.
    batch
        Rows of an optimiser step; fewer where the run would have less than `LEAST_STEPS`.
    warmup, end
        Shares of the steps that warm up, and of the peak rate at which the cosine ends.
    force
        Whether a file of another kind may be overwritten.

    Raises
    ------
    UsageError, DataError
        If there is no such trainer, or the answer names no run.
    """
    if to not in TRAINERS:
        raise UsageError(f"there is no trainer {to!r}.{did_you_mean(to, TRAINERS)} Known: {', '.join(TRAINERS)}.")
    given = _read(answer)
    values = run_of(given, lr_peak=lr_peak, context=context, batch=batch, warmup=warmup, end=end)
    place = make_folder(folder) / TRAINERS[to]
    return [
        write_text(place, f"{SIGN} {given.get('question', '')}".rstrip() + "\n" + filled(to, values), OURS, force=force)
    ]


def _read(answer: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(answer, str | Path):
        return dict(answer.to_dict() if hasattr(answer, "to_dict") else answer)
    path = Path(answer)
    found = read_json(path)
    if not isinstance(found, dict) or not {"feasible", "tokens"} <= found.keys():
        raise DataError(f"{path.name}: this is no answer. Expected what `cptlaw answer .. --json` prints.")
    return found


def run_of(
    answer: Mapping[str, Any], *, lr_peak: Any, context: Any, batch: Any, warmup: Any, end: Any
) -> dict[str, Any]:
    """Return the run of an answer as a trainer counts: shares of corpora, rows, steps, rates."""
    tokens, replay, mix = answer.get("tokens"), answer.get("replay"), dict(answer.get("mix") or {})
    if answer.get("feasible") is False or tokens is None or (replay is None and not mix):
        raise DataError("the answer names no run to train: nothing keeps its limits. Ask again with looser ones.")
    if lr_peak is None and answer.get("lr_peak") is None:
        raise UsageError("the answer says no peak rate: its runs were all of one. Give it with lr_peak= (--lr-peak).")
    peak = parse_quantity(answer["lr_peak"] if lr_peak is None else lr_peak, "lr_peak")
    row = round(parse_quantity(context, "context"))
    most = round(parse_quantity(batch, "batch"))
    rows = max(1, min(most, int(tokens / (row * LEAST_STEPS))))
    steps = max(1, math.ceil(tokens / (row * rows)))
    shares = mix or {"source": float(replay or 0.0), "target": 1.0 - float(replay or 0.0)}
    return {
        "corpora": [{"name": name, "share": round(share, 6)} for name, share in shares.items() if share > 0],
        "steps": steps,
        "warmup": round(parse_quantity(warmup, "warmup") * steps),
        "peak": peak,
        "end": peak * parse_quantity(end, "end"),
        "end_share": parse_quantity(end, "end"),
        "context": row,
        "batch": rows,
        "every": max(1, steps // LOOKS),
    }


def filled(to: str, values: Mapping[str, Any]) -> str:
    """Return the template of a trainer with the values of a run in it."""
    try:
        import jinja2
    except ImportError:
        raise UsageError("export needs Jinja2. Install it with: pip install 'cptlaw[training]'") from None
    place = jinja2.FileSystemLoader(TEMPLATES)
    # No HTML is written here; a value that a template lacks is a fault of the template.
    environment = jinja2.Environment(
        loader=place, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False, trim_blocks=True
    )
    environment.filters["quoted"] = json.dumps
    # With a point: YAML takes 2e-05 for text.
    environment.filters["rate"] = lambda value: str(np.format_float_scientific(value, trim="0"))
    return environment.get_template(f"{TRAINERS[to]}.j2").render(**values)
