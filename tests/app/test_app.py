"""The page says what the command line says, and its form asks all that the verb asks."""

import contextlib
import html
import re
import shlex

import pytest
from counting import counted
from facts import lacks

import cptlaw as cl
from cptlaw import examples

pytest.importorskip("flask", reason="the app needs Flask: pip install 'cptlaw[app]'")
pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")
from cptlaw_app.labels import LABELS
from cptlaw_app.question import EXAMPLE_QUESTION, AnswerQueue, Problem, fields, verb
from cptlaw_app.repeat import repetition
from cptlaw_app.server import build
from cptlaw_app.tables import Upload, UploadStore

HERE = {"Host": "127.0.0.1"}
WITHOUT = {"n_params": "8B", "ptpp": "1875", "target_tokens": "20B", "shift": "language", "max_forgetting": "30%"}


@pytest.fixture(scope="module")
def queue():
    return AnswerQueue(UploadStore())


@pytest.fixture(scope="module")
def client():
    return build().test_client()


def words(asked):
    return [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]


def texts(page):
    """Return what a piece of the page says: the answer, and the other lines by their label."""
    lines = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    sentence = re.search(r'<p id="sentence"[^>]*>(.*?)</p>', page)[1]
    return html.unescape(sentence), {html.unescape(key): html.unescape(value) for key, value in lines.items()}


@pytest.mark.parametrize(("table", "asked"), [("none", WITHOUT), ("example", EXAMPLE_QUESTION)])
def test_the_page_says_what_the_command_line_says(client, call, table, asked):
    given = [] if table == "none" else [str(examples.path("en-fr-pilot"))]
    _, out, _ = call("answer", *given, *words(asked))
    out = re.sub(r"\n {12,}", " ", out)  # what went on below
    page = client.get("/answer", query_string={"table": table, **asked}, headers=HERE)
    assert page.status_code == 200
    sentence, lines = texts(page.get_data(as_text=True))
    printed = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", out.partition("  instead ")[0], re.MULTILINE))
    assert printed["answer"].lower() == sentence.removesuffix(".").lower()
    shared = printed.keys() & lines.keys()
    assert {"target loss", "forgetting"} <= shared
    for label in shared:
        assert lines[label].startswith(printed[label][:60])


def test_the_form_asks_all_that_the_verb_asks(queue):
    names = {one.name for one in fields()}
    assert {"n_params", "ptpp", "tokens", "max_forgetting", "risk", "where", "shift", "columns", "losses"} <= names
    # Nothing that names a place on the machine which serves, or that only shapes what a terminal shows.
    assert [one.name for one in fields() if one.first] == [
        "base", "n_params", "ptpp", "shift", "target_tokens", "tokens", "max_forgetting", "max_target_loss", "gpus",
        "gpu_hour",
    ]  # fmt: skip
    assert names.isdisjoint({"output", "force", "pilots", "schedules", "explain", "json", "strict", "seed", "runs"})
    left = {str(option.name) for option in verb().params} - names
    assert left <= {"runs", "schedules", "explain", "pilots", "output", "force", "seed", "strict", "json"} | {
        "verbose", "quiet", "help", "help_all", "anyway", "all_runs", "no_cache",
    }  # fmt: skip


def test_fields_have_a_visitors_label_and_an_example():
    assert {one.name for one in fields()} == set(LABELS)
    for one in fields():
        assert "_" not in one.label
        assert one.choices or one.example


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ("none", {**WITHOUT, "gpus": "64xH100", "gpu_hour": "2.50", "max_drop": "mmlu=1pt"}),
        ("none", {"base": "llama-3.1-8b", "target_tokens": "20B", "max_epochs": "4"}),
        ("example", {**EXAMPLE_QUESTION, "where": 'ptpp <= 124 and lr_schedule == "constant"'}),
    ],
)
def test_command_and_python_to_copy_ask_the_same(queue, call, monkeypatch, table, asked):
    """What the two ask is caught on its way to the answer, so that nothing is fitted."""
    found = []
    monkeypatch.setattr(cl, "answer", lambda runs=None, **given: found.append((runs is None, given)) or "answered")
    again = repetition(queue, {"table": table, **asked})
    namespace = {}
    exec(again["python"], namespace)
    words = shlex.split(again["command"].replace("$(cptlaw example en-fr-pilot)", str(examples.path("en-fr-pilot"))))
    assert words[:2] == ["cptlaw", "answer"]
    with contextlib.suppress(AttributeError):  # of a text that is no answer
        call(*words[1:])
    queue.ask({"table": table, **asked})
    python, command, page = (
        {name: value for name, value in given.items() if value and name != "risk"} for _, given in found
    )
    assert python == command == page
    assert {without for without, _ in found} == {table == "none"}


def test_a_bad_field_says_why(queue):
    found = queue.ask({"table": "none", **WITHOUT, "n_params": "8Q"})
    assert isinstance(found, Problem)
    assert found.field == "n_params"
    assert lacks(found.text, "'8Q'", "8.1B") == []
    assert queue.ask({"table": "none", "ptpp": "20"}).field == "n_params"
    assert queue.ask({"table": "none", **WITHOUT, "max_forgetting": "lots"}).field == "max_forgetting"
    large = queue.ask({"table": "none", **WITHOUT, "max_forgetting": "5"})
    assert (large.field, lacks(large.text, "5%", "500%")) == ("max_forgetting", [])
    other = queue.ask({"table": "none", **WITHOUT, "base": "qwen2.5-0.5b"})
    assert (other.field, lacks(other.text, "494M", "--base")) == ("n_params", [])
    assert queue.ask({"table": "none", **WITHOUT, "n_params": "", "ptpp": "", "base": "qwen2.5-0.5b"}).options
    assert queue.ask({"table": "none", **WITHOUT, "shift": "far"}).field == "shift"
    long = queue.ask({"table": "none", **WITHOUT, "where": "replay < 0.25" + " " * 2000 + "and ptpp > 3"})
    assert (long.field, lacks(long.text, "2,025", "2,000")) == ("where", [])  # once the end was cut away unsaid


def test_options_of_no_table_that_cannot_be_read_are_a_problem_and_no_failure(client):
    asked = {"table": "none", **WITHOUT, "columns": "what"}
    found = client.get("/answer", query_string=asked, headers=HERE)
    assert (found.status_code, lacks(found.get_data(as_text=True), "what", 'data-field="columns"')) == (400, [])


def test_a_forecast_far_beyond_the_runs_says_so_over_its_headline(client):
    asked = {"table": "example", **EXAMPLE_QUESTION, "n_params": "8B", "tokens": "20B"}
    page = client.get("/answer", query_string=asked, headers=HERE).get_data(as_text=True)
    assert "n_params 8B" in page[: page.index('id="sentence"')]


def test_an_answer_is_worked_out_once(queue, monkeypatch):
    first = queue.ask({"table": "none", **WITHOUT})
    monkeypatch.setattr(cl, "answer", None)
    assert queue.ask({**WITHOUT, "table": "none", "tokens": "  "}) is first


def test_a_slider_that_moved_reads_and_fits_nothing_anew():
    """The table of an upload stays, and so do the fits that the last question made of it."""
    queue = AnswerQueue(UploadStore())
    rows = examples.load("en-fr-pilot").where("ptpp in (0, 31, 62) and tokens >= 200K and lr_schedule == 'constant'")
    key = queue.uploads.keep(Upload("mine.csv", rows.frame.to_csv(index=False).encode()))
    first = queue.ask({"table": key, **EXAMPLE_QUESTION})
    with counted() as counts:
        moved = queue.ask({"table": key, **EXAMPLE_QUESTION, "max_forgetting": "30%"})
    assert counts == {"fits": 0, "evaluations": 0, "rows": 0}
    assert moved.replay < first.replay
    assert len(queue._read) == 1


def test_the_report_is_a_page_to_keep(client):
    page = client.get("/report", query_string={"table": "none", **WITHOUT}, headers=HERE)
    assert page.headers["Content-Disposition"] == "attachment; filename=report.html"
    assert page.get_data(as_text=True).lower().startswith("<!doctype html>")
    assert client.get("/report", query_string={"table": "none"}, headers=HERE).status_code == 400
