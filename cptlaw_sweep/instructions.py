"""Each run of a sweep as a plain manifest that any trainer can follow: Megatron, torchtitan, NeMo, or your own."""

from __future__ import annotations

import json

from cptlaw.schedules import Phase, Schedule
from cptlaw.writing import file_name
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.mix import weights_of
from cptlaw_sweep.sizes import gpt2_settings
from cptlaw_sweep.specs import ModelSpec


def manifests(sweep: Sweep) -> dict[str, str]:
    """Return file -> content: one JSON file per run, dependencies named."""
    names = {job.id: job.name for job in sweep.jobs}
    return {
        f"{file_name(job.name, 150)}.json": json.dumps(instructions(job, sweep, names), indent=2) + "\n"
        for job in sweep.jobs
        if job.kind != "evaluate"
    }


def instructions(job: Job, sweep: Sweep, names: dict[str, str]) -> dict[str, object]:
    """Return what a trainer must do for one run."""
    definition = job.definition
    first, last = definition["steps"]
    per_step = definition["batch"] * definition["context"]
    phases = [Phase(**phase) for phase in definition["phases"]]
    lr = Schedule(phases).lr if phases else None
    ((kind, value),) = definition["start"].items()
    start: dict[str, object] = {"from": "scratch", "seed": value}
    if kind != "seed":
        start = {"from": names.get(value, "pretrained"), "with_optimizer_state": kind == "state"}
    mix = definition["mix"]
    return {
        "run": job.name,
        "kind": job.kind,
        "id": job.id,
        "columns": {key: value for key, value in job.columns.items() if value is not None},
        "start": start,
        "model": {
            **definition["model"],
            "transformers": _transformers_config(definition["model"], job.places.get("model")),
        },
        "data": {
            "mix": [
                {
                    "text": sweep.texts[key]["name"],
                    "share_of_tokens": str(share),
                    "source": {name: one for name, one in sweep.texts[key]["source"].items() if one is not None},
                }
                for key, share in zip(mix["texts"], weights_of(mix), strict=True)
            ],
            "tokenizer": sweep.texts[mix["texts"][0]]["tokenizer"],
            "context": definition["context"],
            "seed": mix["seed"],
        },
        "batch": {"sequences_per_step": definition["batch"], "tokens_per_step": per_step},
        "steps": {"first": first + 1, "last": last, "tokens": job.tokens},
        "optimizer": definition["optimizer"],
        "precision": definition["precision"],
        "learning_rate": {
            "phases": definition["phases"],
            "at_steps": [[step, float(lr[step])] for step in _corner_steps(first, last)] if lr is not None else [],
        },
        "evaluate": {
            "sets": [
                {
                    "eval": entry["eval"],
                    "text": sweep.texts[entry["text"]]["name"],
                    "split": entry["split"],
                    "sequences": entry["sequences"],
                }
                for entry in definition["evals"]
            ],
            "at_steps": definition["measure_at"],
            **({"merged_with_base_at": definition["merge"]} if definition.get("merge") else {}),
            "at_tokens": [step * per_step for step in definition["measure_at"]],
            "loss": "mean cross-entropy in nats per token",
        },
        "keep": definition["keep"],
        "flops": job.flops,
    }


def _corner_steps(first: int, last: int) -> list[int]:
    """Return some steps at which the rate is told: ends, and sixteenths between them."""
    return sorted({first + 1 + (last - first - 1) * part // 16 for part in range(17)}) if last > first else []


def _transformers_config(model: ModelSpec, place: str | None) -> dict[str, object]:
    """Return the model as transformers takes it, as far as that is known without transformers."""
    if model["kind"] == "pretrained":
        return {"from_pretrained": place, "revision": model.get("revision")}
    if model["kind"] == "config":
        return {"vocab_size": model["vocabulary"], "max_position_embeddings": model["context"], **model["config"]}
    return {"model_type": "gpt2", **gpt2_settings(model)}
