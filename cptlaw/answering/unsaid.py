"""What was not said of a study, and which of it would narrow an answer from few runs most if it were said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cptlaw.answering.next_runs import INTERVAL
from cptlaw.answering.result import UsefulOption
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.learned.forgetting_and_gain import SHIFTS, typical_peak
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.planning import MixPlan

LEAST = 0.1  # of the width: what narrows it less is not named


def most_useful_option(planned: MixPlan, role: str) -> UsefulOption | None:
    """Return the option that would narrow the answer most, what it narrows, and at most by which share of the interval.

    Of a kind of shift that is the kind that narrows it most, of a rate the usual one.
    """
    mix = planned.fitted_mix
    loss = mix.source if role == "source" else mix.target
    if not planned.feasible or loss is None or not isinstance(loss.fit, Average) or loss.fit.study_prior is None:
        return None
    above, average, prior = mix.forgetting if role == "source" else None, loss.fit, loss.fit.study_prior
    point = {name: np.array([getattr(planned, name)]) for name in ("replay", "tokens")}

    def width(known: StudyPrior) -> float:
        one = replace(loss, fit=average.with_study_prior(known))
        half = one.half_width(point, INTERVAL)
        if above is not None:
            half = replace(above, shared=above.shared and one).half_width(point, half, INTERVAL)
        return float(half[0])

    supposed = {("--shift", kind): replace(prior, shift=kind) for kind in SHIFTS if prior.shift is None}
    if prior.lr_pretrain is None:
        rate = float(typical_peak(loss.n_params))
        supposed["--lr-pretrain", f"{rate:.1g}"] = replace(prior, lr_pretrain=rate)
    widths = {option: width(known) for option, known in supposed.items()}
    if not widths:
        return None
    (option, said), narrowed = min(widths.items(), key=lambda pair: pair[1])
    by, of = 1.0 - narrowed / width(prior), "forgetting" if above is not None else f"the {role} loss"
    return UsefulOption(option, said, of, by) if by >= LEAST else None
