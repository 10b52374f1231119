"""The settings that trainers leave beside their logs, and the tokens of a step that these tell.

Nothing is unpickled: ``training_args.bin`` is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cptlaw.importing.history import numbers_of
from cptlaw.reading import flatten, read_json, read_yaml
from cptlaw.runs.derive import LENGTHS

NAMES = ("config.json", "args.json", "training_args.json", "config.yaml", "config.yml", "hparams.yaml")
# The words of the trainers that are in use, by their last part: torchtitan nests settings under training., NeMo under
# data.
WHOLE_BATCH = ("global_batch_size", "total_batch_size")
ONE_DEVICE = ("per_device_train_batch_size", "micro_batch_size")
ACCUMULATION = ("gradient_accumulation_steps",)
PROCESSES = ("world_size", "num_processes", "n_devices", "dp_degree")


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


def batch_factors(config: Mapping[str, object]) -> dict[str, float] | None:
    """Return the settings whose product is the tokens of one step, or ``None`` where they do not tell it.

    The batch of one device counts only where the number of processes is given too: a guess of one would be wrong by
    the number of GPUs.

    Examples
    --------
    >>> batch_factors({"training.global_batch_size": 256, "training.seq_length": "2048"})
    {'training.global_batch_size': 256.0, 'training.seq_length': 2048.0}
    >>> batch_factors({"per_device_train_batch_size": 8, "max_seq_length": 1024}) is None
    True
    """
    numbers = {key: value for key, value in numbers_of(config).items() if value > 0}
    # A batch of all devices is taken before one of a single device: it needs no count of processes.
    length, whole = _named(numbers, LENGTHS), _named(numbers, WHOLE_BATCH)
    if length is None:
        return None
    if whole is not None:
        return dict([whole, length])
    device, processes = _named(numbers, ONE_DEVICE), _named(numbers, PROCESSES)
    if device is None or processes is None:
        return None
    accumulation = _named(numbers, ACCUMULATION)
    return dict([device, *([accumulation] if accumulation else []), processes, length])


def _named(numbers: Mapping[str, float], words: Iterable[str]) -> tuple[str, float] | None:
    """Return the one setting whose last word, nested ones joined by dots, is among some; ``None`` if they differ."""
    known = {key: value for key, value in numbers.items() if key.replace("/", ".").rpartition(".")[2] in words}
    # Two settings of one name and different values, one of evaluation say, leave it open which one trained.
    return next(iter(known.items())) if len(set(known.values())) == 1 else None
