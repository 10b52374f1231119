"""The report says what the library says, in one file that needs no network."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import UsageError
from cptlaw.reporting import drawings, make_report
from cptlaw.reporting.figures.calibration import as_doubt
from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.images import write_images
from cptlaw.reporting.make_report import report
from cptlaw.reporting.page import IN_ANSWER
from cptlaw.reporting.subject import Subject

pytest.importorskip("plotly", reason="reports need Plotly: pip install 'cptlaw[report]'")

ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)
MODEL = {"n_params": "124672", "ptpp": 279}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    runs = cl.examples.load("en-fr-pilot")
    for on in ("target", "source"):
        cl.fit("ptpp-floor", runs, on=on, where=ROWS, starts=24, restraint="none").save(folder / f"{on}.json")
    return folder


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def found(runs, files):
    return report(
        runs,
        files / "target.json",
        files / "source.json",
        **MODEL,
        max_target_loss=1.7,
        max_forgetting="25%",
        test_where="ptpp == 279 and replay == 0.25 and n_params > 1e5 and atpp >= 1.9 and lr_schedule == 'constant'",
        suggest_budget="1e12",
        title="A <plan>",
    )


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without figures, for what does not depend on them."""
    monkeypatch.setattr(make_report, "draw", lambda *_: [])


class Page(HTMLParser):
    """Collects what a page would load, its scripts, and its text."""

    def __init__(self, content):
        super().__init__()
        self.loads, self.scripts, self.text, self._inside, self.ids = [], [], [], None, []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self._inside = tag
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag in ("link", "iframe", "img", "object") or "src" in attrs:
            self.loads.append((tag, attrs))
        if tag == "script":
            self.scripts.append((attrs, ""))

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            attrs, before = self.scripts[-1]
            self.scripts[-1] = (attrs, before + data)
        elif self._inside != "style":
            self.text.append(data)


def test_page_is_one_file_that_loads_nothing(found, tmp_path):
    path = found.save(tmp_path / "report.html")
    content = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 2e6
    page = Page(content)
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert content.count("* plotly.js (cartesian - minified) v") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    # Everything from the user is escaped.
    assert "A &lt;plan&gt;" in content
    assert "<plan>" not in content
    drawings = [json.loads(text) for attrs, text in page.scripts if attrs.get("type") == "application/json"]
    assert len(drawings) == len(found.figures)
    assert all(drawing["data"] for drawing in drawings)


def test_page_says_question_answer_plan_doubts_data_and_versions(found, runs):
    text = " ".join(Page(found.to_html()).text)
    for said in (found.question, found.answer, runs.fingerprint, cl.__version__, *found.commands):
        assert said in text
    for finding in found.findings:
        assert finding.message in text
    for label, line in found.plan.lines:
        assert text.count(line) == 1 or label in IN_ANSWER  # no number stands there twice


def test_the_first_page_speaks_to_a_reader_who_runs_nothing(found):
    content = found.to_html()
    first = " ".join(Page(content[: content.index('id="appendix"')]).text)
    assert "(--" not in first.partition("Figures")[0]
    assert "forgetting at most 25%" in first
    assert "target loss at most 1.7" in first


def test_report_is_the_planners_answer(found, files):
    plan = cl.plan.min_tokens(
        files / "target.json", files / "source.json", **MODEL, max_target_loss=1.7, max_forgetting="25%"
    )
    assert found.plan.tokens == pytest.approx(plan.tokens)
    at_plan = found.forecasts.set_index("on")
    assert at_plan.loc["target", "loss"] == pytest.approx(plan.target_loss)
    assert f"target loss {plan.target_loss:.2f}" in found.answer
    assert {figure.name for figure in found.figures} >= {
        "forgetting-map", "pareto-front", "interval-fan-target", "interval-fan-source", "observed-fitted-target",
        "calibration-target", "suggested-cells",
    }  # fmt: skip


def test_no_two_regions_have_one_name_and_no_spec_is_shown(found):
    page = found.to_html()
    names = re.findall(r'role="region" aria-label="([^"]*)"', page)
    assert len(set(names)) == len(names) >= 3
    assert not re.search(r">[a-z-]+:\w+=\w+:\w+=", page)  # a law with all its options


def test_commands_repeat_the_report(found, files, tmp_path, monkeypatch, capsys):
    """The commands on the page, run in a fresh folder, give the same answer."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "en_fr_pilot.csv"
    runs.write_bytes(cl.examples.path("en-fr-pilot").read_bytes())
    import shlex

    for command in found.commands[:2]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        assert not ended.value.code
    for on in ("target", "source"):
        first, again = (cl.load_fit(path / f"{on}.json") for path in (files, tmp_path))
        assert again.params == pytest.approx(first.params, rel=1e-6)
        assert again.provenance["fingerprint"] == first.provenance["fingerprint"]
    words = shlex.split(found.commands[2])
    assert words[:3] == ["cptlaw", "report", "en_fr_pilot.csv"]
    capsys.readouterr()
    assert "--max-forgetting 25%" in found.commands[2]


def test_command_line_writes_the_page_and_ends_with_3_where_no_plan_is(undrawn, files, tmp_path, capsys):
    page = tmp_path / "no.html"
    words = f"--n-params-kind total --target {files}/target.json"
    words += f" --n-params 124672 --ptpp 279 --max-target-loss 1.2 --max-tokens 1M --json -o {page}"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(cl.examples.path("en-fr-pilot")), *words.split()])
    assert ended.value.code == 3
    said = json.loads(capsys.readouterr().out)
    assert said["plan"]["feasible"] is False
    assert said["output"] == str(page)
    assert said["answer"] in html.unescape(page.read_text(encoding="utf-8"))


def test_the_front_is_drawn_under_a_risk(runs, monkeypatch):
    """Its limits hold with a probability in the plan; the front of all compromises has none of its own."""
    monkeypatch.setattr(drawings, "FRONT_POINTS", 3)
    fits = tuple(cl.fit("ptpp-floor", runs, on=on, where=ROWS) for on in ("target", "source"))
    asked = {**MODEL, "max_target_loss": 1.7, "risk": 0.8}
    subject = Subject.of(runs, fits, {}, asked, interval=0.9)
    assert subject.plan.risk == 0.8
    assert "pareto-front" in [figure.name for figure in drawings._of_mixes(subject, lambda part: None)]


def test_the_next_steps_of_an_answer_begin_with_the_runs_that_it_chose(found):
    of_answer = replace(found, suggestion=None, to_train="45.9K on 91.9K tokens at 0% replay")
    assert any("45.9K on 91.9K tokens" in step for step in of_answer.next_steps)
    without = replace(found, suggestion=None, to_train="")  # an answer that found no run worth its cost
    assert not [step for step in without.next_steps if step.startswith(("Ask which small runs", "Train next"))]
    assert any(step.startswith("Ask which small runs") for step in replace(found, suggestion=None).next_steps)


def test_wrong_questions_are_answered_with_what_to_do(runs, files, tmp_path):
    target = files / "target.json"
    with pytest.raises(UsageError, match="n_params"):
        report(runs, target, max_target_loss=1.7)
    with refused(UsageError, "risk", "max_forgetting"):
        report(runs, target, risk=0.9)
    with pytest.raises(UsageError, match="were fitted"):
        report(runs, target, at="n_params=124672,tokens=1M,replay=25%,ptpp=279", test_where="ptpp == 62 and tokens > 0")
    with pytest.raises(SystemExit) as ended:
        main(
            ["report", str(cl.examples.path("en-fr-pilot")), "--target", str(target), "-o", str(tmp_path / "no/a.html")]
        )
    assert ended.value.code == 2


def test_fits_of_another_table_are_a_doubt(undrawn, runs, files):
    target = files / "target.json"
    other = cl.read_runs(runs.frame.assign(loss=runs.frame["loss"] * 1.01), n_params_kind="total")
    found = report(other, target, at="n_params=124672,tokens=1M,replay=25%,ptpp=279")
    assert "other-data" in {finding.code for finding in found.findings}


def test_missing_extra_is_one_clear_line(monkeypatch, runs, files):
    import sys

    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(UsageError, match=r"pip install '.\[report\]'"):
        cl.figures.observed_fitted(cl.load_fit(files / "target.json"))
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(UsageError, match=r"pip install '.\[images\]'"):
        write_images({}, ".", "png")


def test_numbers_in_commands_keep_their_value():
    from cptlaw.reporting.repeat import _number
    from cptlaw.units import parse_quantity

    for value in (124_672.0, 8.1e9, 0.25, 365_612.123, 1e12, 3.5e21):
        assert parse_quantity(_number(value)) == pytest.approx(value, rel=1e-9)
    assert _number("25%") == "25%"
    assert re.fullmatch(r"8\.1B", _number(8.1e9))


@pytest.mark.dear("a report with all its figures, from a table in bytes")
def test_units_are_those_of_the_table(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(drawings, "FRONT_POINTS", 3)
    in_bytes = cl.read_runs(runs.frame.assign(tokenizer="bytes"))
    fits = [
        cl.fit("ptpp-floor", in_bytes, on=on, where=ROWS, starts=2, restraint="none") for on in ("target", "source")
    ]
    fits = [cl.load_fit(fit.save(tmp_path / f"{fit.on}.json")) for fit in fits]  # a file keeps the unit
    made = report(in_bytes, *fits, **MODEL, max_target_loss=1.7, max_forgetting="25%", suggest_budget="1e12")
    content = made.to_html()
    assert "nats per token" not in content
    assert "nats per byte" in " ".join(Page(content).text)
    assert "nats per byte" in made.answer
    assert "nats per byte" in str(made.plan)


def test_how_many_held_out_losses_lie_inside_stands_among_the_doubts(found):
    said = [doubt for doubt in found.findings if doubt.code == "calibration"]
    assert [doubt.message.split(" lie")[0].split("held-out ")[1] for doubt in said] == [
        "target losses",
        "source losses",
    ]
    assert all("in their 90% intervals" in doubt.message for doubt in said)


def test_too_few_inside_is_a_warning_and_open_intervals_do_not_count():
    data = pd.DataFrame({"measured": [2.0] * 72, "lo": [1.9] * 49 + [2.1] * 23, "hi": 2.2})
    figure = Figure("calibration-target", "", "", data, None)
    doubt = as_doubt(figure, "target", 0.9)
    assert doubt.severity == "warning"
    assert lacks(doubt.message, "49 of 72", "target", "90%") == []
    assert as_doubt(replace(figure, data=data.iloc[:49]), "target", 0.9).severity == "info"
    assert as_doubt(replace(figure, data=data.assign(hi=np.nan)), "target", 0.9) is None
    assert as_doubt(replace(figure, data=data[["measured"]]), "target", 0.9) is None
