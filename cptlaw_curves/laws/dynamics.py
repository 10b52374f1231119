"""The loss at every step of continual pre-training (Wang, Tissue et al. 2025, arXiv:2505.07796).

A loss curve is the curve that training from scratch would have had (areas of both phases, as in lr-annealing) and the
shift between the two corpora, which grows with the forward area of CPT: up for the source loss (B > 0), down for the
target loss (B < 0). The eval's role decides the sign: B is fitted as a magnitude and reported with its sign, and taken
by its magnitude wherever the role of a row is stated. Where it is not (no column eval), B counts with the sign given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.laws.base import Amplitude, Option, Role, Shape
from cptlaw.laws.calculus import Array, Computed, Jet, Letters, Number, Positive, Value, exp, expm1, log1p, saturation
from cptlaw.laws.parameters import UsualPrior, positive
from cptlaw_curves.laws.annealing import ANNEALED, CURVE_EXPONENT, SIZE_EXPONENT
from cptlaw_curves.laws.curve_law import CurveLaw

# Published shifts: E from 3 to 18,000 per unit of area, beta from 0.001 (a logarithm) to 35 (an exponential).
SPEED = Shape(1e-2, 1e6, start=(3.0, 3e3))
BEND = Shape(1e-4, 1e3, start=(0.05, 1.0))
AREA_BEFORE = Shape(1e-3, 1e3, start=(0.03, 5.0))
GROWS_WITH_SIZE = Shape(1e-3, 5.0, start=(0.02, 0.4))
ANNEALING_OF_MIX = Shape(1e-4, 5.0, start=(0.01, 0.3), usual=(0.05, 0.8, "log"))  # published .055 and .037
SHIFT_OF_MIX = Shape(1e-2, 20.0, start=(1.0, 7.0), usual=(3.0, 0.8, "log"))  # published 3.238 and 5.696
BENT = Shape(0.05, 3.0, start=(0.6, 1.3))

SHIFTED = (0.1, 1.2, "share")  # of the loss; see `cptlaw_curves.forecasting.priors`
# E times the forward area of the longest run: how far the shift has bent by its end, and the spread of its logarithm.
BENT_BY_THE_END = (60.0, 2.0)
STRAIGHT = 0.05  # beta ln(1 + E S) up to which the shift is a logarithm to within 3 %: only B beta and E count
TINY = 1e-100  # keeps the logarithm of an area that is exactly zero, and its derivatives, finite


class CptDynamics(CurveLaw):
    """Eq. 4: the annealing law across both phases, and the shift between the corpora."""

    name = "cpt-dynamics"
    right = (
        "Whole curves of continual pre-training under known schedules: when the source loss turns, which schedule "
        "to take."
    )
    wrong = "Schedules that are not known, and a few late points per run: laws of points ask for less."
    measured = (
        "Unfinished example runs, with others beside them: 0.9 to 3.6 % of the end loss (studies/unfinished_runs.md)."
    )
    equation = "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt - C2 S2cpt + B (1 - (1+E S1cpt)^-beta)"
    source = "Wang et al. 2025, eq. 4, arXiv:2505.07796"
    inputs: tuple[str, ...] = ("s1_pretrain", "s1_cpt", "s2_pretrain", "s2_cpt")
    areas_read: tuple[str, ...] = ("s1_pretrain", "s1_cpt", "s2_pretrain", "s2_cpt")
    signed_inputs = ("s2_pretrain", "s2_cpt")
    amplitudes: tuple[str, ...] = (
        Amplitude("L0", plausible=(2.5, 3.5), usual=(0.75, 0.3, "share")),
        Amplitude("A", plausible=(0.3, 0.7), usual=(0.1, 1.0, "share")),
        Amplitude("C1", usual=ANNEALED),
        Amplitude("C2", usual=ANNEALED),
        Amplitude("B", plausible=(0.1, 0.8), signed=True, usual=SHIFTED),
    )
    shapes = {"alpha": replace(CURVE_EXPONENT, usual=(0.55, 0.1)), "E": SPEED, "beta": replace(BEND, usual=(0.2, 0.2))}
    decreasing: tuple[str, ...] = ("s1_pretrain", "s2_pretrain", "s2_cpt")
    vanishing: Mapping[str, tuple[str, ...]] = {"s1_pretrain": ("A",)}
    learned: ClassVar[Mapping[str, str]] = {"alpha": "curve_alpha", "beta": "curve_bend", "kappa": "curve_kappa"}

    choices = CurveLaw.choices | {
        "open_base": Option(
            False,
            "true or false",
            "For an open base model, whose pre-training schedule is unknown: its forward area S1pt is a parameter, its "
            "last learning rate counts as 0 unless the schedule gives start, and its annealing area is part of L0. "
            "Where its corpus is unknown too, a public one serves as proxy for the source eval.",
        )
    }
    open_base: bool

    def configure(self) -> None:
        """Leave out what an open base model does not tell, its pre-training area becoming a parameter."""
        if self.open_base:
            gone = ("s1_pretrain", "s2_pretrain")
            self.inputs = tuple(name for name in self.inputs if name not in gone)
            self.areas_read = tuple(name for name in self.areas_read if name not in gone)
            self.amplitudes = tuple(name for name in self.amplitudes if name != "C1")
            self.decreasing = tuple(name for name in self.decreasing if name not in gone)
            self.vanishing = {name: terms for name, terms in self.vanishing.items() if name not in gone}
            self.shapes = {name: shape for name, shape in self.shapes.items() if name not in ("g1", "zeta1")}
            self.shapes = self.shapes | {"S1pt": AREA_BEFORE}
        super().configure()

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors; that of E by the forward area of the rows, for published ones differ 6,000-fold."""
        known = super().usual_of(role, frame)
        area = float(frame["s1_cpt"].max()) if frame is not None and "s1_cpt" in frame.columns else 0.0
        return {**known, "E": (BENT_BY_THE_END[0] / area, BENT_BY_THE_END[1], "log")} if area > 0 else known

    # -- the terms, one by one -------------------------------------------------------------------------------------

    def forward(self, x: Letters, p: Letters) -> Value:
        """Return (S1pt + S1cpt)^-alpha."""
        return ((p.S1pt if self.open_base else x.S1pt) + x.S1cpt) ** -p.alpha

    def annealing(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of C1, unless the base model is open, and of C2."""
        of_cpt = -self.annealed(x, "s2_cpt", p)
        return (of_cpt,) if self.open_base else (-self.annealed(x, "s2_pretrain", p), of_cpt)

    def shift(self, x: Letters, p: Letters) -> Value:
        """Return 1 - (1 + E S1cpt)^-beta with the sign of the eval's role, exact however small beta is."""
        # As beta goes to 0 this over its mean goes to a logarithm over its mean, so the normalised amplitude is B beta
        # up to a constant: the degenerate shift needs no second parameterisation.
        return x.sign * saturation(p.beta * log1p(p.E * x.S1cpt))

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the forward term, the annealing terms and the shift."""
        return 1.0, self.forward(x, p), *self.annealing(x, p), self.shift(x, p)

    # -- the sign of the shift -------------------------------------------------------------------------------------

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs, with the sign of the shift by the eval's role."""
        x = super().bind(frame, role)
        of_rows = frame["eval"].astype(str).to_numpy() if "eval" in frame.columns else ""
        roles = np.broadcast_to(np.asarray(of_rows if role is None else role), len(frame))
        x.stated = np.isin(roles, ("source", "target"))
        if role is not None and not x.stated.all():
            raise UsageError(
                f"law {self.name} needs to know whether the eval measures the source or the target corpus, because the "
                f"shift raises the one loss and lowers the other. Name it with --source-eval or --target-eval "
                f"(source_eval=, target_eval= in the library)."
            )
        x.sign = np.where(roles == "target", -1.0, 1.0)
        return x

    def evaluate(self, params: Mapping[str, Number], x: Letters) -> Computed:
        """Sum the terms; where the role is stated, B counts by its magnitude."""
        # Where a row's role is stated it decides the sign, whatever sign the published coefficient has; else B's own
        # does.
        given = params["B"]
        return super().evaluate({**params, "B": np.where(x.stated, np.abs(given), given)}, x)

    # -- what a fit means ------------------------------------------------------------------------------------------

    def notes(self, params: Mapping[str, float], frame: pd.DataFrame) -> tuple[Finding, ...]:
        """Say where the boundary contradicts the paper, and where the shift is degenerate."""
        return (*self._on_boundary(), *self._on_shift(params, frame))

    def _on_boundary(self) -> Iterator[Finding]:
        """Say that without the jump between the rates an annealed base model is always ahead."""
        if self.boundary == "reset" and "s2_pretrain" in self.areas_read:
            yield Finding(
                "warning",
                "reset-boundary",
                "boundary=reset counts what pre-training annealed and not what CPT's warm-up takes back, so that of "
                "two long-trained base models with the same CPT the annealed one ends lower. The paper finds the "
                "opposite for the target loss (its finding 3): the higher the loss potential, the lower it ends.",
                "Take boundary=origin, the default, unless every base model was annealed alike.",
            )

    def _on_shift(self, params: Mapping[str, float], frame: pd.DataFrame) -> Iterator[Finding]:
        """Say where the shift is degenerate: a logarithm, an exponential, or saturated before the first row."""
        area = frame["s1_cpt"].to_numpy(dtype=float)
        seen = area[area > 0]
        if not len(seen) or params["B"] == 0:
            return
        amplitude, speed, bend = params["B"], params["E"], params["beta"]
        reach = bend * math.log1p(speed * float(seen.max()))
        if reach < STRAIGHT:
            yield Finding(
                "warning",
                "degenerate-shift",
                f"the shift is a logarithm here (beta = {bend:.3g}): the data determine B beta = "
                f"{amplitude * bend:.4g} and E = {speed:.4g}, and neither B nor beta. It has no asymptote.",
                "Forecasts far beyond the fitted steps, and whether the loss ever returns, are not determined. Run "
                "longer, or bound the transfer gap B from above.",
                remedy=Remedy("bound", "B=0:X"),
            )
        elif speed * float(seen.max()) < 0.1 and bend > 10:
            yield Finding(
                "info",
                "exponential-shift",
                f"the shift is an exponential here (E = {speed:.3g}, beta = {bend:.3g}): the data determine B and "
                f"E beta = {speed * bend:.4g}, and neither E nor beta.",
            )
        elif speed * float(np.quantile(seen, 0.02)) > 100:
            yield Finding(
                "info",
                "early-shift",
                f"(1 + E S1cpt) is above 100 in all but the first rows of CPT: E = {speed:.4g} trades off against "
                f"B and beta, and B = {amplitude:.3g} is where a power law would end.",
                "Measure more often in the first steps of CPT, where the shift begins.",
            )


class CptDynamicsSize(CptDynamics):
    """Eq. 7: annealing and floor depend on the size N (in millions, without embeddings); the shift does not."""

    name = "cpt-dynamics-size"
    right = "Whole curves of several sizes at one mix."
    wrong = "One size: the exponents of size are then not determined."
    measured = (
        "Curves of three sizes, 30K to 75K: 0.93 % of the source and 0.77 % of the target loss in sample, exponents "
        "at their bounds (studies/dynamics.md)."
    )
    equation = "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt N^g1 - C2 S2cpt N^g2 + B (1 - (1+E S1cpt)^-beta) + F N^-g3"
    source = "Wang et al. 2025, eq. 7, arXiv:2505.07796"
    units = {"n_params": 1e6, "tokens": 1.0}
    inputs = (*CptDynamics.inputs, "n_params")
    amplitudes = (*CptDynamics.amplitudes, "F")
    shapes = CptDynamics.shapes | {"g1": GROWS_WITH_SIZE, "g2": GROWS_WITH_SIZE, "g3": SIZE_EXPONENT}
    vanishing = {"s1_pretrain": ("A",), "n_params": ("F",)}

    def annealing(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the annealing terms, larger for larger models."""
        *before, of_cpt = super().annealing(x, p)
        return *(term * x.N**p.g1 for term in before), of_cpt * x.N**p.g2

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of Eq. 4 and the size term."""
        return *super().terms(x, p), x.N**-p.g3


class CptDynamicsReplay(CptDynamics):
    """Eq. 8: the shift and the annealing of CPT depend on the mix.

    With r_cpt = 1 - replay, the shift of the source loss carries e^(a2 r_cpt) - 1, that of the target loss
    1 - e^(-a2 r_cpt), and annealing e^(a1 r) with r the share of the eval's own corpus. As printed the two factors are
    exchanged, which contradicts the paper's own fits at single ratios and makes the shift of the target loss 156 nats
    without replay.
    """

    name = "cpt-dynamics-replay"
    right = "Whole curves of one size at several replays."
    wrong = "A constant rate alone, which tells nothing of how annealing depends on the mix (a1)."
    measured = (
        "Curves at four replays, 46K: 0.70 % of the source and 0.67 % of the target loss in sample, as printed 1.56 "
        "and 0.88 % (studies/dynamics.md)."
    )
    equation = (
        "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt - C2 S2cpt e^(a1 r) + B (1 - (1+E S1cpt)^-beta) f(a2, r_cpt),  "
        "f = e^(a2 r_cpt) - 1 (source), 1 - e^(-a2 r_cpt) (target)"
    )
    source = "Wang et al. 2025, eq. 8 with its two factors exchanged, arXiv:2505.07796"
    status = "reconstructed"
    ratio_of = "own"
    inputs = (*CptDynamics.inputs, "replay")
    shapes = CptDynamics.shapes | {"a1": ANNEALING_OF_MIX, "a2": SHIFT_OF_MIX}
    # The factor of the mix reaches e^7, so that the shift of a plausible law has a small B.
    amplitudes = (
        *CptDynamics.amplitudes[:-1],
        Amplitude("B", plausible=(1e-4, 5e-4), signed=True, usual=SHIFTED),
    )

    choices = CptDynamics.choices | {
        "replay_form": Option(
            "corrected",
            ("corrected", "as_printed"),
            "Which factor goes with which loss: as printed they are exchanged.",
        ),
        "normalised": Option(
            False,
            "true or false",
            "Divide the factor of the shift by its value without replay, so that B is the shift without replay and "
            "hardly correlates with a2. Not published.",
        ),
        "one_gain": Option(
            False,
            "true or false",
            "Annealing gains the same in both phases, C1 = C2, as published fits find within 7 %: base models that "
            "were all annealed alike do not tell C1.",
        ),
    }
    replay_form: Literal["corrected", "as_printed"]
    normalised: bool
    one_gain: bool

    def configure(self) -> None:
        """Leave out C1 where annealing gains the same in both phases."""
        super().configure()
        if self.one_gain:
            self.amplitudes = tuple(name for name in self.amplitudes if name != "C1")

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name == "replay" and name in frame.columns and "s1_cpt" in frame.columns:
            # A row of pre-training has no mix; its terms of the mix are zero whatever stands there.
            before = frame["s1_cpt"].to_numpy(dtype=float) == 0
            frame = frame.assign(replay=frame["replay"].where(~before | frame["replay"].notna(), 0.0))
        return super()._column(frame, name, role)

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs: r is the share of the eval's own corpus, r_cpt that of the target corpus."""
        x = super().bind(frame, role)
        x.of_source = self._replay_is_the_share(frame, role).astype(float)
        x.r_cpt = Positive(np.where(x.of_source, 1.0 - x.r.value, x.r.value))
        # Eq. 8 is about two named losses, so rows without a role are target rows, as everywhere.
        x.stated, x.sign = np.ones(len(frame), dtype=bool), np.where(x.of_source, 1.0, -1.0)
        return x

    def annealing(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the annealing terms, that of CPT with e^(a1 r)."""
        *before, of_cpt = super().annealing(x, p)
        terms = *before, of_cpt * exp(p.a1 * x.r)
        return (sum(terms[1:], terms[0]),) if self.one_gain else terms

    def shift(self, x: Letters, p: Letters) -> Value:
        """Return the shift times the factor of the mix."""
        # The convex factor is steepest without replay: a little replay saves much of the source. The concave one is
        # flat there: a little replay costs the target little.
        convex, concave = expm1(p.a2 * x.r_cpt), -expm1(-p.a2 * x.r_cpt)
        if self.normalised:
            convex, concave = convex / expm1(p.a2), concave / -expm1(-p.a2)
        chosen: Number = x.of_source if self.replay_form == "corrected" else 1.0 - x.of_source
        return super().shift(x, p) * (convex * chosen + concave * (1.0 - chosen))


def _power(given: object) -> float:
    value = positive(given)
    if value > 1:
        raise ValueError(given)
    return value


class CptDynamicsWeighted(CptDynamics):
    """Eq. 9: annealing counts less as the learning rate falls, S2 = sum of m_i eta_i^e."""

    name = "cpt-dynamics-weighted"
    right = "Whole curves where the plain annealing area leaves a pattern in the residuals."
    wrong = "Few curves: it has one exponent more than cpt-dynamics."
    measured = "Curves of 46K under three schedules: no better than cpt-dynamics, 0.99 % in CPT (studies/dynamics.md)."
    equation = "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt - C2 S2cpt + B (1 - (1+E S1cpt)^-beta),  S2 = sum m_i eta_i^e"
    source = "Wang et al. 2025, eq. 9, arXiv:2505.07796"

    choices = CptDynamics.choices | {
        "lr_power": Option(
            0.1,
            "a number above 0, at most 1; published are 0.1 and 0.2",
            "e: it keeps S2 from growing after the learning rate has come down to zero.",
            _power,
        )
    }

    def configure(self) -> None:
        """Name the power e among the constants."""
        super().configure()
        self.constants = {**self.constants, "e": self.lr_power}


class CptDynamicsPower(CptDynamics):
    """Eq. 10: powers of the annealing areas. Where a re-warm-up makes S2cpt negative, so is its power."""

    name = "cpt-dynamics-power"
    right = "Whole curves where the plain annealing area leaves a pattern in the residuals."
    wrong = "Few curves: it has two exponents more than cpt-dynamics."
    measured = (
        "Curves of 46K under three schedules: 0.93 and 0.88 % in CPT, cpt-dynamics 0.98 and 0.98 (studies/dynamics.md)."
    )
    equation = (
        "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt^zeta1 - C2 S2cpt^zeta2 + B (1 - (1+E S1cpt)^-beta),  "
        "x^zeta = sign(x) |x|^zeta"
    )
    source = "Wang et al. 2025, eq. 10, arXiv:2505.07796"
    shapes = CptDynamics.shapes | {"zeta1": BENT, "zeta2": BENT}

    def annealing(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the signed powers of the annealing areas."""
        *before, of_cpt = super().annealing(x, p)
        return *(_signed_power(term, p.zeta1) for term in before), _signed_power(of_cpt, p.zeta2)


def _signed_power(u: Value, exponent: Value) -> Computed:
    """Return sign(u) |u|^exponent of an array or a Jet, 0 at 0."""
    if not isinstance(u, Jet):
        area = u.value if isinstance(u, Positive) else np.asarray(u)
        return Positive(np.abs(area)) ** exponent * np.sign(area)
    sign = np.sign(u.value)
    return (u * sign + TINY) ** exponent * sign
