"""What a plan costs: hours of devices by their data sheets, days and money."""

import pytest

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.planning.cost import PEAK_FLOPS, hardware


def test_hours_days_and_cost_follow_from_flops():
    eight = hardware("8xH100", "50%", "2.50")
    spent = eight.cost(989e12 * 0.5 * 3600 * 240)
    assert spent == {"gpu_hours": pytest.approx(240), "days": pytest.approx(240 / 8 / 24), "cost": pytest.approx(600)}
    assert hardware().cost(1e21)["days"] is None
    assert hardware().cost(None) == {"gpu_hours": None, "days": None, "cost": None}


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("8xH100", "H100", 8),
        ("8 x h100", "H100", 8),
        ("H100", "H100", None),
        ("64*mi300x", "MI300X", 64),
        ("tpu v5p", "TPU-V5P", None),
        ("256xTPUv5p", "TPU-V5P", 256),
        ("4xA100", "A100", 4),
    ],
)
def test_devices_are_read_as_people_write_them(text, name, count):
    found = hardware(text)
    assert (found.name, found.count) == (name, count)
    assert PEAK_FLOPS[name][0] > 1e14


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gpus": "8xH10"}, r"gpus \(--gpus\): '8xH10' is not known\. Did you mean 'H100'"),
        ({"gpus": "8"}, "such as 8xH100"),
        ({"gpus": "0xH100"}, "such as 8xH100"),
        ({"mfu": "140%"}, r"mfu \(--mfu\): '140%'"),
        ({"gpu_hour": "-1"}, r"gpu_hour \(--gpu-hour\): '-1' is negative"),
    ],
)
def test_what_is_no_device_is_refused_with_what_is(given, message):
    with pytest.raises(UsageError, match=message):
        hardware(**given)


def test_a_plan_counts_the_active_parameters_of_a_mixture_of_experts(forms):
    asked = {"n_params": "8B", "ptpp": 279, "base_source_loss": 2.1}
    limited = {**asked, "max_source_loss": 2.5, "max_target_loss": 1.9}
    every, active = (cl.plan.min_tokens(*forms, **limited, n_active=count) for count in (None, "2B"))
    assert active.tokens == every.tokens
    assert active.flops == pytest.approx(every.flops / 4) == pytest.approx(6 * 2e9 * active.tokens)
    spent = cl.plan.pareto(*forms, **asked, n_active="2B", budget=6e20)
    assert spent.points[0].tokens == pytest.approx(1e20 / 2e9)
    with pytest.raises(UsageError, match="--n-active"):
        cl.plan.min_tokens(*forms, **limited, n_active="9B")
