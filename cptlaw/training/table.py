"""The runs table of a sweep, and the table of its jobs, from what the store holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cptlaw.training.jobs import Job, Sweep
from cptlaw.training.store import Store
from cptlaw.writing import csv_text

COLUMNS = (
    *("run", "eval", "loss", "n_params", "n_params_non_embedding", "n_params_kind", "tokens", "replay", "ptpp"),
    *("step", "lr", "lr_schedule", "lr_peak", "seed", "order", "batch_tokens", "flops", "domain", "tokenizer"),
    *("model", "base"),
)


def runs_table(sweep: Sweep, store: Store) -> pd.DataFrame:
    """Return the runs table: one row per measured loss of a finished run.

    Rows with tokens 0 are the losses of the base models, once per base model and validation set, under the name of the
    base model: a run that starts from one measures the same.

    Parameters
    ----------
    sweep
        The jobs.
    store
        Where their results are.
    """
    finished = store.finished_ids()
    rows: list[dict[str, Any]] = []
    bases: dict[Any, dict[str, Any]] = {}
    domains = {job.columns["domain"] for job in sweep.runs if job.kind == "adapt"}
    for job in sweep.runs:
        if job.id not in finished:
            continue
        for measured in store.get_result(job.id):
            row = _row(job, measured)
            if job.kind == "base" or measured["step"] == 0:
                suffix = f":{measured['domain']}" if len(domains) > 1 and measured["domain"] else ""
                base = {**row, "run": f"base-{job.columns['base']}{suffix}", "tokens": 0, "flops": 0.0, "step": 0}
                base |= {"replay": None, "order": None}
                key = (base["run"], base["eval"])
                if key not in bases or job.kind == "base":
                    bases[key] = base
            else:
                rows.append(row)
    frame = pd.DataFrame([*bases.values(), *rows], columns=list(COLUMNS))
    return frame.dropna(axis="columns", how="all")


def _row(job: Job, measured: Mapping[str, Any]) -> dict[str, Any]:
    columns = job.columns
    return {
        **{name: columns.get(name) for name in COLUMNS},
        "run": job.name,
        **{name: measured[name] for name in ("eval", "loss", "tokens", "step", "lr")},
        "domain": measured["domain"] or columns.get("domain"),
        "flops": 6.0 * columns["n_params"] * measured["tokens"],
    }


def jobs_table(sweep: Sweep, store: Store, failures: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return one row per job: what it was, how it ended, and why it failed where it did.

    Parameters
    ----------
    sweep
        The jobs.
    store
        Where their results are.
    failures
        Identity -> reason, of this session; the store knows those of earlier ones.
    """
    finished, failed = store.finished_ids(), store.failed_ids()
    rows = []
    for job in sweep.jobs:
        row: dict[str, Any] = {
            "job": job.name,
            "kind": job.kind,
            "id": job.id,
            "tokens": job.tokens,
            "flops": job.flops,
        }
        reason = (failures or {}).get(job.id) or (store.failed(job.id) if job.id in failed else None)
        if job.id in finished:
            report = store.get_report(job.id)
            row |= {
                "status": "finished",
                "seconds": report["seconds"],
                "tokens_per_second": report["tokens_per_second"],
            }
        else:
            row |= {"status": "failed" if reason else "waiting", "reason": reason}
        rows.append(row)
    names = ("job", "kind", "status", "reason", "tokens", "flops", "seconds", "tokens_per_second", "id")
    return pd.DataFrame(rows, columns=list(names))


def write_tables(sweep: Sweep, store: Store, failures: Mapping[str, str]) -> pd.DataFrame:
    """Write `runs.csv`, `jobs.csv` and `schedules.json` to the store; return the runs table."""
    runs = runs_table(sweep, store)
    for name, frame in (("runs.csv", runs), ("jobs.csv", jobs_table(sweep, store, failures))):
        store.write(name, csv_text(frame).encode())
    store.write_json("schedules.json", schedules_of(sweep))
    return runs


def schedules_of(sweep: Sweep) -> dict[str, Any]:
    """Return the learning-rate schedule of each run as a schedules file says it, pre-training first."""
    jobs = {job.id: job for job in sweep.jobs}
    found = {}
    for job in sweep.runs:
        phases = list(job.definition["phases"])
        if job.kind == "adapt" and job.needs:
            phases = [*jobs[job.needs[0]].definition["phases"], *phases]
        found[job.name] = phases
    return found
