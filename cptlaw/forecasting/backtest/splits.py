"""What is fitted and what is forecast when laws are judged: filters of both, or a split over levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.folds import Fold, split
from cptlaw.fitting.solving.options import HowToSearch
from cptlaw.runs import Runs


class HoldOut(TypedDict, total=False):
    """What is held out of the fits of `compare`: filters, or a split."""

    fit_where: str | None
    test_where: str | None
    anchors_where: str | None
    cv: str | None


class HowToCompare(HoldOut, HowToSearch, total=False):
    """What `compare` takes beside laws, runs and eval."""


def refuse_contradictions(given: HoldOut) -> None:
    """Refuse filters and a split that contradict each other."""
    fit, test, anchors, cv = (given.get(name) for name in ("fit_where", "test_where", "anchors_where", "cv"))
    if (cv is None) == (fit is None and test is None):
        raise UsageError("compare needs either --fit-where and --test-where, or --cv SPLIT.")
    if cv is None and (fit is None or test is None):
        raise UsageError(
            "--fit-where and --test-where go together: one says what is fitted, the other what is forecast."
        )
    if cv is not None and anchors is not None:
        raise UsageError("--anchors-where goes with --fit-where and --test-where, not with --cv.")


def folds_of(given: HoldOut, frame: pd.DataFrame, table: Runs) -> tuple[list[Fold], tuple[Finding, ...]]:
    """Return the folds, one where filters say what is held out."""
    if (cv := given.get("cv")) is not None:
        return split(frame, cv)

    def mask(query: str | None) -> np.ndarray:
        return np.asarray(frame.index.isin(replace(table, frame=frame).where(query or "").frame.index))

    fit, test, query = mask(given.get("fit_where")), mask(given.get("test_where")), given.get("anchors_where")
    # A row that is fitted anyway is no anchor.
    anchors = mask(query) & ~fit if query else np.zeros_like(fit)
    test &= ~anchors
    if not test.any():
        raise UsageError(f"--anchors-where {query!r} takes all of the test rows; leave some to forecast.")
    folds, overlap, n_test = [Fold("test", fit, test, anchors)], int((fit & test).sum()), int(test.sum())
    if not overlap:
        return folds, ()
    in_sample = Finding(
        "warning",
        "in-sample",
        f"{overlap} of {n_test} test rows were also fitted: for these the errors are those of a fit, "
        f"not of a forecast.",
        "Choose rows to fit and rows to test that have none in common.",
        data={"overlap": overlap, "n_test": n_test},
        remedy=Remedy("test_where"),
    )
    return folds, (in_sample,)
