"""The way in for logs of other trainers: recognise, read, assemble, check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from cptlaw.errors import CptlawError, DataError, UsageError, did_you_mean, name_hint, quote, refuse_others
from cptlaw.importing import wandb_runs
from cptlaw.importing.against_plan import differences_from_plan
from cptlaw.importing.assemble import assemble
from cptlaw.importing.history import History
from cptlaw.importing.options import HowToRead, read_options
from cptlaw.importing.reader import Reader, readers, walking_once
from cptlaw.importing.write_runs import check_place, free_place, write_runs
from cptlaw.reading import read_json
from cptlaw.runs import Runs, read_runs
from cptlaw.signatures import spell_out


def import_logs(
    source: str | Path,
    output: str | Path | None = None,
    *,
    log_format: str | None = None,
    n_params_kind: str | None = None,
    planned: str | Path | None = None,
    force: bool = False,
    **options: Unpack[HowToRead],
) -> Runs:
    """Turn the logs of a trainer or a tracker into a runs table.

    Read are: output folders of the Hugging Face Trainer, event files and exports of TensorBoard, run files and exports
    of Weights & Biases, SwanLab, trackio and Levanter, MLflow folders and databases, text logs of seventeen kinds, and
    tables of metrics (CSV, JSON Lines, Parquet). Every setting in which the runs differ is kept or listed. Scores of
    benchmarks are read from results of lm-evaluation-harness, LightEval and OLMES. Nothing touches the network but
    ``wandb:ENTITY/PROJECT``, and nothing is unpickled.

    Parameters
    ----------
    source
        A file, a folder with any number of runs, or ``wandb:ENTITY/PROJECT``.
    output
        Where to write the table: .csv, .jsonl or .parquet. An earlier import of the same logs there is replaced in one
        step or not at all; beside a table that holds anything else NAME-2 is written, and said.
    log_format
        The name of a format where it is not to be recognised, such as ``"trainer"`` or ``"megatron"``.
        `cptlaw.importing.readers` lists them.
    mapping
        ``"loss:EVAL"`` -> metric for losses (``"loss"``: the eval's name is taken from the metric), and column ->
        metric for others, as in ``{"loss:target": "eval_fr_loss", "tokens": "tokens_seen"}``. Without losses in it,
        metrics named as losses of validation sets count.
    constants
        Column -> value for all rows, as in ``{"n_params": "124M", "replay": "25%"}``.
    pattern
        How the names of runs are made, with columns in braces, as in ``"{n_params}-p{ptpp}-r{replay}-s{seed}"``;
        ``{replay%}`` is a percentage, ``{any}`` matches anything.
    config
        Column -> key of the trainer's own settings, as in ``{"seed": "seed", "lr_peak": "learning_rate"}``.
    batch_tokens
        Tokens of one optimiser step: tokens = (step - first_step) x batch_tokens.
    seq_length
        Tokens of one sample, where the logs count samples.
    first_step
        The step at which adaptation began; losses before it are left out.
    settings
        A CSV file with a row per run (``run``, and columns such as ``replay``), for what no log says.
    all_runs
        Keep runs that crashed, did not finish, or collapsed; they are told and left out otherwise.
    n_params_kind
        ``"non_embedding"`` or ``"total"``: what ``n_params`` counts.
    planned
        The file of ``cptlaw answer --json``, or the manifest of a pilot: notes say where runs differ from it.
    force
        Overwrite `output` whatever it holds; what is read is never overwritten.

    Returns
    -------
    Runs
        Checked as by `read_runs`; ``notes`` say which format was recognised, what was assumed and what was left out.

    Raises
    ------
    DataError
        If the source is of no known kind, is damaged, holds no loss of a validation set, or has runs whose losses
        differ though nothing that is known of them does.
    UsageError
        If an option is unusable.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "124M-r25"
    >>> folder.mkdir()
    >>> history = [{"step": 100, "eval_fr_loss": 2.5}, {"step": 200, "eval_fr_loss": 2.4}]
    >>> _ = (folder / "trainer_state.json").write_text(json.dumps({"global_step": 200, "log_history": history}))
    >>> runs = import_logs(folder.parent, pattern="{n_params}-r{replay%}", batch_tokens="64K")
    >>> runs.frame[["eval", "loss", "n_params", "tokens", "replay"]].to_numpy().tolist()
    [['fr', 2.5, 124000000.0, 6400000.0, 0.25], ['fr', 2.4, 124000000.0, 12800000.0, 0.25]]
    """
    refuse_others(options, HowToRead.__annotations__, "import_logs")
    wanted = read_options(**options)
    if output is not None:
        # Before anything is read: logs can take minutes.
        check_place(Path(output), [source], force)
    histories, notes = _histories(str(source), log_format)
    frame, more = assemble(histories, wanted)
    runs = read_runs(frame, n_params_kind=n_params_kind)
    beside = () if planned is None else differences_from_plan(histories, runs.frame, planned)
    runs = replace(runs, notes=(*notes, *more, *runs.notes, *beside))
    if output is not None:
        read = [source, *(history.path for history in histories)]
        place = Path(output) if force else free_place(Path(output), runs.frame)
        write_runs(runs.frame, place, read, force)
        kept = (f"{output} holds what these logs do not say and is left as it is: written to {place}",)
        runs = replace(runs, path=place, notes=(*runs.notes, *(kept if place != Path(output) else ())))
    return runs


spell_out(import_logs, HowToRead)


def _histories(source: str, log_format: str | None) -> tuple[list[History], tuple[str, ...]]:
    if source.startswith(wandb_runs.API):
        histories = wandb_runs.read_project(source.removeprefix(wandb_runs.API))
        note = f"{source}: {len(histories)} runs from the public API of Weights & Biases"
        return histories, (note,)
    path = Path(source)
    if not path.exists():
        beside = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
        raise DataError(f"{path}: no such file or folder.{did_you_mean(path.name, beside)} Check the path.")
    with walking_once():
        reader, files, others = _recognise(path, log_format)
    histories = _read(reader, files, path)
    if not histories:
        raise DataError(
            f"{path}: read as {reader.title}, and there is no row in it. Expected a line with names, then rows; was it "
            f"written to the end?"
        )
    counted = (
        f"{len(files)} file{'s' if len(files) > 1 else ''}, {len(histories)} run{'s' if len(histories) != 1 else ''}"
    )
    notes = [f"{path}: read as {reader.title} ({counted})"]
    if others:
        notes.append(f"also there, and not read: {', '.join(others)}; choose with --format")
    return histories, tuple(notes)


def _read(reader: Reader, files: list[Path], source: Path) -> list[History]:
    """Read what was found; whatever a damaged file does to its reader ends in one message that names it."""
    try:
        return reader.read(files, source)
    except CptlawError:
        raise
    except Exception as error:  # noqa: BLE001 - a file may hold anything where its package writes a number
        if len(files) > 1:
            for path in files:
                _read(reader, [path], source)
        raise DataError(
            f"{files[0] if len(files) == 1 else source}: read as {reader.title}, and holds what that does not write "
            f"({type(error).__name__}: {quote(str(error))}). Copy it again, mend it, or leave it out."
        ) from None


def _recognise(path: Path, log_format: str | None) -> tuple[Reader, list[Path], list[str]]:
    kinds = readers()
    known = {reader.name: reader for reader in kinds}
    if log_format is not None:
        if log_format not in known:
            raise UsageError(f"--format {log_format!r}: no such format.{name_hint(log_format, known)}")
        reader = known[log_format]
        files = reader.find(path)
        if not files:
            raise DataError(f"{path}: found nothing that looks like {reader.title}. Looked for {reader.looks_for}.")
        return reader, files, []
    for place, reader in enumerate(kinds):
        files = reader.find(path)
        if files:
            # Tables and text logs beside a tracker's folder are mostly its own parts; only formats known by their file
            # names are named.
            later = (other for other in kinds[place + 1 :] if other.by_file_name and path.is_dir())
            return reader, files, [other.name for other in later if other.find(path)]
    if path.is_file() and path.suffix.lower() == ".json":
        read_json(path)  # a file cut short is of no format: what is wrong with it says more than what was looked for
    looked = "\n".join(f"  {reader.name:<12} {reader.looks_for}" for reader in kinds)
    raise DataError(f"{path}: the format is not recognised. Looked for\n{looked}")
