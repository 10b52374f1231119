"""cptlaw inside other trainers: a callback of Hugging Face's Trainer, a Stopper of Ray Tune, a pruner of Optuna.

>>> from cptlaw.integrations import StopRule
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cptlaw.integrations.stopping import Advice, StopRule

if TYPE_CHECKING:
    from cptlaw.integrations.huggingface import TrainerCallback
    from cptlaw.integrations.optuna_pruner import LawPruner
    from cptlaw.integrations.ray_stopper import LawStopper

# Each needs the library that it is for, and is loaded on first use.
_HOMES = {
    "LawPruner": "cptlaw.integrations.optuna_pruner",
    "LawStopper": "cptlaw.integrations.ray_stopper",
    "TrainerCallback": "cptlaw.integrations.huggingface",
}

__all__ = ["Advice", "LawPruner", "LawStopper", "StopRule", "TrainerCallback"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cptlaw.integrations' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
