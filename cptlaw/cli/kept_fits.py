"""Fits of earlier commands: what the same code fitted to the same rows is read from the user's cache folder.

A command ends and forgets; of a second question to a table most of the time would go into fits that were made before.
Only what the file of a fit holds is kept: nothing is unpickled, and what no such file can hold is fitted again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import cast

from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.saved import Saved
from cptlaw.forecasting.verbs.load_file import fit_of
from cptlaw.version import versions
from cptlaw.writing import TEXT, cache_folder, make_folder, write_text

UNUSABLE = (OSError, CptlawError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def kept_fits() -> Iterator[None]:
    """Inside, know the fits of earlier commands, and keep what is made; trouble with a file stops no command."""
    missed: dict[bytes, Path] = {}

    def look_up(key: bytes) -> object:
        with suppress(*UNUSABLE):
            name = blake2b(key + _code(), digest_size=20).hexdigest()
            missed[key] = place = make_folder(cache_folder() / "fits") / f"{name}.json"
            made = _read(place)
            os.utime(place)  # the files that nobody used for longest go first
            del missed[key]
            return made
        return None

    FITS.look_up = look_up
    try:
        yield
    finally:
        FITS.look_up = None
        for key, place in missed.items():
            with suppress(*UNUSABLE):  # nothing was made, or nothing that a file holds
                # At the end, when all that the command computed of a fit can be kept with it.
                _write(place, FITS.made(key))


@cache
def _code() -> bytes:
    """Return a digest of the package, code and numbers, and of what it computes with."""
    digest = blake2b(repr(versions(("numpy", "pandas", "scipy"))).encode())
    for path in sorted(path for path in Path(__file__).parents[1].rglob("*") if path.suffix in (".py", ".json")):
        digest.update(path.read_bytes())
    return digest.digest()


def _read(place: Path) -> object:
    """Return the fit or the findings that a file keeps; raise an error of `UNUSABLE` where it is not whole."""
    content = place.read_bytes()
    text = content.partition(b"\n")[2]
    if content != _signed(text):
        raise ValueError(f"{place} is damaged")
    held = json.loads(text)
    return tuple(Finding(**one) for one in held) if isinstance(held, list) else fit_of(held, str(place))


def _write(place: Path, made: object) -> None:
    """Keep a fit, or findings, and remove what is then too much; of what no file holds raise an error of `UNUSABLE`."""
    held = [asdict(one) for one in made] if isinstance(made, tuple) else cast(Saved, made).document()
    write_text(place, _signed(json.dumps(held, allow_nan=False).encode()).decode(), TEXT, force=True)
    files = sorted(place.parent.glob("*.json"), key=os.path.getmtime, reverse=True)
    for number, in_all in enumerate(accumulate(map(os.path.getsize, files))):
        # As many as are kept in memory, and 100 MB: what their rows take there, 200 bytes each.
        if number >= FITS.most_fits or in_all > 200 * FITS.in_all:
            files[number].unlink(missing_ok=True)


def _signed(text: bytes) -> bytes:
    return blake2b(text, digest_size=20).hexdigest().encode() + b"\n" + text
