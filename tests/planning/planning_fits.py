"""Fits with known parameters, without fitting, for the tests of planning."""

import itertools

import numpy as np
import pandas as pd
import pytest

from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.laws import law

# The golden parameters of spec 3.11, N and D in billions.
GOLDEN = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.02, "gamma": 0.4}
FORM_1 = GOLDEN | {"F": 0.9, "eta": 0.5}
FORM_3 = FORM_1 | {"lambda": 0.6, "zeta": 0.7}
# A source law whose loss falls with replay, so that it meets the target law inside the range of replay.
SOURCE_1 = FORM_1 | {"E": 1.3, "B": 0.25, "nu": 0.2, "C": 0.12, "gamma": 0.5}
DCPT_TARGET = {"E": 1.1, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
DCPT_SOURCE = DCPT_TARGET | {"E": 1.5, "C": 0.2}

MODEL = {"n_params": 8.1e9, "ptpp": 279.0}


def made_fit(
    spec,
    params,
    role,
    replay=(0.1, 0.25, 0.5, 1.0),
    tokens=(2e9, 200e9),
    base=None,
    noise=0.0,
    seed=0,
    kind=None,
):
    """Return a fit whose data are the law's own losses, with noise in logs, and whose parameters are the true ones."""
    chosen = law(spec)
    rng = np.random.default_rng(seed)
    levels = itertools.product((2.4e8, 5e8, 8.1e9), (15.0, 31.0, 279.0), replay, np.geomspace(*tokens, 4))
    data = pd.DataFrame(list(levels), columns=["n_params", "ptpp", "replay", "tokens"])
    data.insert(0, "run", [f"run-{i // 4}" for i in range(len(data))])
    params = chosen.check_params(params)
    data["loss"] = chosen.predict(params, data, role) * np.exp(noise * rng.normal(size=len(data)))
    problem = Problem(chosen, chosen.bind(data, role), data["loss"].to_numpy(), Restraint())
    return LawFit(
        law=chosen,
        on=role,
        role=role,
        params=params,
        objective=0.0,
        n_points=len(data),
        n_runs=data["run"].nunique(),
        status="converged",
        n_starts=1,
        n_agree=1,
        rank=len(params),
        n_free=len(params),
        findings=(),
        data=data[["run", *chosen.inputs, "loss"]],
        base=pd.DataFrame(columns=["n_params", "ptpp", "loss"]) if base is None else base,
        options=Options(chosen.delta),
        provenance={"n_params_kind": kind},
        optima=np.concatenate(problem.coordinates(params))[None],
    )


def brute_force(target, source, limits, low, high, floor, n_params=8.1e9, ptpp=279.0, cap=None):
    """Return the least tokens on a dense grid of replay, each found by bisection on the law's own `predict`.

    `limits` are pairs (fit, highest loss); `cap` is the number of unique target tokens.
    """
    shares = np.linspace(low, high, 4001)
    frame = pd.DataFrame({"n_params": n_params, "ptpp": ptpp, "replay": shares})
    need = np.full(len(shares), float(floor))
    for fit, highest in limits:
        bottom, top = np.full(len(shares), np.log(1e-3)), np.full(len(shares), np.log(1e60))
        top_loss = fit.law.predict(fit.params, frame.assign(tokens=np.exp(top)), fit.role)
        for _ in range(120):
            middle = 0.5 * (bottom + top)
            above = fit.law.predict(fit.params, frame.assign(tokens=np.exp(middle)), fit.role) > highest
            bottom, top = np.where(above, middle, bottom), np.where(above, top, middle)
        need = np.maximum(need, np.where(top_loss > highest, np.inf, np.exp(top)))
    if cap is not None:
        need = np.where((1 - shares) * need <= cap, need, np.inf)
    best = int(np.argmin(need))
    return shares[best], need[best]


def check_against_brute_force(found, forms, limits, low=0.1, high=0.5, floor=2e9, cap=None):
    share, tokens = brute_force(*forms, limits, low, high, floor, cap=cap)
    assert found.feasible
    # The grid's tokens are too many by what its spacing misses, never too few.
    assert found.tokens <= tokens * (1 + 1e-6)
    assert found.tokens == pytest.approx(tokens, rel=2e-3)
    assert found.replay == pytest.approx(share, abs=2 * (high - low) / 4000 + 1e-9)
    frame = pd.DataFrame({**MODEL, "replay": [found.replay], "tokens": [found.tokens]})
    for fit, highest in limits:
        assert fit.law.predict(fit.params, frame, fit.role)[0] <= highest * (1 + 1e-9)


FAR = 2e17  # tokens, a million times the most fitted ones: no plan looks farther


def far_loss(fit, shares):
    """Loss at each replay with all the tokens that a plan may look at."""
    frame = pd.DataFrame({**MODEL, "replay": shares, "tokens": FAR})
    return fit.law.predict(fit.params, frame, fit.role)


def lowest(fit, low=0.1, high=0.5, keep=None):
    """Lowest loss of a law that falls with tokens, where another such law keeps its limit."""
    shares = np.linspace(low, high, 200_001)
    losses = far_loss(fit, shares)
    if keep is not None:
        other, highest = keep
        losses = losses[far_loss(other, shares) <= highest]
    return float(losses.min())
