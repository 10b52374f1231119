"""Laws of the mix alone: the loss against the share of a corpus, at one size and one number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from cptlaw.laws.base import Law, Role, Shape
from cptlaw.laws.calculus import Letters, Number, Value, exp, log


class _Mixture(Law):
    """What the laws of the mix share: they know neither size nor tokens, so a table should hold one of each."""

    order = 80
    inputs = ("replay",)
    units = {"n_params": 1e9, "tokens": 1e9}


class Mixing(_Mixture):
    """L = c + k exp(t r), the data-mixing law for two corpora (Ye et al. 2024, arXiv:2403.16952).

    r is the share of the source corpus. The paper has exp(sum_j t_j r_j) over all corpora and, for two, exp(k x + b):
    its k is our t, its exp(b) our k. Rows should be of one size and one number of tokens.
    """

    name = "mixing"
    right = "One size, one number of tokens, several mixes: which share is best there."
    wrong = "Other sizes or numbers of tokens: it reads neither."
    equation = "L = c + k exp(t r)"
    source = "Ye et al. 2024, arXiv:2403.16952"
    ratio_of = "source"
    amplitudes = ("c", "k")
    shapes = {"t": Shape(-50.0, 50.0, start=(-8.0, 8.0), scale="linear")}
    delta = 0.02

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and the term of the mix."""
        return 1.0, exp(p.t * (1.0 * x.r))


class CMR(_Mixture):
    """L = beta + alpha R^s for the source loss, beta + alpha (1 - R^s) for the target loss (Gu et al. 2024).

    arXiv:2407.17467. R is the share of the target corpus, 1 - replay: with it the source loss rises and the target loss
    falls. The paper writes alpha R^s + beta for both; for the target loss its alpha is minus ours and its beta is our
    alpha + beta, the loss at R = 0. Rows should be of one size and one number of tokens.
    """

    name = "cmr"
    right = "One size, one number of tokens, several mixes."
    wrong = "Other sizes or numbers of tokens: it reads neither."
    equation = "L = beta + alpha R^s (source), beta + alpha (1 - R^s) (target)"
    source = "Gu et al. 2024, arXiv:2407.17467"
    status = "secondary source"
    ratio_of = "own"
    amplitudes = ("beta", "alpha")
    shapes = {"s": Shape(0.01, 20.0, start=(0.1, 4.0))}
    decreasing = ("share",)
    ratio_margin = 1e-9

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs: r is the share of the eval's own corpus."""
        x = super().bind(frame, role)
        x.of_source = self._replay_is_the_share(frame, role).astype(float)
        return x

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and the term of the mix."""
        # The law converts replay to the own share; R is that of the target corpus for both losses.
        of_source: Number = x.of_source
        target_share = of_source + (1.0 - 2.0 * of_source) * (1.0 * x.r)
        power = exp(p.s * log(target_share))
        return 1.0, (1.0 - of_source) + (2.0 * of_source - 1.0) * power
