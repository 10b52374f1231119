"""All that training needs to go on: weights, both moments of AdamW and the state of random numbers, as safetensors.

Each process writes the part that it holds. Where weights are sharded, parts lie along their first axis, so that another
number of processes can put them together and cut them anew. Nothing here is a pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]

NOTES = "training.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor that this process holds: all of it, unless it is sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[no-any-return, unused-ignore]


def snapshot(model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, whole: bool) -> Tensors:
    """Copy the state to the memory of the host, so that it can be written while training goes on.

    Parameters
    ----------
    model
        Before it was wrapped for several processes.
    optimizer
        AdamW.
    whole
        Whether this process writes weights and moments; another than the first need not where all hold the same.
    """
    result: Tensors = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        result["random.cuda"] = torch.cuda.get_rng_state()
    if not whole:
        return result
    for name, parameter in model.named_parameters():
        result[f"weight.{name}"] = _copy_on_host(parameter)
        state = optimizer.state.get(parameter)
        if state:
            result |= {f"{moment}.{name}": _copy_on_host(state[moment]) for moment in MOMENTS}
            result[f"step.{name}"] = _copy_on_host(state["step"])
    result |= {f"buffer.{name}": _copy_on_host(buffer) for name, buffer in model.named_buffers()}
    return result


def _copy_on_host(tensor: torch.Tensor) -> torch.Tensor:
    return local_part(tensor.detach()).to("cpu", copy=True).contiguous()


def write(folder: Path, tensors: Tensors, part: int, parts: int, *, sharded: bool) -> None:
    """Write the part of one process into a folder that all processes share."""
    save_file(tensors, str(folder / _shard_name(part, parts)))
    if part == 0:
        (folder / NOTES).write_text(json.dumps({"version": 2, "parts": parts, "sharded": sharded}), encoding="utf-8")


def _shard_name(part: int, parts: int) -> str:
    return f"training-{part:05d}-of-{parts:05d}.safetensors"


def load(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, part: int, parts: int) -> None:
    """Load a state into a model and its optimiser.

    Parameters
    ----------
    folder
        As `write` left it.
    model, optimizer
        What to load it into; the model may be sharded.
    part, parts
        This process, and how many there are.

    Raises
    ------
    ValueError, KeyError, OSError, RuntimeError
        If the folder holds no state of this model.
    """
    notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
    there = int(notes["parts"])
    own = folder / _shard_name(part if part < there else 0, there)
    read = _Parts([folder / _shard_name(index, there) for index in range(there if notes["sharded"] else 1)])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local_part(parameter).copy_(read.part(f"weight.{name}", parameter, part, parts))
            if f"exp_avg.{name}" not in read:
                continue
            state = {moment: torch.zeros_like(parameter, dtype=torch.float32) for moment in MOMENTS}
            for moment, tensor in state.items():
                local_part(tensor).copy_(read.part(f"{moment}.{name}", parameter, part, parts))
            state["step"] = read.first(f"step.{name}").to(parameter.device)
            optimizer.state[parameter] = state
        for name, buffer in model.named_buffers():
            buffer.copy_(read.first(f"buffer.{name}"))
    with safe_open(str(own), "pt") as file:  # type: ignore[no-untyped-call, unused-ignore]
        torch.set_rng_state(file.get_tensor("random.cpu"))
        names = file.keys()  # type: ignore[no-untyped-call, unused-ignore]
        if "random.cuda" in names and torch.cuda.is_available():
            torch.cuda.set_rng_state(file.get_tensor("random.cuda"))


class _Parts:
    """A state in parts along the first axis of each tensor, or in one; read tensor by tensor."""

    def __init__(self, paths: list[Path]):
        self._files: list[Any] = [safe_open(str(path), "pt") for path in paths]  # type: ignore[no-untyped-call, unused-ignore]
        self._names = set(self._files[0].keys())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def first(self, name: str) -> torch.Tensor:
        """Return what the first process wrote of a tensor."""
        result: torch.Tensor = self._files[0].get_tensor(name)
        return result

    def part(self, name: str, like: torch.Tensor, part: int, parts: int) -> torch.Tensor:
        """Return what of a tensor this process holds."""
        if len(self._files) == parts > 1 and hasattr(like, "to_local"):
            own: torch.Tensor = self._files[part].get_tensor(name)
            return own
        every = [file.get_tensor(name) for file in self._files]
        return _part_of_tensor(torch.cat(every) if len(every) > 1 else every[0], like, part, parts)


def _part_of_tensor(tensor: torch.Tensor, like: torch.Tensor, part: int, parts: int) -> torch.Tensor:
    """Return what of a whole tensor this process holds."""
    if not hasattr(like, "to_local"):
        return tensor
    pieces = tensor.chunk(parts)
    return pieces[part] if part < len(pieces) else tensor[:0]


def gathered_weights(model: torch.nn.Module, *, keep: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each parameter and buffer whole; all processes must take part, and those that keep nothing hold nothing."""
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        if keep:
            yield name, full.detach().to("cpu", copy=True)
