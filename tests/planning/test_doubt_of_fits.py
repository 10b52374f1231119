"""What fits found about themselves stands in every plan that rests on them, and a barrier in its rows refuses one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from facts import refused
from planning_fits import DCPT_SOURCE, DCPT_TARGET, FORM_1, MODEL, SOURCE_1, made_fit
from schedule_truths import RUN, SOURCE, TARGET

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.findings import Finding

GRAVE = Finding("error", "one-level", "the rows have one size.", "Add another.")
LESS = Finding("warning", "rising-loss", "the loss rises.", "Leave it out.")
SAID = (Finding("info", "base-rows", "three base models."), LESS, GRAVE)
MIXES = {f"mix_{name}": share for name, share in (("code", 0.3), ("math", 0.3), ("web", 0.4))}


def told(fit, *findings):
    return replace(fit, findings=findings)


def of_mix():
    target, source = made_fit("dcpt-l3", DCPT_TARGET, "target"), made_fit("dcpt-l3", DCPT_SOURCE, "source")
    return told(target, *SAID), told(source, *SAID)


def of_corpora():
    mixes = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    rows = pd.DataFrame(mixes, columns=list(MIXES)).assign(run=[f"run-{i}" for i in range(12)], eval="math")
    rows = rows.assign(n_params=1e9, tokens=1e10, loss=3.0 - np.sqrt(mixes) @ [0.1, 0.2, 0.3])
    return {"math": told(cl.fit("mix-additive", rows, on="math", restraint="none", starts=4), *SAID)}


def of_curves():
    pair = cl.given_fit("cpt-dynamics", TARGET, "target"), cl.given_fit("cpt-dynamics", SOURCE, "source")
    return tuple(told(one, *SAID) for one in pair)


PLANS = {
    "min-tokens": lambda: cl.plan.min_tokens(*of_mix(), max_target_loss=2.2, interval=None, **MODEL),
    "infeasible": lambda: cl.plan.min_tokens(*of_mix(), max_target_loss=0.1, interval=None, **MODEL),
    "trade-off": lambda: cl.plan.trade_off(*of_mix(), tokens="10B", max_source_loss=9, interval=None, **MODEL),
    "limited-data": lambda: cl.plan.limited_data(*of_mix(), target_tokens="5B", interval=None, **MODEL),
    "pareto": lambda: cl.plan.pareto(*of_mix(), budget="1e21", interval=None, **MODEL),
    "allocate": lambda: cl.plan.allocate(of_mix()[0], budget="1e21", replay=0.25, interval=None),
    "mix": lambda: cl.plan.mix(of_corpora(), tokens="10B", n_params="1B", interval=None),
    "schedule": lambda: cl.plan.schedule(*of_curves(), schedules=RUN, weight_source=0.5, vary="peak", interval=None),
    "whole-schedule": lambda: cl.plan.whole_schedule(*of_curves(), weight_source=0.5, schedules=RUN, steps=50),
    "turning-length": lambda: cl.plan.turning_length(*of_curves(), weight_source=0.5, schedules=RUN),
    "critical-point": lambda: cl.plan.critical_point(of_curves()[1], schedules=RUN),
    "suggest": lambda: cl.suggest(
        of_mix()[0], at={**MODEL, "tokens": 1e10, "replay": 0.25}, budget="1e19", n=1, sizes="240M"
    ),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_repeats_what_its_fits_found(plan):
    found = PLANS[plan]().findings
    assert found[0].code == GRAVE.code
    assert LESS.code in [one.code for one in found]
    assert [one.severity for one in found] == sorted(
        (one.severity for one in found), key="error warning info".split().index
    )
    assert len({one.message for one in found}) == len(found)
    assert SAID[0].message not in " ".join(one.message for one in found)
    (grave,) = [one for one in found if one.code == GRAVE.code]  # once, under the names of all fits that found it
    named = {name for name in ("target", "source", "math") if name in grave.message.partition(":")[0]}
    assert named == {"mix": {"math"}, "allocate": {"target"}, "suggest": {"target"}, "critical-point": {"source"}}.get(
        plan, {"target", "source"}
    )


def test_no_mix_is_planned_across_a_barrier_that_rows_stand_on():
    rows = {}
    for role, params in (("target", FORM_1), ("source", SOURCE_1)):
        made = made_fit("ptpp-floor", params, role, replay=(0.0, 0.1, 0.5)).data.assign(eval=role)
        rows[role] = cl.fit("ptpp-floor", made, on=role, starts=2, restraint="none")
    with refused(UsageError, "target", "replay 0", "replay > 0"):
        cl.plan.min_tokens(rows["target"], max_target_loss=2, **MODEL)
    with refused(UsageError, "source", "replay 0", "replay > 0"):
        cl.plan.min_tokens(made_fit("ptpp-floor", FORM_1, "target"), rows["source"], max_target_loss=2, **MODEL)


def test_the_barrier_of_the_own_share_stands_at_the_other_end():
    spec = "ptpp-floor:ratio_of=own"
    made = made_fit(spec, FORM_1, "target", replay=(0.0, 0.1, 1.0)).data.assign(eval="target")
    found = cl.fit(spec, made, on="target", starts=2, restraint="none").findings
    (barrier,) = [one for one in found if one.code == "replay-at-zero"]
    assert barrier.remedy.value == "replay < 1"
