"""Which peak rates a plan chooses from: those that models of its size were run at."""

from types import SimpleNamespace

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.planning.mixes.expected import best_over_rates

ROWS = "ptpp in (62, 124) and lr_schedule == 'constant' and replay > 0"


@pytest.fixture(scope="module")
def fits():
    """Every size has a rate of its own, as larger models have lower ones."""
    runs = cl.examples.load("code-to-prose")
    return [
        cl.fit("shared-tokens", runs, on=role, where=ROWS, starts=4, restraint="none") for role in ("target", "source")
    ]


@pytest.mark.parametrize(("size", "rate"), [(45_936, 0.003), (75_072, 0.0021), (124_672, 0.0015), (200_000, 0.0015)])
def test_a_plan_takes_no_rate_of_another_size(fits, size, rate):
    plan = cl.plan.trade_off(*fits, n_params=size, ptpp=124, tokens="1M", max_forgetting="60%", base_source_loss=2)
    assert plan.lr_peak == rate


def test_a_rate_that_is_given_is_taken(fits):
    given = {"n_params": 75_072, "ptpp": 124, "tokens": "1M", "max_forgetting": "60%", "base_source_loss": 2}
    assert cl.plan.trade_off(*fits, lr_peak=3e-3, **given).lr_peak == 3e-3


@pytest.mark.parametrize("size", [75_072, 100_000, 200_000])
def test_a_forecast_of_the_plans_point_is_the_plans_own(fits, size):
    plan = cl.plan.trade_off(*fits, n_params=size, ptpp=124, tokens="1M", max_forgetting="60%", reference="asymptote")
    point = {"n_params": size, "ptpp": 124, "tokens": plan.tokens, "replay": plan.replay}
    found = cl.forecast(fits, point)
    assert found["loss"].tolist() == pytest.approx([plan.target_loss, plan.source_loss], rel=1e-12)
    assert found["lr_peak"].tolist() == [plan.lr_peak] * 2
    assert found["lo"].iloc[0] == pytest.approx(plan.target_loss_lo, rel=1e-12)
    assert "rate-assumed" in {note.code for note in found["findings"].iloc[0]}


def test_the_best_split_is_at_the_rates_of_its_size(fits):
    plan = cl.plan.allocate(fits[0], budget=1e12, replay=0.25, ptpp=124)
    point = {"n_params": plan.n_params, "ptpp": 124, "tokens": plan.tokens, "replay": 0.25}
    found = fits[0].forecast(point).iloc[0]
    assert (found["loss"], found["lr_peak"]) == (pytest.approx(plan.target_loss, rel=1e-12), plan.lr_peak)
    assert 0.0015 <= plan.lr_peak < 0.003


@pytest.mark.parametrize(
    ("rates", "highest", "limits", "taken"),
    [
        ((1e-3, 1.5e-3, 4e-3), 1.0, ("a limit",), 2e-3),  # between two that were run
        ((1e-3, 1.5e-3, 4e-3), 1.0, (), 2e-3),  # with a limit and without
        ((3e-3, 4e-3, 5e-3), 1.0, ("a limit",), 3e-3),  # never beyond them
        ((5e-4, 1e-3, 1.5e-3), 1.0, ("a limit",), 1.5e-3),
        ((1e-3, 4e-3), 1.0, ("a limit",), 1e-3),  # two rates say nothing of what lies between
        ((1e-3, 4e-3), 2.5e-3, ("a limit",), 2e-3),  # the higher one keeps no limit: halfway to it
        ((1e-3,), 1.0, ("a limit",), 1e-3),
    ],
)
def test_the_best_rate_may_lie_between_measured_ones(rates, highest, limits, taken):
    """Plans whose target loss is lowest at 2e-3, and that keep their limit up to `highest`."""

    def build(known=None):
        levels = [{"merge_weight": weight, "lr_peak": rate} for weight in (0.5, 1.0) for rate in rates]
        known = levels if known is None else [known]
        return [SimpleNamespace(target=SimpleNamespace(known=each), limits=limits) for each in known]

    def plan_of(mix):
        rate, weight = (mix.target.known[name] for name in ("lr_peak", "merge_weight"))
        value = 3.0 - weight + np.log(rate / 2e-3) ** 2 if rate <= highest else None
        return SimpleNamespace(fitted_mix=mix, lr_peak=rate, feasible=rate <= highest, target_loss=value)

    best = best_over_rates(build, plan_of, "target_loss")
    assert best.lr_peak == pytest.approx(taken, rel=5e-3)
    assert best.fitted_mix.target.known["merge_weight"] == 1.0
