"""Next runs for a score are those for the loss that carries it, and say so."""

import pytest
from facts import lacks, refused
from scored_runs import scored_runs

import cptlaw as cl

ASKED = {"at": "n_params=1e9,tokens=2e10,replay=0.25,ptpp=100", "budget": "1e20", "n": 2}


@pytest.fixture(scope="module")
def runs():
    return scored_runs()


@pytest.mark.nightly
def test_runs_for_a_score_are_those_for_its_loss(runs):
    found = cl.suggest("score-sigmoid", runs, "gsm8k", **ASKED)
    assert found.on == "target"
    assert len(found.cells) == 2
    said = {finding.code: finding.message for finding in found.findings}
    assert lacks(said["through-loss"], "target loss", "gsm8k") == []
    of_loss = cl.suggest("auto", runs, "target", **ASKED)
    assert found.cells == of_loss.cells
    assert (found.loss, found.interval_before) == (of_loss.loss, of_loss.interval_before)
    assert "through-loss" not in {finding.code for finding in of_loss.findings}


@pytest.mark.dear("cells are chosen by a fit of eight starts")
def test_a_law_of_losses_is_that_of_the_carrying_loss(runs):
    found = cl.suggest("ptpp-blind", runs, "gsm8k", starts=8, **ASKED)
    assert (found.law, found.on) == ("ptpp-blind", "target")
    assert "through-loss" in {finding.code for finding in found.findings}


def test_a_score_that_no_loss_carries_says_what_to_do(runs):
    with pytest.raises(cl.UsageError, match="--on target"):
        cl.suggest("score-flat", runs, "gsm8k", **ASKED)
    scores = cl.read_runs(runs.frame[runs.frame["eval"] == "gsm8k"].drop(columns="replay"))
    with refused(cl.UsageError, "gsm8k", "loss"):
        cl.suggest("score-size", scores, "gsm8k", **ASKED)
