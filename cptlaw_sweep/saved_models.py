"""Models that a sweep keeps, as folders that transformers reads: weights, tokenizer, and a card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cptlaw.units import format_quantity
from cptlaw_sweep import tokenizers
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.specs import MeasuredRow
from cptlaw_sweep.state import gathered_weights
from cptlaw_sweep.store import Store
from cptlaw_sweep.templating import render

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def folder_of(job_id: str, step: int) -> str:
    """Return where the store keeps the model of a run at a step."""
    return f"kept/{job_id}/step-{step}"


def kept_steps(store: Store, job_id: str) -> list[int]:
    """Return the steps at which a run's models are kept, in order."""
    names = store.names(f"kept/{job_id}")
    return sorted(int(name.removeprefix("step-")) for name in names if name.startswith("step-"))


def is_kept(job: Job, rows: list[MeasuredRow], step: int) -> bool:
    """Whether the model of a run is kept at a step at which it was measured last."""
    kept = job.definition.get("kept")
    if kept == "all":
        return step > 0
    if kept == "last":
        return step == int(job.definition["steps"][1])
    if kept == "best":
        targets = [row for row in rows if row["eval"] == "target" and row["step"] > 0 and "merge_weight" not in row]
        # Of equal losses the first, so that a resumed run keeps the same one.
        lowest = min(targets, key=lambda row: (row["loss"], row["step"]), default=None)
        return lowest is not None and lowest["step"] == step
    return False


def save_model(model: PreTrainedModel, folder: Path, *, main: bool) -> None:
    """Save the weights of a model, adapters merged, in the precision that the model came in.

    Parameters
    ----------
    model
        Before it was wrapped; all processes must call.
    main
        Whether this process writes.
    """
    weights = dict(gathered_weights(model, keep=main))
    if not main:
        return
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    if whole is not model:
        weights = _with_adapters(model, weights)
    dtype = getattr(whole, "stored_dtype", None)
    if isinstance(dtype, torch.dtype) and dtype != torch.float32:
        weights = {name: each.to(dtype) if each.is_floating_point() else each for name, each in weights.items()}
    if getattr(whole.config, "tie_word_embeddings", False):
        # A tied head would be written twice.
        tied = whole.get_output_embeddings()
        weights = {name: each for name, each in weights.items() if tied is None or not name.endswith("lm_head.weight")}
    whole.save_pretrained(str(folder), state_dict=weights)


def _with_adapters(model: PreTrainedModel, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return weights with adapters added in, under the names of the model without them."""
    prefix, merged = "base_model.model.", {}
    deltas = {
        f"{name}.base_layer.weight": module.get_delta_weight("default").detach().cpu()
        for name, module in model.named_modules()
        if hasattr(module, "get_delta_weight") and hasattr(module, "base_layer")
    }
    for name, tensor in weights.items():
        if ".lora_" in name:
            continue
        plain = name.removeprefix(prefix).replace(".base_layer.", ".")
        # Added in the precision of training and only then rounded to that of the file, or small adapters would be lost.
        merged[plain] = tensor + deltas[name].to(tensor.dtype) if name in deltas else tensor
    return merged


def finish_folder(folder: Path, job: Job, store: Store, step: int, rows: list[MeasuredRow]) -> None:
    """Add tokenizer and card to the folder of a kept model."""
    spec = job.run.get("tokenizer")
    if spec is not None:
        tokenizers.as_pretrained(spec, store, job.places.get("tokenizer")).save_pretrained(str(folder))
    (folder / "README.md").write_text(card(job, step, rows), encoding="utf-8")


def card(job: Job, step: int, rows: list[MeasuredRow]) -> str:
    """Return the card of a kept model."""
    size, tokens = (float(n) for n in (job.columns["n_params"], step * int(job.columns["batch_tokens"])))
    return render(
        "kept_model.md",
        job=job,
        step=step,
        size=format_quantity(size),
        tokens=format_quantity(tokens),
        rows=[row for row in rows if row["step"] == step and "merge_weight" not in row],
    )
