"""Fewest tokens with repeated target tokens, under risk, and from every reference for forgetting."""

import numpy as np
import pandas as pd
import pytest
from any_losses import AnyLoss
from planning_fits import FORM_1, FORM_3, MODEL, SOURCE_1, check_against_brute_force, lowest, made_fit

import cptlaw as cl
from cptlaw.planning.mixes.repetition import effective_tokens

BASE = 1.9
OPTIONS = {"max_forgetting": "2%", "max_target_loss": 1.8, "base_source_loss": BASE}


def plan(forms, **options):
    return cl.plan.min_tokens(*forms, **{"interval": None, **MODEL, **options})


# -- unique target tokens ----------------------------------------------------------------------------------------------


def test_effective_tokens_golden_and_at_its_limits():
    assert float(effective_tokens(4e10, 0.0, 1e10)) == pytest.approx(3.72567312306e10, rel=1e-11)
    rng = np.random.default_rng(0)
    tokens, share = np.exp(rng.uniform(20, 28, 500)), rng.uniform(0, 1, 500)
    worth = effective_tokens(tokens, share, 1e10)
    assert np.all(worth <= tokens * (1 + 1e-12))
    assert float(effective_tokens(np.inf, 0.0, 1e10)) == pytest.approx(1e10 * 16.387756)
    assert float(effective_tokens(np.inf, 1.0, 1e10)) == np.inf


def test_unique_tokens_forbidden_to_repeat(forms):
    options = {"max_forgetting": "2%", "max_target_loss": 1.8, "base_source_loss": BASE}
    free = plan(forms, **options)
    enough = plan(forms, **options, unique_target_tokens=free.target_tokens * 1.01)
    assert enough.tokens == pytest.approx(free.tokens, rel=1e-6)
    assert enough.target_epochs == pytest.approx(1 / 1.01)
    none = plan(forms, **options, unique_target_tokens=free.target_tokens * 0.2)
    assert not none.feasible
    assert "unique-target-tokens" in none.blocking
    value = none.feasible_from["unique-target-tokens"]
    assert plan(forms, **options, unique_target_tokens=value * 1.0001).feasible
    assert not plan(forms, **options, unique_target_tokens=value * 0.9999).feasible


def test_unique_tokens_bind_against_brute_force():
    # Hardly rising with replay, so that a cap on target tokens moves the optimum along the branch of the target.
    target = made_fit("ptpp-floor", FORM_1 | {"nu": 0.01, "C": 1e-9}, "target")
    source = made_fit("ptpp-floor", SOURCE_1, "source")
    free = plan((target, source), max_target_loss=1.8)
    cap = free.target_tokens * 0.9
    found = plan((target, source), max_target_loss=1.8, unique_target_tokens=cap)
    check_against_brute_force(found, (target, source), [(target, 1.8)], cap=cap)
    assert found.binding == ("max-target-loss", "unique-target-tokens")
    assert found.target_tokens == pytest.approx(cap, rel=1e-6)


def test_unique_tokens_at_a_discount(forms):
    options = {"max_forgetting": "2%", "max_target_loss": 1.8, "base_source_loss": BASE}
    free = plan(forms, **options)
    found = plan(forms, **options, unique_target_tokens=free.target_tokens / 4, repetition="discount")
    assert found.tokens > free.tokens
    assert found.target_epochs > 4
    assert "repeated-pool" in [finding.code for finding in found.findings]
    assert "unique-target-tokens" in found.binding
    # The same number of tokens counts, so the losses are the same.
    assert found.effective_tokens == pytest.approx(free.tokens, rel=1e-6)
    assert found.target_loss == pytest.approx(1.8, abs=1e-6)
    worth = effective_tokens(found.tokens, found.replay, free.target_tokens / 4)
    assert float(worth) == pytest.approx(found.effective_tokens)


# -- risk --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doubtful():
    """Two fits to noisy runs of the two laws, every size at every budget."""
    return tuple(
        cl.fit(spec, noisy(spec, params, role, 0.002, seed), on=role, starts=16)
        for spec, params, role, seed in (
            ("ptpp-gated-floor", FORM_3, "target", 1),
            ("ptpp-floor", SOURCE_1, "source", 2),
        )
    )


def noisy(spec, params, role, noise, seed):
    made = made_fit(spec, params, role, noise=noise, seed=seed)
    return made.data.assign(eval=role)


def test_more_certainty_costs_tokens(doubtful):
    point = plan(doubtful, **OPTIONS)
    tokens = []
    for risk in (0.5, 0.7, 0.9):
        found = plan(doubtful, **OPTIONS, risk=risk)
        assert found.feasible
        assert found.price_of_doubt == pytest.approx(found.tokens - point.tokens, rel=1e-6, abs=1.0)
        assert found.risk == risk
        tokens.append(found.tokens)
    assert np.all(np.diff(tokens) > 0)
    assert tokens[0] == pytest.approx(point.tokens, rel=1e-6)  # as likely too high as too low: the forecast itself


def test_a_limit_that_its_doubt_leaves_only_some_tokens_is_found():
    def widest_at_both_ends(frame, probabilities):
        logs = np.log(frame["tokens"].to_numpy(dtype=float))
        # Doubt that is least at e^25 tokens and twelve times as wide at both ends: beyond e^27 or so no loss is sure.
        half = 0.02 * 12.0 ** (((logs - 25.0) / 3.0) ** 2)
        return np.log(target.predict(frame)) + np.sign(np.asarray(probabilities) - 0.5)[:, None] * half

    target = AnyLoss("target", lambda r, d: 1.2 + 0.5 * (1 + 0.4 * r) * (d / 1e9) ** -0.2)
    target.log_quantiles = widest_at_both_ends
    replay, logs = (axis.ravel() for axis in np.meshgrid(np.linspace(0.1, 0.5, 101), np.linspace(21.5, 30.0, 851)))
    frame = pd.DataFrame({"replay": replay, "tokens": np.exp(logs)})
    upper = np.exp(widest_at_both_ends(frame, [0.9])[0])
    assert upper[logs > 29.0].min() > 1.55  # so that more tokens are no way out
    found = cl.plan.min_tokens(target, **MODEL, max_target_loss=1.55, risk=0.9, interval=None)
    assert found.feasible
    assert np.log(found.tokens) == pytest.approx(logs[upper <= 1.55].min(), abs=0.011)  # the grid's step


@pytest.mark.parametrize("risk", [0.3, 0.0, 1.0])
def test_a_risk_that_means_nothing_is_refused(doubtful, risk):
    with pytest.raises(cl.UsageError, match="risk"):
        plan(doubtful, **OPTIONS, risk=risk)


def test_without_spread_a_risk_costs_what_the_noise_of_a_measurement_asks_for():
    exact = [
        cl.fit(spec, noisy(spec, params, role, 0.0, 0), on=role, starts=8, restraint="none")
        for spec, params, role in (("ptpp-floor", FORM_1, "target"), ("ptpp-floor", SOURCE_1, "source"))
    ]
    certain = plan(exact, **OPTIONS, risk=0.9)
    frame = pd.DataFrame({**MODEL, "replay": [certain.replay], "tokens": [certain.tokens]})
    for fit, highest in zip(exact, (1.8, BASE * 1.02), strict=True):
        assert fit.log_quantiles(frame, [0.9])[0, 0] == pytest.approx(np.log(highest), abs=1e-4)
    assert 0 < certain.price_of_doubt < 0.1 * certain.tokens


@pytest.mark.parametrize("risk", [0.8, 0.95])
def test_limits_hold_under_the_intervals_of_the_forecast(doubtful, risk):
    found = plan(doubtful, **OPTIONS, risk=risk)
    assert found.binding == ("max-forgetting", "max-target-loss")
    frame = pd.DataFrame({**MODEL, "replay": [found.replay], "tokens": [found.tokens]})
    for fit, highest in zip(doubtful, (1.8, BASE * 1.02), strict=True):
        upper = fit.forecast(frame, interval=2 * risk - 1)["hi"].iloc[0]
        assert upper == pytest.approx(highest, rel=3e-4)  # both limits bind


def test_infeasible_for_doubt_alone():
    doubtful = [
        cl.fit("ptpp-floor", noisy("ptpp-floor", params, role, 0.03, seed), on=role, starts=8)
        for params, role, seed in ((FORM_1, "target", 1), (SOURCE_1, "source", 2))
    ]
    assert plan(doubtful, **OPTIONS, max_tokens="1T").feasible
    found = plan(doubtful, **OPTIONS, max_tokens="1T", risk=0.995)
    assert not found.feasible
    assert "doubt-decides" in [finding.code for finding in found.findings]
    # The best value within reach is the one kept with that probability, so it lies above the point forecast's.
    assert found.best_reachable["forgetting"] > lowest(doubtful[1]) / BASE - 1
    name = found.blocking.split(" and ")[0]
    assert name in found.feasible_from


# -- references --------------------------------------------------------------------------------------------------------


def base_models(loss=None):
    rows = [(n, p) for n in (2.4e8, 5e8, 8.1e9) for p in (15.0, 31.0, 279.0)]
    base = pd.DataFrame(rows, columns=["n_params", "ptpp"])
    params = {"E": 1.5, "A": 0.25, "B": 0.9, "alpha": 0.3, "beta": 0.35}
    base["loss"] = cl.law("ptpp-base").predict(params, base) if loss is None else loss
    return base


def sourced(forms, base):
    return forms[0], made_fit("ptpp-floor", SOURCE_1, "source", base=base)


def test_measured_reference_from_the_fit(forms):
    base = base_models()
    pair = sourced(forms, base)
    found = plan(pair, max_forgetting="20%", max_target_loss=1.8)
    expected = base.query("n_params == 8.1e9 and ptpp == 279")["loss"].item()
    assert found.base_source_loss == pytest.approx(expected)
    assert found.reference == "measured"
    nearly = plan(pair, n_params=8.1e9 * (1 + 1e-8), max_forgetting="20%", max_target_loss=1.8)
    assert nearly.base_source_loss == pytest.approx(expected)


def test_base_law_reference(forms, doubtful):
    base = base_models()
    known = base.query("n_params == 8.1e9 and ptpp == 279")["loss"].item()
    held_out = base.query("not (n_params == 8.1e9 and ptpp == 279)")
    found = plan(sourced(forms, held_out), max_forgetting="20%", max_target_loss=1.8, reference="base-law")
    assert found.base_source_loss == pytest.approx(known, rel=1e-3)
    assert found.reference == "base-law"
    runs = base.assign(tokens=0.0, run=[f"b{i}" for i in range(len(base))], eval="source")
    given = cl.fit("ptpp-base", runs, on="source", restraint="none")
    again = plan(sourced(forms, None), max_forgetting="20%", max_target_loss=1.8, reference="base-law", base_law=given)
    assert again.base_source_loss == pytest.approx(known, rel=1e-6)
    options = {"max_forgetting": "20%", "max_target_loss": 1.8, "reference": "base-law", "base_law": given}
    assert plan(doubtful, **options, risk=0.8).feasible


def test_asymptote_reference(forms, doubtful):
    found = plan(forms, max_forgetting="20%", max_target_loss=1.8, reference="asymptote")
    p = SOURCE_1
    expected = p["E"] + p["A"] / 8.1 ** p["alpha"] + p["C"] / (1 + 1e-5) ** p["gamma"] + p["F"] / 279 ** p["eta"]
    assert found.base_source_loss == pytest.approx(expected, rel=1e-6)
    assert plan(doubtful, max_forgetting="20%", max_target_loss=1.8, reference="asymptote", risk=0.7).feasible


def test_min_tokens_reference(forms, doubtful):
    found = plan(forms, max_forgetting="5%", max_target_loss=1.8, reference="min-tokens")
    row = pd.DataFrame({**MODEL, "replay": [1.0], "tokens": [2e9]})
    assert found.base_source_loss == pytest.approx(forms[1].predict(row)[0])
    assert ("warning", "reference-min-tokens") in [(f.severity, f.code) for f in found.findings]
    assert plan(doubtful, max_forgetting="5%", max_target_loss=1.8, reference="min-tokens", risk=0.7).feasible


def test_shifted_reference(forms):
    source = made_fit("ptpp-floor:shifted=true", SOURCE_1 | {"kappa": 0.01}, "source")
    found = plan((forms[0], source), max_forgetting="6%", max_target_loss=1.8, reference="shifted")
    row = pd.DataFrame({**MODEL, "replay": [1.0], "tokens": [0.0]})
    assert found.base_source_loss == pytest.approx(source.predict(row)[0])
    assert np.isfinite(found.base_source_loss)
    with pytest.raises(cl.UsageError, match="shifted=true"):
        plan(forms, max_forgetting="6%", reference="shifted")


def test_references_are_ordered_as_the_spec_says(forms):
    def base(kind):
        return plan(forms, max_forgetting="20%", reference=kind).base_source_loss

    assert base("asymptote") < base("min-tokens")


# -- real runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pilot():
    runs = cl.examples.load("en-fr-pilot")
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    return tuple(cl.fit("ptpp-floor", runs, on=on, where=where, restraint="none") for on in ("target", "source"))


def test_real_risk(pilot):
    # 2.25 times beyond the fitted budgets 21 % with 90 % probability is out of reach: the law itself may err by 5 %.
    options = {"n_params": 124672, "ptpp": 279, "max_forgetting": "24%", "max_target_loss": 1.85, "interval": None}
    point = cl.plan.min_tokens(*pilot, **options)
    doubtful = [cl.plan.min_tokens(*pilot, **options, risk=risk) for risk in (0.5, 0.9)]  # by profiles, seconds each
    assert all(found.feasible for found in doubtful)
    tokens = [found.tokens for found in doubtful]
    assert tokens == sorted(tokens)
    assert tokens[-1] > point.tokens


@pytest.mark.dear("a grid of plans under risk")
@pytest.mark.parametrize(("forgetting", "loss", "feasible"), [(0.21, 1.8, False), (0.24, 1.85, True)])
def test_real_risk_is_that_of_a_grid(pilot, forgetting, loss, feasible):
    """Shares within the fitted ones, judged by the same intervals at each point, without a search."""
    found = cl.plan.min_tokens(
        *pilot, n_params=124672, ptpp=279, max_forgetting=forgetting, max_target_loss=loss, interval=None, risk=0.9
    )
    replay, tokens = (one.ravel() for one in np.meshgrid(np.linspace(0.1, 0.5, 9), np.geomspace(1e5, 2e6, 14)))
    if feasible:
        replay, tokens = np.append(replay, found.replay), np.append(tokens, found.tokens)
    points = pd.DataFrame({"n_params": 124672.0, "ptpp": 279.0, "replay": replay, "tokens": tokens})
    target, source = (np.exp(fit.log_quantiles(points, [0.9])[0]) for fit in pilot)
    forgotten = source / found.base_source_loss - 1
    kept = (forgotten <= forgetting + 1e-4) & (target <= loss + 1e-4)
    assert found.feasible == feasible == kept.any()
    if feasible:
        assert tokens[kept].min() == found.tokens
    else:
        assert found.best_reachable["forgetting"] == pytest.approx(forgotten.min(), abs=1e-3)
        assert found.best_reachable["forgetting"] > forgetting


def test_fits_from_files(pilot, tmp_path):
    files = [fit.save(tmp_path / f"{fit.on}.json") for fit in pilot]
    options = {"n_params": 124672, "ptpp": 279, "max_forgetting": "21%", "max_target_loss": 1.8}
    read = cl.plan.min_tokens(files[0], str(files[1]), **options)
    assert read == cl.plan.min_tokens(*map(cl.load_fit, files), **options)
    assert read.tokens == pytest.approx(cl.plan.min_tokens(*pilot, **options).tokens, rel=1e-6)


def test_base_loss_that_contradicts_the_runs(pilot):
    options = {"n_params": 124672, "ptpp": 279, "max_forgetting": "21%", "max_target_loss": 1.8, "interval": None}
    given = cl.plan.min_tokens(*pilot, **options, base_source_loss=1.9)
    assert "base-loss-differs" in [finding.code for finding in given.findings]
    same = cl.plan.min_tokens(*pilot, **options, base_source_loss=1.7293)
    assert "base-loss-differs" not in [finding.code for finding in same.findings]


def test_real_base_law(pilot):
    found = cl.plan.min_tokens(
        *pilot, n_params=124672, ptpp=279, max_forgetting="18%", max_target_loss=1.75, reference="base-law"
    )
    assert found.base_source_loss == pytest.approx(1.8, abs=0.1)
    assert "1.7293" in next(f.message for f in found.findings if f.code == "reference-base-law")
