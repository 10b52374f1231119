"""NeMo Automodel 0.7: ``automodel FILE``, a recipe of next-token prediction.

It reads plain text only as token ids in Megatron's two files; a corpus of text stands under the name that these are to
have. Its schedules set the rate of a step one step later than the sweep's, and have no exponential end.
"""

from __future__ import annotations

from pathlib import Path

from cptlaw_sweep.foreign.run import Corpus, Run, Settings, yaml_of

FOLDER = "nemo-automodel"
DECAYS = {"linear": "linear", "cosine": "cosine", "constant": "constant", "wsd": "WSD", "wsd-1-sqrt": "WSD"}
SCHEDULES = frozenset({*DECAYS, "inverse-sqrt"})


def files(runs: list[Run]) -> dict[str, str]:
    """Return file -> content, one for each run."""
    return {f"{run.name}.yaml": yaml_of(settings(run), notes(run)) for run in runs}


def notes(run: Run) -> list[str]:
    """Return what the file cannot say of a run."""
    texts = [corpus for corpus in run.corpora if not corpus.is_ids]
    said = [
        f"tokenise {', '.join(corpus.paths)} into {prefixes(corpus)[0]}.bin and .idx, with the model's own tokenizer"
        for corpus in texts
    ]
    return [*said, *run.missing(SCHEDULES)]


def settings(run: Run) -> Settings:
    """Return a configuration."""
    micro, _ = run.batches
    optimizer, dtype = run.definition["optimizer"], run.definition["precision"]
    found: Settings = {
        "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
        "seed": run.seed,
        "step_scheduler": {
            "global_batch_size": int(run.definition["batch"]),
            "local_batch_size": micro,
            "max_steps": run.steps,
            "ckpt_every_steps": run.steps,
        },
        "dist_env": {"backend": "nccl", "timeout_minutes": 10},
        "model": {
            "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
            "pretrained_model_name_or_path": run.model,
            # Weights stay in 32 bits, as in the sweep; what is computed in 16 is said under `distributed`.
            "torch_dtype": "float32",
        },
        "distributed": {
            "strategy": "fsdp2",
            "activation_checkpointing": run.checkpoints_activations,
            "mp_policy": {"param_dtype": "bfloat16" if dtype == "bf16" else "float32", "reduce_dtype": "float32"},
        },
        "loss_fn": {"_target_": "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"},
        "dataset": dataset(run),
        "dataloader": {"dataloader_type": "single"},
        "optimizer": {
            "_target_": "torch.optim.AdamW",
            "lr": float(run.phase["peak"]),
            "betas": [optimizer["beta1"], optimizer["beta2"]],
            "eps": float(optimizer["epsilon"]),
            "weight_decay": float(optimizer["weight_decay"]),
        },
        "lr_scheduler": scheduler(run),
        "clip_grad_norm": {"max_norm": float(optimizer["clip"])},
        "checkpoint": {"enabled": True, "checkpoint_dir": run.name, "save_consolidated": "final"},
    }
    if run.lora:
        found["peft"] = {
            "_target_": "nemo_automodel.components._peft.lora.PeftConfig",
            "match_all_linear": True,
            "dim": run.lora["rank"],
            "alpha": int(run.lora["alpha"]),
        }
    return found


def dataset(run: Run) -> Settings:
    """Return the mix: weights and places, in turn; a corpus of several files shares its weight among them."""
    paths: list[str] = []
    for corpus in run.corpora:
        places = prefixes(corpus)
        for place in places:
            paths += [f"{100 * corpus.share / len(places):.6g}", place]
    return {
        "_target_": "nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretrainingConfig",
        # A dictionary, as a plain list would be split in three, and a part of the corpora never read.
        "paths": {"train": paths},
        "seq_length": int(run.definition["context"]),
        "seed": run.seed,
        "splits_to_build": "train",
    }


def prefixes(corpus: Corpus) -> list[str]:
    """Return the names of a corpus's token ids, without their endings."""
    if corpus.is_ids:
        return list(dict.fromkeys(path.rsplit(".", 1)[0] for path in corpus.paths))
    if corpus.kind is None:
        return [f"{corpus.name}_text_document"]
    return [str(Path(corpus.paths[0]).with_name(f"{corpus.name}_text_document"))]


def scheduler(run: Run) -> Settings:
    """Return the schedule by its names of it."""
    name, peak = run.phase["schedule"], float(run.phase["peak"])
    style = DECAYS.get(name, "constant")
    if name == "inverse-sqrt" and not run.phase.get("decay"):
        style = "inverse-square-root"
    found: Settings = {
        "lr_decay_style": style,
        "lr_warmup_steps": run.warmup,
        "lr_decay_steps": run.steps,
        "init_lr": 0.0 if run.warmup else peak,
        "max_lr": peak,
        "min_lr": peak * run.end_share,
    }
    if style == "WSD":
        found |= {"wsd_decay_steps": run.decay}
        found |= {"lr_wsd_decay_style": "minus_sqrt" if name == "wsd-1-sqrt" else "linear"}
    return found
