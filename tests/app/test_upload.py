"""Uploads: what is read, what is refused, and that nothing stays behind."""

import base64

import numpy as np
import pytest

from cptlaw.errors import CptlawError, DataError
from cptlaw_app.opening import _of_one_replay
from cptlaw_app.upload import LARGEST, columns_of, decode, read_upload

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")


def upload(text, name="runs.csv"):
    content = text if isinstance(text, bytes) else text.encode()
    return decode(f"data:text/csv;base64,{base64.b64encode(content).decode()}", name)


TABLE = "run,eval,loss,n_params,tokens,replay\na,target,2.5,1e6,1e6,0.1\nb,target,2.4,1e6,2e6,0.1\n"


def test_uploads_are_read_with_the_messages_of_the_command_line_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = read_upload(*upload(TABLE, "C:\\fake\\..\\runs.csv"))
    assert len(runs) == 2
    assert str(runs.path) == "runs.csv"
    with pytest.raises(DataError, match=r"^bad\.csv, row 3, .*'x'"):
        read_upload(*upload(TABLE.replace("2.4", "x"), "bad.csv"))
    with pytest.raises(DataError, match="is empty") as empty:
        read_upload(*upload("", "empty.csv"))
    assert str(tmp_path) not in str(empty.value)
    assert list(tmp_path.iterdir()) == []


def test_uploads_beyond_what_is_read_are_refused():
    for name in ("runs.pkl", "runs.csv.gz", "../../etc/passwd", "x.html"):
        with pytest.raises(DataError, match="files of this kind"):
            upload(TABLE, name)
    with pytest.raises(DataError, match="more than the 20 MB"):
        decode("data:,," + "A" * int(LARGEST * 4 / 3 + 10), "runs.csv")
    with pytest.raises(DataError, match="damaged"):
        decode("data:text/csv;base64,%%%", "runs.csv")


@pytest.mark.parametrize("stem", ["a" * 300, "a\0b", "\ud800", "..", "/", "\x1b[31m", " ", "é" * 200, "C:\\x\\.."])
def test_odd_names_of_uploads_are_only_shown(tmp_path, monkeypatch, stem):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = read_upload(*upload(TABLE, f"{stem}.csv"))
    assert len(runs) == 2
    assert "\x1b" not in str(runs.path)
    assert len(str(runs.path)) <= 100
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_unpacks_to_much_is_refused_by_its_footer(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = pa.array(np.zeros(3_000_000))
    pq.write_table(pa.table({"loss": column}), tmp_path / "much.parquet")
    content = (tmp_path / "much.parquet").read_bytes()
    assert len(content) < 100_000
    with pytest.raises(DataError, match="3,000,000 rows of 1 columns"):
        read_upload(*upload(content, "much.parquet"))
    pq.write_table(pa.table({f"c{place}": pa.array([0.0]) for place in range(120)}), tmp_path / "wide.parquet")
    with pytest.raises(DataError, match="'loss'"):
        read_upload(*upload((tmp_path / "wide.parquet").read_bytes(), "wide.parquet"))


def test_code_in_a_table_is_text(tmp_path):
    evil = "__import__('os').system('touch /tmp/cptlaw-owned')"
    runs = read_upload(*upload(TABLE.replace("a,target", f'"{evil}",target').replace("b,target", "=1+1,target")))
    assert evil in set(runs.frame["run"])


def test_unknown_columns_can_be_mapped():
    text = TABLE.replace("loss", "bpb_like").replace("run", "job_name")
    with pytest.raises(CptlawError, match="'loss'"):
        read_upload(*upload(text))
    names, taken = columns_of(*upload(text))
    assert "bpb_like" in names
    assert taken["tokens"] == "tokens"
    assert len(read_upload(*upload(text), {"loss": "bpb_like", "run": "job_name"})) == 2
    assert columns_of("broken.parquet", b"no") == ([], {})


def test_a_table_of_k_corpora_is_refused_before_it_is_fitted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    head, row = "run,eval,loss,n_params,tokens,mix_web,mix_code,mix_math\n", "{},target,{},1e8,1e9,{},{},{}\n"
    mixes = [("a", 2.5, 0.2, 0.3, 0.5), ("b", 2.4, 0.5, 0.3, 0.2)]
    runs = read_upload(*upload(head + "".join(row.format(*mix) for mix in mixes)))
    with pytest.raises(CptlawError, match=r"mix 3 corpora \(web, code, math\), and this page chooses one replay"):
        _of_one_replay(runs)
    _of_one_replay(read_upload(*upload(TABLE)))
