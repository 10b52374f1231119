"""The data-mixing law of k corpora."""

from __future__ import annotations

from collections.abc import Sequence

from cptlaw.laws.base import Shape
from cptlaw.laws.calculus import Letters, Value, exp
from cptlaw.laws.corpora import OfCorpora


class MixExponential(OfCorpora):
    """L = c + k exp(sum_j t_j h_j), the data-mixing law (Ye et al. 2024, arXiv:2403.16952).

    h_j is the share of corpus j in the mix. As the shares add up to one, the same number added to every t_j is a factor
    of k: t is zero for the first corpus here. The law knows neither size nor tokens, so that rows should be of one
    size and one number of tokens; the paper brings all of them to one scale by laws of size and of steps first. For two
    corpora it is the law ``mixing``.
    """

    name = "mix-exponential"
    order = 82
    equation = "L = c + k exp(sum_j t_j h_j),  t_j = 0 for the first corpus"
    source = "Ye et al. 2024, arXiv:2403.16952"
    right = "One size and one number of tokens, and more mixes than corpora."
    wrong = "Other sizes or numbers of tokens: it reads neither."
    measured = "60 mixes of seven corpora from scratch: studies/mixes.md."
    units = {"n_params": 1e9, "tokens": 1e9}
    inputs: tuple[str, ...] = ()
    amplitudes: tuple[str, ...] = ("c", "k")
    shapes = {}
    delta = 0.02
    starts = 16

    def configure(self) -> None:
        """Give each corpus but the first its effect."""
        super().configure()
        self.shapes = dict.fromkeys(self.per_corpus("t")[1:], Shape(-50.0, 50.0, start=(-4.0, 4.0), scale="linear"))

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and the term of the mix."""
        effect: Value = 0.0
        for share, name in zip(self.shares_of(x)[1:], self.per_corpus("t")[1:], strict=True):
            effect = effect + getattr(p, name) * (1.0 * share)
        return 1.0, exp(effect)
