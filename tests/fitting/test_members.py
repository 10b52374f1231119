"""A fit is members with weights: one law is one member, files of earlier versions still load."""

from pathlib import Path

import numpy as np
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.fitting.solving.restraint import Prior

OLD = Path(__file__).parent / "old_files"  # written by 2be97f2
POINT = {"n_params": [124672.0], "tokens": [1e6], "replay": [0.25], "ptpp": [279.0], "lr_peak": [3e-3]}
ROWS = "ptpp in (15, 31) and n_params > 40K and lr_schedule == 'constant'"


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("docs-to-code")


@pytest.fixture(scope="module")
def named(runs):
    return cl.fit("shared-tokens", runs, "target", ROWS)


@pytest.mark.parametrize(
    ("name", "loss", "lo", "hi"),
    [
        ("named", 2.136942011325724, 2.007902740039079, 2.250245727893244),
        ("auto", 2.146184985312665, 2.081300, 2.213093),
    ],
)
def test_files_of_earlier_versions_forecast_as_they_did(name, loss, lo, hi):
    fit = cl.load_fit(OLD / f"{name}.json")
    found = fit.forecast(POINT).iloc[0]
    assert isinstance(fit, cl.Fit)
    # What measured losses of base models say of an average has been added since; it moves ends and loss alike. The
    # average's ends are those with what it errs by beyond its data today; those of a named law are searched to 2e-4 of
    # the rise that they allow.
    assert [found["lo"] / found["loss"], found["hi"] / found["loss"]] == pytest.approx([lo / loss, hi / loss], rel=3e-4)
    if name == "named":
        assert found["loss"] == pytest.approx(loss, rel=1e-9)


def test_one_law_is_one_member(named, tmp_path):
    assert isinstance(named, cl.Fit)
    (member,) = named.members
    assert (member.fit.law.name, member.weight) == ("shared-tokens", 1.0)
    kept = cl.load_fit(named.save(tmp_path / "fit.json"))
    assert kept.members[0].fit.params == named.params
    assert kept.forecast(POINT)["hi"].tolist() == pytest.approx(named.forecast(POINT)["hi"].tolist(), rel=1e-12)


def test_quantiles_have_a_row_for_each_probability(named):
    rows = {name: values * 3 for name, values in POINT.items()}
    for fit in (named, cl.load_fit(OLD / "auto.json")):
        found = fit.log_quantiles(rows, [0.05, 0.5, 0.8, 0.95])
        assert found.shape == (4, 3)
        assert np.all(np.diff(found, axis=0) > 0)
        assert np.exp(found[1]) == pytest.approx(fit.predict(rows))


def test_a_named_law_says_what_other_studies_add(named, runs):
    assert "learned-priors" in [finding.code for finding in named.findings]
    assert {"a", "g", "k"} <= set(named.options.restraint.priors)
    plain = cl.fit("shared-tokens", runs, "target", ROWS, restraint="none", starts=4)
    assert plain.plain
    assert "learned-priors" not in [finding.code for finding in plain.findings]
    held = cl.fit("shared-tokens", runs, "target", ROWS, fix={"a": 0.3}, prior={"g": (0.2, 0.01)})
    assert held.params["a"] == 0.3
    assert held.options.restraint.priors["g"].mean == 0.2


def test_named_it_is_as_good_as_within_law_auto(named, runs):
    """By name it once missed the budget 279 by 8 %, where the same law within law auto missed it by 3."""
    test = runs.on("target").where("ptpp == 279 and n_params > 40K and lr_schedule == 'constant' and atpp >= 1.9").frame
    found = named.forecast(test.iloc[::7])
    loss = test["loss"].to_numpy(dtype=float)
    assert np.mean(np.abs(named.predict(test) / loss - 1)) < 0.035
    half = np.median((found["hi"] - found["lo"]) / 2 / found["loss"])
    assert half < 0.15
    assert np.mean((found["lo"] <= found["loss"]) & (found["loss"] <= found["hi"])) == 1


def test_without_what_other_studies_say_two_budgets_leave_the_third_open(runs):
    """laws.md 3.7: the floor beyond two budgets is open between far ends, and the interval is as wide."""
    rows = "ptpp in (15, 31) and atpp >= 1.9"
    fit = cl.fit("ptpp-floor", runs, "target", rows, restraint="none", starts=16)
    found = fit.forecast({**POINT, "ptpp": [1000.0]}).iloc[0]
    assert np.isnan(found["lo"]) or found["hi"] / found["lo"] > 1.15


def test_a_far_average_is_no_surer_than_a_law_of_weight(runs):
    fit = cl.load_fit(OLD / "auto.json")
    far = {**POINT, "n_params": [5e7], "tokens": [5e9]}
    heavy = [member for member in fit.members if fit.weights(far)[0][list(fit.members).index(member)] >= 0.2]
    from dataclasses import replace

    whole = np.diff(fit.log_quantiles(far, [0.05, 0.95], measured=False), axis=0)[0, 0]
    for member in heavy:
        alone = replace(member.fit, learned=("as in an average",), _cache={})
        spread = alone.half_widths(far, 0.9)
        assert whole >= 2 * 0.8 * float(np.hypot(spread[1], spread[2])[0])


def test_a_law_that_falls_below_zero_is_left_out_there(monkeypatch):
    fit, asked = cl.load_fit(OLD / "auto.json"), {**POINT, "ptpp": [1600.0]}
    others, law = fit.predict(asked), fit.leading.law
    predict = law.predict

    def below_zero(params, rows, role):
        return np.where(rows["ptpp"] == 1600.0, -1.0, predict(params, rows, role))

    monkeypatch.setattr(law, "predict", below_zero)
    fit._cache.clear()
    assert fit.predict(asked) == pytest.approx(others, rel=0.05)
    assert fit.forecast(asked)["lo"].iloc[0] > 0.5 * others[0]


def test_what_a_point_says_is_known_or_refused(named):
    with refused(cl.UsageError, "'tokens'"):
        cl.forecast(named, "n_params=125K,tokns=1M,replay=25%,ptpp=279")
    with pytest.raises(cl.UsageError, match="reads learning rates"):
        cl.forecast(named, "n_params=125K,tokens=1M,replay=25%,ptpp=279", schedules={})


def test_a_file_of_a_law_that_was_searched_in_other_coordinates_keeps_its_parameters(runs, tmp_path, monkeypatch):
    fit = cl.fit("chinchilla", runs, "target", ROWS)
    path = fit.save(tmp_path / "fit.json")
    monkeypatch.setattr(type(fit.law), "version", 2)
    found = cl.load_fit(path)
    assert len(found.optima) == 1
    assert found.optima[0] == pytest.approx(fit.optima[0], rel=1e-9)
    assert found.forecast(POINT)["hi"].to_numpy() == pytest.approx(fit.forecast(POINT)["hi"].to_numpy(), rel=1e-6)


def test_a_ratio_that_rows_do_not_see_has_a_prior_and_its_file_loads(runs, tmp_path):
    fit = cl.fit("chinchilla:bend=1.5", runs, "target", ROWS)
    assert fit.options.restraint.priors["B"] == Prior(1.0, pytest.approx(np.log(20)), "ratio")
    assert cl.load_fit(fit.save(tmp_path / "fit.json")).options == fit.options
    with refused(cl.errors.UsageError, "--prior B", "bend=1.5"):
        cl.fit("chinchilla:bend=1.5", runs, "target", ROWS, prior=["B=1:3:log"])
    with refused(cl.errors.UsageError, "--prior B", "ratio"):
        cl.fit("chinchilla", runs, "target", ROWS, prior=["B=1:3:ratio"])


@pytest.mark.parametrize(("law", "on"), [("chinchilla", "target"), ("kaplan", "source")])
def test_a_law_from_scratch_on_rows_of_cpt_is_not_sure_of_what_it_misses(runs, law, on):
    """What other ladders say of its exponents had taken 14 of 15 such tables from inside to outside."""
    usual = "replay == 0.25 and lr_schedule == 'constant'"
    fit = cl.fit(law, runs, on, where=f"{usual} and n_params < 120000")
    rows = runs.on(on).where(f"{usual} and n_params > 120000 and tokens > 0").frame
    low, high = fit.log_quantiles(rows, [0.05, 0.95])
    loss = np.log(rows["loss"].to_numpy(dtype=float))
    assert np.mean((low <= loss) & (loss <= high)) >= 0.8
