"""Scaling laws of continual pre-training: one file per family, one class per law."""

from cptlaw.laws.base import Law, Shape
from cptlaw.laws.registry import LAWS, card, describe, law

__all__ = ["LAWS", "Law", "Shape", "card", "describe", "law"]
