"""Where text comes from: JSON Lines, plain text, Parquet, or a data set of Hugging Face `datasets`.

A source gives documents as (group, text); documents of one group never stand on both sides of the split into training
and validation text.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from cptlaw.errors import DataError, needed_for, quote
from cptlaw_sweep.schema import ENDINGS
from cptlaw_sweep.specs import SourceFile, SourceSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Document = tuple[str, str]

KINDS = (".jsonl", ".ndjson", ".jsonl.gz", ".txt", ".md", ".py", ".rst", ".parquet")


def with_files(source: Mapping[str, Any], folder: Path, where: str) -> SourceSpec:
    """Replace the patterns of a source by the files that they stand for, each with its SHA-256.

    Parameters
    ----------
    source
        As a `Source` of the recipe gives it as plain data.
    folder
        Where relative paths start: the folder of the recipe.
    """
    if "files" not in source:
        return cast("SourceSpec", source)
    files: list[SourceFile] = []
    for pattern in source["files"]:
        before = len(files)
        for name, open_file in _files_of_pattern(pattern, folder):
            if not any(name.endswith(kind) for kind in (ENDINGS if "ids" in source else KINDS)):
                raise DataError(f"{where}: {name} is of no known kind. Expected files ending in {', '.join(KINDS)}.")
            try:
                with open_file() as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                raise DataError(f"{where}: {name} cannot be read ({error}). Build the text first.") from None
            files.append({"path": name, "sha256": digest})
        if len(files) == before:
            raise DataError(f"{where}: no file matches {folder / pattern}. Build the text first, or correct the path.")
    spec = {**source, "files": sorted(files, key=lambda entry: entry["path"])}
    return cast("SourceSpec", spec)


def _files_of_pattern(pattern: str, folder: Path) -> Iterator[tuple[str, Callable[[], BufferedReader]]]:
    """Yield the files that a pattern stands for, each with its name and what opens it; local ones need no library."""
    if "://" not in pattern:
        full = folder / pattern
        names = sorted(glob.glob(str(full), recursive=True)) if glob.has_magic(pattern) else [str(full)]
        for name in names:
            try:
                is_folder = Path(name).is_dir()
            except (OSError, ValueError) as error:  # a name that no file can have
                raise DataError(
                    f"{quote(name)}: cannot be read ({getattr(error, 'strerror', None) or error})."
                ) from None
            if not is_folder:
                yield str(Path(name).absolute()), partial(_open_file, name)
        return
    with needed_for(f"{pattern}: reading a URL", "cptlaw[training]"):
        import fsspec
    for file in fsspec.open_files(pattern, "rb"):
        yield file.full_name, file.open


def _open_file(name: str) -> BufferedReader:
    return open(name, "rb")


def identity(source: SourceSpec) -> dict[str, object]:
    """Return what of a source decides about its text: contents of files, not where they are."""
    if "files" not in source:
        return dict(source)
    return {**source, "files": [[Path(entry["path"]).name, entry["sha256"]] for entry in source["files"]]}


def documents(source: SourceSpec) -> Iterator[Document]:
    """Read the documents of a source in order.

    Parameters
    ----------
    source
        As `with_files` returns it.

    Raises
    ------
    DataError
        If a file is gone or broken, or has no such field.
    """
    has_text = False
    reading = _from_files(source) if "files" in source else _from_dataset(source)
    for group, content in reading:
        if content:
            has_text = True
            yield group, content
    if not has_text:
        raise DataError(f"{_source_label(source)}: there is no text in it.")


def id_documents(source: SourceSpec) -> Iterator[tuple[str, NDArray[np.integer]]]:
    """Read the documents of a source of token ids in order: (group, ids). A document is its own group."""
    from cptlaw_sweep.megatron import documents as read

    for entry in source["files"]:
        if entry["path"].endswith(".idx"):
            for ids in read(entry["path"].removesuffix(".idx")):
                yield hashlib.sha256(ids.tobytes()).hexdigest(), ids


def _source_label(source: SourceSpec) -> str:
    return str(source["dataset"] if "dataset" in source else ", ".join(entry["path"] for entry in source["files"][:2]))


def _from_files(source: SourceSpec) -> Iterator[Document]:
    import fsspec

    for entry in source["files"]:
        path = entry["path"]
        try:
            with fsspec.open(path, "rb", compression="infer") as file:
                yield from _from_file(file, path, source)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read ({error}).") from None


def _from_file(file: IO[bytes], path: str, source: SourceSpec) -> Iterator[Document]:
    if ".jsonl" in path or ".ndjson" in path:
        for line, content in enumerate(file, 1):
            if content.strip():
                try:
                    record = json.loads(content)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path}, row {line}: not JSON ({error}). Expected one object per line.") from None
                yield _document_of_record(record, source, f"{path}, row {line}")
    elif path.endswith(".parquet"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

        columns = [source["field"], *([source["group"]] if source["group"] else [])]
        try:
            row = 0
            for batch in pq.ParquetFile(file).iter_batches(batch_size=1024, columns=columns):
                for record in batch.to_pylist():
                    yield _document_of_record(record, source, f"{path}, row {row}")
                    row += 1
        except pa.ArrowException as error:
            raise DataError(f"{path}: truncated, or not Parquet ({error}).") from None
    else:
        yield Path(path).name, file.read().decode("utf-8")


def _from_dataset(source: SourceSpec) -> Iterator[Document]:
    with needed_for("reading a data set by name", "cptlaw[training]"):
        import datasets
    try:
        chosen = {name: source[name] for name in ("data_files", "split", "streaming", "revision")}
        records = datasets.load_dataset(source["dataset"], source["config"], **chosen)
    except (OSError, ValueError) as error:
        raise DataError(f"data set {source['dataset']!r} cannot be loaded ({error}).") from None
    for row, record in enumerate(records):
        yield _document_of_record(record, source, f"{source['dataset']}, row {row}")


def _document_of_record(record: Any, source: SourceSpec, place: str) -> Document:
    for field in (source["field"], source["group"]):
        if field is not None and (not isinstance(record, Mapping) or field not in record):
            has = ", ".join(map(str, record)) if isinstance(record, Mapping) else repr(record)[:60]
            raise DataError(f"{place}: there is no field {field!r}. Found: {has}. Name the right one with `field`.")
    content = record[source["field"]]
    if not isinstance(content, str):
        raise DataError(f"{place}: field {source['field']!r} is {content!r:.60}. Expected text.")
    # Without groups a document stands for itself, wherever it lies.
    return str(record[source["group"]]) if source["group"] else content[:4096], content
