"""A model between its base and what training has made of it so far, without a copy on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from cptlaw_sweep.state import local_part


class Between:
    """Holds the weights that a run starts from, to evaluate base + weight * (adapted - base) on its way.

    Parameters
    ----------
    model
        As it is before the first step; a process that shards it holds its own part alone. Adapters start from nothing,
        so that they are scaled, and no weights are held.
    """

    def __init__(self, model: torch.nn.Module):
        self._model = model
        self._adapters = [module for module in model.modules() if hasattr(module, "lora_A")]
        self._base = [] if self._adapters else _weight_copies(model)

    @contextlib.contextmanager
    def at(self, weight: float) -> Iterator[None]:
        """Hold the model at a weight meanwhile; afterwards it is what it was, to the last bit."""
        scales = [dict(module.scaling) for module in self._adapters]  # type: ignore[arg-type, unused-ignore]
        adapted = _weight_copies(self._model) if self._base else []
        try:
            for module, scale in zip(self._adapters, scales, strict=True):
                module.scaling.update({name: weight * value for name, value in scale.items()})  # type: ignore[union-attr, operator, unused-ignore]
            self._write([base + weight * (own - base) for base, own in zip(self._base, adapted, strict=True)])
            yield
        finally:
            for module, scale in zip(self._adapters, scales, strict=True):
                module.scaling.update(scale)  # type: ignore[union-attr, operator, unused-ignore]
            self._write(adapted)

    def _write(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self._model.parameters() if values else (), values, strict=True):
                local_part(parameter).copy_(value)


def _weight_copies(model: torch.nn.Module) -> list[torch.Tensor]:
    return [local_part(parameter.detach()).to("cpu", copy=True) for parameter in model.parameters()]
