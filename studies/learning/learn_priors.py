"""What parameters came out as in other studies, with weak restraint, and as published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.errors import CptlawError
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.learned.priors import KINDS
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Prior, Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.laws import law
from cptlaw.laws.base import Law, Role
from cptlaw.runs import read_runs
from studies.series import Series

WIDER = 2.0  # times the usual standard deviations under which shared-tokens is fitted here
WEAK = {  # so wide that a table of any size decides
    "alpha": Prior(0.35, 0.8, "log"),
    "beta": Prior(0.35, 0.8, "log"),
    "a": Prior(0.35, 0.8, "log"),
    "b": Prior(0.38, 0.8, "log"),
    "E": Prior(0.6, 0.5, "share"),
}
LAWS = {
    "static": ("chinchilla", "chinchilla:bend=2", "over-training"),
    "cpt": ("shared-tokens", "ptpp-floor"),
}
LEVELS, CONFOUNDED = 3, 0.95
# Inputs that must vary in a table before it can tell a kind.
TOLD_BY = {
    "size_exponent": ("n_params",),
    "token_exponent": ("tokens", "n_params"),
    "floor_share": ("tokens", "n_params"),
    "adaptation_exponent": ("tokens", "n_params"),
    "budget_exponent": ("ptpp",),
    "ladder_exponent": ("tokens", "n_params"),
    "over_training": ("tokens", "n_params"),
    "shared_k": ("ptpp", "n_params"),
    "shared_beta": ("tokens",),
    "shared_a2": ("replay",),
    "shared_h": ("lr_peak",),
    "shared_w": ("lr_pretrain",),
    "shared_b": ("ptpp",),
}
ALONE = 0.3  # spread that is assumed of a single value
LEAST_ERROR = 0.05  # standard error of a study's mean on the log scale: its forms and evals are no random sample
MEANINGS = {
    "size_exponent": "exponent of parameters",
    "token_exponent": "exponent of training tokens",
    "adaptation_exponent": "exponent of the tokens of CPT alone",
    "budget_exponent": "exponent of pre-training tokens per parameter, in a floor of the loss",
    "floor_share": "irreducible loss as a share of the lowest fitted loss",
    "ladder_exponent": "exponent of parameters at equal tokens per parameter",
    "over_training": "exponent of tokens per parameter at one size",
    "shared_k": "worth of a token of pre-training in tokens of CPT",
    "shared_beta": "exponent with which the shift saturates",
    "shared_a2": "how the shift falls with replay",
    "shared_h": "exponent of the peak rate of CPT in the shift",
    "shared_w": "exponent of the peak rate of pre-training in the shift",
    "shared_b": "exponent of the budget in the shift",
}
LINEAR = ("shared_h", "shared_w", "shared_b")
OF_ROLE = ("shared_beta", "shared_a2", "shared_h", "shared_b")
# What is plausible before any study: middle and spread; it stands where all that told a kind are left out.
USUAL = {
    "floor_share": (0.6, 0.3),
    "ladder_exponent": (0.25, 0.4),
    "over_training": (0.38, 0.4),
    "shared_a2": (3.0, 0.7),
    "adaptation_exponent": (0.3, 0.6),
    "budget_exponent": (0.4, 0.6),
    "shared_h": (0.5, 0.4),
    "shared_w": (-0.2, 0.3),
    "shared_b": (0.1, 0.2),
}
# Published coefficients (study: values on the natural scale), with their sources in `SOURCES`.
PUBLISHED = {
    "Hoffmann 2022": {"size_exponent": [0.33917], "token_exponent": [0.28491]},
    "Muennighoff 2023": {"size_exponent": [0.35266], "token_exponent": [0.35266]},
    "Zheng 2024": {"size_exponent": [0.40], "token_exponent": [0.30], "adaptation_exponent": [0.20]},
}
SOURCES = {
    "Hoffmann 2022": "arXiv:2203.15556, unrounded",
    "Muennighoff 2023": "arXiv:2305.16264",
    "Zheng 2024": "arXiv:2407.02118, from scratch and CPT",
}


def parameters(series: Series) -> list[dict[str, float]]:
    """Return the fitted values by kind, one set for each law; the floor as a share of the lowest loss.

    Kinds of the shift are told apart by the role of the eval.
    """
    found = []
    role = str(series.frame["eval"].iloc[0])
    for name in LAWS[series.kind]:
        try:
            training = training_rows(law(name), read_runs(series.frame), str(series.frame["eval"].iloc[0]), None)
            chosen = training.law
            restraint = _restraint(chosen, series.kind, training.role)
            fit = fit_rows(training, Options(chosen.delta, min(12, chosen.starts), 0, restraint))
        except CptlawError:
            continue
        values = {}
        for parameter, kind in KINDS[chosen.name].items():
            told = parameter in fit.params and parameter not in restraint.fixed
            # The floor is learned of one form, and held by it in the others.
            told &= (name, kind) != ("over-training", "floor_share")
            if told and _varies(series, kind):
                share = float(fit.data["loss"].min()) if kind == "floor_share" else 1.0
                values[f"{kind}_{role}" if kind in OF_ROLE else kind] = fit.params[parameter] / share
        found.append(values)
    return found


def _restraint(chosen: Law, kind: str, role: Role) -> Restraint:
    if kind == "static" or not chosen.always_priors:
        return Restraint(priors=WEAK)
    usual = Restraint().with_usual_priors(chosen, role)
    wider = {name: replace(prior, sd=WIDER * prior.sd) for name, prior in usual.priors.items()}
    return replace(usual, priors={**wider, "E": WEAK["E"]})


def _varies(series: Series, kind: str) -> bool:
    """Say whether a table can tell a kind of parameter: the inputs that it belongs to must have three levels."""
    frame = series.frame[series.frame["tokens"] > 0]
    levels = {name: frame[name].nunique() for name in frame.columns}
    if any(levels.get(name, 0) < LEVELS for name in TOLD_BY.get(kind, ())):
        return False
    if kind not in ("size_exponent", "token_exponent", "floor_share", "ladder_exponent", "over_training"):
        return True
    if series.kind == "cpt":  # models of 30 to 125 thousand parameters, under a floor that the shift moves
        return False
    # Points along one run begin with its transient, which is no power law; a ladder tells no exponents apart.
    size, tokens = np.log(frame["n_params"]), np.log(frame["tokens"])
    confounded = levels["n_params"] > 1 and abs(np.corrcoef(size, tokens)[0, 1]) > CONFOUNDED
    along = int(frame.groupby("run").size().max()) > 1
    return not confounded and (kind == "size_exponent" or not along)


def statistics(values: dict[str, Iterable[dict[str, float]]]) -> dict[str, Any]:
    """Return mean, standard error, spread and count of each kind in each study, on the kind's scale.

    Parameters
    ----------
    values
        By study, what `parameters` found in its series.
    """
    found: dict[str, Any] = {}
    named = {
        name: (kind, meaning + (f", {name.removeprefix(kind + '_')} loss" if name != kind else ""))
        for kind, meaning in MEANINGS.items()
        for name in ([f"{kind}_source", f"{kind}_target"] if kind in OF_ROLE else [kind])
    }
    for name_of_kind, (kind, meaning) in named.items():
        scale = "value" if kind in LINEAR else "log"
        studies = {}
        every = {
            name: [one[name_of_kind] for one in several if name_of_kind in one] for name, several in values.items()
        }
        every |= {name: told[kind] for name, told in PUBLISHED.items() if kind in told}
        for name, natural in every.items():
            told = np.array([value for value in natural if scale == "value" or value > 1e-9])
            if not len(told):
                continue
            studies[name] = summary(told if scale == "value" else np.log(told))
        if studies or kind in USUAL:
            usual = USUAL.get(kind, (0.3, 0.5) if "exponent" in kind else (1.0, 0.7))
            found[name_of_kind] = {"meaning": meaning, "scale": scale, "usual": list(usual), "studies": studies}
    return found


def summary(told: Any) -> dict[str, float]:
    """Return what a study says of one kind: mean, standard error, spread and count, on the scale of `told`."""
    values = np.asarray(told, dtype=float)
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else ALONE
    error = max(spread / len(values) ** 0.5, LEAST_ERROR)
    one = {"mean": float(np.median(values)), "error": error, "spread": spread}
    return {key: round(value, 4) for key, value in one.items()} | {"count": len(values)}
