"""What a law says of itself in words, for `cptlaw laws NAME` and its card in the documents."""

from __future__ import annotations

import html
from typing import ClassVar, Literal

from cptlaw.laws.card import card

Status = Literal["published", "secondary source", "reconstructed"]


class Described:
    """What every law declares in words.

    Attributes
    ----------
    equation, source
        The formula in plain text; paper, equation number and arXiv id.
    status
        ``"published"``, ``"secondary source"`` or ``"reconstructed"``.
    right, wrong
        When to take this law, and when not to: one or two sentences each.
    measured
        On which data this project measured it, and what came out. A law that was not measured here says so.
    """

    equation: str = "not written out"
    source: ClassVar[str] = "not given"
    status: ClassVar[Status] = "published"
    right: ClassVar[str] = ""
    wrong: ClassVar[str] = ""
    measured: ClassVar[str] = "not measured here yet"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(card(self))}</pre>"  # type: ignore[arg-type]  # every law derives from this
