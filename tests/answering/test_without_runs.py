"""The answer from the studies of others alone."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from cptlaw.answering import studies
from cptlaw.answering.pilots import write_pilots
from cptlaw.answering.question import Asked
from cptlaw.answering.without_runs import SHOWN, from_studies, next_pilots
from cptlaw.errors import UsageError
from studies.learning import learn_studies

DATA = Path(__file__).parents[3] / "shared" / "data"
ASKED = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B"}


def answer(shift="language", **more):
    return from_studies(Asked.read({**ASKED, **more}), shift)


def rows(**columns):
    usual = {"shift": "code", "n_params": 1e9, "ptpp": 100.0, "replay": 0.1, "tokens": 1e10}
    return pd.DataFrame({**usual, **columns})


def test_replay_lowers_forgetting_and_the_gain():
    mixes = rows(replay=[0.0, 0.05, 0.25, 0.5])
    forgetting = studies.expected("forgetting", mixes).quantile(0.5)
    gain = studies.expected("gain", mixes).fall(0.5)
    assert np.all(np.diff(forgetting) < 0)
    assert np.all(np.diff(gain) < 0)


def test_over_trained_base_models_forget_more():
    forgetting = studies.expected("forgetting", rows(ptpp=[20.0, 200.0, 2000.0])).quantile(0.5)
    assert np.all(np.diff(forgetting) > 0)


def test_quantiles_and_probabilities_agree():
    said = studies.expected("forgetting", rows(replay=[0.0, 0.25]))
    for probability in (0.05, 0.5, 0.8, 0.95):
        for place, limit in enumerate(said.quantile(probability)):
            assert said.probability_below(limit)[place] == pytest.approx(probability, abs=1e-9)


def test_no_fall_of_a_loss_is_whole():
    said = studies.expected("gain", rows(replay=[0.0]))
    assert said.fall(0.999)[0] < 1.0


def test_a_limit_that_nothing_keeps_is_said():
    got = answer(max_forgetting="1%")
    assert not got.feasible
    assert got.blocking == "max-forgetting"
    assert got.replay is None
    assert "no mix keeps the limit on forgetting with 80% probability" in str(got)
    # The tightest that can be kept is kept with the probability that was asked, and nothing tighter is.
    tightest = got.best_reachable["forgetting"]
    assert answer(max_forgetting=tightest * 1.001).feasible
    assert not answer(max_forgetting=tightest * 0.999).feasible
    # No mix keeps it as often as not either, so that no price of doubt is named.
    assert got.without_risk == {"feasible": False, "replay": None, "tokens": None}
    assert dict(got.lines)["price of doubt"].startswith("none")
    assert dict(got.lines)["forgetting within its limit"].startswith("at best")


def test_twelve_lines_and_each_replay_on_request():
    got = answer(max_forgetting="30%")
    assert len(got.summary(quiet=True).splitlines()) <= 12
    assert "10%: forgetting" in dict(got.lines)["what replay does"]
    assert "replay 25%" in got.summary(verbose=True)


def test_risk_buys_replay():
    sure, even = (answer(max_forgetting="30%", risk=risk) for risk in (0.8, 0.5))
    assert sure.feasible
    assert sure.probabilities["max-forgetting"] >= 0.8
    assert sure.replay > even.replay
    assert sure.without_risk == {"feasible": True, "replay": even.replay, "tokens": even.tokens}
    assert sure.tokens == pytest.approx(20e9 / (1 - sure.replay))


def test_losses_follow_from_the_base_models():
    got = answer(base_source_loss=2.0)
    assert got.source_loss == pytest.approx(2.0 * (1 + got.forgetting))
    assert got.source_loss_lo < got.source_loss < got.source_loss_hi


def test_every_number_says_where_it_comes_from():
    found = answer().to_dict()
    json.dumps(found, allow_nan=False)
    assert {entry["outcome"] for entry in found["evidence"]} == {"forgetting", "gain"}
    assert all(entry["source"] and entry["rows"] for entry in found["evidence"])
    assert "25% replay" in found["rule_of_thumb"]


def test_pilots_narrow_and_cost_little(tmp_path):
    got = answer()
    gains = [cell["gain"] for cell in got.next_runs]
    assert len(gains) == 3
    assert gains == sorted(gains)
    assert gains[0] > 0
    assert gains[-1] < 1
    assert sum(cell["flops"] for cell in got.next_runs) < 0.4 * got.flops
    written = write_pilots(got.next_runs, tmp_path / "pilots")
    assert [path.name for path in written] == ["pilots.yaml", "pilot-1.json", "pilot-2.json", "pilot-3.json"]
    recipe = yaml.safe_load(written[0].read_text())
    assert [block["replay"] for block in recipe["adapt"]] == [cell["replay"] for cell in got.next_runs]
    assert json.loads(written[1].read_text())["tokens"] == got.next_runs[0]["tokens"]


def test_pilots_beat_the_same_run_thrice():
    """The chosen pilots leave less doubt over the mixes than three runs of the same cost at one replay."""
    asked = studies.rows_of("code", 1e9, 100.0, [(replay, 1e10) for replay in SHOWN])
    chosen = next_pilots(asked, "code")
    same = chosen.assign(replay=0.25, shift="code")
    spread = [studies.narrowed("forgetting", asked, cells).mean() for cells in (chosen.assign(shift="code"), same)]
    assert spread[0] < spread[1]


@pytest.mark.parametrize(
    ("given", "shift", "message"),
    [
        ({"target_tokens": None}, "code", "--target-tokens 20B"),
        ({"ptpp": None}, "code", "--ptpp 1875"),
        ({"ptpp": None, "target_tokens": None}, "code", "--ptpp 1875; and what there is to spend: --target-tokens 20B"),
        ({}, "langage", "shift .*'langage'"),
        ({"tokens": "1B"}, "code", "Give one of them"),
        ({"n_params": "-8B"}, "code", "not positive"),
    ],
)
def test_what_cannot_be_answered(given, shift, message):
    with pytest.raises(UsageError, match=message):
        answer(shift, **given)


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not there: the studies cannot be learned anew")
def test_shipped_numbers_are_what_the_command_learns():
    everything = pd.concat([learn_studies.own_rows(), learn_studies.public_rows(DATA)], ignore_index=True)
    shipped = json.loads(learn_studies.HOME.read_text())
    for outcome in ("forgetting", "gain"):
        anew = learn_studies.Regression(
            learn_studies.thinned(learn_studies.outcomes(everything, outcome)), outcome
        ).learned()
        # An example table that grows makes this fail: the command with --write learns from the new rows too.
        assert anew["coefficients"] == pytest.approx(shipped[outcome]["coefficients"], abs=2e-3)
        assert anew["between_studies"] == pytest.approx(shipped[outcome]["between_studies"], rel=2e-2)


def test_the_kind_of_shift_need_not_be_told():
    """The interface has --shift in brackets: without it the domain is taken as unlike the old one, and this is said."""
    assumed, told = answer(None), answer("domain")
    assert assumed.forgetting == told.forgetting
    assert "shift-assumed" in {finding.code for finding in assumed.findings}
    assert "shift-assumed" not in {finding.code for finding in told.findings}


def test_a_page_needs_no_runs(call, tmp_path):
    page = tmp_path / "report.html"
    asked = ["answer", "--n-params", "8B", "--ptpp", "1875", "--target-tokens", "20B", "--shift", "code"]
    code, _, noted = call(*asked, "-o", str(page))
    assert code == 0, noted
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    found = answer("code", ptpp=1875, target_tokens="20B", max_forgetting=None)
    assert all(study["source"] in text for study in found.evidence)
    assert "<script" not in text
    assert "unsafe-inline" not in text
    assert call(*asked, "-o", str(page))[0] == 0  # its own kind is written over


def test_a_limit_on_the_target_loss_is_said_to_be_unjudged():
    assert "limit-unread" in {finding.code for finding in answer(max_target_loss=1.8).findings}
    assert "limit-unread" not in {finding.code for finding in answer(max_forgetting="30%").findings}


@pytest.mark.parametrize("name", ["n_params", "ptpp", "tokens", "target_tokens", "budget", "max_target_loss"])
@pytest.mark.parametrize("value", ["5e-324", "1e308"])
def test_numbers_of_which_no_law_computes_a_power_are_refused(name, value):
    with pytest.raises(UsageError, match=f"{name} .*(below 1e-50|beyond 1e\\+50)"):
        Asked.read({"n_params": "8B", name: value})
    with pytest.raises(UsageError, match="max_forgetting"):
        Asked.read({"n_params": "8B", "max_forgetting": "1e308"})
