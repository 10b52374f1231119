"""A fitted score read back from its file, which holds the members and the fits of the losses that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cptlaw.fitting.auto.auto_file import auto_from
from cptlaw.fitting.fit_file import common_of, fit_from
from cptlaw_scores.laws.score_law import score_law
from cptlaw_scores.members import ScoreMember
from cptlaw_scores.score_fit import ScoreFit


def score_from(document: Mapping[str, Any], label: str) -> ScoreFit:
    """Return the fitted score that a file holds; of a damaged document the errors are those of `auto_from`."""
    losses = {
        str(name): auto_from(item, label) if item.get("law") == "auto" else fit_from(item, label)
        for name, item in document["losses"].items()
    }
    members = []
    for item in document["ways"]:
        law = score_law(str(item["law"]))
        theta, covariance = np.array(item["theta"], dtype=float), np.array(item["covariance"], dtype=float)
        if theta.shape != (len(law.parameters),) or covariance.shape != (len(theta), len(theta)):
            raise ValueError(
                f"{law.name} has {len(law.parameters)} parameters; found {theta.shape}, {covariance.shape}"
            )
        carrier = item["through"]
        members.append(
            ScoreMember(
                law=law,
                carrier=None if carrier is None else str(carrier),
                units={str(name): float(value) for name, value in item["units"].items()},
                theta=theta,
                covariance=covariance,
                loss=None if carrier is None else losses[str(carrier)],
                **{name: float(item[name]) for name in ("rho", "chance", "weight")},
                error=float("nan") if item["error"] is None else float(item["error"]),
            )
        )
    if not members:
        raise ValueError("it holds no law of scores")
    return ScoreFit(
        **common_of(document),
        chance=float(document["chance"]),
        n_items=float(document["n_items"]),
        scale=float(document["scale"]),
        loss_scale=float(document["loss_scale"]),
        freedom=float(document["freedom"]),
        growth=float(document["growth"]),
        metric=str(document["metric"]),
        members=tuple(members),
        rollouts=tuple(document["rollouts"]),
        skipped=tuple(document["skipped"]),
    )
