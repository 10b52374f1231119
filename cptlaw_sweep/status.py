"""How a sweep stands, seen from outside while it runs or after it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.findings import Finding, Remedy
from cptlaw.result import Line, Result, Table, plain
from cptlaw.units import format_percent, format_quantity
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.live import file_name
from cptlaw_sweep.progress import format_seconds
from cptlaw_sweep.store import Store

if TYPE_CHECKING:
    import pandas as pd

# A run that has told nothing for so long is taken for stopped.
SILENT_SECONDS = 300.0

MOST_SHOWN = 30


@dataclass(frozen=True, repr=False)
class SweepStatus(Result):
    """How far a sweep is.

    Attributes
    ----------
    frame
        One row per job: job, kind, status (finished, failed, running, stopped, waiting), tokens, done (tokens trained
        on), tokens_per_second, losses (the last ones measured), reason.
    store
        Where the sweep is.
    findings
        Jobs that failed.
    """

    frame: pd.DataFrame
    store: str
    findings: tuple[Finding, ...] = ()

    def count(self, status: str) -> int:
        """Return how many jobs stand so."""
        return int((self.frame["status"] == status).sum())

    @property
    def title(self) -> str:
        """Counts, tokens and what is left."""
        values = [
            f"{self.count(name)} {name}" for name in ("running", "stopped", "failed", "waiting") if self.count(name)
        ]
        done, total = float(self.frame["done"].sum()), float(self.frame["tokens"].sum())
        share = format_percent(done / total) if total else "100%"
        head = f"{self.count('finished')} of {len(self.frame)} jobs finished" + "".join(f", {part}" for part in values)
        return f"{head}; {share} of {format_quantity(total)} tokens"

    @property
    def lines(self) -> list[Line]:
        """Speed, and the time that is left at it."""
        speed = float(self.frame.loc[self.frame["status"] == "running", "tokens_per_second"].sum())
        left = float(self.frame["tokens"].sum() - self.frame["done"].sum())
        result = [("store", self.store)]
        if speed > 0:
            result.append(("speed", f"{format_quantity(speed)} tokens/s, {format_seconds(left / speed)} left at it"))
        return result

    @property
    def tables(self) -> list[Table]:
        """What runs, was stopped or failed; and what waits, where nothing else is to be told."""
        shown = self.frame[self.frame["status"].isin(["running", "stopped", "failed"])]
        if shown.empty:
            shown = self.frame[self.frame["status"] == "waiting"]
        note = f"and {len(shown) - MOST_SHOWN} more; --json lists all" if len(shown) > MOST_SHOWN else ""
        columns = ["job", "status", "done", "tokens", "tokens_per_second", "losses"]
        formats: dict[str, Callable[..., str]] = dict.fromkeys(("done", "tokens", "tokens_per_second"), format_quantity)
        return [Table.of(shown[columns].head(MOST_SHOWN), formats, note=note)]

    def to_dict(self) -> dict[str, object]:
        """Return counts and jobs as plain data."""
        names = ("finished", "running", "stopped", "failed", "waiting")
        counts = {name: self.count(name) for name in names}
        return {"store": self.store, "jobs": len(self.frame), **counts, "rows": plain(self.frame)}


def status_of(sweep: Sweep, store: Store) -> SweepStatus:
    """Look how each job of a sweep stands."""
    import pandas as pd

    done, failed, begun = store.finished_ids(), store.failed_ids(), set(store.names("checkpoints"))
    live = set(store.names("live"))
    rows, findings = [], []
    for job in sweep.jobs:
        row: dict[str, object] = {"job": job.name, "kind": job.kind, "status": "waiting"}
        row |= {
            "tokens": job.tokens,
            "done": 0,
            "tokens_per_second": None,
            "losses": None,
            "reason": None,
            "id": job.id,
        }
        if job.id in done:
            row |= {"status": "finished", "done": job.tokens}
        elif job.id in failed:
            row |= {"status": "failed", "reason": store.failure_of(job.id)}
            message = f"{job.name}: {row['reason']}"
            findings.append(Finding("error", "failed", message, "Try again.", remedy=Remedy("retry_failed", True)))
        elif job.id in begun or f"{file_name(job.name, job.id)}.jsonl" in live:
            row |= _under_way(job, store)
        rows.append(row)
    return SweepStatus(pd.DataFrame(rows), store.url, tuple(findings))


def _under_way(job: Job, store: Store) -> dict[str, object]:
    """Return how far an unfinished job has come, from its live files and its checkpoint."""
    stem = f"live/{file_name(job.name, job.id)}"
    steps, losses = store.read_lines(f"{stem}.steps.jsonl"), store.read_lines(f"{stem}.jsonl")
    first = int(job.definition["steps"][0]) * int(job.columns["batch_tokens"])
    tokens = int(steps[-1]["tokens"]) - first if steps else 0
    seen = _age_in_seconds(store, f"{stem}.steps.jsonl") if steps else _age_in_seconds(store, f"{stem}.jsonl")
    last = {row["eval"]: row["loss"] for row in losses[-8:]}
    return {
        "status": "running" if seen is not None and seen < SILENT_SECONDS else "stopped",
        "done": max(tokens, store.tokens_so_far(job.id)),
        "tokens_per_second": steps[-1]["tokens_per_second"] if steps else None,
        "losses": ", ".join(f"{name} {loss:.4f}" for name, loss in last.items()) or None,
    }


def _age_in_seconds(store: Store, name: str) -> float | None:
    """Return the seconds since a file was written, where the store tells."""
    if not store.is_local:
        return 0.0 if store.exists(name) else None
    path = Path(store.path(name))
    return time.time() - path.stat().st_mtime if path.exists() else None
