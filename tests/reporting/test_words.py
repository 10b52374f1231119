"""The words of a report: its answer names what was limited, and a refusal what would be granted."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd

from cptlaw.planning.result import MixPlan
from cptlaw.planning.solve import Limit
from cptlaw.reporting import words

FORECASTS = pd.DataFrame(
    [
        {"on": "code", "loss": 1.5, "lo": 1.45, "hi": 1.55},
        {"on": "web", "loss": 2.5, "lo": 2.4, "hi": 2.6},
    ]
)


def test_the_answer_names_rate_and_the_scores_that_are_limited():
    scores = {"mmlu": {"score": 0.43, "score_lo": 0.40, "score_hi": 0.46, "base": 0.442, "drop": 0.012}}
    plan = MixPlan(
        feasible=True,
        n_params=8e9,
        ptpp=None,
        tokens=2e9,
        replay=0.2,
        lr_peak=3e-5,
        forgetting=0.02,
        risk=0.8,
        scores=scores,
    )
    said = words.answer(plan, FORECASTS)
    assert said == (
        "Train on 2B tokens with 20% replay at a peak rate of 3e-05: expect code loss 1.50 (1.45 to 1.55) and "
        "web loss 2.50 (2.40 to 2.60) nats per token, forgetting 2%, mmlu 43% (40% to 46%), 1.2 points below the "
        "base model's 44.2%."
    )


def test_a_refusal_speaks_of_limits_and_not_of_options():
    plan = MixPlan(
        feasible=False,
        n_params=8e9,
        ptpp=None,
        risk=0.8,
        blocking="max-forgetting",
        feasible_from={"max-forgetting": 0.277},
    )
    assert words.answer(plan, FORECASTS) == (
        "No mix keeps the limit on forgetting with 80% probability. With the limit on forgetting at 27.7% one does."
    )
    two = {"max-drop mmlu": 0.021, "max-tokens": 2e9}
    plan = MixPlan(feasible=False, n_params=8e9, ptpp=None, blocking="max-drop mmlu and max-tokens", feasible_from=two)
    assert words.answer(plan, FORECASTS) == (
        "No mix keeps the most points that mmlu loses and the limit on tokens. With the most points that mmlu "
        "loses at 2.1% and the limit on tokens at 2B one does."
    )


def test_what_is_beside_a_limit_has_the_digits_that_decide():
    limits = (Limit("max-target-loss", 1.504, len, "target_loss"), Limit("max-forgetting", 0.0202, len, "forgetting"))
    plan = MixPlan(feasible=True, n_params=8e9, ptpp=None, tokens=2e9, forgetting=0.0198, risk=0.8)
    wide = FORECASTS.assign(loss=[1.4996, 2.5], lo=[1.1, 2.1], hi=[1.9, 2.9])
    assert "code loss 1.5 (1.1 to 1.9) and web loss 2.5 (2.1 to 2.9)" in words.answer(plan, wide)
    limited = replace(plan, _mix=SimpleNamespace(limits=limits))
    said = words.answer(limited, wide)
    assert "code loss 1.500 (1.100 to 1.900) and web loss 2.5 (2.1 to 2.9)" in said
    assert "forgetting 1.98%" in said
