"""One run in several processes: rows shared (DistributedDataParallel), or weights sharded too (FSDP2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from accelerate import Accelerator


def wrap(model: torch.nn.Module, accelerator: Accelerator, *, shard: bool, bf16: bool) -> torch.nn.Module:
    """Return a model as it is called in training, on its device.

    Parameters
    ----------
    accelerator
        Device and processes.
    shard
        Whether each process holds a part of weights, gradients and optimiser state (FSDP2, arXiv:2304.11277 and
        torch's ``fully_shard``) instead of all.
    """
    if accelerator.num_processes == 1:
        return model.to(accelerator.device)
    if not shard:
        model = model.to(accelerator.device)
        ids = [accelerator.device.index] if accelerator.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if bf16 else None
    options: dict[str, object] = {"mesh": mesh, **({"mp_policy": policy} if policy else {})}
    for layer in _decoder_layers(model):
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model.to(accelerator.device)


def _decoder_layers(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the layers of a decoder: the members of its largest list of modules."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    if lists:
        yield from max(lists, key=lambda each: sum(parameter.numel() for parameter in each.parameters()))


@contextlib.contextmanager
def without_sync(model: torch.nn.Module) -> Iterator[None]:
    """Add up gradients without exchanging them: more of the step is to come."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        with model.no_sync():
            yield
    elif hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)
    else:
        yield


def drop_gathered(model: torch.nn.Module) -> None:
    """Give sharded weights back that a forward pass without a backward pass has gathered and left so."""
    for module in model.modules():
        if hasattr(module, "reshard"):
            module.reshard()
