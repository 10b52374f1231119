"""Example runs that come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.runs import Runs, read_runs

EXAMPLES = {"en-fr-pilot": "en_fr_pilot.csv"}


def path(name: str) -> Path:
    """Return the file of an example, so that the command line can be tried on it."""
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}.{did_you_mean(name, EXAMPLES)} Known: {', '.join(EXAMPLES)}.")
    return Path(str(resources.files(__package__) / EXAMPLES[name]))


def load(name: str) -> Runs:
    """Load example runs.

    Parameters
    ----------
    name
        ``"en-fr-pilot"``: continual pre-training of three tiny decoders from English to French documentation, five
        pre-training budgets, replay from 0 to 1, seeds; losses in nats per byte. See ``en_fr_pilot.md`` beside it.

    Raises
    ------
    UsageError
        If there is no such example.
    """
    return read_runs(path(name), n_params_kind="total")
