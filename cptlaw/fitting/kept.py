"""What is computed of a fit once and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

OfFit = TypeVar("OfFit", bound=Callable[..., Any])


def kept(function: OfFit) -> OfFit:
    """Let a function of a fit, and of further values that can be hashed, be computed once for each fit."""

    @wraps(function)
    def known(fit: Any, *more: Any) -> Any:
        key = (function.__qualname__, *more)
        if key not in fit._cache:
            fit._cache[key] = function(fit, *more)
        return fit._cache[key]

    return cast(OfFit, known)
