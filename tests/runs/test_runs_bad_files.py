"""Bad files: missing, of another kind, cut off, damaged; and anything at all is read or refused in words."""

import contextlib
import gc
import gzip
import json
import os
import sqlite3
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_input import GOOD, HEADER, message_of, write
from facts import lacks, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cptlaw as cl
from cptlaw.errors import CptlawError, DataError
from cptlaw.runs import read_runs


def test_a_missing_file_suggests_near_names(tmp_path):
    write(tmp_path, HEADER + GOOD, "runs_final.csv")
    message = message_of(tmp_path / "run_final.csv")
    assert "no such file" in message
    assert lacks(message, "'runs_final.csv'") == []


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
    assert "without rows" in message
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
    assert lacks(message, "2 rows", "row 2", "6 fields", "row 3", "3 fields") == []


def test_a_short_row_is_not_hidden_by_a_quoted_delimiter(tmp_path):
    quoted = '"b,c",target,2.5,1M,20M,0.25,15\n'
    assert len(read_runs(write(tmp_path, HEADER + quoted + GOOD))) == 2
    assert "row 2" in message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25\n" + quoted + GOOD))


def test_a_short_row_is_not_hidden_by_a_long_one(tmp_path):
    message = message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25,15,16\nb,target,2.5,1M,20M,0.25\n" + GOOD))
    assert "row 2" in message
    assert "row 3" in message


def test_a_bare_pair_of_quotes_is_no_row(tmp_path):
    assert "quotes" in message_of(write(tmp_path, HEADER + GOOD + '""\n' + GOOD.replace("good", "b")))


def test_surplus_empty_fields_do_not_shift_columns(tmp_path):
    assert "8 fields" in message_of(write(tmp_path, HEADER + "a,target,2.5,1M,20M,0.25,15,\n" + GOOD))


def test_rows_after_a_quoted_line_break_keep_their_line(tmp_path):
    file = write(tmp_path, HEADER + '"two\nlines",target,2.5,1M,20M,0.25,15\nb,target,-1,1M,20M,0.25,15\n')
    assert lacks(message_of(file), "row 4", "'loss'", "-1") == []


def test_a_quote_that_is_never_closed(tmp_path):
    message = message_of(write(tmp_path, HEADER + GOOD + 'b,target,2.5,1M,20M,0.25,"15\n' + GOOD))
    assert "runs.csv" in message
    assert "quotes" in message or "truncated" in message


@pytest.mark.parametrize(
    ("mark", "name"), [(";", "runs.csv"), ("\t", "runs.csv"), ("|", "runs.csv"), (",", "runs.tsv")]
)
def test_another_delimiter_is_read_and_said(tmp_path, mark, name):
    runs = read_runs(write(tmp_path, (HEADER + GOOD).replace(",", mark), name))
    assert runs.frame["n_params"].tolist() == [1e6]
    assert any("separated by" in note for note in runs.notes)
    assert "row 3" in message_of(write(tmp_path, (HEADER + GOOD + "b,target,2.5\n").replace(",", mark), name))


@pytest.mark.parametrize(
    ("encoding", "parts"),
    [
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


def test_columns_are_bounded(tmp_path):
    packed = gzip.compress(b"loss" + b",a" * 1_000_000 + b"\n1" + b",1" * 1_000_000)  # kilobytes
    (tmp_path / "runs.csv.gz").write_bytes(packed)
    with refused(DataError, "1,000,001 columns", "5,000"):
        read_runs(tmp_path / "runs.csv.gz")


def test_damaged_gzip(tmp_path):
    packed = gzip.compress((HEADER + GOOD * 50).encode())
    assert "truncated" in message_of(write(tmp_path, packed[:-20], "runs.csv.gz"))
    assert "gzip" in message_of(write(tmp_path, HEADER, "runs.csv.gz"))


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
        assert lacks(message, "truncated", "Parquet") == []


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
CELLS = VALUES | st.dictionaries(st.text(max_size=2), VALUES, max_size=2)


@FUZZ
@given(
    st.lists(
        st.fixed_dictionaries(
            {"loss": VALUES, "tokens": VALUES, "other": CELLS},
            optional={"run": VALUES, "eval": VALUES, "step": VALUES, "domain": CELLS, "mix": CELLS},
        ),
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


def test_text_of_a_parquet_file_that_is_no_utf8_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xca")])
    columns = {"run": broken, "eval": ["target"], "loss": [2.0], "n_params": [1e6], "tokens": [1e6]}
    pq.write_table(pa.table(columns), tmp_path / "runs.parquet")
    with refused(CptlawError, "runs.parquet", "truncated"):
        read_runs(tmp_path / "runs.parquet")


def test_a_cell_that_is_a_list_is_no_traceback():
    frame = pd.DataFrame({"domain": ["a", "b"], "loss": [2.0, 2.1], "n_params": [[1e6], 1e6], "tokens": [1e6, 1e6]})
    with pytest.raises(CptlawError):
        read_runs(frame)


@pytest.mark.parametrize("rest", [{}, {"eval": "target"}, {"eval": "target", "domain": ["fr"]}])
def test_objects_within_lines_are_columns_with_joined_names(tmp_path, rest):
    lines = [{"step": step, "loss": 2.5 - step, "opt": {"lr": 0.1 * step, "name": "adam"}, **rest} for step in (1, 2)]
    file = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "log.jsonl")
    for source in (file, pd.DataFrame(lines)):
        runs = read_runs(source)
        assert runs.frame["lr"].tolist() == [0.1, 0.2]
        assert runs.frame["opt.name"].tolist() == ["adam", "adam"]
    twice = pd.DataFrame(lines).assign(**{"opt.lr": 1.0})
    assert lacks(message_of(twice), "'opt.lr'", "nested") == []


def test_what_a_packed_file_may_hold_is_bounded_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr("cptlaw.reading.LARGEST_UNPACKED", 1_000_000)
    packed = gzip.compress((HEADER + GOOD).encode() + b"\n" * 2_000_000)
    message = message_of(write(tmp_path, packed, "runs.csv.gz"))
    assert "more than 1 MB unpacked" in message
    monkeypatch.setattr("cptlaw.reading.MOST_LINES", 1000)
    packed = gzip.compress((HEADER + GOOD * 2000).encode())
    assert lacks(message_of(write(tmp_path, packed, "runs.csv.gz")), "1,000 lines") == []


def test_a_field_of_megabytes_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    """One of 400 MB took 2.5 GB."""
    monkeypatch.setattr("cptlaw.runs.csv_file.LONGEST", 1000)
    for text, what in (("x" * 2000, "a line"), ('"' + "x\n" * 600 + '"', "a quoted text")):
        message = message_of(write(tmp_path, (HEADER + GOOD + text).encode(), "runs.csv"))
        assert lacks(message, "runs.csv, row 3", what, "more than 0.001 MB") == []


@pytest.mark.dear("a sheet of a million rows")
def test_a_cell_in_the_last_corner_of_a_sheet_fills_no_memory(tmp_path):
    """A file of 5 KB would be 1,048,576 rows of 16,384 cells."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["run", "eval", "loss", "n_params", "tokens"], ["a", "target", 2.5, 1e6, 1e7]):
        book.active.append(row)
    book.active["XFD1048576"] = "x"
    book.save(tmp_path / "far.xlsx")
    tracemalloc.start()
    assert "row 1048576" in message_of(tmp_path / "far.xlsx")
    assert tracemalloc.get_traced_memory()[1] < 3e8
    tracemalloc.stop()


def test_rows_of_a_sheet_are_bounded(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["run", "loss"], *([f"a{i}", 2.0] for i in range(20))]:
        book.active.append(row)
    book.save(tmp_path / "runs.xlsx")
    assert len(read_runs(tmp_path / "runs.xlsx")) == 20
    monkeypatch.setattr("cptlaw.runs.spreadsheet.MOST_ROWS", 10)
    assert "more than 10 rows" in message_of(tmp_path / "runs.xlsx")


def sheet(path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["run", "eval", "loss"], ["a", "target", 2.5], ["b", "target", 2.6]):
        book.active.append(row)
    book.save(path)


def database(path):
    with contextlib.closing(sqlite3.connect(path)) as tables:
        tables.executescript(
            "create table metrics (id integer, run_name text, step integer, metrics text);"
            """insert into metrics values (1, 'a', 1, '{"eval/loss": 2.5}'), (2, 'a', 2, '{"eval/loss": 2.4}');"""
        )


def rows():
    return pd.DataFrame({"run": [*"ab"] * 99, "eval": "target", "loss": 2.5, "step": np.arange(198) // 2})


OPEN = Path("/proc/self/fd")  # one link for each open file
WRITERS = {
    "runs.xlsx": sheet,
    "runs.db": database,
    "runs.parquet": lambda path: rows().to_parquet(path),
    "runs.csv.gz": lambda path: rows().to_csv(path, index=False),
    "runs.jsonl.gz": lambda path: rows().to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_closed_again(name, tmp_path):
    """Wherever the damage lies, no reader leaves a file open behind the message."""
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    WRITERS[name](path := tmp_path / name)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    damaged = [whole[: int(len(whole) * share)] for share in (0.3, 0.9, 0.99)]
    for _ in range(5):
        content = bytearray(whole)
        content[int(rng.integers(len(whole)))] ^= 0xFF
        damaged.append(bytes(content))
    for content in damaged:
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            closed_again(path)


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml"])
def test_a_spreadsheet_with_a_damaged_part_is_closed_again(part, tmp_path):
    sheet(tmp_path / "whole.xlsx")
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as old, zipfile.ZipFile(tmp_path / "runs.xlsx", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[:-40] if name == part else old.read(name))
    with pytest.raises(DataError):
        closed_again(tmp_path / "runs.xlsx")


def closed_again(path):
    """Read a file, and fail if it is left open, whether it could be read or not, even while the error is kept."""
    error = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        try:
            cl.read(path)
        except CptlawError as of_reader:
            error = of_reader
        if OPEN.exists():
            assert str(path.resolve()) not in [os.path.realpath(one) for one in OPEN.iterdir()]
        gc.collect()
    assert [str(one.message) for one in said if issubclass(one.category, ResourceWarning)] == []
    if error is not None:
        raise error
