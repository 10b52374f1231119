"""Runs tables on disk, replaced in one step or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pandas as pd

from cptlaw.errors import UsageError

ENDINGS = (".csv", ".jsonl", ".parquet")


def check_place(path: Path) -> None:
    """Complain of a file that could not be written, before the work is done.

    Raises
    ------
    UsageError
        If its ending is unknown or its folder does not exist.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"-o {path}: expected a file ending in {', '.join(ENDINGS)}.")
    if not path.parent.is_dir():
        raise UsageError(f"-o {path}: the folder {path.parent} does not exist. Make it first.")


def write_runs(frame: pd.DataFrame, path: Path) -> Path:
    """Write a runs table as CSV, JSON Lines or Parquet, by its ending.

    Raises
    ------
    UsageError
        If the place cannot be written.
    """
    check_place(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        try:
            if path.suffix.lower() == ".csv":
                frame.to_csv(temporary, index=False)
            elif path.suffix.lower() == ".jsonl":
                frame.to_json(temporary, orient="records", lines=True, double_precision=15)
            else:
                frame.to_parquet(temporary, index=False)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)  # a temporary file is private, a table need not be
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow. Install it with pip install 'cptlaw[parquet]', or write .csv."
        ) from None
    except OSError as error:
        raise UsageError(f"-o {path}: cannot be written ({error.strerror or error}). Choose another place.") from None
    return path
