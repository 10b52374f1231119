"""How much worse than the best one the chosen mix may be, given what the fits leave open."""

from __future__ import annotations

from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.corpora.question import BestMix
from cptlaw.planning.corpora.simplex import KEPT

DRAWS = 100
HIGH = 0.9
NEARER = (0.01, 0.03, 0.1, 0.3)


def regret(question: BestMix, shares: Array) -> dict[str, float]:
    """Return the mean and the 90 % quantile of the regret of a mix, nats per token; nothing where it is not known.

    Notes
    -----
    Each bootstrap draw of the parameters has a best mix of its own among many that keep the limits by the forecast. Its
    distance from the chosen one, averaged over draws, is what the choice is expected to cost. The evals are drawn apart
    from each other. It says nothing of how wrong the form of the law is.
    """
    fits = {name: question.losses[name].fit for name in question.weights}
    if not all(hasattr(fit, "draws") and fit.n_points and not hasattr(fit, "members") for fit in fits.values()):
        return {}
    others = question.allowed.candidates()
    near = [shares + part * (others - shares) for part in NEARER]  # rivals are neighbours as a rule
    mixes = np.concatenate([shares, *near, others])
    kept = np.all(question.values(mixes)[:, 1:] <= KEPT, axis=1)
    kept[0] = True
    counted = question.pools.counted(mixes[kept], question.tokens)
    total: Any = 0.0
    for name, weight in question.weights.items():
        fit = fits[name]
        frame = fit.completed(question.losses[name].frame(*counted))
        total = total + weight * fit.law.predict_many(fit.draws(DRAWS), frame, fit.role)
    cost = total[:, 0] - total.min(axis=1)
    cost = cost[np.isfinite(cost)]
    if not len(cost):
        return {}
    return {"expected_regret": float(cost.mean()), "regret_hi": float(np.quantile(cost, HIGH))}
