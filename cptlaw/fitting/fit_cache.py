"""Fits that were made before: a second question to the same rows fits nothing, in a notebook and in the app."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import chain
from typing import Any, TypeVar, cast

from cptlaw.errors import CptlawError
from cptlaw.fitting.cached import copied, fits_in
from cptlaw.fitting.learned import left_out
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.runs import Runs
from cptlaw.schedules import read_schedules

MOST_FITS = 256  # of both losses of 32 answers, searches of the source loss, and which of their rows are left out
MOST_ROWS = 20_000  # of a table whose fits are kept
IN_ALL = 500_000  # rows in all fits: some 100 MB

Fitted = TypeVar("Fitted")


class FitCache:
    """The fits that were asked for last, by all that decides them; each is given out as a copy.

    Parameters
    ----------
    most_fits, most_rows, in_all
        How many are kept, of tables of how many rows, and how many rows they hold together.

    Attributes
    ----------
    look_up
        Where a fit that is not known here may be kept: takes the digest of what is asked, of 20 bytes.
    """

    def __init__(self, most_fits: int = MOST_FITS, most_rows: int = MOST_ROWS, in_all: int = IN_ALL) -> None:
        self.most_fits, self.most_rows, self.in_all = most_fits, most_rows, in_all
        self.look_up: Callable[[bytes], object] | None = None
        self._fits: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()  # the app answers several questions at a time

    def fitted(self, fit: Callable[[], Fitted], table: Runs | TrainingRows, *asked: object) -> Fitted:
        """Return what was fitted to these rows when the same was asked before, else fit.

        Parameters
        ----------
        fit
            Makes what is asked for.
        table
            The rows. What they hold decides and not which object they are: it may have been changed in place.
        *asked
            All else that decides the fit: eval, filter, law, options.
        """
        key = None if len(table) > self.most_rows else _digest(table, asked)
        if key is None:
            return fit()
        with self._lock:
            if key in self._fits:
                self._fits.move_to_end(key)
                known: Fitted = copied(self._fits[key][0])
                return known
        kept = self.look_up(key) if self.look_up else None
        result = fit() if kept is None else cast(Fitted, kept)
        with self._lock:
            self._fits[key] = result, sum(len(one.data) for one in fits_in(result))
            while len(self._fits) > self.most_fits or sum(rows for _, rows in self._fits.values()) > self.in_all:
                self._fits.popitem(last=False)
        return copied(result)

    def made(self, key: bytes) -> object:
        """Return what was made of a question by its digest, with all that was computed of it since; or a KeyError."""
        return self._fits[key][0]

    def clear(self) -> None:
        """Forget all fits, as where what is fitted was changed in the code, or a fit is to be timed."""
        with self._lock:
            self._fits.clear()


FITS = FitCache()


def _digest(table: Runs | TrainingRows, asked: tuple[object, ...]) -> bytes | None:
    """Return what tells a question to a table from all others; None where it holds what has no bytes."""
    about = [getattr(table, one.name) for one in fields(table) if one.name != "frame"]
    about = [sorted(one) if isinstance(one, frozenset) else one for one in about]  # a set has another order each time
    columns = chain.from_iterable((name, column.array) for name, column in table.frame.items())
    digest = hashlib.blake2b(digest_size=20)
    try:
        # One after another: pickled together, two equal texts would read differently where they are one object.
        for part in (*asked, left_out(), *about, table.frame.index, *columns):
            digest.update(pickle.dumps(part))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return digest.digest()


def what_decides(how: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return options by name as they decide a fit: those given, in any order, and schedules by their phases."""
    given = {name: value for name, value in how.items() if value is not None and (name, value) != ("seed", 0)}
    if "schedules" in given:
        with suppress(CptlawError):  # a file that cannot be read is refused by the fit
            given["schedules"] = [(run, one.phases) for run, one in read_schedules(given["schedules"]).items()]
    given |= {name: sorted(one.items(), key=str) for name, one in given.items() if isinstance(one, dict)}
    return sorted(given.items())
