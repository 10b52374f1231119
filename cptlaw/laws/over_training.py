"""Pre-training from scratch with an exponent of its own for over-training."""

from __future__ import annotations

from collections.abc import Sequence

from cptlaw.laws.base import EXPONENT, Law, Shape
from cptlaw.laws.calculus import Letters, Value


class OverTraining(Law):
    """L = E + N^-a (A + B (D/N)^-b).

    At equal tokens per parameter the reducible loss is a power of size, and tokens per parameter have an exponent of
    their own. It is chinchilla with N^-a B (N/D)^b as its token term: on ladders that are measured at equal tokens per
    parameter, such as OLMo's, d ln L / d ln D is the same at all sizes, which no sum of two free powers has.
    """

    name = "over-training"
    right = "One corpus, training from scratch, forecasts at many more tokens per parameter than are measured."
    wrong = "It knows no replay, no second corpus and no base model. Larger sizes at equal tokens rest on one exponent."
    measured = "Seven public ladders, as a member of law auto: studies/bench.md."
    order = 11
    equation = "L = E + N^-a (A + B (D/N)^-b)"
    source = "this project"
    status = "reconstructed"
    inputs = ("n_params", "tokens")
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A", "B")
    shapes = {"a": EXPONENT, "b": Shape(0.01, 5.0, start=(0.1, 1.0), usual=(0.38, 0.4, "log"))}
    decreasing = ("tokens",)
    vanishing = {"tokens": ("B",)}
    diverges_at_zero = ("n_params", "tokens")

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the loss after endless tokens at this size, and what they still lack."""
        return 1.0, x.N**-p.a, x.N ** (p.b - p.a) * x.D**-p.b
