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


def test_models_by_their_names_have_sizes_and_tokens():
    names = ["Qwen2.5-1.5B", "Qwen/Qwen2.5-0.5B"]
    table = pd.DataFrame({"model": names, "replay": 0.1, "tokens": 1e9, "source_loss": 2.2, "target_loss": 2.5})
    runs = cl.read_runs(table)
    known = cl.bases().set_index("name").loc[["qwen2.5-1.5b", "qwen2.5-0.5b"]]
    of_source = runs.on("source").frame
    assert of_source["n_params"].tolist() == known["n_params"].tolist()
    assert of_source["ptpp"].tolist() == pytest.approx(known["ptpp"].tolist())
    assert {one.name: one.meaning for one in cl.read(table).columns}["model"] == "used as the notes say"


def test_of_models_that_nobody_knows_the_name_tells_the_size():
    table = pd.DataFrame({"model": ["ours-350M", "ours-1.4b-v2"], "tokens": 1e9, "loss": [2.6, 2.2]})
    runs = cl.read_runs(table)
    assert runs.frame["n_params"].tolist() == [350e6, 1.4e9]
    assert "pt_tokens" not in runs.frame


def test_names_of_runs_or_settings_are_no_models():
    table = pd.DataFrame({"note": ["take 2B", "take 4B"], "tokens": 1e9, "loss": [2.6, 2.2]})
    assert "n_params" not in cl.read_runs(table).frame


@pytest.mark.parametrize("name", ["tokens_per_param", "tokens per parameter", "tpp"])
def test_tokens_per_parameter_are_tokens_where_nothing_else_counts_them(name):
    table = pd.DataFrame({"params": ["100M", "200M"], name: [20, 40], "loss": [3.2, 2.9]})
    assert cl.read_runs(table).frame["tokens"].tolist() == [2e9, 8e9]
    assert cl.read_runs(table.assign(tokens=1e9, replay=0.1)).frame["ptpp"].tolist() == [20, 40]
