"""What the column ``loss`` of a row holds: a loss, bits per byte, or a score such as accuracy.

A score is a share of items that were answered rightly, from 0 to 1. Everything else is a loss: the lower the better.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.runs.problems import Problems

LOSS, BITS_PER_BYTE, NATS_PER_BYTE = "loss", "bpb", "nats_per_byte"
SCORES = ("accuracy", "accuracy_norm", "exact_match", "f1", "score")
PASS_AT = re.compile(r"pass(?:@|_at_|_at|@_)0*([1-9]\d*)")
# LightEval: pass@k:k=1&n=4, math_pass@1:4_samples; the tries that were drawn (n, samples) only make pass@k surer.
TRIES = re.compile(r"(?:[a-z]+_)?pass@(?:k[:_](?:with_)?k=)?0*([1-9]\d*)(?:[:&]\w+(?:=\d+)?)*")
SOME_LOSS = re.compile(r"(?:.*[_/.])?(?:cross_?entropy_?)?loss")  # eval_loss, c4_en-validation/CrossEntropyLoss

# Other names of metrics in use, in lower case with underscores.
ALIASES = {
    alias: metric
    for metric, aliases in (
        (LOSS, "nll cross_entropy crossentropy ce nats nats_per_token nats/token"),
        (BITS_PER_BYTE, "bits_per_byte bits/byte byte_bits bits_per_char bpc"),
        (NATS_PER_BYTE, "nats/byte nats_byte loss_per_byte"),
        ("accuracy", "acc acc_raw mc_acc multiple_choice_accuracy acc_raw_acc"),
        # Of instructions kept, only whole prompts are the items that files count; of TruthfulQA only mc1 is a share.
        ("accuracy", "prompt_level_strict_acc mc1 truthfulqa_mc1"),
        ("accuracy_norm", "acc_norm len_norm acc_per_char acc_per_byte acc_norm_nospace acc_per_token acc_norm_token"),
        ("accuracy_norm", "acc_uncond"),  # divided by the answer's probability without its question
        ("exact_match", "em exact quasi_exact_match prefix_exact_match extractive_match exact_match_simple qem"),
        ("f1", "f1_score"),
    )
    for alias in aliases.split()
}

UNITS = {BITS_PER_BYTE: "bits per byte", NATS_PER_BYTE: "nats per byte"}
BYTES = ("byte", "bytes")  # tokenizers of which a token is a byte
USUAL_UNIT = "nats per token"

# Of several scores of one task the first of these keeps the task's name, the others get their metric's behind it.
FIRST = ("loss", "accuracy", "exact_match", "accuracy_norm", "pass@1", "f1", "score")

HIGHEST_LOSS = 13.0  # nats per token: a uniform guess over half a million words
FEW_IN_PERCENT = 0.25  # values above 1 for each one in (0, 1]: up to here they are a slip rather than the unit

Mask = npt.NDArray[np.bool_]


def metric_name(word: str) -> str:
    """Return the metric that a word stands for; an unknown word stays as it is, in lower case.

    Examples
    --------
    >>> metric_name("acc,none"), metric_name("Pass_at_8"), metric_name("bits_per_byte"), metric_name("")
    ('accuracy', 'pass@8', 'bpb', 'loss')
    >>> metric_name("pass@k:k=1&n=4"), metric_name("math_pass@1:4_samples"), metric_name("maj@8")
    ('pass@1', 'pass@1', 'maj@8')
    """
    # lm-evaluation-harness puts the filter behind a comma, as in acc,none.
    name = re.sub(r"[\s-]+", "_", word.partition(",")[0].strip()).lower()
    if not name:
        return LOSS
    match = PASS_AT.fullmatch(name) or TRIES.fullmatch(name)
    if match:
        return f"pass@{int(match[1])}"
    return ALIASES.get(name, LOSS if SOME_LOSS.fullmatch(name) else name)


def is_score(metric: str) -> bool:
    """Say whether a metric is a share of items, from 0 to 1, the higher the better.

    Examples
    --------
    >>> is_score("accuracy"), is_score("pass@8"), is_score("bpb")
    (True, True, False)
    """
    return metric in SCORES or PASS_AT.fullmatch(metric) is not None


def is_known(metric: str) -> bool:
    """Say whether it is known what a metric counts: a loss and its unit, or a share of items.

    Examples
    --------
    >>> is_known("loss"), is_known("pass@8"), is_known("perplexity")
    (True, True, False)
    """
    return metric in (LOSS, BITS_PER_BYTE, NATS_PER_BYTE) or is_score(metric)


KNOWN = f"{LOSS}, {BITS_PER_BYTE}, {NATS_PER_BYTE}, {', '.join(SCORES)}, pass@K such as pass@10"
# What to write for metrics that are no loss and no share of items.
INSTEAD = {
    "perplexity": "Write its logarithm as a loss.",
    "ppl": "Write its logarithm as a loss.",
    "word_perplexity": "Write bits per byte, or its logarithm as a loss.",
    "byte_perplexity": "Write its logarithm to base 2 as bpb.",
    "pass@k": "Say of how many tries, as in pass@10.",
    "error": "Write 1 - error as accuracy.",
    "error_rate": "Write 1 - error_rate as accuracy.",
}


def metrics_of(words: pd.Series) -> tuple[npt.NDArray[np.object_], Mask]:
    """Return the metric of each row, and which rows hold scores; where no word stands it is a loss.

    Parameters
    ----------
    words
        Text of any kind, (n,).
    """
    known: dict[object, str] = {}
    for word in words.unique():
        known[word] = LOSS if pd.isna(word) else metric_name(str(word))
    names = np.array([known.get(word, LOSS) for word in words], dtype=object)
    return names, np.array([is_score(name) for name in names], dtype=np.bool_)


def as_shares(
    values: npt.NDArray[np.float64],
    metric: npt.NDArray[np.object_],
    evals: pd.Series,
    texts: pd.Series,
    where: Problems,
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Return scores from 0 to 1, those in percent divided by 100, and notes that say which these were.

    An eval is in percent if any of its values lies above 1; ``43%`` was read as 0.43 already and is left alone. An eval
    whose values all lie below 1 beside others of the same metric in percent may be either, so it is refused; so is an
    eval of which a few values alone lie above 1, since a slip there would divide all others by 100.

    Parameters
    ----------
    values
        Scores as they were read, (n,).
    metric
        The metric of each, (n,).
    evals, texts
        Eval and what stood in the file, (n,).
    where
        Problems of the table, to which a doubtful unit is added.
    """
    result = values.copy()
    signed = np.array([isinstance(text, str) and "%" in text for text in texts], dtype=np.bool_)
    places: dict[tuple[str, str], list[int]] = {}
    for place, key in enumerate(zip(metric, evals.astype(str).to_numpy(), strict=True)):
        if np.isfinite(values[place]) and not signed[place]:
            places.setdefault(key, []).append(place)
    percent: dict[str, list[str]] = {}
    doubtful: dict[str, list[str]] = {}
    for (name, one), own in places.items():
        held = values[own]
        high = held[held > 1]
        low = int(((held > 0) & (held <= 1)).sum())  # 0 is the same in both units
        if 0 < len(high) <= FEW_IN_PERCENT * low:
            where.add(
                f"column 'metric': of {name} of eval {one!r}, {len(high)} of {low + len(high)} values lie above 1, "
                f"such as {high[0]:g}. Expected one unit; write percent with its sign, as 55%, or shares everywhere, "
                f"as 0.55."
            )
        if len(high):
            percent.setdefault(name, []).append(one)
            result[own] /= 100.0
        elif low:
            doubtful.setdefault(name, []).append(one)
    for name, others in doubtful.items():
        if name in percent:
            where.add(
                f"column 'metric': of {name}, eval {percent[name][0]!r} is in percent (it has values above 1), and "
                f"{', '.join(map(repr, others[:3]))} may be in percent or a share. Expected one unit; write percent "
                f"with its sign, as 0.6%, or shares everywhere, as 0.006."
            )
    names_in_percent = sorted({one for several in percent.values() for one in several})
    note = f"scores in percent are read as shares: {join_names(map(repr, names_in_percent), 3)}"
    return result, (note,) if names_in_percent else ()


def named_apart(evals: pd.Series, metric: npt.NDArray[np.object_]) -> tuple[pd.Series, tuple[str, ...]]:
    """Return eval names of which each holds one metric: of a task with several, all but the first get their metric's.

    Parameters
    ----------
    evals
        Names of evals, (n,).
    metric
        The metric of each row, (n,).
    """
    names = evals.astype(str).to_numpy(dtype=object)
    renamed: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(names):
        held = sorted(set(metric[names == name]), key=lambda one: (FIRST.index(one) if one in FIRST else 99, one))
        renamed |= {(name, other): f"{name}:{other}" for other in held[1:]}
    if not renamed:
        return evals, ()
    apart = [renamed.get((name, one), name) for name, one in zip(names, metric, strict=True)]
    note = f"evals with several metrics are told apart: {join_names(map(repr, sorted(set(renamed.values()))), 3)}"
    return pd.Series(apart, index=evals.index), (note,)


def metric_of(frame: pd.DataFrame) -> str:
    """Return the metric of the rows of one eval."""
    if "metric" not in frame.columns:
        return LOSS
    known = frame["metric"].dropna()
    return LOSS if known.empty else str(known.iloc[0])


def loss_unit(frame: pd.DataFrame) -> str:
    """Return the unit of the losses of one eval: what its metric or its tokenizer says, else nats per token.

    Parameters
    ----------
    frame
        The rows of one eval, with canonical columns.

    Examples
    --------
    >>> loss_unit(pd.DataFrame({"loss": [2.1], "tokenizer": ["bytes"]}))
    'nats per byte'
    """
    unit = UNITS.get(metric_of(frame), USUAL_UNIT)
    if unit == USUAL_UNIT and "tokenizer" in frame.columns:
        named = frame["tokenizer"].dropna().astype(str).str.strip().str.lower()
        return "nats per byte" if len(named) and named.isin(BYTES).all() else unit
    return unit


def unit_of(*fits: object) -> str:
    """Return the unit of the losses that fits forecast; of fits in several units all are named, of none the usual one.

    Parameters
    ----------
    *fits
        Fits of losses, which keep the unit of their rows; ``None`` counts for nothing.
    """
    kept = [getattr(fit, "provenance", None) or {} for fit in fits if fit is not None]
    return " or ".join(dict.fromkeys(str(one.get("loss_unit") or USUAL_UNIT) for one in kept)) or USUAL_UNIT


def score_evals(frame: pd.DataFrame) -> dict[str, str]:
    """Return the evals of a checked table that are scores, with their metric."""
    if "metric" not in frame.columns:
        return {}
    pairs = frame[["eval", "metric"]].drop_duplicates().dropna()
    result: Mapping[str, str] = {str(one): str(metric) for one, metric in pairs.itertuples(index=False)}
    return {name: metric for name, metric in sorted(result.items()) if is_score(metric)}
