"""Scores of evaluation packages: lm-evaluation-harness, LightEval, OLMES, and tables of a model ladder.

Each file is of one model. The run is named after the model: the last part of its path, or the part before it where
that is a checkpoint, whose number is then the step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError
from cptlaw.importing.history import STEP_NAMES, History, Record, Score, first_of, mapping_of, numbers_of
from cptlaw.importing.reader import Reader, csv_header, csv_rows, file_run_name, files_below, first_bytes
from cptlaw.reading import read_json
from cptlaw.runs.metrics import BITS_PER_BYTE, is_score, metric_name
from cptlaw.runs.wide import score_of

_CHECKPOINT = re.compile(r"(?:checkpoint|ckpt|global_step|step|iter)[-_]?(\d+)(?:-hf|_hf)?", re.IGNORECASE)


class ScoreFiles(Reader):
    """What the readers of JSON results share: one file of one model, several files of one model joined."""

    patterns: tuple[str, ...] = ("results*.json",)

    def find(self, source: Path) -> list[Path]:
        """Return the files that look like results of this package."""
        values: dict[Path, object] = {}
        damaged: list[DataError] = []
        for path in self.candidates(source):
            try:
                values[path] = read_json(path)
            except DataError as error:
                damaged.append(error)
        result = [path for path, value in values.items() if self.matches(value)]
        if result and damaged:  # beside others of its kind, a file cut short is a model that would be missed
            raise damaged[0]
        return result

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each file; what a later file of the same model and step says again counts."""
        records: dict[str, list[Record]] = defaultdict(list)
        paths: dict[str, Path] = {}
        # Names of results carry their time, so that the latest comes last and counts.
        for path in sorted(files, key=lambda one: one.name):
            value = read_json(path)
            run, step = run_and_step(self.model(value) or file_run_name(path, source))
            scores = dict(self.scores(value))
            if not scores:
                raise DataError(
                    f"{path}: read as {self.title}, and there is no score in it. Expected a "
                    f"benchmark with a number, such as an accuracy. Evaluate the model again, or leave the file out."
                )
            records[run].append(Record(step, {}, scores=scores))
            paths.setdefault(run, path)
        return [History(run, paths[run], tuple(of_run)) for run, of_run in records.items()]

    def candidates(self, source: Path) -> list[Path]:
        """Return the files that may be of this package, by their names."""
        return files_below(source, ["*.json"] if source.is_file() else self.patterns)

    def matches(self, value: object) -> bool:
        """Say whether a document is of this package."""
        raise NotImplementedError

    def model(self, value: Mapping[str, object]) -> str:
        """Return the model's name or path, empty where the file does not say."""
        raise NotImplementedError

    def scores(self, value: Mapping[str, object]) -> Iterator[tuple[str, Score]]:
        """Yield evals with their scores."""
        raise NotImplementedError


class LmEvalResults(ScoreFiles):
    """``results_*.json`` of lm-evaluation-harness: ``results: {TASK: {"acc,none": .., "acc_stderr,none": ..}}``."""

    name = "lm-eval"
    order = 14
    by_file_name = True
    title = "results of lm-evaluation-harness"
    looks_for = "*.json with results by task and metrics such as 'acc,none' (0.3: 'acc', and versions)"

    def candidates(self, source: Path) -> list[Path]:
        """Return the files that begin with results: versions before 0.4 wrote them under any name."""
        found = set(super().candidates(source))
        begins = {path: first_bytes(path, 40).lstrip(b" \n\t{") for path in files_below(source, ["*.json"])}
        return [path for path, text in begins.items() if path in found or text.startswith(b'"results"')]

    def matches(self, value: object) -> bool:
        """Say whether metrics carry their filter behind a comma, as the harness writes them, or it names itself."""
        if not isinstance(value, dict) or not isinstance(value.get("results"), dict) or "config_general" in value:
            return False
        entries = [one for one in value["results"].values() if isinstance(one, dict)]
        is_old = isinstance(value.get("versions"), dict) and any("acc" in one or "ppl" in one for one in entries)
        names_itself = "lm_eval_version" in value or "n-samples" in value
        return is_old or names_itself or any("," in key for one in entries for key in one)

    def model(self, value: Mapping[str, object]) -> str:
        """Return ``model_name``, or the pretrained model among the arguments."""
        if isinstance(value.get("model_name"), str) and value["model_name"]:
            return str(value["model_name"])
        arguments = mapping_of(value, "config").get("model_args")
        if isinstance(arguments, dict):
            return str(arguments.get("pretrained", ""))
        match = re.search(r"pretrained=([^,]+)", arguments) if isinstance(arguments, str) else None
        return match[1] if match else ""

    def scores(self, value: Mapping[str, Any]) -> Iterator[tuple[str, Score]]:
        """Yield one score per task and metric; of several filters of a metric the first."""
        counts, samples = mapping_of(value, "n-samples"), mapping_of(value, "samples")
        for task, metrics in value["results"].items():
            items = mapping_of(counts, task).get("effective")
            yield from _scores(str(task), metrics, _positive(items), samples.get(task))


class LightEvalResults(ScoreFiles):
    """``results_*.json`` of LightEval: ``config_general``, and ``results: {"SUITE|TASK|SHOTS": {"acc": ..}}``."""

    name = "lighteval"
    order = 12
    by_file_name = True
    title = "results of LightEval"
    looks_for = "results*.json with config_general and results"

    def matches(self, value: object) -> bool:
        """Say whether it has the package's own two parts."""
        return isinstance(value, dict) and "config_general" in value and isinstance(value.get("results"), dict)

    def model(self, value: Mapping[str, object]) -> str:
        """Return ``config_general.model_name``."""
        general = mapping_of(value, "config_general")
        return str(general.get("model_name") or mapping_of(general, "model_config").get("model_name") or "")

    def scores(self, value: Mapping[str, Any]) -> Iterator[tuple[str, Score]]:
        """Yield one score per task and metric; averages over tasks are left out, they follow from the others."""
        tasks = mapping_of(value, "config_tasks")
        for key, metrics in value["results"].items():
            # An average beside its tasks would be a benchmark counted twice.
            if key == "all" or "_average" in key:
                continue
            parts = str(key).split("|")
            name = parts[1] if len(parts) >= 3 else parts[0]
            config = mapping_of(tasks, key) or mapping_of(tasks, "|".join(parts[:-1]))
            yield from _scores(name, metrics, _positive(config.get("effective_num_docs")), None)


class OlmesResults(ScoreFiles):
    """``task-*-metrics.json`` of OLMES: ``task_name``, ``num_instances`` and ``metrics`` of one task."""

    name = "olmes"
    order = 16
    by_file_name = True
    title = "metrics of OLMES"
    looks_for = "*metrics*.json with task_name, metrics and num_instances"
    patterns = ("*metrics*.json",)

    def matches(self, value: object) -> bool:
        """Say whether it has one task's parts."""
        return isinstance(value, dict) and "task_name" in value and isinstance(value.get("metrics"), dict)

    def model(self, value: Mapping[str, object]) -> str:
        """Return the model of ``model_config``: its path, where that ends with a checkpoint, else its name."""
        config = mapping_of(value, "model_config")
        path = str(config.get("model_path") or "")
        return path if run_and_step(path)[1] is not None else str(config.get("model", ""))

    def scores(self, value: Mapping[str, Any]) -> Iterator[tuple[str, Score]]:
        """Yield the task's metrics, the primary one first, and bits per byte of the right answers."""
        result = value["metrics"]
        primary = str(mapping_of(value, "task_config").get("primary_metric", ""))
        names = [name for name in result if name != "primary_score"]  # which repeats one of the other metrics
        if primary not in result and (score := result.get("primary_score")) is not None:
            primary = next((name for name in names if result[name] == score), "")
        # Of several normalised accuracies the task's own is the one that is published, and keeps the task's name.
        names.sort(key=lambda name: name != primary)
        metrics = {("bits_per_byte" if name == "bits_per_byte_corr" else name): result[name] for name in names}
        yield from _scores(str(value["task_name"]), metrics, _positive(value.get("num_instances")), None)


class LadderTable(Reader):
    """CSV of a model ladder: a row per model, columns ``downstream/TASK_METRIC`` and ``downstream_bpb/TASK_bpb``."""

    name = "ladder"
    order = 105
    title = "table of a model ladder"
    looks_for = "*.csv with columns downstream/.. or downstream_bpb/.."

    def find(self, source: Path) -> list[Path]:
        """Return the tables whose header has such columns."""
        return [path for path in files_below(source, ["*.csv"]) if "downstream/" in ",".join(csv_header(path))]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each row as one model."""
        histories = []
        for path in files:
            by_run: dict[str, list[Record]] = defaultdict(list)
            for row in csv_rows(path):
                run = row.get("run_id") or row.get("run") or row.get("name") or file_run_name(path, source)
                values = numbers_of({str(name): text for name, text in row.items() if text not in (None, "")})
                scores = {}
                for column, value in values.items():
                    group, _, name = column.partition("/")
                    if value != value:
                        continue
                    if group == "downstream":
                        scores[name] = Score(value, score_of(name), None)
                    elif group == "downstream_bpb":
                        scores[name] = Score(value, BITS_PER_BYTE, None)
                    elif name == "CrossEntropyLoss":
                        scores[group.removesuffix("-validation")] = Score(value, "loss", None)
                by_run[run].append(Record(first_of(values, STEP_NAMES), {}, scores=scores))
            histories += [History(run, path, tuple(records)) for run, records in by_run.items()]
        return histories


def run_and_step(model: str) -> tuple[str, float | None]:
    """Return the run and the step that a model's path names.

    Examples
    --------
    >>> run_and_step("out/124M-r25/checkpoint-500"), run_and_step("Qwen/Qwen2.5-1.5B")
    (('124M-r25', 500.0), ('Qwen2.5-1.5B', None))
    """
    parts = [part for part in re.split(r"[/\\\\]", model) if part not in ("", ".")]
    if not parts:
        return model, None
    match = _CHECKPOINT.fullmatch(parts[-1])
    if match is None or len(parts) == 1:
        return parts[-1], None
    return parts[-2], float(match[1])


def _scores(task: str, metrics: object, items: float | None, samples: object) -> Iterator[tuple[str, Score]]:
    """Yield a task's metrics; scores in several metrics are evals of their own, as the runs table names them."""
    if not isinstance(metrics, dict):
        return
    values = {key: value for key, value in numbers_of(metrics).items() if value == value}
    seen: dict[str, Score] = {}
    for key, value in values.items():
        name = metric_name(key)
        if "stderr" in key or name in seen or not (is_score(name) or name == BITS_PER_BYTE):
            continue
        counted = len(samples) if isinstance(samples, list) else 0
        error = values.get(re.sub(r"(?=,|$)", "_stderr", key, count=1))  # acc,none beside acc_stderr,none
        seen[name] = Score(value, name, items or float(counted) or _items_of_error(value, error))
    for place, (name, score) in enumerate(seen.items()):
        yield (task if place == 0 else f"{task}:{name}"), score


def _items_of_error(score: float, error: float | None) -> float | None:
    """Return the number of items that a standard error tells: both packages write sqrt(p (1 - p) / (n - 1))."""
    if error is None or not error > 0 or not 0 < score < 1:
        return None
    count = score * (1.0 - score) / error**2 + 1.0
    return float(round(count)) if count >= 2 else None


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
