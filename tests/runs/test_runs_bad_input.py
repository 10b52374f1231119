"""Bad input: every message names file, row and column, what was found, what was expected, and the remedy."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cptlaw.errors import CptlawError, DataError
from cptlaw.runs import read_runs

HEADER = "run,eval,loss,n_params,tokens,replay,ptpp\n"
GOOD = "good,target,2.5,1M,20M,0.25,15\n"


def message_of(source, **kwargs):
    with pytest.raises(DataError) as caught:
        read_runs(source, **kwargs)
    return str(caught.value)


def write(tmp_path, content, name="runs.csv"):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


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
        ('a,target,2.5,"1,000,000",20M,0.25,15', ["column 'n_params'", "'1,000,000'", "Write a plain number"]),
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
        "9 rows: row 3 has -1.5; row 4 has -2.5; row 5 has -3.5; row 6 has -4.5; row 7 has -5.5; and 4 more" in message
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
    assert "DataFrame, row 1, column 'loss': found -1" in message_of(table)


def test_rows_of_json_lines_are_lines(tmp_path):
    file = write(tmp_path, '{"run": "a", "loss": 2}\n\n{"run": "b", "loss": "low"}\n', "runs.jsonl")
    assert f"{file}, row 3, column 'loss': found 'low'" in message_of(file)


def test_the_name_in_the_file_is_told_too(tmp_path):
    file = write(tmp_path, "run_id,val_loss\na,-2\n")
    assert "row 2, column 'loss' ('val_loss' in the file): found -2" in message_of(file)


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
    assert "row 2, columns 'run', 'eval', 'step': found run 'a', eval 'target', step 2 again (as row 1)" in message


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
    assert any("column 'domain' is read as the name of the eval" in note for note in runs.notes)
    named = table.rename(columns={"domain": "data_set"})
    assert "columns={'eval': 'data_set'}" in message_of(named)
    assert len(read_runs(named, columns={"eval": "data_set"})) == 2


def test_repeats_that_differ_in_the_seed_say_so():
    table = pd.DataFrame({"run": ["a", "a"], "eval": "x", "loss": [2.0, 1.9], "tokens": [1e6, 1e6], "seed": [0, 1]})
    assert "differ in 'seed': make it a part of the name of the run" in message_of(table)


# What losses and sizes are counted in


def test_two_tokenizers_in_one_eval():
    table = pd.DataFrame(
        {"run": ["a", "b", "c"], "eval": ["x", "x", "y"], "loss": 2.0, "tokenizer": ["bpe", "bytes", "bpe"]}
    )
    message = message_of(table)
    assert "column 'tokenizer': eval 'x' mixes bpe (row 0), bytes (row 1)" in message
    assert "eval of its own" in message
    assert len(read_runs(table.assign(eval=["x", "y", "x"]))) == 3


def test_mixed_kinds_of_size():
    table = pd.DataFrame({"run": ["a", "b"], "loss": 2.0, "n_params": 1e6, "n_params_kind": ["total", "non_embedding"]})
    message = message_of(table)
    assert "'n_params_kind' mixes non_embedding (row 1), total (row 0)" in message
    assert "in one kind" in message


def test_an_unknown_kind_of_size():
    table = pd.DataFrame({"run": ["a", "b"], "loss": 2.0, "n_params": 1e6, "n_params_kind": ["total", "active"]})
    message = message_of(table)
    assert "row 1, column 'n_params_kind': found 'active'. Expected non_embedding or total" in message


# Columns


def test_no_loss_column(tmp_path):
    message = message_of(write(tmp_path, "run,final_val_loss\na,2\n"))
    for part in ("runs.csv", "column 'loss'", "missing", "'final_val_loss'", "columns={'loss'"):
        assert part in message


def test_no_header(tmp_path):
    assert "The first line seems to hold data" in message_of(write(tmp_path, "a,target,2.5\nb,target,2.4\n"))


def test_a_column_twice(tmp_path):
    message = message_of(write(tmp_path, "run,loss,loss\na,2,3\n"))
    assert "column 'loss' appears 2 times" in message
    assert "rename or remove" in message


def test_columns_of_several_levels():
    table = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("loss", "a"), ("loss", "b")]))
    assert "several levels" in message_of(table)


# Files


def test_a_missing_file_suggests_near_names(tmp_path):
    write(tmp_path, HEADER + GOOD, "runs_final.csv")
    message = message_of(tmp_path / "run_final.csv")
    assert "no such file" in message
    assert "Did you mean 'runs_final.csv'" in message


def test_a_missing_folder(tmp_path):
    assert "folder" in message_of(tmp_path / "nowhere" / "runs.csv")


def test_a_folder(tmp_path):
    assert "is a folder" in message_of(tmp_path)


def test_a_path_that_cannot_be():
    assert "Check the path" in message_of("runs\x00.csv")


@pytest.mark.parametrize("name", ["runs.xlsx", "runs.pkl", "runs", "runs.txt", "runs.gz"])
def test_an_unknown_ending(tmp_path, name):
    message = message_of(write(tmp_path, HEADER + GOOD, name))
    assert ".csv" in message
    assert "save the table as CSV" in message


@pytest.mark.parametrize("name", ["runs.csv", "runs.jsonl", "runs.parquet"])
@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_file(tmp_path, name, content):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
        content = b""
    message = message_of(write(tmp_path, content, name))
    assert name in message
    assert "empty" in message


def test_a_header_without_rows(tmp_path):
    message = message_of(write(tmp_path, HEADER))
    assert "a header without rows" in message
    assert "all rows are empty" in message_of(write(tmp_path, HEADER + ",,,,,,\n"))
    assert "no rows" in message_of(pd.DataFrame({"loss": []}))
    assert "no rows" in message_of(write(tmp_path, "[]", "runs.json"))


@pytest.mark.parametrize(
    ("cut", "column"),
    [("b,target,2.5,1M", "tokens"), ("b", "eval"), ('b,"tar', "loss"), ("b,target,", "n_params")],
)
def test_a_truncated_csv(tmp_path, cut, column):
    message = message_of(write(tmp_path, HEADER + GOOD + cut))
    for part in ("runs.csv, row 3", f"column '{column}'", "truncated", "Expected 7 fields", "remove the last line"):
        assert part in message


def test_short_rows_anywhere_are_found(tmp_path):
    rows = "a,target,2.5,1M,20M,0.25\nb,target,2.5\n"
    message = message_of(write(tmp_path, HEADER + rows + GOOD))
    assert "2 rows: row 2 has 6 fields; row 3 has 3 fields" in message
    assert "Fill the missing fields" in message


def test_a_short_row_is_not_hidden_by_a_quoted_delimiter(tmp_path):
    quoted = '"b,c",target,2.5,1M,20M,0.25,15\n'
    assert len(read_runs(write(tmp_path, HEADER + quoted + GOOD))) == 2
    assert "row 2" in message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25\n" + quoted + GOOD))


def test_a_short_row_is_not_hidden_by_a_long_one(tmp_path):
    message = message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25,15,16\nb,target,2.5,1M,20M,0.25\n" + GOOD))
    assert "row 2" in message
    assert "row 3" in message


def test_a_bare_pair_of_quotes_is_no_row(tmp_path):
    assert "bare pair of quotes" in message_of(write(tmp_path, HEADER + GOOD + '""\n' + GOOD.replace("good", "b")))


def test_surplus_empty_fields_do_not_shift_columns(tmp_path):
    assert "8 fields" in message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25,15,\n" + GOOD))


def test_rows_after_a_quoted_line_break_keep_their_line(tmp_path):
    file = write(tmp_path, HEADER + '"two\nlines",target,2.5,1M,20M,0.25,15\nb,target,-1,1M,20M,0.25,15\n')
    assert "row 4, column 'loss': found -1" in message_of(file)


def test_a_quote_that_is_never_closed(tmp_path):
    message = message_of(write(tmp_path, HEADER + GOOD + 'b,target,2.5,1M,20M,0.25,"15\n' + GOOD))
    assert "runs.csv" in message
    assert "quotes" in message or "truncated" in message


def test_semicolons(tmp_path):
    message = message_of(write(tmp_path, "run;eval;loss\na;target;2,5\n"))
    assert "separated by semicolons" in message
    assert "Expected commas" in message


def test_tabs_and_commas_confused(tmp_path):
    assert "named .tsv" in message_of(write(tmp_path, "run\tloss\na\t2\n"))
    assert "Expected tabs" in message_of(write(tmp_path, "run,loss\na,2\n", "runs.tsv"))


@pytest.mark.parametrize(
    ("encoding", "parts"),
    [
        ("utf-16", ["UTF-16", "ff fe", "Save it as UTF-8"]),
        ("utf-16-le", ["row 1", "zero byte at byte 1", "UTF-16", "Save it as UTF-8"]),
        ("utf-32", ["UTF-32", "Save it as UTF-8"]),
        ("latin-1", ["row 3", "byte 0xe9", "not UTF-8", repr("\xe9"), "Save it as UTF-8"]),
    ],
)
def test_a_wrong_encoding(tmp_path, encoding, parts):
    content = (HEADER + GOOD + "caf\xe9,target,2.5,1M,20M,0.25,15\n").encode(encoding)
    message = message_of(write(tmp_path, content))
    for part in ("runs.csv", *parts):
        assert part in message
    if encoding == "latin-1":
        assert f"at byte {content.index(0xE9)}" in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"PK\x03\x04rest", "spreadsheet"),
        (gzip.compress(b"x", mtime=0), "end in .gz"),
        (b"PAR1....PAR1", "end in .parquet"),
    ],
)
def test_a_file_of_another_kind(tmp_path, content, part):
    assert part in message_of(write(tmp_path, content))


def test_damaged_gzip(tmp_path):
    packed = gzip.compress((HEADER + GOOD * 50).encode())
    assert "truncated" in message_of(write(tmp_path, packed[:-20], "runs.csv.gz"))
    assert "not a gzip file" in message_of(write(tmp_path, HEADER, "runs.csv.gz"))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('{"run": "a", "loss": 2}\n{"run": "b", "lo', ["row 2", "last line is truncated", "remove the last line"]),
        ('{"run": "a", "loss": 2}\n{run: b}\n{"run": "c", "loss": 2}\n', ["row 2", "not JSON", "one object per line"]),
        ('{"run": "a", "loss": 2}\n[1, 2]\n', ["row 2", "[1, 2]", "one object per line"]),
        ('{"run": "a", "loss": 2}, {"run": "b", "loss": 2}\n', ["row 1"]),
        ('{\n"run": {"0": "a"}\n}\n', ["row 1", "one object per line"]),
        ('[{"run": "a", "loss": 2}, {"run"', ["truncated"]),
        ("[" * 100_000, ["truncated or not JSON"]),
        ("{}\n{}\n", ["empty"]),
    ],
)
def test_bad_json(tmp_path, content, parts):
    message = message_of(write(tmp_path, content, "runs.jsonl"))
    for part in ("runs.jsonl", *parts):
        assert part in message


def test_a_truncated_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "runs.parquet"
    pd.DataFrame({"run": ["a"] * 500, "loss": 2.0, "step": range(500)}).to_parquet(file)
    content = file.read_bytes()
    for damaged in (content[:-30], content[:40], b"PAR1" + content[200:], HEADER.encode()):
        message = message_of(write(tmp_path, damaged, "runs.parquet"))
        assert "runs.parquet" in message
        assert "truncated, or not Parquet" in message


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FIELDS = st.sampled_from(
    ["a", "target", "2.5", "-1", "", "nan", "34%", "8.1B", '"', '""', "\n", ",", ";", "\r", " ", "\xe9", "1e999"]
)


@FUZZ
@given(st.lists(FIELDS, max_size=30))
def test_any_csv_is_read_or_refused_in_words(tmp_path, fields):
    file = write(tmp_path, "run,loss,replay\n" + ",".join(fields))
    try:
        read_runs(file)
    except CptlawError:
        return


@FUZZ
@given(st.binary(max_size=200), st.sampled_from(["runs.csv", "runs.tsv", "runs.jsonl", "runs.csv.gz", "runs.parquet"]))
def test_any_bytes_are_read_or_refused_in_words(tmp_path, content, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    file = write(tmp_path, content, name)
    try:
        read_runs(file)
    except CptlawError:
        return


VALUES = (
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
)


@FUZZ
@given(
    st.lists(
        st.fixed_dictionaries({"run": VALUES, "loss": VALUES, "tokens": VALUES, "other": VALUES}),
        min_size=1,
        max_size=5,
    )
)
def test_any_values_are_read_or_refused_in_words(records):
    try:
        runs = read_runs(pd.DataFrame(records, dtype=object))
    except CptlawError:
        return
    assert np.isfinite(runs.frame["loss"]).all()
    assert repr(runs)
    assert runs.fingerprint


def test_half_a_character_beside_repeated_rows_is_no_traceback():
    rows = {"run": ["a", "a"], "eval": ["target"] * 2, "loss": [2.0, 1.9], "tokens": [1e9] * 2, "note": ["\ud800", 1]}
    with pytest.raises(DataError, match="again"):
        read_runs(pd.DataFrame({**rows, "note": pd.Series(rows["note"], dtype=object)}))
