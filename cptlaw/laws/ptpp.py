"""Adaptation laws aware of the pre-training budget (Goffinet et al. 2025, arXiv:2510.23198), and their baselines.

P is the base model's pre-training tokens per parameter (ptpp). The published ratio r is the share of the source
corpus (replay) for both losses; ``ratio_of=own`` uses the share of the eval's own corpus instead, which gives the
target law the right signs. N and D are in billions; for the two gated forms the unit of D is part of the model,
because its exponent varies with P.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.laws.base import EXPONENT, Context, Law, Option, RatioOf, Shape
from cptlaw.laws.bend import Bent
from cptlaw.laws.calculus import Computed, Letters, Value, expit, log, maximum
from cptlaw.laws.parameters import or_none, positive

EPS = 1e-5  # fixed in the paper
MIN_EXPONENT = 1e-6  # the paper's clip on the gated exponent
NU = Shape(0.01, 5.0, start=(0.05, 1.5))
ZETA = Shape(-5.0, 5.0, start=(-1.0, 1.5), scale="linear")


def gated_exponent(beta: Value, strength: Value, zeta: Value, budget: Value) -> Computed:
    """Return beta (1 - lambda P^zeta / (1 + P^zeta)), at least 1e-6: how the budget P slows adaptation (Form 2)."""
    # P^zeta / (1 + P^zeta), without overflow at large budgets.
    return maximum(beta * (1.0 - strength * expit(zeta * log(budget))), MIN_EXPONENT)


class _PTPP(Bent):
    """What the forms share."""

    order = 40
    source = "Goffinet et al. 2025, arXiv:2510.23198"
    right = (
        "Three or more pre-training budgets, with replay between 0.05 and 0.5; or two late ones, close to the "
        "budget that is asked for."
    )
    wrong = (
        "Two early budgets (15 and 31): equal fits then differ by up to twelve times in error. Replay 0 or 1: the "
        "law has a barrier there."
    )
    measured = (
        "Five example tables and two sealed forecasts: 1.3 to 3.5 % from three budgets, 1.6 to 16 % from two early "
        "ones (studies/measured_tables.md)."
    )
    inputs: tuple[str, ...] = ("n_params", "tokens", "replay", "ptpp")
    ratio_of: RatioOf | None = "source"
    amplitudes: tuple[str, ...] = ("E", "A", "B", "C")
    constants = {"eps": EPS}
    delta = 0.02
    ratio_margin = 1e-9  # the paper's clip of r
    decreasing: tuple[str, ...] = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero: tuple[str, ...] = ("n_params", "tokens")
    choices = Bent.choices | {
        # Read as replay for both losses, as published; as the share of the own corpus the target loss has the sign that
        # it should have once the barrier C dominates.
        "ratio_of": Option(
            "source", ("source", "own"), "source as published; own is the share of the eval's own corpus."
        ),
        # In the gated forms the exponent of D varies with P, so that the unit of D cannot be taken up by B: it belongs
        # to the model and is kept in the fit's file.
        "unit_tokens": Option(
            1e9,
            "a positive number of tokens, such as 1e9",
            "Tokens per unit of D. Part of the model for the gated forms.",
            positive,
        ),
        "shifted": Option(
            False,
            "true or false",
            "Replace D by D + kappa P N, pre-training tokens at an exchange rate kappa: finite at D = 0, and at r = 1 "
            "plain continued pre-training. An extension, not in the paper.",
        ),
    }
    unit_tokens: float
    shifted: bool

    def configure(self) -> None:
        """Set the unit of D and, shifted, give it the exchange rate."""
        self.units = {"n_params": 1e9, "tokens": self.unit_tokens}
        if self.shifted:
            self.shapes = self.shapes | {"kappa": Shape(1e-8, 10.0, start=(1e-4, 1.0))}
            self.diverges_at_zero = ("n_params",)
            self.vanishing = {"tokens": ("B",)}
            if "ptpp" not in self.inputs:
                self.inputs = (*self.inputs, "ptpp")
        super().configure()

    def token_exponent(self, x: Letters, p: Letters) -> Value:
        """Return the exponent of D."""
        return p.beta

    def adapted_tokens(self, x: Letters, p: Letters) -> Value:
        """Return D or, shifted, D plus the pre-training tokens at the exchange rate kappa."""
        if not self.shifted:
            return x.D
        # P N in units of D, so that kappa is tokens of CPT for a token of pre-training.
        pretraining = (x.P * 1.0) * (x.N * 1.0) * (self.units["n_params"] / self.units["tokens"])
        return x.D + p.kappa * pretraining

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term, the adaptation term and the ratio barrier."""
        adaptation = x.r**p.nu * self.adapted_tokens(x, p) ** -self.token_exponent(x, p)
        return 1.0, x.N**-p.alpha, adaptation, (x.r + EPS) ** -p.gamma


class _Gated(_PTPP):
    """Forms 2 and 3: the exponent of D shrinks as the pre-training budget grows."""

    choices = _PTPP.choices | {
        "lambda_upper": Option(
            1.0,
            "a positive number, or none for no bound",
            "Upper bound of lambda. 1 keeps the exponent positive; none leaves lambda unbounded as in the paper, where "
            "the clip can make the objective flat.",
            or_none(positive),
        ),
        "pivot": Option(
            "unit",
            ("unit", "fitted"),
            "What the exponent that varies with P is a power of: D in its unit, as published, so that the unit is part "
            "of the model; or D over a fitted D0, which makes the law free of units. Not published.",
        ),
    }
    lambda_upper: float | None
    pivot: Literal["unit", "fitted"]

    def configure(self) -> None:
        """Give lambda its bound, and D its pivot."""
        super().configure()
        high = 100.0 if self.lambda_upper is None else self.lambda_upper
        self.shapes = self.shapes | {
            "lambda": Shape(0.0, high, start=(min(0.1, high), min(0.9, high)), scale="linear"),
            "zeta": ZETA,
        }
        if self.pivot == "fitted":
            unit = 1e9 / self.unit_tokens  # the same range of tokens in every unit
            self.shapes = self.shapes | {"D0": Shape(1e-9 * unit, 1e6 * unit, start=(1e-4 * unit, 10.0 * unit))}

    def adapted_tokens(self, x: Letters, p: Letters) -> Value:
        """Return the tokens, over the pivot where it is fitted."""
        tokens = super().adapted_tokens(x, p)
        return tokens if self.pivot == "unit" else (tokens * 1.0) / p.D0

    def token_exponent(self, x: Letters, p: Letters) -> Value:
        """Return beta (1 - lambda P^zeta / (1 + P^zeta)), at least 1e-6."""
        return gated_exponent(p.beta, getattr(p, "lambda"), p.zeta, x.P)


class PTPPFloor(_PTPP):
    """Form 1: the pre-training budget lowers the floor, F / P^eta."""

    name = "ptpp-floor"
    equation = "L = E + A/N^alpha + B r^nu/D^beta + C/(r+eps)^gamma + F/P^eta"
    amplitudes = ("E", "A", "B", "C", "F")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "nu": NU, "gamma": EXPONENT, "eta": EXPONENT}
    decreasing = ("n_params", "tokens", "ptpp")
    vanishing = {"n_params": ("A",), "tokens": ("B",), "ptpp": ("F",)}

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of the P-blind law and the floor."""
        return *super().plain_terms(x, p), x.P**-p.eta


class PTPPGate(_Gated):
    """Form 2: the pre-training budget slows adaptation, beta (1 - lambda g(P))."""

    name = "ptpp-gate"
    equation = "L = E + A/N^alpha + B r^nu/D^(beta (1 - lambda g(P))) + C/(r+eps)^gamma,  g = P^zeta/(1+P^zeta)"
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "nu": NU, "gamma": EXPONENT}


class PTPPGatedFloor(_Gated):
    """Form 3: gate and floor together."""

    name = "ptpp-gated-floor"
    equation = (
        "L = E + A/N^alpha + B r^nu/D^(beta (1 - lambda g(P))) + C/(r+eps)^gamma + F/P^eta,  g = P^zeta/(1+P^zeta)"
    )
    amplitudes = ("E", "A", "B", "C", "F")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "nu": NU, "gamma": EXPONENT, "eta": EXPONENT}

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of the gated law and the floor."""
        return *super().plain_terms(x, p), x.P**-p.eta


class PTPPBlind(_PTPP):
    """The D-CPT law as the paper's baseline: blind to the pre-training budget, eps fixed."""

    name = "ptpp-blind"
    right = "One pre-training budget, as the baseline of the PTPP paper."
    wrong = "To carry forecasts from one budget to another: it cannot see the budget."
    measured = "English to French pilot: 2.3 to 11 % at budget 279 (studies/reproduction.md)."
    equation = "L = E + A/N^alpha + B r^nu/D^beta + C/(r+eps)^gamma"
    inputs = ("n_params", "tokens", "replay")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "nu": NU, "gamma": EXPONENT}


class PTPPNearest(PTPPBlind):
    """The blind law fitted on the highest pre-training budget alone: a baseline that the paper lacks."""

    name = "ptpp-nearest"
    right = "As the yardstick of every law with budgets: the highest measured budget, taken as the answer."
    wrong = "As a forecast of budgets far beyond the measured ones."
    measured = "Five example tables: 1.3 to 4.2 % from three budgets, 8.2 to 16 from two (studies/measured_tables.md)."
    source = "a baseline of this project; the equation is that of ptpp-blind"
    status = "reconstructed"

    def rows(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Keep the rows of the highest fitted budget."""
        if "ptpp" not in frame.columns:
            raise UsageError("law ptpp-nearest needs the column ptpp to find the highest fitted budget.")
        nearest: pd.DataFrame = frame[frame["ptpp"] == frame["ptpp"].max()]
        return nearest


class PTPPOracle(PTPPBlind):
    """The blind law fitted on the test rows themselves: not a forecast but a bound on what its shape can reach."""

    name = "ptpp-oracle"
    right = "In compare, as the best that the shape of ptpp-blind can reach on the test rows."
    wrong = "As a forecast: it has seen the rows that it is scored on."
    measured = "English to French pilot: 0.51 % (target) and 0.95 % (source) at budget 279 (studies/reproduction.md)."
    forecasts = False

    def rows(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Take the test rows."""
        if context.test is None:
            raise UsageError("law ptpp-oracle is fitted on the test rows, so it exists only inside compare.")
        return context.test


class PTPPBase(Law):
    """The base models' own losses, from pre-training tokens P N: the reference for forgetting where none was measured.

    Chinchilla's equation with D = P N. At replay 1, continual pre-training is more pre-training, so this is where the
    source loss starts from. Fitted on rows with tokens = 0; not in the paper, whose reference is infinite as printed.
    """

    name = "ptpp-base"
    right = "As the reference for forgetting where the base model's own loss was not measured."
    wrong = "Where that loss can be measured: one evaluation of the base model is exact."
    measured = (
        "Base models of five example tables at 279 tokens per parameter, from 31 to 124: 1.5 to 2.0 % "
        "(studies/measured_tables.md)."
    )
    order = 40
    equation = "L = E + A/N^alpha + B/(P N)^beta"
    source = "Hoffmann et al. 2022, eq. 2, arXiv:2203.15556, read for base models with D = P N"
    status = "reconstructed"
    inputs = ("n_params", "ptpp")
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A", "B")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT}
    decreasing = ("n_params", "ptpp")
    vanishing = {"n_params": ("A", "B"), "ptpp": ("B",)}
    diverges_at_zero = ("n_params", "ptpp")
    on_base_models = True

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term and the term of pre-training tokens, in billions."""
        return 1.0, x.N**-p.alpha, x.P**-p.beta * x.N**-p.beta
