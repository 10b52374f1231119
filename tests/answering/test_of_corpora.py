"""Answers from runs that mix k corpora: the kind follows from the table, and the planner of mixes finds the shares."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.answering.result import Answer
from cptlaw.cli import main

SHARES = [
    (0.2, 0.3, 0.5),
    (0.5, 0.3, 0.2),
    (0.3, 0.6, 0.1),
    (0.1, 0.1, 0.8),
    (0.7, 0.2, 0.1),
    (0.34, 0.33, 0.33),
    (0.1, 0.7, 0.2),
]
BASE = 1.15  # the base model's loss on web


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Web is served by its own share and a little by maths; code by its own alone."""
    rng = np.random.default_rng(0)
    rows = []
    for k, (web, code, maths) in enumerate(SHARES):
        for n in (1e8, 3e8):
            for d in (1e9, 4e9):
                scale = 1 + 40 / n**0.2 / 10 + 20 / d**0.2 / 10
                losses = {
                    "web_loss": scale * (1 + 0.3 * (1 - web - 0.2 * maths) ** 2),
                    "code_loss": (scale - 0.4) * (1 + 0.2 * (1 - code) ** 1.5),
                }
                noisy = {name: round(float(loss * np.exp(0.002 * rng.normal())), 5) for name, loss in losses.items()}
                mix = {"weight_web": web, "weight_code": code, "weight_math": maths}
                rows.append({"run": f"{k}-{n:g}", "n_params": n, "tokens": d, **mix, **noisy})
    found = tmp_path_factory.mktemp("mixes") / "mixes.csv"
    pd.DataFrame(rows).to_csv(found, index=False)
    return found


@pytest.fixture(scope="module")
def runs(path):
    return cl.read_runs(path, target_eval="code", source_eval="web")


@pytest.fixture(scope="module")
def limited(runs):
    return cl.answer(runs, n_params="1B", tokens="8B", max_forgetting="4%", base_source_loss=BASE)


def test_the_mix_keeps_the_limit_with_the_probability_that_is_asked(limited):
    assert (limited.kind, limited.feasible) == ("mix", True)
    assert limited.probabilities["max-forgetting"] == pytest.approx(0.8, abs=0.02)
    assert limited.forgetting < 0.04
    assert limited.replay == limited.mix["web"]
    # Doubt costs share of the new domain, and is said beside.
    assert limited.mix["web"] > limited.without_risk["mix"]["web"]
    assert limited.target_loss_lo < limited.target_loss < limited.target_loss_hi


def test_twelve_lines_and_two_runs_to_buy(limited):
    assert len([limited.title, *limited.lines]) <= 12
    lines = dict(limited.lines)
    assert lines["answer"].startswith("train on 8B tokens: ")
    assert "within 4%: likely (80%)" in lines["forgetting"]
    assert "the best mix that was run" in {one["change"] for one in limited.what_if}
    assert re.search(r"on \S+ tokens of (this mix|[a-z]+ \d+%)", lines["run next"])


def test_without_a_target_the_mean_of_all_evals_is_lowered(path):
    found = cl.answer(path, n_params="1B", tokens="8B")
    assert set(found.losses) == {"web", "code"}
    assert found.target_loss is None
    assert "mean-of-evals" in {finding.code for finding in found.findings}
    assert "mean loss" in dict(found.details)["what if"]


def test_a_limit_that_no_mix_keeps_is_an_answer(runs):
    found = cl.answer(runs, n_params="1B", tokens="8B", max_target_loss=0.5)
    assert (found.feasible, found.blocking) == (False, "max-target-loss")
    best = found.best_reachable
    assert 0.5 < best["target_loss"] < best["limit"]
    assert sum(best["mix"].values()) == pytest.approx(1)
    assert best["probability"] < 0.8
    assert f"{best['limit']:.4g}" in dict(found.lines)["what holds"]


def test_a_limit_that_costs_nothing_has_no_price(runs):
    found = cl.answer(runs, n_params="1B", tokens="8B", max_forgetting="50%", base_source_loss=BASE)
    assert dict(found.details)["with 50% probability"] == "the same run"


def test_the_commands_of_explain_give_the_same_mix(path, limited, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--target-eval", "code", "--source-eval", "web", "--n-params", "1B", "--tokens", "8B"]
    limit = ["--max-forgetting", "4%", "--base-source-loss", str(BASE)]
    with pytest.raises(SystemExit) as ended:
        main(["answer", str(path), *words, *limit, "--explain"])
    assert ended.value.code == 0
    commands = [line for line in capsys.readouterr().err.splitlines() if line.startswith("cptlaw ")]
    assert len(commands) == 3
    for command in commands:
        last = shlex.split(command)[1:] + (["--json"] if " plan " in command else [])
        with pytest.raises(SystemExit) as ended:
            main(last)
        assert ended.value.code == 0
        out = capsys.readouterr().out
    said = json.loads(out)
    assert said["mix"] == pytest.approx(dict(limited.mix), abs=1e-3)


def test_the_page_shows_corpora_and_evals(limited, tmp_path):
    page = limited.report(tmp_path / "report.html").read_text(encoding="utf-8")
    run_next = dict(limited.lines)["run next"].split(" (")[0]
    for words in (
        "<h2>The mix</h2>",
        "<h2>What to do next</h2>",
        "of its 989T dense bf16 FLOP/s",
        "cptlaw plan mix",
        run_next,
    ):
        assert words in page
    # Its reader runs nothing: no option of a command stands outside the commands that repeat it.
    assert "--" not in page.partition("<main>")[2].partition("<pre>")[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tokens": "8B", "min_replay": "10%"}, "--min-share"),
        ({"target_tokens": "1B"}, "--unique NAME=D"),
        ({"tokens": "8B", "max_forgetting": "2%"}, "--source-eval EVAL"),
        ({"tokens": "8B", "max_target_loss": 2}, "--target-eval EVAL"),
    ],
)
def test_what_a_mix_cannot_answer_is_said_with_what_can(path, given, said):
    with pytest.raises(cl.UsageError, match=said):
        cl.answer(path, n_params="1B", **given)


def test_forgetting_needs_something_to_count_from(runs):
    with pytest.raises(cl.UsageError, match="--base-source-loss"):
        cl.answer(runs, n_params="1B", tokens="8B", max_forgetting="2%")


def test_tokens_are_assumed_as_many_as_were_run(runs):
    found = cl.answer(runs, n_params="1B")
    assert found.tokens == pytest.approx(4e10)
    assert "tokens-assumed" in {finding.code for finding in found.findings}


def test_a_report_without_a_point_takes_the_best_mix_that_was_run(runs, tmp_path):
    pytest.importorskip("plotly")
    fitted = cl.fit(runs, on="target")
    page = cl.report(runs, fitted)
    best = runs.frame[runs.frame["eval"] == "code"].sort_values("loss").iloc[0]
    assert page.forecasts["mix_code"].iloc[0] == pytest.approx(best["mix_code"])
    assert page.forecasts["n_params"].iloc[0] == 3e8


def test_a_plan_of_one_replay_says_which_plan_finds_the_shares(runs):
    fitted = cl.fit(runs, on="target")
    with refused(cl.UsageError, "cptlaw plan mix"):
        cl.plan.limited_data(fitted, n_params="1B", target_tokens="1B")


def test_of_many_evals_each_has_a_line():
    losses = {f"eval {n}": {"loss": 2.0 + n / 100, "loss_lo": 1.9, "loss_hi": 2.1} for n in range(22)}
    many = Answer("?", "mix", True, tokens=1e9, atpp=1.0, flops=6e18, losses=losses)
    assert {name for name, _ in many.lines} >= set(losses)
    assert max(len(text) for _, text in many.lines) < 120
    few = Answer("?", "mix", True, tokens=1e9, atpp=1.0, flops=6e18, losses=dict([*losses.items()][:3]))
    assert dict(few.lines)["losses"].startswith("eval 0 2.00 (1.90 to 2.10); eval 1 ")
