"""What every fitted thing can do with a file: one JSON document, written whole or not at all. No pickle.

It holds all that is needed to forecast, load again and audit; `cptlaw.load_fit` reads it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.fitting.cached import fits_in
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.provenance import Provenance
from cptlaw.laws import LAWS, Law
from cptlaw.laws.base import Role
from cptlaw.result import Result
from cptlaw.version import version
from cptlaw.writing import FIT, write_text

FORMAT = "cptlaw-fit"
FORMAT_VERSION = 1


class Saved(Result, Forecaster):
    """Base of all that is fitted: one law, an average of laws, a score.

    Attributes
    ----------
    on, role
        The eval that was fitted and its role.
    provenance
        Where the rows came from.
    data
        The fitted rows.
    base
        The losses of base models.
    """

    on: str
    role: Role
    provenance: Provenance
    data: pd.DataFrame
    base: pd.DataFrame

    if TYPE_CHECKING:  # values here would become the defaults of the dataclasses that derive from it

        @property
        def n_points(self) -> int:
            """Measured rows."""

        @property
        def n_runs(self) -> int:
            """Runs that they belong to."""

        @property
        def interval_method(self) -> str:
            """Where the intervals of forecasts come from, in words."""

    @property
    def rests_on(self) -> dict[str, object]:
        """The last keys of its JSON where several fits make one: rows, searches and findings."""
        return {name: getattr(self, name) for name in ("n_points", "n_runs", "status")} | {
            "findings": [finding.to_dict() for finding in self.findings]
        }

    def content(self) -> dict[str, object]:
        """Return what the file holds beside what all files of fits hold."""
        raise NotImplementedError

    def roll_out(self) -> None:
        """Compute what its file keeps of rollouts: of a law alone."""

    def document(self) -> dict[str, object]:
        """Return all that the file holds: the format that `cptlaw.load_fit` looks for, content, and rows."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "cptlaw_version": version(),
            **self.content(),
            "findings": [asdict(one) for one in self.findings],
            "role": self.role,
            "provenance": dict(self.provenance),
            # What a curve law reads off schedules is computed again from these when the fit is loaded.
            "data": columns_of(self.data.drop(columns=list(getattr(self.law, "objects", ())), errors="ignore")),
            "base": columns_of(self.base),
        }

    def text(self) -> str:
        """Return the content of its file, with all that a forecast from it needs."""
        for one in fits_in(self):
            one.roll_out()
        # No NaN: it is no JSON, and a fit whose numbers are not finite must not be kept.
        return json.dumps(self.document(), allow_nan=False)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write it to one JSON file for `cptlaw.load_fit`; only `force` overwrites what is no fit."""
        return write_text(path, self.text(), FIT, force=force)


class CountedRows:
    """What is fitted to all of its rows: their numbers follow from these."""

    data: pd.DataFrame

    @property
    def n_points(self) -> int:
        """Measured rows."""
        return len(self.data)

    @property
    def n_runs(self) -> int:
        """Runs that they belong to."""
        return int(self.data["run"].nunique())


def law_home(chosen: Law) -> dict[str, object]:
    """Return where a law that is not built in is defined, so that the reader of a file can be told; else nothing.

    Raises
    ------
    UsageError
        If the law's name stands for another class: a file that names it would mean another law.
    """
    cls = type(chosen)
    if not LAWS.is_registered(chosen):
        raise UsageError(
            f"class {cls.__qualname__} has no name of its own: {chosen.name!r} is the law of "
            f"{LAWS[chosen.name].__qualname__}, and a file knows laws by their name. Give the class another name = ..."
        )
    if cls.__module__.startswith("cptlaw."):
        return {}
    return {"law_home": {"module": cls.__module__, "class": cls.__qualname__}}


def columns_of(frame: pd.DataFrame) -> dict[str, list[object]]:
    """Return a frame as lists of plain values; what is not finite is null."""

    def plain(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {str(name): [plain(value) for value in frame[name].tolist()] for name in frame.columns}
