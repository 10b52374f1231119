"""No law need be named: the runs alone stand for law auto in every verb that fits."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.laws import law

TRUTH = {"E": 1.69, "A": 406.0, "alpha": 0.34, "B": 411.0, "beta": 0.28}


@pytest.fixture(scope="module")
def runs():
    sizes = [(size, size * ratio) for size in (2e7, 6e7, 2e8) for ratio in (5, 20, 80)]
    frame = pd.DataFrame(sizes, columns=["n_params", "tokens"]).assign(eval="val")
    noise = 0.003 * np.random.default_rng(0).standard_normal(len(frame))
    return frame.assign(run=frame.index.astype(str), loss=law("chinchilla").predict(TRUTH, frame) * np.exp(noise))


def test_the_runs_alone_stand_for_law_auto(runs):
    assert cl.fit(runs, on="val").to_dict()["law"] == "auto"
    assert cl.fit(runs, "val", "n_params > 3e7").n_points == 6
    found = cl.check(runs, on="val")
    assert found.to_dict() == cl.check("auto", runs, "val").to_dict()
    assert found.to_dict() == cl.check(runs, "val").to_dict()
    ask = {"at": "n_params=1B,tokens=20B", "budget": "1e19", "n": 1}
    one, other = cl.suggest(runs, on="val", **ask), cl.suggest("auto", runs, on="val", **ask)
    assert one.to_dict() == other.to_dict()
    assert set(cl.compare(runs, on="val", cv="rollout:n_params")["law"]) >= {"auto", "nearest-run"}


def test_a_law_named_first_is_that_law(runs):
    assert cl.check("chinchilla", runs, "val").law.name == "chinchilla"
    assert cl.check(None, runs, "val").to_dict()["law"] == "auto"
