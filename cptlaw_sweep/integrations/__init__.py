"""cptlaw inside other trainers: a callback of Hugging Face's Trainer, a Stopper of Ray Tune, a pruner of Optuna.

>>> from cptlaw_sweep.integrations import StopRule
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cptlaw_sweep.integrations.stopping import Advice, StopRule

if TYPE_CHECKING:
    from cptlaw_sweep.integrations.huggingface import TrainerCallback
    from cptlaw_sweep.integrations.optuna_pruner import LawPruner
    from cptlaw_sweep.integrations.ray_stopper import LawStopper

# Each needs the library that it is for, and is loaded on first use.
_HOMES = {
    "LawPruner": "cptlaw_sweep.integrations.optuna_pruner",
    "LawStopper": "cptlaw_sweep.integrations.ray_stopper",
    "TrainerCallback": "cptlaw_sweep.integrations.huggingface",
}

__all__ = ["Advice", "LawPruner", "LawStopper", "StopRule", "TrainerCallback"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cptlaw_sweep.integrations' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
