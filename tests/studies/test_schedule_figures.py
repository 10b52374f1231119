"""The planning curves from published coefficients have the shapes that the equations give them."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def script(named_study):
    return named_study("cpt_schedule_figures")


@pytest.fixture(scope="module")
def made(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    said = script.main(["--small", "-o", str(folder)])
    return said, {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}


def test_shapes(made):
    said, _ = made
    assert len(said) == 8
    assert all(said.values()), [text for text, holds in said.items() if not holds]


def test_one_table_per_figure(made):
    _, tables = made
    assert sorted(tables) == ["fig_13", "fig_5", "fig_7", "fig_8a", "fig_8b", "fig_8c"]
    assert not any(table.drop(columns="steps", errors="ignore").isna().any(axis=None) for table in tables.values())


def test_the_curves_differ_where_they_should(made):
    _, tables = made
    fig_8b = tables["fig_8b"]
    assert fig_8b.groupby("shift")["best"].nunique().min() >= 2
    assert set(tables["fig_13"]["kind"]) == {"zero", "finite", "infinite"}
    both_ends = tables["fig_8c"].groupby("weight_source")["best"].mean()
    assert both_ends.iloc[0] == 0
    assert both_ends.iloc[-1] == 1


def test_a_point_of_fig_7_by_hand(script, made):
    """One value against the equation with the sums written out."""
    _, tables = made
    row = tables["fig_7"].query("steps == 20000").iloc[-1]
    lr = np.concatenate([np.full(501, 2e-4), np.full(40_000 - 500, 2e-4), np.zeros(20_000)])
    lr[32_000:40_001] = 2e-4 * (1 - np.arange(8001) / 8000)
    lr[40_001:] = row["peak"] * 0.5 * (1 + np.cos(np.pi * np.arange(1, 20_001) / 20_000))
    s2 = [0.0, 0.0]
    for phase, drops in enumerate((-np.diff(lr[:40_001]), -np.diff(lr[40_000:]))):
        left = (60_000 if phase == 0 else 20_000) - np.arange(len(drops))
        s2[phase] = float(np.sum(drops * (1 - 0.999**left) / (1 - 0.999)))
    p = dict(zip(script.NAMES, script.SHIFTS[script.MODERATE][0], strict=True))
    s1_cpt = lr[40_001:].sum()
    loss = p["L0"] + p["A"] * lr.sum() ** -p["alpha"] - p["C1"] * s2[0] - p["C2"] * s2[1]
    loss += p["B"] * (1 - (1 + p["E"] * s1_cpt) ** -p["beta"])
    assert row["source_loss"] == pytest.approx(loss, abs=1e-9)
