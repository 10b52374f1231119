"""What a point to forecast does not name: refused where the answer hangs on it, said where a rate was taken."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.laws import law

TRUTH = {"E": 1.5, "F": 0.5, "A": 1.4, "B": 0.35, "U": 0.02, "g": 0.3, "a": 0.3, "k": 1.0}
TRUTH |= {"d0": 0.3, "beta": 0.3, "a2": 3.0, "h": 0.6, "b": 0.1}


def table(rates=(3e-4, 1e-3), shares=(0.1, 0.25, 0.5)):
    rows = [
        {"n_params": size, "ptpp": budget, "replay": share, "lr_peak": rate, "tokens": tokens}
        for size in (1e8, 4e8)
        for budget in (20, 80, 300)
        for share in shares
        for rate in rates
        for tokens in (1e9, 8e9)
    ]
    frame = pd.DataFrame(rows).assign(run=lambda one: np.arange(len(one)).astype(str), eval="target")
    reading = law("shared-tokens", without="lr_pretrain+base+sizes")
    params = {name: TRUTH.get(name, 0.3) for name in reading.parameters}
    noise = 0.002 * np.random.default_rng(0).standard_normal(len(frame))
    return frame.assign(loss=reading.predict(params, frame, "target") * np.exp(noise))


@pytest.fixture(scope="module")
def fitted():
    return cl.fit(table(), on="target")


@pytest.mark.parametrize(
    ("at", "name"),
    [("n_params=400M,tokens=8B,ptpp=300,lr_peak=1e-3", "replay"), ("n_params=400M,tokens=8B,replay=.1", "ptpp")],
)
def test_a_mix_or_budget_that_is_not_named_is_asked_for(fitted, at, name):
    with refused(DataError, f"{name!r}", f"{name}="):
        fitted.forecast(at)


def test_the_only_level_need_not_be_named():
    fitted = cl.fit(table(rates=(1e-3,), shares=(0.25,)), on="target")
    named = fitted.forecast("n_params=400M,tokens=8B,ptpp=300,replay=.25,lr_peak=1e-3")
    silent = fitted.forecast("n_params=400M,tokens=8B,ptpp=300")
    assert silent["loss"].iloc[0] == named["loss"].iloc[0]
    assert silent["lo"].iloc[0] == named["lo"].iloc[0]
    assert not silent["findings"].iloc[0]


def test_the_rate_that_is_taken_is_said(fitted):
    point = "n_params=400M,tokens=8B,ptpp=300,replay=.25"
    for one in (fitted, fitted.leading):
        silent = one.forecast(point)
        each = [one.forecast(f"{point},lr_peak={rate}") for rate in (3e-4, 1e-3)]
        best = min(each, key=lambda found: found["loss"].iloc[0])
        assert silent[["lr_peak", "loss", "lo", "hi"]].equals(best[["lr_peak", "loss", "lo", "hi"]])
        notes = [note for note in silent["findings"].iloc[0] if note.code == "rate-assumed"]
        assert len(notes) == 1
        assert notes[0].severity == "warning"  # threefold between the lowest and the highest
        assert "lr_peak" in notes[0].message
        named = one.forecast(f"{point},lr_peak=1e-3")["findings"].iloc[0]
        assert not [note for note in named if note.code == "rate-assumed"]
