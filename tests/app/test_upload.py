"""Uploads: what is read, what is refused, and that nothing stays behind."""

import html
import io
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw_app.tables import LARGEST, MOST_KEPT, UploadStore, checked_upload

pytest.importorskip("flask", reason="the app needs Flask: pip install 'cptlaw[app]'")
pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")
from cptlaw_app.question import AnswerQueue, Problem
from cptlaw_app.server import build

TABLE = "run,eval,loss,n_params,tokens,replay\na,target,2.5,1e6,1e6,0.1\nb,target,2.4,1e6,2e6,0.1\n"
HERE = {"Host": "127.0.0.1"}


def asked(name, content, **question):
    """Ask of an upload."""
    queue = AnswerQueue(UploadStore())
    table = queue.uploads.keep(checked_upload(name, content if isinstance(content, bytes) else content.encode()))
    return queue.ask({"table": table, "n_params": "1e6", "tokens": "4e6", **question})


def test_uploads_are_read_with_the_messages_of_the_command_line_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for text, said in ((TABLE.replace("2.4", "x"), "bad.csv, row 3, column 'loss'"), ("", "bad.csv is empty")):
        found = asked("C:\\fake\\..\\bad.csv", text)
        assert isinstance(found, Problem)
        assert found.text.startswith(said.partition(" is")[0])
        assert str(tmp_path) not in found.text
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_read_before_it_is_answered_from():
    """A column that may be the replay is asked about, with choices; with one of them the answer is there."""
    client = build().test_client()
    content = Path("tests/runs/messy/which_corpus.csv").read_bytes()
    place = client.post("/table", data={"file": (io.BytesIO(content), "ours.csv")}, headers=HERE).headers["Location"]
    page = client.get(place, headers=HERE).get_data(as_text=True)
    assert "data-first" in page
    assert "data-unread" in page
    choices = re.findall(r'data-choice="(.*?)"', page)
    assert choices[:2] == ["replay=mix_ratio", "replay=1-mix_ratio"]
    asked = dict(parse_qsl(urlsplit(place).query))
    assert asked["n_params"] == "180M"  # what the table opens with: its largest model
    refused = client.get("/answer", query_string=asked, headers=HERE)
    assert refused.status_code == 400
    assert "mix_ratio" in refused.get_data(as_text=True)
    read = client.get("/reading", query_string={**asked, "columns": choices[0]}, headers=HERE).get_data(as_text=True)
    assert "data-unread" not in read
    assert "<td>mix_ratio</td><td>replay</td>" in read.replace(' class="number"', "")


@pytest.mark.parametrize("column", ["mix, ratio", "a,b,c", "mix=ratio", "mix\nratio", "<b>'\"mix"])
def test_a_choice_of_an_odd_column_is_one_choice(column):
    client = build().test_client()
    content = Path("tests/runs/messy/which_corpus.csv").read_text().splitlines(keepends=True)
    quoted = '"' + column.replace('"', '""') + '"'
    content = "".join([content[0].replace("mix_ratio", quoted), *content[1:]]).encode()
    place = client.post("/table", data={"file": (io.BytesIO(content), "ours.csv")}, headers=HERE).headers["Location"]
    choices = re.findall(r'data-choice="(.*?)"', client.get(place, headers=HERE).get_data(as_text=True), re.DOTALL)
    query = {**dict(parse_qsl(urlsplit(place).query)), "columns": html.unescape(choices[0])}
    read = client.get("/reading", query_string=query, headers=HERE).get_data(as_text=True)
    assert "data-unread" not in read


def test_evals_are_chosen_from_what_the_file_has():
    client = build().test_client()
    text = TABLE.replace("target", "japanese").replace("b,japanese", "b,english")
    table = client.post("/table", data={"file": (io.BytesIO(text.encode()), "x.csv")}, headers=HERE).headers["Location"]
    page = client.get(table, headers=HERE).get_data(as_text=True)
    select = re.search(r'<select id="target_eval".*?</select>', page, re.DOTALL)[0]
    assert re.findall(r"<option[^>]*>(.*?)</option>", select) == ["not said", "english", "japanese"]


def test_nothing_that_is_shown_names_a_place_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client = build().test_client()
    content = cl.examples.path("en-fr-pilot").read_bytes()
    place = client.post("/table", data={"file": (io.BytesIO(content), "ours.csv")}, headers=HERE).headers["Location"]
    asked = {**dict(parse_qsl(urlsplit(place).query)), "n_params": "124672", "ptpp": "279", "tokens": "1M"}
    for page in ("/", "/answer", "/report"):
        answer = client.get(page, query_string=asked, headers=HERE)
        assert answer.status_code == 200
        text = answer.get_data(as_text=True)
        assert str(tmp_path) not in text
        assert "ours.csv" in text
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_another_name_is_named_in_the_form():
    renamed = TABLE.replace("loss", "held_out")
    assert "loss" in asked("runs.csv", renamed).text
    found = asked("runs.csv", renamed, columns="loss=held_out")
    assert not isinstance(found, Problem) or "held_out" not in found.text


def test_uploads_beyond_what_is_read_are_refused():
    for name in ("runs.pkl", "runs.csv.gz", "../../etc/passwd", "x.html", ""):
        with refused(DataError, ".csv", ".parquet"):
            checked_upload(name, b"x")
    with pytest.raises(DataError, match="more than the 20 MB"):
        checked_upload("runs.csv", bytes(LARGEST + 1))


@pytest.mark.parametrize("stem", ["a" * 300, "a\0b", "\ud800", "..", "/", "\x1b[31m", " ", "é" * 200, "C:\\x\\.."])
def test_odd_names_of_uploads_are_only_shown(tmp_path, monkeypatch, stem):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    upload = checked_upload(f"{stem}.csv", TABLE.encode())
    assert "\x1b" not in upload.name
    assert len(upload.name) <= 100
    with upload.as_file() as path:
        assert path.read_text() == TABLE
        assert path.parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_unpacks_to_much_is_refused_by_its_footer(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"loss": pa.array(np.zeros(3_000_000))}), tmp_path / "much.parquet")
    content = (tmp_path / "much.parquet").read_bytes()
    assert len(content) < LARGEST
    assert "3,000,000 rows" in asked("much.parquet", content).text


def test_a_table_is_kept_under_a_name_that_nobody_guesses_and_the_last_few_stay():
    uploads = UploadStore()
    names = [uploads.keep(checked_upload("runs.csv", TABLE.encode())) for _ in range(MOST_KEPT + 1)]
    assert len({*names}) == MOST_KEPT + 1
    assert min(map(len, names)) >= 32
    with pytest.raises(DataError, match="has been forgotten"):
        uploads.get(names[0])
    assert uploads.get(names[-1]).name == "runs.csv"


def test_a_browser_that_sends_a_table_is_led_to_its_question():
    client = build().test_client()
    data = {"file": (io.BytesIO(TABLE.encode()), "my runs.csv"), "n_params": "8B", "ptpp": " "}
    answer = client.post("/table", data=data, headers=HERE, content_type="multipart/form-data")
    assert answer.status_code == 303
    assert "n_params=8B" in answer.headers["Location"]
    page = client.get(answer.headers["Location"], headers=HERE).get_data(as_text=True)
    assert "my runs.csv" in page
    refused = client.post(
        "/table", data={"file": (io.BytesIO(b"x"), "x.pkl")}, headers=HERE, content_type="multipart/form-data"
    )
    assert refused.status_code == 400
    assert ".parquet" in refused.get_data(as_text=True)
