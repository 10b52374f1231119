"""Fits of earlier commands: what the same code fitted to the same rows is read from the user's cache folder.

A command ends and forgets; of a second question to a table most of the time would go into fits that were made before.
Only what the file of a fit holds is kept: nothing is unpickled, and what no such file can hold is fitted again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.saved import Saved
from cptlaw.forecasting.verbs.load_file import fit_of
from cptlaw.version import versions
from cptlaw.writing import TEXT, cache_folder, make_folder, write_text

MOST_BYTES = 100_000_000  # of all files; the fit of one eval has some 300 kB
UNUSABLE = (OSError, CptlawError, LookupError, TypeError, ValueError)


@contextmanager
def kept_fits() -> Iterator[None]:
    """Inside, know the fits of earlier commands, and keep what is made; trouble with a file stops no command."""
    try:
        folder = make_folder(cache_folder() / "fits")
    except UNUSABLE:
        yield
        return
    missed: dict[bytes, Path] = {}

    def look_up(key: bytes) -> object:
        place = folder / f"{blake2b(key + _code(), digest_size=20).hexdigest()}.json"
        with suppress(*UNUSABLE):
            made = _read(place)
            os.utime(place)  # the files that nobody used for longest go first
            return made
        missed[key] = place
        return None

    FITS.look_up = look_up
    try:
        yield
    finally:
        FITS.look_up = None
        # At the end, when all that the command computed of its fits can be kept with them.
        for key, made in FITS.known().items():
            if key in missed:
                with suppress(*UNUSABLE):
                    _write(missed[key], made)
        with suppress(OSError):
            _tidy(folder)


@cache
def _code() -> bytes:
    """Return a digest of the package, code and numbers, and of what it computes with."""
    digest = blake2b(repr(versions(("numpy", "pandas", "scipy"))).encode())
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")) + sorted(package.rglob("*.json")):
        digest.update(path.read_bytes())
    return digest.digest()


def _read(place: Path) -> object:
    """Return what a file keeps.

    Raises
    ------
    ValueError, DataError
        If it is not whole.
    """
    told, text = place.read_bytes().split(b"\n", 1)
    if told != _digest(text):
        raise ValueError(f"{place} is damaged")
    held = json.loads(text)
    return tuple(Finding(**one) for one in held) if isinstance(held, list) else fit_of(held, str(place))


def _write(place: Path, made: object) -> None:
    """Keep a fit, or findings; of anything else raise a TypeError."""
    if isinstance(made, tuple) and all(isinstance(one, Finding) for one in made):
        held: object = [one.to_file() for one in made]
    elif isinstance(made, Saved):
        held = made.document()
    else:
        raise TypeError("no file holds it")
    text = json.dumps(held, allow_nan=False)
    write_text(place, f"{_digest(text.encode()).decode()}\n{text}", TEXT, force=True)


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=20).hexdigest().encode()


def _tidy(folder: Path) -> None:
    """Remove the files that nobody used for longest, until the others are few and small enough."""
    files = sorted(folder.glob("*.json"), key=lambda path: -path.stat().st_mtime)
    in_all = 0
    for number, path in enumerate(files):
        in_all += path.stat().st_size
        if number >= FITS.most_fits or in_all > MOST_BYTES:
            path.unlink(missing_ok=True)
