"""The kind of plan follows from what is given: tokens, tokens of the new domain, compute, limits."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.answering.planned import plan
from cptlaw.answering.question import WITHIN, Asked
from cptlaw.answering.steps import answer_command, commands, how_fitted
from cptlaw.answering.what_if import other_sizes, what_if
from cptlaw.cli import main

MODEL = {"n_params": 75_072, "ptpp": 124}
BUDGET = 6 * 75_072 * 1e6


@pytest.fixture(scope="module")
def runs(pilot):
    return pilot


@pytest.fixture(scope="module")
def fits(runs):
    return {role: cl.fit(runs, on=role) for role in ("target", "source")}


def asked(**given):
    return Asked.read({**MODEL, **given})


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"tokens": "1M"}, "trade-off"),
        ({"tokens": "1M", "max_forgetting": "20%", "max_target_loss": 2}, "trade-off"),
        ({"target_tokens": "1M", "max_forgetting": "20%"}, "limited-data"),
        ({"max_forgetting": "20%", "max_target_loss": 2}, "min-tokens"),
        ({"budget": "1e12", "max_forgetting": "20%", "max_target_loss": 2}, "min-tokens"),
        ({"budget": "1e12", "max_forgetting": "20%"}, "trade-off"),
        ({"budget": "1e12"}, "pareto"),
    ],
)
def test_the_kind_follows_from_what_is_given(given, kind):
    assert asked(**given).kind == kind


def test_a_budget_is_spent_where_nothing_limits_the_target(fits):
    found = plan(asked(budget=BUDGET, max_forgetting="25%"), fits, 0.8)
    assert found.feasible
    assert found.tokens == pytest.approx(1e6)
    assert found.flops == pytest.approx(BUDGET)


def test_within_a_budget_the_cheapest_mix_keeps_both_limits(fits):
    free = plan(asked(budget=BUDGET, max_forgetting="25%"), fits, 0.8)
    limits = {"max_forgetting": "25%", "max_target_loss": 1.05 * free.target_loss_hi}
    found = plan(asked(budget=BUDGET, **limits), fits, 0.8)
    assert found.feasible
    assert found.tokens < 1e6
    assert found.target_loss <= limits["max_target_loss"]
    least = plan(asked(**limits), fits, 0.8)
    assert found.tokens == pytest.approx(least.tokens, rel=1e-4)
    short = plan(asked(budget=0.5 * found.flops, **limits), fits, 0.8)
    assert not short.feasible


def test_a_limit_on_the_target_counts_at_given_tokens_too(fits):
    best = plan(asked(tokens="1M", max_forgetting="25%"), fits, 0.8)
    held = plan(asked(tokens="1M", max_forgetting="25%", max_target_loss=1.1 * best.target_loss), fits, 0.8)
    assert (held.feasible, held.replay) == (True, pytest.approx(best.replay, abs=1e-4))
    broken = plan(asked(tokens="1M", max_forgetting="25%", max_target_loss=0.9 * best.target_loss), fits, 0.8)
    assert not broken.feasible
    assert "max-target-loss" in broken.blocking


def test_compute_is_compared_over_the_sizes_that_were_run(fits):
    question = asked(budget=BUDGET, max_forgetting="25%")
    found = other_sizes(question, fits, 0.8, {})
    assert {mix["n_params"] for mix in found} == {45_936, 124_672}
    for mix in found:
        assert 6 * mix["n_params"] * mix["tokens"] == pytest.approx(BUDGET)
        assert mix["forgetting"] < 0.25
    assert other_sizes(asked(tokens="1M", max_forgetting="25%"), fits, 0.8, {}) == ()


def test_replay_is_not_free_where_the_new_domain_is_scarce(fits):
    question = asked(target_tokens="500K", max_forgetting="40%")
    thrifty = plan(question, fits, None)
    given = {**MODEL, "target_tokens": 5e5, "max_forgetting": 0.4}
    ends = {"min_replay": thrifty.mix.low, "max_replay": thrifty.mix.high}
    lowest = cl.plan.limited_data(fits["target"], fits["source"], **given, **ends)
    assert thrifty.target_loss <= lowest.target_loss * (1 + WITHIN) * (1 + 1e-9)
    assert thrifty.tokens <= lowest.tokens
    # Less replay would miss the lowest target loss by more, or a limit.
    replay = thrifty.replay - 1e-4
    if replay > thrifty.mix.low:
        loss = thrifty.mix.target.at(np.array([replay]), np.array([5e5 / (1 - replay)]))[0]
        assert loss > lowest.target_loss * (1 + WITHIN)


def test_replay_is_searched_where_it_was_run(fits):
    found = plan(asked(target_tokens="500K"), fits, None)
    assert (found.mix.low, found.mix.high) == (found.mix.fitted_low, found.mix.fitted_high)


def test_half_the_replay_keeps_the_tokens_of_the_new_domain(fits):
    question = asked(target_tokens="500K", max_forgetting="22%")
    mixes = {mix["change"]: mix for mix in what_if(question, fits, plan(question, fits, 0.8))}
    assert "half the replay" in mixes
    for change in ("half the replay", "twice the replay"):
        if change in mixes:
            assert (1 - mixes[change]["replay"]) * mixes[change]["tokens"] == pytest.approx(5e5)


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": "1M"},
        {"tokens": "1M", "max_forgetting": "25%"},
        {"target_tokens": "500K", "max_forgetting": "30%"},
        {"budget": BUDGET},
        {"budget": BUDGET, "max_forgetting": "25%", "max_target_loss": 2.4},
        {"max_forgetting": "25%", "max_target_loss": 2.4},
    ],
)
def test_the_commands_of_explain_run_as_they_stand(given, runs, fits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for role, fit in fits.items():
        fit.save(f"{role}.json")
    question = asked(**given)
    found = commands(replace(runs, path=None), question, None, fits, plan(question, fits, 0.8))
    assert all(".." not in line for line in found)
    (command,) = [line for line in found if line.startswith("cptlaw plan ")]
    with pytest.raises(SystemExit) as ended:
        main([*command.split()[1:], "-q"])
    assert ended.value.code == 0, capsys.readouterr().err


def test_commands_fit_as_the_answer_did(runs, fits):
    """Schedules and a seed were once left out, so that the commands fitted other laws than the answer."""
    question = asked(tokens="1M", max_forgetting="25%")
    how = how_fitted("rates.yaml", 3)
    found = commands(runs, question, None, fits, plan(question, fits, 0.8), how=how, spending=1e11)
    for verb, count in (("fit", 2), ("suggest", 1)):
        lines = [line for line in found if line.startswith(f"cptlaw {verb} ")]
        assert len(lines) == count
        assert all("--schedules rates.yaml --seed 3" in line for line in lines)
    assert found[-1].endswith("--budget 1e+11 -n 2")
    bare = commands(runs, question, None, fits, plan(question, fits, 0.8), how=how_fitted(None, 0))
    assert not any("--s" in line.replace("--source", "") or "suggest" in line for line in bare)


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": "1M", "max_forgetting": "25%", "min_replay": "10%"},
        {"target_tokens": "500K", "max_target_loss": 2, "base_source_loss": 1.9},
        {"budget": BUDGET, "max_forgetting": "25%", "max_drop": {"gsm8k": "1pt"}, "risk": 0.9},
        {"budget": BUDGET},
    ],
)
def test_the_command_of_a_page_asks_the_same_question(given, runs):
    from cptlaw.cli.answer import answer as command

    question = asked(**given)
    words = shlex.split(answer_command(runs, question, "seed == 0", how_fitted("rates.yaml", 3)))
    read = command.make_context("answer", words[2:]).params
    assert (read["where"], read["output"]) == ("seed == 0", "report.html")
    assert (read["schedules"], read["seed"]) == ("rates.yaml", 3)
    again = Asked.read({name: read[name] for name in question.values})
    assert again == question
