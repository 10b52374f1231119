"""Size against tokens for a budget, and the front of compromises."""

import json

import numpy as np
import pandas as pd
import pytest
from planning_fits import DCPT_SOURCE, DCPT_TARGET, FORM_1, FORM_3, MODEL, SOURCE_1, made_fit

import cptlaw as cl

BILLIONS = {"n_params": 1e9, "tokens": 1e9}


def test_published_dcpt_arithmetic():
    """T7: Que et al. 2024, usage 3, law at 1:1: exponents and coefficient give the published optimum."""
    a, b, coefficient = 0.6252, 0.3748, 4.1282
    power = 0.8  # alpha + beta is not published; the optimum does not depend on it
    alpha, beta = b * power, a * power
    A = coefficient**power * beta / alpha
    best = cl.plan.compute_optimal(A, alpha, 1.0, beta, 5e19, BILLIONS)
    assert (best.a, best.b, best.G) == pytest.approx((a, b, coefficient), rel=1e-12)
    assert best.n_params == pytest.approx(15.54e9, rel=5e-5)
    assert best.tokens == pytest.approx(0.5362e9, rel=1e-4)
    assert 6 * best.n_params * best.tokens == pytest.approx(5e19)


def test_published_cross_lingual_arithmetic():
    """T9: Zheng et al. 2024 (arXiv:2407.02118)."""
    best = cl.plan.compute_optimal(A=420.0, alpha=0.40, B=433.3, beta=0.20, gamma=0.08, budget=1e20)
    assert best.a == pytest.approx(0.3846, abs=5e-5)
    assert best.b == pytest.approx(0.6154, abs=5e-5)
    assert (best.a, best.G) == pytest.approx((0.2 / 0.52, 9.539), abs=5e-4)
    sizes = np.geomspace(1e7, 1e11, 400_001)
    losses = 420.0 / sizes**0.4 + 433.3 / ((1e20 / 6 / sizes) ** 0.2 * sizes**0.08)
    assert best.n_params == pytest.approx(sizes[np.argmin(losses)], rel=1e-4)


def test_compute_optimal_refuses():
    with pytest.raises(cl.UsageError, match="gamma < beta"):
        cl.plan.compute_optimal(1.0, 0.3, 1.0, 0.2, 1e20, gamma=0.3)
    with pytest.raises(cl.UsageError, match="A=0"):
        cl.plan.compute_optimal(0.0, 0.3, 1.0, 0.2, 1e20)


def brute(fit, budget, **fixed):
    sizes = np.geomspace(1e4, 1e16, 600_001)
    frame = pd.DataFrame({"n_params": sizes, "tokens": budget / 6 / sizes, **fixed})
    losses = fit.law.predict(fit.params, frame, "target")
    return sizes[np.argmin(losses)], losses.min()


L5 = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "sigma": 0.15}
L2 = {"E": 1.0, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 0.8, "eps": 0.1}
CHINCHILLA = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}
KAPLAN = {"alpha_N": 0.076, "alpha_D": 0.103, "N_c": 6.4e13, "D_c": 1.8e13}


@pytest.mark.parametrize(
    ("spec", "params", "options"),
    [
        ("dcpt-l3", DCPT_TARGET, {"replay": 0.5}),
        ("dcpt-l3:monotone=paper", DCPT_TARGET | {"C": 3.0}, {"replay": 0.5}),
        ("ptpp-floor", FORM_1, {"replay": 0.34, "ptpp": 279}),
        ("ptpp-gated-floor", FORM_3, {"replay": 0.34, "ptpp": 279}),
        ("chinchilla", CHINCHILLA, {}),
        ("dcpt-l2", L2, {"replay": 0.5}),
        ("dcpt-l5", L5, {"replay": 0.5}),
        ("kaplan", KAPLAN, {}),
    ],
)
def test_against_brute_force(spec, params, options):
    fit = made_fit(spec, params, "target")
    found = cl.plan.allocate(fit, budget="5e19", interval=None, **options)
    size, lowest = brute(fit, 5e19, **options)
    assert found.target_loss <= lowest * (1 + 1e-9)
    assert found.n_params == pytest.approx(size, rel=2e-3)
    assert found.flops == pytest.approx(5e19)
    assert found.atpp == pytest.approx(found.tokens / found.n_params)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()


def test_closed_form_and_search_agree():
    p = {"E": 1.7, "A": 400.0, "alpha": 0.34, "B": 400.0, "beta": 0.28}
    best = cl.plan.compute_optimal(p["A"], p["alpha"], p["B"], p["beta"], 5e19)
    found = cl.plan.allocate(made_fit("chinchilla", p, "target"), budget=5e19, interval=None)
    assert found.n_params == pytest.approx(best.n_params, rel=1e-3)
    assert found.target_loss == pytest.approx(
        p["E"] + p["A"] / best.n_params ** p["alpha"] + p["B"] / best.tokens ** p["beta"], rel=1e-9
    )


def test_allocate_bad_usage():
    fit = made_fit("ptpp-floor", FORM_1, "target")
    for options, message in (
        ({"ptpp": 279}, "reads replay"),
        ({"replay": 0.5}, "reads ptpp"),
        ({"replay": 0.5, "ptpp": 279, "budget": "much"}, "not a number"),
        ({"replay": 50, "ptpp": 279}, "meant as 50%"),
    ):
        with pytest.raises(cl.UsageError, match=message):
            cl.plan.allocate(fit, **{"budget": 1e20, **options})
    no_size = made_fit("dcpt-l3", DCPT_TARGET | {"A": 0.0}, "target")
    with pytest.raises(cl.UsageError, match="no best size"):
        cl.plan.allocate(no_size, budget=1e20, replay=0.5)
    # At fixed ptpp a larger base model has seen more tokens, which a shifted law counts: none is large enough.
    shifted = made_fit("ptpp-floor:shifted=true", FORM_1 | {"kappa": 0.01}, "target")
    with pytest.raises(cl.UsageError, match=r"towards one token.*shifted"):
        cl.plan.allocate(shifted, budget=5e19, replay=0.34, ptpp=279)


# -- Pareto ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    # Not monotone, so that part of the range of replay is dominated.
    target = made_fit("ptpp-gated-floor", FORM_3 | {"C": 0.15, "gamma": 0.8}, "target")
    return target, made_fit("ptpp-floor", SOURCE_1, "source")


def test_nothing_dominates_the_front(pair):
    found = cl.plan.pareto(*pair, **MODEL, budget="1e21", interval=None)
    table = found.to_frame()
    assert 2 < len(table) <= 50
    assert np.all(np.diff(table["replay"]) > 0)
    assert np.all(np.diff(table["target_loss"]) > 0)
    assert np.all(np.diff(table["source_loss"]) < 0)
    rng = np.random.default_rng(0)
    mixes = pd.DataFrame(
        {
            **MODEL,
            "replay": rng.uniform(0.1, 0.5, 20_000),
            "tokens": rng.uniform(1e9, 1e21 / 6 / 8.1e9, 20_000),
        }
    )
    target, source = (fit.law.predict(fit.params, mixes, fit.role) for fit in pair)
    for point in found.points:
        assert not np.any((target < point.target_loss - 1e-9) & (source < point.source_loss - 1e-9))
    assert np.allclose(table["flops"], 1e21)
    assert table["forgetting"].isna().all()
    # The barrier makes the smallest replay bad for both losses.
    assert found.points[0].replay > 0.101


def test_pareto_with_forgetting(pair):
    found = cl.plan.pareto(*pair, **MODEL, budget="1e21", points=5, base_source_loss=1.9, interval=None)
    assert len(found.points) == 5
    for point in found.points:
        assert point.forgetting == pytest.approx(point.source_loss / 1.9 - 1)
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["points"]) == 5
    assert {"replay", "tokens", "atpp", "flops", "target_loss", "source_loss", "forgetting"} <= set(
        document["points"][0]
    )
    assert "best compromises" in found.summary()
    (table,) = found.tables
    assert table.columns == ("replay", "target loss", "source loss", "forgetting")
    assert len(table.rows) == 5
    assert "<table>" in found._repr_html_()


def test_laws_without_a_trade_off():
    target = made_fit("ptpp-gated-floor", FORM_3, "target")
    source = made_fit("ptpp-floor", FORM_1, "source")  # rises with replay as the target law does
    found = cl.plan.pareto(target, source, **MODEL, budget="1e21", interval=None)
    assert len(found.points) == 1
    assert "no-compromise" in [finding.code for finding in found.findings]


def test_pareto_bad_usage(pair):
    for options, message in (({"points": 1}, "whole number"), ({"budget": -1}, "not positive")):
        with pytest.raises(cl.UsageError, match=message):
            cl.plan.pareto(*pair, **{**MODEL, "budget": 1e21, **options})
    with pytest.raises(cl.UsageError, match="give source="):
        cl.plan.pareto(pair[0], None, **MODEL, budget=1e21)


def test_real_runs():
    runs = cl.examples.load("en-fr-pilot")
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    target, source = (cl.fit("ptpp-floor", runs, on=on, where=where, restraint="none") for on in ("target", "source"))
    found = cl.plan.pareto(target, source, n_params=124672, ptpp=279, budget=1e12, points=9)
    table = found.to_frame()
    # Intervals between the five computed points are interpolated; each is what the fit itself says there.
    middle = table.iloc[4]
    exact = source.forecast(
        pd.DataFrame({"n_params": [124672.0], "ptpp": [279.0], "replay": middle["replay"], "tokens": middle["tokens"]})
    )
    assert middle["source_loss_lo"] == pytest.approx(exact["lo"][0], rel=2e-3)
    assert middle["source_loss_hi"] == pytest.approx(exact["hi"][0], rel=2e-3)
    assert found.base_source_loss == pytest.approx(1.7293)
    best = cl.plan.allocate(target, budget=1e12, replay="25%", ptpp=62)
    assert best.target_loss_lo < best.target_loss < best.target_loss_hi


def test_dcpt_pair_front():
    target = made_fit("dcpt-l3", DCPT_TARGET | {"C": 1.0}, "target")
    source = made_fit("dcpt-l3", DCPT_SOURCE | {"C": 1.0}, "source")
    found = cl.plan.pareto(target, source, n_params="8.1B", budget="1e21", points=20, interval=None)
    assert found.ptpp is None
    assert len(found.points) == 20
    assert (found.points[0].replay, found.points[-1].replay) == (0.1, 0.5)


def test_an_average_of_laws_that_fall_is_split_too():
    rng = np.random.default_rng(0)
    sizes, ratios = np.array([1e8, 2e8, 4e8, 8e8]), np.array([5, 10, 20, 40])
    rows = [
        {"run": f"{n:g}-{r}", "n_params": n, "tokens": n * r, "loss": 1.8 + 480 / n**0.35 + 2100 / (n * r) ** 0.37}
        for n in sizes
        for r in ratios
    ]
    table = pd.DataFrame(rows)
    table["loss"] *= np.exp(0.001 * rng.normal(size=len(table)))
    fitted = cl.fit(table, on="target")
    assert len(fitted.members) > 1
    found = cl.plan.allocate(fitted, budget="1e20")
    assert 6 * found.n_params * found.tokens == pytest.approx(1e20)
    # Half and twice the size at the same compute are worse.
    for factor in (0.5, 2.0):
        at = {"n_params": found.n_params * factor, "tokens": found.tokens / factor}
        assert fitted.forecast(at)["loss"].iloc[0] > found.target_loss


def test_a_law_whose_shift_may_raise_the_loss_is_split_too_at_the_rate_of_the_runs():
    """shared-tokens may rise with tokens at first, and its rate is no question of sizes: brute force agrees."""
    runs, rows = cl.examples.load("en-fr-pilot"), "tokens == 0 or atpp >= 1.9"
    # Where larger models adapt much sooner, as is usual, no size is the best: each brings more pre-training.
    sooner = {"m": (1.0, 0.3)}
    fitted = cl.fit("shared-tokens", runs, "target", where=rows, starts=4, restraint="none", prior=sooner)
    found = cl.plan.allocate(fitted, budget=5e12, replay=0.5, ptpp=279)
    assert found.lr_peak == pytest.approx(3e-3)
    sizes = np.geomspace(1e4, 1e7, 2000)
    grid = pd.DataFrame({"n_params": sizes, "tokens": 5e12 / 6 / sizes, "replay": 0.5, "ptpp": 279.0, "lr_peak": 3e-3})
    losses = fitted.predict(grid)
    assert found.target_loss <= losses.min() * (1 + 1e-9)
    assert found.n_params == pytest.approx(sizes[losses.argmin()], rel=0.01)
    assert "peak rate" in str(found)
