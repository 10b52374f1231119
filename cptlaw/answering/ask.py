"""`answer`: one question, from runs where there are some, from the studies of others where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cptlaw.answering.answered import Answer
from cptlaw.answering.known_bases import base as named
from cptlaw.answering.of_corpora import from_mixes
from cptlaw.answering.question import RISK, Asked
from cptlaw.answering.with_runs import from_runs
from cptlaw.answering.without_runs import from_studies
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.planning.scenario import Quantity
from cptlaw.runs import Runs, read_runs
from cptlaw.schedules import Schedule

UNREAD = Finding(
    "info", "shift-unread", "the kind of shift that was given is not read: your runs say what the shift does."
)


def answer(
    runs: Any = None,
    *,
    n_params: Quantity = None,
    ptpp: Quantity = None,
    tokens: Quantity = None,
    target_tokens: Quantity = None,
    budget: Quantity = None,
    max_forgetting: Quantity = None,
    max_target_loss: Quantity = None,
    min_score: Any = None,
    max_drop: Any = None,
    base_score: Any = None,
    base_source_loss: Quantity = None,
    base_target_loss: Quantity = None,
    batch_tokens: Quantity = None,
    lr_peak: Quantity = None,
    lr_pretrain: Quantity = None,
    min_replay: Quantity = None,
    max_replay: Quantity = None,
    risk: Quantity = RISK,
    shift: str | None = None,
    base: str | None = None,
    where: str | None = None,
    schedules: Mapping[str, Schedule] | str | Path | None = None,
    seed: int = 0,
) -> Answer:
    """Say what to train, what to expect of both losses, how sure that is, and what to run next.

    Parameters
    ----------
    runs
        A runs table: `Runs`, a DataFrame or a path. Without one the studies of others speak.
    n_params, ptpp
        Parameters of the model, and pre-training tokens per parameter of its base model, where laws read them; `base`
        may say both. Numbers here and below, or texts such as ``"8B"`` and ``"2%"``.
    tokens, target_tokens, budget
        What may be spent, one of them: tokens with replay, unique tokens of the new domain, or FLOPs.
    max_forgetting, max_target_loss
        Limits: the rise of the source loss as a share of the base model's, and the target loss.
    min_score, max_drop, base_score
        Limits in points by benchmark, as ``{"gsm8k": "60%"}``: the least score, the most points to lose; and the base
        model's score where no run measured it.
    base_source_loss, base_target_loss
        The base model's losses where no run measured them; without runs both together say how new the text is to it.
    batch_tokens
        Without runs: tokens of one optimiser step that are asked about, beside those advised.
    lr_peak, lr_pretrain
        Peak rate of CPT, by default the best of those that were run; without runs also that of pre-training.
    min_replay, max_replay
        Range of replay to search, by default the one that was run.
    risk
        Probability with which each limit shall hold, as 0.8 or ``"80%"``.
    shift
        Without runs: what kind of new domain it is, ``"language"``, ``"domain"``, ``"code"`` or ``"near"``; by default
        one unlike the old.
    base
        Name of a known open base model (`bases`), which says ``n_params``, ``ptpp`` and, without runs, ``lr_pretrain``
        where they are not given.
    where
        Filter of rows.
    schedules
        Learning-rate schedules by run, or a schedules file; laws that read them then join.
    seed
        Of the searches.

    Returns
    -------
    Answer
        ``feasible`` is False where no mix keeps the limits.

    Raises
    ------
    UsageError, DataError
        If an argument or a row is unusable.

    Examples
    --------
    >>> import cptlaw as cl
    >>> found = cl.answer(n_params="8B", ptpp=1875, target_tokens="20B", max_forgetting="30%", shift="language")
    >>> found.feasible, found.kind
    (True, 'limited-data')
    """
    question: dict[str, Any] = {
        "n_params": n_params, "ptpp": ptpp, "tokens": tokens, "target_tokens": target_tokens, "budget": budget,
        "max_forgetting": max_forgetting, "max_target_loss": max_target_loss, "min_score": min_score,
        "max_drop": max_drop, "base_score": base_score, "base_source_loss": base_source_loss,
        "base_target_loss": base_target_loss, "batch_tokens": batch_tokens, "lr_peak": lr_peak,
        "lr_pretrain": lr_pretrain, "min_replay": min_replay, "max_replay": max_replay,
    }  # fmt: skip
    if base is not None:
        told = named(base)
        if runs is not None:
            told.pop("lr_pretrain", None)
        question |= {name: value for name, value in told.items() if question[name] is None}
    asked = Asked.read({**question, "risk": risk})
    if runs is None and asked.benchmarks:
        raise UsageError("limits in points (--min, --max-drop) need RUNS with scores: the studies of others have none.")
    if runs is None:
        given = {"where": where, "schedules": schedules, "min_replay": asked.min_replay, "max_replay": asked.max_replay}
        for name, value in given.items():
            if value is not None:
                raise UsageError(
                    f"{name}= (--{name.replace('_', '-')}) chooses among runs or their replay, and no runs were given."
                )
        return from_studies(asked, shift)
    for name in ("lr_pretrain", "batch_tokens"):
        if getattr(asked, name) is not None:
            flag = name.replace("_", "-")
            raise UsageError(
                f"{name}= (--{flag}) is for an answer without RUNS: your table says how its runs were trained."
            )
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    if table.corpora and "replay" not in table.frame.columns:
        found = from_mixes(table, asked, where, seed)
    else:
        found = from_runs(table, asked, where, schedules, seed)
    return found if shift is None else replace(found, findings=by_severity([*found.findings, UNREAD]))
