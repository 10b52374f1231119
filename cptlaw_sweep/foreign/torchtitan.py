"""torchtitan 0.3: a Python module for each run, since its configurations are functions that return one.

``PYTHONPATH=FOLDER torchrun --nproc_per_node N -m torchtitan.train --module NAME --config run``. The model is that of
transformers, by torchtitan's own backend for these. It cannot say adapters for such a model, nor read token ids: runs
of those are left out. It validates on one set at most, so both losses are measured on what it keeps; and what falls
after the warm-up falls one step later.
"""

from __future__ import annotations

import re
from typing import Any

from cptlaw_sweep.foreign.run import Corpus, Run, with_notes

FOLDER = "torchtitan"
DECAYS = {"linear": "linear", "cosine": "cosine", "wsd": "linear", "wsd-1-sqrt": "sqrt"}

TEMPLATE = '''"""In this folder, on {processes} processes of one machine:

PYTHONPATH=. torchrun --nproc_per_node {processes} -m torchtitan.train --module {module} --config run
"""

from datasets import load_dataset
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.config import DebugConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.experiments.transformers_modeling_backend import model_registry
from torchtitan.experiments.transformers_modeling_backend.configs import TransformersBackendConfig
from torchtitan.experiments.transformers_modeling_backend.tokenizer import HFBackendTokenizer
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS, HFDataSource, InterleavedHuggingFaceTextDataLoader

# Name of a corpus -> what load_dataset takes, the field of its text, and its share of the rows.
CORPORA = {corpora}

for name, (place, options, field, _) in CORPORA.items():
    DATASETS[name] = DatasetConfig(
        path=place,
        loader=lambda path, options=options: load_dataset(path, **options),
        sample_processor=lambda sample, field=field: sample[field],
    )


def run() -> TransformersBackendConfig:
    return TransformersBackendConfig(
        model_spec=model_registry("full"),
        hf_model={model},
        hf_assets_path={model},
        tokenizer=HFBackendTokenizer.Config(),
        dump_folder={name},
        loss=CrossEntropyLoss.Config(),
        optimizer=default_adamw(
            lr={peak}, betas=({beta1}, {beta2}), eps={epsilon}, weight_decay={weight_decay}
        ),
        lr_scheduler=LRSchedulersContainer.Config(
            warmup_steps={warmup}, decay_ratio={decay_ratio}, decay_type={decay_type}, min_lr_factor={end}
        ),
        training=TrainingConfig(
            local_batch_size={micro},
            global_batch_size={batch},
            seq_len={context},
            max_norm={clip},
            steps={steps},
            mixed_precision_param={precision},
        ),
        dataloader=InterleavedHuggingFaceTextDataLoader.Config(
            sources=[HFDataSource(dataset=name, weight=share) for name, (*_, share) in CORPORA.items()],
            seed={seed},
        ),
        checkpoint=CheckpointManager.Config(
            enable=True, interval={steps}, initial_load_in_hf=True, last_save_in_hf=True
        ),
        activation_checkpoint={activations},
        debug=DebugConfig(seed={seed}),
    )
'''


def files(runs: list[Run]) -> dict[str, str]:
    """Return file -> content: a module for each run."""
    found: dict[str, str] = {}
    for run in runs:
        if run.lora is None and not run.has_ids:
            name = module_name(run.name, found)
            found[f"{name}.py"] = with_notes(notes(run), module(run, name))
    return found


def module_name(name: str, taken: dict[str, str]) -> str:
    """Return the name of a run as that of a Python module that is not there yet."""
    # A dot would be read as a package, and two names may differ in such a character only.
    plain = re.sub(r"\W", "_", name)
    while f"{plain}.py" in taken:
        plain += "_"
    return plain


def notes(run: Run) -> list[str]:
    """Return what the module cannot say of a run."""
    said = run.missing(frozenset({*DECAYS, "constant"}))
    return [*said, "the folder of the model needs safetensors: name a local one, as torchtitan fetches no weights"]


def module(run: Run, name: str) -> str:
    """Return the source of a module."""
    optimizer, schedule = run.definition["optimizer"], run.phase["schedule"]
    micro, _ = run.batches
    # Its decay is a share of all steps and is rounded back to steps; without one it follows the warm-up.
    decaying = {"constant": 0.0, "wsd": run.decay / run.steps, "wsd-1-sqrt": run.decay / run.steps}
    values: dict[str, Any] = {
        "corpora": {corpus.name.lower(): _place(corpus) for corpus in run.corpora},  # it looks names up in lower case
        "model": run.model,
        "name": run.name,
        "peak": float(run.phase["peak"]),
        **{key: float(optimizer[key]) for key in ("beta1", "beta2", "epsilon", "weight_decay", "clip")},
        "warmup": run.warmup,
        "decay_ratio": decaying.get(schedule, None if schedule in DECAYS else 0.0),
        "decay_type": DECAYS.get(schedule, "linear"),
        "end": run.end_share,
        "micro": micro,
        "batch": int(run.definition["batch"]),
        "context": int(run.definition["context"]),
        "steps": run.steps,
        "precision": "bfloat16" if run.definition["precision"] == "bf16" else "float32",
        "seed": run.seed,
    }
    processes = int(run.job.run.get("processes") or 1)
    activations = "FullAC.Config()" if run.checkpoints_activations else "None"
    return TEMPLATE.format(
        module=name, processes=processes, activations=activations, **{key: repr(value) for key, value in values.items()}
    )


def _place(corpus: Corpus) -> tuple[str, dict[str, Any], str, float]:
    """Return what ``load_dataset`` takes for a corpus, the field of its text and its share."""
    if corpus.kind is not None:
        return corpus.kind, {"data_files": corpus.paths, "split": "train"}, corpus.field, corpus.share
    known = {"name": corpus.source["config"], "split": corpus.source["split"] or "train"}
    known |= {"revision": corpus.source.get("revision"), "streaming": corpus.source.get("streaming") or None}
    return corpus.paths[0], {key: value for key, value in known.items() if value}, corpus.field, corpus.share
