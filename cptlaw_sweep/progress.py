"""How a sweep goes: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterable
from typing import Any, TextIO

from cptlaw.units import format_quantity
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.store import Store

LINE_SECONDS = 30.0


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

        self._store, self._stream = store, stream or sys.stderr
        self._sweep = sweep
        self.done: dict[str, Job] = {}
        self.failures: dict[str, str] = {}
        self._earlier = 0
        self._settled = 0
        self._started = self._last_look = self._last_line = time.monotonic()
        self._bar: Any = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=self._sweep.tokens,
                unit="token",
                unit_scale=True,
                file=self._stream,
                desc=self._text(),
                smoothing=0.05,
            )

    def start(self, finished: Container[str]) -> None:
        """Begin to measure speed; jobs that are finished already do not count for it."""
        self._started = time.monotonic()
        before = [job for job in self._sweep.jobs if job.id in finished]
        self._earlier = sum(job.tokens for job in before)
        if self._bar is not None:
            self._bar.reset(total=self._sweep.tokens)
            self._bar.initial = self._earlier
        elif before:
            self._line(f"{len(before)} of {len(self._sweep.jobs)} jobs were finished before")

    def note(self, text: str) -> None:
        """Say what is being done before the first job."""
        if self._bar is not None:
            self._bar.write(f"sweep: {text}", file=self._stream)
        else:
            self._line(text)

    def finished(self, job: Job) -> None:
        """Count a finished job."""
        self.done[job.id] = job
        self._settled += job.tokens
        self._show(f"finished {job.name}")

    def failed(self, job: Job, reason: str) -> None:
        """Say which job failed, and why."""
        self.failures[job.id] = reason
        self._settled += job.tokens  # nothing of it is left to wait for
        message = f"FAILED {job.name}: {reason}"
        if self._bar is not None:
            self._bar.write(message, file=self._stream)
        else:
            self._line(message)
        self._show(None)

    def tick(self, running: Iterable[Job]) -> None:
        """Look how far the running jobs are, at most every few seconds."""
        now = time.monotonic()
        if now - self._last_look < 5.0:
            return
        self._last_look = now
        under_way = sum(self._store.tokens_so_far(job.id) for job in running)
        if self._bar is not None:
            self._bar.n = self._settled + under_way
            self._bar.set_description(self._text(), refresh=True)
        elif now - self._last_line >= LINE_SECONDS:
            self._line(self._summary(under_way))

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, event: str | None) -> None:
        if self._bar is not None:
            self._bar.n = self._settled
            self._bar.set_description(self._text(), refresh=True)
        elif event and (time.monotonic() - self._last_line >= LINE_SECONDS or len(self.done) == len(self._sweep.jobs)):
            self._line(self._summary(0))

    def _text(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{len(self.done)}/{len(self._sweep.jobs)} jobs{failed}"

    def _summary(self, under_way: int) -> str:
        seconds = time.monotonic() - self._started
        speed = (self._settled + under_way - self._earlier) / max(seconds, 1e-9)
        done, all_ = format_quantity(self._settled + under_way), format_quantity(self._sweep.tokens)
        text = f"{self._text()}, {done} of {all_} tokens"
        left = self._sweep.tokens - self._settled - under_way
        if left and speed > 0:
            text += f", {format_quantity(speed)} tokens/s, {format_seconds(left / speed)} left"
        return text

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        print(f"sweep: {text}", file=self._stream, flush=True)


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
