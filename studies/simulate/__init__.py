"""Simulated runs tables with the designs of the published studies, whose measurements were never released.

A design says which runs there are and where their losses are measured; a `Truth` says which law the losses follow and
where they start; `measure` puts the two together and adds noise. `dcpt_runs` and `ptpp_runs` do all of it at once::

    runs = cl.read_runs(simulate.dcpt_runs(domains=("law", "music"), sampling=20, seed=1))

The designs are the papers' (Que et al. 2024, arXiv:2406.01375; Goffinet et al. 2025, arXiv:2510.23198). **The
coefficients are not**: neither paper printed any. `DCPT_TRUTHS` and `PTPP_TRUTHS` are plausible values chosen for this
package, set so that the few losses that D-CPT does print (tables 5 and 6: chemistry and music at 1.8B) come out within
about 0.01 nats. Results on simulated runs test methods; they say nothing about the papers' data.
"""

from studies.simulate.dcpt_study import (
    DCPT_DOMAINS,
    DCPT_NOISE,
    DCPT_REPLAY,
    DCPT_SIZES,
    DCPT_TRUTHS,
    LAST_STEP,
    PROBE_STEPS,
    STEP_GRID,
    TOKENS_PER_STEP,
    cross_domain_truths,
    dcpt_design,
    dcpt_runs,
    dcpt_steps,
)
from studies.simulate.measuring import Truth, Truths, measure
from studies.simulate.ptpp_study import (
    PTPP_ATPP,
    PTPP_BUDGETS,
    PTPP_NOISE,
    PTPP_REPLAY,
    PTPP_SIZES,
    PTPP_TRUTHS,
    ptpp_design,
    ptpp_runs,
)

__all__ = [
    "DCPT_DOMAINS",
    "DCPT_NOISE",
    "DCPT_REPLAY",
    "DCPT_SIZES",
    "DCPT_TRUTHS",
    "LAST_STEP",
    "PROBE_STEPS",
    "PTPP_ATPP",
    "PTPP_BUDGETS",
    "PTPP_NOISE",
    "PTPP_REPLAY",
    "PTPP_SIZES",
    "PTPP_TRUTHS",
    "STEP_GRID",
    "TOKENS_PER_STEP",
    "Truth",
    "Truths",
    "cross_domain_truths",
    "dcpt_design",
    "dcpt_runs",
    "dcpt_steps",
    "measure",
    "ptpp_design",
    "ptpp_runs",
]


def __dir__() -> list[str]:
    return sorted(__all__)  # what tab completion shows: public names only
