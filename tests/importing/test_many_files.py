"""A folder of many files is walked through once, and each file is looked at once, however many formats there are."""

import os

import pytest

import cptlaw as cl
from cptlaw.importing import line_log, reader


@pytest.fixture
def folder(tmp_path):
    for i in range(40):
        (tmp_path / f"run-{i}").mkdir()
        (tmp_path / f"run-{i}" / "notes.log").write_text(f"nothing was measured on day {i}\n")
    return tmp_path


def test_each_file_of_a_folder_is_looked_at_once(folder, monkeypatch):
    walked, read = [], []
    walk, lines_of = os.walk, line_log.lines_of
    monkeypatch.setattr(reader.os, "walk", lambda *where: walked.append(where) or walk(*where))
    monkeypatch.setattr(line_log, "lines_of", lambda path: read.append(path) or lines_of(path))
    with pytest.raises(cl.DataError):
        cl.import_logs(folder)
    assert walked == [(folder,)]
    assert len(read) == 40


def test_what_came_into_a_folder_meanwhile_is_read(folder):
    (folder / "run-7" / "124M-r25.csv").write_text("step,eval_fr_loss\n100,2.5\n")
    assert len(cl.import_logs(folder).frame) == 1
    (folder / "run-8" / "124M-r50.csv").write_text("step,eval_fr_loss\n100,2.5\n")
    assert len(cl.import_logs(folder).frame) == 2


def test_hidden_folders_hold_no_logs(folder):
    (folder / ".cache").mkdir()
    (folder / ".cache" / "a.json").write_text("{}")
    assert reader.files_below(folder, ["*.json"]) == []
    assert len(reader.files_below(folder, ["*.log", "notes.*"])) == 40
