"""A folder of many files is walked through once, each file is looked at once, and each name is understood once."""

import json
import os
from collections import Counter

import pytest

import cptlaw as cl
from cptlaw.importing import assemble, line_log, names_of_losses, reader
from cptlaw.runs import tracker_names


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


def test_each_name_in_a_folder_of_logs_is_understood_once(tmp_path, monkeypatch):
    asked = Counter()

    def count(module, name):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda of: asked.update([(name, str(of))]) or original(of))

    count(names_of_losses, "_words")
    count(tracker_names, "_without_unit")
    count(assemble, "canonical_name")
    for i in range(12):
        (tmp_path / f"{i}").mkdir()
        (tmp_path / f"{i}" / "args.json").write_text(json.dumps({"my_share": i / 10, "my_note": 3}))
        rows = [{"step": step, "eval_zz_loss": 3.0 - step / 1000, "my_norm": 1.0 + step} for step in range(8)]
        (tmp_path / f"{i}" / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert len(cl.import_logs(tmp_path)) == 12 * 8
    assert {"eval_zz_loss", "my_norm", "['my', 'share']"} <= {name for _, name in asked}
    assert max(asked.values()) <= 4  # what is asked of a name: is it a loss, of what, and what else it means
