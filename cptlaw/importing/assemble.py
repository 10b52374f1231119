"""From logged runs to the rows of a runs table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError, UsageError, did_you_mean, join_names
from cptlaw.importing.alike import require_differences
from cptlaw.importing.ended import sound_runs, stopped_early
from cptlaw.importing.history import LR_NAMES, SAMPLES_NAMES, TOKENS_NAMES, History, Record, first_of
from cptlaw.importing.names_of_losses import eval_of, is_eval_bits, is_eval_loss, is_training_loss
from cptlaw.importing.options import ImportOptions
from cptlaw.importing.run_settings import Settings
from cptlaw.importing.settings import batch_factors
from cptlaw.importing.training_losses import NOTE, training_losses, what_to_do, with_means
from cptlaw.runs.metrics import BITS_PER_BYTE
from cptlaw.runs.schema import COLUMNS, canonical_name
from cptlaw.units import parse_quantity

Floats = NDArray[np.float64]
# Columns that hold until they change; all others count only at the step at which they were logged.
_CARRIED = ("lr",)
_OF_LINES = ("loss", "run", "eval", "step")  # what a record holds apart from its columns
NEAR = 0.05  # of a run: how far beyond its last count of tokens their line is followed


def assemble(histories: Sequence[History], wanted: ImportOptions) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return one row per measured loss, and notes on what was assumed or left out.

    Raises
    ------
    DataError
        If no loss of a validation set is found, no run is left, or runs that nothing tells apart differ in loss.
    UsageError
        If a metric or a setting that was asked for is not in the logs.
    """
    notes = [note for history in histories for note in history.notes]
    losses, recognised = _losses(histories, wanted)
    histories, left_out = sound_runs(histories, wanted.all_runs)
    notes += [*left_out, *recognised, *(note for one in histories if (note := stopped_early(one)))]
    histories, averages = _mean_training_losses(histories, losses)
    notes += averages
    rows: list[dict[str, object]] = []
    settings = Settings(histories, wanted)
    notes += settings.notes
    for history in histories:
        whole = settings.of(history)
        rows += _rows(history, losses, _with_batch(history, wanted, whole, notes), whole, notes)
    if not rows:
        raise DataError(_no_loss(histories, losses))
    frame = pd.DataFrame(rows)
    require_differences(frame, histories, settings.told)
    if "tokens" not in frame.columns:
        notes.append(
            "tokens are not known: the logs do not count them. Give --batch-tokens (tokens = step x batch), "
            f"--seq-length where the logs count samples, or --map tokens=METRIC{_settings_hint(histories)}"
        )
    order = [name for name in COLUMNS if name in frame.columns]
    return frame[order + [name for name in frame.columns if name not in order]], tuple(dict.fromkeys(notes))


def _losses(histories: Sequence[History], wanted: ImportOptions) -> tuple[dict[str, str], list[str]]:
    """Return eval -> metric, as asked or by the names of the metrics."""
    metrics = dict.fromkeys(name for history in histories for record in history.records for name in record.values)
    if wanted.losses:
        for metric in wanted.losses.values():
            if metric not in metrics:
                near = did_you_mean(metric, metrics)
                raise UsageError(f"--map: no metric {metric!r} in the logs.{near} Found: {join_names(metrics)}.")
        return dict(wanted.losses), []
    result: dict[str, str] = {}
    own = any(record.losses or record.scores for history in histories for record in history.records)
    found = list(filter(is_eval_loss, metrics))
    # Bits per byte count where no loss is there: beside one they would be the same twice.
    for metric in found or ([] if own else filter(is_eval_bits, metrics)):
        name = eval_of(metric)
        if name in result:
            raise UsageError(
                f"both {result[name]!r} and {metric!r} would be the eval {name!r}. Say which with "
                f"--map loss:{name}={metric}."
            )
        result[name] = metric
    if not result:
        if own:
            return {}, []
        raise DataError(_no_loss(histories, {}))
    unit = "" if found else ", in bits per byte"
    return result, [f"losses: {', '.join(f'{metric} as eval {name!r}' for name, metric in result.items())}{unit}"]


def _mean_training_losses(histories: Sequence[History], losses: Mapping[str, str]) -> tuple[list[History], list[str]]:
    """Return runs in which training losses that were asked for are means over windows, and what these say."""
    asked = {metric: name for name, metric in losses.items() if is_training_loss(metric)}
    if not asked:
        return list(histories), []
    changed = [with_means(history, list(asked)) for history in histories]
    counts = {metric: max((counts[metric] for _, counts in changed), default=1.0) for metric in asked}
    return [one for one, _ in changed], [NOTE.format(name=asked[metric], count=counts[metric]) for metric in asked]


def _rows(
    history: History,
    losses: Mapping[str, str],
    wanted: ImportOptions,
    run_values: Mapping[str, object],
    notes: list[str],
) -> list[dict[str, object]]:
    rows: dict[tuple[str, float | None], dict[str, object]] = {}
    last_values: dict[str, float] = {}
    at_step: dict[float, dict[str, float]] = {}
    left_out: Counter[str] = Counter()
    counted_before = _counted_before(history, wanted, notes)
    tokens_at = _interpolated_tokens(history, wanted)
    for record in history.records:
        columns = _columns(record, wanted)
        last_values |= {name: columns[name] for name in _CARRIED if name in columns}
        if record.step is not None:
            # Trainers log losses of one step in several lines, one for each eval and one for the rate: what is known of
            # the step is known to each.
            columns = at_step.setdefault(record.step, {}) | columns
            at_step[record.step] = columns
        measured = _losses_of_record(record, losses, wanted)
        if not (measured or record.scores):
            continue
        is_before = record.step is not None and record.step < wanted.first_step
        row = {"run": history.run, **_known_values(step=record.step), **run_values, **last_values, **columns}
        tokens = _tokens(record, _with_tokens(columns, record.step, tokens_at), wanted, counted_before)
        row |= _known_values(tokens=tokens, batch_tokens=wanted.batch_tokens)
        for name, loss in measured.items():
            if not math.isfinite(loss) or loss <= 0:
                left_out["unusable"] += 1
            elif is_before:
                left_out["before"] += 1
            else:
                # By eval and step, so that what was logged again after a restart takes the place of what the first
                # attempt logged. Without a step every record counts by itself.
                key = (name, record.step if record.step is not None else float(len(rows)))
                left_out["repeated"] += key in rows and rows[key]["loss"] != loss
                unit = {"metric": BITS_PER_BYTE} if is_eval_bits(losses.get(name, "")) else {}
                rows[key] = {**row, "eval": name, "loss": loss, **unit}
        for name, score in () if is_before else record.scores.items():
            named = {"loss": score.value, "metric": score.metric, **_known_values(n_items=score.n_items)}
            rows[name, record.step] = {**row, "eval": name, **named}
    reasons = {
        "unusable": "losses that are NaN, infinite or not above 0 are left out",
        "repeated": "steps were logged again, as after a restart; the last value counts",
        "before": f"losses before step {wanted.first_step:g} are left out",
    }
    notes += [f"run {history.run!r}: {left_out[kind]} {reason}" for kind, reason in reasons.items() if left_out[kind]]
    return list(rows.values())


def _with_tokens(
    columns: dict[str, float], step: float | None, tokens_at: Callable[[float], float | None] | None
) -> dict[str, float]:
    """Return columns with the tokens that are interpolated at a step, where they do not say them themselves."""
    tokens = None if "tokens" in columns or step is None or tokens_at is None else tokens_at(step)
    return columns if tokens is None else {**columns, "tokens": tokens}


def _losses_of_record(record: Record, losses: Mapping[str, str], wanted: ImportOptions) -> dict[str, float]:
    """Return the losses of a record by eval; those that the format itself names count where none were asked for."""
    result = {name: record.values[metric] for name, metric in losses.items() if metric in record.values}
    # Formats that name their losses themselves are believed, unless the user has said which metrics are losses.
    return result if wanted.losses else {**result, **record.losses}


def _known_values(**values: float | None) -> dict[str, object]:
    """Return what is known of a row; what is not leaves the value that the whole run has."""
    return {name: value for name, value in values.items() if value is not None}


def _columns(record: Record, wanted: ImportOptions) -> dict[str, float]:
    """Return the columns of a runs table that a record tells: as asked, or under the words of the trainers."""
    known = {column: record.values[name] for column, name in _columns_of(tuple(record.values)).items()}
    # Consumed samples are exact over restarts and changes of the batch, where steps are not.
    if wanted.seq_length is not None and (samples := first_of(record.values, SAMPLES_NAMES)) is not None:
        known["tokens"] = samples * wanted.seq_length
    for column, metric in wanted.metrics.items():
        if metric in record.values:
            known[column] = record.values[metric]
    return known


@lru_cache(maxsize=1024)  # records of one kind have the same names
def _columns_of(names: tuple[str, ...]) -> Mapping[str, str]:
    """Return column -> the metric that holds it by the words of the trainers."""
    named = {column: name for name in names if (column := canonical_name(name)) is not None}
    known = {column: name for column, name in named.items() if column not in _OF_LINES and COLUMNS[column].numeric}
    for column, words in (("lr", LR_NAMES), ("tokens", TOKENS_NAMES)):
        if (name := next(filter(names.__contains__, words), None)) is not None:
            known[column] = name
    return known


def _interpolated_tokens(history: History, wanted: ImportOptions) -> Callable[[float], float | None] | None:
    """Return a function from a step to its tokens, interpolated between the steps at which a log counts them.

    Trainers count tokens with their training losses and measure validation losses in between. None without two counts;
    the function returns None before the first count and far beyond the last.
    """
    steps, tokens_at = _counts(history, wanted, {0.0: 0.0} if not wanted.first_step else {})
    if len(steps) < 2:
        return None
    beyond = NEAR * (steps[-1] - steps[0])

    def at(step: float) -> float | None:
        if not steps[0] <= step <= steps[-1] + beyond:
            return None
        if step <= steps[-1]:
            return float(np.interp(step, steps, tokens_at))
        slope = (tokens_at[-1] - tokens_at[-2]) / (steps[-1] - steps[-2])
        return float(tokens_at[-1] + slope * (step - steps[-1]))

    return at


def _counts(history: History, wanted: ImportOptions, known: Mapping[float, float]) -> tuple[Floats, Floats]:
    """Return the steps at which a log counts tokens, and the counts, (n,)."""
    told = ((record.step, _columns(record, wanted).get("tokens")) for record in history.records)
    counts = {**known, **{step: tokens for step, tokens in told if step is not None and tokens is not None}}
    return np.array(sorted(counts)), np.array([counts[step] for step in sorted(counts)])


def _counted_before(history: History, wanted: ImportOptions, notes: list[str]) -> float:
    """Return the tokens that the log had counted when adaptation began, on a line through its nearest counts."""
    if not wanted.first_step or (wanted.batch_tokens is not None and "tokens" not in wanted.metrics):
        return 0.0
    steps, tokens_at = _counts(history, wanted, {})
    if not len(steps):
        return 0.0
    if wanted.first_step >= steps[0]:
        result = float(np.interp(wanted.first_step, steps, tokens_at))
    elif len(steps) > 1:
        # Adaptation began before the first count: tokens grow evenly, so that the line through the first two goes back
        # to it.
        slope = (tokens_at[1] - tokens_at[0]) / (steps[1] - steps[0])
        result = max(float(tokens_at[0] - slope * (steps[0] - wanted.first_step)), 0.0)
    else:
        raise UsageError(
            f"run {history.run!r}: tokens are counted once in the log, so how many there were at step "
            f"{wanted.first_step:g} is not known. Give --batch-tokens instead."
        )
    notes.append(f"run {history.run!r}: {result:g} tokens at step {wanted.first_step:g} count as pre-training")
    return result


def _with_batch(
    history: History, wanted: ImportOptions, whole: Mapping[str, object], notes: list[str]
) -> ImportOptions:
    """Take the tokens of a step from the trainer's settings where neither the user nor the log counts tokens."""
    if wanted.batch_tokens is not None or "tokens" in wanted.metrics:
        return wanted
    # A log that counts tokens knows better than a product of settings, which a change of the batch in mid-run makes
    # wrong.
    if any("tokens" in _columns(record, wanted) for record in history.records):
        return wanted
    if "batch_tokens" in whole:
        batch = parse_quantity(str(whole["batch_tokens"]), f"batch_tokens of {history.run}")
        return replace(wanted, batch_tokens=batch) if batch > 0 else wanted
    factors = batch_factors(history.config)
    if factors is None:
        return wanted
    text = " x ".join(f"{key} {value:g}" for key, value in factors.items())
    notes.append(f"tokens of a run are step x {text}, from its settings")
    return replace(wanted, batch_tokens=math.prod(factors.values()))


def _tokens(record: Record, known: Mapping[str, float], wanted: ImportOptions, counted_before: float) -> float | None:
    if wanted.batch_tokens is None or "tokens" in wanted.metrics:
        return known["tokens"] - counted_before if "tokens" in known else None
    return None if record.step is None else (record.step - wanted.first_step) * wanted.batch_tokens


def _settings_hint(histories: Sequence[History]) -> str:
    """Return what the trainer's settings say of batch and length, to end the note that tokens are not known."""
    keys = ("seq_length", "global_batch_size", "max_position_embeddings", "per_device_train_batch_size")
    result = {key: {str(history.config[key]) for history in histories if key in history.config} for key in keys}
    said = ", ".join(f"{key} {'/'.join(sorted(values))}" for key, values in result.items() if values)
    return f"; the settings say {said}" if said else ""


def _no_loss(histories: Sequence[History], losses: Mapping[str, str]) -> str:
    metrics = dict.fromkeys(name for history in histories for record in history.records for name in record.values)
    if not losses and training_losses(histories):
        return what_to_do(histories)
    asked = f" as asked ({', '.join(losses.values())})" if losses else ""
    return (
        f"{histories[0].path}: no loss of a validation set{asked}. Expected a metric such as eval_fr_loss, eval/loss "
        f"or 'validation lm loss'. Found {len(histories)} runs with the metrics {join_names(metrics) or '(none)'}. "
        f"Name the losses with --map loss:EVAL=METRIC."
    )
