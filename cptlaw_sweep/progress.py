"""How a sweep goes: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterable
from typing import TextIO

from cptlaw.units import format_quantity
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.store import Store

LINE_SECONDS = 30.0
LOOK_SECONDS = 5.0


class SweepProgress:
    """Counts jobs and tokens, done now or in earlier sessions.

    Parameters
    ----------
    store
        Where unfinished jobs say how far they are.
    stream
        A terminal gets a bar, anything else gets lines.
    """

    def __init__(self, sweep: Sweep, store: Store, stream: TextIO | None = None):
        from tqdm import tqdm

        self._store, self._stream, self._sweep = store, stream or sys.stderr, sweep
        self.done: dict[str, Job] = {}
        self.failures: dict[str, str] = {}
        self._earlier = self._settled = 0  # tokens
        self._started = self._last_look = self._last_line = time.monotonic()
        self._on_terminal = self._stream.isatty()
        form = {"unit": "token", "unit_scale": True, "smoothing": 0.05, "disable": not self._on_terminal}
        self._bar = tqdm(total=sweep.tokens, file=self._stream, desc=self._counts(), **form)

    def start(self, finished: Container[str]) -> None:
        """Begin to measure speed; jobs that are finished already do not count for it."""
        self._started = time.monotonic()
        before = [job for job in self._sweep.jobs if job.id in finished]
        self._earlier = sum(job.tokens for job in before)
        self._bar.reset(total=self._sweep.tokens)
        self._bar.initial = self._earlier
        if before and not self._on_terminal:
            self.note(f"{len(before)} of {len(self._sweep.jobs)} jobs were finished before")

    def note(self, text: str) -> None:
        """Say a line, above the bar where there is one."""
        self._last_line = time.monotonic()
        self._bar.write(f"sweep: {text}", file=self._stream)

    def count_finished(self, job: Job) -> None:
        """Count a finished job."""
        self.done[job.id] = job
        self._settled += job.tokens
        self._show(0, at_once=len(self.done) == len(self._sweep.jobs))

    def count_failed(self, job: Job, reason: str) -> None:
        """Say which job failed, and why."""
        self.failures[job.id] = reason
        self._settled += job.tokens  # nothing of it is left to wait for
        self.note(f"FAILED {job.name}: {reason}")
        self._show(0)

    def tick(self, running: Iterable[Job]) -> None:
        """Look how far the running jobs are, at most every few seconds."""
        if time.monotonic() - self._last_look >= LOOK_SECONDS:
            self._last_look = time.monotonic()
            self._show(sum(self._store.tokens_so_far(job.id) for job in running))

    def close(self) -> None:
        """End the bar."""
        self._bar.close()

    def _show(self, under_way: int, *, at_once: bool = False) -> None:
        """Show the tokens so far, those of unfinished jobs too: in the bar, or in a line if the last one is old."""
        done = self._settled + under_way
        self._bar.n = done
        self._bar.set_description(self._counts())
        if self._on_terminal or not (at_once or time.monotonic() - self._last_line >= LINE_SECONDS):
            return
        speed = (done - self._earlier) / max(time.monotonic() - self._started, 1e-9)
        left = self._sweep.tokens - done
        text = f"{self._counts()}, {format_quantity(done)} of {format_quantity(self._sweep.tokens)} tokens"
        if left and speed > 0:
            text += f", {format_quantity(speed)} tokens/s, {format_seconds(left / speed)} left"
        self.note(text)

    def _counts(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{len(self.done)}/{len(self._sweep.jobs)} jobs{failed}"


def format_seconds(seconds: float) -> str:
    """Print a duration the way people say it.

    Examples
    --------
    >>> format_seconds(42), format_seconds(4000), format_seconds(3e5)
    ('42 s', '1.1 h', '3.5 days')
    """
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.05 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.0f} s"
