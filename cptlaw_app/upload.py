"""What comes in from a browser: a table as text in base64, read like any file, then forgotten."""

from __future__ import annotations

import base64
import binascii
import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from cptlaw.errors import CptlawError, DataError, visible
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.parquet_file import check_parquet_size
from cptlaw.runs.read import load_table

LARGEST = 20_000_000  # bytes of a file
MOST_ROWS = 2_000_000  # of a Parquet file, whose bytes say little of its size
LONGEST_NAME = 100  # characters that are shown of its name
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
    if not isinstance(name, str) or not isinstance(contents, str):
        raise DataError("the upload arrived damaged. Try again.")
    plain = visible(PurePosixPath(PureWindowsPath(name.replace("\0", "")).name).name)
    if len(plain) > LONGEST_NAME:  # the ending tells the kind
        plain = f"{plain[: LONGEST_NAME - 20]}..{plain[-18:]}"
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


@contextlib.contextmanager
def _as_file(name: str, content: bytes) -> Iterator[Path]:
    """Give a temporary file with some content, whose own name holds nothing of the user's but the ending."""
    with tempfile.TemporaryDirectory(prefix="cptlaw-") as folder:
        ending = next(ending for ending in ENDINGS if name.lower().endswith(ending))
        path = Path(folder) / f"upload{ending}"
        path.write_bytes(content)
        yield path


def _check_size(path: Path, name: str) -> None:
    if path.suffix == ".parquet":
        check_parquet_size(path, name, MOST_ROWS)


def read_upload(name: str, content: bytes, columns: Mapping[str, str] | None = None) -> Runs:
    """Read uploaded bytes as a runs table, through a temporary folder that is gone when this returns.

    Raises
    ------
    CptlawError
        With the messages of the command line, the file under its own name.
    """
    with _as_file(name, content) as path:
        try:
            _check_size(path, name)
            runs = read_runs(path, columns=columns)
        except CptlawError as error:
            raise type(error)(str(error).replace(str(path), name).replace(str(path.parent), "")) from None
    return replace(runs, path=Path(name))


def columns_of(name: str, content: bytes) -> tuple[list[str], dict[str, str]]:
    """Return the columns of an uploaded file, and which canonical columns they are taken for.

    Empty where the file cannot be read at all.
    """
    with _as_file(name, content) as path:
        try:
            _check_size(path, name)
            raw, naming = load_table(path, None)
        except CptlawError:
            return [], {}
        return [str(column) for column in raw.frame.columns], dict(naming.file_columns)
