"""What the app knows of each open page, in memory only, and the long jobs that run for it."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cptlaw.errors import CptlawError
from cptlaw.planning import Suggestion
from cptlaw.reporting.app.moves import Fitted
from cptlaw.runs import Runs

MOST_SESSIONS = 8  # the oldest is forgotten first

Stage = Callable[[str, float], None]


@dataclass
class Job:
    """A long piece of work in a thread.

    Attributes
    ----------
    kind
        What it is: ``"fit"``, ``"suggest"``, ``"exact"`` or ``"report"``.
    stage, share
        What it does now, and how much is done, 0 to 1.
    problem
        The message for the user, where it failed.
    """

    kind: str
    stage: str = "starting"
    share: float = 0.0
    problem: str | None = None
    done: bool = False

    def tell(self, stage: str, share: float) -> None:
        """Say how far it is."""
        self.stage, self.share = stage, share


@dataclass
class Session:
    """One open page."""

    runs: Runs | None = None
    upload: tuple[str, bytes] | None = None
    where: str = ""
    fitted: Fitted | None = None
    suggestion: Suggestion | None = None
    exact: Any = None
    report: bytes | None = None
    job: Job | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, kind: str, work: Callable[[Stage], None]) -> Job | None:
        """Start a job in a thread; ``None`` where one is running already."""
        with self.lock:
            if self.job is not None and not self.job.done:
                return None
            job = self.job = Job(kind)

        def run() -> None:
            try:
                work(job.tell)
            except CptlawError as error:
                job.problem = str(error)
            except Exception as error:  # noqa: BLE001  a thread that dies would leave the page waiting for ever
                job.problem = f"something failed that should not: {error!r}. Please report it."
            finally:
                job.done = True

        threading.Thread(target=run, name=f"cptlaw-{kind}", daemon=True).start()
        return job


class Sessions:
    """The open pages, by secret names."""

    def __init__(self, first: Callable[[], Session]) -> None:
        self._first = first
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> str:
        """Open a session and return its name."""
        name = secrets.token_urlsafe(24)
        with self._lock:
            self._open[name] = self._first()
            while len(self._open) > MOST_SESSIONS:
                self._open.popitem(last=False)
        return name

    def get(self, name: str) -> Session:
        """Return a session.

        Raises
        ------
        CptlawError
            If it is unknown: the app was started anew, or many pages were opened since.
        """
        with self._lock:
            if name not in self._open:
                raise CptlawError("this page has been forgotten: the app was started anew. Reload the page.")
            self._open.move_to_end(name)
            return self._open[name]
