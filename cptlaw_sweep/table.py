"""The runs table of a sweep, and the table of its jobs, from what the store holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cptlaw.writing import csv_text
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.other_recipes import with_earlier
from cptlaw_sweep.specs import JobReport, MeasuredRow
from cptlaw_sweep.store import Store

COLUMNS = (
    *("run", "eval", "loss", "n_params", "n_params_non_embedding", "n_params_kind", "tokens", "replay", "ptpp"),
    *("step", "lr", "lr_schedule", "lr_peak", "seed", "order", "batch_tokens", "flops", "domain", "tokenizer"),
    *("model", "base", "phase", "n_trainable", "lora_rank", "merge_weight", "optimizer_state", "pt_lr_end"),
    *("metric", "n_items", "chance", "recipe"),
)
JOB_COLUMNS = (
    *("job", "kind", "status", "reason", "tokens", "flops", "seconds", "tokens_per_second", "epochs", "kept", "id"),
)


def runs_table(sweep: Sweep, store: Store) -> pd.DataFrame:
    """Return the runs table: one row per measured loss of a finished run.

    Rows with tokens 0 are the losses of the base models, once per base model and validation set, under the name of the
    base model: a run that starts from one measures the same.
    """
    finished = store.finished_ids()
    rows: list[dict[str, object]] = []
    bases: dict[tuple[object, object], dict[str, object]] = {}
    domains = {job.columns["domain"] for job in sweep.runs if job.kind == "adapt"}
    along = any(job.kind == "trunk" for job in sweep.runs)
    for job in sweep.runs:
        if job.id not in finished:
            continue
        for measured in store.get_result(job.id):
            row = _row_of_run(job, measured)
            if along:
                row["phase"] = "pretrain" if job.kind in ("trunk", "base") else "cpt"
            last = measured["step"] == job.definition.get("steps", [0, 0])[1]
            if job.kind == "trunk" or (job.kind == "base" and not last):
                rows.append(_along_pretraining(job, row))
            elif job.kind == "base" or (job.kind == "adapt" and measured["step"] == 0):
                suffix = f":{measured['domain']}" if len(domains) > 1 and measured["domain"] else ""
                base = _of_base_model(row, f"base-{job.columns['base']}{suffix}")
                key = (base["run"], base["eval"])
                if key not in bases or job.kind == "base":
                    bases[key] = base
            else:
                rows.append(row)
    return _runs_frame([*bases.values(), *rows])


def _runs_frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return rows as a table without empty columns, the weights of corpora last."""
    mixes = dict.fromkeys(name for row in rows for name in row if name.startswith("mix_"))
    return pd.DataFrame(rows, columns=[*COLUMNS, *mixes]).dropna(axis="columns", how="all")


def _row_of_run(job: Job, measured: MeasuredRow) -> dict[str, object]:
    columns = job.columns
    weight = measured.get("merge_weight", 1.0 if job.definition.get("merge") and measured["step"] else None)
    name = columns.get("run", job.name)
    per_token = 6.0 * columns["n_params"]
    if columns.get("n_trainable") is not None:  # frozen weights have no gradient of their own
        per_token = 4.0 * columns["n_params"] + 2.0 * columns["n_trainable"]
    return {
        **{name: columns.get(name) for name in COLUMNS},
        # A merge is a run of its own, or the table would hold two losses of one run at one step.
        "run": merged_name(name, weight) if "merge_weight" in measured else name,
        "merge_weight": weight,
        **{name: measured[name] for name in ("eval", "loss", "tokens", "step", "lr")},
        "domain": measured["domain"] or columns.get("domain"),
        "flops": per_token * measured["tokens"],
        **{name: measured[name] for name in ("metric", "n_items", "chance") if name in measured},
        **{f"mix_{name}": weight for name, weight in (columns.get("mix") or {}).items()},
    }


def merged_name(run: str, weight: object) -> str:
    """Return what a run is called where it is merged with its base model."""
    return f"{run}-w{weight:g}"


def _of_base_model(row: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a loss before the first step of CPT, of which no mix and no order of data are known."""
    kept = {column: value for column, value in row.items() if not column.startswith("mix_")}
    base = {**kept, "run": name, "tokens": 0, "flops": 0.0, "step": 0, "replay": None, "order": None}
    return base | ({"phase": "cpt"} if "phase" in kept else {})


def _along_pretraining(job: Job, row: dict[str, Any]) -> dict[str, object]:
    """Return a loss along pre-training: of the trunk, or of a decay; tokens are those of pre-training."""
    spent = row["tokens"] / job.columns["n_params"]
    return {**row, "run": job.columns.get("trunk") or job.name, "ptpp": spent, "replay": None, "order": None}


def jobs_table(sweep: Sweep, store: Store, failures: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return one row per job: what it was, how it ended, and why it failed where it did.

    Parameters
    ----------
    failures
        Identity -> reason, of this session; the store knows those of earlier ones.
    """
    finished, failed = store.finished_ids(), store.failed_ids()
    rows = []
    for job in sweep.jobs:
        row: dict[str, object] = {"job": job.name} | {
            name: getattr(job, name) for name in ("kind", "id", "tokens", "flops")
        }
        reason = (failures or {}).get(job.id) or (store.failure_of(job.id) if job.id in failed else None)
        if job.id in finished:
            report = store.get_report(job.id)
            row |= {
                "status": "finished",
                "seconds": report["seconds"],
                "tokens_per_second": report["tokens_per_second"],
                "epochs": _epochs_text(sweep, report),
                "kept": f"kept/{job.id}" if job.definition.get("kept") else None,
            }
        else:
            row |= {"status": "failed" if reason else "waiting", "reason": reason}
        rows.append(row)
    return pd.DataFrame(rows, columns=[*JOB_COLUMNS])


def _epochs_text(sweep: Sweep, report: JobReport) -> str | None:
    """Return how often each corpus was read, as in ``old 0.25, new 1.5``."""
    read = report.get("epochs_by_text", {})
    return ", ".join(f"{sweep.texts[key]['name']} {n:.3g}" for key, n in read.items() if key in sweep.texts) or None


def write_tables(sweep: Sweep, store: Store, failures: Mapping[str, str]) -> pd.DataFrame:
    """Write `runs.csv`, `jobs.csv` and `schedules.json` to the store; return the runs table.

    What other recipes measured in this store stays in all three.
    """
    sweep = with_earlier(sweep, store)
    runs = runs_table(sweep, store)
    for name, frame in (("runs.csv", runs), ("jobs.csv", jobs_table(sweep, store, failures))):
        store.write(name, csv_text(frame).encode())
    store.write_json("schedules.json", schedules_of(sweep))
    return runs


def schedules_of(sweep: Sweep) -> Mapping[str, object]:
    """Return the learning-rate schedule of each run as a schedules file says it, pre-training first."""
    jobs = {job.id: job for job in sweep.jobs}
    result = {}
    for job in sweep.runs:
        phases = list(job.definition.get("phases", ()))
        if not phases:  # a measurement, or an evaluation
            continue
        if job.kind == "trunk":
            result[job.columns["trunk"]] = phases  # the last stage's is the longest
            continue
        if job.kind == "adapt" and job.needs:
            phases = [*jobs[job.needs[0]].definition["phases"], *phases]
        result |= {job.name: phases} | {merged_name(job.name, w): phases for w in job.definition.get("merge", ())}
    return result
