"""The only way to a file on disk: whole or not at all, and never over what is something else.

Every writer of the package goes through here: it says what kind of file it writes, and a file that is there already is
replaced only if it is of that kind. A file is written beside its place under a hidden name and then moved, so that a
reader sees the old one or the new one, never half of one; what a killed write left behind goes with the next write.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cptlaw.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

try:
    import fcntl
except ImportError:  # Windows has no such locks: half-written files are then left where they are
    fcntl = None  # type: ignore[assignment]

HEAD = 65536  # bytes that tell the kind of a file
# What a spreadsheet takes for the start of a formula (OWASP, "CSV injection").
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_GENERATOR = b'<meta name="generator" content="cptlaw"'
_next_look: dict[Path, float] = {}  # when a folder is looked through again for what killed writers left
_LONGEST_STEM = 64  # bytes of the name that a hidden file bears: names may have 255 in all


@dataclass(frozen=True)
class Kind:
    """A kind of file that the package writes.

    Parameters
    ----------
    name
        As messages say it, such as ``"a fit"``.
    recognises
        Tells from the path of a file that is not empty whether it is of this kind.
    """

    name: str
    recognises: Callable[[Path], bool]


def json_kind(name: str, format_name: str) -> Kind:
    """Return the kind of JSON files whose key ``format`` holds `format_name`."""
    sign = re.compile(rb'"format"\s*:\s*"' + re.escape(format_name.encode()) + rb'"')
    return Kind(name, lambda path: sign.search(_head(path)) is not None)


def csv_kind(name: str, columns: Iterable[str]) -> Kind:
    """Return the kind of CSV files whose header holds all of `columns`."""
    wanted = frozenset(columns)
    return Kind(name, lambda path: wanted <= _csv_header(path))


def bytes_kind(name: str, *beginnings: bytes) -> Kind:
    """Return the kind of files that begin with one of some signatures."""
    return Kind(name, lambda path: _head(path).lstrip().startswith(beginnings))


def _is_report(path: Path) -> bool:
    # By its mark: a page of the user's own may speak of the package.
    head = _head(path).lower()
    return head.lstrip().startswith((b"<!doctype html", b"<html")) and _GENERATOR in head


def _is_runs(path: Path) -> bool:
    needed = {"run", "eval", "loss"}
    ending = path.suffix.lower()
    if ending == ".parquet":
        with contextlib.suppress(Exception):  # damaged, or pyarrow is missing: then it is not known to be ours
            import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

            return needed <= set(pq.ParquetFile(path).schema_arrow.names)
        return False
    if ending == ".jsonl":
        with contextlib.suppress(ValueError, RecursionError):
            first = json.loads(_head(path).split(b"\n", 1)[0])
            return isinstance(first, dict) and needed <= set(first)
        return False
    return needed <= _csv_header(path)


FIT = json_kind("a fit of cptlaw", "cptlaw-fit")
SEALED = json_kind("a sealed forecast", "cptlaw-sealed-forecast")
REPORT = Kind("a report of cptlaw", _is_report)
RUNS = Kind("a runs table", _is_runs)
TEXT = Kind("what was written here before", lambda path: True)
CELLS = csv_kind("a table of suggested runs", ("n_params", "tokens", "flops", "gain"))
RATES = csv_kind("a table of step, lr", ("step", "lr"))
# Ending of an image -> its kind.
IMAGES = {
    "png": bytes_kind("a PNG image", b"\x89PNG"),
    "pdf": bytes_kind("a PDF file", b"%PDF"),
    "svg": bytes_kind("an SVG image", b"<svg", b"<?xml"),
}


def check_output(path: str | Path, kind: Kind, *, inputs: Iterable[str | Path] = (), force: bool = False) -> Path:
    """Refuse a path that may not be written, before the work is done, and return it.

    Parameters
    ----------
    path
        The file to write.
    kind
        What it will be. An empty file, and one of this kind, may be replaced.
    inputs
        Files that the work reads: these are never replaced.
    force
        Replace a file of another kind all the same.

    Raises
    ------
    DataError
        If the folder does not exist, the place is a folder or an input, or holds a file of another kind.
    """
    path = Path(path)
    if "\0" in str(path):
        raise DataError(f"{str(path)!r}: a zero byte cannot stand in the name of a file.")
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder. Expected the name of a file to write.")
        if not path.parent.is_dir():
            raise DataError(f"{path} cannot be written: the folder {path.parent} does not exist. Make it first.")
        if not path.exists():
            return path
        if any(_is_same(path, other) for other in inputs):
            raise DataError(f"{path} is read as input, and is never overwritten. Write to another file.")
        if force or not path.is_file() or path.stat().st_size == 0 or kind.recognises(path):
            return path
    except OSError as error:  # a name that is too long
        raise _cannot(path, error) from None
    raise DataError(
        f"{path} exists and is not {kind.name}: it is left as it is. Write to another file, or say --force "
        f"(force=True) to overwrite it."
    )


@contextlib.contextmanager
def atomic_path(
    path: str | Path, kind: Kind, *, inputs: Iterable[str | Path] = (), force: bool = False, new: bool = False
) -> Iterator[Path]:
    """Give a place to write to that becomes `path` at the end, or is removed after an error.

    Parameters
    ----------
    path, kind, inputs, force
        As for `check_output`.
    new
        Whether the file must not be there yet at the end: of two writers at once the first has it.

    Yields
    ------
    Path
        A hidden file in the same folder; for what is no plain file, such as a pipe, that itself.

    Raises
    ------
    DataError
        If the place may not or cannot be written; nothing has changed then.
    FileExistsError
        If the file must be new, and was there at the end.
    """
    check_output(path, kind, inputs=inputs, force=force)
    shown = Path(path)
    try:
        if shown.parts[:2] in (("/", "dev"), ("/", "proc")) or (shown.exists() and not shown.is_file()):
            yield shown
            return
        real = Path(os.path.realpath(shown))  # a link goes on pointing to its file
        _remove_abandoned(real)
        handle, part = _open_part(real)
        try:
            yield part
            # A new file made beside the old one would else be readable by its owner alone, as temporary files are.
            mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else 0o666 & ~_umask()
            os.chmod(part, mode)
            flush_to_disk(part)
            _move(part, real, new)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            if handle >= 0:
                os.close(handle)
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            raise
        raise _cannot(shown, error) from None


def write_text(path: str | Path, text: str, kind: Kind, *, force: bool = False, new: bool = False) -> Path:
    """Write a text file in UTF-8, see `atomic_path`, and return its path."""
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: cannot be written: {error.object[error.start]!a} is no character.") from None
    with atomic_path(path, kind, force=force, new=new) as part:
        part.write_bytes(content)
    return Path(path)


def numbered_paths(path: str | Path) -> Iterator[Path]:
    """Yield a path and numbered ones in the same folder: NAME, NAME-2, NAME-3, ..

    Examples
    --------
    >>> import itertools
    >>> [place.name for place in itertools.islice(numbered_paths("pilots.yaml"), 2)]
    ['pilots.yaml', 'pilots-2.yaml']
    """
    path = Path(path)
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


def write_to_edit(path: str | Path, text: str, kind: Kind = TEXT, force: bool = False) -> Path:
    """Write a text file that its reader goes on to edit, and return where it is.

    A file of this kind that differs from `text` is somebody's work, and stays: the text then goes beside it, to NAME-2.
    One of another kind is refused, as by `check_output`; `force` overwrites either.
    """
    if kind is not TEXT:
        check_output(path, kind, force=force)
    for place in numbered_paths(path):
        try:
            if place.is_file():
                if force or place.read_bytes() in (b"", text.encode("utf-8")):
                    break
            elif not place.is_dir():  # nothing is there, or a pipe
                return write_text(place, text, kind, force=force, new=True)
        except FileExistsError:  # another writer was faster: its file is looked at too
            return write_to_edit(path, text, kind, force)
        except OSError as error:
            raise _cannot(place, error) from None
    return write_text(place, text, kind, force=force)


def write_all_to_edit(contents: Mapping[str, str], folder: str | Path) -> list[Path]:
    """Write text files into a folder, all of them or none, see `write_to_edit`; return where they are.

    Parameters
    ----------
    contents
        Name of each file -> its text.
    folder
        Made where it does not exist.
    """
    place = Path(folder)
    new_folders = [each for each in (place, *place.parents) if not each.exists()]
    make_folder(place)
    try:
        before = set(os.listdir(place))
    except OSError as error:
        raise _cannot(place, error) from None
    written: list[Path] = []
    try:
        for name, text in contents.items():
            written.append(write_to_edit(place / name, text))
    except BaseException:
        with contextlib.suppress(OSError):
            for path in written:
                if path.name not in before:
                    path.unlink()
            for each in new_folders:
                each.rmdir()
        raise
    return written


def make_folder(folder: str | Path) -> Path:
    """Make a folder to write into, with those above it, where it is not there yet.

    Raises
    ------
    DataError
        If there is a file in its place, or it cannot be made.
    """
    folder = Path(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file. Expected a folder to write into.")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a name that is too long; a zero byte
        raise _cannot(folder, error if isinstance(error, OSError) else OSError(str(error))) from None
    return folder


def cache_folder() -> Path:
    """Return the user's own local folder for what can be made or fetched again.

    That is ``CPTLAW_CACHE``, or ``cptlaw`` in the user's cache folder, where nobody else may read or write.

    Raises
    ------
    DataError
        If the latter belongs to another user, or no folder can be made there.
    """
    if os.environ.get("CPTLAW_CACHE"):
        return make_folder(os.environ["CPTLAW_CACHE"])
    usual = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = make_folder(os.path.join(os.environ.get("XDG_CACHE_HOME") or usual, "cptlaw"))
    if hasattr(os, "getuid"):  # Windows keeps users apart by itself
        if folder.stat().st_uid != os.getuid():
            raise DataError(f"{folder} belongs to another user. Give CPTLAW_CACHE a folder of your own.")
        folder.chmod(0o700)
    return folder


def csv_text(frame: pd.DataFrame, **options: Any) -> str:
    """Return a table as CSV in which no cell of text is a formula for a spreadsheet.

    Text that begins like a formula and is no number gets an apostrophe before it, which spreadsheets hide and
    `read_runs` takes away again.

    Parameters
    ----------
    frame
        The table.
    options
        Further arguments of `pandas.DataFrame.to_csv`.

    Examples
    --------
    >>> import pandas as pd
    >>> print(csv_text(pd.DataFrame({"run": ["=1+1", "-5", "a"], "loss": [-1.0, 2.0, 3.0]})), end="")
    run,loss
    '=1+1,-1.0
    -5,2.0
    a,3.0
    """
    import pandas as pd

    safe = frame.rename(columns=_harmless)
    for position, name in enumerate(frame.columns):
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.cat.rename_categories([_harmless(value) for value in column.cat.categories])
        elif not pd.api.types.is_numeric_dtype(column):
            column = column.map(_harmless)
        else:
            continue
        safe[safe.columns[position]] = column
    text: str = safe.to_csv(index=False, lineterminator="\n", **options)
    return text


def without_apostrophe(text: str) -> str:
    """Take away what `csv_text` put before text that begins like a formula."""
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULA_STARTS and len(text) > 1 else text


def file_name(text: str, most: int = 80) -> str:
    """Return text as the name of a file in its folder: no separators, no leading dots, not too long.

    Examples
    --------
    >>> file_name("../loss of fr"), file_name("a:b/c")
    ('loss-of-fr', 'a-b-c')
    """
    plain = re.sub(r"[^\w.+=-]+", "-", text, flags=re.ASCII).strip("-.")
    return plain[:most] or "unnamed"


def file_names(texts: Iterable[str]) -> list[str]:
    """Return a name of a file for each text, no two alike: evals in another script are all spelled with dashes.

    Examples
    --------
    >>> file_names(["losses of a", "losses of \u03b1", "losses of \u03b2"])
    ['losses-of-a', 'losses-of', 'losses-of-2']
    """
    result: list[str] = []
    for text in texts:
        stem, count = file_name(text), 1
        name = stem
        while name in result:
            count += 1
            name = f"{stem}-{count}"
        result.append(name)
    return result


def _harmless(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def _csv_header(path: Path) -> frozenset[str]:
    line = _head(path).removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace")
    return frozenset(word.strip().strip('"') for word in line.split(","))


def _is_same(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return False


def _open_part(path: Path) -> tuple[int, Path]:
    """Return a locked handle of a new hidden file beside `path` (-1 without locks), and its name."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=".part")
        if fcntl is None:
            os.close(handle)  # what is open cannot be moved on Windows
            return -1, Path(name)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another writer may have taken it for abandoned before it was locked.
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)


def _move(part: Path, path: Path, new: bool) -> None:
    """Make a written file appear whole in its place; one that must be new raises FileExistsError where there is one."""
    if new:
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        else:
            part.unlink()
            return
    os.replace(part, path)


def _remove_abandoned(path: Path) -> None:
    """Remove the hidden files of writers of `path` that were killed: nobody holds their locks."""
    begun = time.monotonic()
    if fcntl is None or begun < _next_look.get(path.parent, begun):
        return
    prefix = _prefix(path)
    with os.scandir(path.parent) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.name.endswith(".part")]
    # A hundredth of the time: to look through a folder at each of 60,000 files that are written into it has no end.
    _next_look[path.parent] = time.monotonic() + 99 * (time.monotonic() - begun)
    for name in names:
        with contextlib.suppress(OSError):  # in use, gone, or of another user
            handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The lock was free: whoever wrote here is dead, for the system frees the locks of a process that ends.
                os.unlink(name)
            finally:
                os.close(handle)


def _prefix(path: Path) -> str:
    return "." + os.fsdecode(os.fsencode(path.name)[:_LONGEST_STEM]) + "."


def flush_to_disk(path: Path) -> None:
    """Wait until the content of a file is on the disk, where the file system can say so."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot say
            raise
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot(path: Path, error: OSError) -> DataError:
    reason = error.strerror or str(error)
    remedy = "Choose another place."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "Make room on the disk, or choose another place; nothing was changed."
    return DataError(f"{path} cannot be written ({reason}). {remedy}")
