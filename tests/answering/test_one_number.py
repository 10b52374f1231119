"""One question has one answer, to the printed digit: answer, its commands, plan, forecast, report and app."""

import base64
import contextlib
import html
import io
import itertools
import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.answering.answer_text import NAMED
from cptlaw.cli import main
from cptlaw.runs.points import point
from cptlaw.units import format_percent, format_quantity

pytest.importorskip("plotly", reason="the report and the app draw with Plotly")
pytest.importorskip("flask", reason="the app needs Flask")
from cptlaw_app.server import build

HERE = {"Host": "127.0.0.1:8050"}
ENDS = ("", "_lo", "_hi")
LOSSES = ("target_loss", "source_loss")
EXPECTED = tuple(name + end for name in (*LOSSES, "forgetting") for end in ENDS)
# A command prints its point to six digits, and a plan is solved anew: far below any digit that is printed.
SAME = 1e-5
DRAWN = 1e-6  # drawings hold single precision
WORDS = ("target loss", "source loss", "forgetting")
AT_NIGHT = ("en_fr_pilot", "docs_to_code", "code_to_prose")
QUESTIONS = {
    "pilot": {
        "n_params": 124_672, "ptpp": 279, "tokens": "1M", "max_forgetting": "25%", "base_source_loss": 1.7293,
    },
    "en_fr_pilot": {"n_params": 124_672, "ptpp": 279, "tokens": "1M", "max_forgetting": "25%"},
    "docs_to_code": {"n_params": 124_672, "ptpp": 124, "tokens": "2M", "max_forgetting": "20%"},
    "code_to_prose": {
        "n_params": 150_000, "ptpp": 279, "tokens": "1M", "max_forgetting": "40%", "base_source_loss": 1.3,
    },
}  # fmt: skip
NUMBER = r"(\d+(?:\.\d+)?%?)"


@dataclass
class Asked:
    """A question, what the verb `answer` said to it, and what the commands that it printed said in their turn."""

    folder: Path
    table: Path
    question: dict
    said: dict
    text: str
    commands: dict


def run(*words):
    """Run the command line as it was printed: stdout, stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main(list(words))
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    assert code == 0, (words, err.getvalue())
    return out.getvalue(), err.getvalue()


def remembering(fit):
    """Return a fit that is made once of the same rows asked the same way: most of the time of a surface."""
    known = {}

    def once(table, on, where=None, **how):
        key = (table.fingerprint, tuple(table.roles.items()), on, where, tuple(sorted(how.items())))
        if key not in known:
            known[key] = fit(table, on, where, **how)
        return known[key]

    return once


@pytest.fixture(scope="module", params=["pilot", *(pytest.param(name, marks=pytest.mark.nightly) for name in AT_NIGHT)])
def asked(request, tmp_path_factory, pilot):
    """Ask once by the command line, and run each command that it prints."""
    folder, before = tmp_path_factory.mktemp(request.param), Path.cwd()
    table = Path(cl.__file__).parent / "examples" / f"{request.param}.csv"
    table = pilot.path if request.param == "pilot" else table
    question = QUESTIONS[request.param]
    words = ["answer", str(table)]
    words += [word for key, value in question.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    fits = sys.modules[cl.fit.__module__]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fits, "fit_auto", remembering(fits.fit_auto))
        os.chdir(folder)
        try:
            said = json.loads(run(*words, "--json")[0])
            text, steps = run(*words, "--explain", "-o", "report.html")
            commands = {}
            for line in (line for line in steps.splitlines() if line.startswith("cptlaw ")):
                _, verb, *rest = shlex.split(line)
                commands.setdefault(verb, []).append((line, run(verb, *rest)[0]))
            yield Asked(folder, table, question, said, text, commands)
        finally:
            os.chdir(before)


def agrees(printed, value):
    """Whether a printed number is a value to its last digit."""
    scale = 0.01 if printed.endswith("%") else 1.0
    digits = len(printed.rstrip("%").partition(".")[2])
    return abs(float(printed.rstrip("%")) * scale - value) <= 0.5001 * 10.0**-digits * scale


def numbers(text, known):
    """Return which of the expected numbers a text holds; each of them must agree with what is known, to its digits."""
    plain = re.sub(r"\s+", " ", text)
    seen = set()
    for words in WORDS:
        name = words.replace(" ", "_")
        for found in re.finditer(
            rf"{words} (?:is forecast at )?{NUMBER}(?: \(|, 90% interval ){NUMBER} to {NUMBER}", plain
        ):
            for end, printed in zip(ENDS, found.groups(), strict=True):
                assert agrees(printed, known[name + end]), (name + end, printed, known[name + end])
                seen.add(name + end)
    of_replay = rf"(?:tokens,|tokens with|tokens at) {NUMBER} replay|^  share of old data \(replay\) +{NUMBER}"
    for found in re.finditer(of_replay, text, re.MULTILINE):
        printed = found[1] or found[2]
        assert agrees(printed, known["replay"]), ("replay", printed, known["replay"])
        seen.add("replay")
    return seen


def same(found, said):
    assert found == {name: pytest.approx(said[name], rel=SAME) for name in found}


def test_the_text_prints_what_json_holds(asked):
    assert asked.said["feasible"]
    found = numbers(of_the_mix(in_lines(asked.text)), asked.said)
    assert found >= {"replay", "target_loss", "target_loss_lo", "target_loss_hi", "forgetting", "forgetting_hi"}
    assert f"train on {format_quantity(asked.said['tokens'], 3)} tokens, " in asked.text
    for row in asked.said["alternatives"]:
        if row["method"] == "mix":
            shown = next(line for line in asked.text.splitlines() if line.startswith(f"  {NAMED[row['name']]}  "))
            cells = shown.removeprefix(f"  {NAMED[row['name']]}").split()
            assert cells[:2] == [format_quantity(row["tokens"], 3), format_percent(row["replay"])]
            assert agrees(cells[2], row["target_loss"])
            assert agrees(cells[3], row["forgetting"])


def test_the_commands_are_those_that_json_lists(asked):
    # Where no cheap run would narrow the forecast there is none to suggest.
    assert set(asked.commands) - {"suggest"} == {"fit", "forecast", "plan"}
    assert ("suggest" in asked.commands) == bool(asked.said["next_runs"])
    verbs = [verb for verb in ("fit", "forecast", "plan", "suggest") if verb in asked.commands]
    printed = [line for verb in verbs for line, _ in asked.commands[verb]]
    assert printed == asked.said["commands"]


def test_the_forecast_of_explain_says_the_same(asked):
    [(line, text)] = asked.commands["forecast"]
    head, *rows = (row.split() for row in re.findall(r"^  (?:law|auto) .*$", text, re.MULTILINE))
    at = point(shlex.split(line)[-1])
    for name, row in zip(LOSSES, rows, strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["on"] == name.removesuffix("_loss")
        assert agrees(cells["replay"], asked.said["replay"])
        found = cl.load_fit(asked.folder / f"{cells['on']}.json").forecast(at).iloc[0]
        for end, key in zip(ENDS, ("loss", "lo", "hi"), strict=True):
            assert agrees(cells[key], asked.said[name + end])
            same({name + end: found[key]}, asked.said)


def test_the_plan_of_explain_says_the_same(asked):
    [(_, text)] = asked.commands["plan"]
    assert numbers(text, asked.said) == {*EXPECTED, "replay"}
    assert agrees(re.search(rf"base model's {NUMBER}", text)[1], asked.said["base_source_loss"])


def test_the_plan_of_the_library_says_the_same(asked):
    target, source = (cl.load_fit(asked.folder / f"{role}.json") for role in ("target", "source"))
    plan = cl.plan.trade_off(target, source, risk=asked.said["risk"], **asked.question)
    same({name: getattr(plan, name) for name in (*EXPECTED, "replay", "tokens", "atpp", "flops")}, asked.said)


def test_the_next_runs_of_explain_are_those_of_the_answer(asked):
    if not asked.said["next_runs"]:
        pytest.skip("no cheap run would narrow this forecast")
    [(_, text)] = asked.commands["suggest"]
    [loss] = re.findall(rf"forecast +{NUMBER}", text)
    [ends] = re.findall(rf"interval before +{NUMBER} to {NUMBER}", text)
    for end, printed in zip(ENDS, (loss, *ends), strict=True):
        assert agrees(printed, asked.said["source_loss" + end])
    head, *table = [row.split() for row in text.partition("n_params  ptpp")[2].splitlines()]
    rated = "lr_peak" in head  # where the runs have several rates
    cells = [row[: 5 + rated] for row in itertools.takewhile(lambda row: row and row[0] != "gain:", table)]
    expected = [
        [
            format_quantity(cell["n_params"]),
            f"{cell['ptpp']:g}",
            format_percent(cell["replay"]),
            format_quantity(cell["tokens"]),
            *([f"{cell['lr_peak']:.3g}"] if rated else []),
            format_quantity(cell["flops"]),
        ]
        for cell in asked.said["next_runs"]
    ]
    assert cells == expected


def drawn(page):
    """Return the traces of each drawing in a page by their names: x, y and the ends of its bars, in full."""

    def values(given):
        if isinstance(given, dict):
            return np.frombuffer(base64.b64decode(given["bdata"]), given["dtype"]).astype(float)
        return np.array(given or [])

    figures = []
    for data in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL):
        traces = {}
        for trace in json.loads(data)["data"]:
            bars = trace.get("error_y") or {}
            shown = [
                values(given) for given in (trace.get("x"), trace.get("y"), bars.get("arrayminus"), bars.get("array"))
            ]
            traces.setdefault(trace.get("name"), []).append(shown)
        figures.append(traces)
    return figures


def assert_on_curve(x, y, at, value):
    """Hold a value against a curve that is drawn at some places: it lies between the two around it.

    At a minimum it may lie below both, by as much as the curve bends there.
    """
    place = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    low, high = sorted(y[place - 1 : place + 1])
    bend = np.abs(np.diff(np.diff(y[max(place - 2, 0) : place + 2]) / np.diff(x[max(place - 2, 0) : place + 2])))
    most = 0.25 * float(bend.max(initial=0.0)) * float(x[place] - x[place - 1])
    assert (low - most) * (1 - DRAWN) <= value <= (high + most) * (1 + DRAWN)


def in_lines(text):
    """Return the lines of an answer as they are printed, by their labels: its table follows them."""
    whole = re.sub(r"\n {6,}(?=\S)", " ", text.partition("  instead ")[0])  # lines that go on
    return dict(re.findall(r"^  (\S.*?)  +(\S.*)$", whole, re.MULTILINE))


def of_the_mix(lines):
    """Return what an answer says of its own mix: other lines speak of other mixes."""
    return "\n".join(f"{label}  {lines[label]}" for label in ("answer", *WORDS) if label in lines)


def test_the_report_says_the_same_in_its_headline_and_in_each_figure(asked):
    said, page = asked.said, (asked.folder / "report.html").read_text(encoding="utf-8")
    headline = html.unescape(re.search(r'<p class="answer">(.*?)</p>', page)[1])
    assert numbers(headline, said) == {*EXPECTED, "replay"}
    texts = re.findall(r"<figure[^>]*><h3>(.*?)</h3>.*?<figcaption>(.*?)<", page, re.DOTALL)
    seen, checked = set(), set()
    for (title, caption), traces in zip(texts, drawn(page), strict=True):
        seen |= numbers(f"{title} {caption}", said)
        if "plan" in traces:  # the star on the map
            checked.add("map")
            [((x,), (y,), *_)] = traces["plan"]
            assert (x, y) == pytest.approx((said["tokens"], said["replay"]), rel=SAME)
            assert agrees(re.search(rf"base model&#39;s {NUMBER}", caption)[1], said["base_source_loss"])
        elif "forecast" in traces:  # the fan, a curve along the tokens
            name = "target_loss" if "target loss" in title else "source_loss"
            checked.add(name)
            [(x, y, *_)] = traces["forecast"]
            assert_on_curve(x, y, said["tokens"], said[name])
        elif title.startswith("Between"):  # both losses against each other, along the replay
            checked.add("front")
            [(x, y, *_)] = traces[None]
            assert_on_curve(x, y, said["target_loss"], said["source_loss"])
    assert seen == {name + end for name in LOSSES for end in ENDS} | {"replay"}
    assert checked == {"map", "front", *LOSSES}


def test_the_app_says_the_same_in_words_and_in_its_drawing(asked):
    said, client = asked.said, build(cl.read_runs(asked.table)).test_client()
    form = {"table": "given", **{key: str(value) for key, value in asked.question.items()}}
    page = client.get("/answer", query_string=form, headers=HERE).get_data(as_text=True)
    text = html.unescape(page)
    lines = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    lines["answer"] = re.search(r'id="sentence">(.*?)\.</p>', text)[1]
    printed = {label: words.lower() for label, words in in_lines(asked.text).items()}
    assert {label: lines[label].lower() for label in printed} == printed
    shares = {label: words for label, words in lines.items() if re.fullmatch(r"[\d.]+% replay", label)}
    assert len(shares) == len(said["options"])
    for option in said["options"]:
        words = shares[f"{100 * option['replay']:.3g}% replay"]
        assert agrees(re.search(rf"target loss {NUMBER}", words)[1], option["target_loss"])
    marks = [mark for traces in drawn(page) for mark in traces.get("plan", []) if mark[2].size]
    for name, (x, y, below, above) in zip(LOSSES, marks, strict=True):
        found = {"replay": x[0], name: y[0], f"{name}_lo": y[0] - below[0], f"{name}_hi": y[0] + above[0]}
        same(found, said)
    curves = {words: curve for traces in drawn(page) for words, [curve, *_] in traces.items() if words in WORDS}
    for name in LOSSES:
        x, y, *_ = curves[name.replace("_", " ")]
        assert_on_curve(x, y, said["replay"], said[name])
