"""Training on repeated data: two laws, one of effective tokens and one of over-fitting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cptlaw.laws.base import EXPONENT, Amplitude, Law, Option, Shape
from cptlaw.laws.calculus import Computed, Letters, Value, exp, expm1, log, maximum, minimum
from cptlaw.laws.parameters import IN_RAW_COUNTS, positive

# Parameters for which a unique token is enough at best, as the published coefficients have it: (A/B)^(1/alpha).
PER_TOKEN = math.exp((6.255414 - 7.3049974) / 0.3526596)
NEVER = 1e-300  # stands for no repetition, whose logarithm must be finite
HALF_LIFE = Shape(0.1, 1e3, start=(2.0, 40.0))


class _OfUnique(Law):
    """What both laws read: parameters, tokens, and the unique tokens among them."""

    order = 15
    inputs = ("n_params", "tokens", "unique_tokens")
    steady_inputs = ("unique_tokens",)
    diverges_at_zero = ("n_params",)

    @staticmethod
    def unique(x: Letters) -> tuple[Computed, Computed]:
        """Return the unique tokens read, U, and how often they are repeated, R, (n,) each."""
        read, pool = x.D * 1.0, x.unique_tokens * 1.0
        return minimum(read, pool), maximum(read / pool - 1.0, 0.0)


class Repeated(_OfUnique):
    """L = E + A/N'^alpha + B/D'^beta with effective parameters N' and tokens D' (Muennighoff et al. 2023).

    arXiv:2305.16264, eq. 5 and 6. A run of D tokens, U of them unique, has

        D' = U + U R_D (1 - exp(-r/R_D)),    r = D/U - 1
        N' = V + V R_N (1 - exp(-s/R_N)),    s = N/V - 1,  V = min(N, N_opt(U))

    where N_opt(U) are the parameters for which U unique tokens are just enough: a number of them for each token, the
    option `per_token`, 0.051 by the published coefficients.
    """

    name = "repeated"
    equation = "L = E + A/N'^alpha + B/D'^beta,  D' = U + U R_D (1 - e^(-r/R_D)),  N' likewise with R_N"
    source = "Muennighoff et al. 2023, eq. 5 and 6, arXiv:2305.16264"
    status = "secondary source"
    right = "Training from scratch on fewer unique tokens than are read, up to some tens of repetitions."
    wrong = "Large models on small pools: in this law repeating never does harm, whatever the size."
    measured = "182 runs by its authors; here on no data of its own."
    amplitudes = IN_RAW_COUNTS
    shapes = {
        "alpha": EXPONENT,
        "beta": EXPONENT,
        "R_D": HALF_LIFE,
        "R_N": HALF_LIFE,
    }
    decreasing = ("n_params",)
    choices = {
        "per_token": Option(PER_TOKEN, "a positive number", "Parameters for each unique token in N_opt.", positive)
    }
    per_token: float

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, and the terms of effective parameters and tokens."""
        unique, repeats = self.unique(x)
        size, most = x.N * 1.0, self.per_token * unique
        enough, excess = minimum(size, most), maximum(size / most - 1.0, 0.0)
        # 1 - exp(-r/R) by expm1: exact at the first repetition, where r is small and the two terms nearly cancel.
        tokens = unique * (1.0 - p.R_D * expm1(-repeats / p.R_D))
        params = enough * (1.0 - p.R_N * expm1(-excess / p.R_N))
        return 1.0, params**-p.alpha, tokens**-p.beta


class Overfitting(_OfUnique):
    """L = E + A/N^alpha + B/D^beta + P R^delta (N/U)^kappa (Lovelace et al. 2026, arXiv:2605.01640).

    R = D/U - 1 is how often the U unique tokens are repeated, and N/U the parameters for each of them: repeating does
    harm, more so for large models. Read in the review of L. Weng, "Scaling Laws, Carefully" (2026), which prints the
    equation; the fitted coefficients could not be looked up.
    """

    name = "overfitting"
    equation = "L = E + A/N^alpha + B/D^beta + P R^delta (N/U)^kappa,  R = D/U - 1"
    source = "Lovelace et al. 2026, arXiv:2605.01640, as printed by Weng 2026, 'Scaling Laws, Carefully'"
    status = "secondary source"
    right = "Runs of several sizes that repeat pools of several sizes: from when on repeating does harm."
    wrong = "Tables without repetition, which say nothing of P, delta and kappa."
    measured = "About 300 runs of 15M to 1B parameters by its authors; here on no data of its own."
    amplitudes = (*IN_RAW_COUNTS, Amplitude("P", plausible=(0.001, 0.1)))
    shapes = {
        "alpha": EXPONENT,
        "beta": EXPONENT,
        "delta": Shape(0.05, 5.0, start=(0.3, 2.0)),
        "kappa": Shape(0.05, 5.0, start=(0.2, 1.5)),
    }

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the terms of size and tokens, and the penalty of over-fitting."""
        unique, repeats = self.unique(x)
        # As exp of a sum of logarithms, for both factors are powers of fitted exponents.
        often, crowded = log(maximum(repeats, NEVER)), log(x.N) - log(unique)
        return 1.0, x.N**-p.alpha, x.D**-p.beta, exp(p.delta * often + p.kappa * crowded)
