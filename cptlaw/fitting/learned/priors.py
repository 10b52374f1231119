"""Priors of parameters, learned over other studies: exponents, shares of the terms, and what CPT laws add.

Each kind of parameter has a mean in every study that could tell it. What is said of a new study is their mean and the
spread between studies: the random-effects estimate of DerSimonian and Laird (1986), drawn towards a usual spread.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.fitting.learned import left_out, numbers
from cptlaw.fitting.solving.restraint import Prior
from cptlaw.laws.base import Law, Role

LEAST_SD = 0.1  # of any learned prior, on its scale: studies agree by chance too
USUAL_COUNT = 2.0  # studies that the usual spread of a kind counts as beside those that were seen

# The kind of each parameter, by law; exponents of laws without E are local slopes, of which these say nothing.
_STATIC = {"alpha": "size_exponent", "beta": "token_exponent", "E": "floor_share"}
_SHIFTED = {
    "E": "floor_share",
    "g": "size_exponent",
    "a": "token_exponent",
    **{name: f"shared_{name}" for name in ("k", "beta", "a2", "h", "w", "b")},
}
_ADAPTED = _STATIC | {"beta": "adaptation_exponent"}
_BUDGET = _ADAPTED | {"eta": "budget_exponent"}
KINDS: dict[str, dict[str, str]] = {
    "chinchilla": _STATIC,
    "over-training": {"a": "ladder_exponent", "b": "over_training", "E": "floor_share"},
    "shared-tokens": _SHIFTED,
    "ptpp-floor": _BUDGET,
    "ptpp-gated-floor": _BUDGET,
    "ptpp-gate": _ADAPTED,
    "ptpp-blind": _ADAPTED,
    "ptpp-nearest": _ADAPTED,
    **{f"dcpt-l{i}": _ADAPTED for i in range(1, 8)},
}


def learned_prior(kind: str, without: str | None = None) -> Prior:
    """Return the prior of one kind of parameter for a study that was not seen.

    Parameters
    ----------
    kind
        Such as ``"size_exponent"``; an error names all.
    without
        A study to leave out; the one of `cptlaw.fitting.learned.leaving_out` where absent.

    Raises
    ------
    UsageError
        If there is no such kind.
    """
    known = numbers()["priors"]
    if kind not in known:
        raise UsageError(f"no prior was learned for {kind!r}.{did_you_mean(kind, known)} Known: {', '.join(known)}.")
    without = without or left_out()
    studies = {name: one for name, one in known[kind]["studies"].items() if name != without}
    if not studies:  # the only study is left out: what it said is not used, and the range of the parameter stays
        return Prior(known[kind]["usual"][0], known[kind]["usual"][1], known[kind]["scale"])
    (middle, spread), scale = known[kind]["usual"], known[kind]["scale"]
    mean, sd = pooled(list(studies.values()), spread, middle if scale == "value" else math.log(middle))
    return Prior(mean if scale == "value" else math.exp(mean), sd, scale)


def pooled(studies: list[dict[str, object]], usual: float, middle: float) -> tuple[float, float]:
    """Return the mean over studies and the standard deviation of a new study, on the scale of the statistics.

    Parameters
    ----------
    studies
        ``mean`` and ``error`` (its standard error) of each.
    usual, middle
        Spread between studies and their mean as assumed before any is seen, the mean as sure as one study: two that
        agree may do so by chance.
    """
    means = np.array([one["mean"] for one in studies])
    square = np.array([one["error"] for one in studies]) ** 2 + 1e-6
    count = len(means)
    weight = 1.0 / square
    centre = float(weight @ means / weight.sum())
    between = 0.0
    if count > 1:
        excess = float(weight @ (means - centre) ** 2) - (count - 1)
        between = max(excess / float(weight.sum() - (weight @ weight) / weight.sum()), 0.0)
    between = ((count - 1) * between + USUAL_COUNT * usual**2) / (count - 1 + USUAL_COUNT)
    weight = 1.0 / np.append(square + between, between + usual**2)
    centre = float(weight @ np.append(means, middle) / weight.sum())
    return centre, max(math.sqrt(between + 1.0 / float(weight.sum())), LEAST_SD)


def learned_priors(law: Law, lowest_loss: float, role: Role = "target", without: str | None = None) -> dict[str, Prior]:
    """Return the learned priors of a law's parameters by name, empty for laws of which nothing was learned.

    Parameters
    ----------
    lowest_loss
        The lowest fitted loss, the unit of the floor.
    role
        Of the eval; shifts of the source and of the target loss differ.
    without
        As for `learned_prior`.
    """
    known = numbers()["priors"]
    result = {}
    for name, kind in {**KINDS.get(law.name, {}), **getattr(law, "learned", {})}.items():
        of_role = f"{kind}_{role}"
        chosen = of_role if of_role in known else kind
        if name in law.parameters and chosen in known:
            prior = learned_prior(chosen, without)
            result[name] = replace(prior, mean=prior.mean * lowest_loss) if kind == "floor_share" else prior
    return result
