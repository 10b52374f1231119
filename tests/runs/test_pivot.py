"""Pivot tables, and models by their names: one row per loss, with size, tokens and mix as the layout tells them."""

import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.runs.pivot import header_of_two

INPUTS = ["replay", "tokens", "eval", "loss"]


def long():
    cells = [(r, d, e) for r in (0.0, 0.25, 0.5) for d in (1e9, 2e9, 4e9) for e in ("source", "target")]
    rows = [(*cell, 2 + cell[1] / 1e10 + cell[0] * (0.1 if cell[2] == "target" else -0.1)) for cell in cells]
    return pd.DataFrame(rows, columns=INPUTS)


def assert_is(runs, expected):
    found = runs.frame[INPUTS].astype({"eval": str}).sort_values(INPUTS).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected.sort_values(INPUTS).reset_index(drop=True))


@pytest.mark.parametrize("corner", ["replay", r"replay \ tokens", "replay vs tokens"])
def test_rows_of_replay_and_columns_of_tokens(tmp_path, corner):
    target = long().query("eval == 'target'")
    table = target.pivot(index="replay", columns="tokens", values="loss").rename(columns=lambda d: f"{d / 1e9:g}B")
    table.rename_axis(corner).to_csv(tmp_path / "pivot.csv")
    assert_is(cl.read_runs(tmp_path / "pivot.csv"), target)


def test_rows_of_tokens_and_columns_of_replay(tmp_path):
    target = long().query("eval == 'target'")
    table = target.pivot(index="tokens", columns="replay", values="loss").rename(columns=lambda r: f"{100 * r:g}%")
    table.to_csv(tmp_path / "pivot.csv")
    runs = cl.read_runs(tmp_path / "pivot.csv")
    assert_is(runs, target)
    assert runs.frame["run"].nunique() == 9


@pytest.mark.parametrize("levels", [["tokens", "eval"], ["eval", "tokens"]])
def test_a_header_of_two_levels_as_pandas_writes_it(tmp_path, levels):
    long().pivot(index="replay", columns=levels, values="loss").to_csv(tmp_path / "two.csv")
    assert_is(cl.read_runs(tmp_path / "two.csv"), long())


def test_a_header_of_two_levels_as_a_spreadsheet_saves_it(tmp_path):
    lines = [",1B,,2B,,4B,", "replay" + 3 * ",source loss,target loss"]
    for replay, rows in long().groupby("replay"):
        rows = rows.sort_values(["tokens", "eval"])
        lines.append(",".join([str(replay), *map(repr, map(float, rows["loss"]))]))
    (tmp_path / "two.csv").write_text("\n".join(lines) + "\n")
    assert_is(cl.read_runs(tmp_path / "two.csv"), long())


def test_a_header_of_one_line_is_left_alone():
    assert header_of_two([["run", "a", "b"], ["x", "1", "2"], ["y", "3", "4"]]) is None
    assert header_of_two([["run", "method", "loss"], ["x", "full", "2.1"], ["y", "lora", "2.2"]]) is None
    assert header_of_two([["run", "eval", "loss"], ["x", "fr", "nan"], ["y", "fr", "2.2"]]) is None
