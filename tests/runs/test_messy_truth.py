"""Tables that nobody made for us: each is read as the truth, at once or as its one message says, or it is refused."""

import json
import string

import numpy as np
import pandas as pd
import pytest
from facts import refused
from messy_truth import TABLES, TRUTH, truth

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import CptlawError
from cptlaw.runs import UnreadColumnError, refuse_unread

INPUTS = ["n_params", "tokens", "replay", "ptpp", "lr_peak"]


def run(capsys, *words):
    """Return exit code, what was printed, and what was said."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def assert_is_truth(runs):
    of_point = ["run", "eval"]
    found, expected = (
        one.frame[[*of_point, "loss", *INPUTS]].astype(dict.fromkeys(of_point, str)).sort_values(of_point)
        for one in (runs, cl.read_runs(TRUTH))
    )
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-6)


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_each_table_is_read_as_the_truth_in_two_commands(tmp_path, capsys, table):
    """The same rows are the same plan to the last bit; one table is answered from, below."""
    path = tmp_path / table.name
    if table.name.endswith("xlsx"):
        pytest.importorskip("openpyxl", reason="spreadsheets are written with openpyxl")
    table.write(path)
    code, out, _ = run(capsys, "read", path, "--json")
    reading = json.loads(out)
    if table.refused:
        assert code == 2
        assert reading["open"]
        return
    assert {one["name"] for one in reading["open"] if one["explains"]} == set(table.asked)
    assert code == (2 if table.asked else 0)
    if table.asked:
        # What is right is the first that is proposed, or among what else is.
        offered = [choice for one in reading["open"] for choice in one["choices"]]
        assert {f"{name}={place}" for name, place in table.replies.items()} <= set(offered)
        replies = ",".join(f"{name}={place}" for name, place in table.replies.items())
        code, _, err = run(capsys, "read", path, "--columns", replies)
        assert code == 0, err
        assert (tmp_path / f"{table.name}.cptlaw.yaml").is_file()
    runs = cl.read_runs(path)
    refuse_unread(runs)
    assert_is_truth(runs)


@pytest.mark.parametrize("name", ["rr.csv", "complement.csv", "percent.csv", "percent_of_new.csv", "compute.csv"])
def test_the_likeliest_choice_is_the_right_one(tmp_path, name):
    table = next(table for table in TABLES if table.name == name)
    table.write(tmp_path / name)
    (asked,) = cl.read(tmp_path / name).open
    ((column, place),) = table.replies.items()
    assert asked.choices[0] == f"{column}={place}"


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_setting_is_called_no_answer_ignores_it(seed):
    draw = np.random.default_rng(seed)
    column = ("replay", "tokens", "ptpp", "n_params")[seed % 4]
    word = "".join(draw.choice(list(string.ascii_lowercase), size=int(draw.integers(2, 9))))
    name = f"{word}{draw.choice(['', '_x', '.a', '/b'])}"
    frame = truth().rename(columns={column: name})
    with pytest.raises(CptlawError) as refused:
        cl.answer(frame, n_params="500M", tokens="2B", ptpp=100, max_forgetting="10%")
    assert isinstance(refused.value, UnreadColumnError)
    assert name in {one.name for one in refused.value.asked}
    assert name in str(refused.value)


@pytest.mark.dear("two answers from runs")
def test_an_answer_after_the_replies_is_that_from_the_truth(tmp_path, capsys):
    table = next(table for table in TABLES if table.name == "all_at_once.csv")
    path = tmp_path / table.name
    table.write(path)
    asked = ["--n-params", "500M", "--ptpp", "100", "--tokens", "2B", "--max-forgetting", "10%"]
    code, out, err = run(capsys, "answer", path, *asked)
    assert (code, out) == (2, "")
    for name in table.asked:
        assert repr(name) in err
    replies = ",".join(f"{name}={place}" for name, place in table.replies.items())
    code, out, _ = run(capsys, "answer", path, *asked, "--columns", replies, "--json")
    expected = cl.answer(TRUTH, n_params="500M", ptpp=100, tokens="2B", max_forgetting="10%")
    assert json.loads(out)["replay"] == pytest.approx(expected.replay, abs=0.015)
    assert json.loads(out)["forgetting"] == pytest.approx(expected.forgetting)


def test_a_fit_goes_on_with_a_warning():
    frame = truth().rename(columns={"replay": "rr"})
    fit = cl.fit("chinchilla", frame, on="target", starts=4)
    found = [finding for finding in fit.findings if finding.code == "unread-column"]
    assert [finding.severity for finding in found] == ["warning"]
    assert "rr" in found[0].message
    assert "replay=rr" in found[0].advice


def test_a_column_that_varies_in_other_rows_alone_does_no_harm():
    frame = truth()
    other = frame.assign(run="b" + frame["run"], loss=1.2 * frame["loss"], optimizer="sam")
    both = pd.concat([frame.assign(optimizer="adamw"), other])
    runs = cl.read_runs(both)
    with pytest.raises(UnreadColumnError, match="optimizer"):
        refuse_unread(runs)
    refuse_unread(runs, "optimizer == 'adamw'")


def test_replies_are_kept_and_overruled(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    truth().rename(columns={"replay": "rr"}).to_csv(path, index=False)
    assert run(capsys, "read", path, "--columns", "replay=1-rr")[0] == 0
    assert cl.read_runs(path).frame["replay"].max() == 1.0
    assert run(capsys, "read", path, "--columns", "replay=rr")[0] == 0
    kept = tmp_path / "runs.csv.cptlaw.yaml"
    assert "replay: rr" in kept.read_text()
    runs = cl.read_runs(path)
    assert any("replay=rr" in note for note in runs.notes)
    assert_is_truth(runs)
    kept.write_text("colums: {replay: rr}\n")
    with refused(CptlawError, "'columns'"):
        cl.read_runs(path)


def test_columns_that_are_no_setting_ask_nothing():
    frame = truth()
    rng = np.random.default_rng(1)
    steps = rng.normal(size=len(frame))
    frame = frame.assign(
        train_loss=frame["loss"] - 0.1 + 0.001 * steps,
        wall_seconds=frame["tokens"] / 1e5 * (1 + 0.01 * steps),
        date=[f"2026-01-{1 + row % 28:02d}" for row in range(len(frame))],
        seed=rng.integers(0, 3, len(frame)),
        gpus=np.where(frame["n_params"] > 1e8, 16, 8),
        flops=6 * frame["n_params"] * frame["tokens"],
        note=rng.choice(["", "rerun", "ok"], len(frame)),
    )
    assert cl.read(frame).open == ()
    refuse_unread(cl.read_runs(frame))
