"""Verbs and functions that other packages join to the command line and the library through entry points."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw import plugins
from cptlaw.cli import commands

ROOT = Path(cl.__file__).parents[1]


def test_the_sweep_and_the_app_are_plugins():
    assert plugins.plugin_entries(plugins.VERBS).keys() >= {"app", "sweep"}
    assert {"app", "sweep"} <= {command.name for command in commands()}
    assert cl.app.__module__ == "cptlaw_app"
    pytest.importorskip("cptlaw_sweep.sweep")
    assert cl.sweep.__module__ == "cptlaw_sweep.sweep"


def test_a_checkout_that_is_not_installed_has_its_verbs(tmp_path):
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import cptlaw.cli as c; c.main(['--help'])"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}; {program}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "sweep  " in said
    assert "app  " in said


@pytest.fixture
def entries(monkeypatch):
    """Give other entry points of the group of verbs."""

    def give(*pairs):
        found = [metadata.EntryPoint(name, value, plugins.VERBS) for name, value in pairs]
        monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: found if group == plugins.VERBS else [])

    return give


def test_a_verb_that_cannot_be_loaded_stops_no_other(entries, capsys):
    entries(("tune", "no_such_package:tune"), ("table", "tests_of_nothing"), ("more", "click:Command"))
    names = [command.name for command in commands() if isinstance(command, click.Command)]
    assert "sweep" in names
    assert "fit" in names
    said = capsys.readouterr().err
    assert lacks(said, "no_such_package") == []
    assert lacks(said, "more (click:Command)", "no command") == []


EXTRAS = ("pydantic", "torch", "transformers", "accelerate", "fsspec", "jinja2", "plotly", "flask", "datasets")
BARE = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None  # as if it were not installed
import inspect, pydoc
import cptlaw as cl
print(sorted(name for name in ("sweep", "merge", "app", "answer") if hasattr(cl, name)))
inspect.getmembers(cl)
print("answer" in pydoc.render_doc(cl, renderer=pydoc.plaintext))
try:
    cl.sweep
except cl.UsageError as error:
    print("pip install" in str(error))
"""


def test_without_the_extras_the_library_can_be_looked_through():
    ended = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    found, has_help, says_how = ended.stdout.splitlines()
    assert "answer" in found
    assert "sweep" not in found
    assert (has_help, says_how) == ("True", "True")


def test_a_function_that_cannot_be_imported_is_not_there(monkeypatch):
    entry = metadata.EntryPoint("tune", "no_such_package:tune", plugins.FUNCTIONS)
    monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: [entry])
    assert not hasattr(cl, "tune")
    with refused(cl.UsageError, "no_such_package"):
        cl.tune()
