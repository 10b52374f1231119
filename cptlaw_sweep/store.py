"""Where a sweep keeps what it has: a folder, or any place that fsspec reaches (``s3://``, ``gs://``, ``memory://``).

    manifest.json          versions, commit, texts, counts
    jobs.jsonl             what each job is, one per line;  jobs/ID.json  one that several processes share
    texts/FINGERPRINT/     prepared text: token shards and their index
    checkpoints/ID/        where an unfinished job can go on
    models/ID/             weights (or the full state) that later jobs start from
    results/ID.jsonl       the rows that a finished job measured, one file per run
    done/ID.json           written last: the job is finished
    failed/ID.json         why a job failed
    runs.csv               the runs table;  jobs.csv  one line per job

Every file appears whole or not at all, and no two jobs write the same one, so that processes and machines need no lock;
a second sweep in one folder does (``sweep.lock``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError
from cptlaw.writing import flush_to_disk, make_folder
from cptlaw_sweep.specs import JobReport, MeasuredRow

CONTENT, SUMS = "content", "sha256.json"  # a local copy, and what it held when it was made
ABANDONED_SECONDS = 3600.0  # a younger folder may be that of a worker that is still writing
# What a sweep writes under names that a folder of the user's may have too.
TABLES = ("runs.csv", "jobs.csv", "jobs.jsonl", "schedules.json", "manifest.json")


class Store:
    """A place for the results of a sweep.

    Parameters
    ----------
    url
        A folder, or a URL that fsspec knows. Nothing is created before something is written.

    Attributes
    ----------
    is_local
        Whether it is a folder of this machine, or of a disk that it shares.
    """

    def __init__(self, url: str | os.PathLike[str]):
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.url = os.fspath(url)
        try:
            self._fs, root = url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"the store {self.url!r} cannot be opened ({error}).") from None
        # fsspec makes local paths absolute, so that a worker may stand anywhere.
        self._root: str = root.rstrip("/")
        self.is_local = isinstance(self._fs, LocalFileSystem)
        if self.is_local:  # workers may stand in another folder
            self.url = self._root

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def check_ours(self) -> None:
        """Complain of a place that holds what no sweep wrote under the names that a sweep writes.

        Raises
        ------
        DataError
            If it is a file, or a folder with such files.
        """
        if self.is_local:
            make_folder(self._root)
        if self.exists("manifest.json"):
            with contextlib.suppress(DataError):  # the user's own, or damaged
                result = self.read_json("manifest.json")
                if isinstance(result, dict) and {"sweep", "recipe", "jobs"} <= set(result):
                    return
        for name in TABLES:
            if self.exists(name):
                raise DataError(
                    f"{self.url} holds a file {name} and is no folder of a sweep, which would write over it. Expected "
                    f"a folder of its own for the results; give another one with -o."
                )

    @contextlib.contextmanager
    def one_sweep(self) -> Iterator[None]:
        """Keep other sweeps out of a local folder: two would take each other's checkpoints away.

        Raises
        ------
        UsageError
            If another one is at work there. One that was killed is not: the system frees its lock.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.path("sweep.lock"), blocking=False)
        with contextlib.ExitStack() as held:
            if self.is_local:
                try:
                    held.enter_context(lock)
                except Timeout:
                    raise UsageError(
                        f"another sweep is at work in {self.url}. Wait until it ends, or ask how it stands: the same "
                        f"command with --status."
                    ) from None
                except NotImplementedError:
                    pass  # a file system without locks
            yield

    # Files

    def path(self, name: str) -> str:
        """Return the full path of a file of the store."""
        return f"{self._root}/{name}"

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self._fs.exists(self.path(name)))

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, sorted; nothing if there is none."""
        try:
            # Another process may have written since.
            self._fs.invalidate_cache()
            result = self._fs.ls(self.path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in result)

    def read(self, name: str) -> bytes:
        """Return a file."""
        return bytes(self._fs.cat_file(self.path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, so that readers see the old one or the new one and never half of it."""
        if not self.is_local:  # one put to an object store is atomic
            self._fs.pipe_file(self.path(name), content)
            return
        with self._atomic_path(name) as half:
            half.write_bytes(content)

    @contextlib.contextmanager
    def _atomic_path(self, name: str) -> Iterator[Path]:
        """Give a place beside a file of a local store, which becomes that file once it is on the disk."""
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own for each writer: two workers may write the same file after a restart.
        half = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            yield half
            flush_to_disk(half)
            os.replace(half, target)
        except BaseException:
            with contextlib.suppress(OSError):
                half.unlink()
            raise

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self.path(name), recursive=True)

    def read_json(self, name: str) -> Any:
        """Return what a JSON file holds.

        Raises
        ------
        DataError
            If it is damaged.
        """
        with self._whole(name):
            return json.loads(self.read(name))

    @contextlib.contextmanager
    def _whole(self, name: str) -> Iterator[None]:
        """Say of a damaged file which it is, and what makes it anew."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            marks = {name, name.replace("results/", "done/").replace(".jsonl", ".json")}
            removed = " and ".join(self.path(one) for one in sorted(marks))
            raise DataError(
                f"{self.path(name)} is damaged ({error!r}). Expected what the sweep wrote there. Remove {removed}; "
                "the same command then makes it again."
            ) from None

    def write_json(self, name: str, value: object) -> None:
        """Write a JSON file."""
        self.write(name, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a file of JSON Lines that may be written just now: without a line that is not whole."""
        result = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.read(name).splitlines():
                with contextlib.suppress(ValueError):
                    result.append(json.loads(line))
        return result

    def write_lines(self, name: str, records: Iterable[Mapping[str, object]]) -> None:
        """Write a file of JSON Lines."""
        self.write(name, "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode())

    def put_file(self, local: Path, name: str) -> None:
        """Move a local file into the store, whole or not at all, without holding it in memory."""
        if not self.is_local:
            self._fs.put_file(str(local), self.path(name))
            local.unlink()
            return
        with self._atomic_path(name) as half:
            shutil.move(local, half)  # a copy where the scratch folder is on another disk

    # Folders that libraries write and read as folders

    def put_folder(self, local: Path, name: str) -> None:
        """Move a local folder into the store. It is whole once this returns; until then nothing may point at it."""
        if self.is_local:
            target = Path(self.path(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            for path in local.rglob("*"):
                if path.is_file():
                    flush_to_disk(path)
            if target.exists():
                # A folder that is there already is what a stopped process had moved; it is as whole as this one, but
                # nothing pointed at it.
                shutil.rmtree(target)
            shutil.move(local, target)
        else:
            self._fs.put(f"{local}/", self.path(name) + "/", recursive=True)
            shutil.rmtree(local)

    def get_folder(self, name: str, cache: Path) -> Path:
        """Return a local folder with the content of a folder of the store: itself, or a copy under `cache`."""
        if self.is_local:
            return Path(self.path(name))
        # Under the place's own name too: other stores have folders of the same names.
        place = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        local = cache / place / name.replace("/", "-")
        if local.exists() and not self._is_copy(local, name):
            shutil.rmtree(local)
        if not local.exists():
            half = Path(f"{local}.{uuid.uuid4().hex[:8]}.part")
            (half / CONTENT).mkdir(parents=True)
            self._fs.get(self.path(name) + "/", f"{half / CONTENT}/", recursive=True)
            (half / SUMS).write_text(json.dumps(_sums(half / CONTENT)))
            with contextlib.suppress(OSError):  # another process was faster
                half.rename(local)
            shutil.rmtree(half, ignore_errors=True)
        return local / CONTENT

    def _is_copy(self, local: Path, name: str) -> bool:
        """Whether a local copy holds what was copied, and the store has files of these names and sizes."""
        try:
            kept = json.loads((local / SUMS).read_text())
        except (OSError, ValueError):
            return False
        root = self.path(name).rstrip("/") + "/"
        there = {path.removeprefix(root): entry["size"] for path, entry in self._fs.find(root, detail=True).items()}
        sizes = {path: (local / CONTENT / path).stat().st_size for path in kept if (local / CONTENT / path).is_file()}
        return bool(there == sizes) and kept == _sums(local / CONTENT)

    def scratch(self) -> Path:
        """Return a new empty local folder, on the disk of the store where that is local."""
        import tempfile

        if not self.is_local:
            return Path(tempfile.mkdtemp(prefix="cptlaw-"))
        folder = Path(self.path("scratch"))
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=folder))

    def clear_scratch(self) -> None:
        """Remove what stopped processes left half written, if it is older than an hour."""
        import time

        if self.is_local:
            for folder in Path(self.path("scratch")).glob("*"):
                with contextlib.suppress(OSError):
                    if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                        shutil.rmtree(folder)

    # Jobs

    def is_finished(self, job_id: str) -> bool:
        """Whether a job has all its results here."""
        return self.exists(f"done/{job_id}.json")

    def failure_of(self, job_id: str) -> str | None:
        """Return why a job failed, or nothing."""
        try:
            return str(self.read_json(f"failed/{job_id}.json").get("reason"))
        except FileNotFoundError:
            return None

    def finished_ids(self) -> set[str]:
        """Return the identities of all finished jobs, in one look."""
        return self._ids("done")

    def failed_ids(self) -> set[str]:
        """Return the identities of all failed jobs, in one look."""
        return self._ids("failed")

    def _ids(self, folder: str) -> set[str]:
        return {name.removesuffix(".json") for name in self.names(folder) if name.endswith(".json")}

    def put_result(self, job_id: str, rows: Iterable[Mapping[str, object]], report: Mapping[str, object]) -> None:
        """Write the measured rows of a job, then that it is finished.

        Parameters
        ----------
        rows
            One object per measured loss.
        report
            How the job went: seconds, tokens per second, versions.
        """
        # The rows first: a job is finished once the second file is there, and then has all of them.
        self.write_lines(f"results/{job_id}.jsonl", rows)
        self.write_json(f"done/{job_id}.json", report)
        self.remove(f"failed/{job_id}.json")

    def get_result(self, job_id: str) -> list[MeasuredRow]:
        """Return the measured rows of a finished job."""
        name = f"results/{job_id}.jsonl"
        with self._whole(name):
            rows: list[MeasuredRow] = [json.loads(line) for line in self.read(name).splitlines()]
            _ = [(row["eval"], row["loss"], row["step"], row["tokens"]) for row in rows]  # what tables read
            return rows

    def get_report(self, job_id: str) -> JobReport:
        """Return how a finished job went."""
        name = f"done/{job_id}.json"
        with self._whole(name):
            report: JobReport = self.read_json(name)
            _ = report["seconds"], report["tokens_per_second"]
            return report

    def put_failure(self, job_id: str, reason: str, detail: str = "", *, of_machine: bool = True) -> None:
        """Write why a job failed, and whether the machine did: a full disk, or a worker that was killed."""
        self.write_json(f"failed/{job_id}.json", {"reason": reason, "detail": detail, "of_machine": of_machine})

    def try_again(self, job_id: str, *, anyway: bool) -> bool:
        """Forget why a job failed, where the machine did or where it is to be tried again anyway; say whether it is."""
        name = f"failed/{job_id}.json"
        again = anyway or bool(self.read_json(name).get("of_machine"))
        if again:
            self.remove(name)
        return again

    def tokens_so_far(self, job_id: str) -> int:
        """Return the tokens of the last checkpoint of an unfinished job."""
        try:
            return int(self.read_json(f"checkpoints/{job_id}/latest.json")["tokens"])
        except (FileNotFoundError, DataError):
            return 0


def _sums(folder: Path) -> dict[str, str]:
    """Return file -> SHA-256 of its content."""
    result = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                result[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return result
