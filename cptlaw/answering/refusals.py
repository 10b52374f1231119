"""What stands where no mix keeps the limits: the mix that comes nearest, and the limit that it does keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from cptlaw.answering.planned import plan
from cptlaw.answering.question import Asked
from cptlaw.answering.takes import lowest_probability
from cptlaw.answering.what_if import point_of
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan
from cptlaw.planning.points import chances
from cptlaw.units import Share

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

ROOM = 1e-6  # relative: what a limit gives way beyond the value that can just be kept
OF_LIMIT = {"max-forgetting": "max_forgetting", "max-target-loss": "max_target_loss"}
IN_POINTS = {"min": "min_score", "max-drop": "max_drop"}


def nearest_mix(
    question: Asked, fits: Mapping[str, Fit], refused: MixPlan, scores: Mapping[str, ScoreFit]
) -> tuple[dict[str, object] | None, MixPlan | None]:
    """Return the promised ``best_reachable``, and the plan of that mix.

    Its ``limit`` is the value of the first blocking limit that this mix keeps with the probability that was asked for;
    its losses are those to expect of it, its ``probability`` is that of keeping the limits that were asked for.

    Parameters
    ----------
    refused
        The plan that keeps no limit.
    """
    granted = {
        name: value for name, value in (refused.feasible_from or {}).items() if _option_of_limit(name) is not None
    }
    # One limit that gives way is enough, but where they contradict one another only together.
    for names in [*([name] for name in granted), [*granted]] if granted else []:
        asked = _relaxed_question(question, {name: granted[name] for name in names})
        found = plan(asked, fits, question.risk, scores)
        if found.feasible:
            return _nearest_mix_fields(question, refused, found, granted[names[0]]), found
    best = refused.best_reachable
    if best is None:
        return None, None
    empty = dict.fromkeys(("limit", "replay", "tokens", "target_loss", "forgetting", "probability"))
    return {**empty, **best}, None


def _option_of_limit(name: str) -> str | None:
    kind, _, of = name.partition(" ")
    return IN_POINTS.get(kind) if of else OF_LIMIT.get(name)


def _relaxed_question(question: Asked, granted: Mapping[str, float]) -> Asked:
    """Return the question with limits that give way to what can be kept."""
    values: dict[str, Any] = {}
    for name, value in granted.items():
        option, of = str(_option_of_limit(name)), name.partition(" ")[2]
        least = option == "min_score"
        room = value - ROOM * abs(value) if least else value + ROOM * max(abs(value), ROOM)
        room = room if option == "max_target_loss" else Share(room)
        values[option] = {**(values.get(option) or getattr(question, option) or {}), of: room} if of else room
    return question.replaced(**values)


def _nearest_mix_fields(question: Asked, refused: MixPlan, found: MixPlan, limit: float) -> dict[str, object]:
    of_asked = {one.name: one for one in refused.limits}
    kept = chances([of_asked[one.name] for one in found.limits if one.name in of_asked], _row(question, found))
    scores = {
        name: value for name, value in (refused.best_reachable or {}).items() if name.startswith(("score ", "drop "))
    }
    return {
        "limit": limit,
        "replay": found.replay,
        "tokens": found.tokens,
        "lr_peak": found.lr_peak,
        "target_loss": found.target_loss,
        "source_loss": found.source_loss,
        "forgetting": found.forgetting,
        "probability": lowest_probability(kept),
        **scores,
    }


def _row(question: Asked, found: MixPlan) -> pd.DataFrame:
    return pd.DataFrame([point_of(question, found)])
