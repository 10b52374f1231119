"""Read a fit of any kind from its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.errors import DataError
from cptlaw.fitting.auto.auto_file import auto_from
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.fit_file import damaged, fit_from
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.prior_fit import SPEC, PriorFit, prior_from
from cptlaw.fitting.saved import FORMAT, FORMAT_VERSION
from cptlaw.forecasting.scores import scoring
from cptlaw.reading import read_json
from cptlaw.writing import FIT

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit


def is_fit_file(source: str | Path) -> bool:
    """Say whether a file holds a fit."""
    return Path(source).suffix.lower() == ".json" and Path(source).is_file() and FIT.recognises(Path(source))


def load_fit(path: str | Path) -> LawFit | Average | ScoreFit | PriorFit:
    """Read a fit that `Fit.save` or ``cptlaw fit -o`` wrote: of one law, of several, of a score, or of no rows.

    Raises
    ------
    DataError
        If the file is missing, damaged, or of another kind or a newer version.
    """
    path = Path(path)
    try:
        document = read_json(path)
    except DataError as error:
        how = "write one with `cptlaw fit RUNS --on EVAL -o FIT.json`"
        raise DataError(f"{error} It is not a readable fit; {how}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path}: this JSON is not a cptlaw fit. Expected a file from `cptlaw fit ... -o FIT.json`.")
    return fit_of(document, str(path))


def fit_of(document: Mapping[str, object], label: str) -> LawFit | Average | ScoreFit | PriorFit:
    """Return the fit that the document of a file holds, see `load_fit`; `label` stands for it in messages."""
    version = document.get("format_version")
    # Before anything else is looked at: a newer file may well hold what looks damaged to this version.
    if isinstance(version, int | float) and version > FORMAT_VERSION:
        raise DataError(
            f"{label}: written by cptlaw {document.get('cptlaw_version')} in a newer format; update cptlaw to read it."
        )
    try:
        if document.get("law") == SPEC:
            return prior_from(document)
        # Told by what they hold; the files of averages and of scores have fits of single laws inside.
        of_law = auto_from if document.get("law") == "auto" else fit_from
        return (scoring.score_from if "ways" in document else of_law)(document, label)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(Path(label), error) from None
