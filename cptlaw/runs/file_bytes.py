"""Finding a file and reading its text, with a plain answer where it is not what it should be."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from cptlaw.errors import DataError, did_you_mean

STDIN = Path("/dev/stdin")
UTF8_MARK = b"\xef\xbb\xbf"

# The longer mark first: UTF-32 begins with the mark of UTF-16.
_SIGNATURES = (
    (b"\xff\xfe\x00\x00", "UTF-32 text", "Save it as UTF-8."),
    (b"\xff\xfe", "UTF-16 text", "Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."),
    (b"\xfe\xff", "UTF-16 text", "Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."),
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "Export the sheet as CSV."),
    (b"\x1f\x8b", "compressed with gzip", "Let its name end in .gz."),
    (b"PAR1", "a Parquet file", "Let its name end in .parquet."),
)


def existing_file(path: Path) -> Path:
    """Return the path if it is a file.

    Raises
    ------
    DataError
        If it does not exist (the message suggests near names in the same folder) or is a folder.
    """
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder. Expected a file of runs, such as {path / 'runs.csv'}.")
        if path.is_file() or path.is_fifo() or path == STDIN:
            return path
        beside = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: the file cannot be opened ({error}). Check the path and its permissions.") from None
    where = "" if path.parent.is_dir() else f" The folder {path.parent} does not exist either."
    raise DataError(f"{path}: no such file.{did_you_mean(path.name, beside)}{where} Check the path.")


def read_utf8(path: Path) -> bytes:
    """Return the content of a text file, unpacked if its name ends in ``.gz``, without a byte-order mark.

    Raises
    ------
    DataError
        If it cannot be read, is empty, is cut off, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: the compressed file is truncated or damaged ({error}). Copy it again.") from None
    except gzip.BadGzipFile as error:
        raise DataError(f"{path}: not a gzip file, though its name ends in .gz ({error}). Mend its name.") from None
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror or error}). Check it.") from None
    if not content.strip():
        raise DataError(f"{path}: the file is empty. Expected a header line and rows; was it written to the end?")
    for signature, what, remedy in _SIGNATURES:
        if content.startswith(signature):
            raise DataError(
                f"{path}: the file is {what} (it begins with bytes {signature.hex(' ')}), not UTF-8. {remedy}"
            )
    content = content.removeprefix(UTF8_MARK)
    if b"\x00" in content:
        offset = content.index(b"\x00")
        line = content.count(b"\n", 0, offset) + 1
        raise DataError(
            f"{path}, row {line}: found a zero byte at byte {offset}. Expected UTF-8 text; the file is UTF-16 "
            "without a mark, or binary. Save it as UTF-8."
        )
    if not content.isascii():
        _check_utf8(content, path)
    return content


def _check_utf8(content: bytes, path: Path) -> None:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise DataError(
            f"{path}, row {line}: byte 0x{byte:02x} at byte {error.start} is not UTF-8; in Latin-1 it would be "
            f"{bytes([byte]).decode('latin-1')!r}. Expected a file in UTF-8. Save it as UTF-8, for example with "
            f"'iconv -f LATIN1 -t UTF-8'."
        ) from None
