"""A share or a relative limit above 1 without its percent sign is nobody's to guess: 5 may be 5 % or 500 %."""

import pytest
from facts import refused

import cptlaw as cl
import cptlaw_curves.planning.scenario  # noqa: F401 - it declares four more
from cptlaw.planning.scenario import SCENARIOS, AnswerQuestion, as_words, options_of, read_scenario
from cptlaw.units import Share

QUESTION = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language"}
OF_ALL = {**SCENARIOS, "answer": AnswerQuestion}


def _options_of_shares():
    """Each option that a share can be given to, with how its value is written."""
    for plan, scenario in OF_ALL.items():
        for name, option in options_of(scenario).items():
            for write in (str, "web={}".format):
                try:
                    read = option.read(write("60%"), name)
                except cl.UsageError:
                    continue
                values = read.values() if isinstance(read, dict) else [read]
                if all(isinstance(value, Share) for value in values):
                    yield pytest.param(option, name, write, id=f"{plan}-{name}")


SHARES = list(_options_of_shares())


def test_limits_and_shares_of_every_plan_are_among_them():
    names = {param.values[1] for param in SHARES}
    assert names >= {"max_forgetting", "min_replay", "max_replay", "risk", "interval", "within", "replay", "max_share"}
    assert names >= {"min_score", "max_drop", "base_score", "weight_source"}


@pytest.mark.parametrize(("option", "name", "write"), SHARES)
def test_every_share_above_1_without_its_sign_is_refused(option, name, write):
    with refused(cl.UsageError, name, "5%"):
        option.read(write("5"), name)
    if "=" not in write(""):
        with refused(cl.UsageError, name, "5%"):
            option.read(5, name)


def test_both_readings_of_a_limit_are_named_and_the_large_one_stays_allowed():
    for given in (5, "5", 5.0):
        with refused(cl.UsageError, "--max-forgetting", "5%", "500%"):
            cl.answer(max_forgetting=given, **QUESTION)
    with refused(cl.UsageError, "1%", "100%"):  # nothing limits a loss to all of it
        cl.answer(max_forgetting=1, **QUESTION)
    with refused(cl.UsageError, "mmlu", "1%"):
        read_scenario(AnswerQuestion, {"max_drop": "mmlu=1"}, "answer")
    asked = read_scenario(AnswerQuestion, {"max_forgetting": "500%", "max_drop": "mmlu=1pt"}, "answer")
    assert asked.max_forgetting == 5.0
    assert asked.max_drop == {"mmlu": 0.01}
    # A question is handed on to plans and printed as a command: it must mean the same there.
    again = read_scenario(AnswerQuestion, {"max_forgetting": asked.max_forgetting}, "answer")
    assert again.max_forgetting == 5.0
    assert as_words(AnswerQuestion, {"max_forgetting": asked.max_forgetting}) == ["--max-forgetting", "500%"]


@pytest.mark.parametrize(("plan", "limit"), [("trade-off", 5), ("mix", {"web": 5})])
def test_limits_in_nats_may_be_above_1(plan, limit):
    given = {"n_params": "8B", "tokens": "1B", "max_forgetting": limit}
    with refused(cl.UsageError, "5%", "500%"):
        read_scenario(SCENARIOS[plan], given, plan)
    assert read_scenario(SCENARIOS[plan], {**given, "forgetting": "absolute"}, plan).max_forgetting == limit
