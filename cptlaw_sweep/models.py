"""Models: GPT-2-style decoders by size, any causal LM of transformers from a configuration, or a pre-trained one."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import torch
import transformers
from torch.utils.checkpoint import checkpoint

from cptlaw.errors import DataError, needed_for
from cptlaw_sweep.given_models import content_of, dropout_of
from cptlaw_sweep.sizes import gpt2_settings, piece_tokens
from cptlaw_sweep.specs import LoraSpec, ModelSpec


def config_of(spec: ModelSpec, place: str | None = None) -> object:
    """Return the configuration of transformers for a model; `place` is where a given one lies."""
    try:
        if spec["kind"] == "pretrained":
            return transformers.AutoConfig.from_pretrained(**_source(spec, place))
        if spec["kind"] == "config":
            settings = {"vocab_size": spec["vocabulary"], "max_position_embeddings": spec["context"], **spec["config"]}
            return transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"model {spec.get('name') or place or spec.get('config')}: cannot be configured ({error})."
        ) from None
    return transformers.GPT2Config(**gpt2_settings(spec), use_cache=False, bos_token_id=None, eos_token_id=None)


def _source(spec: ModelSpec, place: str | None) -> dict[str, object]:
    """Return where transformers finds a given model."""
    folder = place or spec.get("place")
    if folder and Path(folder).is_dir():
        if "content" in spec and place and content_of(Path(folder)) != spec["content"]:
            raise DataError(
                f"the model in {folder} is not the one that the recipe was read with. Start the sweep again."
            )
        return {"pretrained_model_name_or_path": folder}
    if "name" not in spec:
        raise DataError(f"the given model is not at {folder}. Every machine that trains must reach it.")
    return {"pretrained_model_name_or_path": spec["name"], "revision": spec["revision"] or "main"}


def build(spec: ModelSpec, seed: int, place: str | None = None) -> transformers.PreTrainedModel:
    """Return a model: initialised from a seed, or with its pre-trained weights; in float32, ready to train."""
    torch.manual_seed(seed)
    config = config_of(spec, place)
    if spec["kind"] != "pretrained":
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    without_dropout(config)
    stored = getattr(config, "dtype", None)
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            **_source(spec, place), config=config, dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        raise DataError(f"model {spec.get('name') or place!r} cannot be loaded ({error}).") from None
    model.stored_dtype = stored  # what it is kept in
    return with_adapters(model, spec["lora"], seed) if "lora" in spec else model


def without_dropout(config: object) -> dict[str, float]:
    """Switch dropout off in a configuration, and return what it was where there was any.

    One pass over much text needs none, and with it a loss in training is not the loss that is measured.
    """
    result = dropout_of(vars(config))
    for name in result:
        setattr(config, name, 0.0)
    return result


def with_adapters(model: object, lora: LoraSpec, seed: int) -> object:
    """Freeze a model and add adapters of low rank to its linear layers, the head left out (arXiv:2106.09685)."""
    with needed_for("lora", "cptlaw[training]"):
        import peft
    torch.manual_seed(seed)
    settings = peft.LoraConfig(
        r=int(lora["rank"]),
        lora_alpha=lora["alpha"],
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return peft.get_peft_model(model, settings)


def load_weights(folder: Path) -> transformers.PreTrainedModel:
    """Return the model that a job of the sweep kept."""
    return transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)


def count_parameters(model: transformers.PreTrainedModel) -> tuple[int, int]:
    """Return (total, without embeddings); shared weights count once, positions and an untied head are embeddings.

    Parameters
    ----------
    model
        A model of transformers, on any device, "meta" included.
    """
    parameters = {id(parameter): parameter.numel() for parameter in model.parameters()}
    embeddings = {
        id(module.weight): module.weight.numel() for module in model.modules() if isinstance(module, torch.nn.Embedding)
    }
    head = model.get_output_embeddings()
    if head is not None:
        embeddings[id(head.weight)] = head.weight.numel()
    total = sum(parameters.values())
    return total, total - sum(embeddings.values())


def sizes_of(spec: ModelSpec) -> tuple[int, int]:
    """Return (total, without embeddings) of a model without allocating it."""
    return _sizes_of(json.dumps(spec))


@lru_cache(maxsize=256)
def _sizes_of(spec: str) -> tuple[int, int]:
    with torch.device("meta"):
        return count_parameters(transformers.AutoModelForCausalLM.from_config(config_of(json.loads(spec))))


def mean_loss(model: transformers.PreTrainedModel, rows_bc: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the cross-entropy of windows (b, c + 1) in nats: each of the c tokens is predicted once."""
    logits_bcv = model(input_ids=rows_bc[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits_bcv.flatten(0, 1).float(), rows_bc[:, 1:].flatten(), reduction=reduction
    )


def enable_loss_in_pieces(model: transformers.PreTrainedModel) -> bool:
    """Let a model take its loss through the tokens in pieces, so that never all logits are held at once.

    The logits of a piece are computed again in the backward pass. The model's ``forward`` then takes ``rows_bc`` and
    ``reduction`` too; what wraps the model for several processes sees an ordinary call.

    Returns
    -------
    bool
        Whether it does: not where the logits are more than a linear function of the last hidden state, as with a soft
        cap. That is tried on a short row.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    backbone, head = getattr(inner, inner.base_model_prefix, None), inner.get_output_embeddings()
    if backbone is None or backbone is inner or head is None:
        return False
    with torch.no_grad():
        ids = torch.arange(8, device=next(model.parameters()).device)[None] % head.weight.shape[0]
        expected = model(input_ids=ids, use_cache=False).logits.float()
        result = head(backbone(input_ids=ids, use_cache=False)[0]).float()
    if expected.shape != result.shape or not torch.allclose(expected, result, rtol=1e-4, atol=1e-5):
        return False
    piece = piece_tokens(int(head.weight.shape[0]))
    plain = inner.forward

    def summed(hidden_tw: torch.Tensor, target_t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(head(hidden_tw).float(), target_t, reduction="sum")

    def forward(*args: object, rows_bc: torch.Tensor | None = None, reduction: str = "mean", **given: object) -> object:
        if rows_bc is None:
            return plain(*args, **given)
        hidden_tw = backbone(input_ids=rows_bc[:, :-1], use_cache=False)[0].flatten(0, 1)
        target_t = rows_bc[:, 1:].flatten()
        total = hidden_tw.new_zeros((), dtype=torch.float32)
        for hidden, target in zip(hidden_tw.split(piece), target_t.split(piece), strict=True):
            if hidden.requires_grad:
                total = total + checkpoint(summed, hidden, target, use_reentrant=False)
            else:
                total = total + summed(hidden, target)
        return total / target_t.numel() if reduction == "mean" else total

    inner.forward = forward
    return True


def loss_in_pieces(model: transformers.PreTrainedModel, rows_bc: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the same as `mean_loss` from a model that `enable_loss_in_pieces` has changed."""
    return model(rows_bc=rows_bc, reduction=reduction)


def recompute_activations(model: transformers.PreTrainedModel) -> None:
    """Keep only the inputs of layers for the backward pass, and compute the rest again."""
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": False})
