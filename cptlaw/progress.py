"""Bars for what takes long: from two seconds on, on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

LATE = 2.0  # seconds without a bar
Item = TypeVar("Item")
Bar = tuple[Callable[[int], Any], Callable[[], Any]]  # sets how many parts are done; closes the bar
_open: list[str] = []  # what is counted now: parts of its parts get no bar of their own


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[..., None]]:
    """Yield a function that counts one of `length` parts as done, whatever it is called with."""
    begun, done = time.monotonic(), 0
    bar: Bar | None = None
    inner = bool(_open)

    def advance(*_: object) -> None:
        nonlocal done, bar
        done += 1
        if bar is None and not inner and time.monotonic() - begun > LATE:
            bar = _bar(label, length)
        if bar is not None:
            bar[0](done)

    _open.append(label)
    try:
        yield advance
    finally:
        _open.pop()
        if bar is not None:
            bar[1]()


def track(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Yield items, each counted as done when the next one is asked for."""
    with progress(label, len(items)) as advance:
        for item in items:
            yield item
            advance()


def _bar(label: str, length: int) -> Bar | None:
    if "ipykernel" in sys.modules:
        from IPython.display import display  # a kernel has it; widgets and tqdm are not everywhere

        shown: Any = display({"text/plain": label}, raw=True, display_id=True)

        def tell(text: str) -> None:
            shown.update({"text/plain": text}, raw=True)

        return lambda done: tell(f"{label}: {done} of {length}"), lambda: tell("")
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import Progress

    drawn = Progress(console=Console(stderr=True), transient=True)
    task = drawn.add_task(label, total=length)
    drawn.start()
    return lambda done: drawn.update(task, completed=done), drawn.stop
