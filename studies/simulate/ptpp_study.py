"""The design of the PTPP study (Goffinet et al. 2025, arXiv:2510.23198), and truths that are plausible for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from cptlaw.units import format_quantity
from studies.simulate.measuring import Errors, Truth, Truths, measure

PTPP_SIZES = (241e6, 517e6, 1.4e9, 8.1e9)
PTPP_BUDGETS = (15.0, 31.0, 279.0)
PTPP_REPLAY = (0.1, 0.25, 0.5)
PTPP_ATPP = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # the paper's grid of tokens is not given

PTPP_NOISE = {"target": 0.002, "source": 0.006}  # what the paper's oracle fits leave over

PTPP_TRUTHS: dict[str, Truth] = {
    "target": Truth(
        "ptpp-gated-floor",
        {"E": 1.0, "A": 0.5, "B": 0.6, "C": 0.02, "F": 0.8}
        | {"alpha": 0.3, "beta": 0.22, "nu": 0.15, "gamma": 0.1, "eta": 0.35, "lambda": 0.35, "zeta": 0.5},
        {"E": 2.2, "A": 0.6, "alpha": 0.25, "F": 0.5, "eta": 0.3},
    ),
    "source": Truth(
        "ptpp-gated-floor",
        {"E": 1.3, "A": 0.6, "B": 0.25, "C": 0.12, "F": 0.9}
        | {"alpha": 0.3, "beta": 0.15, "nu": 0.8, "gamma": 0.45, "eta": 0.4, "lambda": 0.3, "zeta": 0.5},
        {"E": 1.55, "A": 0.6, "alpha": 0.3, "F": 0.9, "eta": 0.4},
    ),
}


def ptpp_design(
    n_params: Sequence[float] = PTPP_SIZES,
    ptpp: Sequence[float] = PTPP_BUDGETS,
    replay: Sequence[float] = PTPP_REPLAY,
    atpp: Sequence[float] = PTPP_ATPP,
) -> pd.DataFrame:
    """Return the points of the PTPP study: four sizes x three pre-training budgets x three replay shares.

    Parameters
    ----------
    n_params, ptpp, replay
        The levels; the paper's where absent.
    atpp
        Adaptation tokens per parameter at which each run is measured. The paper does not print its grid.

    Returns
    -------
    DataFrame
        run, n_params, tokens, replay, ptpp; raw parameters and tokens.
    """
    rows = [
        (f"{format_quantity(n)}-p{budget:g}-r{share:g}", n, n * ratio, share, budget)
        for n in n_params
        for budget in ptpp
        for share in replay
        for ratio in sorted(atpp)
    ]
    return pd.DataFrame(rows, columns=["run", "n_params", "tokens", "replay", "ptpp"]).astype({"tokens": float})


def ptpp_runs(
    atpp: Sequence[float] = PTPP_ATPP,
    *,
    truths: Truths = PTPP_TRUTHS,
    **errors: Unpack[Errors],
) -> pd.DataFrame:
    """Return simulated runs of the PTPP study, both losses, base models included.

    Parameters
    ----------
    atpp
        As for `ptpp_design`.
    truths
        As for `measure`.
    **errors
        noise, correlation, run_noise, seed as for `measure`; by default the noise of the study.
    """
    usual: Errors = {"noise": PTPP_NOISE, **errors}
    return measure(ptpp_design(atpp=atpp), truths, **usual)
