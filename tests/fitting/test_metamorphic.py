"""What does not change the question does not change the answer: noise of 1e-9, units, names, order, doubled rows."""

import numpy as np
import pandas as pd
import pytest
from metamorphic import TOLERANCE, changed, difference

import cptlaw as cl

LAWS = ("ptpp-floor", "ptpp-gated-floor", "dcpt-l3", "shared-tokens")
ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 3 and tokens > 0"
POINTS = pd.DataFrame(
    {"n_params": 124672.0, "tokens": [1e6, 5e5], "replay": 0.25, "ptpp": [279.0, 124.0], "lr_peak": 3e-3}
)


@pytest.fixture(scope="module", params=["en-fr-pilot", "docs-to-code"])
def rows(request):
    frame = cl.examples.load(request.param).on("source").where(ROWS).frame
    return frame.assign(eval="source", run=frame["run"].astype(str)).reset_index(drop=True)


@pytest.fixture(scope="module")
def asked():
    known = {}

    def ask(law, rows):
        key = law, str(rows) if not isinstance(rows, pd.DataFrame) else id(rows)
        if key not in known:
            known[key] = cl.fit(law, rows, "source").forecast(POINTS)[["loss", "lo", "hi"]].to_numpy(dtype=float)
        return known[key]

    return ask


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("law", LAWS)
def test_the_same_question_has_the_same_answer(rows, asked, law, kind, tmp_path):
    before = asked(law, rows)
    after = cl.fit(law, changed(rows, kind, tmp_path), "source").forecast(POINTS)[["loss", "lo", "hi"]].to_numpy(float)
    if kind == "doubled":  # of many rows, which hold against the priors
        assert after == pytest.approx(before, rel=0.02, nan_ok=True)
    assert difference(before, after, kind) <= TOLERANCE[kind]


def test_a_measured_cell_is_bounded_however_the_last_digits_fall():
    """Under noise of 1e-9 this interval once flipped between 1.79 to 2.39 and none."""
    rows = (
        cl.examples.load("en-fr-pilot").on("source").where("ptpp in (31, 62, 124) and tokens > 0 and atpp >= 1.9").frame
    )
    ends = []
    for seed in range(3):
        noise = 1e-9 * np.random.default_rng(seed).standard_normal(len(rows))
        found = cl.fit("ptpp-floor", rows.assign(loss=rows["loss"] * (1 + noise)), "source").forecast(POINTS.iloc[[1]])
        ends.append(found[["lo", "hi"]].iloc[0].tolist())
    assert np.isfinite(ends).all()
    assert np.ptp(ends, axis=0) == pytest.approx([0, 0], abs=1e-6)
