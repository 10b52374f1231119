"""Runs of a sweep as configurations of other trainers: Hugging Face's TrainingArguments, LLaMA-Factory, axolotl.

Each is what that trainer reads, as far as it can say the same: model, mix, length, batch, optimiser and learning rate.
What it cannot say is named in a comment at the top of the file. Schedules become the trainer's own where it has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from cptlaw.training.instructions import plain_name
from cptlaw.training.jobs import Job, Sweep

Settings = dict[str, Any]


def write_foreign(sweep: Sweep, folder: Path) -> list[Path]:
    """Write each run of continual pre-training of a given model as a configuration of each trainer.

    Parameters
    ----------
    sweep
        The jobs. Those of models that the sweep itself makes are left out: no other trainer has them yet.
    folder
        Gets a folder for each trainer.
    """
    jobs = [job for job in sweep.jobs if job.kind == "adapt" and job.definition["model"]["kind"] == "pretrained"]
    files = []
    datasets: Settings = {}
    for job in jobs:
        name = plain_name(job.name)
        notes = missing(job)
        arguments, factory, axolotl = training_arguments(job), llama_factory(job, sweep), axolotl_of(job, sweep)
        files.append(_write(folder / "huggingface" / f"{name}.json", json.dumps(arguments, indent=2) + "\n"))
        files.append(_write(folder / "llama-factory" / f"{name}.yaml", _yaml(factory, notes)))
        files.append(_write(folder / "axolotl" / f"{name}.yaml", _yaml(axolotl, notes)))
        datasets |= {text: _dataset_info(source) for text, source, _ in corpora(job, sweep)}
    if jobs:
        path = folder / "llama-factory" / "dataset_info.json"
        files.append(_write(path, json.dumps(datasets, indent=2) + "\n"))
    return files


def corpora(job: Job, sweep: Sweep) -> list[tuple[str, Settings, float]]:
    """Return (name, source, share of the rows) of each corpus of a run's mix."""
    mix = job.definition["mix"]
    texts = mix["texts"]
    if "weights" in mix:
        shares = [Fraction(weight) for weight in mix["weights"]]
    else:
        shares = [Fraction(mix["share"]), 1 - Fraction(mix["share"])][: len(texts)]
    return [
        (sweep.texts[key]["name"], sweep.texts[key]["source"], float(share))
        for key, share in zip(texts, shares, strict=True)
    ]


def training_arguments(job: Job) -> Settings:
    """Return what `transformers.TrainingArguments` takes; ``HfArgumentParser.parse_json_file`` reads it."""
    definition = job.definition
    (phase,) = definition["phases"]
    micro, accumulation = _batches(job)
    optimizer = definition["optimizer"]
    return {
        "output_dir": plain_name(job.name),
        "max_steps": int(definition["steps"][1]),
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": phase["peak"],
        "warmup_steps": int(phase.get("warmup", 0)),
        **_scheduler(phase),
        "weight_decay": optimizer["weight_decay"],
        "adam_beta1": optimizer["beta1"],
        "adam_beta2": optimizer["beta2"],
        "adam_epsilon": optimizer["epsilon"],
        "max_grad_norm": optimizer["clip"],
        "bf16": definition["precision"] == "bf16",
        "gradient_checkpointing": bool(job.run.get("activation_checkpointing")),
        "seed": int(definition["mix"]["seed"]) % 2**31,
        "eval_on_start": True,
        "report_to": "none",
    }


def llama_factory(job: Job, sweep: Sweep) -> Settings:
    """Return a configuration of LLaMA-Factory: ``llamafactory-cli train FILE``."""
    parts = corpora(job, sweep)
    shared = {name: value for name, value in training_arguments(job).items() if name != "eval_on_start"}
    lora = job.definition["model"].get("lora")
    found: Settings = {
        "model_name_or_path": job.places["model"],
        "stage": "pt",
        "do_train": True,
        "finetuning_type": "lora" if lora else "full",
        "dataset": ",".join(name for name, _, _ in parts),
        "dataset_dir": ".",
        "cutoff_len": int(job.definition["context"]),
        "packing": True,
        **shared,
    }
    if lora:
        found |= {"lora_rank": lora["rank"], "lora_alpha": int(lora["alpha"]), "lora_target": "all"}
    if len(parts) > 1:
        found |= {"mix_strategy": "interleave_over", "interleave_probs": ",".join(f"{share:g}" for *_, share in parts)}
    return found


def axolotl_of(job: Job, sweep: Sweep) -> Settings:
    """Return a configuration of axolotl: ``axolotl train FILE``."""
    arguments = training_arguments(job)
    lora = job.definition["model"].get("lora")
    schedule = arguments["lr_scheduler_type"]
    found: Settings = {
        "base_model": job.places["model"],
        "datasets": [
            {"path": _paths(source)[0], "ds_type": _kind(source), "data_files": _paths(source), "type": "completion",
             "field": source.get("field", "text")}
            for _, source, _ in corpora(job, sweep)
        ],
        "sequence_len": int(job.definition["context"]),
        "sample_packing": True,
        "pad_to_sequence_len": True,
        "micro_batch_size": arguments["per_device_train_batch_size"],
        "gradient_accumulation_steps": arguments["gradient_accumulation_steps"],
        "optimizer": "adamw_torch",
        "lr_scheduler": schedule,
        "lr_scheduler_kwargs": arguments.get("lr_scheduler_kwargs"),
        "val_set_size": 0.0,
        **{
            name: arguments[name]
            for name in (
                *("output_dir", "max_steps", "learning_rate", "warmup_steps", "weight_decay", "adam_beta1"),
                *("adam_beta2", "adam_epsilon", "max_grad_norm", "bf16", "gradient_checkpointing", "seed"),
            )
        },
    }  # fmt: skip
    if lora:
        found |= {"adapter": "lora", "lora_r": lora["rank"], "lora_alpha": int(lora["alpha"])}
        found |= {"lora_target_linear": True}
    return {name: value for name, value in found.items() if value is not None}


def missing(job: Job) -> list[str]:
    """Return what these trainers cannot say of a run."""
    (phase,) = job.definition["phases"]
    said = []
    if phase["schedule"] not in ("constant", "linear", "cosine", "wsd"):
        said.append(f"the schedule {phase['schedule']} is written as constant: give the rates by hand")
    if len(job.definition["mix"]["texts"]) > 1:
        said.append(
            "axolotl mixes corpora by their sizes: repeat or cut the files to the shares in the name of the run"
        )
    if "pools" in job.definition["mix"]:
        said.append("pools of tokens are not known here: cut the files")
    if job.definition["start"].get("state"):
        said.append("the state of the optimiser is not carried")
    return said


def _batches(job: Job) -> tuple[int, int]:
    """Return rows per forward pass of one process, and passes per step."""
    processes = int(job.run.get("processes") or 1) * int(job.run.get("nodes") or 1)
    own = int(job.definition["batch"]) // processes
    micro = int(job.definition["micro_batch"]) or own
    return micro, own // micro


def _scheduler(phase: Mapping[str, Any]) -> Settings:
    """Return the schedule as transformers names it."""
    steps, end, peak = int(phase["steps"]), float(phase.get("end") or 0.0), float(phase["peak"])
    warmup = int(phase.get("warmup", 0))
    if phase["schedule"] == "cosine" and end:
        return {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": end / peak}}
    if phase["schedule"] == "cosine":
        return {"lr_scheduler_type": "cosine"}
    if phase["schedule"] == "linear" and not end:
        return {"lr_scheduler_type": "linear"}
    if phase["schedule"] in ("wsd", "linear"):
        decay = int(phase.get("decay", steps - warmup))
        kwargs = {"num_decay_steps": decay, "num_stable_steps": steps - warmup - decay, "decay_type": "linear"}
        kwargs |= {"min_lr_ratio": end / peak}
        return {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": kwargs}
    return {"lr_scheduler_type": "constant_with_warmup"}


def _paths(source: Mapping[str, Any]) -> list[str]:
    return [entry["path"] for entry in source["files"]] if "files" in source else [str(source["dataset"])]


def _kind(source: Mapping[str, Any]) -> str | None:
    """Return the format of a source, as libraries of data sets name it."""
    if "files" not in source:
        return None
    name = str(source["files"][0]["path"])
    return "parquet" if name.endswith(".parquet") else "json" if ".jsonl" in name or ".ndjson" in name else "text"


def _dataset_info(source: Mapping[str, Any]) -> Settings:
    if "files" not in source:
        place = {"hf_hub_url": source["dataset"], "subset": source["config"], "split": source["split"]}
        return {**{key: value for key, value in place.items() if value}, "columns": {"prompt": source["field"]}}
    return {"file_name": _paths(source)[0], "columns": {"prompt": source.get("field", "text")}}


def _yaml(settings: Settings, notes: list[str]) -> str:
    import yaml

    head = "".join(f"# {note}\n" for note in notes)
    return head + str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def _write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path
