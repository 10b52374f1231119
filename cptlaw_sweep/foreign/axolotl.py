"""axolotl: ``axolotl train FILE``.

It cannot weigh corpora (they mix by their sizes) nor read token ids: runs of those are left out.
"""

from __future__ import annotations

from cptlaw_sweep.foreign import huggingface
from cptlaw_sweep.foreign.run import Corpus, Run, Settings, yaml_of

FOLDER = "axolotl"
# Arguments that have the name which transformers gives them.
SAME = (
    *("output_dir", "max_steps", "learning_rate", "warmup_steps", "weight_decay", "adam_beta1", "adam_beta2"),
    *("adam_epsilon", "max_grad_norm", "gradient_accumulation_steps", "bf16", "seed", "lr_scheduler_kwargs"),
)


def files(runs: list[Run]) -> dict[str, str]:
    """Return file -> content, one for each run."""
    return {f"{run.name}.yaml": yaml_of(settings(run), notes(run)) for run in runs if not run.has_ids}


def notes(run: Run) -> list[str]:
    """Return what the file cannot say of a run."""
    said = run.missing(huggingface.SCHEDULES)
    if len(run.corpora) > 1:
        wanted = ", ".join(f"{corpus.share:.4g} {corpus.name}" for corpus in run.corpora)
        said.insert(0, f"axolotl mixes corpora by their sizes: repeat or cut the files until they are {wanted}")
    return said


def settings(run: Run) -> Settings:
    """Return a configuration."""
    arguments = huggingface.training_arguments(run)
    found: Settings = {
        "base_model": run.model,
        "datasets": [dataset(corpus) for corpus in run.corpora],
        "sequence_len": int(run.definition["context"]),
        "sample_packing": True,
        "pad_to_sequence_len": True,
        "micro_batch_size": arguments["per_device_train_batch_size"],
        "optimizer": "adamw_torch",
        "lr_scheduler": arguments["lr_scheduler_type"],
        "val_set_size": 0.0,
        "gradient_checkpointing": run.checkpoints_activations,
        **{name: arguments[name] for name in SAME if name in arguments},
    }
    if run.lora:
        found |= {"adapter": "lora", "lora_r": run.lora["rank"], "lora_alpha": int(run.lora["alpha"])}
        found |= {"lora_target_linear": True}
    return found


def dataset(corpus: Corpus) -> Settings:
    """Return a corpus: whole texts, all of whose tokens are learned."""
    found: Settings = {"path": corpus.paths[0], "type": "completion", "field": corpus.field}
    if corpus.kind is None:
        place = {"name": corpus.source["config"], "split": corpus.source["split"]}
        return {**found, **{key: value for key, value in place.items() if value}}
    return {**found, "ds_type": corpus.kind, "data_files": corpus.paths}
