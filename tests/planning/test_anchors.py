"""Runs at the asked budget, near the asked size or far from it, beside runs at two low budgets, help.

The question is that of a run that was measured: 204K parameters of `en-fr-ladder` at 279 tokens per parameter and 25 %
replay, limited by what that run had at 5.7 tokens per parameter, the fewest of all measured runs within these limits.
"""

import numpy as np
import pytest

import cptlaw as cl

SIZE, BUDGET, OPTIMUM = 203_952, 279, 5.66
LIMITS = {"max_forgetting": 0.17415, "max_target_loss": 1.53258, "base_source_loss": 1.38953}
FEW = "ptpp in (15, 31)"
ANCHORS = {"none": None, "far": "n_params < 50K", "near": "n_params in (75072, 124672)"}
WITHIN = 1.3  # times the best tokens, with near anchors; far ones leave the plan where it was, 1.7 times too few
# Errors of both losses over those without anchors. Far ones take the source from 1.9 to .4 %, and leave the target.
NEARER = {"far": 1.0, "near": 0.3}


@pytest.fixture(scope="module")
def asked():
    """Of each anchors, the log of planned over best tokens, and the errors of both losses at 204K."""
    runs, constant = cl.examples.load("en-fr-ladder"), "lr_schedule == 'constant'"
    of_size = runs.where(f"ptpp == {BUDGET} and n_params == {SIZE} and tokens >= {3 * SIZE} and {constant}")
    found = {}
    for name, anchors in ANCHORS.items():
        where = FEW if anchors is None else f"{FEW} or (ptpp == {BUDGET} and {anchors})"
        fits = {on: cl.fit("auto", runs, on=on, where=f"({where}) and {constant}") for on in ("target", "source")}
        plan = cl.plan.min_tokens(*fits.values(), n_params=SIZE, ptpp=BUDGET, interval=None, **LIMITS)
        rows = {on: of_size.on(on).frame for on in fits}
        errors = [np.abs(np.log(fit.predict(rows[on]) / rows[on]["loss"])).mean() for on, fit in fits.items()]
        assert plan.feasible
        found[name] = (abs(np.log(plan.atpp / OPTIMUM)), float(np.sum(errors)))
    return found


def test_near_anchors_move_the_plan_to_the_measured_optimum(asked):
    assert asked["near"][0] < np.log(WITHIN) < asked["none"][0]


@pytest.mark.parametrize("anchors", NEARER)
def test_anchors_bring_the_forecasts_nearer(asked, anchors):
    assert asked[anchors][1] < NEARER[anchors] * asked["none"][1]
