"""Bars: late, on a terminal alone, one at a time."""

import sys
import types

import pytest

import cptlaw as cl
from cptlaw import progress as room


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(room.time, "monotonic", lambda: now[0])
    return now


def counted(monkeypatch, clock, seconds):
    shown = []

    def bar(label, length):
        return lambda done: shown.append((label, done, length)), lambda: shown.append("closed")

    monkeypatch.setattr(room, "_bar", bar)
    for _ in room.track(["a", "b", "c"], "laws"):
        clock[0] += seconds
        for _ in room.track([1, 2], "parts"):  # what is inside has no bar of its own
            clock[0] += seconds
    return shown


def test_what_is_done_within_two_seconds_has_no_bar(monkeypatch, clock):
    assert counted(monkeypatch, clock, 0.1) == []


def test_a_bar_begins_after_two_seconds_and_closes(monkeypatch, clock):
    assert counted(monkeypatch, clock, 0.5) == [("laws", 2, 3), ("laws", 3, 3), "closed"]


def test_a_pipe_has_no_bar(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert room._bar("laws", 3) is None


def test_a_terminal_has_one(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    advance, close = room._bar("laws", 3)
    advance(1)
    close()
    out, err = capsys.readouterr()
    assert "laws" in err
    assert out == ""


def test_a_notebook_has_one_without_any_other_package(monkeypatch):
    said = []

    class Handle:
        def update(self, data, raw):
            said.append(data["text/plain"])

    fake = types.ModuleType("IPython.display")
    fake.display = lambda data, raw, display_id: Handle()
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    advance, close = room._bar("laws", 3)
    advance(2)
    close()
    assert said == ["laws: 2 of 3", ""]


def test_a_fit_by_name_and_the_choice_of_runs_have_bars(monkeypatch):
    bars = []
    monkeypatch.setattr(room, "LATE", -1.0)
    monkeypatch.setattr(room, "_bar", lambda label, length: bars.append(label) or (lambda done: None, lambda: None))
    runs = cl.examples.load("en-fr-pilot").where("ptpp in (15, 31) and replay in (0.1, 0.5) and atpp >= 1.9")
    ask = {"at": "n_params=125K,tokens=1M,replay=25%,ptpp=279", "budget": "1e12", "restraint": "none"}
    few = {"sizes": "45936", "ptpps": "31,62", "replays": "25%", "tokens": "500K"}
    cl.suggest("ptpp-floor", runs, "target", n=1, starts=2, **ask, **few)
    assert {"fitting", "choosing runs"} <= set(bars)
