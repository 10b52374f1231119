"""What many tests share: the command line in this process, the scripts of the folder examples, pages in a browser."""

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from cptlaw.cli import main

# On a busy machine inputs are slow to draw and examples slow to run, which says nothing of the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

EXAMPLES = Path(__file__).parents[1] / "examples"


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
def example_script():
    """Import a script of the folder examples by its name, as running it there would: its neighbours are found."""

    def load(name):
        sys.path.insert(0, str(EXAMPLES))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(EXAMPLES))

    return load


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
