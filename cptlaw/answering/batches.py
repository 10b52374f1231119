"""Batch and rate: a valley in the logs of both, measured in pre-training (`python -m studies rates_and_batches`).

Twice the batch at the same rate costs more than twice the batch with the rate that goes with it. 687 runs of 48M to
589M parameters on 6 to 300 billion tokens (OpenEuroLLM/dense_english_scaling_laws); no study of continual pre-training
varies the batch at such sizes.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cptlaw.schedules.valley import Valley

LEAST_STEPS = 1000  # of a run: fewer leave a schedule without shape, so that a short run takes a smaller batch
MEASURED = "measured in pre-training of 48M to 589M parameters"


@cache
def valley() -> Valley:
    """Return what was measured; the file is part of the package."""
    return Valley(**json.loads(Path(__file__).with_name("batches.json").read_text(encoding="utf-8")))


def recommend_batch(n_params: float, pt_tokens: float, tokens: float, given: float | None) -> dict[str, Any]:
    """Return the batch to take as fields of an answer, and what half and twice of it cost.

    Which tokens count in continual pre-training is not settled: those of the run alone make the low end, those of
    pre-training with them (as arXiv:2606.05610 has it for compute) the high one; advised is the middle, in logs, or
    less where that would leave the run fewer than `LEAST_STEPS` steps.

    Parameters
    ----------
    n_params, pt_tokens, tokens
        Parameters that a token trains, the pre-training tokens of the base model, and the tokens of the run.
    given
        A batch that is asked about, in tokens.
    """
    law = valley()
    low, high = (float(law.best(n_params, seen)[1]) for seen in (tokens, tokens + pt_tokens))
    centre = float(np.sqrt(low * high))
    best = min(centre, max(low, tokens / LEAST_STEPS))
    asked = given or best
    options = []
    for factor in (0.5, 1.0, 2.0):
        rise, least = law.beside(float(np.log(factor * asked / centre)))
        options.append(
            {
                "batch_tokens": factor * asked,
                "loss_rise": rise,
                "lr_factor": factor**law.slope,
                "loss_rise_at_it": least,
            }
        )
    return {"batch_tokens": best, "batch_tokens_lo": low, "batch_tokens_hi": high, "batch_options": tuple(options)}
