"""Example runs that come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.errors import UsageError, name_hint

if TYPE_CHECKING:
    from cptlaw.runs import Runs

__all__ = ["EXAMPLES", "load", "path", "schedules"]

EXAMPLES = {
    "en-fr-pilot": "en_fr_pilot.csv",
    "docs-to-code": "docs_to_code.csv",
    "en-fr-ladder": "en_fr_ladder.csv",
    "code-to-prose": "code_to_prose.csv",
    "docs-to-manuals": "docs_to_manuals.csv",
    "domains": "domains.csv",
    "three-corpora": "three_corpora.csv",
    "delphi-midtrain": "delphi_midtrain.csv",
    "watts-sizes": "watts_sizes.csv",
}
WITHOUT_SCHEDULES = ("en-fr-pilot", "delphi-midtrain", "watts-sizes")
SCHEDULES = {
    name: f"{file.removesuffix('.csv')}_schedules.json"
    for name, file in EXAMPLES.items()
    if name not in WITHOUT_SCHEDULES
}


def path(name: str) -> Path:
    """Return the file of an example, so that the command line can be tried on it."""
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}.{name_hint(name, EXAMPLES)}")
    return Path(str(resources.files(__package__) / EXAMPLES[name]))


def schedules(name: str) -> Path:
    """Return the schedules file of an example: the learning rate of every step of its runs, pre-training first.

    Raises
    ------
    UsageError
        If there is no such example, or it came without schedules.
    """
    path(name)
    if name not in SCHEDULES:
        raise UsageError(f"example {name!r} has no schedules file. These have one: {', '.join(SCHEDULES)}.")
    return Path(str(resources.files(__package__) / SCHEDULES[name]))


def load(name: str) -> Runs:
    """Load example runs.

    Parameters
    ----------
    name
        ``"en-fr-pilot"``: continual pre-training of three tiny decoders from English to French documentation, five
        pre-training budgets, replay from 0 to 1, seeds; losses in nats per byte. See ``en_fr_pilot.md`` beside it.
        ``"docs-to-code"``: the same kind of study of four tiny decoders from English documentation to Python code, with
        curves and their schedules. See ``docs_to_code.md``.
        ``"en-fr-ladder"``: English to French again, on other text and more sizes, with an over-trained base model.
        ``"code-to-prose"``: Python code to English documentation. ``"docs-to-manuals"``: English documentation to the
        manuals of other software, a close shift. ``"domains"``: English documentation to four domains at nine ratios,
        the design of the D-CPT paper; the column ``domain`` names the target. ``"three-corpora"``: English
        documentation continued on mixes of English, French and Python, whose shares are ``mix_english`` and so on.
        Figures of public studies at real scale: ``"delphi-midtrain"``, mid-training on mathematics at .45 to 2.5
        billion parameters, and ``"watts-sizes"``, forgetting after up to 240 billion tokens of pre-training.

    Raises
    ------
    UsageError
        If there is no such example.
    """
    # Not at the top: `cptlaw example` prints a path, and reading tables is what loads pandas.
    from cptlaw.runs import read_runs

    return read_runs(path(name), n_params_kind="total")


def __dir__() -> list[str]:
    return sorted(__all__)  # what tab completion shows: public names only
