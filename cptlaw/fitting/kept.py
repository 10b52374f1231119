"""What is computed of a fit once and kept with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import wraps
from typing import Any, TypeVar, cast

OfFit = TypeVar("OfFit", bound=Callable[..., Any])
Copied = TypeVar("Copied")
ORIGINAL = "original"  # of a copy: the fit that it was made of


def kept(function: OfFit) -> OfFit:
    """Let a function of a fit, and of further values that can be hashed, be computed once for each fit."""

    @wraps(function)
    def known(fit: Any, *more: Any) -> Any:
        fit = fit._cache.get(ORIGINAL, fit)
        key = (function.__qualname__, *more)
        if key not in fit._cache:
            fit._cache[key] = function(fit, *more)
        return fit._cache[key]

    return cast(OfFit, known)


def copied(fit: Copied) -> Copied:
    """Return a copy that shares nothing which can be changed, and of which no `kept` function is computed twice."""
    memo: dict[int, Any] = {id(one._cache): {ORIGINAL: one} for one in _fits_in(fit)}
    return deepcopy(fit, memo)


def _fits_in(fit: Any) -> Iterator[Any]:
    """Yield a fit, or several by name, and all of which they are made: members of an average, losses below a score."""
    if isinstance(fit, Mapping):
        for one in fit.values():
            yield from _fits_in(one)
        return
    yield fit
    for member in getattr(fit, "members", ()):
        for one in (getattr(member, "fit", None), getattr(member, "loss", None)):
            if one is not None and one is not fit:
                yield from _fits_in(one)
    yield from getattr(fit, "sources", ())
