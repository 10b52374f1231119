"""Token inversion: closed forms against bisection, for every law with tokens among its inputs."""

import numpy as np
import pandas as pd
import pytest
from cases import specs

from cptlaw.laws import law

SPECS = [spec for spec in specs() if not law(spec).on_base_models]
INPUTS = {"n_params", "tokens", "replay", "ptpp"}


def random_params(candidate, rng):
    params = {name: float(np.exp(rng.uniform(np.log(0.05), np.log(2.0)))) for name in candidate.amplitudes}
    for name, shape in candidate.shapes.items():
        low, high = (float(shape.to_axis(end)) for end in shape.start_range)
        params[name] = float(shape.from_axis(rng.uniform(low, high)))
    if candidate.name == "kaplan":  # whose ranges are wide enough for losses without meaning
        params |= {"alpha_N": rng.uniform(0.05, 0.1), "alpha_D": rng.uniform(0.05, 0.15)}
        params |= {"N_c": 10 ** rng.uniform(13, 14), "D_c": 10 ** rng.uniform(12.5, 14)}
    if candidate.units["tokens"] == 1.0 and "B" in candidate.amplitudes:
        params["B"] *= 100.0 ** (10.0 * min(params["beta"], 0.4))
    return candidate.published(params)


def rows(rng, count=30):
    return pd.DataFrame(
        {
            "n_params": np.exp(rng.uniform(np.log(1e8), np.log(1e10), count)),
            "replay": rng.uniform(0.05, 0.95, count),
            "ptpp": np.exp(rng.uniform(np.log(10), np.log(500), count)),
        }
    )


def bisect(candidate, params, goal, frame, role):
    """Slow and independent: halve log tokens until nothing moves."""
    low, high = np.full(len(frame), np.log(1e-60)), np.full(len(frame), np.log(1e60))
    for _ in range(60):  # log 1e120 over 2^60 is less than a rounding
        middle = 0.5 * (low + high)
        above = candidate.predict(params, frame.assign(tokens=np.exp(middle)), role) > goal
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high)


def invertible(spec):
    """Of laws that claim to fall with tokens: one that may rise has no one answer."""
    return set(law(spec).inputs) <= INPUTS and "tokens" in law(spec).decreasing


@pytest.mark.parametrize("spec", [spec for spec in SPECS if invertible(spec)])
@pytest.mark.parametrize("role", ["source", "target"])
def test_inverse_agrees_with_bisection(spec, role):
    candidate, rng = law(spec), np.random.default_rng(3)
    frame = rows(rng)
    for _ in range(8):
        params = random_params(candidate, rng)
        tokens = np.exp(rng.uniform(np.log(1e7), np.log(1e12), len(frame)))
        goal = candidate.predict(params, frame.assign(tokens=tokens), role)
        curve = candidate.token_curve(params, frame, role)
        # Where the curve is flat no inverse can be sharp: a rounding of the loss moves the tokens this much.
        slope = (goal - curve.loss(tokens * 1.0001)) / 1e-4
        blur = 1e-12 * goal / np.maximum(slope, 1e-300)
        sharp = blur < 1e-7
        assert sharp.any()
        found = candidate.tokens_for(params, goal, frame, role)
        np.testing.assert_allclose(found[sharp], tokens[sharp], rtol=1e-6)
        np.testing.assert_allclose(curve.loss(tokens), goal, rtol=1e-12)
        np.testing.assert_allclose(found[sharp], bisect(candidate, params, goal, frame, role)[sharp], rtol=1e-6)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if invertible(spec)])
def test_limit_and_unreachable(spec):
    candidate, rng = law(spec), np.random.default_rng(5)
    frame = rows(rng)
    params = random_params(candidate, rng)
    curve = candidate.token_curve(params, frame, "target")
    far = candidate.predict(params, frame.assign(tokens=1e290), "target")
    assert np.all(curve.limit <= far * (1 + 1e-12))
    assert np.all(np.isinf(curve.tokens(curve.limit * 0.999)))
    np.testing.assert_allclose(curve.loss(np.inf), curve.limit)
    assert np.all(curve.tokens(curve.limit * 1e9) < 1e9)


@pytest.mark.parametrize("spec", ["dcpt-l3", "dcpt-l3:monotone=paper", "dcpt-l2", "ptpp-gated-floor", "kaplan"])
def test_many_parameter_vectors_at_once(spec):
    candidate, rng = law(spec), np.random.default_rng(7)
    frame = rows(rng, 5)
    singles = [random_params(candidate, rng) for _ in range(4)]
    draws = np.array([[params[name] for name in candidate.parameters] for params in singles])
    goal = np.array([candidate.predict(params, frame.assign(tokens=5e9), "source") for params in singles])
    curve = candidate.token_curve(draws, frame, "source")
    assert curve.limit.shape == (4, 5)
    np.testing.assert_allclose(curve.tokens(goal), 5e9, rtol=1e-7)
    one_threshold = curve.tokens(3.0)
    for i, params in enumerate(singles):
        np.testing.assert_allclose(
            one_threshold[i], candidate.tokens_for(params, 3.0, frame, "source"), rtol=1e-9, atol=0
        )


def test_a_term_that_is_absent_needs_no_tokens():
    params = {"E": 1.5, "A": 0.7, "B": 0.4, "C": 0.1, "alpha": 0.3, "beta": 0.3, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
    # At replay 1 the share of the target corpus is 0, so dcpt-l3 does not depend on tokens at all.
    frame = pd.DataFrame({"n_params": [1.8e9], "replay": [1.0]})
    at = float(law("dcpt-l3").token_curve(params, frame, "target").limit[0])
    assert law("dcpt-l3").tokens_for(params, at, frame, "target")[0] == 0
    assert np.isinf(law("dcpt-l3").tokens_for(params, at - 1e-9, frame, "target")[0])
    flat = {"E": 1.5, "A": 0.7, "B": 0.4, "alpha": 0.3, "beta": 0.3, "sigma": 0.15}
    frozen = law("dcpt-l5").token_curve(flat, frame, "target")
    assert frozen.tokens(frozen.limit + 1e-9)[0] == 0
    assert np.isinf(frozen.tokens(frozen.limit - 1e-9)[0])


def test_shifted_law_is_reached_at_zero_tokens():
    candidate = law("ptpp-floor", shifted=True)
    params = random_params(candidate, np.random.default_rng(0))
    frame = pd.DataFrame({"n_params": [1e9], "replay": [0.5], "ptpp": [100.0]})
    start = float(candidate.predict(params, frame.assign(tokens=0.0), "source")[0])
    assert candidate.tokens_for(params, start * 1.01, frame, "source")[0] == 0
    assert candidate.tokens_for(params, start * (1 - 1e-6), frame, "source")[0] > 0


def test_base_law_is_chinchilla_on_pretraining_tokens():
    params = {"E": 1.7, "A": 0.4, "B": 0.9, "alpha": 0.34, "beta": 0.28}
    frame = pd.DataFrame({"n_params": [1e9, 8e9], "ptpp": [20.0, 279.0]})
    expected = 1.7 + 0.4 / np.array([1.0, 8.0]) ** 0.34 + 0.9 / np.array([20.0, 8 * 279.0]) ** 0.28
    np.testing.assert_allclose(law("ptpp-base").predict(params, frame), expected, rtol=1e-14)
    assert law("ptpp-base").on_base_models
    assert law("ptpp-base").tokens_for(params, 99.0, frame).tolist() == [0.0, 0.0]
