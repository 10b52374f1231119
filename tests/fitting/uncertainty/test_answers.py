"""How forecasts are printed: to the digits that their intervals leave them; where nothing bounds them, as a finding."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl

EXPONENTS = {"alpha": 0.35, "beta": 0.37}
POINTS = {"n_params": [1.5e8, 3e7], "tokens": [2.1e9, 1e6]}  # near, far


@pytest.fixture(scope="module")
def fit():
    """Two sizes at hardly varied tokens: what a law of both says far away is anybody's guess."""
    rows = pd.DataFrame({"n_params": [1e8, 1e8, 1e8, 2e8, 2e8, 2e8], "tokens": [2e9, 2.1e9, 2.2e9] * 2})
    rows["loss"] = 1.8 + 480 * rows["n_params"] ** -0.35 + 2100 * rows["tokens"] ** -0.37
    rows["loss"] *= np.exp(0.1 * np.array([1, -1, 0.5, -0.5, 1, -1]))
    rows["run"] = [f"run-{i}" for i in range(len(rows))]
    return cl.fit("chinchilla", rows.assign(eval="val"), on="val", restraint="none", starts=1, fix=EXPONENTS)


def test_an_interval_above_a_factor_of_two_is_a_finding(fit):
    """Of a law that was fitted to the rows alone too, whose ends were numbers of any size."""
    found = cl.forecast(fit, POINTS)
    near, far = found.iloc[0], found.iloc[1]
    assert near["lo"] < near["loss"] < near["hi"] < 2 * near["loss"]
    assert np.isnan([far["lo"], far["hi"]]).any()
    (said,) = (one for one in far["findings"] if one.code == "unbounded")
    assert "factor of 2" in said.message
    points = json.loads(json.dumps(found.answer.to_dict(), allow_nan=False))["points"]
    assert None in (points[1]["lo"], points[1]["hi"])
    assert "unbounded" in [one["code"] for one in points[1]["findings"]]


def test_digits_follow_the_interval(fit):
    """A table of points too, each row by its own interval."""
    found = cl.forecast(fit, POINTS)
    near = found.iloc[0]
    (table,) = found.answer.tables
    first, last = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert first["loss"] == f"{near['loss']:.1f}"
    assert first["hi"] == f"{near['hi']:.1f}"
    assert last["loss"] == f"{found.iloc[1]['loss']:.2g}"
    said = cl.forecast(fit, {"n_params": 3e7, "tokens": 1e6}).answer.title
    assert said.endswith("factor of 2")
    known = cl.forecast(fit, {"n_params": 1.5e8, "tokens": 2.1e9}, interval=None).answer.title
    assert re.fullmatch(rf"val loss: {near['loss']:.4f} \D+", known)


def test_a_loss_below_zero_is_a_finding_and_no_warning_of_numpy():
    fit = cl.fit("shared-tokens", cl.examples.load("watts-sizes"), on="target", starts=4)
    far = {"n_params": 3.9e23, "tokens": 4.3e15, "ptpp": 279, "replay": 0.5, "lr_peak": 0.003, "lr_pretrain": 6e-4}
    found = cl.forecast(fit, far).iloc[0]
    assert found["loss"] < 0
    assert "absurd-loss" in {one.code for one in found["findings"]}
