"""Checkpoints of one run: copied at once, written while training goes on, and counted only once all is written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from cptlaw_sweep import state
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.store import Store


class Checkpoints:
    """Saves a run and finds where it can go on."""

    def __init__(self, job: Job, store: Store, accelerator: Accelerator, *, shard: bool):
        self._folder, self._store, self._accelerator, self._shard = f"checkpoints/{job.id}", store, accelerator, shard
        self._alone = accelerator.num_processes == 1
        self._pending: tuple[Path, dict[str, object]] | None = None
        self._writing: Future[None] | None = None

    def latest(self, cache: Path) -> tuple[Path, dict[str, Any]] | None:
        """Return the last checkpoint and its notes, or nothing."""
        name = f"{self._folder}/latest.json"
        if not self._store.exists(name):
            return None
        notes = self._store.read_json(name)
        return self._store.get_folder(str(notes["folder"]), cache), notes

    def save(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, notes: dict[str, object]) -> None:
        """Begin to write a checkpoint.

        Parameters
        ----------
        model, optimizer
            The model before it was wrapped, and its optimiser.
        notes
            What is known at this step; ``step`` names the folder.
        """
        notes = {**notes, "folder": f"{self._folder}/step-{notes['step']}"}
        self.finish()  # of several processes, all parts of the one before must be there before it counts
        local = self.scratch()
        write = self.state_of(model, optimizer, local)

        def work() -> None:
            write()
            if self._alone:
                self._count(local, notes)

        pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing = pool.submit(work)
        pool.shutdown(wait=False)  # its thread ends with the work
        self._pending = None if self._alone else (local, notes)

    def wait(self) -> None:
        """Wait for what is being written.

        Raises
        ------
        OSError
            Or whatever else stopped it.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, and let it count."""
        self.wait()
        if self._pending is None:
            return
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            self._count(*self._pending)
        self._pending = None
        self._accelerator.wait_for_everyone()

    def _count(self, local: Path, notes: dict[str, object]) -> None:
        folder = str(notes["folder"])
        self._store.put_folder(local, folder)
        self._store.write_json(f"{self._folder}/latest.json", notes)
        for name in self._store.names(self._folder):
            if name.startswith("step-") and not folder.endswith(f"/{name}"):
                self._store.remove(f"{self._folder}/{name}")

    def state_of(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Callable[[], None]:
        """Copy the state of this process, and return what writes the copy into a folder."""
        part, parts = self._accelerator.process_index, self._accelerator.num_processes
        tensors = state.snapshot(model, optimizer, whole=self._shard or part == 0)
        return lambda: state.write(folder, tensors, part, parts, sharded=self._shard)

    def scratch(self) -> Path:
        """Return one scratch folder for all processes of the run."""
        from accelerate.utils import broadcast_object_list

        result = [str(self._store.scratch()) if self._accelerator.is_main_process else ""]
        if not self._alone:
            broadcast_object_list(result)
        return Path(result[0])
