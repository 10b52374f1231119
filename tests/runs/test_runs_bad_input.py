"""Bad input: every message names file, row and column, what was found, what was expected, and the remedy."""

import pandas as pd
import pytest
from bad_input import GOOD, HEADER, message_of, write
from facts import lacks

from cptlaw.errors import DataError
from cptlaw.runs import read_runs
from cptlaw.runs.points import point


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("a,target,-1.5,1M,20M,0.25,15", ["column 'loss'", "-1.5", "above 0", "remove the row"]),
        ("a,target,0,1M,20M,0.25,15", ["column 'loss'", "found 0", "above 0"]),
        ("a,target,nan,1M,20M,0.25,15", ["column 'loss'", "nothing, or NaN", "finite"]),
        ("a,target,,1M,20M,0.25,15", ["column 'loss'", "nothing, or NaN", "finite"]),
        ("a,target,inf,1M,20M,0.25,15", ["column 'loss'", "found inf", "finite"]),
        ("a,target,-inf,1M,20M,0.25,15", ["column 'loss'", "found -inf", "finite"]),
        ("a,target,high,1M,20M,0.25,15", ["column 'loss'", "'high'", "a finite number", "8.1B"]),
        ("a,target,2.5,0,20M,0.25,15", ["column 'n_params'", "found 0", "above 0", "leave the field empty"]),
        ("a,target,2.5,-1e6,20M,0.25,15", ["column 'n_params'", "-1000000", "above 0"]),
        ("a,target,2.5,8.1,20M,0.25,15", ["column 'n_params'", "found 8.1", "raw parameters", "write 8.1B"]),
        (
            "a,target,2.5,1M,72,0.25,15",
            ["column 'tokens'", "found 72", "raw tokens", "If billions are meant write 72B"],
        ),
        ("a,target,2.5,1M,-5e9,0.25,15", ["column 'tokens'", "-5000000000", "0 or more"]),
        ("a,target,2.5,1M,inf,0.25,15", ["column 'tokens'", "inf", "finite"]),
        (
            "a,target,2.5,1M,20M,34,15",
            ["column 'replay'", "found 34", "from 0 to 1", "If 34 percent is meant write 34% or 0.34"],
        ),
        ("a,target,2.5,1M,20M,-0.1,15", ["column 'replay'", "-0.1", "from 0 to 1"]),
        ("a,target,2.5,1M,20M,340,15", ["column 'replay'", "340", "from 0 to 1", "Repair"]),
        ("a,target,2.5,1M,20M,0.25,0", ["column 'ptpp'", "found 0", "above 0"]),
        ("a,target,2.5,1M,20M,0.25,-31", ["column 'ptpp'", "-31", "above 0"]),
        ("a,target,2.5,1M,20M,0.25,many", ["column 'ptpp'", "'many'", "Write a plain number"]),
        ('a,target,2.5,"1,00,0",20M,0.25,15', ["column 'n_params'", "'1,00,0'", "Write a plain number"]),
        ("a,target,2.5,1M,1e999999B,0.25,15", ["column 'tokens'", "'1e999999B'", "finite"]),
        (",target,2.5,1M,20M,0.25,15", ["column 'run'", "nothing", "id of one training run", "Fill the field"]),
        ("a,,2.5,1M,20M,0.25,15", ["column 'eval'", "nothing", "name of a validation set"]),
        (
            "good,target,2.6,1M,20M,0.25,15",
            [
                "columns 'run', 'eval', 'tokens'",
                "run 'good', eval 'target', tokens 20000000 again (as row 2)",
                "once",
                "Remove the repeats",
            ],
        ),
        ("a,target,2.5,1M,20M,0.25", ["column 'ptpp'", "truncated", "7 fields", "copied to the end"]),
        (
            "a,target,2.5,1M,20M,0.25,15,16",
            ["columns 'run' to 'ptpp'", "8 fields", "Expected 7 fields", "Remove the surplus"],
        ),
    ],
)
def test_a_bad_row(tmp_path, row, parts):
    # Blank lines must not shift the number of the row.
    file = write(tmp_path, f"{HEADER}{GOOD}\n\n{row}\n")
    message = message_of(file)
    for part in (str(file), "row 5", *parts):
        assert part in message


def test_all_bad_rows_are_counted_and_the_first_five_shown(tmp_path):
    rows = "".join(f"r{k},target,-{k}.5,1M,20M,0.25,15\n" for k in range(1, 10))
    message = message_of(write(tmp_path, HEADER + GOOD + rows))
    assert (
        lacks(message, "9 rows", "row 3", "-1.5", "row 4", "-2.5", "row 5", "-3.5", "row 6", "-4.5", "row 7", "-5.5")
        == []
    )
    assert "row 8" not in message


def test_several_problems_are_told_together(tmp_path):
    message = message_of(write(tmp_path, f"{HEADER}a,target,-1,1M,72,34,15\nb,target,x,0,20M,0.1,15\n"))
    assert message.startswith("5 problems:\n  1. ")
    for part in ("column 'loss': found 'x'", "column 'loss': found -1", "'n_params': found 0", "'tokens': found 72"):
        assert part in message
    assert "'replay': found 34" in message
    assert message.count("runs.csv, row ") == 5


def test_rows_of_a_data_frame_are_counted_from_0():
    table = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, -1.0]}, index=["x", "y"])
    assert lacks(message_of(table), "row 1", "'loss'", "-1") == []


def test_rows_of_json_lines_are_lines(tmp_path):
    file = write(tmp_path, '{"run": "a", "loss": 2}\n\n{"run": "b", "loss": "low"}\n', "runs.jsonl")
    assert lacks(message_of(file), f"{file}, row 3", "'loss'", "'low'") == []


def test_the_name_in_the_file_is_told_too(tmp_path):
    file = write(tmp_path, "run_id,val_loss\na,-2\n")
    assert lacks(message_of(file), "row 2", "'loss'", "'val_loss'", "-2") == []


@pytest.mark.parametrize("value", [True, "x", [1], {"a": 1}, pd.Timestamp("2024-01-01"), 1 + 2j, b"2"])
def test_what_is_no_number_is_refused_in_a_data_frame(value):
    table = pd.DataFrame({"run": ["a", "b"], "loss": pd.Series([2.0, value], dtype=object)})
    assert "row 1, column 'loss'" in message_of(table)


def test_a_column_of_truth_values_is_no_column_of_numbers():
    assert "'True'" in message_of(pd.DataFrame({"run": ["a"], "loss": [True]}))


def test_huge_integers_do_not_crash():
    table = pd.DataFrame({"run": ["a"], "loss": [2.0], "tokens": pd.Series([10**400], dtype=object)})
    assert "column 'tokens'" in message_of(table)


# Repeats


def test_repeats_by_step_where_there_is_one():
    table = pd.DataFrame({"run": ["a"] * 3, "loss": [2.0, 1.9, 1.8], "step": [1, 2, 2], "tokens": [1e6] * 3})
    message = message_of(table)
    assert lacks(message, "row 2", "'run'", "'eval'", "'step'", "'a'", "'target'", "step 2", "row 1") == []


def test_repeats_need_the_same_missing_step_too():
    table = pd.DataFrame(
        {"run": ["a"] * 3, "loss": [2.0, 1.9, 1.8], "step": [1, None, None], "tokens": [1e6, 2e6, 3e6]}
    )
    assert len(read_runs(table)) == 3
    assert "(as row 1)" in message_of(table.assign(tokens=[1e6, 2e6, 2e6]))


def test_repeats_without_an_eval_are_told_apart_by_the_domain_alone():
    table = pd.DataFrame({"run": ["a", "a"], "loss": [2.0, 1.9], "tokens": [1e6, 1e6], "domain": ["fr", "en"]})
    runs = read_runs(table)
    assert runs.frame["eval"].tolist() == ["fr", "en"]
    assert any(not lacks(note, "'domain'", "eval") for note in runs.notes)
    named = table.rename(columns={"domain": "data_set"})
    assert lacks(message_of(named), "columns={'eval': 'data_set'}") == []
    assert len(read_runs(named, columns={"eval": "data_set"})) == 2


def test_repeats_that_differ_in_the_seed_are_runs_of_their_own():
    table = pd.DataFrame({"run": ["a", "a"], "eval": "x", "loss": [2.0, 1.9], "tokens": [1e6, 1e6], "seed": [0, 1]})
    assert read_runs(table).frame["run"].nunique() == 2
    assert lacks(message_of(table.rename(columns={"seed": "shard"})), "'shard'") == []


# What losses and sizes are counted in


def test_two_tokenizers_in_one_eval():
    table = pd.DataFrame(
        {"run": ["a", "b", "c"], "eval": ["x", "x", "y"], "loss": 2.0, "tokenizer": ["bpe", "bytes", "bpe"]}
    )
    message = message_of(table)
    assert lacks(message, "'tokenizer'", "'x'", "bpe (row 0)", "bytes (row 1)") == []
    assert len(read_runs(table.assign(eval=["x", "y", "x"]))) == 3


def test_mixed_kinds_of_size():
    table = pd.DataFrame({"run": ["a", "b"], "loss": 2.0, "n_params": 1e6, "n_params_kind": ["total", "non_embedding"]})
    message = message_of(table)
    assert lacks(message, "'n_params_kind'", "non_embedding (row 1)", "total (row 0)") == []
    assert "in one kind" in message


def test_an_unknown_kind_of_size():
    table = pd.DataFrame({"run": ["a", "b"], "loss": 2.0, "n_params": 1e6, "n_params_kind": ["total", "active"]})
    message = message_of(table)
    assert lacks(message, "row 1", "'n_params_kind'", "'active'", "non_embedding", "total") == []


# Columns


def test_no_loss_column(tmp_path):
    message = message_of(write(tmp_path, "run,my_best_loss\na,2\n"))
    for part in ("runs.csv", "column 'loss'", "missing", "'my_best_loss'", "columns={'loss'"):
        assert part in message


def test_no_header(tmp_path):
    assert "first line" in message_of(write(tmp_path, "a,target,2.5\nb,target,2.4\n"))


def test_a_column_twice(tmp_path):
    message = message_of(write(tmp_path, "run,loss,loss\na,2,3\n"))
    assert lacks(message, "'loss'", "2 times") == []
    assert "rename or remove" in message


def test_columns_of_several_levels():
    table = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("loss", "a"), ("loss", "b")]))
    assert "several levels" in message_of(table)


# Files


def test_half_a_character_beside_repeated_rows_is_no_traceback():
    rows = {"run": ["a", "a"], "eval": ["target"] * 2, "loss": [2.0, 1.9], "tokens": [1e9] * 2, "note": ["\ud800", 1]}
    with pytest.raises(DataError, match="again"):
        read_runs(pd.DataFrame({**rows, "note": pd.Series(rows["note"], dtype=object)}))


@pytest.mark.parametrize("odd", [{"run": "\ud800", "lr": 1e-3}, {"mix": {"code": "\ud800"}, "replay": None}])
def test_half_a_character_ends_in_a_message_or_in_runs(odd):
    frame = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 2.1], "n_params": 1e6, "tokens": [1e6, 2e6], "ptpp": 20.0})
    for name, value in odd.items():
        frame[name] = pd.Series([value, "b" if name == "run" else value], dtype=object)
    try:
        assert len(read_runs(frame.dropna(axis=1))) == 2
    except DataError as error:
        assert "0.25" in str(error) or "number" in str(error)  # noqa: PT017  either is right


def test_half_a_character_in_a_filter_or_a_point_names_a_run_as_it_is_shown():
    runs = read_runs(pd.DataFrame({"run": ["\\ud800", "b"], "loss": [2.0, 2.1], "n_params": 1e6, "tokens": 1e6}))
    assert len(runs.where("run == '\ud800'")) == 1
    assert point("run=\ud800,tokens=1M")["run"].tolist() == ["\\ud800"]
