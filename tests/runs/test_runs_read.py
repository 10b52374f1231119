"""Reading: every format and DataFrame gives the same runs."""

import builtins
import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import Runs, json_file, read_runs
from cptlaw.runs.convert import to_numbers
from cptlaw.runs.points import as_points

CSV = """run,eval,loss,n_params,tokens,replay,ptpp,step,lr,note
a,source,2.5,8.1B,0,,15,0,,base
a,target,3.125,8.1B,0,,15,0,,base
b,source,2.75,517M,1e9,34%,15,100,0.0003,
b,target,2.0000000000000004,517000000,1B,0.34,15,100,3e-4,x
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text(CSV, encoding="utf-8")
    return file


@pytest.fixture
def plain():
    """The same table as plain numbers."""
    return pd.DataFrame(
        {
            "run": ["a", "a", "b", "b"],
            "eval": ["source", "target"] * 2,
            "loss": [2.5, 3.125, 2.75, 2.0000000000000004],
            "n_params": [8_100_000_000, 8_100_000_000, 517_000_000, 517_000_000],
            "tokens": [0, 0, 1_000_000_000, 1_000_000_000],
            "replay": [None, None, 0.34, 0.34],
            "ptpp": [15.0] * 4,
            "step": [0, 0, 100, 100],
            "lr": [None, None, 3e-4, 3e-4],
            "note": ["base", "base", None, "x"],
        }
    )


def same(runs: Runs, other: Runs) -> None:
    canonical = list(other.frame.columns[:-1])
    pd.testing.assert_frame_equal(
        runs.frame[canonical].reset_index(drop=True), other.frame[canonical].reset_index(drop=True)
    )
    assert runs.fingerprint == other.fingerprint


def test_csv(path, plain):
    runs = read_runs(path)
    same(runs, read_runs(plain))
    assert len(runs) == 4
    assert runs.path == path
    assert runs.notes == ()
    assert list(runs.frame.index) == [2, 3, 4, 5]
    assert runs.frame["n_params"].tolist() == [8.1e9, 8.1e9, 517e6, 517e6]
    assert {str(runs.frame[name].dtype) for name in ("run", "eval")} == {"category"}
    numbers = ("loss", "n_params", "tokens", "replay", "ptpp", "step", "lr")
    assert {str(runs.frame[name].dtype) for name in numbers} == {"float64"}
    assert read_runs(str(path)).fingerprint == runs.fingerprint


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("runs.csv", lambda text: text.encode()),
        ("RUNS.CSV", lambda text: text.encode()),
        ("bom.csv", lambda text: text.encode("utf-8-sig")),
        ("crlf.csv", lambda text: text.replace("\n", "\r\n").encode()),
        ("cr.csv", lambda text: text.replace("\n", "\r").encode()),
        ("no_end.csv", lambda text: text.rstrip().encode()),
        ("blank.csv", lambda text: text.replace("\nb", "\n\n  \n,,,,,,,,,\nb").encode()),
        ("spaces.csv", lambda text: text.replace(",", ", ").encode()),
        ("quoted.csv", lambda text: text.replace("a,", '"a",').encode()),
        ("runs.csv.gz", lambda text: gzip.compress(text.encode())),
        ("runs.tsv", lambda text: text.replace(",", "\t").encode()),
        ("runs.tsv.gz", lambda text: gzip.compress(text.replace(",", "\t").encode())),
    ],
)
def test_variants_of_csv(tmp_path, plain, name, write):
    file = tmp_path / name
    file.write_bytes(write(CSV))
    same(read_runs(file), read_runs(plain))


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.ndjson", "runs.json", "runs.jsonl.gz"])
@pytest.mark.parametrize("as_list", [False, True])
def test_json(tmp_path, plain, name, as_list):
    records = json.loads(plain.to_json(orient="records", double_precision=15))
    records[3]["loss"] = 2.0000000000000004
    records[0]["n_params"] = "8.1B"
    text = json.dumps(records, indent=1) if as_list else "\n\n".join(map(json.dumps, records)) + "\n"
    file = tmp_path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    runs = read_runs(file)
    same(runs, read_runs(plain))
    assert list(runs.frame.index) == ([0, 1, 2, 3] if as_list else [1, 3, 5, 7])


def test_json_rows_may_leave_fields_out(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text('{"run": 7, "loss": 2, "replay": null}\n{"loss": 3, "run": "b", "seed": 1}\n', encoding="utf-8")
    runs = read_runs(file)
    assert runs.frame["run"].tolist() == ["7", "b"]
    assert np.isnan(runs.frame["seed"].iloc[0])


def test_parquet(tmp_path, plain):
    pytest.importorskip("pyarrow")
    file = tmp_path / "runs.parquet"
    plain.to_parquet(file)
    runs = read_runs(file)
    same(runs, read_runs(plain))
    assert runs.path == file
    assert list(runs.frame.index) == [0, 1, 2, 3]


@pytest.mark.parametrize("levels", [["run"], ["run", "eval"], ["n_params", "replay"]])
def test_an_index_with_names_is_columns(plain, levels):
    """Without their names runs were told apart by what else differs: 148 for 14, and intervals 44 % narrower."""
    indexed = plain.set_index(levels)
    same(read_runs(indexed), read_runs(plain))
    beside = plain.set_index(levels, drop=False)  # the columns are there as well
    same(read_runs(beside), read_runs(plain))


def test_an_index_of_points_is_read_where_it_names_inputs():
    frame = pd.DataFrame({"tokens": [1e6, 2e6], "label": ["a", "b"]})
    by_size = frame.assign(N=["8B", "1B"]).set_index("N")
    assert as_points(by_size)["n_params"].tolist() == [8e9, 1e9]
    assert as_points(frame.set_index("label")).index.tolist() == ["a", "b"]


def test_a_parquet_file_keeps_the_column_that_was_an_index(tmp_path, plain):
    pytest.importorskip("pyarrow")
    file = tmp_path / "runs.parquet"
    plain.set_index("run").to_parquet(file)
    same(read_runs(file), read_runs(plain))


def test_parquet_without_pyarrow_tells_what_to_install(tmp_path, monkeypatch):
    file = tmp_path / "runs.parquet"
    file.write_bytes(b"PAR1")
    real_import = builtins.__import__

    def no_pyarrow(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    with pytest.raises(UsageError, match=r"pip install '.\[parquet\]'"):
        read_runs(file)


def test_polars(plain):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {name: plain[name].astype(object).where(plain[name].notna(), None).tolist() for name in plain}
    )
    same(read_runs(frame), read_runs(plain))
    same(read_runs(frame.lazy()), read_runs(plain))
    same(read_runs(frame.with_columns(polars.col("run", "eval").cast(polars.Categorical))), read_runs(plain))


def test_pyarrow(plain):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(plain)
    same(read_runs(table), read_runs(plain))
    position = table.column_names.index("run")
    same(read_runs(table.set_column(position, "run", table["run"].dictionary_encode())), read_runs(plain))


def test_pandas_types(plain):
    same(read_runs(plain.convert_dtypes()), read_runs(plain))
    same(read_runs(plain.astype(object)), read_runs(plain))
    same(read_runs(plain.astype({"run": "category", "n_params": "category"})), read_runs(plain))
    same(read_runs(plain.set_index(pd.Index([9, 8, 9, 7]))), read_runs(plain))


def test_the_source_frame_is_left_alone_and_not_shared(plain):
    before = plain.copy(deep=True)
    runs = read_runs(plain)
    pd.testing.assert_frame_equal(plain, before)
    fingerprint = runs.fingerprint
    plain.loc[:, "loss"] = 9.0
    plain.loc[:, "note"] = "changed"
    assert runs.frame["loss"].tolist() == before["loss"].tolist()
    assert "changed" not in runs.frame["note"].tolist()
    assert read_runs(before).fingerprint == fingerprint


def test_runs_pass_through_with_new_roles():
    table = pd.DataFrame({"run": ["a", "a"], "eval": ["en", "fr"], "loss": [1.0, 2.0]})
    runs = read_runs(table)
    again = read_runs(runs, source_eval="en", target_eval="fr", n_params_kind="total")
    assert again.frame is runs.frame
    assert (again.role("en"), again.role("fr"), again.n_params_kind) == ("source", "target", "total")
    assert (runs.role("en"), runs.n_params_kind) == ("other", None)
    with pytest.raises(UsageError, match="columns="):
        read_runs(runs, columns={"eval": "domain"})


def test_ids_that_look_like_numbers_stay_text(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("run,eval,loss\n007,1,2.0\n7,NA,2.0\n", encoding="utf-8")
    runs = read_runs(file)
    assert runs.frame["run"].tolist() == ["007", "7"]
    assert runs.evals == ("1", "NA")
    assert read_runs(pd.DataFrame({"run": [7, 8], "loss": [1.0, 2.0]})).frame["run"].tolist() == ["7", "8"]
    assert read_runs(pd.DataFrame({"run": [7.0, 8.0], "loss": [1.0, 2.0]})).frame["run"].tolist() == ["7", "8"]


def test_a_file_without_run_and_eval(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("loss,n_params\n2.0,1M\n\n2.5,2M\n", encoding="utf-8")
    runs = read_runs(file)
    assert runs.frame["run"].tolist() == ["row-2", "row-4"]
    assert runs.evals == ("target",)
    assert runs.assumed == ("run", "eval")
    assert len(runs.notes) == 2
    assert "run" in runs.notes[0]
    assert "'target'" in runs.notes[1]


def test_other_columns_are_kept_after_the_canonical_ones(path):
    runs = read_runs(path)
    assert list(runs.frame.columns) == [
        "run",
        "eval",
        "loss",
        "n_params",
        "tokens",
        "replay",
        "ptpp",
        "step",
        "lr",
        "note",
    ]
    assert runs.frame["note"].tolist()[0] == "base"


def test_columns_argument(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("run,domain,loss\na,001,2\na,x,3\n", encoding="utf-8")
    runs = read_runs(file, columns={"eval": "domain"}, target_eval="001")
    assert runs.evals == ("001", "x")
    assert runs.role("001") == "target"


def test_numbers_beyond_64_bit_integers(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text(
        "run,loss,n_params,tokens,flops\na,2,100000000000000000000,20000000000000000000,1e24\n", encoding="utf-8"
    )
    runs = read_runs(file)
    assert runs.frame["n_params"].tolist() == [1e20]
    assert runs.where("atpp == 0.2").frame["flops"].tolist() == [1e24]


def test_n_params_kind():
    table = pd.DataFrame({"run": ["a", "b"], "loss": [1.0, 2.0], "non_embedding": [1e6, 2e6]})
    assert read_runs(table).n_params_kind == "non_embedding"
    assert read_runs(table, n_params_kind="total").n_params_kind == "total"
    column = table.rename(columns={"non_embedding": "n_params"}).assign(n_params_kind="total")
    assert read_runs(column).n_params_kind == "total"
    with refused(UsageError, "non_embedding"):
        read_runs(table, n_params_kind="embedding")
    with refused(DataError, "n_params_kind='non_embedding'"):
        read_runs(column, n_params_kind="non_embedding")


@pytest.mark.parametrize("source", [None, 3, ["a.csv"], {"loss": [1.0]}, object()])
def test_what_is_no_table_is_refused(source):
    with pytest.raises(UsageError, match="Expected a path"):
        read_runs(source)


def test_import_is_light():
    heavy = ("pyarrow.parquet", "polars", "scipy", "matplotlib")
    code = f"import sys, cptlaw.runs; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "run": st.text("ab1 .é-\\,:{\"'", max_size=4),
                "loss": st.floats(1.0, 9.0) | st.integers(1, 9),
                "tokens": st.none() | st.integers(10**3, 10**18),
                "other": st.sampled_from(["x", "1", "", "null", "NaN"]),
            }
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([(", ", ": "), (",", ":")]),
    st.booleans(),
)
def test_plain_lines_are_read_as_one_by_one(records, separators, ends):
    lines = [json.dumps(record, ensure_ascii=False, separators=separators) for record in records]
    content = ("\n".join(lines) + "\n" * ends).encode()
    quick = json_file._plain_lines(content)
    odd = any(set(record["run"]) & set('\\,:{"') for record in records) or len(set(map(tuple, records))) > 1
    if quick is None:
        assert odd  # and is then read one by one
        return
    assert not odd
    assert quick.index.tolist() == list(range(1, len(records) + 1))
    for name in ("run", "other"):
        assert [str(value).strip() for value in quick[name]] == [record[name].strip() for record in records]
    for name in ("loss", "tokens"):
        expected = [np.nan if record[name] is None else float(record[name]) for record in records]
        np.testing.assert_array_equal(to_numbers(quick[name])[0], expected)
