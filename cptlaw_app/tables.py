"""Tables that a browser brought: bytes in memory under secret names, read like any file, never kept on disk."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from cptlaw.errors import DataError, escape_hidden

LARGEST = 20_000_000  # bytes of a file
LONGEST_NAME = 100  # characters that are shown of its name
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
MOST_KEPT = 8


@dataclass(frozen=True)
class Upload:
    """A file as it came: a name to show, and its bytes."""

    name: str
    content: bytes

    @contextlib.contextmanager
    def as_file(self) -> Iterator[Path]:
        """Give a temporary file, whose own name holds nothing of the user's but the ending."""
        with tempfile.TemporaryDirectory(prefix="cptlaw-") as folder:
            path = Path(folder) / f"upload{next(end for end in ENDINGS if self.name.lower().endswith(end))}"
            path.write_bytes(self.content)
            yield path


def checked_upload(name: str, content: bytes) -> Upload:
    """Return an upload under a name that can be shown.

    Raises
    ------
    DataError
        If it is too large or of a kind that is not read.
    """
    plain = escape_hidden(PurePosixPath(PureWindowsPath(name.replace("\0", "")).name).name)
    if len(plain) > LONGEST_NAME:  # the ending tells the kind
        plain = f"{plain[: LONGEST_NAME - 20]}..{plain[-18:]}"
    if not plain.lower().endswith(ENDINGS):
        raise DataError(
            f"{plain or 'no file'}: files of this kind are not read here. Expected {', '.join(ENDINGS)}; unpack .gz "
            f"first."
        )
    if len(content) > LARGEST:
        raise DataError(
            f"{plain}: {len(content) / 1e6:.0f} MB are more than the {LARGEST / 1e6:.0f} MB that can be uploaded. "
            f"Start the app with the file instead: cptlaw app {plain}"
        )
    return Upload(plain, content)


class UploadStore:
    """Uploads by secret names, the last few: whoever has the address of an answer can open it again."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, upload: Upload) -> str:
        """Keep an upload and return its name; the one that was used least lately goes."""
        name = secrets.token_urlsafe(24)
        with self._lock:
            self._uploads[name] = upload
            while len(self._uploads) > MOST_KEPT:
                self._uploads.popitem(last=False)
        return name

    def get(self, name: str) -> Upload:
        """Return an upload.

        Raises
        ------
        DataError
            If it is not there: the app was started anew, or other tables were brought since.
        """
        with self._lock:
            if name not in self._uploads:
                raise DataError("this table has been forgotten: the app was started anew, perhaps. Upload it again.")
            self._uploads.move_to_end(name)
            return self._uploads[name]
