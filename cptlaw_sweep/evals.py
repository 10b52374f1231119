"""Fixed validation sets, measured in pieces that fit where training fits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from cptlaw_sweep.prepare import Windows, fixed_sample
from cptlaw_sweep.store import Store

# Rows at a time: so many, where they are not more than so many tokens; else the rows of a micro-batch.
ROWS, TOKENS = 32, 2**15


class Eval:
    """A validation set: the same windows in every run.

    Parameters
    ----------
    entry
        What the job says of it: eval, domain, text, split, sequences.
    store
        Where the text is.
    context
        Tokens per window.
    cache
        A local folder for shards of a store that is elsewhere.
    """

    def __init__(self, entry: Mapping[str, Any], store: Store, context: int, cache: Path):
        self.name, self.domain = str(entry["eval"]), entry["domain"]
        windows = Windows(store, entry["text"], entry["split"], context, cache)
        self._rows = windows[fixed_sample(windows, int(entry["sequences"]))]

    def loss(
        self,
        score: Callable[..., torch.Tensor],
        model: object,
        accelerator: Accelerator,
        micro: int,
        precision: Callable[[], contextlib.AbstractContextManager[object]],
    ) -> float:
        """Return the mean cross-entropy in nats per token, summed in float64 over all processes."""
        processes, context = accelerator.num_processes, self._rows.shape[1] - 1
        mine = torch.from_numpy(self._rows[accelerator.process_index :: processes])
        # In single precision a sum over millions of tokens loses the digits in which seeds differ.
        total = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        # Without gradients more rows fit; for long contexts the logits decide, and the micro-batch is known to fit.
        size = max(micro, ROWS) if ROWS * context <= TOKENS else micro
        pieces = [piece for piece in mine.split(size) if len(piece)]
        with torch.no_grad(), precision():
            for piece in pieces:
                total += score(model, piece.to(accelerator.device), "sum").double()
            # Sharded weights are gathered by all processes together: each must call as often as the first.
            for _ in range(math.ceil(math.ceil(len(self._rows) / processes) / size) - len(pieces)):
                score(model, torch.from_numpy(self._rows[:1]).to(accelerator.device), "sum")
        if processes > 1:
            total = accelerator.reduce(total, "sum")
        return float(total) / int(self._rows[:, 1:].size)
