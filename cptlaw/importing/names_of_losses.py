"""What metrics are by their names: losses on validation sets, training losses, bits per byte; and of which eval."""

from __future__ import annotations

import re
from functools import cache

from cptlaw.runs.tracker_names import VALIDATION

# What validation losses are called by the trainers that are read; what is left of a name is the eval.
_EVAL_WORDS = VALIDATION | {"dev", "test", "heldout"}
_BITS_WORDS = frozenset(("bpb", "bits", "per", "byte"))
_LOSS_WORDS = frozenset("loss nll lm ce cross entropy set data metrics value avg mean".split()) | _BITS_WORDS
# A name with one of these is another quantity, however much of a loss it has in it.
_NOT_A_LOSS = frozenset("train ppl perplexity best min max samples aux balancing std soft".split()) | _BITS_WORDS
# What training losses are called without the word train.
_OF_TRAINING = frozenset(("loss", "lm loss", "lm_loss", "reduced_train_loss", "batch loss", "ce_loss"))
# What a name is, is asked of every value that was logged: cached, for logs repeat few names.
_WORD = re.compile(r"[A-Za-z0-9]+")


def _words(metric: str) -> list[str]:
    """Return the words of a name: CrossEntropyLoss has three."""
    return _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", metric.replace("_", " ")))


def eval_of(metric: str) -> str:
    """Return the eval that a metric is named after: what is left without the words for losses and validation.

    Examples
    --------
    >>> [eval_of(name) for name in ("eval_fr_loss", "eval/loss", "validation lm loss", "loss", "val/bpb")]
    ['fr', 'validation', 'validation', 'loss', 'validation']
    """
    words = _words(metric)
    left = [word for word in words if word.lower() not in _EVAL_WORDS | _LOSS_WORDS]
    if left:
        return "_".join(left)
    lower = [word.lower() for word in words]
    if "test" in lower:
        return "test"
    return "validation" if any(word in _EVAL_WORDS for word in lower) else metric


@cache
def is_eval_loss(metric: str) -> bool:
    """Tell whether a metric is by its name a loss on a validation set.

    Examples
    --------
    >>> [is_eval_loss(name) for name in ("eval_fr_loss", "train/loss", "val_loss_best", "eval_runtime", "eval/ppl")]
    [True, False, False, False, False]
    >>> is_eval_loss("c4_en-validation/CrossEntropyLoss")
    True
    """
    words = {word.lower() for word in _words(metric)}
    return bool(words & {"loss", "nll"}) and bool(words & _EVAL_WORDS) and not words & _NOT_A_LOSS


@cache
def is_eval_bits(metric: str) -> bool:
    """Tell whether a metric is by its name bits per byte of a validation set.

    Examples
    --------
    >>> [is_eval_bits(name) for name in ("val/bpb", "eval/paloma/c4_en/bits_per_byte", "train/bpb", "eval/loss")]
    [True, True, False, False]
    """
    words = {word.lower() for word in _words(metric)}
    counts = "bpb" in words or {"bits", "byte"} <= words
    return counts and bool(words & _EVAL_WORDS) and not words & (_NOT_A_LOSS - _BITS_WORDS)


@cache
def is_training_loss(metric: str) -> bool:
    """Tell whether a metric is by its name the loss of the batches that were trained on.

    Examples
    --------
    >>> [is_training_loss(name) for name in ("train/loss", "loss", "lm loss", "eval/loss", "train/aux_loss")]
    [True, True, True, False, False]
    """
    words = {word.lower() for word in _words(metric)}
    named = "loss" in words and bool(words & {"train", "training"}) and not words & (_NOT_A_LOSS - {"train"})
    return metric.lower() in _OF_TRAINING or (named and not words & _EVAL_WORDS)


@cache
def is_loss_like(metric: str) -> bool:
    """Tell whether a metric is a loss of any kind, or counts what a loss counts."""
    words = {word.lower() for word in _words(metric)}
    return bool(words & {"loss", "nll", "ppl", "perplexity", "bpb", "accuracy", "acc"})
