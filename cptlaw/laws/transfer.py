"""Laws of what pre-training is worth to a new corpus, and of what the new corpus costs the old one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.laws.base import EXPONENT, Amplitude, Context, Law, Shape
from cptlaw.laws.calculus import Letters, Value, log, maximum

MIN_EXPONENT = 1e-6  # beyond ln D1 = alpha2 / alpha3 the exponent of D2 would change its sign


class TwoStage(Law):
    """L = E + A D1^-alpha1 D2^-(alpha2 - alpha3 ln D1) (Liew and Kato 2025, arXiv:2510.06548).

    D1 = P N are the tokens of pre-training and D2 those of adaptation. The exponent of D2 falls with the logarithm of
    D1, a rival of the gate of ptpp-gate that does not depend on units; it is kept positive. The model's size enters
    through D1 alone.
    """

    name = "two-stage"
    right = "Several budgets of pre-training at one mix, no replay in question."
    wrong = "Questions of replay, which it does not read."
    order = 70
    equation = "L = E + A D1^-alpha1 D2^-(alpha2 - alpha3 ln D1),  D1 = P N, D2 = D"
    source = "Liew and Kato 2025, arXiv:2510.06548"
    status = "secondary source"
    inputs = ("n_params", "tokens", "ptpp")
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A")
    shapes = {
        "alpha1": EXPONENT,
        "alpha2": Shape(0.01, 5.0, start=(0.3, 1.2)),
        "alpha3": Shape(1e-4, 1.0, start=(0.002, 0.03)),
    }
    decreasing = ("tokens",)
    vanishing = {"tokens": ("A",)}
    diverges_at_zero = ("tokens",)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant and the term of both stages."""
        # ln D1 as a sum of logarithms: D1 = P N in the law's unit, billions of tokens.
        exponent = maximum(p.alpha2 - p.alpha3 * (log(x.P) + log(x.N)), MIN_EXPONENT)
        return 1.0, x.P**-p.alpha1 * x.N**-p.alpha1 * x.D**-exponent


class Transfer(Law):
    """L = E + A/N^alpha + B/D_E^beta with effective data D_E = D + k D^a N^b (Hernandez et al. 2021, arXiv:2102.01293).

    Pre-training is worth D_T = k D^a N^b further tokens of the new corpus, in the low-data regime. The paper gives D_T,
    in characters and non-embedding parameters; the loss at D_E is read off the law of training from scratch, here that
    of Hoffmann et al. N and D are raw.
    """

    name = "transfer"
    right = "Fine-tuning on little new text from base models of several sizes."
    wrong = "Replay, forgetting, and plenty of new text."
    order = 70
    equation = "L = E + A/N^alpha + B/(D + k D^a N^b)^beta"
    source = "Hernandez et al. 2021, arXiv:2102.01293, composed with Hoffmann et al. 2022, arXiv:2203.15556"
    status = "reconstructed"
    inputs = ("n_params", "tokens")
    # Fine-tuning goes on far below the losses that a small set reaches: in none of eight families does the floor show.
    amplitudes = (
        Amplitude("E", usual=(0.2, 0.6, "share")),
        Amplitude("A", plausible=(100.0, 1000.0), usual=(0.2, 1.0, "share")),
        Amplitude("B", plausible=(500.0, 5000.0), usual=(0.3, 1.0, "share")),
    )
    # k, a and b as published for text to code, wide enough for other corpora and for counts of samples.
    shapes = {
        "alpha": EXPONENT,
        "beta": Shape(0.01, 5.0, start=(0.2, 0.8)),
        "k": Shape(1e-9, 1e15, start=(1e-2, 1e6), usual=(1.9e4, 3.0, "log")),
        "a": Shape(0.01, 1.0, start=(0.1, 0.6), usual=(0.25, 0.6, "log")),
        "b": Shape(0.01, 2.0, start=(0.1, 0.8), usual=(0.38, 0.5, "log")),
    }
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero = ("n_params", "tokens")

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the size term and the term of effective data."""
        effective = 1.0 * x.D + p.k * (x.D**p.a * x.N**p.b)
        return 1.0, x.N**-p.alpha, effective**-p.beta


class Forgetting(Law):
    """L = L0 + A D^beta / ((1 + B p) N)^alpha for the source loss (Bethune et al. 2025, eq. 7, arXiv:2502.06042).

    L0 is the base model's own loss and p the share of pre-training data in the mix. The law is exact at D = 0, where
    those of the other families diverge, and rises with tokens; the paper's D are the unique tokens of a small target
    corpus, with early stopping. L0 comes from the rows with tokens = 0 of the same n_params (and ptpp, where the table
    has it), or from a column ``base_loss``.
    """

    name = "forgetting"
    right = "The source loss alone, base models measured, small unique target text."
    wrong = "The target loss, and source losses that fall again after their rise: it only rises with tokens."
    order = 70
    equation = "L = L0 + A D^beta / ((1 + B p) N)^alpha"
    source = "Bethune et al. 2025, eq. 7, arXiv:2502.06042"
    status = "secondary source"
    inputs = ("n_params", "tokens", "replay", "base_loss")
    ratio_of = "source"
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("A",)
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "B": Shape(1e-2, 1e7, start=(1.0, 1e4))}
    decreasing = ("n_params", "share")

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Give every row the loss of its base model: measured in a fit, that of a fitted row in a forecast."""
        if "base_loss" in frame.columns:
            return frame
        measured = context.fitted
        if context.rows is not None and "tokens" in context.rows.columns:
            measured = context.rows[context.rows["tokens"] == 0].assign(base_loss=lambda rows: rows["loss"])
        keys = [
            name for name in ("n_params", "ptpp") if name in frame.columns and measured is not None and name in measured
        ]
        if measured is None or not keys or "base_loss" not in measured.columns:
            raise DataError(f"law {self.name} needs the column 'n_params' and the base models' losses: {_BASE_ADVICE}")
        # Seeds of one base model are averaged: the law has one L0 for them.
        losses = measured.groupby(keys, observed=True)["base_loss"].mean().rename("base_loss").reset_index()
        result = frame[keys].merge(losses, on=keys, how="left")["base_loss"].to_numpy(dtype=float)
        if np.isnan(result).any():
            row = frame.iloc[int(np.flatnonzero(np.isnan(result))[0])]
            where = ", ".join(f"{name} {row[name]:g}" for name in keys)
            raise DataError(f"law {self.name} knows no loss of the base model at {where}: {_BASE_ADVICE}")
        return frame.assign(base_loss=result)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the rise and, without an amplitude, the base model's loss."""
        return x.D**p.beta * (1.0 + p.B * (1.0 * x.r)) ** -p.alpha * x.N**-p.alpha, 1.0 * x.base_loss


_BASE_ADVICE = "add rows with tokens = 0 at this size, or give base_loss (as a column, or in --at base_loss=..)."
