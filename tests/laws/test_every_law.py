"""What holds for every law: golden values, claims and limits, options, and what it says of wrong input."""

import numpy as np
import pandas as pd
import pytest
from cases import cases, own_inputs, specs

from cptlaw.errors import DataError, UsageError
from cptlaw.laws import LAWS, card, law
from cptlaw.laws.base import Law, Shape
from cptlaw.laws.inputs import Columns
from cptlaw.testing import NonConformingLawError, check_law, random_rows

ROW = pd.DataFrame({"n_params": [1.8e9], "tokens": [10e9], "replay": [0.8]})
PARAMS = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eta": 1.3, "eps": 0.1}


def one_row(**values):
    return pd.DataFrame({name: [value] for name, value in values.items()})


@pytest.mark.parametrize("case", [case for case in cases() if case.golden], ids=str)
def test_golden_value(case):
    params, row, expected = case.golden
    chosen = law(case.spec)
    known = {name: params[name] for name in chosen.parameters}
    assert chosen.predict(known, pd.DataFrame([row]))[0] == pytest.approx(expected, rel=5e-12)


@pytest.mark.parametrize("spec", specs())
def test_conforms(spec):
    check_law(law(spec))


@pytest.mark.parametrize("spec", specs())
def test_columns_are_read_as_their_table_is(spec):
    chosen = law(spec)
    own_reading = any({"bind", "_column", "inputs_of"} & vars(one).keys() for one in chosen.__class__.__mro__[:-4])
    assert chosen.takes_columns or own_reading
    frame = random_rows(chosen, np.random.default_rng(5)).assign(ptpp=50.0, replay=0.25)
    if chosen.takes_columns:
        params = dict.fromkeys(chosen.parameters, 0.5)
        assert np.array_equal(
            chosen.predict(params, Columns.of(frame), "target"), chosen.predict(params, frame, "target")
        )


@pytest.mark.parametrize("case", cases(), ids=str)
def test_agrees_with_plain_formula(case):
    chosen = law(case.spec)
    frame = random_rows(chosen, np.random.default_rng(3)).assign(ptpp=50.0, replay=np.linspace(0.05, 0.95, 40))
    expected = case.formula(case.truth, *own_inputs(chosen, frame))
    assert chosen.predict(case.truth, frame) == pytest.approx(expected, rel=1e-12)


def test_ratio_is_the_share_of_the_corpus_that_each_law_means():
    frame = pd.DataFrame({"eval": ["source", "target"], "n_params": 1e9, "tokens": 1e9, "replay": 0.25, "ptpp": 15.0})
    assert law("dcpt-l3").bind(frame).r.value.tolist() == [0.25, 0.75]
    assert law("ptpp-floor").bind(frame).r.value.tolist() == [0.25, 0.25]
    assert law("ptpp-floor:ratio_of=own").bind(frame).r.value.tolist() == [0.25, 0.75]
    assert law("dcpt-l3").bind(frame, "source").r.value.tolist() == [0.25, 0.25]
    with pytest.raises(UsageError, match="--source-eval"):
        law("dcpt-l3").bind(frame.assign(eval="c4"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: law("ptpp-gated-flor"), "Did you mean 'ptpp-gated-floor'"),
        (lambda: law("dcpt-l3", monotonic="soft"), "monotone"),
        (lambda: law("dcpt-l3:monotone=sof"), "Did you mean 'soft'"),
        (lambda: law("dcpt-l3:monotone"), "key=value"),
        (lambda: law("kaplan", unit=3), "has no options"),
        (lambda: law("kaplan:self=1"), "has no options"),
        (lambda: law("ptpp-gate", unit_tokens=0), "positive"),
        (lambda: law("dcpt-l3").predict({"E": 1.0}, ROW), "lacks a value"),
        (lambda: law("chinchilla").predict({"Alpha": 1.0}, ROW), "alpha"),
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
        law("dcpt-l3").predict({name: PARAMS[name] for name in law("dcpt-l3").parameters}, frame)


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
