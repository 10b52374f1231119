"""What a planned run takes: optimiser steps, passes over the new text, hours of GPUs, days and money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from cptlaw.answering.question import Asked
from cptlaw.answering.result import Answer
from cptlaw.findings import Finding
from cptlaw.planning.cost import Hardware, hardware
from cptlaw.planning.mixes.repetition import worth_of
from cptlaw.units import format_quantity

SURER = (0.95, 0.9)  # of a safer run: the first probability with which there is a mix
MIX = "mix"  # the method of an alternative that is another mix; others are a merge and an adapter


def devices_of(question: Asked) -> Hardware:
    """Return the devices that a question names."""
    return hardware(question.gpus, question.mfu, question.gpu_hour)


def add_costs(answer: Answer, question: Asked) -> Answer:
    """Return an answer with its limits, and with what its run and all that stand beside it take."""
    devices = devices_of(question)
    tokens, batch = answer.tokens, question.batch_tokens or answer.batch_tokens
    own = None if tokens is None else (1.0 - (answer.replay or 0.0)) * tokens
    epochs = None if own is None or question.target_tokens is None else own / question.target_tokens
    spent = devices.cost(answer.flops)
    return replace(
        answer,
        findings=(*answer.findings, *_of_experts(question)),
        steps=None if tokens is None or batch is None else max(1, round(tokens / batch)),
        epochs=epochs,
        epochs_worth=None if epochs is None else float(worth_of(np.asarray(epochs), 1.0)),
        gpu_hours=spent.get("gpu_hours"),
        days=spent.get("days"),
        cost=spent.get("cost"),
        hardware=vars(devices),
        _limits=question.limits,
        alternatives=tuple(
            {**each, **devices.cost(each["flops"])} if "flops" in each else each for each in answer.alternatives
        ),
        options=tuple({**each, **devices.cost(each["flops"])} for each in answer.options),
        next_runs=tuple({**each, **devices.cost(each.get("flops"))} for each in answer.next_runs),
    )


def _of_experts(question: Asked) -> Iterator[Finding]:
    """Say which parameters count for what, where not all of them are active."""
    if question.n_active is not None:
        active, every = (format_quantity(number, 4) for number in (question.trained, question.n_params))
        yield Finding(
            "info",
            "mixture-of-experts",
            f"{active} of {every} parameters are active for a token. FLOPs, hours, pilots and the batch count the "
            "active ones; n_params of the laws and tokens per parameter count all.",
            "The studies behind laws and priors are of dense models: measure a pilot before you rely on a loss.",
            data={"n_active": question.trained, "n_params": question.n_params},
        )


def lowest_probability(probabilities: Mapping[str, float]) -> float | None:
    """Return how likely the limit holds that is kept least surely; ``None`` without a limit."""
    return min(probabilities.values()) if probabilities else None
