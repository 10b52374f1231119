"""An answer as it is exported: read once, each entry by its type and range, whoever wrote the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cptlaw.errors import DataError, quote
from cptlaw.reading import read_json
from cptlaw.writing import file_names

MOST_CORPORA = 1000
LONGEST_NAME = 200  # characters
MOST_TOKENS = 1e18
HIGHEST_RATE = 10.0
EXPECTED = "Expected what `cptlaw answer .. --json` prints."


@dataclass(frozen=True)
class AnswerFile:
    """What an answer says of its run.

    Attributes
    ----------
    question
        In words; empty where it is not known.
    base
        The base model's name, where it was asked by one.
    tokens
        Of the whole run.
    mix
        Corpus -> its share, above 0; they sum to 1. The names are such as files may have.
    lr_peak, batch_tokens
        As the answer advises, where it does.
    """

    question: str
    base: str | None
    tokens: float
    mix: Mapping[str, float]
    lr_peak: float | None
    batch_tokens: float | None


def read_answer(answer: object) -> AnswerFile:
    """Read an answer.

    Parameters
    ----------
    answer
        The file, what `cptlaw.answer` found, or its mapping.

    Raises
    ------
    DataError
        If it is no answer, names no run, or an entry is not what it may be.
    """
    label = "the answer"
    if isinstance(answer, str | Path):
        label, answer = Path(answer).name, read_json(answer)
    elif hasattr(answer, "to_dict"):
        answer = answer.to_dict()
    if not isinstance(answer, Mapping) or not {"feasible", "tokens"} <= answer.keys():
        raise DataError(f"{label}: this is no answer. {EXPECTED}")
    feasible = answer["feasible"]
    if not (feasible is None or isinstance(feasible, bool)):
        raise DataError(f"{label}, feasible: {quote(feasible)}. Expected true, false or null.")
    has_mix = answer.get("mix") not in (None, {}, [])
    if feasible is False or answer["tokens"] is None or (answer.get("replay") is None and not has_mix):
        raise DataError("the answer names no run to train: nothing keeps its limits. Ask again with looser ones.")
    mix = _mix(answer["mix"], label) if has_mix else _of_replay(_number_at(answer, "replay", label, 0.0, 1.0))
    return AnswerFile(
        _text_at(answer, "question", label, 10_000) or "",
        _text_at(answer, "base", label, LONGEST_NAME),
        _positive_at(answer, "tokens", label, MOST_TOKENS) or 0.0,
        mix,
        _positive_at(answer, "lr_peak", label, HIGHEST_RATE),
        _positive_at(answer, "batch_tokens", label, MOST_TOKENS),
    )


def _of_replay(replay: float) -> dict[str, float]:
    shares = {"source": round(replay, 6), "target": round(1.0 - replay, 6)}
    return {name: share for name, share in shares.items() if share > 0}


def _mix(value: object, label: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise DataError(f"{label}, mix: {quote(value)}. Expected the share of each corpus by its name.")
    if len(value) > MOST_CORPORA:
        raise DataError(f"{label}, mix: {len(value):,} corpora. Expected {MOST_CORPORA:,} at most.")
    for name in value:
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise DataError(f"{label}, mix: {quote(name)} is no name of a corpus. Expected a line of text.")
    shares = {name: _number_at(value, name, f"{label}, mix", 0.0, 1.0) for name in value}
    if not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-3):
        raise DataError(f"{label}, mix: the shares sum to {sum(shares.values()):.6g}. Expected 1.")
    kept = {name: round(share, 6) for name, share in shares.items() if round(share, 6) > 0}
    # Trainers make files, list entries and names of data sets of them.
    return dict(zip(file_names(kept), kept.values(), strict=True))


def _number_at(entries: Mapping[str, object], name: str, label: str, low: float, high: float) -> float:
    value = entries.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        span = f"from {low:g} to" if low == 0 else "above 0, up to"
        raise DataError(f"{label}, {quote(name)}: {quote(value)}. Expected a number {span} {high:g}.")
    return float(value)


def _positive_at(entries: Mapping[str, object], name: str, label: str, most: float) -> float | None:
    return None if entries.get(name) is None else _number_at(entries, name, label, math.ulp(0.0), most)


def _text_at(entries: Mapping[str, object], name: str, label: str, most: int) -> str | None:
    value = entries.get(name)
    if value is not None and not (isinstance(value, str) and len(value) <= most):
        raise DataError(f"{label}, {name}: {quote(value)}. Expected a text of at most {most:,} characters.")
    return value
