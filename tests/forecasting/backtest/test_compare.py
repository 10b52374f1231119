"""Metrics, splits and comparisons."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import design
from hypothesis import given, settings
from hypothesis import strategies as st

import cptlaw as cl
from cptlaw.errors import FitError, UsageError
from cptlaw.fitting.folds import split
from cptlaw.forecasting.backtest.baselines import BASELINES
from cptlaw.forecasting.backtest.held_out import intervals_at
from cptlaw.forecasting.backtest.metrics import METRICS, inside, mean_and_error, mean_of_known, metrics, regret

JUDGEMENT = ["difference", "difference_se", "diagnostics"]
PILOT = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9"
# laws.md 3.9, all sixteen rows of Huber_log and RMSE_log: a consistency relation that metric code must obey.
PUBLISHED = [(2.34e-4, 2.27e-2), (1.99e-4, 2.12e-2), (4.43e-5, 9.53e-3), (4.74e-4, 3.47e-2), (5.22e-5, 1.02e-2)]
PUBLISHED += [(4.23e-5, 9.20e-3), (3.54e-5, 8.42e-3), (9.89e-5, 1.44e-2), (2.79e-4, 2.75e-2), (7.55e-4, 5.06e-2)]
PUBLISHED += [(5.73e-4, 4.08e-2), (9.21e-5, 1.39e-2), (5.94e-5, 1.10e-2), (8.77e-5, 1.36e-2), (2.05e-6, 2.03e-3)]
PUBLISHED += [(1.67e-5, 5.77e-3)]

losses = st.lists(st.floats(0.5, 10.0), min_size=3, max_size=30)


@given(losses, st.integers(0, 100))
@settings(max_examples=60)
def test_metrics_by_hand(observed, seed):
    observed = np.array(observed)
    predicted = observed * np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(observed)))
    found = metrics(predicted, observed)
    rho = np.log(predicted) - np.log(observed)
    assert found["huber_log"] == pytest.approx(
        np.mean([r * r / 2 if abs(r) <= 0.02 else 0.02 * (abs(r) - 0.01) for r in rho])
    )
    assert found["rmse_log"] == pytest.approx(np.sqrt(np.mean(rho**2)))
    assert found["mae_rel"] == pytest.approx(np.mean(np.abs(predicted - observed) / observed))
    assert found["mape_clip"] == pytest.approx(found["mae_rel"])
    assert found["huber_log"] <= found["rmse_log"] ** 2 / 2 * (1 + 1e-12)
    if np.ptp(np.log(predicted)) > 1e-3:
        slope, intercept = np.polyfit(np.log(predicted), np.log(observed), 1)
        assert found["slope"] == pytest.approx(slope, rel=1e-6, abs=1e-8)
        assert found["intercept"] == pytest.approx(intercept, rel=1e-5, abs=1e-6)


def test_published_rows_obey_the_relation_of_huber_and_rmse():
    for huber, rmse in PUBLISHED:
        assert huber <= rmse**2 / 2 * 1.005  # printed to three digits


def test_metrics_of_constant_losses():
    found = metrics(np.full(4, 2.0), np.full(4, 2.1))
    assert np.isnan(found["slope"])
    assert np.isnan(found["r2"])


def frame_of(levels, runs_per_level=2, points=3):
    rows = [
        {"run": f"{level}-{i}", "n_params": float(level), "tokens": float(10**p), "loss": 2.0}
        for level in levels
        for i in range(runs_per_level)
        for p in range(points)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("text", "held_out"),
    [
        ("leave-one-out:n_params", [[1], [2], [3], [4]]),
        ("k-fold:n_params:2", [[1, 2], [3, 4]]),
        ("k-fold:n_params:3", [[1, 2], [3], [4]]),
        ("leave-p-out:n_params:2", [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]]),
        ("rollout:n_params", [[2], [3], [4]]),
    ],
)
def test_splits(text, held_out):
    frame = frame_of([1, 2, 3, 4])
    folds, findings = split(frame, text)
    assert [sorted(frame["n_params"][fold.test].unique()) for fold in folds] == held_out
    assert findings == ()
    for fold in folds:
        assert not np.any(fold.fit & fold.test)
        assert not set(frame["run"][fold.fit]) & set(frame["run"][fold.test])
        if text.startswith("rollout"):
            assert frame["n_params"][fold.fit].max() < frame["n_params"][fold.test].min()
        else:
            assert np.all(fold.fit | fold.test)


def test_splits_that_cut_runs_say_so():
    _, findings = split(frame_of([1, 2]), "k-fold:tokens:3")
    assert [finding.code for finding in findings] == ["cuts-runs"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("leave-one-ot:n_params", "Did you mean 'leave-one-out'"),
        ("leave-one-out", "expected leave-one-out:COLUMN"),
        ("leave-one-out:n_param", "Did you mean 'n_params'"),
        ("k-fold:n_params:x", "not a whole number"),
        ("k-fold:n_params:9", "must lie in 2..4"),
        ("leave-p-out:n_params:4", "must lie in 1..3"),
        ("rollout:loss", "has 1 level"),
    ],
)
def test_bad_splits(text, words):
    with pytest.raises(UsageError, match=words):
        split(frame_of([1, 2, 3, 4]), text)


def test_the_true_law_wins_and_the_table_has_the_promised_columns():
    frame = design("ptpp-floor", noise=0.003)
    laws = "ptpp-blind,ptpp-floor,ptpp-nearest,ptpp-oracle"
    found = cl.compare(laws, frame, on="target", fit_where="ptpp < 279", test_where="ptpp == 279")
    assert list(found.columns) == [
        "law",
        *METRICS,
        "coverage_90",
        "regret",
        "n_fit",
        "n_test",
        "n_params_free",
        *JUDGEMENT,
        "findings",
    ]
    order = found["law"].tolist()
    assert order[0] == "ptpp-oracle"
    assert order.index("ptpp-floor") < order.index("ptpp-nearest") < order.index("ptpp-blind")
    by_law = found.set_index("law")
    assert by_law.loc["ptpp-floor", "difference"] == 0
    assert by_law.loc["ptpp-blind", "difference"] > 2 * by_law.loc["ptpp-blind", "difference_se"] > 0
    assert "within noise" not in by_law.loc["ptpp-blind", "diagnostics"]
    assert (by_law["n_test"] == (frame["ptpp"] == 279).sum()).all()
    assert by_law.loc["ptpp-nearest", "n_fit"] == (frame["ptpp"] == 110).sum()
    assert [finding.code for finding in by_law.loc["ptpp-oracle", "findings"]] == ["oracle"]


def test_anchors_join_the_fit_and_leave_the_test():
    frame = design("ptpp-floor", noise=0.003)
    anchors = "ptpp == 279 and n_params < 5e8"
    query = {"fit_where": "ptpp < 279", "test_where": "ptpp == 279"}
    without = cl.compare(["ptpp-floor", "ptpp-nearest"], frame, on="target", **query).set_index("law")
    found = cl.compare(["ptpp-floor", "ptpp-nearest"], frame, on="target", **query, anchors_where=anchors).set_index(
        "law"
    )
    joined = int(((frame["ptpp"] == 279) & (frame["n_params"] < 5e8)).sum())
    assert found.loc["ptpp-floor", "n_fit"] == without.loc["ptpp-floor", "n_fit"] + joined
    assert found.loc["ptpp-nearest", "n_fit"] == without.loc["ptpp-nearest", "n_fit"]
    assert (found["n_test"] == without.loc[found.index, "n_test"] - joined).all()


@pytest.mark.nightly
def test_pilot_table():
    """The nearest budget alone beats the pooled blind law by far; a third budget helps more than any form."""
    runs, laws = cl.examples.load("en-fr-pilot"), ["ptpp-blind", "ptpp-nearest", "ptpp-floor", "ptpp-oracle"]

    def error(levels):
        found = cl.compare(
            laws, runs, on="target", where=PILOT, fit_where=f"ptpp in {levels}", test_where="ptpp == 279"
        )
        return found.set_index("law")["mae_rel"]

    two, three = error("(15, 31)"), error("(31, 62, 124)")
    assert two["ptpp-nearest"] < two["ptpp-blind"]
    assert three["ptpp-nearest"] < three["ptpp-floor"] < three["ptpp-blind"]
    assert three["ptpp-floor"] < 0.5 * two["ptpp-floor"]
    assert two["ptpp-oracle"] < 0.01


def test_the_oracle_alone_is_no_forecast_to_be_weighed():
    runs = cl.examples.load("en-fr-pilot")
    asked = {"on": "target", "where": PILOT, "fit_where": "ptpp < 279", "test_where": "ptpp == 279"}
    found = cl.compare("ptpp-oracle", runs, **asked)
    assert found["mae_rel"].iloc[0] < 0.01


@pytest.mark.dear("two laws in every fold of a measured table")
def test_laws_are_judged_on_folds_that_all_could_be_fitted_in():
    runs = cl.examples.load("en-fr-pilot")
    found = cl.compare("ptpp-floor,ptpp-blind", runs, on="target", where=PILOT, cv="rollout:ptpp").set_index("law")
    assert found["n_test"].nunique() == 1
    assert "folds-skipped" in {finding.code for finding in found.loc["ptpp-floor", "findings"]}
    assert "folds-not-shared" in {finding.code for finding in found.loc["ptpp-blind", "findings"]}


def test_a_law_that_cannot_be_fitted_does_not_take_the_others_down():
    frame = design("chinchilla", noise=0.003)
    found = cl.compare("chinchilla,dcpt-l3", frame, on="target", cv="leave-one-out:n_params")
    assert [name for name in found["law"] if name not in BASELINES] == ["chinchilla", "dcpt-l3"]
    assert np.isnan(found["huber_log"].iloc[-1])
    assert "replay" in found["findings"].iloc[-1][0].message
    with pytest.raises(FitError, match="dcpt-l3"):
        cl.compare("dcpt-l3", frame, on="target", cv="leave-one-out:n_params")


def test_in_sample_scores_say_so():
    frame = design("chinchilla", noise=0.003)
    found = cl.compare("chinchilla", frame, on="target", fit_where="n_params > 0", test_where="n_params > 0")
    by_law = found.set_index("law")
    assert "in-sample" in {finding.code for finding in by_law.loc["chinchilla", "findings"]}


def test_baselines_always_stand_beside_and_take_no_weight():
    frame = design("ptpp-floor", noise=0.003)
    found = cl.compare("ptpp-floor", frame, on="target", fit_where="ptpp < 279", test_where="ptpp == 279")
    by_law = found.set_index("law")
    assert set(BASELINES) < set(found["law"])
    assert by_law.loc["ptpp-floor", "mae_rel"] < by_law.loc[list(BASELINES), "mae_rel"].min()
    assert (by_law["regret"] >= 0).all()


@pytest.mark.dear("all candidates are fitted")
def test_law_auto_is_compared_like_any_other():
    runs = cl.examples.load("en-fr-pilot")
    asked = {"fit_where": "ptpp in (31, 62, 124)", "test_where": "ptpp == 279", "where": PILOT}
    found = cl.compare("auto,ptpp-blind", runs, on="target", **asked).set_index("law")
    assert found.loc["auto", "mae_rel"] < 0.015
    assert found.loc["auto", "huber_log"] < found.loc["ptpp-blind", "huber_log"]


def test_without_a_law_auto_stands_beside_the_baselines_with_coverage_and_regret():
    runs = cl.examples.load("en-fr-pilot")
    found = cl.compare(runs, on="target", fit_where="ptpp in (31, 62, 124)", test_where="ptpp == 279 and tokens > 0")
    by_law = found.set_index("law")
    assert set(found["law"]) == {"auto", *BASELINES}
    assert by_law.loc["auto", "coverage_90"] > 0.8
    assert by_law.loc[list(BASELINES), "coverage_90"].isna().all()
    assert by_law["regret"].notna().all()
    assert "transient" in {finding.code for finding in by_law.loc["auto", "findings"]}
    assert "coverage_90" in str(found.answer)
    assert "regret" in str(found.answer)


def test_baselines_stand_in_every_split_also_where_one_fold_fits_a_single_budget():
    frame = design("ptpp-floor", noise=0.003)
    found = cl.compare("ptpp-blind", frame, on="target", cv="rollout:ptpp")
    assert set(BASELINES) < set(found["law"])


@pytest.mark.dear("laws with and without schedules are fitted")
def test_law_auto_reads_the_schedules_that_a_comparison_is_given():
    runs = cl.examples.load("docs-to-code")
    schedules = Path(cl.examples.__file__).with_name("docs_to_code_schedules.json")
    some = {
        "where": "n_params < 40000 and (tokens == 0 or atpp > 6)",
        "fit_where": "ptpp < 100",
        "test_where": "ptpp > 100",
    }
    errors = [
        cl.compare(runs, on="target", **some, **how).set_index("law").loc["auto", "mae_rel"]
        for how in ({}, {"schedules": schedules})
    ]
    assert errors[0] != errors[1]
    assert max(errors) < 0.2


def test_coverage_counts_open_ends_as_held_and_points_without_an_interval_not_at_all():
    class Fitted:
        def forecast(self, frame, interval):
            assert interval == 0.9
            return frame.assign(lo=[1.0, None, 3.5, None], hi=[2.5, 3.0, None, None])

    test = pd.DataFrame({"loss": [2.0, 2.0, 2.0, 2.0]})
    found = inside(intervals_at(Fitted(), test, 0.9, 4), silent=np.nan)
    assert found[:3].tolist() == [1, 1, 0]
    assert np.isnan(found[3])
    assert mean_of_known(found) == pytest.approx(2 / 3)
    assert np.isnan(mean_of_known([]))


def test_regret_is_the_loss_of_the_chosen_mix_over_the_best():
    rows = pd.DataFrame({"n_params": 1e8, "tokens": 1e9, "ptpp": 20.0, "replay": [0.1, 0.25, 0.5]})
    rows = rows.assign(loss=[2.0, 2.1, 2.5])
    assert regret(rows, np.array([1.0, 2.0, 3.0])) == 0
    assert regret(rows, np.array([2.0, 1.0, 3.0])) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "either"),
        ({"cv": "rollout:ptpp", "fit_where": "ptpp > 1"}, "either"),
        ({"fit_where": "ptpp > 1"}, "go together"),
        ({"cv": "rollout:ptpp", "anchors_where": "ptpp > 1"}, "not with --cv"),
        ({"fit_where": "ptpp > 1", "test_where": "ptpp > 1e6"}, "no row answers"),
        (
            {"fit_where": "ptpp < 279", "test_where": "ptpp == 279", "anchors_where": "ptpp == 279"},
            "all of the test rows",
        ),
    ],
)
def test_bad_comparisons(query, words):
    with pytest.raises(UsageError, match=words):
        cl.compare("ptpp-floor", design("ptpp-floor"), on="target", **query)


def test_a_law_with_usual_priors_is_compared_as_it_is_fitted():
    """shared-tokens is never fitted without its priors, so a rate with one level does not keep it out."""
    runs = cl.examples.load("en-fr-pilot")
    rows = "replay > 0 and lr_schedule == 'constant' and atpp >= 1.9"
    scores = cl.compare(
        "shared-tokens,ptpp-floor",
        runs,
        on="target",
        fit_where=f"({rows} or tokens == 0) and ptpp in (31, 62)",
        test_where=f"{rows} and ptpp == 124",
    ).set_index("law")
    assert scores.loc["shared-tokens", "n_test"] == 48
    assert scores.loc["shared-tokens", "mae_rel"] < scores.loc["ptpp-floor", "mae_rel"]


def test_standard_error_by_groups():
    values = np.repeat([1.0, 2.0, 3.0, 6.0], 5)
    groups = np.repeat(np.arange(4), 5)
    mean, error = mean_and_error(values, groups)
    assert mean == 3.0
    # Points of a group are one observation: the ordinary standard error of four numbers.
    assert error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert error > mean_and_error(values, np.arange(20))[1]
    assert mean_and_error(values, np.arange(20), groups)[1] == error
    assert np.isnan(mean_and_error(values, np.zeros(20))[1])
    assert np.isnan(mean_and_error(np.zeros(0), [])).all()  # laws that have no row in common


def test_named_laws_decide_among_runs_on_one_corpus():
    runs = cl.examples.load("domains").where("n_params < 80000 and tokens > 100000")
    folds = {"fit_where": "n_params < 50000", "test_where": "n_params > 50000"}
    found = cl.compare("dcpt-l1", runs, on="target", **folds, starts=2).set_index("law")
    fitted = cl.fit("dcpt-l1", runs, on="target", where=folds["fit_where"], starts=2, restraint="none")
    asked = runs.on("target").where(folds["test_where"]).frame
    expected = regret(asked, fitted.predict(asked))
    assert found.loc["dcpt-l1", "regret"] == pytest.approx(expected, rel=1e-3)
    pooled = regret(asked.drop(columns="domain"), fitted.predict(asked))
    assert pooled != pytest.approx(expected, rel=0.05)


def test_law_auto_is_not_dropped_in_silence():
    rows = pd.DataFrame({"n_params": np.repeat([1e7, 3e7, 1e8], 4), "ptpp": [10.0, 20.0, 40.0, 80.0] * 3})
    params = {"E": 1.5, "A": 0.3, "B": 0.5, "alpha": 0.3, "beta": 0.3}
    rows = rows.assign(run=[f"base {i}" for i in rows.index], eval="source", tokens=0.0)
    rows["loss"] = cl.law("ptpp-base").predict(params, rows)
    found = cl.compare("auto,ptpp-base", rows, on="source", cv="leave-one-out:ptpp").set_index("law")
    (finding,) = found.loc["auto", "findings"]
    assert finding.code == "not-fitted"
    assert np.isnan(found.loc["auto", "huber_log"])
    assert found.loc["ptpp-base", "mae_rel"] < 0.01
