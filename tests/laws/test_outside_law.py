"""A law that is defined outside the package is first class: this file, a notebook or another package may bring one."""

import json
import re
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused
from scipy.special import expit

import cptlaw as cl
from cptlaw.errors import DataError, UsageError
from cptlaw.laws import EXPONENT, LAWS, Law, Option, Shape, card, law
from cptlaw.laws.calculus import Jet, Positive
from cptlaw.testing import check_law


class Halves(Law):
    """L = E + A/N^alpha + B (r+1)^nu/D^beta + C exp(r): made up here, for the test."""

    name = "test-halves"
    equation = "L = E + A/N^alpha + B (r+1)^nu/D^beta"
    source = "nowhere"
    inputs = ("n_params", "tokens", "replay")
    ratio_of = "own"
    units = {"n_params": 1e9, "tokens": 1e9}
    amplitudes = ("E", "A", "B")
    shapes = {"alpha": EXPONENT, "beta": EXPONENT, "nu": EXPONENT}
    decreasing = ("n_params", "tokens")
    vanishing = {"n_params": ("A",), "tokens": ("B",)}
    diverges_at_zero = ("n_params", "tokens")
    choices = {"side": Option("plus", ("plus", "minus"), "Whether more of a corpus helps or harms.")}

    def terms(self, x, p):
        power = p.nu if self.side == "plus" else -p.nu
        return 1.0, x.N**-p.alpha, (x.r + 1.0) ** power * x.D**-p.beta


TRUE = {"E": 1.5, "A": 0.5, "B": 0.6, "alpha": 0.4, "beta": 0.3, "nu": 0.5}


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    size, replay, tokens = np.meshgrid([0.1e9, 0.3e9, 1e9], [0.1, 0.25, 0.5], [0.5e9, 1e9, 2e9, 4e9, 8e9])
    rows = pd.DataFrame({"n_params": size.ravel(), "replay": replay.ravel(), "tokens": tokens.ravel()})
    rows["run"] = rows.groupby(["n_params", "replay"]).ngroup().astype(str)
    parts = []
    for on in ("source", "target"):
        loss = Halves(side="minus").predict(TRUE, rows.assign(eval=on)) * np.exp(0.002 * rng.standard_normal(len(rows)))
        parts.append(rows.assign(eval=on, loss=loss))
    base = rows.groupby("n_params", as_index=False).first().assign(tokens=0.0, eval="source", loss=2.0)
    base["run"] = "base-" + base["n_params"].astype(str)
    return cl.read_runs(pd.concat([*parts, base], ignore_index=True))


@pytest.fixture(scope="module")
def fits(runs):
    return {on: cl.fit(Halves(side="minus"), runs, on=on, starts=8, restraint="none") for on in ("source", "target")}


def test_it_conforms_and_is_listed():
    check_law(Halves())
    check_law(Halves(side="minus"))
    assert "test-halves" in LAWS
    assert next(iter(LAWS)) == "chinchilla"
    assert type(law("test-halves:side=minus")) is Halves
    assert "side=plus" in card(law("test-halves"))


@pytest.mark.dear("every verb, with a law that fits nothing that is known")
def test_it_goes_through_every_verb(runs, fits, tmp_path):
    fit = fits["target"]
    assert fit.params["E"] == pytest.approx(1.5, abs=0.05)
    path = fit.save(tmp_path / "target.json")
    again = cl.load_fit(path)
    assert again.law.side == "minus"
    point = "n_params=3B,tokens=20B,replay=30%"
    assert cl.forecast(again, point)["loss"][0] == cl.forecast(fit, point)["loss"][0]

    table = cl.compare(
        [Halves(), Halves(side="minus"), "dcpt-l1"], runs, on="target", cv="leave-one-out:n_params", starts=4
    )
    assert set(table["law"]) >= {"test-halves", "test-halves:side=minus", "dcpt-l1"}

    blind = cl.fit("dcpt-l1", runs, on="target", starts=8, restraint="none")
    both = cl.forecast([fit, blind], point)
    assert both["law"].tolist() == [fit.law.spec, "dcpt-l1"]
    assert (both["lo"] < both["loss"]).all()
    assert (both["loss"] < both["hi"]).all()

    assert cl.check(Halves(), runs, on="target").n_free == 6
    plan = cl.plan.trade_off(fit, fits["source"], n_params="1B", tokens="10B", max_source_loss=2.4)
    assert plan.feasible
    wanted = cl.suggest(Halves(side="minus"), runs, on="target", at=point, budget="1e20", n=1, starts=4)
    assert len(wanted.cells) == 1


def test_it_is_reported(runs, fits, tmp_path):
    pytest.importorskip("plotly", reason="reports need Plotly: pip install 'cptlaw[report]'")
    files = {on: fit.save(tmp_path / f"{on}.json") for on, fit in fits.items()}
    found = cl.report(runs, files["target"], files["source"], n_params="1B", max_source_loss=2.4)
    assert "test-halves" in found.save(tmp_path / "report.html").read_text()


def test_a_law_may_say_no_more_than_its_terms_and_write_them_with_numpy(runs, tmp_path):
    class Bare(Law):
        name = "test-bare"
        inputs = ("tokens", "replay")
        amplitudes = ("E", "B", "C", "G")
        shapes = {"beta": Shape(0.05, 1.0), "k": Shape(0.5, 20.0)}

        def terms(self, x, p):
            return 1.0, np.sqrt(x.D) ** -p.beta, x.r, np.exp(-p.k * x.r)

    rows = runs.frame[(runs.frame["eval"] == "target") & (runs.frame["tokens"] > 0)]
    rows = rows.assign(replay=rows["run"].astype(str).astype(int) / 9)  # nine levels tell the four terms apart
    replay, tokens = rows["replay"].to_numpy(), rows["tokens"].to_numpy()
    loss = 1.4 + 400.0 * tokens**-0.3 + 0.3 * replay + 0.2 * np.exp(-6.0 * replay)
    fit = cl.fit(Bare(), cl.read_runs(rows.assign(loss=loss)), on="target", restraint="none", starts=8)
    assert fit.params["C"] == pytest.approx(0.3, rel=0.05)
    np.testing.assert_allclose(fit.predict(rows), loss, rtol=1e-4)
    assert cl.load_fit(fit.save(tmp_path / "bare.json")).params == fit.params
    assert "not written out" in card(fit.law)


def test_numpy_functions_carry_derivatives():
    one, rows = Jet(np.array([[0.4]]), {0: np.array([[1.0]])}, {}), np.array([0.0, 0.5, 2.0])
    r = Positive(rows)
    step = 1e-6
    for function in (np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.square, np.reciprocal, np.negative, expit):
        jet = function(one)
        slope = (function(0.4 + step) - function(0.4 - step)) / (2 * step)
        np.testing.assert_allclose(jet.value, function(0.4))
        np.testing.assert_allclose(jet.slopes[0], slope, rtol=1e-6)
        if function not in (np.log, np.reciprocal):
            np.testing.assert_allclose(function(r), function(rows), atol=1e-15)
    for both in (np.maximum, np.minimum):
        np.testing.assert_allclose(both(rows, one).value, [both(rows, 0.4)])
        np.testing.assert_allclose(both(one, one * 2.0).slopes[0], 1.0 + (both is np.maximum))
    with pytest.raises(TypeError, match="sin"):
        np.sin(one)


def test_a_saved_fit_says_what_to_import(fits, tmp_path):
    path = fits["target"].save(tmp_path / "fit.json")
    document = json.loads(path.read_text())
    assert document["law_home"] == {"module": __name__, "class": "Halves"}
    document["law"] = "gone-halves"
    path.write_text(json.dumps(document))
    with refused(DataError, "'gone-halves'", f"Halves of {__name__}", "Import"):
        cl.load_fit(path)
    document["law_home"]["module"] = "__main__"
    path.write_text(json.dumps(document))
    with refused(DataError, "'gone-halves'", "notebook"):
        cl.load_fit(path)


def test_a_cell_that_runs_again_replaces_its_law():
    def cell(version):
        body = {"name": "test-cell", "__module__": "__main__", "__qualname__": "Cell", "version": version}
        return type("Cell", (Halves,), body)

    first, second = cell(1), cell(2)
    assert LAWS["test-cell"] is second
    assert first().spec == "test-cell"  # an old instance stays as it was


@pytest.mark.parametrize("name", ["chinchilla", "ptpp-floor", "dcpt", "test-halves"])
def test_a_name_that_is_taken_is_refused(name):
    body = {"name": name, "__module__": "elsewhere", "__qualname__": "Other"}
    with refused(UsageError, repr(name), "Other"):
        type("Other", (Law,), body)


@pytest.mark.parametrize("name", ["", "two words", "a:b", None])
def test_a_name_must_fit_into_a_spec(name):
    with refused(UsageError, "Other", repr(name)):
        type("Other", (Law,), {"name": name})


def test_a_class_without_a_name_of_its_own_is_not_saved_as_another_law(runs, tmp_path):
    class Nameless(Halves):
        """Shares the name of its parent."""

    fit = cl.fit(Nameless(), runs, on="target", starts=2, restraint="none")
    with pytest.raises(UsageError, match="class another name"):
        fit.save(tmp_path / "fit.json")
    assert not (tmp_path / "fit.json").exists()


def test_laws_of_installed_packages_are_found(monkeypatch, tmp_path, call):
    (tmp_path / "their_laws.py").write_text(
        "from cptlaw.laws import EXPONENT, Law\n"
        "class Theirs(Law):\n"
        "    '''L = E.'''\n"
        "    name, equation, source = 'test-theirs', 'L = E D^-beta', 'them'\n"
        "    inputs, units = ('tokens',), {'n_params': 1.0, 'tokens': 1.0}\n"
        "    amplitudes, shapes = ('E',), {'beta': EXPONENT}\n"
        "    def terms(self, x, p):\n"
        "        return (x.D ** -p.beta,)\n"
    )
    entries = [
        metadata.EntryPoint("theirs", "their_laws:Theirs", "cptlaw.laws"),
        metadata.EntryPoint("broken", "no_such_package.laws", "cptlaw.laws"),
    ]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [one for one in entries if one.group == group])
    monkeypatch.setattr(LAWS, "_installed", False)
    monkeypatch.setattr(LAWS, "_classes", dict(LAWS._classes))
    monkeypatch.setattr(LAWS, "broken", {})
    assert law("test-theirs").parameters == ("E", "beta")
    assert list(LAWS)[-1] == "test-theirs"
    assert "no_such_package" in LAWS.broken["broken = no_such_package.laws"]
    with refused(UsageError, "no_such_package"):
        law("no-law")
    code, listed, noted = call("laws")
    assert code == 0
    assert "test-theirs" in listed
    assert "no_such_package" in noted
    monkeypatch.delitem(sys.modules, "their_laws")


def test_the_example_of_contributing_is_a_law():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"^    from collections.abc import Sequence\n(?:.*\n|\n)+?(?=^1\. )", text, re.M).group(0)
    defined = {"__name__": __name__}
    exec(textwrap.dedent(block), defined)
    chosen = defined["Transfer"]()
    check_law(chosen)
    assert chosen.spec == "transfer-example"
    case = re.search(r"^ {8}from cases import Case\n(?: {8}.*\n|\n)+", text, re.M).group(0)
    exec(textwrap.dedent(case), defined)
    (written,) = defined["CASES"]
    point = pd.DataFrame({"n_params": [2e9], "tokens": [5e9], "ptpp": [50.0]})
    by_formula = written.formula(written.truth, 2.0, 5.0, None, 50.0)
    assert chosen.predict(written.truth, point) == pytest.approx([by_formula], rel=1e-12)
