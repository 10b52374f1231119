"""YAML, JSON and quantities from anywhere: plain values or one message with the file and the line, in linear time."""

import json

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

import cptlaw as cl
from cptlaw import examples, reading
from cptlaw.errors import CptlawError, DataError, UsageError, did_you_mean, escape_hidden, quote
from cptlaw.reading import parse_json, parse_yaml
from cptlaw.runs.levels import among_levels, same_level
from cptlaw.runs.where import parse
from cptlaw.schedules import Phase, read_schedules
from cptlaw.units import parse_quantity

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


class TestYaml:
    def test_words_mean_what_the_core_schema_says(self):
        text = "on: no\nyes: on\nnull: ~\n007: 010\nf: 1e-4\nh: 0x1F\nt: 12:30:00\nd: 2024-02-30\nq: '7'\nb: true\n"
        assert parse_yaml(text, "s.yaml") == {
            "on": "no", "yes": "on", "null": None, "007": 10, "f": 1e-4, "h": 31, "t": "12:30:00", "d": "2024-02-30",
            "q": "7", "b": True,
        }  # fmt: skip

    def test_aliases_and_merges(self):
        text = "base: &b {peak: 1e-3, steps: 10}\na: {<<: *b, peak: 2e-3}\nb: *b\n"
        found = parse_yaml(text, "s.yaml")
        assert found["a"] == {"peak": 2e-3, "steps": 10}
        assert found["b"] == found["base"]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a: 1\nb: !!int x", "line 2.*tag '!!int'"),
            ("a: !!float x", "line 1.*tag"),
            ("a: !!python/object/apply:os.system ['true']", "line 1.*tag"),
            ("a: !!timestamp 2024-13-45", "tag"),
            ("a: !!binary '&&&'", "tag"),
            ("\n\na: {b: 1", "line [34].*not YAML"),
            ("a: 1\nb: 2\na: 3", "line 3.*the key 'a' is there twice"),
            ("? [1, 2]\n: 3", "line 1.*name of a key"),
            ("a: *b", "line 1.*alias"),
            ("a: &a [*a]", "line 1.*alias"),
            ("a: 1\n---\nb: 2", "line 2.*second document"),
            ("a: [" * 1000, "nested more than 50 deep"),
            ("[" * 100_000, "nested more than 50 deep"),
            (BOMB, "more than 1,000,000 values"),
            ("a: \x07", "not YAML"),
            ("<<: 3", "takes a mapping"),
        ],
    )
    def test_what_is_refused_names_file_and_line_shortly(self, text, words):
        with pytest.raises(DataError, match=words) as refused:
            parse_yaml(text, "sweep.yaml")
        assert str(refused.value).startswith("sweep.yaml")
        assert len(str(refused.value)) < 400

    @pytest.mark.parametrize("text", ["a: 0x_", "a: 0b_", "a: 1__2", "a: 1e999", "a: .inf", "a: " + "9" * 5000])
    def test_odd_numbers_are_no_trouble(self, text):
        value = parse_yaml(text, "s.yaml")["a"]
        if not isinstance(value, float):
            with pytest.raises(UsageError):
                parse_quantity(value)

    def test_too_large_a_file(self, monkeypatch):
        monkeypatch.setattr(reading, "LARGEST_YAML", 10)
        with pytest.raises(DataError, match="MB of YAML"):
            parse_yaml("a: 1234567890", "s.yaml")

    def test_half_a_character_is_written_out(self):
        """A trainer had cut a text in its middle; no table can hold the half, and two halves are not one."""
        found = parse_json(r'{"a\ud800": ["\ud83d\ude00", "\udc00b", NaN, 9007199254740993]}', "x.json")
        assert list(found) == ["a\\ud800"]
        assert found["a\\ud800"][:2] == ["\U0001f600", "\\udc00b"]
        assert found["a\\ud800"][3] == 9007199254740993
        assert np.isnan(found["a\\ud800"][2])

    @settings(max_examples=200, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text("ab0-:1.e#' ", max_size=8),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab1", max_size=3), inner, max_size=4),
            max_leaves=12,
        )
    )
    def test_json_is_read_alike_as_yaml(self, value):
        text = json.dumps(value)
        assert parse_yaml(text, "x") == parse_json(text, "x") == value


class TestJson:
    def test_the_line_is_named(self):
        with refused(DataError, "t.json, line 3", "JSON"):
            parse_json('{\n "a": 1,\n "b": x\n}', "t.json")

    def test_depth_and_digits(self):
        with refused(DataError, "50 deep"):
            parse_json("[" * 100 + "]" * 100, "t.json")
        with refused(DataError, "50 deep"):
            parse_json('{"a":' * 100_000 + "1" + "}" * 100_000, "t.json")
        assert parse_json("9" * 400, "t.json") == np.inf
        assert parse_json("[1, 12345678901234567890]", "t.json") == [1, 12345678901234567890.0]


class TestLinear:
    @pytest.mark.parametrize(
        "text",
        ["1" * 16_000 + "x", "1_" * 8_000, "1." * 8_000, " " * 16_000, "1e" + "5" * 16_000, "." + "1" * 16_000 + "e"],
    )
    def test_long_quantities_are_refused_at_once(self, text):
        with pytest.raises(UsageError) as refused:
            parse_quantity(text)
        assert len(str(refused.value)) < 300

    @pytest.mark.parametrize("piece", ["1", "(", "'a", "a.", "1.1", "not ", "1e5", "ptpp == 1 or ", '"', "`", "é"])
    def test_long_filters_are_answered_shortly(self, piece):
        for text in ("ptpp == " + piece * (80_000 // len(piece)), piece * (80_000 // len(piece)) + "x"):
            with pytest.raises(UsageError) as refused:
                parse(text)
            assert len(str(refused.value)) < 1000

    def test_a_filter_has_an_end(self):
        with pytest.raises(UsageError, match="more than the"):
            parse("ptpp == " + "1" * 200_000)

    def test_levels_are_found_as_one_by_one(self):
        generator = np.random.default_rng(0)
        levels = generator.choice([1e-9, 0.3, 0.1 + 0.2, 5.0, -2.0, 0.0, 1e300], 5)
        values = np.concatenate([levels, levels * (1 + 5e-10), levels * 1.1, [np.nan, np.inf, -np.inf]])
        one_by_one = np.logical_or.reduce([same_level(values, level) for level in levels])
        assert among_levels(values, levels).tolist() == one_by_one.tolist()


class TestMessages:
    def test_what_is_quoted_is_short_and_harmless(self):
        assert len(quote({"a": ["x" * 10_000] * 10_000})) < 500
        assert escape_hidden("a\x1b[31m\u202eb\ud800") == "a\\x1b[31m\\u202eb\\ud800"
        assert str(CptlawError("a\x1b[2J\nb")) == "a\\x1b[2J\nb"
        assert did_you_mean("x" * 10_000, ["x" * 9_999]) == ""

    def test_names_from_a_table_cannot_drive_a_terminal(self):
        table = pd.DataFrame({"run": ["a\x1b[2J"], "eval": ["t\n"], "loss": [2.0]})
        assert cl.read_runs(table).frame["run"].tolist() == ["a\\x1b[2J"]


class TestSchedules:
    def test_a_schedule_without_end_is_refused(self, tmp_path):
        with pytest.raises(UsageError, match="20,000,000 at most"):
            Phase("cpt", 1e15, "constant", peak=1e-3)
        path = tmp_path / "s.yaml"
        path.write_text("a:\n  - {phase: cpt, steps: 1e15, schedule: constant, peak: 1e-3}\n")
        with refused(DataError, "'a'", "phase 1"):
            read_schedules(path)

    def test_runs_are_called_as_they_are_written(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text("007:\n  - {phase: cpt, steps: 10, schedule: constant, peak: 1e-3}\n")
        assert list(read_schedules(path)) == ["007"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The document of a fit."""
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5)"
    fit = cl.fit("ptpp-floor", examples.load("en-fr-pilot"), on="target", where=where, restraint="none")
    return json.loads(fit.save(tmp_path_factory.mktemp("fit") / "t.json").read_text())


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": None},
        {"format_version": "1"},
        {"format_version": [[]]},
        {"law": None},
        {"law": "no-such-law"},
        {"law": "ptpp-floor:x=y"},
        {"params": None},
        {"params": {"E": 1.0, "unknown": 2.0}},
        {"params": {"E": "x"}},
        {"findings": [1]},
        {"findings": [{"severity": "x", "code": "y", "message": "z"}]},
        {"settings": []},
        {"settings": {"restraint": [1], "delta": 1e-3, "starts": 1, "seed": 0}},
        {"settings": {"restraint": {}, "delta": "\0", "starts": 1, "seed": 0}},
        {"settings": {"restraint": {}, "delta": 1e-3, "starts": 1, "seed": "x"}},
        {"data": {"loss": [1.0], "lr_peak": ["\0"]}},
        {"base": {"n_params": ["x"], "ptpp": [1.0], "loss": [1.0]}},
        {"data": {"loss": [1.0], "tokens": [1.0, 2.0]}},
        {"data": {"loss": ["x"]}},
        {"data": 5},
        {"optima": [[1.0, 2.0]]},
        {"optima": "x"},
        {"n_points": "many"},
        {"provenance": None},
        {"schedules": {"a": 5}},
        {"on": 5},
    ],
)
def test_a_tampered_fit_is_one_message_that_names_the_file(saved, tmp_path, changes):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**saved, **changes}))
    with pytest.raises(DataError, match=r"t.json"):
        cl.load_fit(path)


def test_a_tampered_average_is_one_message_that_names_the_file(tmp_path):
    path = tmp_path / "auto.json"
    fit = cl.fit("auto", examples.load("en-fr-pilot"), on="target", where="ptpp == 31 and lr_schedule == 'constant'")
    good = json.loads(fit.save(path).read_text())
    for name, value in (("share", [[[]]]), ("error", [[1.0]]), ("reach", "x")):
        path.write_text(json.dumps({**good, "scores": {**good["scores"], name: value}}))
        with pytest.raises(DataError, match=r"auto.json"):
            cl.load_fit(path)


def test_a_nested_fit_is_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"format": "cptlaw-fit", "params": ' + "[" * 100_000)
    with pytest.raises(DataError, match=r"t.json"):
        cl.load_fit(path)
