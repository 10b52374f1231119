"""The settings that trainers leave beside their logs. Nothing is unpickled: ``training_args.bin`` is not read."""

from __future__ import annotations

from pathlib import Path

from cptlaw.reading import flatten, read_json, read_yaml

NAMES = ("config.json", "args.json", "training_args.json", "config.yaml", "config.yml", "hparams.yaml")


def config_beside(*folders: Path) -> dict[str, object]:
    """Return the settings in the known files of some folders, the first folder counting most."""
    result: dict[str, object] = {}
    for folder in dict.fromkeys(folders):
        for name in NAMES:
            path = folder / name
            if path.is_file():
                # What stood there already wins: an earlier folder is nearer to the run than a later one.
                result = load_config(path) | result
    return result


def load_config(path: Path) -> dict[str, object]:
    """Read a JSON or YAML file of settings, nested keys joined by dots.

    Raises
    ------
    DataError
        If it is damaged or holds something else.
    """
    value = read_json(path) if path.suffix == ".json" else read_yaml(path)
    return flatten(value) if isinstance(value, dict) else {}
