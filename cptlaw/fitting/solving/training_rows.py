"""The rows of one eval on which a law is fitted, with the columns that the law computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws import Law
from cptlaw.laws.base import Context, Role
from cptlaw.laws.curve_rows import curve_rows
from cptlaw.runs import Runs
from cptlaw.runs.order import in_order
from cptlaw.runs.schema import corpus_of
from cptlaw.schedules import Schedule, SchedulesLike
from cptlaw.units import counted

_TABLE_INPUTS = ("n_params", "tokens", "replay", "ptpp")


@dataclass(frozen=True)
class TrainingRows:
    """The rows of one eval as a law is fitted on them.

    Parameters
    ----------
    frame
        Rows with run, loss and the law's inputs, raw units.
    findings
        What was left out, and why.
    schedules
        Learning-rate schedules by run, for laws of loss curves.
    """

    law: Law
    frame: pd.DataFrame
    role: Role
    on: str
    findings: tuple[Finding, ...] = ()
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def chosen(self, rows: NDArray[np.bool_] | None = None, test: pd.DataFrame | None = None) -> TrainingRows:
        """Return the training on the rows that the law chooses to be fitted on.

        Parameters
        ----------
        rows
            Mask of the rows from which it chooses, (n,); all where absent.
        test
            The rows to forecast, where they are known.
        """
        frame = self.frame if rows is None else self.frame[rows]
        return replace(self, frame=self.law.rows(frame, Context(schedules=self.schedules, test=test)))


def training_rows(
    chosen: Law,
    table: Runs,
    on: str,
    where: str | None = None,
    schedules: SchedulesLike | None = None,
) -> TrainingRows:
    """Select the rows of one eval on which a law can be fitted, with the columns that the law computes.

    Rows with tokens = 0 are the base models' losses; they are left out except for laws of base models and of curves.
    """
    rows = table.on(on)
    name = str(rows.frame["eval"].iloc[0])
    if chosen.needs_schedules:
        rows = (rows if where is None else rows.where(where)).without_empty_columns()
        rows.require([column for column in ("n_params",) if column in chosen.inputs])
        frame, known, notes = curve_rows(chosen, rows.frame, schedules, table.label)
        return TrainingRows(chosen.for_rows(frame), _run_by_run(frame), table.role(name), name, notes, known)
    if schedules is not None:
        raise UsageError(f"law {chosen.name} reads no schedules; --schedules goes with laws of loss curves.")
    chosen = chosen.for_table(rows.frame)
    rows = replace(rows, frame=chosen.inputs_of(rows.frame, Context(rows=rows.frame)))
    if where is not None:
        rows = rows.where(where)
    chosen = chosen.for_rows(rows.frame)
    total = len(rows)
    if not chosen.reads_base_rows:
        rows = rows.where("tokens == 0") if chosen.on_base_models else rows.adapted()
    rows = rows.without_empty_columns()
    rows.require([column for column in chosen.inputs if column in _TABLE_INPUTS or corpus_of(column)])
    findings: tuple[Finding, ...] = ()
    if total > len(rows) and not chosen.on_base_models:
        findings = (
            Finding(
                "info", "base-rows", f"not fitted: {counted(total - len(rows), 'row')} with tokens = 0 (base models)."
            ),
        )
    frame = in_order(rows.frame, [*chosen.inputs, "loss", "run"])
    return TrainingRows(chosen, frame, table.role(name), name, findings)


def _run_by_run(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of loss curves run by run, each along its steps; names of runs decide nothing."""
    lowest = frame.groupby(frame["run"].astype(str))["loss"].transform("min")
    return in_order(frame.assign(lowest=lowest), ("lowest", "run", "phase", "step", "loss")).drop(columns="lowest")
