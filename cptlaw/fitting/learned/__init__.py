"""Numbers learned from other studies: priors of parameters, and how fast laws err with the distance from their data.

`learned.json` holds them with their sources; ``python -m studies learn`` makes it again. Inside `leaving_out` they
are those of all studies but one, so that a bench can ask what would have been said before that study was seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources
from typing import Any

from cptlaw.errors import UsageError, did_you_mean

_LEFT_OUT: ContextVar[str | None] = ContextVar("left_out", default=None)


@cache
def document(name: str) -> dict[str, Any]:
    """Return the content of a file of this folder."""
    content: dict[str, object] = json.loads((resources.files(__package__) / name).read_text(encoding="utf-8"))
    return content


def numbers() -> dict[str, Any]:
    """Return the content of `learned.json`."""
    return document("learned.json")


def studies() -> tuple[str, ...]:
    """Return the names of the studies that were learned from."""
    return tuple(numbers()["studies"])


@contextmanager
def leaving_out(study: str | None) -> Iterator[None]:
    """Use what was learned without one study."""
    # Priors of loss curves come from studies of their own, of which nothing else was learned.
    known = list(
        dict.fromkeys([*studies(), *(one for kind in numbers()["priors"].values() for one in kind["studies"])])
    )
    if study is not None and study not in known:
        raise UsageError(
            f"nothing was learned from a study {study!r}.{did_you_mean(study, known)} Studies: {', '.join(known)}."
        )
    token = _LEFT_OUT.set(study)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def left_out() -> str | None:
    """Return the study that is left out at present."""
    return _LEFT_OUT.get()
