"""Figures as PNG, PDF or SVG: Plotly's own renderer in a Chrome or Chromium that is installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.errors import DataError, UsageError, needed_for
from cptlaw.writing import IMAGES, atomic_path, check_output, make_folder

if TYPE_CHECKING:
    from cptlaw.reporting.figures.figure import Drawing

WIDTH = 1000  # pixels
SCALE = 1.5  # of PNG files, for sharp text
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def write_images(
    drawings: Mapping[str, Drawing], folder: str | Path, ending: str, *, force: bool = False
) -> list[Path]:
    """Write drawings as images, each in one step or not at all.

    Parameters
    ----------
    drawings
        Plotly figures by the names of their files.
    folder, ending
        Where they go, and ``"png"``, ``"pdf"`` or ``"svg"``.
    force
        Whether a file of another kind is written over.

    Raises
    ------
    UsageError
        If Kaleido or a browser is missing.
    DataError
        If the folder cannot be written.
    """
    with needed_for(f"a {ending} file", "cptlaw[images]"):
        import kaleido
    browser = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(
            f"{ending} files are drawn by Chrome or Chromium, and none is on the path. Install one (on Debian: apt "
            f"install chromium) or name it in BROWSER_PATH. The HTML page and Figure.save('.csv') need none."
        )
    folder = Path(folder)
    files = [folder / name for name in drawings]
    make_folder(folder)
    try:
        for file in files:
            check_output(file, IMAGES[ending], force=force)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".figures-") as scratch:
            parts = [Path(scratch) / file.name for file in files]
            kaleido.write_fig_from_object_sync(
                [
                    {
                        "fig": drawing,
                        "path": str(part),
                        "opts": {
                            "format": ending,
                            "width": drawing.layout.width or WIDTH,
                            "height": drawing.layout.height,
                            "scale": SCALE if ending == "png" else 1,
                        },
                    }
                    for drawing, part in zip(drawings.values(), parts, strict=True)
                ],
                kopts={"n": 1, "path": browser},
            )
            for part, file in zip(parts, files, strict=True):
                with atomic_path(file, IMAGES[ending], force=force) as place:
                    place.write_bytes(part.read_bytes())
    except OSError as error:
        raise DataError(f"{folder}: images cannot be written ({error.strerror or error}).") from None
    return files
