"""Fewest tokens: against brute force, bound in every way, infeasible in every way, and on real runs."""

import json

import numpy as np
import pandas as pd
import pytest
from facts import refused
from planning_fits import (
    DCPT_SOURCE,
    DCPT_TARGET,
    FORM_1,
    FORM_3,
    MODEL,
    SOURCE_1,
    brute_force,
    check_against_brute_force,
    made_fit,
)

import cptlaw as cl

BASE = 1.9


OPTIONS = {"max_forgetting": "2%", "max_target_loss": 1.8, "base_source_loss": BASE}


def plan(forms, **options):
    return cl.plan.min_tokens(*forms, **{"interval": None, **MODEL, **options})


def test_crossing_of_two_limits(forms):
    found = plan(forms, max_forgetting="2%", max_target_loss=1.8, base_source_loss=BASE)
    assert found.binding == ("max-forgetting", "max-target-loss")
    assert 0.1 < found.replay < 0.5
    assert found.forgetting == pytest.approx(0.02, abs=1e-7)
    assert found.target_loss == pytest.approx(1.8, abs=1e-6)
    assert found.atpp == pytest.approx(found.tokens / 8.1e9)
    assert found.flops == pytest.approx(6 * 8.1e9 * found.tokens)
    assert found.source_tokens + found.target_tokens == pytest.approx(found.tokens)
    check_against_brute_force(found, forms, [(forms[0], 1.8), (forms[1], BASE * 1.02)])


def test_crossing_is_a_root_of_both_laws(forms):
    """The tokens of each limit are a root of its law, and the crossing is a root of their ratio."""
    from scipy.optimize import brentq

    target, source = forms

    def tokens(fit, loss, share):
        def over(log_tokens):
            row = pd.DataFrame({**MODEL, "replay": [share], "tokens": [np.exp(log_tokens)]})
            return np.log(fit.law.predict(fit.params, row, fit.role)[0] / loss)

        return np.exp(brentq(over, np.log(1e6), np.log(1e15), xtol=1e-13))

    found = plan(forms, max_forgetting="2%", max_target_loss=1.8, base_source_loss=BASE)
    share = brentq(
        lambda r: np.log(tokens(target, 1.8, r) / tokens(source, BASE * 1.02, r)),
        found.replay - 1e-3,
        found.replay + 1e-3,
        xtol=1e-14,
    )
    assert found.tokens == pytest.approx(tokens(target, 1.8, share), rel=1e-6)
    assert found.replay == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("limit", [{"max_target_loss": 1.73}, {"max_target_loss": 1.69}])
def test_golden_parameters_bound_by_the_target_alone(limit):
    forms = made_fit("ptpp-gated-floor", FORM_3, "target"), made_fit("ptpp-floor", FORM_1, "source")
    found = plan(forms, **limit)
    assert found.binding == ("max-target-loss",)
    check_against_brute_force(found, forms, [(forms[0], limit["max_target_loss"])])


def test_bound_by_forgetting_alone(forms):
    found = plan(forms, max_forgetting="1%", max_target_loss=2.5, base_source_loss=BASE)
    assert found.binding == ("max-forgetting",)
    check_against_brute_force(found, forms, [(forms[1], BASE * 1.01)])


@pytest.mark.parametrize("laws", [("dcpt-l3", "dcpt-l3"), ("dcpt-l3", "ptpp-floor")])
def test_other_laws(laws):
    params = {"dcpt-l3": (DCPT_TARGET, DCPT_SOURCE), "ptpp-floor": (FORM_1, SOURCE_1)}
    forms = tuple(
        made_fit(spec, params[spec][i], role)
        for i, (spec, role) in enumerate(zip(laws, ("target", "source"), strict=True))
    )
    reach = [
        float(fit.law.predict(fit.params, pd.DataFrame({**MODEL, "replay": [0.3], "tokens": [20e9]}), fit.role)[0])
        for fit in forms
    ]
    found = plan(forms, max_target_loss=reach[0], max_source_loss=reach[1])
    check_against_brute_force(found, forms, [(forms[0], reach[0]), (forms[1], reach[1])])


def test_law_without_closed_form():
    target = made_fit(
        "dcpt-l2",
        {"E": 1.0, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 0.8, "eps": 0.1},
        "target",
    )
    source = made_fit("dcpt-l3", DCPT_SOURCE, "source")
    found = plan((target, source), max_target_loss=1.75, max_source_loss=2.25)
    check_against_brute_force(found, (target, source), [(target, 1.75), (source, 2.25)])


@pytest.mark.parametrize("seed", range(6))
def test_random_laws_and_limits(seed):
    """Over random laws the plan keeps its limits, beats a fine grid, and misses no feasible mix."""
    rng = np.random.default_rng(seed)
    specs = ("dcpt-l1", "dcpt-l3", "dcpt-l4", "dcpt-l7", "ptpp-floor", "ptpp-gated-floor:ratio_of=own")
    for _ in range(4):
        forms = []
        for role in ("target", "source"):
            candidate = cl.law(specs[rng.integers(len(specs))])
            params = {name: float(np.exp(rng.uniform(np.log(0.05), np.log(2.0)))) for name in candidate.amplitudes}
            for name, shape in candidate.shapes.items():
                low, high = (float(shape.to_axis(end)) for end in shape.start_range)
                params[name] = float(shape.from_axis(rng.uniform(low, high)))
            forms.append(made_fit(candidate.spec, params, role))
        at = pd.DataFrame({**MODEL, "replay": [rng.uniform(0.1, 0.5)], "tokens": [np.exp(rng.uniform(21, 27))]})
        highest = [float(fit.law.predict(fit.params, at, fit.role)[0] * np.exp(rng.normal(0, 0.02))) for fit in forms]
        found = plan(forms, max_target_loss=highest[0], max_source_loss=highest[1])
        _, tokens = brute_force(*forms, list(zip(forms, highest, strict=True)), 0.1, 0.5, 2e9)
        assert found.feasible or not np.isfinite(tokens)
        if found.feasible:
            assert found.tokens <= tokens * (1 + 1e-6)
            mix = pd.DataFrame({**MODEL, "replay": [found.replay], "tokens": [found.tokens]})
            for fit, limit in zip(forms, highest, strict=True):
                assert fit.law.predict(fit.params, mix, fit.role)[0] <= limit * (1 + 1e-9)


def test_law_without_replay():
    params = {"E": 1.7, "A": 400.0, "alpha": 0.34, "B": 400.0, "beta": 0.28}
    target = made_fit("chinchilla", params, "target")
    found = cl.plan.min_tokens(target, n_params=8.1e9, max_target_loss=2.5, interval=None)
    assert found.feasible
    assert found.replay is None
    assert found.target_tokens is None
    assert found.target_loss == pytest.approx(2.5)
    assert "replay" not in found.summary()


def test_quantities_as_text(forms):
    text = plan(forms, n_params="8.1B", ptpp="279", max_forgetting="2%", max_target_loss="1.8", base_source_loss="1.9")
    number = plan(forms, max_forgetting=0.02, max_target_loss=1.8, base_source_loss=1.9)
    assert text == number


def test_absolute_and_relative_forgetting_agree(forms):
    relative = plan(forms, max_forgetting=0.02, max_target_loss=1.8, base_source_loss=BASE)
    absolute = plan(
        forms, max_forgetting=0.02 * BASE, max_target_loss=1.8, base_source_loss=BASE, forgetting="absolute"
    )
    as_loss = plan(forms, max_source_loss=1.02 * BASE, max_target_loss=1.8)
    assert absolute.tokens == pytest.approx(relative.tokens, rel=1e-6)
    assert as_loss.tokens == pytest.approx(relative.tokens, rel=1e-6)
    assert absolute.forgetting == pytest.approx(0.02 * BASE, abs=1e-6)
    assert absolute.forgetting_measure == "absolute"
    assert as_loss.binding == ("max-source-loss", "max-target-loss")
    assert as_loss.forgetting is None
    assert "no-reference" in [finding.code for finding in as_loss.findings]


def test_smallest_fitted_tokens(forms):
    found = plan(forms, max_target_loss=3.0, max_forgetting="20%", base_source_loss=BASE)
    assert found.tokens == pytest.approx(2e9)
    assert found.binding == ("smallest-fitted-tokens",)
    assert "smallest-fitted-tokens" in [finding.code for finding in found.findings]


def test_replay_below_the_fitted_range_warns(forms):
    found = plan(forms, max_target_loss=1.8, min_replay=0.01, max_replay=0.05)
    assert found.replay <= 0.05
    warned = [finding for finding in found.findings if finding.code == "extrapolation" and "replay" in finding.message]
    assert warned
    assert warned[0].severity == "warning"
    assert "max-replay" in found.binding or "min-replay" in found.binding or 0.01 < found.replay < 0.05


def test_edge_of_the_fitted_range_is_said():
    source = made_fit("ptpp-floor", SOURCE_1, "source")
    target = made_fit("ptpp-gated-floor", FORM_3, "target")
    found = plan((target, source), max_forgetting="0.9%", base_source_loss=BASE)
    assert found.replay == pytest.approx(0.5)
    assert "replay-at-edge" in [finding.code for finding in found.findings]


def test_target_that_falls_with_replay_is_said():
    rising = FORM_3 | {"B": 0.1, "C": 0.4}
    target = made_fit("ptpp-gated-floor", rising, "target")
    found = cl.plan.min_tokens(target, **MODEL, max_target_loss=2.2, interval=None)
    assert "target-falls-with-replay" in [finding.code for finding in found.findings]


# -- bad usage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a limit"),
        ({"max_target_loss": 0}, "max_target_loss .* is not positive"),
        ({"max_target_loss": "low"}, "'low' is not a number"),
        ({"max_forgetting": "2%"}, "none was measured at n_params 8.1B and ptpp 279"),
        ({"max_forgetting": "2%", "ptpp": None}, "reads ptpp"),
        ({"max_forgetting": "2%", "base_source_loss": 2, "reference": "asymptote"}, "Leave one of the two out"),
        ({"max_forgetting": "2%", "reference": "base-law"}, "0 base models"),
        ({"max_forgetting": "2%", "reference": "guess"}, "guess.* is unknown"),
        ({"max_target_loss": 1.8, "risk": 90}, "meant as 90%"),
        ({"max_target_loss": 1.8, "interval": 1.0}, "no probability"),
        ({"max_target_loss": 1.8, "min_replay": 0.6, "max_replay": 0.2}, "nothing lies between"),
        ({"max_target_loss": 1.8, "min_replay": 34}, "meant as 34%"),
        ({"max_target_loss": 1.8, "n_params": -1}, "n_params .* is not positive"),
        ({"max_target_loss": 1.8, "forgetting": "relativ"}, "Did you mean 'relative'"),
        ({"max_target_loss": 1.8, "repetition": "no"}, "forbid, discount"),
        ({"max_target_loss": 1.8, "unique_target_tokens": 0}, "unique_target_tokens"),
    ],
)
def test_bad_usage(forms, options, message):
    with pytest.raises(cl.UsageError, match=message):
        plan(forms, **options)


def test_bad_fits(forms):
    target, source = forms
    with pytest.raises(cl.UsageError, match="exchanged"):
        plan((source, target), max_target_loss=1.8)
    with pytest.raises(cl.UsageError, match="needs source="):
        cl.plan.min_tokens(target, **MODEL, max_source_loss=1.8)
    with pytest.raises(cl.UsageError, match="needs source="):
        cl.plan.min_tokens(target, **MODEL, max_forgetting="2%")
    with pytest.raises(cl.UsageError, match="expected a fit"):
        cl.plan.min_tokens(3, **MODEL, max_target_loss=1.8)
    with pytest.raises(cl.DataError, match="no such file"):
        cl.plan.min_tokens("nowhere.json", **MODEL, max_target_loss=1.8)
    with pytest.raises(cl.DataError, match="non_embedding"):
        cl.plan.min_tokens(
            made_fit("ptpp-floor", FORM_1, "target", kind="total"),
            made_fit("ptpp-floor", SOURCE_1, "source", kind="non_embedding"),
            **MODEL,
            max_target_loss=1.8,
        )
    with pytest.raises(cl.UsageError, match="share no replay"):
        plan((made_fit("ptpp-floor", FORM_1, "target", replay=(0.01, 0.02)), source), max_target_loss=1.8)
    with refused(cl.UsageError, "base_law", "ptpp-base"):
        plan(forms, max_forgetting="2%", reference="base-law", base_law=source)


# -- the answer as a value ---------------------------------------------------------------------------------------------


def test_json_round_trip(forms):
    for found in (
        plan(forms, **OPTIONS),
        plan(forms, max_target_loss=1.0),
        plan(forms, **OPTIONS, unique_target_tokens="3B", repetition="discount"),
    ):
        document = found.to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        for key in ("feasible", "replay", "tokens", "atpp", "flops", "target_loss", "source_loss", "forgetting"):
            assert key in document
        assert isinstance(document["binding"], list)
        for loss in ("target_loss", "source_loss", "forgetting"):
            assert {f"{loss}_lo", f"{loss}_hi"} <= set(document)
    assert document["blocking"] is None
    lost = plan(forms, max_target_loss=1.0).to_dict()
    assert set(lost["best_reachable"]) == {"target_loss", "forgetting"}
    assert lost["blocking"] == "max-target-loss"


def test_prints(forms):
    found = plan(forms, **OPTIONS)
    assert repr(found) == found.summary()
    assert "8.1B" in found.summary()
    assert "<table>" in found._repr_html_()
    with pytest.raises(AttributeError):
        found.tokens = 3


# -- real runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pilot():
    runs = cl.examples.load("en-fr-pilot")
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    return tuple(cl.fit("ptpp-floor", runs, on=on, where=where, restraint="none") for on in ("target", "source"))


def test_real_runs(pilot):
    options = {"n_params": 124672, "ptpp": 279}
    found = cl.plan.min_tokens(*pilot, **options, max_forgetting="18%", max_target_loss=1.75)
    assert found.feasible
    assert found.base_source_loss == pytest.approx(1.7293)
    assert found.binding == ("max-forgetting", "max-target-loss")
    for name in ("target_loss", "source_loss", "forgetting"):
        assert getattr(found, f"{name}_lo") < getattr(found, name) < getattr(found, f"{name}_hi")
    assert cl.plan.min_tokens(*pilot, **options, max_forgetting="18%", max_target_loss=1.75) == found
    impossible = cl.plan.min_tokens(*pilot, **options, max_forgetting="2%", max_target_loss=1.75)
    assert impossible.blocking == "max-forgetting"
    assert 0.1 < impossible.best_reachable["forgetting"] < 0.18


def test_most_tokens(forms):
    options = {"max_forgetting": "2%", "max_target_loss": 1.7, "base_source_loss": BASE}
    free = plan(forms, **options)
    assert plan(forms, **options, max_tokens=free.tokens * 1.001).tokens == pytest.approx(free.tokens, rel=1e-6)
    short = plan(forms, **options, max_tokens=free.tokens * 0.9)
    assert not short.feasible
    assert "max-tokens" in short.blocking
    assert short.feasible_from["max-tokens"] == pytest.approx(free.tokens, rel=1e-6)
    assert short.best_reachable["target_loss"] > 1.7


def test_plans_that_exist_on_paper_only_say_so(forms):
    floor = plan(forms, max_target_loss=1.0).best_reachable["target_loss"]
    found = plan(forms, max_target_loss=floor * 1.001)
    assert found.feasible
    assert ("error", "out-of-reach") in {(finding.severity, finding.code) for finding in found.findings}
