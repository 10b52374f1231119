"""An average of laws read back from its file, which holds the fits of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.fit_file import common_of, fit_from
from cptlaw.fitting.members import Member
from cptlaw.fitting.rollouts import Rollout
from cptlaw.fitting.shared_error import UndertrainedBase
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.fitting.weights import RolloutScores


def auto_from(document: Mapping[str, Any], label: str) -> Average:
    """Return the average that a file's document holds.

    Raises
    ------
    DataError
        If one of its fits is damaged.
    ArithmeticError, AttributeError, LookupError, TypeError, ValueError
        If the document is damaged elsewhere.
    """
    members = tuple(
        Member(
            fit_from(item["fit"], label),
            float(item["weight"]),
            float("nan") if item["error"] is None else float(item["error"]),
        )
        for item in document["members"]
    )
    return Average(
        **common_of(document),
        members=members,
        **_rollouts_of(document, len(members)),
        skipped=document.get("skipped", {}),
        undertrained=tuple(UndertrainedBase(**one) for one in document.get("brief", ())),
        sources=tuple(fit_from(one, label) for one in document.get("sources", ())),
        study_prior=None if document.get("study_prior") is None else StudyPrior.from_dict(document["study_prior"]),
    )


def _rollouts_of(document: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return scores and folds of the rollouts of so many laws."""
    scores, folds = document["scores"], document["folds"]
    reach = np.array(scores["reach"], dtype=float)
    return {
        "scores": RolloutScores(
            np.array(scores["share"], dtype=float).reshape(count),
            np.array(scores["error"], dtype=float).reshape(count, len(folds)),
            reach.reshape(len(folds), -1) if folds else np.zeros((0, 0)),
        ),
        "folds": tuple(
            Rollout(
                fold["direction"],
                fold["label"],
                np.array(fold["fit"], dtype=bool),
                np.array(fold["test"], dtype=bool),
                reach[i],
            )
            for i, fold in enumerate(folds)
        ),
    }
