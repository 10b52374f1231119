"""Runs of a sweep as configurations of other trainers: one file here for each trainer.

Each is what that trainer reads, as far as it can say the same: model, mix, length, batch, optimiser and learning rate.
What it cannot say is named in comments at the top of what is written.
"""

from __future__ import annotations

from pathlib import Path

from cptlaw.writing import Kind, make_folder, write_text
from cptlaw_sweep.foreign import axolotl, huggingface, llama_factory, nemo_automodel, torchtitan
from cptlaw_sweep.foreign.run import Run
from cptlaw_sweep.jobs import Sweep

# Formats of others bear no sign of ours: what is there is taken for the user's own.
_CONFIGURATION = Kind("a configuration of an earlier dry run", lambda path: False)
TRAINERS = (huggingface, llama_factory, axolotl, torchtitan, nemo_automodel)


def write_foreign(sweep: Sweep, folder: Path, again: bool = False) -> list[Path]:
    """Write each run of continual pre-training of a given model as a configuration of each trainer.

    Parameters
    ----------
    sweep
        The jobs. Those of models that the sweep itself makes are left out: no other trainer has them yet.
    folder
        Gets a folder for each trainer. A run that a trainer cannot do at all is not among its files.
    again
        Whether files of these names are those of an earlier dry run, and may be replaced.

    Raises
    ------
    DataError
        If a folder cannot be made, or a file of such a name is there and is not of an earlier dry run.
    """
    jobs = [job for job in sweep.jobs if job.kind == "adapt" and job.definition["model"]["kind"] == "pretrained"]
    runs = [Run(job, sweep) for job in jobs]
    written = []
    for trainer in TRAINERS:
        for name, content in trainer.files(runs).items():
            path = folder / trainer.FOLDER / name
            make_folder(path.parent)
            written.append(write_text(path, content, _CONFIGURATION, force=again))
    return written
