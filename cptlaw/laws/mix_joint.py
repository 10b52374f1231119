"""The joint law of optimal mixes of k corpora: what size and tokens are worth depends on the mix."""

from __future__ import annotations

from collections.abc import Sequence

from cptlaw.laws.base import Shape
from cptlaw.laws.calculus import Letters, Value, exp, log
from cptlaw.laws.mix_additive import MixAdditive

OF_MIX = Shape(-4.0, 4.0, start=(-0.7, 0.7), scale="linear", usual=(0.0, 0.5))


class MixJoint(MixAdditive):
    """L = E + 1/sum_i C_i h_i^gamma_i + A_h/N^alpha + B_h/D^beta (after Shukor et al. 2025, arXiv:2507.09404).

    In the joint law of the paper the amplitudes of size and tokens depend on the mix, so that the best mix changes with
    scale. Its exact dependence could not be looked up; here it is

        A_h = A exp(sum_i a_i h_i),   B_h = B exp(sum_i b_i h_i),

    with a_i and b_i zero for the first corpus, as the shares add up to one.
    """

    name = "mix-joint"
    order = 82
    equation = (
        "L = E + 1/sum_i C_i h_i^gamma_i + A exp(sum_i a_i h_i)/N^alpha + B exp(sum_i b_i h_i)/D^beta,  "
        "a_i = b_i = 0 for the first corpus"
    )
    source = "after Shukor et al. 2025, arXiv:2507.09404; how amplitudes depend on the mix is of this project"
    status = "reconstructed"
    right = "Forty mixes and more of k corpora at several scales, where the best mix may change with scale."
    wrong = "Few mixes: it has four parameters for each corpus."
    measured = "60 mixes of seven corpora from scratch: studies/mixes.md."

    def configure(self) -> None:
        """Give each corpus its worth, its exponent, and what it makes of size and tokens."""
        super().configure()
        for amplitude, letter in (("A", "a"), ("B", "b")):
            if amplitude in self.amplitudes:
                self.shapes |= dict.fromkeys(self.per_corpus(letter)[1:], OF_MIX)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the terms of size and tokens, and the term of the mix, which has no amplitude."""
        shares = self.shares_of(x)

        def tilt(letter: str) -> Value:
            names = self.per_corpus(letter)[1:]
            return sum((getattr(p, name) * (1.0 * share) for name, share in zip(names, shares[1:], strict=True)), 0.0)

        scale = {
            "A": lambda: exp(tilt("a") - p.alpha * log(x.N)),
            "B": lambda: exp(tilt("b") - p.beta * log(x.D)),
        }
        return 1.0, *(scale[name]() for name in self.amplitudes[1:]), self.of_mix(x, p)
