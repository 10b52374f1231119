"""The settings that trainers leave beside their logs. Nothing is unpickled: ``training_args.bin`` is not read."""

from __future__ import annotations

import json
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import flatten
from cptlaw.runs.file_bytes import read_utf8

NAMES = ("config.json", "args.json", "training_args.json", "config.yaml", "config.yml", "hparams.yaml")


def config_beside(*folders: Path) -> dict[str, object]:
    """Return the settings in the known files of some folders, the first folder counting most."""
    found: dict[str, object] = {}
    for folder in dict.fromkeys(folders):
        for name in NAMES:
            path = folder / name
            if path.is_file():
                found = load_config(path) | found
    return found


def load_config(path: Path) -> dict[str, object]:
    """Read a JSON or YAML file of settings, nested keys joined by dots.

    Raises
    ------
    DataError
        If it is damaged or holds something else.
    """
    content = read_utf8(path)
    if path.suffix == ".json":
        try:
            value = json.loads(content)
        except ValueError as error:
            raise DataError(f"{path}: truncated or not JSON ({error}). Mend it, or move it away.") from None
    else:
        import yaml

        try:
            value = yaml.safe_load(content)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path}: not plain YAML ({reason}). Mend it, or move it away.") from None
    return flatten(value) if isinstance(value, dict) else {}
