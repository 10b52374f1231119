"""The reproduction of the PTPP paper: its numbers are those of the library, and its verdicts follow from them."""

import re

import numpy as np
import pandas as pd
import pytest
from facts import lacks

import cptlaw as cl
from studies import simulate


@pytest.fixture(scope="module")
def script(named_study):
    return named_study("reproduce_ptpp")


def tables(text):
    """Return the Markdown tables of a text as lists of rows."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    cells = [[[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in one.splitlines()] for one in found]
    return [[dict(zip(one[0], row, strict=False)) for row in one[2:]] for one in cells]


@pytest.mark.nightly
def test_the_study_in_small(script, capsys, tmp_path):
    script.main(["--small", "-o", str(tmp_path)])
    printed = capsys.readouterr().out
    assert lacks(printed, "20 anchors", "5 runs") == []
    *by_set, errors, claims, plans = tables(printed)
    assert len(by_set) == 8  # scores and doubt, two losses, with and without anchors
    assert [row["error"].partition(" ")[0] for row in errors[3:6]] == [
        f"{100 * float(row['mae_rel'].split()[0]):.2f}" for row in by_set[0][3:]
    ]
    runs = cl.examples.load("en-fr-pilot")
    where = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9"
    library = cl.compare(
        ["ptpp-blind", "ptpp-nearest", "ptpp-oracle"],
        runs,
        on="target",
        where=where,
        fit_where="ptpp in (15, 31)",
        test_where="ptpp == 279",
    ).set_index("law")
    for row in by_set[0][3:]:
        law = row["law"].split()[0]
        assert float(row["mae_rel"].split()[0]) == pytest.approx(library.loc[law, "mae_rel"], abs=6e-5)
        assert float(row["slope"].split()[0]) == pytest.approx(library.loc[law, "slope"], abs=6e-4)
    assert {row["here"] for row in claims} <= {"holds", "does not hold", "undecided", "open"}
    assert len(claims) == 18
    assert [row["tokens per parameter"] for row in plans[4:]] == ["no plan"] * 4  # 2 % cannot be had by models so small
    oracle = next(row for row in plans if row["fits"] == "oracle")
    assert oracle["by the oracle"].startswith("1.700, 25 %")

    scatter = pd.read_csv(tmp_path / "figure1_forecast_against_measured.csv")
    assert set(scatter["ptpp"]) == {279}
    assert len(scatter) == 6 * 2 * (72 + 52)
    curves = pd.read_csv(tmp_path / "loss_curves_held_out.csv")
    assert (curves["kind"] == "measured").sum() == 2 * 72
    inside = pd.read_csv(tmp_path / "figure3_form3_in_sample.csv")
    assert set(inside["ptpp"]) == {15, 31}
    plan_map = pd.read_csv(tmp_path / "figure2_planning_map.csv")
    assert plan_map["feasible_oracle"].isin([0, 1]).all()


def test_published_numbers_obey_the_relation_of_huber_and_rmse(script):
    for huber, rmse, *_ in script.PUBLISHED.values():
        assert huber <= rmse**2 / 2 * 1.005  # printed to three digits


@pytest.fixture(scope="module")
def simulated():
    """Runs of the published design without noise: Form 3 is true."""
    return cl.read_runs(simulate.ptpp_runs(noise=0.0))


@pytest.mark.nightly
def test_equal_fits_are_found_by_walking_where_the_starts_see_one(script):
    """Form 1 on budgets 15 and 31 ends on a bound, all starts agree, and fits as good err by much less."""
    runs = cl.examples.load("en-fr-pilot")
    where = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9"
    found = script.forecast(
        script.Study(runs, where, every=1000, held_values=4, starts=8), "ptpp-floor", "target", False
    )
    assert found.fit.n_agree == found.fit.n_starts
    least, most = found.range_over_equals("mae_rel")
    assert most - least > 0.01
    alone = script.forecast(
        script.Study(runs, where, every=1000, held_values=0, starts=8), "ptpp-floor", "target", False
    )
    assert np.ptp(alone.range_over_equals("mae_rel")) < 1e-6


def test_what_is_resampled_is_the_base_model(script):
    runs = cl.examples.load("en-fr-pilot").where("ptpp == 279 and lr_schedule == 'constant' and tokens > 0").frame
    drawn = script.resamplings(runs, 20)
    base = script.base_models(runs)
    assert base.nunique() == 6  # three seeds, two and one
    for rows in drawn:
        taken = base.iloc[rows].value_counts()
        whole = base.value_counts()
        assert all(count % whole[name] == 0 for name, count in taken.items())


def test_the_published_protocol_depends_on_its_start(script, simulated):
    study = script.Study(simulated, "replay in (0.1, 0.25, 0.5)")
    found = script.published_protocol(study, "ptpp-floor", "target", starts=3)
    assert found["objective"].is_monotonic_increasing
    best = cl.fit("ptpp-floor", study.rows, on="target", where=study.fitted, restraint="none").objective
    assert found["objective"].iloc[0] >= best * (1 - 1e-9)


def test_another_table_can_be_studied(script, simulated):
    study = script.Study(simulated, "replay in (0.1, 0.25, 0.5)", resamples=20, every=1000, held_values=0, starts=8)
    anchored = script.forecast(study, "ptpp-gated-floor", "target", True)
    assert np.abs(anchored.rows["forecast"] / anchored.rows["loss"] - 1).max() < 1e-4  # a third budget identifies it
    blind = script.forecast(study, "ptpp-blind", "target", True)
    assert blind.fit.data["run"].nunique() < anchored.fit.data["run"].nunique()  # takes no anchors
    pd.testing.assert_frame_equal(blind.rows[["run", "tokens"]], anchored.rows[["run", "tokens"]])
    assert not set(study.anchor_runs()) & set(anchored.rows["run"])


@pytest.mark.dear("equal fits are found by many starts")
def test_equal_fits_leave_a_law_open(script, simulated):
    study = script.Study(simulated, "replay in (0.1, 0.25, 0.5)", resamples=20, every=1000, held_values=2, starts=8)
    open_form = script.forecast(study, "ptpp-gated-floor", "target", False)
    assert open_form.fit.rank < open_form.fit.n_free
    least, most = open_form.range_over_equals("mae_rel")
    assert most > least
    fewer = open_form.without(study.rows.frame["run"].unique()[:3].tolist())
    assert fewer.equals.shape[1] == len(fewer.rows)
