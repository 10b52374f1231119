"""The version of the package, as files, seals and manifests record it."""

import platform
from contextlib import suppress
from importlib import metadata


def version() -> str:
    """Return the installed version; ``0+unknown`` where the package is run from a folder without being installed."""
    try:
        return metadata.version("cptlaw")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the package, of Python, and of those of some packages that are installed."""
    result = {"cptlaw": version(), "python": platform.python_version()}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            result[name] = metadata.version(name)
    return result
