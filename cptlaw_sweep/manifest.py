"""What a sweep was made with: versions, commit, texts and their fingerprints, counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cptlaw.version import versions
from cptlaw_sweep.jobs import Sweep, fingerprint_of
from cptlaw_sweep.other_recipes import earlier_jobs
from cptlaw_sweep.prepare import read_index
from cptlaw_sweep.store import Store

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "datasets", "numpy")


def git_commit(folder: Path) -> str | None:
    """Return the commit of the repository that a folder lies in, marked where files differ from it, or nothing."""
    try:
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip() or None


def write_manifest(sweep: Sweep, store: Store) -> None:
    """Write manifest.json, and each job as it is defined."""
    texts = {}
    for key, text in sweep.texts.items():
        index = read_index(store, key)
        files = [
            {"file": Path(entry["path"]).name, "sha256": entry["sha256"]} for entry in text["source"].get("files", [])
        ]
        texts[key] = {
            "name": text["name"],
            "files": files,
            "dataset": text["source"].get("dataset"),
            "bytes": index["bytes"],
            **{
                split: {name: index[split][name] for name in ("tokens", "documents")}
                | {"sha256": fingerprint_of([shard["sha256"] for shard in index[split]["shards"]])}
                for split in ("train", "validation")
            },
        }
    done, failed = store.finished_ids(), store.failed_ids()
    ids = [job.id for job in sweep.jobs]
    manifest: dict[str, object] = {
        "sweep": sweep.name,
        "recipe": sweep.recipe,
        "jobs": len(ids),
        "finished": sum(key in done for key in ids),
        "failed": sum(key in failed and key not in done for key in ids),
        "tokens": sweep.tokens,
        "flops": sweep.flops,
        "texts": texts,
        "versions": versions(PACKAGES),
        "commit": git_commit(Path(__file__).parent),
    }
    store.write_json("manifest.json", manifest)
    # One file for all: a file each would cost most of the scheduling of a large sweep.
    records = [{**job.to_dict(), "recipe": sweep.name} for job in sweep.jobs] + earlier_jobs(sweep, store)
    store.write_lines("jobs.jsonl", records)
