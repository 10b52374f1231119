"""What comes in from a browser: a table as text in base64, read like any file, then forgotten."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from cptlaw.errors import CptlawError, DataError
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.read import load_table

LARGEST = 20_000_000  # bytes of a file
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


def decode(contents: str, name: str) -> tuple[str, bytes]:
    """Return the plain name and the bytes of an upload.

    Parameters
    ----------
    contents
        ``data:TYPE;base64,BYTES``, as browsers send it.
    name
        What the user calls the file.

    Raises
    ------
    DataError
        If it is too large, of a kind that is not read, or damaged.
    """
    plain = PurePosixPath(PureWindowsPath(name).name).name or "upload"
    if not plain.lower().endswith(ENDINGS):
        raise DataError(
            f"{plain}: files of this kind are not read here. Expected {', '.join(ENDINGS)}; unpack .gz first."
        )
    _, _, text = contents.partition(",")
    if len(text) * 3 / 4 > LARGEST:
        raise DataError(
            f"{plain}: {len(text) * 3 / 4 / 1e6:.0f} MB are more than the {LARGEST / 1e6:.0f} MB that can be uploaded. "
            f"Start the app with the file instead: cptlaw app {plain}"
        )
    try:
        return plain, base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"{plain}: the upload arrived damaged. Try again.") from None


def read_upload(name: str, content: bytes, columns: Mapping[str, str] | None = None) -> Runs:
    """Read uploaded bytes as a runs table, through a temporary folder that is gone when this returns.

    Raises
    ------
    CptlawError
        With the messages of the command line, the file under its own name.
    """
    with tempfile.TemporaryDirectory(prefix="cptlaw-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return replace(read_runs(path, columns=columns), path=Path(name))
        except CptlawError as error:
            raise type(error)(str(error).replace(str(path), name).replace(folder, "")) from None


def columns_of(name: str, content: bytes) -> tuple[list[str], dict[str, str]]:
    """Return the columns of an uploaded file, and which canonical columns they are taken for.

    Empty where the file cannot be read at all.
    """
    with tempfile.TemporaryDirectory(prefix="cptlaw-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            raw, naming = load_table(path, None)
        except CptlawError:
            return [], {}
        return [str(column) for column in raw.frame.columns], dict(naming.file_columns)
