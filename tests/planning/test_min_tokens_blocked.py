"""Fewest tokens where no plan keeps the limits: what blocks, and what is in reach."""

import pytest
from planning_fits import (
    DCPT_SOURCE,
    DCPT_TARGET,
    MODEL,
    far_loss,
    lowest,
    made_fit,
)

import cptlaw as cl

BASE = 1.9


OPTIONS = {"max_forgetting": "2%", "max_target_loss": 1.8, "base_source_loss": BASE}


def plan(forms, **options):
    return cl.plan.min_tokens(*forms, **{"interval": None, **MODEL, **options})


def test_target_out_of_reach(forms):
    found = plan(forms, max_forgetting="2%", max_target_loss=1.2, base_source_loss=BASE)
    assert not found.feasible
    assert found.blocking == "max-target-loss"
    expected = lowest(forms[0], keep=(forms[1], BASE * 1.02))
    assert found.best_reachable["target_loss"] == pytest.approx(expected, rel=1e-5)
    assert found.best_reachable["forgetting"] == pytest.approx(lowest(forms[1]) / BASE - 1, abs=1e-5)
    assert found.feasible_from == {"max-target-loss": found.best_reachable["target_loss"]}
    assert found.tokens is None
    assert "max-target-loss" in found.summary()
    assert "in the limit of many tokens" in found.summary()
    # Just above the value that is named, there is a plan; just below, there is none.
    value = found.feasible_from["max-target-loss"]
    options = {"max_forgetting": "2%", "base_source_loss": BASE}
    assert plan(forms, max_target_loss=value * 1.001, **options).feasible
    assert not plan(forms, max_target_loss=value * 0.999, **options).feasible


def test_forgetting_out_of_reach(forms):
    found = plan(forms, max_forgetting=-0.2, max_target_loss=1.8, base_source_loss=BASE)
    assert found.blocking == "max-forgetting"
    expected = lowest(forms[1], keep=(forms[0], 1.8)) / BASE - 1
    assert found.best_reachable["forgetting"] == pytest.approx(expected, rel=1e-5)


def test_limits_that_exclude_each_other():
    # With a strong barrier in the target law, a low target loss needs little replay and low forgetting much.
    target = made_fit("dcpt-l3", DCPT_TARGET | {"C": 0.5}, "target")
    source = made_fit("dcpt-l3", DCPT_SOURCE | {"C": 0.5}, "source")
    shares = {fit.role: far_loss(fit, [0.1, 0.5]) for fit in (target, source)}
    options = {"max_target_loss": shares["target"][0] * 1.001, "max_source_loss": shares["source"][1] * 1.001}
    found = plan((target, source), **options)
    assert found.blocking == "max-source-loss and max-target-loss"
    assert set(found.feasible_from) == {"max-source-loss", "max-target-loss"}
    for name in ("max_target_loss", "max_source_loss"):
        value = found.feasible_from[name.replace("_", "-")]
        assert plan((target, source), **{**options, name: value * 1.0001}).feasible
        assert not plan((target, source), **{**options, name: value * 0.9999}).feasible
    assert found.best_reachable["target_loss"] == pytest.approx(
        lowest(target, keep=(source, options["max_source_loss"])), rel=1e-5
    )


def test_two_limits_that_are_both_out_of_reach(forms):
    options = {"max_forgetting": -0.3, "max_target_loss": 1.2, "base_source_loss": BASE}
    found = plan(forms, **options)
    assert found.blocking == "max-forgetting and max-target-loss"
    granted = {
        "max_forgetting": found.feasible_from["max-forgetting"] + 1e-4,
        "max_target_loss": found.feasible_from["max-target-loss"] + 1e-4,
    }
    assert plan(forms, **{**options, **granted}).feasible


def test_range_of_replay_blocks(forms):
    options = {"max_forgetting": "0.9%", "max_target_loss": 2.0, "base_source_loss": BASE}
    free = plan(forms, **options)
    found = plan(forms, **options, max_replay=0.12)
    assert free.feasible
    assert not found.feasible
    assert "max-replay" in found.blocking
    value = found.feasible_from["max-replay"]
    assert plan(forms, **options, max_replay=value + 1e-4).feasible
    assert not plan(forms, **options, max_replay=value - 1e-4).feasible


def test_a_sliver_of_feasible_replay_is_found(forms):
    """A feasible range a thousand times narrower than the grid of replay."""
    target, source = (
        made_fit("dcpt-l3", DCPT_TARGET | {"C": 0.5}, "target"),
        made_fit("dcpt-l3", DCPT_SOURCE | {"C": 0.5}, "source"),
    )
    limits = {f"max_{fit.role}_loss": float(far_loss(fit, [0.3217])[0]) * (1 + 1e-7) for fit in (target, source)}
    found = plan((target, source), **limits)
    assert found.feasible
    assert found.replay == pytest.approx(0.3217, abs=1e-5)


@pytest.fixture(scope="module")
def few_mixes():
    runs = cl.examples.load("en-fr-pilot").where("replay <= 0.25 or tokens == 0")
    return tuple(cl.fit("shared-tokens", runs, on=role) for role in ("target", "source"))


def test_the_fitted_range_of_replay_blocks_too_where_nobody_gave_one(few_mixes):
    asked = {"n_params": 124_672, "ptpp": 279, "tokens": "1M", "max_forgetting": "21%"}
    found = cl.plan.trade_off(*few_mixes, **asked)
    assert found.blocking == "max-forgetting and largest-fitted-replay"
    assert set(found.feasible_from) == {"max-forgetting", "max-replay"}
    assert 0.25 < found.feasible_from["max-replay"] < 0.5
    (edge,) = [one for one in found.findings if one.code == "replay-at-edge"]
    assert edge.remedy.option == "max_replay"
    assert cl.plan.trade_off(*few_mixes, **asked, max_replay=edge.remedy.value).feasible
    # One that was given is named as ever.
    given = cl.plan.trade_off(*few_mixes, **asked, max_replay="20%")
    assert given.blocking == "max-forgetting"
