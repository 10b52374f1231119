"""All that training needs to go on: weights, both moments of AdamW and the state of random numbers, as safetensors.

Each process writes the part that it holds. Where weights are sharded, parts lie along their first axis, so that another
number of processes can put them together and cut them anew. Nothing here is a pickle.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]

NOTES = "training.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


def local(tensor: torch.Tensor) -> torch.Tensor:
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
        result[f"weight.{name}"] = _copy(parameter)
        state = optimizer.state.get(parameter)
        if state:
            result |= {f"{moment}.{name}": _copy(state[moment]) for moment in MOMENTS}
            result[f"step.{name}"] = _copy(state["step"])
    result |= {f"buffer.{name}": _copy(buffer) for name, buffer in model.named_buffers()}
    return result


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return local(tensor.detach()).to("cpu", copy=True).contiguous()


def write(folder: Path, tensors: Tensors, part: int, parts: int, *, sharded: bool) -> None:
    """Write the part of one process into a folder that all processes share."""
    save_file(tensors, str(folder / _name(part, parts)))
    if part == 0:
        (folder / NOTES).write_text(json.dumps({"version": 2, "parts": parts, "sharded": sharded}), encoding="utf-8")


def _name(part: int, parts: int) -> str:
    return f"training-{part:05d}-of-{parts:05d}.safetensors"


def load(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, part: int, parts: int) -> None:
    """Load a state into a model and its optimiser.

    Parameters
    ----------
    folder
        As `write` left it; or as sweeps of version 0.1 did (weights as safetensors, the optimiser beside them).
    model, optimizer
        What to load it into; the model may be sharded.
    part, parts
        This process, and how many there are.

    Raises
    ------
    ValueError, KeyError, OSError, RuntimeError
        If the folder holds no state of this model.
    """
    if not (folder / NOTES).exists():
        _load_earlier(folder, model, optimizer)
        return
    notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
    there = int(notes["parts"])
    own = folder / _name(part if part < there else 0, there)
    read: _Whole | _Sharded
    if not notes["sharded"]:
        read = _Whole(folder / _name(0, there))
    else:
        read = _Sharded([folder / _name(index, there) for index in range(there)])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local(parameter).copy_(read.part(f"weight.{name}", parameter, part, parts))
            if f"exp_avg.{name}" not in read:
                continue
            state = {moment: torch.zeros_like(parameter, dtype=torch.float32) for moment in MOMENTS}
            for moment, tensor in state.items():
                local(tensor).copy_(read.part(f"{moment}.{name}", parameter, part, parts))
            state["step"] = read.whole(f"step.{name}").to(parameter.device)
            optimizer.state[parameter] = state
        for name, buffer in model.named_buffers():
            buffer.copy_(read.whole(f"buffer.{name}"))
    with safe_open(str(own), "pt") as file:  # type: ignore[no-untyped-call, unused-ignore]
        torch.set_rng_state(file.get_tensor("random.cpu"))
        names = file.keys()  # type: ignore[no-untyped-call, unused-ignore]
        if "random.cuda" in names and torch.cuda.is_available():
            torch.cuda.set_rng_state(file.get_tensor("random.cuda"))


class _Whole:
    """A state of which one process wrote everything."""

    def __init__(self, path: Path):
        self._tensors = load_file(str(path))

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def whole(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def part(self, name: str, like: torch.Tensor, part: int, parts: int) -> torch.Tensor:
        return _cut(self.whole(name), like, part, parts)


class _Sharded:
    """A state in parts along the first axis of each tensor; read tensor by tensor."""

    def __init__(self, paths: list[Path]):
        self._files: list[Any] = [safe_open(str(path), "pt") for path in paths]  # type: ignore[no-untyped-call, unused-ignore]
        self._names = set(self._files[0].keys())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def whole(self, name: str) -> torch.Tensor:
        result: torch.Tensor = self._files[0].get_tensor(name)
        return result

    def part(self, name: str, like: torch.Tensor, part: int, parts: int) -> torch.Tensor:
        if len(self._files) == parts and hasattr(like, "to_local"):
            own: torch.Tensor = self._files[part].get_tensor(name)
            return own
        return _cut(torch.cat([file.get_tensor(name) for file in self._files]), like, part, parts)


def _cut(tensor: torch.Tensor, like: torch.Tensor, part: int, parts: int) -> torch.Tensor:
    """Return what of a whole tensor this process holds."""
    if not hasattr(like, "to_local"):
        return tensor
    pieces = tensor.chunk(parts)
    return pieces[part] if part < len(pieces) else tensor[:0]


def _load_earlier(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    missing = model.load_state_dict(load_file(str(folder / "model.safetensors")), strict=False)
    unknown = [name for name in missing.missing_keys if "lm_head" not in name]  # tied heads are stored once
    if unknown or missing.unexpected_keys:
        raise ValueError(f"the state is of another model ({', '.join([*unknown, *missing.unexpected_keys][:3])})")
    moments = torch.load(str(folder / "optimizer.bin"), map_location="cpu", weights_only=True)
    optimizer.load_state_dict(moments)


def gathered(model: torch.nn.Module, *, keep: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each parameter and buffer whole; all processes must take part, and those that keep nothing hold nothing."""
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        if keep:
            yield name, full.detach().to("cpu", copy=True)


class Writer:
    """Writes one thing at a time beside the training, and tells its errors when asked."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin to write, once what was begun before is done."""
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  it belongs to the run, and is raised there
                self._error = error

        self._thread = threading.Thread(target=run, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait for what is being written.

        Raises
        ------
        OSError
            Or whatever else stopped it.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
