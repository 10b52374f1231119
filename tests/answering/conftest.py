"""The table that several files ask about: read from one file, so that its fits are made once a process."""

import pytest

import cptlaw as cl


@pytest.fixture(scope="session")
def pilot(tmp_path_factory):
    """Return the runs of en-fr-pilot at three budgets and one schedule, as a file has them."""
    path = tmp_path_factory.mktemp("pilot") / "runs.csv"
    cl.examples.load("en-fr-pilot").where("ptpp in (31, 62, 124) and lr_schedule == 'constant'").frame.to_csv(
        path, index=False
    )
    return cl.read_runs(path)
