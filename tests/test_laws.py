"""Golden values, claims and limits of every law."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from independent import FORMULAS, TRUTHS

from cptlaw.errors import DataError, UsageError
from cptlaw.laws import LAWS, card, law
from cptlaw.laws.base import Law, Shape
from cptlaw.testing import NonConformingLawError, check_law, random_params, random_rows

# laws.md 4.10: N = 1.8, D = 10, r = 0.2 (own share); 3.11: N = 8.1, D = 72, r = 0.34, P = 279. Billions.
DCPT = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
DCPT |= {"b": 2.0, "c": 3.0, "sigma": 0.15}
PTPP = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.02, "gamma": 0.4, "F": 0.9}
PTPP |= {"eta": 0.5, "lambda": 0.6, "zeta": 0.7}
GOLDEN = {
    "dcpt-l1": 2.46988445812,
    "dcpt-l2": 2.37406600806,
    "dcpt-l3": 2.29414952424,
    "dcpt-l4": 2.39739471533,
    "dcpt-l5": 2.40610620278,
    "dcpt-l5:sigma=rate": 2.36900808146,
    "dcpt-l6": 2.51427015247,
    "dcpt-l7": 2.31131956096,
    "ptpp-floor": 1.69538196592,
    "ptpp-gate": 1.76747427599,
    "ptpp-gated-floor": 1.82135586659,
    "ptpp-blind": 1.64150037531,
}
SPECS = [*LAWS, "dcpt-l5:sigma=rate", "dcpt-l3:monotone=paper", "dcpt-l4:monotone=paper", "dcpt-l6:monotone=paper"]
SPECS += ["dcpt-l7:monotone=paper:min_tokens=500M", "ptpp-gated-floor:ratio_of=own", "ptpp-gate:lambda_upper=none"]
SPECS += ["ptpp-gate:unit_tokens=1e6", "ptpp-floor:shifted=true", "ptpp-gated-floor:shifted=true"]


def one_row(**values):
    return pd.DataFrame({name: [value] for name, value in values.items()})


def golden_row(spec):
    if spec.startswith("ptpp"):
        return one_row(n_params=8.1e9, tokens=72e9, replay=0.34, ptpp=279.0)
    return one_row(n_params=1.8e9, tokens=10e9, replay=0.8)  # a target: own share 0.2


@pytest.mark.parametrize(("spec", "expected"), GOLDEN.items())
def test_golden_value(spec, expected):
    chosen = law(spec)
    source = PTPP if spec.startswith("ptpp") else DCPT
    params = {name: source[name] for name in chosen.parameters}
    assert chosen.predict(params, golden_row(spec))[0] == pytest.approx(expected, rel=5e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_conforms(spec):
    check_law(law(spec))


@pytest.mark.parametrize("spec", FORMULAS)
def test_agrees_with_plain_formula(spec):
    chosen = law(spec)
    frame = random_rows(chosen, np.random.default_rng(3)).assign(ptpp=50.0, replay=np.linspace(0.05, 0.95, 40))
    inputs = (
        frame["n_params"].to_numpy() / chosen.units["n_params"],
        frame["tokens"].to_numpy() / chosen.units["tokens"],
        1 - frame["replay"].to_numpy() if chosen.ratio_of == "own" else frame["replay"].to_numpy(),
        frame["ptpp"].to_numpy(),
    )
    expected = FORMULAS[spec](TRUTHS[spec], *inputs)
    assert chosen.predict(TRUTHS[spec], frame) == pytest.approx(expected, rel=1e-12)


def test_derivatives_of_the_dcpt_law():
    chosen = law("dcpt-l3")
    params = {name: DCPT[name] for name in chosen.parameters}
    partials = chosen.partials(params, golden_row("dcpt"), ("tokens", "replay"))
    # Published for the own share r = 1 - replay and tokens in billions.
    assert -partials.slopes[1][0] == pytest.approx(-0.143480572475, rel=1e-10)
    assert -partials.curves[0, 1][0] * 1e9 == pytest.approx(-0.00482429211749, rel=1e-10)


def test_lower_bound_of_c():
    bound = law("dcpt-l3").lower_bound_of_c(SimpleNamespace(**DCPT)) * DCPT["B"]
    assert bound == pytest.approx(2.20719934976, rel=1e-10)


def test_ratio_is_the_share_of_the_corpus_that_each_law_means():
    frame = pd.DataFrame({"eval": ["source", "target"], "n_params": 1e9, "tokens": 1e9, "replay": 0.25, "ptpp": 15.0})
    assert law("dcpt-l3").bind(frame).r.value.tolist() == [0.25, 0.75]
    assert law("ptpp-floor").bind(frame).r.value.tolist() == [0.25, 0.25]
    assert law("ptpp-floor:ratio_of=own").bind(frame).r.value.tolist() == [0.25, 0.75]
    assert law("dcpt-l3").bind(frame, "source").r.value.tolist() == [0.25, 0.25]
    with pytest.raises(UsageError, match="--source-eval"):
        law("dcpt-l3").bind(frame.assign(eval="c4"))


def test_ratio_of_own_gives_the_target_law_the_right_sign():
    params = {name: PTPP[name] for name in law("ptpp-floor").parameters}
    rows = golden_row("ptpp")
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


@pytest.mark.parametrize("spec", ["dcpt-l3", "dcpt-l4", "dcpt-l6", "dcpt-l7"])
def test_paper_constraint_makes_the_loss_fall_with_the_own_share(spec):
    rng = np.random.default_rng(0)
    chosen = law(spec, monotone="paper")
    shares = np.linspace(0.01, 1.0, 60)
    for _ in range(200):
        params = random_params(chosen, rng)
        rows = pd.DataFrame({"n_params": 1e9, "tokens": 0.1311e9, "replay": 1 - shares})
        assert np.all(np.diff(chosen.predict(params, rows)) <= 1e-9)


def test_paper_constraint_reports_the_published_c():
    chosen = law("dcpt-l3", monotone="paper")
    inner = {name: DCPT[name] for name in chosen.parameters}
    reported = chosen.published(inner)
    assert reported["C"] == pytest.approx(DCPT["C"] + 2.20719934976, rel=1e-9)
    assert chosen.fitted(reported) == pytest.approx(inner)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: law("ptpp-gated-flor"), "Did you mean 'ptpp-gated-floor'"),
        (lambda: law("dcpt-l3", monotonic="soft"), "monotone"),
        (lambda: law("dcpt-l3:monotone=sof"), "Did you mean 'soft'"),
        (lambda: law("dcpt-l3:monotone"), "key=value"),
        (lambda: law("kaplan", unit=3), "has no options"),
        (lambda: law("ptpp-gate", unit_tokens=0), "positive"),
        (lambda: law("dcpt-l3").predict({"E": 1.0}, golden_row("dcpt")), "lacks a value"),
        (lambda: law("chinchilla").predict({"Alpha": 1.0}, golden_row("dcpt")), "alpha"),
        (
            lambda: law("ptpp-floor").check_params({**dict.fromkeys(law("ptpp-floor").parameters, 1.0), "eps": 0.1}),
            "eps",
        ),
    ],
)
def test_bad_usage(call, words):
    with pytest.raises(UsageError, match=words):
        call()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (one_row(n_params=1e9, tokens=1e9), "'replay'"),
        (one_row(n_params=1e9, tokens=1e9, replay=34.0), "34%"),
        (one_row(n_params=1e9, tokens=np.nan, replay=0.3), "tokens in every row"),
        (one_row(n_params=-1.0, tokens=1e9, replay=0.3), "row 0 has -1"),
    ],
)
def test_bad_rows(frame, words):
    with pytest.raises(DataError, match=words):
        law("dcpt-l3").predict({name: DCPT[name] for name in law("dcpt-l3").parameters}, frame)


def test_replay_zero_and_one_are_exact():
    chosen = law("dcpt-l3")
    params = {name: DCPT[name] for name in chosen.parameters}
    rows = pd.DataFrame({"n_params": 1e9, "tokens": [1e9, 1e12], "replay": 1.0})  # own share 0
    assert chosen.predict(params, rows) == pytest.approx(np.full(2, 1.5 + 0.7 + 0.1 / 0.1**0.5), rel=1e-12)


def test_every_law_has_a_card():
    for name in LAWS:
        text = card(law(name))
        assert law(name).equation in text
        assert law(name).source in text
        assert repr(law(name)).startswith("<law ")


class Wrong(Law):
    """A law with a false claim, for the conformance suite to find."""

    name, equation, source = "wrong", "L = E + A N^alpha", "nowhere"
    inputs = ("n_params",)
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A")
    shapes = {"alpha": Shape(0.1, 1.0)}
    decreasing = ("n_params",)
    vanishing = {"n_params": ("A",)}
    diverges_at_zero = ("n_params",)

    def terms(self, x, p):
        return 1.0, x.N**p.alpha


def test_conformance_suite_finds_false_claims():
    with pytest.raises(NonConformingLawError) as caught:
        check_law(Wrong())
    for words in ("rises with n_params", "does not vanish", "does not diverge"):
        assert words in str(caught.value)


class Drifting(Wrong):
    """A law whose derivative is cut off from its value."""

    decreasing, vanishing, diverges_at_zero = (), {}, ()

    def terms(self, x, p):
        alpha = p.alpha.value if hasattr(p.alpha, "value") else p.alpha
        return 1.0, x.N**alpha


def test_conformance_suite_finds_wrong_derivatives():
    with pytest.raises(NonConformingLawError, match="dL/dalpha is wrong"):
        check_law(Drifting())
