"""What the app knows of each open page, in memory only, and the long jobs that run for it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cptlaw.errors import CptlawError
from cptlaw.planning import Suggestion
from cptlaw.reporting.app.moves import Fitted
from cptlaw.runs import Runs

MOST_SESSIONS = 8  # beyond these, pages that have been idle are forgotten, the longest first
MOST_PAGES = 64  # in all, idle or not
IDLE = 600.0  # seconds without a word from a page

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
    asked: Any = None  # where the sliders stand: doubt about an older question is not shown
    report: bytes | None = None
    job: Job | None = None
    heard: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_idle(self, now: float) -> bool:
        """Whether the page has said nothing for long and nothing is being computed for it."""
        return now - self.heard > IDLE and (self.job is None or self.job.done)

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
    """The open pages, by secret names.

    Attributes
    ----------
    token
        What a page of this server knows, and no page of another site can read: only with it a session is opened.
    """

    def __init__(self, first: Callable[[], Session], clock: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(24)
        self._first = first
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, token: object) -> str:
        """Open a session for a page that knows the token, and return its name.

        Sessions in use are never forgotten for a new one.

        Raises
        ------
        CptlawError
            If the token is wrong, or very many pages are in use.
        """
        if not isinstance(token, str) or not secrets.compare_digest(
            token.encode(errors="replace"), self.token.encode()
        ):
            raise CptlawError("this page is not of this app, which was started anew perhaps. Reload the page.")
        name = secrets.token_urlsafe(24)
        with self._lock:
            now = self._clock()
            for other in list(self._open):  # the longest unheard of first
                if len(self._open) >= MOST_SESSIONS and self._open[other].is_idle(now):
                    del self._open[other]
            if len(self._open) >= MOST_PAGES:
                raise CptlawError(f"{MOST_PAGES} pages are open and in use. Close some, wait ten minutes, and reload.")
            self._open[name] = session = self._first()
            session.heard = now
        return name

    def get(self, name: object) -> Session:
        """Return a session.

        Raises
        ------
        CptlawError
            If it is unknown: the app was started anew, or many pages were opened since.
        """
        with self._lock:
            if not isinstance(name, str) or name not in self._open:
                raise CptlawError("this page has been forgotten: the app was started anew. Reload the page.")
            self._open.move_to_end(name)
            self._open[name].heard = self._clock()
            return self._open[name]
