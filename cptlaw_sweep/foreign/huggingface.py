"""Hugging Face: what `transformers.TrainingArguments` takes; ``HfArgumentParser.parse_yaml_file`` reads it.

It cannot say the model, the mix, the length of rows and adapters, which are given to the Trainer beside it: they stand
in comments. Its schedules set the rate of a step one step later than the sweep's.
"""

from __future__ import annotations

from cptlaw_sweep.foreign.run import Run, Settings, yaml_of

FOLDER = "huggingface"
SCHEDULES = frozenset({"constant", "linear", "cosine", "wsd", "wsd-1-sqrt", "inverse-sqrt"})


def files(runs: list[Run]) -> dict[str, str]:
    """Return file -> content, one for each run."""
    return {f"{run.name}.yaml": yaml_of(training_arguments(run), notes(run)) for run in runs}


def notes(run: Run) -> list[str]:
    """Return what these arguments cannot say of a run."""
    mix = ", ".join(f"{corpus.share:.4g} {corpus.name}" for corpus in run.corpora)
    said = [f"model {run.model}; rows of {run.definition['context']} tokens, whole; mix of the rows: {mix}"]
    if run.lora:
        said.append(f"adapters on all linear layers: rank {run.lora['rank']}, alpha {run.lora['alpha']:g}")
    # The callback is named here, since it does both of what the sweep would have done beside the training.
    return [*said, *run.missing(SCHEDULES), "cptlaw_sweep.integrations.TrainerCallback measures and forecasts them"]


def training_arguments(run: Run) -> Settings:
    """Return the arguments by name."""
    micro, accumulation = run.batches
    optimizer = run.definition["optimizer"]
    found: Settings = {
        "output_dir": run.name,
        "max_steps": run.steps,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": run.phase["peak"],
        "warmup_steps": run.warmup,
        **scheduler(run),
        "weight_decay": optimizer["weight_decay"],
        "adam_beta1": optimizer["beta1"],
        "adam_beta2": optimizer["beta2"],
        "adam_epsilon": optimizer["epsilon"],
        "max_grad_norm": optimizer["clip"],
        "bf16": run.definition["precision"] == "bf16",
        "seed": run.seed,
        "eval_on_start": True,
        "report_to": "none",
    }
    # Said only where it is on: newer versions have another name for it, and warn of this one.
    return {**found, "gradient_checkpointing": True} if run.checkpoints_activations else found


def scheduler(run: Run) -> Settings:
    """Return the schedule as transformers names it."""
    name, end = run.phase["schedule"], run.end_share
    if name == "cosine":
        kwargs = {"lr_scheduler_kwargs": {"min_lr_rate": end}} if end else {}
        return {"lr_scheduler_type": "cosine_with_min_lr" if end else "cosine", **kwargs}
    if name == "linear" and not end:
        return {"lr_scheduler_type": "linear"}
    if name in ("wsd", "wsd-1-sqrt", "linear"):
        # A linear schedule that ends above 0 is one that decays from the end of its warm-up on.
        shape = {
            "num_decay_steps": run.decay,
            "num_stable_steps": run.steps - run.warmup - run.decay,
            "decay_type": "1-sqrt" if name == "wsd-1-sqrt" else "linear",
            "min_lr_ratio": end,
        }
        return {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": shape}
    if name == "inverse-sqrt" and not run.phase.get("decay"):
        return {"lr_scheduler_type": "inverse_sqrt"}
    return {"lr_scheduler_type": "constant_with_warmup"}
