"""What a message names, whatever its words are: tests assert names, numbers and options; words are free to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def lacks(message: object, *facts: str) -> list[str]:
    """Return which of some names, numbers and options a message does not have."""
    return [fact for fact in facts if fact not in str(message)]


@contextmanager
def refused(kind: type[BaseException], *facts: str) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Expect an error of a kind that names these."""
    with pytest.raises(kind) as raised:
        yield raised
    assert lacks(raised.value, *facts) == []
