"""What many tests share: the command line in this process, studies by their names, pages in a browser."""

import gc
import importlib
import os
import sys
from collections import OrderedDict

import pytest
from hypothesis import HealthCheck, settings

from cptlaw import examples
from cptlaw.cli import main
from cptlaw.fitting.fit_cache import FITS
from cptlaw.runs import read_runs
from studies.__main__ import studies

# On a busy machine inputs are slow to draw and examples slow to run, which says nothing of the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

os.environ["CPTLAW_NO_CACHE"] = "1"  # what the user of this machine fitted is no test's

FITS.most_fits = 2_000  # of all tests of a process, where a session of a user has a few dozen


gc.disable()  # until the tests are collected: all that is imported for them stays, and was gone over again and again


def pytest_collection_finish():
    """Collect garbage again, and never what was imported. As often as usual: what a test leaves is that test's."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    """Trainings first: the longest tests, for one of which all other workers would wait at the end."""
    items.sort(key=lambda item: "tests/training/" not in item.nodeid)


ELSEWHERE = ("cptlaw.reporting.", "cptlaw_app.", "cptlaw.importing.", "tempfile")  # no patch of these moves a fit


class Patched(pytest.MonkeyPatch):
    """Patches of code, under which nothing that was fitted before holds, and after which it holds again."""

    before = None

    def forget_fits(self):
        """Know no fit from here on, until the patches are undone."""
        if self.before is None:
            self.before, FITS._fits = FITS._fits, OrderedDict()
        FITS.clear()

    def setattr(self, target, *arguments, **options):
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if target not in (sys, os) and not name.startswith(ELSEWHERE):
            self.forget_fits()
        super().setattr(target, *arguments, **options)

    def setitem(self, mapping, name, value):
        if mapping is not os.environ and mapping is not sys.modules:
            self.forget_fits()
        super().setitem(mapping, name, value)

    def delitem(self, mapping, name, raising=True):
        if mapping is not os.environ and mapping is not sys.modules:
            self.forget_fits()
        super().delitem(mapping, name, raising)

    def undo(self):
        super().undo()
        if self.before is not None:
            FITS._fits, self.before = self.before, None


@pytest.fixture
def monkeypatch():
    """Patch for one test. Others share fits, as questions of one session do; where only a folder changes, this too."""
    with Patched.context() as patched:
        yield patched


@pytest.fixture
def call(capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        streams = capsys.readouterr()
        return int(ended.value.code or 0), streams.out, streams.err

    return run


@pytest.fixture(scope="session")
def named_study():
    """Import the module of a study by the name that runs it."""

    def load(name):
        path = studies()[name]
        return importlib.import_module(f"studies.{path.parent.name}.{name}")

    return load


@pytest.fixture(scope="session")
def pilot(tmp_path_factory):
    """Return en-fr-pilot at three budgets and one schedule, read from one file: its fits are made once a process."""
    path = tmp_path_factory.mktemp("pilot") / "runs.csv"
    kept = examples.load("en-fr-pilot").where("ptpp in (31, 62, 124) and lr_schedule == 'constant'")
    kept.frame.to_csv(path, index=False)
    return read_runs(path)


@pytest.fixture(scope="module")
def browser():
    from browsing import launched

    with launched() as found:
        yield found


@pytest.fixture
def open_page(browser):
    """Open pages; at the end none may have said an error or asked another machine for anything."""
    from browsing import opening

    with opening(browser) as open_at:
        yield open_at
