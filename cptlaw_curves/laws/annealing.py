"""The law of one loss curve under any learning-rate schedule (Tissue et al. 2024, arXiv:2408.11029)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cptlaw.laws.base import Amplitude, Option, Shape
from cptlaw.laws.calculus import Letters, Value
from cptlaw_curves.laws.curve_law import FADING, KAPPA, CurveLaw

CURVE_EXPONENT = Shape(0.01, 20.0, start=(0.1, 1.2))  # open base models were published with exponents up to 7


SIZE_EXPONENT = Shape(1e-3, 5.0, start=(0.02, 0.4), usual=(0.3, 0.5, "log"))
# Share of the loss that annealing gains, at the rows on average; published are 2 to 7 % from the peak to zero.
ANNEALED = (0.02, 1.0, "share")


class LRAnnealing(CurveLaw):
    """L(t) = L0 + A S1^-alpha - C S2: the loss falls with the forward area and with the annealing area.

    For one training from scratch, or as one law across the phases of a run. Fitted with ``warmup=peak`` as published;
    where the warm-up is a good part of the run, ``warmup=actual`` moves alpha by a quarter.
    """

    name = "lr-annealing"
    right = "One training from scratch, its loss along the steps under any learning-rate schedule."
    wrong = "A change of corpus, and runs many times longer than the fitted ones."
    measured = (
        "Public curves of 25M to 210M parameters: 0.004 to 0.011 nats on schedules that were not fitted "
        "(studies/dynamics.md)."
    )
    equation = "L = L0 + A S1^-alpha - C S2"
    source = "Tissue et al. 2024, eq. 1, arXiv:2408.11029"
    inputs: tuple[str, ...] = ("s1", "s2")
    areas_read = ("s1", "s2")
    signed_inputs = ("s2",)
    amplitudes: tuple[str, ...] = (
        Amplitude("L0", plausible=(2.5, 3.5), usual=(0.85, 0.15, "share")),
        Amplitude("A", plausible=(0.3, 0.7), usual=(0.1, 0.8, "share")),
        Amplitude("C", plausible=(0.2, 0.5), usual=ANNEALED),
    )
    shapes = {"alpha": replace(CURVE_EXPONENT, usual=(0.5, 0.1))}  # published from .43 to .70
    decreasing: tuple[str, ...] = ("s1", "s2")
    vanishing: Mapping[str, tuple[str, ...]] = {"s1": ("A",)}
    diverges_at_zero: tuple[str, ...] = ("s1",)
    learned = {"alpha": "curve_alpha", "kappa": "curve_kappa", "g3": "size_exponent"}
    choices = CurveLaw.choices | {
        "fading": FADING,
        "size": Option(
            False, "true or false", "Add F N^-g3, for curves of several sizes; N in millions. Not published."
        ),
    }
    fading: bool
    size: bool

    def configure(self) -> None:
        """Add the exponent of the fading, and the size term."""
        super().configure()
        if self.size:
            self.inputs, self.units = (*self.inputs, "n_params"), {"n_params": 1e6, "tokens": 1.0}
            self.amplitudes = (*self.amplitudes, Amplitude("F", usual=(0.1, 1.0, "share")))
            self.shapes = self.shapes | {"g3": SIZE_EXPONENT}
            self.decreasing = (*self.decreasing, "n_params")
            self.vanishing = {**self.vanishing, "n_params": ("F",)}
            self.diverges_at_zero = (*self.diverges_at_zero, "n_params")
        if self.fading:
            self.shapes = self.shapes | {"kappa": KAPPA}
            self.decreasing = tuple(name for name in self.decreasing if name != "s1")
            # Where the gain fades both terms die out with the area, and more of it need not lower the loss while they
            # do.
            self.vanishing = {**self.vanishing, "s1": ("A", "C")}
            self.always_priors = ("kappa",)

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the forward term and the annealing term."""
        annealed = self.annealed(x, "s2", p)
        result = (1.0, x.S1**-p.alpha, -(annealed * x.S1**-p.kappa if self.fading else annealed))
        return (*result, x.N**-p.g3) if self.size else result
