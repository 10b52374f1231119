"""The generalised sum of two bottlenecks: how the size term and the token term of a law join.

    plain      A u + B v                                     u, v: the two terms, such as N^-alpha and D^-beta
    bent       ((A u)^q + (B v)^q)^(1/q)                     q = 1 is the plain sum, q -> infinity the larger of the two

Real ladders lie between the plain sum, which is too low on over-trained models, and Kaplan's law, which is too high. q
is an option and never a parameter: fitted freely it runs away, and what it decides lies outside the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from cptlaw.laws.base import Law, Option, Shape
from cptlaw.laws.calculus import Array, Letters, Number, Value, exp
from cptlaw.laws.parameters import number

BENDS = (1, 1.5, 2, 3)
# The token term over the size term, at one unit of each; ladders have values near 1 at a billion of each.
RATIO = Shape(1e-8, 1e8, start=(0.05, 20.0))


def as_ratio(part: Number, whole: Number) -> Array:
    """Return part over whole; 1 where the whole is 0, of which any ratio says the same."""
    some = np.asarray(whole) > 0
    return np.where(some, part / np.where(some, whole, 1.0), 1.0)


def _bend(given: object) -> float:
    value = number(given)
    if value not in BENDS:
        raise ValueError(given)
    return int(value) if value.is_integer() else value


class Bent(Law):
    """A law that offers the bend: it writes `plain_terms`, and names the two amplitudes that join.

    In a fit, the amplitude of the token term is searched as its ratio to that of the size term, which keeps the joint
    term linear in one amplitude; `published` and `fitted` turn the ratio into the amplitude and back.

    Attributes
    ----------
    joined
        The amplitudes of the size term and of the token term.
    """

    joined: ClassVar[tuple[str, str]] = ("A", "B")
    plain_amplitudes: tuple[str, ...]
    choices = {
        "bend": Option(
            1,
            "1, 1.5, 2 or 3; q is not fitted",
            "q of the generalised sum ((A u)^q + (B v)^q)^(1/q) of the size term and the token term: 1 as published. "
            "Forecasts of over-trained models need more.",
            _bend,
        )
    }
    bend: float

    def configure(self) -> None:
        """Where q is not 1, search the amplitude of the token term as a ratio, like a shape."""
        if self.bend == 1:
            return
        tokens = self.joined[1]
        self.equation = self._bent_equation()
        self.plain_amplitudes = self.amplitudes
        self.amplitudes = tuple(name for name in self.amplitudes if name != tokens)
        self.shapes = {**self.shapes, tokens: RATIO}
        self.derived = (*self.derived, tokens)
        # The joint term vanishes with neither input alone.
        self.vanishing = {
            name: kept
            for name, terms in self.vanishing.items()
            if (kept := tuple(term for term in terms if term not in self.joined))
        }

    def _bent_equation(self) -> str:
        terms, depth = [""], 0
        for word in self.equation.split(" "):
            if depth == 0 and word in ("+", "+/-"):
                terms.append("")
            terms[-1] += f" {word}"
            # A plus within brackets joins parts of one term.
            depth += word.count("(") - word.count(")")
        size, tokens = (
            next((term for term in terms if term.startswith((f" + {name}/", f" + {name} "))), None)
            for name in self.joined
        )
        if size is None or tokens is None:  # a law of another package may write its equation as it likes
            return f"{self.equation}, the terms of {' and '.join(self.joined)} joined with q = {self.bend:g}"
        joint = " + ".join(f"({term.removeprefix(' + ')})^{self.bend:g}" for term in (size, tokens))
        terms[terms.index(size)] = f" + ({joint})^(1/{self.bend:g})"
        terms.remove(tokens)
        return "".join(terms).strip()

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of the plain sum, one per amplitude of the plain law."""
        raise NotImplementedError

    def log_unit(self, p: Letters) -> Value:
        """Return the log of the plain ratio of the two amplitudes at which the searched ratio is 1."""
        return 0.0

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms, with the size term and the token term joined."""
        plain = list(self.plain_terms(x, p))
        if self.bend == 1:
            return plain
        size, tokens = self.joined
        names = self.plain_amplitudes
        u, v = plain[names.index(size)], plain[names.index(tokens)]
        ratio = getattr(p, tokens) * exp(self.log_unit(p))
        # With one amplitude outside the joint term stays linear in it, and the search goes on as for a plain law.
        plain[names.index(size)] = (u**self.bend + (v * ratio) ** self.bend) ** (1.0 / self.bend)
        del plain[names.index(tokens)]
        return plain

    def published(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn the ratio of the token term into its amplitude."""
        return self._scaled(params, 1)

    def fitted(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Turn the amplitude of the token term into its ratio to the size term."""
        return self._scaled(params, -1)

    def _scaled(self, params: Mapping[str, Number], power: int) -> dict[str, Number]:
        if self.bend == 1:
            return dict(params)
        size, tokens = self.joined
        # Searched is the ratio of the two terms at one unit of each, which data determine whatever the units are.
        factor = params[size] * np.exp(np.asarray(self.log_unit(Letters(**params)), dtype=float))
        if power > 0:
            return {**params, tokens: params[tokens] * factor}
        return {**params, tokens: as_ratio(params[tokens], factor)}
