"""The verb `read`: on a terminal it asks, in a pipe it says what is open; of files, folders and logs alike."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import cptlaw as cl

TRUTH = Path(__file__).parents[1] / "runs" / "messy" / "truth.csv"
ROWS = "run,eval,loss,n_params,tokens,replay,ptpp,lr_peak".split(",")


def renamed(path):
    pd.read_csv(TRUTH).rename(columns={"replay": "rr"}).to_csv(path, index=False)
    return path


def on_terminal(words, replies, cwd):
    """Run a command on a terminal, reply to its prompts, and return its exit code and all that it showed."""
    pty = pytest.importorskip("pty", reason="terminals of their own are for POSIX")
    pid, place = pty.fork()
    if pid == 0:  # pragma: no cover - the child is the command
        os.chdir(cwd)
        os.execv(sys.executable, [sys.executable, "-m", "cptlaw", *map(str, words)])
    shown, left, end = b"", list(replies), time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([place], [], [], 1.0)[0]:
            continue
        try:
            part = os.read(place, 65536)
        except OSError:  # its end, on Linux
            break
        if not part:
            break
        shown += part
        if left and shown.rstrip().endswith(b"[1]:"):
            os.write(place, left.pop(0).encode() + b"\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_on_a_terminal_it_asks_and_keeps_the_reply(tmp_path):
    path = renamed(tmp_path / "runs.csv")
    code, shown = on_terminal(["read", path.name], ["perhaps", "1"], tmp_path)
    assert code == 0, shown
    assert shown.count("Number, or NAME=COLUMN") == 2  # what was no reply is asked again
    assert "replay: rr" in (tmp_path / "runs.csv.cptlaw.yaml").read_text()
    assert "rr" not in [one.name for one in cl.read(path).open]


def test_answer_asks_on_a_terminal_too(tmp_path):
    path = renamed(tmp_path / "runs.csv")
    words = ["check", path.name, "--on", "target"]
    code, shown = on_terminal(words, ["replay=rr"], tmp_path)
    assert code == 0, shown
    assert "kept in runs.csv.cptlaw.yaml" in shown


def test_a_terminal_is_asked_for_losses_and_roles_as_for_settings(tmp_path):
    table = pd.read_csv(TRUTH).pivot(index=[one for one in ROWS if one not in ("eval", "loss")], columns="eval")
    table.columns = ["val A", "val B"]
    table.reset_index().rename(columns={"replay": "rr"}).to_csv(tmp_path / "runs.csv", index=False)
    words = ["check", "runs.csv", "--on", "target"]
    code, shown = on_terminal(words, ["1", "1", "1"], tmp_path)
    assert code == 0, shown
    kept = (tmp_path / "runs.csv.cptlaw.yaml").read_text()
    for part in ("losses:", "a: val A", "replay: rr", "source_eval: a", "target_eval: b"):
        assert part in kept


def test_in_a_pipe_it_asks_nothing_and_says_all(tmp_path):
    path = renamed(tmp_path / "runs.csv")
    words = [sys.executable, "-m", "cptlaw", "read", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "--columns 'replay=rr'" in done.stdout
    assert not (tmp_path / "runs.csv.cptlaw.yaml").exists()


def logs(folder):
    """Write two runs as the Trainer of Hugging Face leaves them, with settings beside."""
    for name, replay in (("a", 0.1), ("b", 0.3)):
        run = folder / name / "checkpoint-20"
        run.mkdir(parents=True)
        history = [
            {"step": step, "eval_fr_loss": 2.6 - step / 100 + replay / 10, "eval_en_loss": 2.2 - replay / 10}
            for step in (10, 20)
        ]
        (run / "trainer_state.json").write_text(json.dumps({"log_history": history, "global_step": 20}))
        config = {"n_params": 1e8, "replay": replay, "global_batch_size": 8, "seq_length": 1024}
        (folder / name / "args.json").write_text(json.dumps(config))
    return folder


def test_a_folder_of_logs_is_read_and_imported_by_the_same_step(tmp_path, capsys):
    folder = logs(tmp_path / "out")
    reading = cl.read(folder)
    assert reading.understood
    assert reading.label == str(folder)
    meanings = {one.name: one.meaning for one in reading.columns}
    assert {meanings[name] for name in ("n_params", "replay", "tokens")} == {"n_params", "replay", "tokens"}
    shown = []
    for verb in ("read", "import"):
        with pytest.raises(SystemExit) as ended:
            cl.cli.main([verb, str(folder)])
        assert ended.value.code == 0
        out, err = capsys.readouterr()
        assert verb == "import" or f"next: cptlaw import {folder} -o runs.csv" in err  # other verbs read tables
        shown.append([line for line in out.splitlines() if " replay" in line])
    assert shown[0] == shown[1]
