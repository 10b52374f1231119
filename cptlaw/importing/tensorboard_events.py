"""TensorBoard: folders with event files, read by the tensorboard package (an extra)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from cptlaw.errors import DataError, needed_for
from cptlaw.importing.history import History, Record
from cptlaw.importing.reader import Reader, files_below, run_name
from cptlaw.importing.settings import config_beside


class TensorBoard(Reader):
    """Scalars of event files; the files of one folder are one run."""

    name = "tensorboard"
    title = "TensorBoard event files"
    looks_for = "events.out.tfevents.*"
    order = 60
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the event files."""
        return files_below(source, ["events.out.tfevents.*"])

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read the scalars, folder by folder; of a run that was restarted, later files count."""
        histories = []
        for folder in sorted({path.parent for path in files}):
            of_run = sorted((path for path in files if path.parent == folder), key=_time_of)
            records = tuple(record for path in of_run for record in _records(path))
            histories.append(History(run_name(folder, source), folder, records, config_beside(folder)))
        return histories


def _time_of(path: Path) -> tuple[int, str]:
    # events.out.tfevents.TIME.HOST...: the name tells when a file was begun, copies keep it.
    stamp = path.name.removeprefix("events.out.tfevents.").split(".")[0]
    return (int(stamp) if stamp.isdigit() else 0, path.name)


def _records(path: Path) -> list[Record]:
    with needed_for("an event file of TensorBoard", "cptlaw[tensorboard]"):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util import tensor_util
    # Size 0 keeps all points; by default the package thins each curve to 10,000.
    accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    try:
        accumulator.Reload()
    except Exception as error:  # noqa: BLE001 - the package raises errors of its own kinds for damaged files
        raise DataError(f"{path}: the event file cannot be read ({error}). Copy it again, or move it away.") from None
    tags = accumulator.Tags()
    # Restarts log a step again under the same number; the value that was written last is that of the weights that went
    # on.
    by_step: dict[int, dict[str, float]] = defaultdict(dict)
    for tag in tags["scalars"]:
        for event in accumulator.Scalars(tag):
            by_step[event.step][tag] = _as_written(event.value)
    for tag in tags["tensors"]:  # what TensorFlow 2 writes; one number is a scalar
        for event in accumulator.Tensors(tag):
            value = tensor_util.make_ndarray(event.tensor_proto)
            if np.size(value) == 1 and np.issubdtype(np.asarray(value).dtype, np.number):
                by_step[event.step][tag] = _as_written(float(np.asarray(value).reshape(())))
    return [Record(float(step), values) for step, values in sorted(by_step.items())]


def _as_written(value: float) -> float:
    """Return the shortest number that is the same in single precision, which is how event files keep it."""
    return float(str(np.float32(value)))
