"""Next runs for a score are those for the loss that carries it, and say so."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl

ITEMS = 3000
ASKED = {"at": "n_params=1e9,tokens=2e10,replay=0.25,ptpp=100", "budget": "1e20", "n": 2}


@pytest.fixture(scope="module")
def runs():
    random = np.random.default_rng(5)
    rows = []
    for n in (1e8, 3e8, 1e9):
        for replay in (0.05, 0.25, 0.5):
            for tokens in (2e8, 1e9, 5e9):
                known = {"run": f"{n:g}-{replay}", "n_params": n, "tokens": tokens, "replay": replay, "ptpp": 100.0}
                loss = 2.6 + 300 / n**0.34 - 0.22 * np.log1p(tokens / 1e8) * (1 - 0.6 * replay**2)
                rows.append({**known, "eval": "target", "loss": loss * np.exp(0.001 * random.standard_normal())})
                score = random.binomial(ITEMS, 0.9 / (1 + np.exp(5.0 * (loss - 2.0)))) / ITEMS
                rows.append({**known, "eval": "gsm8k", "loss": score, "metric": "exact_match", "n_items": ITEMS})
    return cl.read_runs(pd.DataFrame(rows))


def test_runs_for_a_score_are_those_for_its_loss(runs):
    found = cl.suggest("score-sigmoid", runs, "gsm8k", **ASKED)
    assert found.on == "target"
    assert len(found.cells) == 2
    said = {finding.code: finding.message for finding in found.findings}
    assert "target loss, which carries gsm8k" in said["through-loss"]
    assert "of the doubt about that score" in said["through-loss"]
    of_loss = cl.suggest("auto", runs, "target", **ASKED)
    assert found.cells == of_loss.cells
    assert (found.loss, found.interval_before) == (of_loss.loss, of_loss.interval_before)
    assert "through-loss" not in {finding.code for finding in of_loss.findings}


def test_a_law_of_losses_is_that_of_the_carrying_loss(runs):
    found = cl.suggest("ptpp-blind", runs, "gsm8k", starts=8, **ASKED)
    assert (found.law, found.on) == ("ptpp-blind", "target")
    assert "through-loss" in {finding.code for finding in found.findings}


def test_a_score_that_no_loss_carries_says_what_to_do(runs):
    with pytest.raises(cl.UsageError, match="--on target"):
        cl.suggest("score-flat", runs, "gsm8k", **ASKED)
    scores = cl.read_runs(runs.frame[runs.frame["eval"] == "gsm8k"].drop(columns="replay"))
    with pytest.raises(cl.UsageError, match="Add rows with a loss"):
        cl.suggest("score-size", scores, "gsm8k", **ASKED)
