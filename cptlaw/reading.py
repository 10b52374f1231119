"""Reading files that people wrote: text, YAML and JSON, with a plain answer where they are not what they should be.

Documents are read into None, true and false, numbers, text, lists and mappings, and nothing else: no tag is obeyed, no
object is made, no date is guessed. What is nested too deep, repeats itself without end by aliases or is larger than any
file that a person writes is refused before it is built.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cptlaw.errors import DataError, did_you_mean, quote

if TYPE_CHECKING:
    from yaml.events import Event

STDIN = Path("/dev/stdin")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # spreadsheets save "Unicode text" so
UTF8_MARK = b"\xef\xbb\xbf"

# Lists and mappings within each other.
DEEPEST = 50

# Bytes of a YAML file. It is for what people write; a log or a table is read as JSON Lines or CSV.
LARGEST_YAML = 20_000_000

# Values of a YAML document, those that aliases repeat counted each time.
MOST_ITEMS = 1_000_000

# Bytes that a compressed file may hold: a table of five million rows. A bomb of 1 MB holds a thousand times as much.
LARGEST_UNPACKED = 500_000_000
MOST_LINES = 10_000_000  # of it: short rows take ten times their bytes as a table, and lines of JSON thirty

# The longer mark first: UTF-32 begins with the mark of UTF-16.
_SIGNATURES = (
    (b"\xff\xfe\x00\x00", "UTF-32 text", "Save it as UTF-8."),
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
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                # One byte more than is allowed: a bomb is seen without being unpacked.
                content = packed.read(LARGEST_UNPACKED + 1)
            if content.count(b"\n") > MOST_LINES:
                raise DataError(
                    f"{path}: holds more than {MOST_LINES:,} lines unpacked, the most that are read. Unpack it, and "
                    "take the rows that matter, or save it as Parquet."
                )
            if len(content) > LARGEST_UNPACKED:
                raise DataError(
                    f"{path}: holds more than {LARGEST_UNPACKED / 1e6:.0f} MB unpacked, the most that is read. "
                    f"Unpack it, and take the rows that matter, or save it as Parquet."
                )
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: the compressed file is truncated or damaged ({error}). Copy it again.") from None
    except gzip.BadGzipFile as error:
        raise DataError(f"{path}: not a gzip file, though its name ends in .gz ({error}). Mend its name.") from None
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror or error}). Check it.") from None
    if not content.strip():
        raise DataError(f"{path}: the file is empty. Expected a header line and rows; was it written to the end?")
    if content.startswith(UTF16_MARKS) and not content.startswith(_SIGNATURES[0][0]):
        try:
            content = content.decode("utf-16").encode("utf-8")
        except UnicodeError as error:
            raise DataError(f"{path}: UTF-16 text that is cut off or damaged ({error}). Save it as UTF-8.") from None
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


def read_document(path: str | Path) -> object:
    """Read a YAML or JSON file, by its ending, into plain values; see `parse_yaml` and `parse_json`."""
    file = existing_file(Path(path))
    if file.suffix.lower() in (".yaml", ".yml"):
        return read_yaml(file)
    if file.suffix.lower() == ".json":
        return read_json(file)
    raise DataError(f"{file}: expected a file ending in .yaml, .yml or .json. Rename it.")


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file into plain values, see `parse_yaml`."""
    file = existing_file(Path(path))
    return parse_yaml(read_utf8(file).decode("utf-8"), str(file))


def read_json(path: str | Path) -> Any:
    """Read a JSON file into plain values, see `parse_json`."""
    file = existing_file(Path(path))
    return parse_json(read_utf8(file).decode("utf-8"), str(file))


def parse_json(text: str, label: str) -> object:
    """Read JSON into plain values.

    Parameters
    ----------
    text
        One JSON value. Whole numbers beyond 64 bits become floats; NaN and Infinity are taken as trainers write them.

    Raises
    ------
    DataError
        If it is truncated, no JSON, or nested more than `DEEPEST` levels deep; file and line are named.
    """
    try:
        return plain_json(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{label}, line {error.lineno}: truncated or not JSON ({error.msg}, character {error.colno}). Mend it, or "
            f"copy it again."
        ) from None
    except ValueError as error:
        raise DataError(f"{label}: {error}. Expected a plain file.") from None


def plain_json(text: str) -> Any:
    """Return one JSON value, such as a line of a log; see `parse_json`.

    Raises
    ------
    ValueError
        If it is no JSON (`json.JSONDecodeError`), or nested more than `DEEPEST` levels deep.
    """
    try:
        value = json.loads(text, parse_int=_whole) if _MANY_DIGITS.search(text) else json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("{") + text.count("[") > DEEPEST and _is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    if _HALF_CHARACTERS.search(text):
        # A trainer cut its text in the middle of a character: no file, terminal or column of texts takes half of one.
        # It is written out, as from other tables: of two runs with different halves neither becomes the other.
        whole = json.dumps(value, ensure_ascii=False)
        value = json.loads(re.sub("[\ud800-\udfff]", lambda half: f"\\\\u{ord(half[0]):x}", whole))
    return value


def parse_yaml(text: str, label: str) -> object:
    """Read YAML into plain values, by the core schema of YAML 1.2.

    Unquoted words are null, ``true``, ``false``, numbers or else text: no dates, and ``on`` and ``no`` are words. Keys
    are always text as written, so that a run may be called 007. Tags are refused.

    Parameters
    ----------
    text
        One document.

    Raises
    ------
    DataError
        If it is no YAML, names a key twice, uses tags, or goes beyond `DEEPEST`, `MOST_ITEMS` or `LARGEST_YAML`; file
        and line are named.

    Examples
    --------
    >>> parse_yaml("on: {007: [1, 2e-4, 8.1B, 2024-13-45, no]}", "sweep.yaml")
    {'on': {'007': [1, 0.0002, '8.1B', '2024-13-45', 'no']}}
    """
    import yaml

    if len(text) > LARGEST_YAML:
        raise DataError(f"{label}: {len(text) / 1e6:.0f} MB of YAML; {LARGEST_YAML / 1e6:.0f} MB at most are read.")
    # Event by event, so that nothing is built that goes beyond the limits.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(yaml.parse(text, Loader=loader), label).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        problem = said.replace("exceeded maximum nesting depth", _TOO_DEEP)  # newer versions of the parser look ahead
        raise DataError(f"{label}{line}: not YAML ({problem}). Mend the line, or quote the text.") from None


def flatten(value: object, prefix: str = "", joint: str = ".") -> dict[str, object]:
    """Return nested settings as one level, keys joined.

    Examples
    --------
    >>> flatten({"opt": {"lr": 0.1}, "seed": 0})
    {'opt.lr': 0.1, 'seed': 0}
    """
    if not isinstance(value, Mapping):
        return {prefix: value}
    result: dict[str, object] = {}
    for key, inner in value.items():
        name = f"{prefix}{joint}{key}" if prefix else str(key)
        result |= flatten(inner, name, joint) if isinstance(inner, Mapping) else {name: inner}
    return result


_TOO_DEEP = f"lists and mappings are nested more than {DEEPEST} deep"
_MANY_DIGITS = re.compile("[0-9]{19}")
_HALF_CHARACTERS = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes characters beyond the first 65,536
_INTEGER = re.compile(r"[-+]?[0-9]++")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS = dict.fromkeys(("", "~", "null", "Null", "NULL"), None)
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_LONGEST_NUMBER = 60  # characters; longer digits are text, as in a checksum
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")


class _Builder:
    """Builds plain values from the events of a YAML document, within the limits."""

    def __init__(self, events: Iterator[Event], label: str) -> None:
        self.events, self.label = events, label
        self._anchors: dict[str, tuple[object, int]] = {}  # what an alias repeats, and its values
        self._items = 0

    def document(self) -> Any:
        """Return the value of the only document."""
        value, begun = None, False
        for event in self.events:
            if type(event).__name__ == "DocumentStartEvent":
                if begun:
                    self._fail(event, "a second document begins. Expected one in a file")
                value, begun = self._value(next(self.events), 0), True
        return value

    def _value(self, event: Any, depth: int, *, is_key: bool = False) -> Any:
        """Return the value that begins with an event, inside so many lists and mappings."""
        kind, before = type(event).__name__, self._items
        if kind == "AliasEvent":
            if event.anchor not in self._anchors:
                self._fail(event, f"the alias *{event.anchor} repeats what is not there, or itself")
            value, items = self._anchors[event.anchor]
            self._count(event, items)
            if is_key and not isinstance(value, str):
                self._fail(event, "an alias stands where the name of a key is expected")
            return value
        self._count(event, 1)
        if kind == "ScalarEvent":
            self._refuse_tag(event, _TEXT_TAGS)
            is_plain = event.tag is None and not event.style and not is_key
            value = plain_value(event.value) if is_plain else event.value
        else:
            self._refuse_tag(event, ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"))
            if is_key:
                self._fail(event, "a list or a mapping stands where the name of a key is expected")
            if depth >= DEEPEST:
                self._fail(event, _TOO_DEEP)
            value = self._list(depth + 1) if kind == "SequenceStartEvent" else self._mapping(depth + 1)
        if event.anchor is not None:  # only now: what repeats itself has no end
            self._anchors[event.anchor] = (value, self._items - before)
        return value

    def _list(self, depth: int) -> list[object]:
        result = []
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            result.append(self._value(event, depth))
        return result

    def _mapping(self, depth: int) -> dict[str, object]:
        result: dict[str, Any] = {}
        own = set()  # keys that stand in the mapping itself, not in one that it merges
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            key = self._value(event, depth, is_key=True)
            if key in own:
                self._fail(event, f"the key {quote(key)} is there twice. Remove one of them")
            own.add(key)
            value = self._value(next(self.events), depth)
            if key != "<<":
                result[key] = value
                continue
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, dict):
                    self._fail(event, "<< takes a mapping, or a list of mappings")
                for name, inner in part.items():
                    # What stands in the mapping itself comes before what it merges, wherever the merge is written.
                    result.setdefault(name, inner)
        return result

    def _count(self, event: Any, items: int) -> None:
        self._items += items
        if self._items > MOST_ITEMS:
            self._fail(event, f"more than {MOST_ITEMS:,} values, those repeated by aliases included")

    def _refuse_tag(self, event: Any, allowed: tuple[str | None, ...]) -> None:
        if event.tag is not None and event.tag not in allowed:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._fail(event, f"the tag {quote(tag)} is not read. Write the plain value")

    def _fail(self, event: Event, problem: str) -> NoReturn:
        line = getattr(event.start_mark, "line", 0) + 1
        raise DataError(f"{self.label}, line {line}: not YAML as it is read here: {problem}.")


def plain_value(text: str) -> object:
    """Return what an unquoted word of YAML means: null, true, false, a number, or else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return _whole(text)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else text
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _whole(text: str) -> int | float:
    """Return a whole number; as a float, infinite at worst, where it does not fit into 64 bits."""
    # Python's whole numbers have no end, and reading one of a million digits takes time quadratic in them.
    return int(text) if len(text) < 19 else float(text)


def _is_too_deep(value: object) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        if not level:
            return False
        inner = (item.values() if type(item) is dict else item for item in level)
        level = [item for items in inner for item in items if type(item) in (dict, list)]
    return bool(level)
