"""Whatever is asked, a plan answers or says what is wrong: no other exception, and no number that is not finite."""

import json
import math

import numpy as np
import pytest
from any_losses import draw
from planning_fits import DCPT_SOURCE, DCPT_TARGET, FORM_1, FORM_3, SOURCE_1, made_fit

import cptlaw as cl


def noisy(spec, params, role, seed):
    made = made_fit(spec, params, role, noise=0.005, seed=seed)
    return cl.fit(spec, made.data.assign(eval=role), on=role, starts=4, restraint="none")


@pytest.fixture(scope="module")
def pairs():
    """Fits with and without an interval, of laws that fall, that have barriers, and that are no law at all."""
    return [
        (noisy("ptpp-floor", FORM_1, "target", 1), noisy("ptpp-floor", SOURCE_1, "source", 2)),
        (made_fit("ptpp-gated-floor", FORM_3, "target"), made_fit("ptpp-floor", SOURCE_1, "source")),
        (made_fit("dcpt-l3", DCPT_TARGET, "target"), made_fit("dcpt-l3", DCPT_SOURCE, "source")),
        draw(np.random.default_rng(5), "rises first"),
        (
            cl.given_fit("mixing", {"c": 1.6, "k": 0.05, "t": 2.0}, "target"),
            cl.given_fit("mixing", {"c": 1.9, "k": 0.2, "t": -3.0}, "source"),
        ),
    ]


def amount(rng, low, high):
    """Return a number over many decades, now and then as text, and now and then one that nobody means."""
    if rng.random() < 0.08:
        return rng.choice(["0", "-1", "5e-324", "1e300", "nan", "much", ""]).item()
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return f"{value:.4g}" if rng.random() < 0.3 else value


def scenario(rng, plan):
    share = lambda: rng.choice([0, 0.05, 0.1, 0.3, 0.5, 0.9, 1, 1.5, "30%"]).item()  # noqa: E731
    given = {"ptpp": amount(rng, 1, 1e4), "interval": rng.choice([0.9, 0.5]) if rng.random() < 0.4 else None}
    if plan != "allocate":
        given |= {"n_params": amount(rng, 1e5, 1e13), "base_source_loss": amount(rng, 0.5, 20)}
        given["forgetting"] = rng.choice(["relative", "absolute"]).item()
        if rng.random() < 0.3:
            given |= {"min_replay": share(), "max_replay": share()}
        if rng.random() < 0.2:
            given["base_source_loss"] = None
            given["reference"] = rng.choice(["measured", "law", "asymptote", "min-tokens", "base-law"]).item()
    if plan in ("allocate", "pareto"):
        given["budget"] = amount(rng, 1e8, 1e30)
    if plan == "allocate":
        given["replay"] = share()
    if plan in ("min_tokens", "trade_off", "limited_data"):
        given |= {"max_forgetting": float(rng.normal(0.05, 0.2)), "max_source_loss": amount(rng, 1.5, 4)}
        given = {name: value for name, value in given.items() if not name.startswith("max_") or rng.random() < 0.8}
        if rng.random() < 0.15:
            given["risk"] = rng.choice([0.3, 0.5, 0.8, 0.99]).item()
    if plan == "trade_off":
        given["tokens"] = amount(rng, 1e5, 1e16)
    if plan == "limited_data":
        given["target_tokens"] = amount(rng, 1e5, 1e16)
    if plan == "min_tokens":
        given |= {"max_target_loss": amount(rng, 1.2, 4)}
        for name in ("max_tokens", "unique_target_tokens"):
            if rng.random() < 0.25:
                given[name] = amount(rng, 1e5, 1e16)
        given["repetition"] = rng.choice(["forbid", "discount"]).item()
    return given


def numbers(value, path=""):
    """Yield every number of a document with where it stands."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from numbers(item, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from numbers(item, f"{path}[{i}]")
    elif isinstance(value, float):
        yield path, value


@pytest.mark.parametrize("plan", ["min_tokens", "trade_off", "limited_data", "pareto", "allocate"])
def test_every_plan_of_any_scenario_answers_or_says_what_is_wrong(pairs, plan):
    rng = np.random.default_rng(len(plan))
    answered = infeasible = 0
    for i in range(60):
        target, source = pairs[i % len(pairs)]
        fits = (target,) if plan == "allocate" else (target, source)
        given = scenario(rng, plan)
        try:
            found = getattr(cl.plan, plan)(*fits, **given)
        except cl.CptlawError:
            continue
        answered += 1
        feasible = getattr(found, "feasible", True)
        infeasible += not feasible
        document = found.to_dict()
        json.dumps(document, allow_nan=False)
        assert all(math.isfinite(value) for _, value in numbers(document)), given
        assert found.summary(verbose=True)
        assert found._repr_html_()
        if not feasible:
            assert document["blocking"]
        for loss in ("target_loss", "source_loss"):  # an end that is open is told of
            ends = document.get(f"{loss}_lo"), document.get(f"{loss}_hi")
            if given["interval"] is not None and document.get(loss) is not None and None in ends:
                codes = {finding["code"] for finding in document["findings"]}
                assert codes & {"unbounded", "no-interval", "single-level"}, (given, codes)
    assert answered >= 10
    assert infeasible > 0 or plan in ("pareto", "allocate")


def test_intervals_that_are_open_at_one_end_are_printed(pairs):
    """What crashed: an upper end that the data does not bound."""
    runs = cl.examples.load("en-fr-pilot")
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    target, source = (
        cl.fit("ptpp-floor", runs, on=on, where=where, starts=8, restraint="none") for on in ("target", "source")
    )
    model = {"n_params": "125K", "ptpp": 279, "base_source_loss": 3.5}
    assert "target loss" in cl.plan.limited_data(target, source, **model, target_tokens="1M").summary()
    far = cl.plan.trade_off(target, source, **{**model, "n_params": 1e13}, tokens="1M", max_forgetting="500%")
    assert "blocking" in far.summary() or "target loss" in far.summary()
