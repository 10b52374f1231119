"""LLaMA-Factory: ``llamafactory-cli train FILE``, run in this folder, where ``dataset_info.json`` names the texts.

It cannot mix by tokens (its shares are of documents), nor read token ids: runs of those are left out.
"""

from __future__ import annotations

import json
import os

from cptlaw_sweep.foreign import huggingface
from cptlaw_sweep.foreign.run import Corpus, Run, Settings, yaml_of

FOLDER = "llama-factory"


def files(runs: list[Run]) -> dict[str, str]:
    """Return file -> content: one for each run, and the list of texts."""
    told = [run for run in runs if not run.has_ids]
    texts: Settings = {}
    for run in told:
        for corpus in run.corpora:
            texts |= datasets(corpus)
    found = {f"{run.name}.yaml": yaml_of(settings(run), notes(run)) for run in told}
    return {**found, "dataset_info.json": json.dumps(texts, indent=2) + "\n"} if told else {}


def notes(run: Run) -> list[str]:
    """Return what the file cannot say of a run."""
    said = run.missing(huggingface.SCHEDULES)
    if len(run.corpora) > 1:
        said.append("interleave_probs are shares of documents here, not of tokens: equal ones need documents alike")
    return said


def settings(run: Run) -> Settings:
    """Return a configuration."""
    parts = [(name, share) for corpus in run.corpora for name, share in shares(corpus).items()]
    # Its own stage of training evaluates from a file's last rows, and `eval_on_start` without any is refused.
    shared = {name: value for name, value in huggingface.training_arguments(run).items() if name != "eval_on_start"}
    found: Settings = {
        "model_name_or_path": run.model,
        "stage": "pt",
        "do_train": True,
        "finetuning_type": "lora" if run.lora else "full",
        "dataset": ",".join(name for name, _ in parts),
        "dataset_dir": ".",
        # Rows are packed in this stage without being asked; asked for, they get one token fewer.
        "cutoff_len": int(run.definition["context"]),
        **shared,
    }
    if run.lora:
        found |= {"lora_rank": run.lora["rank"], "lora_alpha": int(run.lora["alpha"]), "lora_target": "all"}
    if len(parts) > 1:
        probabilities = ",".join(f"{share:.6g}" for _, share in parts)
        found |= {"mix_strategy": "interleave_over", "interleave_probs": probabilities}
    return found


def shares(corpus: Corpus) -> dict[str, float]:
    """Return entry of the list of texts -> share of the mix: an entry is one file, and files count by their bytes."""
    paths = corpus.paths
    if len(paths) == 1:
        return {corpus.name: corpus.share}
    local = all(os.path.exists(path) for path in paths)
    sizes = [max(os.path.getsize(path), 1) if local else 1 for path in paths]
    return {f"{corpus.name}-{k}": corpus.share * size / sum(sizes) for k, size in enumerate(sizes, 1)}


def datasets(corpus: Corpus) -> Settings:
    """Return the entries of a corpus in the list of texts."""
    columns = {"columns": {"prompt": corpus.field}}
    if corpus.kind is None:
        source = corpus.source
        place = {"hf_hub_url": source["dataset"], "subset": source["config"], "split": source["split"]}
        return {corpus.name: {**{key: value for key, value in place.items() if value}, **columns}}
    return {name: {"file_name": path, **columns} for name, path in zip(shares(corpus), corpus.paths, strict=True)}
