"""The adaptation laws that are aware of the pre-training budget: golden values, the ratio, the unit of tokens."""

import pandas as pd
import pytest
from cases import Case

from cptlaw.laws import law

# laws.md 3.11: N = 8.1, D = 72 (billions), r = 0.34, P = 279.
GOLDEN = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.02, "gamma": 0.4, "F": 0.9}
GOLDEN |= {"eta": 0.5, "lambda": 0.6, "zeta": 0.7}
ROW = {"n_params": 8.1e9, "tokens": 72e9, "replay": 0.34, "ptpp": 279.0, "eval": "target"}
TRUTH = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.05, "gamma": 0.4}
FLOOR, GATE = {"F": 0.9, "eta": 0.5}, {"lambda": 0.6, "zeta": 0.7}


def blind(p, N, D, r, P):
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * r ** p["nu"] / D ** p["beta"] + p["C"] / (r + 1e-5) ** p["gamma"]
    )


def floor(p, N, D, r, P):
    return blind(p, N, D, r, P) + p["F"] / P ** p["eta"]


def gate(p, N, D, r, P):
    g = P ** p["zeta"] / (1 + P ** p["zeta"])
    return blind({**p, "beta": p["beta"] * (1 - p["lambda"] * g)}, N, D, r, P)


def gated_floor(p, N, D, r, P):
    return gate(p, N, D, r, P) + p["F"] / P ** p["eta"]


CASES = [
    Case("ptpp-blind", blind, TRUTH, (GOLDEN, ROW, 1.64150037531)),
    Case("ptpp-floor", floor, TRUTH | FLOOR, (GOLDEN, ROW, 1.69538196592)),
    Case("ptpp-gate", gate, TRUTH | GATE, (GOLDEN, ROW, 1.76747427599), flat=True),
    Case("ptpp-gated-floor", gated_floor, TRUTH | FLOOR | GATE, (GOLDEN, ROW, 1.82135586659), flat=True),
]
VARIANTS = ["ptpp-gated-floor:ratio_of=own", "ptpp-gate:lambda_upper=none", "ptpp-gate:unit_tokens=1e6"]
VARIANTS += [
    "ptpp-floor:bend=2",
    "ptpp-blind:bend=1.5",
    "ptpp-gated-floor:bend=3:pivot=fitted",
    "ptpp-gate:pivot=fitted",
]
VARIANTS += ["ptpp-floor:shifted=true", "ptpp-gated-floor:shifted=true", "ptpp-gated-floor:ratio_of=own:unit_tokens=1"]


def test_ratio_of_own_gives_the_target_law_the_right_sign():
    params = {name: GOLDEN[name] for name in law("ptpp-floor").parameters}
    rows = pd.DataFrame([ROW])
    # With C > 0 and much adaptation the published form says more replay lowers the target loss; the variant does not.
    rows["tokens"] = 1e18
    published = law("ptpp-floor").partials(params, rows, ("replay",)).slopes[0][0]
    signed = law("ptpp-floor:ratio_of=own").partials(params, rows, ("replay",)).slopes[0][0]
    assert published < 0 < signed


def test_unit_of_tokens_is_part_of_the_gated_forms_only():
    """laws.md 3.5: term at P = 15, 31, 279 in billions .2511 .2589 .2697; in raw tokens .2511 .3003 .3815."""
    params = {"E": 0.0, "A": 0.0, "C": 0.0, "alpha": 1.0, "gamma": 1.0, "beta": 0.25, "nu": 1.0, "lambda": 0.6}
    params |= {"zeta": 0.7}
    rows = pd.DataFrame({"n_params": 1e9, "tokens": 72e9, "replay": 0.999, "ptpp": [15.0, 31.0, 279.0]})
    for unit, expected in ((1e9, [0.2511, 0.2589, 0.2697]), (1.0, [0.2511, 0.3003, 0.3815])):
        chosen = law("ptpp-gate", unit_tokens=unit)
        first = chosen.predict(params | {"B": 1.0}, rows)[0]
        assert chosen.predict(params | {"B": 0.2511 / first}, rows) == pytest.approx(expected, abs=1.5e-4)
        assert chosen.units["tokens"] == unit
        assert law(chosen.spec).units["tokens"] == unit


@pytest.mark.parametrize("spec", ["ptpp-gate:pivot=fitted", "ptpp-gated-floor:pivot=fitted"])
def test_with_a_fitted_pivot_the_unit_of_tokens_is_no_part_of_the_model(spec):
    chosen = law(spec)
    params = {name: {**GOLDEN, "D0": 0.4}[name] for name in chosen.parameters}
    rows = pd.DataFrame({"n_params": 1e9, "tokens": [2e8, 72e9], "replay": 0.34, "ptpp": [15.0, 279.0]})
    raw = law(f"{spec}:unit_tokens=1")
    assert raw.predict({**params, "D0": 0.4e9}, rows) == pytest.approx(chosen.predict(params, rows), rel=1e-12)
    low, high = chosen.shapes["D0"].low, raw.shapes["D0"].low
    assert high == pytest.approx(1e9 * low)


def test_the_bend_joins_size_and_tokens_of_the_forms():
    params = {name: GOLDEN[name] for name in law("ptpp-floor").parameters}
    rows = pd.DataFrame([ROW])
    size, tokens = 0.5 * 8.1**-0.3, 0.8 * 0.34**0.6 * 72**-0.25
    plain = law("ptpp-floor").predict(params, rows)[0]
    for bend in (1.5, 2, 3):
        bent = law("ptpp-floor", bend=bend).predict(params, rows)[0]
        assert bent == pytest.approx(plain - size - tokens + (size**bend + tokens**bend) ** (1 / bend), rel=1e-10)
