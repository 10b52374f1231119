"""What the app knows of each open page, in memory only, and the long jobs that run for it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cptlaw.errors import CptlawError
from cptlaw.runs import Runs
from cptlaw_app.fitted import Fitted

MOST_SESSIONS = 8  # beyond these, pages that have been idle are forgotten, the longest first
MOST_PAGES = 64  # in all, idle or not
IDLE = 600.0  # seconds without a word from a page
LEAST_NAME = 12  # characters of a fingerprint in a link
MOST_KEPT = 8  # tables, and fits, that are kept for links and for other pages

Stage = Callable[[str, float], None]
PLACES = ("upload", "laws", "suggest", "report")  # where on the page a job was asked for, and tells how far it is
FITS = ("upload", "laws")


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a page shows: a table and the two losses fitted to it. It is replaced as a whole or not at all.

    Attributes
    ----------
    runs
        The table, its evals with their roles.
    where
        Filter of the rows to fit.
    laws
        Law of each role.
    fitted
        The fits; ``None`` as long as there are none.
    """

    runs: Runs
    where: str = ""
    laws: Mapping[str, str] = field(default_factory=lambda: {"target": "auto", "source": "auto"})
    fitted: Fitted | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two fits the same."""
        roles = tuple(sorted((role, name) for name in self.runs.evals if (role := self.runs.role(name)) != "other"))
        return self.runs.fingerprint, roles, self.where, tuple(sorted(self.laws.items()))

    def with_fits(self, fitted: Fitted) -> Loaded:
        """Return it with its fits."""
        return replace(self, fitted=fitted)


class Shelf:
    """Tables and fits that pages share: a link finds its table here, and nobody waits for the same fit twice."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, Loaded] = OrderedDict()
        self._fits: OrderedDict[Any, Fitted] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, loaded: Loaded) -> None:
        """Keep a table with its fits; the oldest go."""
        with self._lock:
            self._tables[loaded.runs.fingerprint] = loaded
            # The one that was looked at last goes last, so that an open page keeps its table.
            self._tables.move_to_end(loaded.runs.fingerprint)
            if loaded.fitted is not None:
                self._fits[loaded.key] = loaded.fitted
            for kept in (self._tables, self._fits):
                while len(kept) > MOST_KEPT:
                    kept.popitem(last=False)

    def fits(self, loaded: Loaded) -> Fitted | None:
        """Return the fits of a table under the same laws, rows and roles, where there are some."""
        with self._lock:
            return self._fits.get(loaded.key)

    def table(self, name: str) -> Loaded | None:
        """Return the table whose fingerprint begins with a name."""
        with self._lock:
            # A short beginning could be guessed, and tables are only for those who have the link.
            found = [loaded for key, loaded in self._tables.items() if len(name) >= LEAST_NAME and key.startswith(name)]
        return found[-1] if found else None


@dataclass
class BackgroundJob:
    """A long piece of work in a thread.

    Attributes
    ----------
    place
        Where on the page it was asked for: one of `PLACES`.
    stage, share
        What it does now, and how much is done, 0 to 1.
    result
        What came of it.
    problem
        The message for the user, where it failed.
    """

    place: str
    stage: str = "starting"
    share: float = 0.0
    result: Any = None
    problem: str | None = None
    done: bool = False

    def tell(self, stage: str, share: float) -> None:
        """Say how far it is."""
        self.stage, self.share = stage, share


@dataclass
class Session:
    """One open page.

    Attributes
    ----------
    loaded
        What it shows.
    incoming
        What was brought and is not shown yet: name and bytes of a file that could not be used as it is.
    linked
        The scenario of the address that the page was opened with, until it is shown.
    asked
        The scenario of the last move: doubt about an older one is not shown.
    answered
        The scenario of the last answer with its doubt, as the address has it and as it was read, and its plan.
    pinned
        Answers of pinned scenarios, by scenario.
    version
        How many tables and fits it has shown.
    suggestion, report
        The runs suggested last, and a page that is ready to be sent.
    jobs
        What is being computed, by place.
    """

    loaded: Loaded | None = None
    incoming: tuple[str, bytes] | None = None
    linked: Any = None
    asked: Any = None
    answered: tuple[str, Any, Any] | None = None
    pinned: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    suggestion: Any = None
    report: bytes | None = None
    jobs: dict[str, BackgroundJob] = field(default_factory=dict)
    heard: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def fitted(self) -> Fitted | None:
        """The fits that are shown."""
        return None if self.loaded is None else self.loaded.fitted

    def take(self, loaded: Loaded) -> None:
        """Show a table and its fits, all at once; what was computed for the last ones goes."""
        with self.lock:
            # At once and under the lock: a move must never answer with the fits of one table and the scenario of
            # another.
            self.loaded, self.incoming, self.suggestion, self.asked, self.pinned = loaded, None, None, None, {}
            self.answered = None
            self.version += 1
            self.jobs = {place: job for place, job in self.jobs.items() if place in FITS}

    def is_idle(self, now: float) -> bool:
        """Whether the page has said nothing for long and nothing is being computed for it."""
        return now - self.heard > IDLE and all(job.done for job in list(self.jobs.values()))

    def begin(self, place: str, work: Callable[[Stage], Any]) -> BackgroundJob | None:
        """Start a job in a thread; ``None`` where one of its kind is running already."""
        with self.lock:
            # Fits are one kind wherever they are asked for: two at once would overwrite each other's table.
            kind = FITS if place in FITS else (place,)
            if any(not self.jobs[other].done for other in kind if other in self.jobs):
                return None
            job = self.jobs[place] = BackgroundJob(place)

        def run() -> None:
            try:
                job.result = work(job.tell)
            except CptlawError as error:
                job.problem = str(error)
            except Exception as error:  # noqa: BLE001  a thread that dies would leave the page waiting for ever
                job.problem = f"something failed that should not: {error!r}. Please report it."
            finally:
                job.done = True

        # A daemon, so that the server ends when it is told to, whatever is being computed.
        threading.Thread(target=run, name=f"cptlaw-{place}", daemon=True).start()
        return job

    def forget(self, job: BackgroundJob) -> None:
        """Forget a job that has been told of."""
        with self.lock:
            if self.jobs.get(job.place) is job:
                del self.jobs[job.place]


class Sessions:
    """The open pages, by secret names.

    Attributes
    ----------
    token
        What a page of this server knows, and no page of another site can read: only with it a session is opened.
    shelf
        Tables and fits that pages share.
    """

    def __init__(self, first: Callable[[], Session], clock: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(24)
        self.shelf = Shelf()
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
        # Compared in constant time, as every secret.
        if not isinstance(token, str) or not secrets.compare_digest(
            token.encode(errors="replace"), self.token.encode()
        ):
            raise CptlawError("this page is not of this app, which was started anew perhaps. Reload the page.")
        name = secrets.token_urlsafe(24)
        with self._lock:
            now = self._clock()
            for other in list(self._open):  # the longest unheard of first
                # Only pages that said nothing for long: somebody who thinks for a while must find the page as it was.
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
