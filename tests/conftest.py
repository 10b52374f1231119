"""What many tests share: the command line in this process, studies by their names, pages in a browser."""

import importlib

import pytest
from hypothesis import HealthCheck, settings

from cptlaw.cli import main
from cptlaw.fitting.fit_cache import FITS
from studies.__main__ import studies

# On a busy machine inputs are slow to draw and examples slow to run, which says nothing of the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


@pytest.fixture(autouse=True)
def fits_of_patched_code_are_forgotten(request):
    """Other tests may share fits, as questions of one session do: what is fitted does not change between them."""
    patched = "monkeypatch" in request.fixturenames
    if patched:
        FITS.clear()
    yield
    if patched:
        FITS.clear()


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
