"""Results that are computed once for a fit, or for its rows, and kept as long as it lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import deepcopy
from functools import wraps
from typing import Any, TypeVar, cast

FunctionOfFit = TypeVar("FunctionOfFit", bound=Callable[..., Any])
Copied = TypeVar("Copied")
Stat = TypeVar("Stat")
ORIGINAL = "original"  # of a copy: the fit that it was made of


def cached(function: FunctionOfFit) -> FunctionOfFit:
    """Compute a function of a fit, and of further hashable arguments, once for each fit."""

    @wraps(function)
    def known(fit: Any, *more: Hashable) -> Any:
        fit = fit._cache.get(ORIGINAL, fit)
        key = (function.__qualname__, *more)
        if key not in fit._cache:
            fit._cache[key] = function(fit, *more)
        return fit._cache[key]

    return cast(FunctionOfFit, known)


def copied(fit: Copied) -> Copied:
    """Return a copy that shares nothing which can be changed, and of which no `cached` function is computed twice."""
    memo: dict[int, object] = {id(one._cache): {ORIGINAL: one} for one in fits_in(fit)}
    return deepcopy(fit, memo)


def fits_in(made: Any) -> Iterator[Any]:
    """Yield the fits in what was made of a table: of scores by name, members of an average, losses below a score."""
    if isinstance(made, Mapping):
        for one in made.values():
            yield from fits_in(one)
    elif hasattr(made, "_cache"):
        yield made
        parts = [getattr(one, name, None) for one in made.members for name in ("fit", "loss")]
        for one in (*parts, *getattr(made, "sources", ())):
            if one is not made:
                yield from fits_in(one)


_STATS: dict[int, tuple[weakref.ref[object], dict[object, Any]]] = {}


def cached_stat(rows: object, key: object, read: Callable[[], Stat]) -> Stat:
    """Return a result about fitted rows, or about a fit, by its key: computed once, and kept as long as these live."""
    rows = getattr(rows, "_cache", {}).get(ORIGINAL, rows)  # of a fit that was given out before: that one's
    place, stats = id(rows), _STATS  # the module may have lost its own name when Python ends
    # By identity and not by content: hashing a table costs more than the result, and a frame that has gone takes
    # its results along.
    kept = stats.get(place)
    if kept is None or kept[0]() is not rows:
        kept = stats[place] = weakref.ref(rows, lambda _: stats.pop(place, None)), {}
    if key not in kept[1]:
        kept[1][key] = read()
    result: Stat = kept[1][key]
    return result
