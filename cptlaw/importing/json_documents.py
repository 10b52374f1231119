"""Single documents of JSON that trainers leave: last losses, summaries of a tracker, values of a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cptlaw.errors import CptlawError, DataError
from cptlaw.importing.history import STEP_NAMES, History, Record, first_of, mapping_of, numbers_of
from cptlaw.importing.line_log import GRAMMARS
from cptlaw.importing.plain_table import json_lines
from cptlaw.importing.reader import Reader, file_run_names, files_below, first_bytes, run_name
from cptlaw.importing.score_files import run_and_step
from cptlaw.importing.settings import config_beside
from cptlaw.importing.training_losses import OF_LEVANTER
from cptlaw.reading import flatten, read_json


class EvalResults(Reader):
    """``eval_results.json`` of a script of transformers: losses at the end of a run, without its steps."""

    name = "eval-results"
    title = "eval_results.json of the Hugging Face Trainer"
    looks_for = "eval_results.json or all_results.json with eval_loss or eval_NAME_loss"
    order = 18
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return one file of each folder: all_results.json holds what the other one does."""
        found = {path.parent: path for path in files_below(source, ["eval_results.json"])}
        found |= {path.parent: path for path in files_below(source, ["all_results.json"])}
        return sorted(found.values())

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each; a folder that is called after a checkpoint says the step."""
        histories = []
        for path in files:
            value = read_json(path)
            if not isinstance(value, dict):
                raise DataError(f"{path}: expected one object, such as {{'eval_loss': 2.1, ..}}. Evaluate again.")
            run, step = run_and_step(run_name(path.parent, source))
            histories.append(History(run, path, (Record(step, numbers_of(value)),), config_beside(path.parent)))
        return histories


class LevanterMetrics(Reader):
    """``tracker_metrics.jsonl`` of Levanter and Marin: the configuration of a run and the last value of each metric."""

    name = "levanter"
    title = "tracker metrics of Levanter"
    looks_for = "tracker_metrics.jsonl with config and summary, in the folder of a run"
    order = 42
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the files of metrics."""
        return files_below(source, ["tracker_metrics.jsonl"])

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them; the JSON logger's file has a line for each event, which are read in their order."""
        histories = []
        for path in files:
            rows, notes = json_lines(path)
            config: dict[str, object] = {}
            records: list[Record] = []
            for row in rows:
                config |= flatten(mapping_of(row, "config") or mapping_of(row, "hparams"))
                metrics = flatten(mapping_of(row, "summary") or mapping_of(row, "metrics"), joint="/")
                if metrics and row.get("event") != "finish":  # which repeats what was logged
                    values = numbers_of(metrics)
                    step = first_of(numbers_of({"step": row.get("step")}) | values, STEP_NAMES)
                    records.append(Record(step, values))
            run = run_name(path.parent, source)
            histories.append(History(run, path, tuple(records), config, notes=notes, how_to_measure=OF_LEVANTER))
        return histories


class GoldenValues(Reader):
    """``golden_values*.json`` of Megatron-LM: metric -> start_step, step_interval and values, by step or in order."""

    name = "golden-values"
    title = "golden values of Megatron-LM"
    looks_for = "*.json with metrics such as 'lm loss', each with start_step, step_interval and values"
    order = 22

    def find(self, source: Path) -> list[Path]:
        """Return the documents of such values."""
        return [path for path in files_below(source, ["*.json"]) if _begins_with_curves(path)]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each."""
        names = file_run_names(files, source)
        how = GRAMMARS["megatron"].switch_on
        return [History(names[path], path, tuple(_curves(read_json(path))), how_to_measure=how) for path in files]


def _begins_with_curves(path: Path) -> bool:
    # Folders hold documents of all sizes, tokenizers among them: only those are parsed that begin as these do.
    begins = first_bytes(path, 400)
    try:
        value = read_json(path) if b'"start_step"' in begins or b'"step_interval"' in begins else None
    except CptlawError:
        return False
    return isinstance(value, dict) and any(isinstance(one, dict) and "values" in one for one in value.values())


def _curves(value: Mapping[str, Any]) -> Iterator[Record]:
    by_step: dict[float, dict[str, float]] = {}
    for metric, curve in value.items():
        held = curve.get("values") if isinstance(curve, dict) else None
        if isinstance(held, list):
            start, every = float(curve.get("start_step", 0)), float(curve.get("step_interval", 1))
            held = {start + place * every: one for place, one in enumerate(held)}
        for step, number in (held or {}).items():
            by_step.setdefault(float(step), {}).update(numbers_of({metric: number}))
    return (Record(step, values) for step, values in sorted(by_step.items()) if values)
