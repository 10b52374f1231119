"""The verb `read`: what was understood of a table, a folder of logs or a tracker's project, before any answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from cptlaw.errors import CptlawError
from cptlaw.importing import wandb_runs
from cptlaw.importing.import_logs import import_logs
from cptlaw.runs import Reading, understand
from cptlaw.runs.question import TableOptions
from cptlaw.runs.table import RunsLike


def read(
    source: RunsLike,
    *,
    columns: Mapping[str, str | list[str]] | None = None,
    losses: Mapping[str, str] | None = None,
    scores: Mapping[str, str] | None = None,
    source_eval: str | None = None,
    target_eval: str | None = None,
    n_params_kind: str | None = None,
    all_runs: bool = False,
) -> Reading:
    """Say what each column of a source was taken for, and ask about those that were not understood.

    It is the same step that `answer`, `fit` and all others begin with.

    Parameters
    ----------
    source
        A runs table, as for `read_runs`; a file or a folder of logs, or ``wandb:ENTITY/PROJECT``, as for `import_logs`.
    columns, losses, scores, source_eval, target_eval, n_params_kind, all_runs
        As for `read_runs`.

    Returns
    -------
    Reading
        ``columns`` (name, meaning, unit, low, high, example), ``open`` (name, question, choices, flag, explains),
        ``notes``; ``understood`` is False while an open column explains losses.

    Raises
    ------
    DataError
        If there is nothing that can be read.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(r, d, 3.0 - 0.5 * r - 0.1 * d) for r in (0.0, 0.2, 0.5) for d in (1.0, 2.0, 4.0, 8.0)]
    >>> table = pd.DataFrame(rows, columns=["rr", "gigatokens", "loss"]).assign(eval="source")
    >>> reading = read(table, columns={"tokens": "gigatokens:B"})
    >>> [(one.name, one.flag, one.explains) for one in reading.open]
    [('rr', "--columns 'replay=rr'", True)]
    """
    how: TableOptions = {"columns": columns, "losses": losses, "scores": scores, "all_runs": all_runs}
    how |= {"source_eval": source_eval, "target_eval": target_eval, "n_params_kind": n_params_kind}
    if _is_log(source):
        return _of_logs(source, how)
    reading = understand(source, **how)
    has_losses = any(one.meaning == "loss" or one.meaning.startswith("loss of ") for one in reading.columns)
    if reading.runs is None and not has_losses and isinstance(source, str | Path) and not columns:
        # A trainer's log may be a table too: what is none as it stands may be one of the formats that are imported.
        with suppress(CptlawError):
            return _of_logs(source, how)
    return reading


def _of_logs(source: str | Path, how: TableOptions) -> Reading:
    runs = import_logs(source, n_params_kind=how["n_params_kind"], all_runs=how["all_runs"])
    return replace(understand(runs.with_roles(how["source_eval"], how["target_eval"])), label=str(source))


def _is_log(source: object) -> TypeGuard[str | Path]:
    if not isinstance(source, str | Path):
        return False
    if str(source).startswith(wandb_runs.API) or Path(source).is_dir():
        return True
    tables = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".gz", ".xlsx", ".md", ".txt")
    return Path(source).is_file() and Path(str(source)).suffix.lower() not in tables
