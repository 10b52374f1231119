"""Files on disk: what is replaced, what is refused, and what a killed or failed write leaves behind."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw import examples, writing
from cptlaw.errors import DataError

PILOT = Path(examples.path("en-fr-pilot"))
ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9 and lr_schedule == 'constant'"
FIT = ("--law", "ptpp-floor", "--on", "target", "--where", ROWS)


@pytest.fixture
def table(tmp_path):
    """A runs table that must not be lost."""
    path = tmp_path / "runs.csv"
    path.write_bytes(PILOT.read_bytes())
    return path


@pytest.fixture(scope="module")
def fit():
    return cl.fit("ptpp-floor", examples.load("en-fr-pilot"), on="target", where=ROWS, restraint="none")


class TestNothingElseIsOverwritten:
    def test_the_input_of_a_fit(self, call, table):
        before = table.read_bytes()
        for force in ((), ("--force",)):
            code, out, err = call("fit", str(table), *FIT, "-o", str(table), *force)
            assert (code, out) == (2, "")
            assert "never overwritten" in err
            assert table.read_bytes() == before

    @pytest.mark.parametrize("other", ["notes.md", "other.json", "other.csv"])
    def test_a_file_of_another_kind(self, call, table, tmp_path, other):
        path = tmp_path / other
        path.write_text('{"format": "of another program"}')
        verbs = (
            ("fit", str(table), *FIT),
            ("given", "chinchilla", "--on", "target", "--params", "E=1.7,A=400,B=400,alpha=.34,beta=.28"),
            ("suggest", str(table), "--law", "ptpp-floor", "--on", "target", "--at", "ptpp=279", "--budget", "1e12"),
        )
        for verb in verbs:
            code, _, err = call(*verb, "-o", str(path))
            assert code == 2, verb
            assert "--force" in err
            assert path.read_text() == '{"format": "of another program"}'

    def test_force_means_it(self, call, tmp_path):
        path = tmp_path / "notes.md"
        path.write_text("notes")
        given = ("given", "chinchilla", "--on", "target", "--params", "E=1.7,A=400,B=400,alpha=.34,beta=.28")
        assert call(*given, "-o", str(path), "--force")[0] == 0
        assert cl.load_fit(path).law.name == "chinchilla"
        assert call(*given, "-o", str(path))[0] == 0  # it is a fit now

    def test_a_report_and_an_import(self, call, table, tmp_path):
        fit = tmp_path / "t.json"
        assert call("fit", str(table), *FIT, "-o", str(fit))[0] == 0
        kept = fit.read_bytes()
        at = "n_params=125K,tokens=2M,replay=25%,ptpp=279"
        assert call("report", str(table), "--target", str(fit), "--at", at, "-o", str(fit))[0] == 2
        assert fit.read_bytes() == kept
        log = tmp_path / "log.csv"
        log.write_text("step,eval_loss\n1,2.5\n")
        assert call("import", str(log), "-o", str(log))[0] == 2
        assert call("import", str(tmp_path), "--format", "table", "-o", str(log))[0] == 2
        assert log.read_text() == "step,eval_loss\n1,2.5\n"

    def test_the_library_asks_too(self, fit, table):
        with pytest.raises(DataError, match="force=True"):
            fit.save(table)
        assert table.read_bytes() == PILOT.read_bytes()
        assert cl.load_fit(fit.save(table, force=True)).on == "target"

    def test_an_empty_file_may_be_filled(self, fit, tmp_path):
        path = tmp_path / "made-by-mktemp"
        path.touch()
        assert cl.load_fit(fit.save(path)).params == fit.params


class TestPlaces:
    def test_a_link_goes_on_pointing_to_its_file(self, fit, tmp_path):
        (tmp_path / "real.json").touch()
        (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
        fit.save(tmp_path / "link.json")
        assert (tmp_path / "link.json").is_symlink()
        assert cl.load_fit(tmp_path / "real.json").params == fit.params

    def test_a_device_stays_a_device(self, fit):
        fit.save("/dev/null")
        assert not Path("/dev/null").is_file()

    @pytest.mark.parametrize("name", ["no/such/folder.json", "x" * 300, "a\0b", "."])
    def test_unusable_names_are_told(self, fit, tmp_path, name):
        with pytest.raises(DataError):
            fit.save(f"{tmp_path}/{name}")
        assert not list(tmp_path.iterdir())

    def test_a_long_name_can_be_written(self, fit, tmp_path):
        path = fit.save(tmp_path / ("x" * 250 + ".json"))
        assert cl.load_fit(path).params == fit.params

    def test_permissions_are_kept(self, fit, tmp_path):
        path = fit.save(tmp_path / "t.json")
        path.chmod(0o640)
        fit.save(path)
        assert path.stat().st_mode & 0o777 == 0o640

    def test_a_full_disk_is_told_and_leaves_nothing(self, fit, tmp_path, monkeypatch):
        path = fit.save(tmp_path / "t.json")
        kept = path.read_bytes()

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="Make room"):
            fit.save(path)
        assert [item.name for item in tmp_path.iterdir()] == ["t.json"]
        assert path.read_bytes() == kept

    def test_names_of_figures_stay_in_their_folder(self):
        for text in ("../../etc/x", "/etc/x", "a\0b", "..", "", "é" * 400, "x" * 400):
            name = writing.file_name(text)
            assert Path(name).name == name
            assert not name.startswith(".")
            assert len(name) <= 80


KILLED = """
import os, signal, sys
from pathlib import Path
from cptlaw import writing
with writing.atomic_path(Path(sys.argv[1]), writing.FIT) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_writes_leave_goes_with_the_next(fit, tmp_path):
    path, begun = tmp_path / "t.json", tmp_path / ".u.json.1.part"
    begun.write_text("")  # of another file, whose writer has not locked it yet
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) >= 1
    with writing.atomic_path(path, writing.FIT) as other:  # a writer at work keeps its file
        other.write_text("half")
        fit.save(path)
        assert other.exists()
        other.write_text('{"format": "cptlaw-fit"}')
    assert {item.name for item in tmp_path.iterdir()} == {"t.json", begun.name}


def test_the_work_of_a_write_does_not_grow_with_the_folder(tmp_path, monkeypatch):
    """A dry run that writes 60,000 manifests once looked through all of them before each."""
    looks, scan = [], writing.os.scandir

    def slow(folder):
        looks.append(folder)
        time.sleep(0.02)
        return scan(folder)

    monkeypatch.setattr(writing.os, "scandir", slow)
    for number in range(50):
        writing.write_text(tmp_path / f"{number}.txt", "text", writing.TEXT)
    assert len(looks) <= 2
    assert len(list(tmp_path.iterdir())) == 50


def test_a_page_that_speaks_of_cptlaw_is_not_ours(tmp_path):
    page = tmp_path / "notes.html"
    page.write_text("<!DOCTYPE html><html><head><title>What I did with cptlaw</title></head></html>")
    with refused(DataError, "notes.html", "--force"):
        writing.write_text(page, "<!DOCTYPE html>", writing.REPORT)
    assert "What I did" in page.read_text()
    ours = tmp_path / "report.html"
    answer = cl.answer(n_params="8B", ptpp=300, target_tokens="20B", shift="language")
    for _ in range(2):
        assert answer.report(ours) == ours


def test_a_disk_that_fills_up_leaves_no_part_of_several_files(tmp_path, monkeypatch):
    to_disk, count = writing.flush_to_disk, iter(range(10))

    def full(part):
        if next(count) == 2:
            raise OSError(28, "No space left on device")
        to_disk(part)

    monkeypatch.setattr(writing, "flush_to_disk", full)
    (tmp_path / "pilot-1.json").write_text("mine")
    for folder in (tmp_path / "new" / "pilots", tmp_path):
        count = iter(range(10))
        with pytest.raises(DataError, match="Make room"):
            writing.write_all_to_edit({"pilots.yaml": "a", "pilot-1.json": "b", "pilot-2.json": "c"}, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["pilot-1.json"]
    assert (tmp_path / "pilot-1.json").read_text() == "mine"


@pytest.mark.parametrize("links", [True, False])
def test_of_two_writers_at_once_neither_loses_what_its_reader_edits(tmp_path, monkeypatch, links):
    to_disk, path, meanwhile = writing.flush_to_disk, tmp_path / "pilots.yaml", ["theirs"]
    if not links:  # as on a memory card
        monkeypatch.setattr(writing.os, "link", lambda *given: (_ for _ in ()).throw(OSError(1, "not permitted")))

    def slow(part):
        if meanwhile:
            writing.write_to_edit(path, meanwhile.pop())
        to_disk(part)

    monkeypatch.setattr(writing, "flush_to_disk", slow)
    assert writing.write_to_edit(path, "mine") == tmp_path / "pilots-2.yaml"
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "pilots.yaml": "theirs",
        "pilots-2.yaml": "mine",
    }


class TestFormulaCells:
    def test_text_is_neutralised_and_numbers_are_not(self):
        frame = pd.DataFrame({"=run": ["=1+1", "+x", "-5", "@a", "plain"], "loss": [-1.0, 1, 2, 3, 4]})
        lines = writing.csv_text(frame).splitlines()
        assert lines == ["'=run,loss", "'=1+1,-1.0", "'+x,1.0", "-5,2.0", "'@a,3.0", "plain,4.0"]

    def test_names_come_back_as_they_were(self, tmp_path):
        (tmp_path / "log.csv").write_text("run,step,eval_loss\n=cmd(),1,2.5\n")
        runs = cl.import_logs(tmp_path / "log.csv", tmp_path / "runs.csv")
        assert "\n=" not in (tmp_path / "runs.csv").read_text()
        assert "'=cmd()" in (tmp_path / "runs.csv").read_text()
        again = cl.read_runs(tmp_path / "runs.csv")
        assert again.frame["run"].tolist() == runs.frame["run"].tolist() == ["=cmd()"]


class TestEndings:
    def test_a_full_disk_under_stdout_is_a_message(self):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "cptlaw", "laws"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert ended.returncode == 2
        assert "disk is full" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "Exception ignored" not in ended.stderr

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    @pytest.mark.parametrize("words", ["laws --json", "laws -q", "--help", "laws chinchilla --json", "--version"])
    @pytest.mark.parametrize("reader", ["head -c 1", "sleep 0"])
    def test_a_reader_that_goes_is_no_error(self, words, unbuffered, reader):
        # Python drops what is left of a long line without a word where its output is not buffered, so that this
        # variable hides what happens on an ordinary machine.
        command = f"{shlex.quote(sys.executable)} -m cptlaw {words} | {reader}"
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, env=environment
        )
        assert (ended.returncode, ended.stderr) == (0, "")

    @pytest.mark.parametrize("after", [0.1, 0.3, 0.6])
    def test_an_interrupt_ends_with_130(self, after):
        # Begun by a shell in the background it would ignore the signal.
        started = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "cptlaw", "compare", str(PILOT), "--on", "target", "--cv",
             "leave-one-out:ptpp", "--laws", "ptpp-gated-floor,ptpp-gate,ptpp-floor"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        assert started.stderr is not None
        while "cptlaw" not in (line := started.stderr.readline()):  # the interpreter itself has started
            assert line
        time.sleep(after)
        started.send_signal(signal.SIGINT)
        rest = started.communicate(timeout=60)[1]
        assert started.returncode == 130
        assert "Traceback" not in rest

    def test_nothing_is_loaded_before_an_interrupt_is_answered(self):
        # Python ends with a traceback by itself until then, so this takes a millisecond and no more.
        root = str(Path(cl.__file__).parents[1])
        lines = "import sys; before = set(sys.modules); import cptlaw; print(*sorted(set(sys.modules) - before))"
        ended = subprocess.run(
            [sys.executable, "-S", "-c", lines], capture_output=True, text=True, check=True, env={"PYTHONPATH": root}
        )
        assert ended.stdout.split() == ["__future__", "cptlaw"]

    def test_a_name_that_no_text_can_hold_is_shown_escaped(self):
        command = [sys.executable, "-m", "cptlaw", "example", b"\xed\xa0\x80"]
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr

    def test_in_this_process(self, call, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(cl, "fit", interrupted)
        code, out, err = call("fit", str(PILOT), *FIT)
        assert (code, out) == (130, "")
        assert err.endswith("Interrupted.\n")
