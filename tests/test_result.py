"""Answers: text, page, terminal and JSON follow from title, lines, tables and findings."""

import io
import json
import math
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import cptlaw as cl
from cptlaw.findings import Finding, Remedy
from cptlaw.result import Result, Table, as_text, finding_lines, plain

FAR = [Finding("warning", "far", f"row {row} lies far out.", "Add runs.") for row in range(4)]
KINDS = [Finding("info", name, f"{name} was seen.") for name in ("a", "b", "c")]
BAD = Finding("error", "absurd", "<b>a loss of 99</b>")


@dataclass(frozen=True, repr=False)
class Answer(Result):
    loss: float
    findings: tuple[Finding, ...] = ()

    @property
    def title(self):
        return "What <now>?"

    @property
    def lines(self):
        return [("loss", f"{self.loss:g} nats"), ("a longer label", "[bold]as it is[/bold]")]

    @property
    def details(self):
        return [("how", "by looking")]

    @property
    def tables(self):
        return [Table.of(pd.DataFrame({"eval": ["fr<i>", "en"], "loss": [1.5, math.nan]}), {"loss": "{:.3f}".format})]


@pytest.fixture
def answer():
    return Answer(1.5, (*KINDS, *FAR, BAD))


def test_the_worst_three_kinds_are_shown_once_and_the_rest_counted(answer):
    text = answer.summary()
    lines = text.splitlines()
    said = [line for line in lines if line.startswith(("error", "warning", "info"))]
    assert [line.split("[")[1].split("]")[0] for line in said] == ["absurd", "far", "a"]
    assert "(+3 like it" in said[1]
    assert text.endswith("and 2 others")
    everything = answer.summary(verbose=True)
    assert all(finding.message in everything for finding in answer.findings)
    assert "by looking" in everything
    assert "by looking" not in text
    assert not any(finding.message in answer.summary(quiet=True) for finding in answer.findings)


def test_what_shows_all_is_said_once():
    lines = finding_lines([*FAR, *KINDS, BAD])
    assert sum("-v shows all" in line for line in lines) == 1
    assert not any("-v" in line for line in finding_lines(KINDS))


def test_each_surface_has_its_own_words_for_a_remedy():
    finding = Finding("info", "no-limit", "No limit.", "Set one.", data={"n": 1}, remedy=Remedy("max_forgetting", "2%"))
    assert str(finding).endswith("-> Set one (max_forgetting='2%').")
    assert finding_lines([finding], words=lambda remedy: f"--{remedy.option}")[1].endswith(
        "-> Set one (--max_forgetting)."
    )
    assert finding_lines([finding], words=lambda remedy: "")[1].endswith("-> Set one.")  # it has no such option
    kept = finding.to_dict()
    assert (kept["data"], kept["remedy"]) == ({"n": 1}, {"option": "max_forgetting", "value": "2%"})
    assert Finding(**kept) == finding
    assert plain(finding) == kept


def test_the_command_line_writes_options_as_it_has_them(call):
    table = str(cl.examples.path("en-fr-pilot"))
    _, out, _ = call("check", table, "--law", "ptpp-gate", "--on", "target", "--where", "ptpp == 31", "-v")
    assert "(--fix" in out
    assert "fix=" not in out
    assert "(fix=" in cl.check("ptpp-gate", cl.read_runs(table), "target", where="ptpp == 31").summary(verbose=True)


def test_page_is_escaped_and_has_all_findings(answer):
    page = answer._repr_html_()
    for raw in ("<now>", "fr<i>", BAD.message):
        assert raw not in page
    assert all(finding.message in page for finding in FAR)
    assert page.count("<details>") == 1


def test_terminal_has_colour_and_takes_no_markup_from_names(answer):
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=40, color_system="standard").print(answer)
    text = out.getvalue()
    assert "\x1b[" in text
    assert "[bold]as it is" in text.replace("\n", "")
    assert max(len(line) for line in Console(width=40, file=io.StringIO()).render_str(text).plain.splitlines()) < 400


def test_json_has_null_for_what_is_not_finite():
    found = json.loads(Answer(math.inf, (BAD,)).to_json())
    assert found == {"loss": None, "findings": [BAD.to_dict()]}
    assert plain({"a": np.array([1.0, np.nan]), "b": np.int64(3), "c": pd.DataFrame({"x": [1]})}) == {
        "a": [1.0, None],
        "b": 3,
        "c": [{"x": 1}],
    }


def test_frames_print_as_answers_and_stay_frames():
    runs = cl.examples.load("en-fr-pilot")
    fit = cl.fit(
        "ptpp-floor", runs, on="target", where="ptpp >= 31 and ptpp <= 124 and replay > 0", starts=8, restraint="none"
    )
    at = {"n_params": [125e3], "tokens": [1e6], "replay": [0.25], "ptpp": [279]}
    frame = fit.forecast(at, interval="80%")
    assert isinstance(frame, pd.DataFrame)
    assert "80% interval" in repr(frame)
    assert "80% interval" in frame._repr_html_()
    assert type(frame.head()) is pd.DataFrame
    assert list(frame.to_dict("records")[0])[-4:] == ["loss", "lo", "hi", "findings"]
    assert frame.answer.to_dict()["intervals"][0]["law"] == "ptpp-floor"


def test_text_of_a_table_grows_with_its_rows():
    def cpu(n):
        table = Table(("run", "loss"), tuple((f"r{row}", f"{row / 7:.4f}") for row in range(n)))
        seconds = []
        for _ in range(3):
            begun = time.process_time()
            assert table.text().count("\n") == n
            seconds.append(time.process_time() - begun)
        return min(seconds)

    assert cpu(16_000) < 40 * cpu(1000)  # 16 where it is linear, 256 where it looks at all rows for each


def test_numbers_of_a_table_stand_at_the_right():
    table = Table(("run", "loss"), (("a", "2.5"), ("bcd", "10.25")), "Losses", "in nats")
    assert table.text() == "Losses\nrun   loss\na      2.5\nbcd  10.25\nin nats"


def test_a_table_that_is_too_wide_goes_on_below_and_loses_nothing():
    rows = (("a", "1", "several words that take much more room than there is here"), ("b", "22", "few"))
    table = Table(("name", "count of them", "what it is"), rows)
    narrow = table.text(40)
    assert max(map(len, narrow.splitlines())) <= 40
    assert sorted(narrow.split()) == sorted(table.text().split())


def test_text_goes_on_below_its_label():
    text = as_text("title", [("label", "word " * 40), ("longer label", "short")], width=60)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(" " * 16 + "word") for line in lines[2:-1])
