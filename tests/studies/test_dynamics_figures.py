"""The curves from published coefficients, and those of the example runs, agree as far as the paper says."""

import importlib.util

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def made(named_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    said = named_study("dynamics_figures").main(["--small", "-o", str(folder)])
    return said, {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}, folder


def test_shapes(made):
    said, _, _ = made
    assert len(said) == 13
    assert all(said.values()), [text for text, holds in said.items() if not holds]


def test_one_table_per_family(made):
    _, tables, _ = made
    assert sorted(tables) == ["corpora", "real", "replay", "shift", "sizes", "variants"]
    figures = {figure[:7].strip() for table in tables.values() for figure in table["figure"]}
    assert figures >= {f"fig. {k}" for k in (2, 3, 6, 11, 12, 14, 15, 16, 19, 20)}


def test_a_point_of_fig_3_by_hand(made):
    """The source loss at the end under a constant rate, with the sums of eq. 4 written out."""
    _, tables, _ = made
    row = tables["corpora"].query("figure.str.startswith('fig. 3') and run == 'constant' and eval == 'source'").iloc[-1]
    before = np.full(20_001, 2e-4)  # the warm-up counts at the peak
    before[16_000:] = 2e-4 * (1 - np.arange(4001) / 4000)
    after = np.concatenate([[0.0], 2e-4 * np.minimum(np.arange(1, 10_001) / 500, 1.0)])
    s2 = []
    for drops, left in ((-np.diff(before), 30_000), (-np.diff(after), 10_000)):
        s2.append(float(np.sum(drops * (1 - 0.999 ** (left - np.arange(len(drops)))) / (1 - 0.999))))
    s1 = before.sum(), after.sum()
    loss = 3.057 + 0.490 * sum(s1) ** -0.497 - 0.299 * s2[0] - 0.298 * s2[1] + 0.366 * (1 - (1 + 28 * s1[1]) ** -0.189)
    assert row["loss"] == pytest.approx(loss, abs=1e-9)


def test_pictures_where_the_extra_is_installed(made):
    _, _, folder = made
    drawn = sorted(path.name for path in folder.glob("*.html"))
    if importlib.util.find_spec("plotly") is None:
        assert drawn == []
    else:
        assert "corpora-source.html" in drawn
