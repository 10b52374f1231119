"""Weights & Biases: the binary ``.wandb`` file that every run leaves in its folder, offline ones too.

The file is a log of LevelDB's kind (blocks of 32 KiB; each piece with a checksum, a length and its place in a record)
behind seven bytes of its own. The records are protocol buffers, read with the definitions of the installed package.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, needed_for
from cptlaw.importing.history import STEP_NAMES, History, Record, first_of, numbers_of
from cptlaw.importing.reader import Reader, files_below, with_distinct_names
from cptlaw.reading import flatten, plain_json

MAGIC = b":W&B"
HEADER = 7  # bytes before the first block's pieces
BLOCK = 32_768
PIECE = struct.Struct("<IHB")  # checksum, length, and where the piece stands in its record
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class WandbFile(Reader):
    """``run-ID.wandb`` in the folders of runs."""

    name = "wandb-file"
    title = "Weights & Biases run files"
    looks_for = "*.wandb in the folders of runs, offline ones too (needs the package wandb)"
    order = 50
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the run files."""
        return files_below(source, ["*.wandb"])

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them; a run goes by its display name where that is its own, else by its id."""
        return with_distinct_names([_history(path) for path in files])


def _history(path: Path) -> tuple[History, str]:
    with needed_for(f"{path}: a .wandb file", "wandb"):
        from wandb.proto import wandb_internal_pb2
    name, run_id = path.stem, path.stem.removeprefix("run-")
    records: list[Record] = []
    config: dict[str, object] = {}
    notes: tuple[str, ...] = ()
    state = "unfinished"  # what ends a run writes that it has ended
    for content in _contents(path):
        if content is None:
            notes = (f"{path}: the end of the file is cut off and left out, as after a crash",)
            break
        entry = wandb_internal_pb2.Record()
        try:
            entry.ParseFromString(content)
        except Exception as error:
            # The class of the error differs between versions of protobuf, and none of them is a builtin.
            if type(error).__name__ != "DecodeError":
                raise
            raise DataError(
                f"{path}: a record cannot be read ({error}). Was it written by a newer wandb? Update the package."
            ) from None
        kind = entry.WhichOneof("record_type")
        # The settings come in several records: those of the start, and what was changed while training.
        if kind == "run":
            name, run_id = entry.run.display_name or name, entry.run.run_id or run_id
            config |= _values(entry.run.config.update)
        elif kind == "config":
            config |= _values(entry.config.update)
        elif kind == "exit":
            state = "finished" if entry.exit.exit_code == 0 else "failed"
        elif kind == "history":
            values = numbers_of(flatten(_values(entry.history.item), joint="/"))
            # Older clients keep the step among the values.
            step = float(entry.history.step.num) if entry.history.HasField("step") else first_of(values, STEP_NAMES)
            records.append(Record(step, values))
    config = {key: value for key, value in flatten(config).items() if not key.startswith("_wandb")}
    return History(name, path, tuple(records), config, notes=notes, state=state), run_id


def _values(items: Iterable[Any]) -> dict[str, object]:
    """Return key -> value of a list of items, whose values are JSON."""
    values: dict[str, object] = {}
    for item in items:
        key = "/".join(item.nested_key) if item.nested_key else item.key
        with contextlib.suppress(ValueError):  # a value that is no JSON is no number either
            values[key] = plain_json(item.value_json)
    return values


def _contents(path: Path) -> Iterator[bytes | None]:
    """Yield the bytes of each record, and ``None`` where the file breaks off."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror or error}). Check it.") from None
    if raw[:4] != MAGIC:
        raise DataError(f"{path}: found {raw[:4]!r} at its start. Expected {MAGIC!r}, as wandb writes it.")
    at, parts = HEADER, bytearray()
    while at < len(raw):
        left = BLOCK - at % BLOCK
        if left < PIECE.size:  # a block's last bytes that cannot hold a piece are filled with zeros
            at += left
            continue
        # A head that is cut off reads as no place of a piece.
        checksum, length, place = PIECE.unpack(raw[at : at + PIECE.size].ljust(PIECE.size, b"\0"))
        content = raw[at + PIECE.size : at + PIECE.size + length]
        if len(content) < length or place not in (WHOLE, FIRST, MIDDLE, LAST):
            yield None
            return
        if zlib.crc32(bytes([place]) + content) != checksum:
            raise DataError(f"{path}: a checksum is wrong {at:,} bytes from its start: the file is damaged. Sync it.")
        at += PIECE.size + length
        parts = parts + content if place in (MIDDLE, LAST) else bytearray(content)
        if place in (WHOLE, LAST):
            yield bytes(parts)
