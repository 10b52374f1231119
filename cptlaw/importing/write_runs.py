"""Runs tables on disk, replaced in one step or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from cptlaw.errors import CptlawError, UsageError, needed_for
from cptlaw.runs import read_runs
from cptlaw.writing import RUNS, atomic_path, check_output, csv_text, numbered_paths

ENDINGS = (".csv", ".jsonl", ".parquet")


def check_place(path: Path, inputs: Iterable[str | Path] = (), force: bool = False) -> None:
    """Complain of a file that could not or may not be written, before the work is done.

    Raises
    ------
    UsageError
        If its ending is unknown or its folder does not exist, or it is an input or no runs table.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"-o {path}: expected a file ending in {', '.join(ENDINGS)}.")
    check_output(path, RUNS, inputs=inputs, force=force)


def free_place(path: Path, frame: pd.DataFrame) -> Path:
    """Return a place beside a table that holds more than `frame` does: NAME-2, .. where somebody wrote into it.

    A table that holds nothing but rows and columns of `frame` is an earlier import of the same logs, and is replaced.
    """
    return next(
        place
        for place in numbered_paths(path)
        if not place.exists() or not place.stat().st_size or _is_earlier(place, frame)
    )


def _is_earlier(path: Path, frame: pd.DataFrame) -> bool:
    try:
        there = read_runs(path).frame
    except CptlawError:
        return False
    if not set(there.columns) <= set(frame.columns):
        return False
    kinds = {name: float if pd.api.types.is_numeric_dtype(there[name]) else str for name in there.columns}
    rows = (one.reindex(columns=list(kinds)).astype(kinds).round(12).to_dict("split")["data"] for one in (there, frame))
    old, new = ({str(row) for row in some} for some in rows)
    return old <= new


def write_runs(frame: pd.DataFrame, path: Path, inputs: Iterable[str | Path] = (), force: bool = False) -> None:
    """Write a runs table as CSV, JSON Lines or Parquet, by its ending, to a place that `check_place` has allowed.

    Raises
    ------
    UsageError, DataError
        If pyarrow is missing, or the place can no longer be written.
    """
    with atomic_path(path, RUNS, inputs=inputs, force=force) as part:
        if path.suffix.lower() == ".csv":
            part.write_text(csv_text(frame), encoding="utf-8")
        elif path.suffix.lower() == ".jsonl":
            frame.to_json(part, orient="records", lines=True, double_precision=15)
        else:
            with needed_for("Parquet", "cptlaw[parquet]"):
                import pyarrow  # type: ignore[import-untyped, unused-ignore]  # noqa: F401 - which pandas writes it with
            frame.to_parquet(part, index=False)
