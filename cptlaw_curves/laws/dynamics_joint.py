"""Learning dynamics over sizes, mixes and budgets (after Wang et al. 2025, eqs. 7 and 8, arXiv:2505.07796)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.laws.base import Amplitude, Option, Role
from cptlaw.laws.calculus import Array, Letters, Value, exp, log
from cptlaw.laws.parameters import UsualPrior
from cptlaw.laws.shared_tokens import OF_BUDGET, OF_PRETRAINING_RATE, OF_RATE, OF_TARGET, RATE
from cptlaw.schedules import Schedule
from cptlaw_curves.laws.annealing import SIZE_EXPONENT
from cptlaw_curves.laws.curve_law import FADING, KAPPA
from cptlaw_curves.laws.dynamics import CptDynamicsReplay

# What the shift grows with: its exponent, and the column that it reads.
GROWTH = {"rate": ("h", "peak_cpt"), "pretraining_rate": ("w", "peak_pretrain"), "budget": ("b", "s1_pretrain")}
SHAPES = {"h": OF_RATE, "w": OF_PRETRAINING_RATE, "b": OF_BUDGET}
PEAKS = ("peak_cpt", "peak_pretrain")
MEASURED = "measured"
ONE_LEVEL = 1.01  # times between the lowest and the highest value, below which a factor does not vary


def _growth(given: str | Sequence[str]) -> str | tuple[str, ...]:
    if given == MEASURED:
        return MEASURED
    parts = given.split("+") if isinstance(given, str) else given
    parts = [part for part in parts if part != "nothing"]
    if not set(parts) <= set(GROWTH):
        raise ValueError(given)
    return tuple(name for name in GROWTH if name in parts) or "nothing"


class CptDynamicsJoint(CptDynamicsReplay):
    """The learning-dynamics law over sizes, mixes and pre-training budgets: Eq. 8 with the size term of Eq. 7.

    The budget enters through the schedule of pre-training alone: its forward area S1pt stands for the tokens, what its
    decay has left over for the loss potential. So budgets and schedules that were not run are forecast by one law. Not
    published in this form; studies/dynamics.md tells what it does on real runs beside the PTPP forms.

    In a fit the shift B grows with those of the peak rates and the budget that vary in the rows, as it does in
    shared-tokens: B (lr/1e-3)^h (lr'/1e-3)^w (S1pt/N)^b. S1pt/N, an area per million parameters, stands for tokens per
    parameter; b above 0 says that over-trained models forget more.
    """

    name = "cpt-dynamics-joint"
    right = "Sizes, mixes, budgets, rates and schedules in one table, where the schedules of pre-training are known."
    wrong = "Two early budgets alone (7.5 and 22 % on docs-to-code); schedules that are not known."
    measured = (
        "Both pilots: 0.6 to 1.6 % (English to French), 1.4 to 1.7 % (documentation to code) from three budgets or "
        "two late ones (studies/dynamics.md)."
    )
    equation = (
        "L = L0 + A (S1pt+S1cpt)^-alpha - C1 S2pt - C2 S2cpt e^(a1 r) + B (1 - (1+E S1cpt)^-beta) f(a2, r_cpt) "
        "+ F N^-g3,  f as in cpt-dynamics-replay; B may grow with rates and budget"
    )
    source = "Wang et al. 2025, eqs. 7 and 8 joined, arXiv:2505.07796"
    # Eq. 7 has N in the annealing terms too. The sizes of the example runs do not determine these exponents, so they
    # are left out here; cpt-dynamics-size has them.
    units = {"n_params": 1e6, "tokens": 1.0}
    inputs = (*CptDynamicsReplay.inputs, "n_params")
    amplitudes = (*CptDynamicsReplay.amplitudes, Amplitude("F", usual=(0.1, 1.0, "share")))
    shapes = CptDynamicsReplay.shapes | {"g3": SIZE_EXPONENT}
    vanishing = {"s1_pretrain": ("A",), "n_params": ("F",)}
    learned = {**CptDynamicsReplay.learned, "g3": "size_exponent", "h": "shared_h", "b": "shared_b"}

    choices = CptDynamicsReplay.choices | {
        "growth": Option(
            MEASURED,
            f"{MEASURED}, nothing, or some of {', '.join(GROWTH)}, joined by +",
            "What the shift grows with: the peak rates of CPT and of pre-training, and the budget. measured takes, in "
            "a fit, those that vary in its rows, with priors; nothing is eq. 8.",
            _growth,
        ),
        "fading": FADING,
    }
    growth: str | tuple[str, ...]
    fading: bool

    def configure(self) -> None:
        """Add the exponents of what the shift grows with, and of the fading."""
        super().configure()
        grows = [GROWTH[name] for name in GROWTH if name in self.growth and isinstance(self.growth, tuple)]
        if self.open_base:  # whose pre-training is unknown
            grows = [one for one in grows if one[1] == "peak_cpt"]
        self.exponents = tuple(name for name, _ in grows)
        self.peaks = tuple(column for _, column in grows if column in PEAKS)
        self.inputs = (*self.inputs, *self.peaks)
        self.shapes = self.shapes | {name: SHAPES[name] for name in self.exponents}
        if self.fading:
            self.shapes = self.shapes | {"kappa": KAPPA}
            self.vanishing = {name: gone for name, gone in self.vanishing.items() if name != "s1_pretrain"}
        if self.fading or "b" in self.exponents:
            self.decreasing = tuple(name for name in self.decreasing if name != "s1_pretrain")
        self.always_priors = (*self.exponents, *(("kappa",) if self.fading else ()))

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors: what the target loss gains grows with neither the budget nor pre-training's rate."""
        known = super().usual_of(role, frame)
        return known if role != "target" else {name: OF_TARGET.get(name, known[name]) for name in known}

    # -- what a schedule tells -------------------------------------------------------------------------------------

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> CptDynamicsJoint:
        """Return the law whose shift grows with what varies in these rows."""
        if self.growth != MEASURED:
            return self
        columns = {name: column for name, (_, column) in GROWTH.items() if column in frame.columns}
        result = []
        for name, column in columns.items():
            values = frame[column].to_numpy(dtype=float)
            if name == "budget":
                values = values / frame["n_params"].to_numpy(dtype=float)
            values = values[np.isfinite(values)]
            if len(values) and values.min() > 0 and values.max() > ONE_LEVEL * values.min():
                result.append(name)
        return self.with_options(growth=result)

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns that follow from a schedule, the peak rates that are read among them."""
        return (*super().computed, *self.peaks)

    def attach(self, frame: pd.DataFrame, schedules: Mapping[str, Schedule]) -> pd.DataFrame:
        """Return rows with what their schedules tell, peak rates included; see `CurveLaw.attach`."""
        result = super().attach(frame, schedules)
        if "run" not in frame.columns or set(PEAKS) <= set(result.columns):
            return result
        run = frame["run"].astype(str)
        for i, name in enumerate(PEAKS):
            # A peak is one number of a run: it is looked up by run, and not step by step as areas are.
            known = {one: _peaks(schedules[one])[i] for one in set(run) if one in schedules}
            peak = run.map(known).astype(float)
            # A run of pre-training alone has no shift, whatever stands there.
            result[name] = result[name] if name in result.columns else peak.fillna(peak.median())
        return result

    def read(self, schedule: Schedule, at: NDArray[np.intp]) -> dict[str, Array]:
        """Return areas, and the peak rates that the law reads, at steps counted across the phases."""
        peak = dict(zip(PEAKS, _peaks(schedule), strict=True))
        return super().read(schedule, at) | {name: np.full(len(at), peak[name]) for name in self.peaks}

    # -- the terms, one by one -------------------------------------------------------------------------------------

    def annealing(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the annealing terms; fading, they shrink with the forward area of both phases."""
        terms = super().annealing(x, p)
        if not self.fading:
            return terms
        fade = ((p.S1pt if self.open_base else x.S1pt) + x.S1cpt) ** -p.kappa
        return tuple(term * fade for term in terms)

    def shift(self, x: Letters, p: Letters) -> Value:
        """Return the shift times what it grows with."""
        growth: Value = 0.0
        for name in self.exponents:
            # By logarithms, and about a usual rate, so that B keeps its size and hardly correlates with the exponents.
            if name == "b":
                variable = log(x.S1pt) - log(x.N)
            else:
                variable = log(x.peak_cpt if name == "h" else x.peak_pretrain) - math.log(RATE)
            growth = growth + getattr(p, name) * variable
        return super().shift(x, p) * exp(growth) if self.exponents else super().shift(x, p)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of Eq. 8 and the size term."""
        return *super().terms(x, p), x.N**-p.g3


def _peaks(schedule: Schedule) -> tuple[float, float]:
    """Return the peak rates of CPT and of pre-training; nan where there is no such phase, and so no shift."""
    lr, before = np.asarray(schedule.lr, dtype=float), schedule.n_pretrain
    of_cpt = float(lr[before + 1 :].max()) if schedule.n_cpt else math.nan
    return of_cpt, float(lr[: before + 1].max()) if before else math.nan
