"""Pre-training from scratch with an exponent of tokens that depends on size."""

from __future__ import annotations

from collections.abc import Sequence

from cptlaw.laws.base import Amplitude, Law, Shape
from cptlaw.laws.calculus import Letters, Value, exp, log

POWER = Shape(0.01, 1.0, start=(0.05, 0.4))


class Farseer(Law):
    """L = exp(s N^q + S) + exp(B N^b + Q) D^(-exp(A N^a + E)) (Li et al. 2025, arXiv:2506.10972).

    How the loss falls with tokens, and how fast, depends on size. The amplitudes here are F = e^S and G = e^Q. N and D
    count billions; s N^q falls with size and so does B N^b, whose b is negative, while the exponent of tokens falls
    with size too: s, b and A are kept at most zero. Read in a public benchmark of scaling laws that states the
    equation; its coefficients could not be looked up, and its nine parameters need a wide grid of sizes and tokens.
    """

    name = "farseer"
    order = 12
    equation = "L = F exp(-s N^q) + G exp(B N^-b) D^(-exp(E - A N^a))"
    source = "Li et al. 2025, arXiv:2506.10972"
    status = "secondary source"
    right = "A grid of dozens of sizes and token counts from scratch, over two orders of magnitude each."
    wrong = "Few runs: nine parameters. Beyond the tokens that were fitted it was behind smaller laws elsewhere."
    measured = "About 1,000 models by its authors; here on no data of its own."
    inputs = ("n_params", "tokens")
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = (Amplitude("F", plausible=(1.0, 2.0)), Amplitude("G", plausible=(0.2, 1.0)))
    shapes = {
        "s": Shape(1e-4, 10.0, start=(0.01, 0.5)),
        "q": POWER,
        "B": Shape(1e-3, 20.0, start=(0.1, 2.0)),
        "b": POWER,
        "E": Shape(-4.0, 2.0, start=(-1.5, 0.0), scale="linear"),
        "A": Shape(1e-4, 5.0, start=(0.01, 0.3)),
        "a": POWER,
    }
    decreasing = ("tokens",)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the term of size, and the term of tokens at this size."""
        of_size = exp(-p.s * x.N**p.q)
        fall = exp(p.E - p.A * x.N**p.a)
        # As one exponential: the two factors alone pass the range of floats at the corners of the search.
        return of_size, exp(p.B * x.N**-p.b - fall * log(x.D))
