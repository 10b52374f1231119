"""A factor that varies at equal inputs and moves the loss is a finding where the law does not read it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.findings import Remedy
from cptlaw.fitting.checking.unread import check_unread
from cptlaw.laws import law
from cptlaw_published.benching.tables import load

PTPP = {
    "E": 1.2,
    "A": 0.5,
    "alpha": 0.3,
    "B": 0.8,
    "nu": 0.6,
    "beta": 0.25,
    "C": 0.05,
    "gamma": 0.4,
    "F": 0.9,
    "eta": 0.5,
}
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def table(effect, noise=0.003):
    rows = [
        {"run": f"{size:g}-{budget}-{share}-{rate}", "n_params": size, "ptpp": budget, "replay": share, "lr_peak": rate}
        for size in (1e8, 1e9, 4e9)
        for budget in (20, 80, 300)
        for share in (0.1, 0.3)
        for rate in (1e-4, 3e-4)
    ]
    frame = pd.concat([pd.DataFrame(rows).assign(tokens=tokens) for tokens in (1e9, 4e9, 16e9)], ignore_index=True)
    frame = frame.assign(eval="target")
    moved = np.where(frame["lr_peak"] > 2e-4, effect, 0.0) + noise * np.random.default_rng(0).standard_normal(
        len(frame)
    )
    return frame.assign(loss=law("ptpp-floor").predict(PTPP, frame) * np.exp(moved))


def unread(fit):
    return [one for one in fit.findings if one.code == "unread-factor"]


def test_a_rate_that_moves_the_loss_is_said_with_its_size_and_a_law_that_reads_it():
    found = unread(cl.fit("ptpp-floor", table(0.04), "target", starts=8, restraint="none"))
    assert len(found) == 1
    assert "lr_peak" in found[0].message
    assert "4%" in found[0].message
    assert "shared-tokens" in found[0].advice


def test_several_corpora_in_one_fit_are_an_error_and_a_few_per_cent_a_warning():
    """The mean of four corpora whose losses differ by a third is the loss of none: it may not stand third in a list."""
    small, large = (
        unread(cl.fit("ptpp-floor", two_kinds(effect, "domain"), "target", starts=8)) for effect in (0.04, 0.3)
    )
    assert [one.severity for one in (*small, *large)] == ["warning", "error"]


def test_a_rate_that_moves_nothing_or_is_read_is_not_said():
    assert not unread(cl.fit("ptpp-floor", table(0.0), "target", starts=8, restraint="none"))
    assert not unread(cl.fit("shared-tokens", table(0.04), "target", starts=4, restraint="none"))


def test_a_rate_that_never_varies_at_equal_inputs_says_nothing():
    frame = table(0.04)
    apart = frame[(frame["lr_peak"] > 2e-4) == (frame["n_params"] > 5e8)]
    assert not [
        one
        for one in unread(cl.fit("ptpp-floor", apart, "target", starts=8, restraint="none"))
        if "lr_peak" in one.message
    ]


def test_pooled_rates_of_a_real_ladder():
    runs = load("delphi", DATA)
    if runs is None:
        pytest.skip("delphi_midtrain.csv is not in ../shared/data")
    runs = runs.with_roles(target_eval="math_val_raw")
    found = unread(cl.fit("ptpp-blind", runs, "target", where="replay > 0", starts=8, restraint="none"))
    assert any("lr_peak" in one.message for one in found)


def test_areas_below_zero_are_compared_and_the_advice_can_be_pasted():
    """An annealing area is negative where the rate rises; a filter with quotes in it stands in double quotes."""
    rows = table(0.05).rename(columns={"lr_peak": "lr_schedule"})
    rows["lr_schedule"] = np.where(rows["lr_schedule"] > 2e-4, "cosine", "constant")
    fitted = cl.fit("ptpp-floor", rows, on="target", starts=8, restraint="none")
    found = next(one for one in fitted.findings if one.code == "unread-factor")
    assert found.remedy == Remedy("where", "lr_schedule == 'constant'")
    frame = rows.assign(s1=1.0, s2=-rows["replay"], lr_schedule=rows["lr_schedule"])
    with np.errstate(all="raise"):
        check_unread(law("lr-annealing"), frame, np.log(frame["loss"].to_numpy()) - np.log(frame["loss"]).mean())


def two_kinds(effect, column="optimizer", levels=("adamw", "sam"), noise=0.003):
    """Runs of two kinds that a column of the user's own tells apart, at equal inputs."""
    frame = table(0.0, noise).drop(columns="lr_peak")
    kind = np.where(frame["run"].str.endswith("0.0001"), *levels)
    return frame.assign(**{column: kind}, loss=frame["loss"] * np.where(kind == levels[0], 1.0, 1.0 + effect))


@pytest.mark.parametrize(
    ("column", "levels"), [("optimizer", ("adamw", "sam")), ("lr_factor", (0.5, 0.67)), ("seed", (0, 1))]
)
@pytest.mark.parametrize("name", ["ptpp-floor", "auto"])
def test_a_column_of_the_users_own_that_moves_the_loss_is_said(column, levels, name):
    how = {"starts": 8} if name != "auto" else {}
    fitted = cl.fit(name, two_kinds(0.04, column, levels), "target", **how, restraint="none")
    if (name, column) == ("auto", "lr_factor"):  # it is tuned: the best run of each cell is fitted, and that is said
        assert [one.data["tuned"] for one in fitted.findings if one.code == "mistuned-runs"] == [["lr_factor"]]
        return
    found = unread(fitted)
    assert [column in one.message for one in found] == [True]
    assert found[0].remedy.option == "where"


def test_columns_that_move_nothing_or_name_runs_or_were_measured_are_not_said():
    frame = two_kinds(0.0)
    rng = np.random.default_rng(1)
    frame = frame.assign(
        note=frame["run"],
        train_loss=frame["loss"] * 1.1,
        tags=[["a"]] * len(frame),
        grade=rng.integers(0, 9, len(frame)),
    )
    assert not unread(cl.fit("ptpp-floor", frame, "target", starts=8, restraint="none"))


def test_base_models_are_what_errs_where_a_seed_is_theirs():
    """Nine base models a seed, whose offsets all their runs share: 27 points of a seed are no more than nine."""
    frame = table(0.0).drop(columns="lr_peak")
    frame["seed"] = np.where(frame["run"].str.endswith("0.0001"), 0, 1)
    base = frame.groupby(["n_params", "ptpp", "seed"]).ngroup().to_numpy()
    offset = 0.02 * np.random.default_rng(4).standard_normal(base.max() + 1)
    shifted = frame.assign(loss=frame["loss"] * np.exp(offset[base]))
    assert not unread(cl.fit("ptpp-floor", shifted, "target", starts=8, restraint="none"))
