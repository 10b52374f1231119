"""Results that are computed once for a fit, or for its rows, and kept as long as it lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial, wraps
from typing import Protocol, TypeAlias, TypeVar, TypeVarTuple, Unpack, cast, runtime_checkable

import pandas as pd

Cache: TypeAlias = dict[object, object]  # results by key, of a kind for each key
Copied = TypeVar("Copied")
Stat = TypeVar("Stat")
ORIGINAL = "original"  # of a copy: the fit that it was made of


class HasCache(Protocol):
    """A fit: its rows, with what was computed of them."""

    @property
    def _cache(self) -> Cache: ...

    @property
    def data(self) -> pd.DataFrame:
        """The fitted rows."""


@runtime_checkable
class HasMembers(HasCache, Protocol):
    """A fit that says what it is made of."""

    @property
    def members(self) -> Sequence[object]:
        """The laws with their weights, or the losses below a score."""

    def roll_out(self) -> None:
        """Compute what its file keeps of rollouts."""


FitWithCache = TypeVar("FitWithCache", bound=HasCache)
More = TypeVarTuple("More")


def cached(
    function: Callable[[FitWithCache, Unpack[More]], Stat],
) -> Callable[[FitWithCache, Unpack[More]], Stat]:
    """Compute a function of a fit, and of further hashable arguments, once for each fit."""

    @wraps(function)
    def known(fit: FitWithCache, *more: *More) -> Stat:
        fit = cast(FitWithCache, fit._cache.get(ORIGINAL, fit))
        return cached_in(fit._cache, _key(function, *more), partial(function, fit, *more))

    return known


def if_known(function: Callable[[FitWithCache], Stat], fit: FitWithCache) -> Stat | None:
    """Return the result of a `cached` function of a fit where it was computed, else None."""
    return cast("Stat | None", cast(FitWithCache, fit._cache.get(ORIGINAL, fit))._cache.get(_key(function)))


def cache_with(function: Callable[[FitWithCache], Stat], result: Stat) -> Cache:
    """Return the cache of a fit of which the result of one `cached` function is known."""
    return {_key(function): result}


def _key(function: Callable[..., object], *more: object) -> object:
    return (function.__qualname__, *more)


def cached_in(cache: Cache, key: object, read: Callable[[], Stat]) -> Stat:
    """Return the result that a cache has under a key, computed where it has none."""
    if key not in cache:
        cache[key] = read()
    return cast(Stat, cache[key])


def copied(fit: Copied) -> Copied:
    """Return a copy that shares nothing which can be changed, and of which no `cached` function is computed twice."""
    memo: dict[int, object] = {id(one._cache): {ORIGINAL: one} for one in fits_in(fit)}
    return deepcopy(fit, memo)


def fits_in(made: object) -> Iterator[HasMembers]:
    """Yield the fits in what was made of a table: of scores by name, members of an average, losses below a score."""
    if isinstance(made, Mapping):
        for one in made.values():
            yield from fits_in(one)
    elif isinstance(made, HasMembers):
        yield made
        parts = [getattr(one, name, None) for one in made.members for name in ("fit", "loss")]
        for one in (*parts, *getattr(made, "sources", ())):
            if one is not made:
                yield from fits_in(one)


_STATS: dict[int, tuple[weakref.ref[object], Cache]] = {}


def cached_stat(rows: object, key: object, read: Callable[[], Stat]) -> Stat:
    """Return a result about fitted rows, or about a fit, by its key: computed once, and kept as long as these live."""
    rows = getattr(rows, "_cache", {}).get(ORIGINAL, rows)  # of a fit that was given out before: that one's
    place, stats = id(rows), _STATS  # the module may have lost its own name when Python ends
    # By identity and not by content: hashing a table costs more than the result, and a frame that has gone takes
    # its results along.
    kept = stats.get(place)
    if kept is None or kept[0]() is not rows:
        kept = stats[place] = weakref.ref(rows, lambda _: stats.pop(place, None)), {}
    return cached_in(kept[1], key, read)
