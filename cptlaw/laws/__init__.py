"""Scaling laws of continual pre-training: one file per family, one class per law."""

from cptlaw.laws.base import EXPONENT, LAWS, Amplitude, Context, Law, Option, Shape
from cptlaw.laws.by_name import law
from cptlaw.laws.described import card, describe

__all__ = ["EXPONENT", "LAWS", "Amplitude", "Context", "Law", "Option", "Shape", "card", "describe", "law"]


def __dir__() -> list[str]:
    return sorted(__all__)  # what tab completion shows: public names only
