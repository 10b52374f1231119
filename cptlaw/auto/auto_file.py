"""An average of laws read back from its file, which holds the fits of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cptlaw.auto.auto_fit import AutoFit
from cptlaw.auto.auto_law import Member
from cptlaw.auto.common_rollouts import Rollout
from cptlaw.auto.shared_error import BriefBase
from cptlaw.auto.weights import RolloutScores
from cptlaw.fitting.fit_file import common_of, fit_from


def auto_from(document: Mapping[str, Any], label: str) -> AutoFit:
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
    scores = document["scores"]
    count, folds = len(members), len(document["folds"])
    reach = np.array(scores["reach"], dtype=float)
    return AutoFit(
        **common_of(document),
        members=members,
        scores=RolloutScores(
            np.array(scores["share"], dtype=float).reshape(count),
            np.array(scores["error"], dtype=float).reshape(count, folds),
            reach.reshape(folds, -1) if folds else np.zeros((0, 0)),
        ),
        folds=tuple(
            Rollout(
                fold["direction"],
                fold["label"],
                np.array(fold["fit"], dtype=bool),
                np.array(fold["test"], dtype=bool),
                reach[i],
            )
            for i, fold in enumerate(document["folds"])
        ),
        skipped=document.get("skipped", {}),
        brief=tuple(BriefBase(**one) for one in document.get("brief", ())),
    )
