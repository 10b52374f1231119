"""What loss curves under a schedule are made of, in other studies: shares of the loss, rates per step, exponents.

The coefficients that Wang et al. 2025 print stand as one study; lr-annealing fitted to the curves of Luo et al. as
another; the curves of lr_schedules tell how annealing fades. Where a number is read at the end of a run, that is at the
area of theirs: 8 in pre-training and 2 in CPT.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

import cptlaw as cl
from cptlaw.schedules import LAMBDA
from studies.harness import find_data
from studies.learning.learn_priors import summary
from studies.papers.dynamics_published import FIG_3, FIG_11, FIG_12, FIG_16, NAMES, ROLES
from studies.speed.curve_fits import development
from studies.speed.mpl_curves import PEAK, mpl_schedules

AREA, PUBLISHED_PEAK = 10.0, 2e-4
MOVED = 100.0  # a printed E of exactly this is a start that no optimiser moved: its shift tells nothing
STUDY, CURVES = "Wang 2025", "Luo 2025 curves"
# Kind: meaning, and what is plausible before any study, as median and spread of the logarithm.
KINDS = {
    "curve_floor": ("L0 as a share of the loss at the end", (0.90, 0.10)),
    "curve_forward": ("A S1^-alpha at the end, as a share of the loss", (0.06, 0.8)),
    "curve_anneal": ("gain of annealing from the peak to 0, as a share of the loss", (0.035, 0.6)),
    "curve_alpha": ("exponent of the forward area", (0.55, 0.3)),
    "curve_shift_source": ("|B| as a share of the loss, source loss", (0.12, 1.2)),
    "curve_shift_target": ("|B| as a share of the loss, target loss", (0.25, 0.6)),
    "curve_speed_source": ("E times the peak rate, per step, source loss", (0.003, 1.2)),
    "curve_speed_target": ("E times the peak rate, per step, target loss", (0.3, 2.0)),
    "curve_bend": ("exponent beta of the shift", (0.25, 0.8)),
    "curve_like": ("C2 over C1", (1.0, 0.2)),
}
# How the gain of annealing shrinks with the forward area: of lr-annealing:fading=true, all curves of a size and peak.
FADES = "curve_kappa", "exponent with which the gain of annealing shrinks with the training before it", (0.05, 0.05)
LENGTHS, NO_PRIOR = "lr_schedules", (0.1, 5.0)


def curves(folder: str | None) -> dict[str, Any]:
    """Return the statistics of each kind, as `benchmarks.learn_priors.statistics` has them."""
    told: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}

    def add(study: str, **values: float) -> None:
        for name, value in values.items():
            told[f"curve_{name}"].setdefault(study, []).append(value)

    # Figure 16 begins with figure 3.
    for pair in (FIG_11, *FIG_12.values(), *FIG_16.values()):
        for role, row in zip(ROLES, pair, strict=True):
            p = dict(zip(NAMES, row, strict=True))
            forward = p["A"] * AREA ** -p["alpha"]
            level = p["L0"] + forward
            add(STUDY, floor=p["L0"] / level, forward=forward / level, alpha=p["alpha"], like=p["C2"] / p["C1"])
            add(STUDY, anneal=p["C2"] * PUBLISHED_PEAK / (1.0 - LAMBDA) / level)
            if p["E"] != MOVED:
                add(STUDY, **{f"shift_{role}": abs(p["B"]) / level, f"speed_{role}": p["E"] * PUBLISHED_PEAK})
                add(STUDY, bend=p["beta"])
    assert FIG_3 in FIG_16.values()
    path = find_data("mpl_lr_curves.csv", folder)
    if path is not None:
        table = pd.read_csv(path).rename(columns={"run_id": "run"})
        for size in sorted(table["n_params"].unique()):
            rows = table[table["n_params"] == size].assign(eval="target")
            fit = cl.fit("lr-annealing", rows.iloc[::5], on="target", schedules=mpl_schedules(rows), restraint="none")
            p = fit.params
            forward = p["A"] * float(fit.data["s1"].max()) ** -p["alpha"]
            level = p["L0"] + forward
            add(CURVES, floor=p["L0"] / level, forward=forward / level, alpha=p["alpha"])
            add(CURVES, anneal=p["C"] * PEAK / (1.0 - LAMBDA) / level)
    shares = {
        kind: {
            "meaning": meaning,
            "scale": "log",
            "usual": list(usual),
            "studies": {study: summary([math.log(x) for x in values]) for study, values in told[kind].items()},
        }
        for kind, (meaning, usual) in KINDS.items()
    }
    kind, meaning, usual = FADES
    fades = fading(folder)
    studies = {LENGTHS: summary(fades)} if fades else {}
    return shares | {kind: {"meaning": meaning, "scale": "value", "usual": list(usual), "studies": studies}}


def fading(folder: str | None) -> list[float]:
    """Return the exponent kappa of each size and peak rate of lr_schedules, its short and long curves together."""
    if find_data("lr_schedules_curves.csv", folder) is None:
        return []
    found = []
    for case in development(folder):
        rows = pd.concat([case.fitted, case.test])
        spec = "lr-annealing:warmup=actual:fading=true"
        fit = cl.fit(spec, rows, on="val", schedules=case.schedules, prior={"kappa": NO_PRIOR}, restraint="none")
        found.append(fit.params["kappa"])
    return found
