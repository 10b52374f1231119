"""The D-CPT law and its alternatives: golden values, the constraint on C, derivatives."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cases import Case

from cptlaw.errors import UsageError
from cptlaw.laws import law
from cptlaw.testing import random_params

# laws.md 4.10: N = 1.8, D = 10 (billions), own share r = 0.2.
GOLDEN = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
GOLDEN |= {"b": 2.0, "c": 3.0, "sigma": 0.15}
ROW = {"n_params": 1.8e9, "tokens": 10e9, "replay": 0.8, "eval": "target"}
TRUTH = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eps": 0.1, "eta": 1.3}
WITHOUT_ETA = {name: value for name, value in TRUTH.items() if name != "eta"}
OF_TOKENS = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.5, "beta": 0.4, "sigma": 0.3}


def l1(p, N, D, r, P):
    return of_size_and_tokens(p, N, D) + p["C"] / (r + p["eps"]) ** p["gamma"]


def l2(p, N, D, r, P):
    inner = p["B"] / D ** p["beta"] + p["C"] / (r + p["eps"]) ** p["gamma"]
    return p["E"] + p["A"] / N ** p["alpha"] + inner ** p["eta"]


def l3(p, N, D, r, P):
    return (
        p["E"]
        + p["A"] / N ** p["alpha"]
        + p["B"] * r ** p["eta"] / D ** p["beta"]
        + p["C"] / (r + p["eps"]) ** p["gamma"]
    )


def l4(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] * p["b"] ** r / D ** p["beta"] + p["C"] / p["c"] ** r


def l5(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / (r * D + (1 - r) * p["sigma"]) ** p["beta"]


def l5_rate(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / (r * D + (1 - r) * p["sigma"] * D) ** p["beta"]


def l6(p, N, D, r, P):
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * np.exp(r) / D ** p["beta"] + p["C"] / (r + p["eps"]) ** p["gamma"]
    )


def l7(p, N, D, r, P):
    share = r + p["eps"]
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * share ** p["eta"] / D ** p["beta"] + p["C"] / share ** p["gamma"]
    )


def of_size_and_tokens(p, N, D):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]


CASES = [
    Case("dcpt-l1", l1, WITHOUT_ETA, (GOLDEN, ROW, 2.46988445812)),
    Case("dcpt-l2", l2, TRUTH, (GOLDEN, ROW, 2.37406600806), flat=True),
    Case("dcpt-l3", l3, TRUTH, (GOLDEN, ROW, 2.29414952424)),
    Case(
        "dcpt-l4",
        l4,
        {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.3, "beta": 0.3, "C": 0.3, "b": 2.0, "c": 3.0},
        (GOLDEN, ROW, 2.39739471533),
    ),
    Case("dcpt-l5", l5, OF_TOKENS, (GOLDEN, ROW, 2.40610620278)),
    Case("dcpt-l5:sigma=rate", l5_rate, OF_TOKENS, (GOLDEN, ROW, 2.36900808146)),
    Case("dcpt-l6", l6, WITHOUT_ETA | {"B": 0.2, "C": 0.3}, (GOLDEN, ROW, 2.51427015247)),
    Case("dcpt-l7", l7, TRUTH, (GOLDEN, ROW, 2.31131956096)),
]
VARIANTS = ["dcpt-l5:sigma=rate", "dcpt-l3:monotone=paper", "dcpt-l4:monotone=paper", "dcpt-l6:monotone=paper"]
VARIANTS += [
    "dcpt-l7:monotone=paper:min_tokens=500M",
    "dcpt-l3:bend=2",
    "dcpt-l1:bend=3",
    "dcpt-l5:sigma=rate:bend=1.5",
]


def test_derivatives_of_the_dcpt_law():
    chosen = law("dcpt-l3")
    params = {name: GOLDEN[name] for name in chosen.parameters}
    partials = chosen.partials(params, pd.DataFrame([ROW]), ("tokens", "replay"))
    # Published for the own share r = 1 - replay and tokens in billions.
    assert -partials.slopes[1][0] == pytest.approx(-0.143480572475, rel=1e-10)
    assert -partials.curves[0, 1][0] * 1e9 == pytest.approx(-0.00482429211749, rel=1e-10)


def test_lower_bound_of_c():
    bound = law("dcpt-l3").lower_bound_of_c(SimpleNamespace(**GOLDEN)) * GOLDEN["B"]
    assert bound == pytest.approx(2.20719934976, rel=1e-10)


@pytest.mark.parametrize("spec", ["dcpt-l3", "dcpt-l4", "dcpt-l6", "dcpt-l7"])
def test_paper_constraint_makes_the_loss_fall_with_the_own_share(spec):
    rng = np.random.default_rng(0)
    chosen = law(spec, monotone="paper")
    shares = np.linspace(0.01, 1.0, 60)
    for _ in range(200):
        params = random_params(chosen, rng)
        rows = pd.DataFrame({"n_params": 1e9, "tokens": 0.1311e9, "replay": 1 - shares})
        assert np.all(np.diff(chosen.predict(params, rows)) <= 1e-9)


def test_l2_is_searched_in_coordinates_that_the_unit_of_the_loss_scales_or_leaves():
    chosen, unit = law("dcpt-l2"), 1 / np.log(2)
    params = {name: TRUTH[name] for name in chosen.parameters}
    scale = unit ** (1 / TRUTH["eta"])
    bits = params | {name: unit * params[name] for name in "EA"} | {name: scale * params[name] for name in "BC"}
    row = pd.DataFrame([ROW])
    assert chosen.predict(bits, row) == pytest.approx(unit * chosen.predict(params, row), rel=1e-12)
    assert chosen.fitted(bits)["C"] == pytest.approx(chosen.fitted(params)["C"], rel=1e-12)
    assert chosen.fitted(bits)["B"] == pytest.approx(unit * chosen.fitted(params)["B"], rel=1e-12)
    assert chosen.published(chosen.fitted(bits)) == pytest.approx(bits, rel=1e-12)


def test_paper_constraint_reports_the_published_c():
    chosen = law("dcpt-l3", monotone="paper")
    inner = {name: GOLDEN[name] for name in chosen.parameters}
    reported = chosen.published(inner)
    assert reported["C"] == pytest.approx(GOLDEN["C"] + 2.20719934976, rel=1e-9)
    assert chosen.fitted(reported) == pytest.approx(inner)


def test_replay_zero_and_one_are_exact():
    chosen = law("dcpt-l3")
    params = {name: GOLDEN[name] for name in chosen.parameters}
    rows = pd.DataFrame({"n_params": 1e9, "tokens": [1e9, 1e12], "replay": 1.0})  # own share 0
    assert chosen.predict(params, rows) == pytest.approx(np.full(2, 1.5 + 0.7 + 0.1 / 0.1**0.5), rel=1e-12)


def test_the_bend_joins_size_and_tokens():
    params = {name: GOLDEN[name] for name in law("dcpt-l3").parameters}
    rows = pd.DataFrame([ROW])
    x = law("dcpt-l3").bind(rows)
    size, tokens = 0.7 * 1.8**-0.3, 0.4 * x.r.value[0] ** 1.3 * 10**-0.3
    expected = law("dcpt-l3").predict(params, rows)[0] - size - tokens + np.hypot(size, tokens)
    assert law("dcpt-l3:bend=2").predict(params, rows)[0] == pytest.approx(expected, rel=1e-10)
    with pytest.raises(UsageError, match="monotone=paper"):
        law("dcpt-l3:bend=2:monotone=paper")
    with pytest.raises(UsageError, match="no option 'bend'"):
        law("dcpt-l2:bend=2")
