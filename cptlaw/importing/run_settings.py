"""What the settings of runs tell: the columns that they name, their size, and every other setting that varies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path

from cptlaw.errors import UsageError, did_you_mean, join_names
from cptlaw.importing.history import History
from cptlaw.importing.model_size import parameters_beside, parameters_of_config
from cptlaw.importing.options import ImportOptions
from cptlaw.importing.settings import batch_factors
from cptlaw.runs.schema import canonical_name, column_of, corpus_of
from cptlaw.runs.tracker_names import meaning_of_name
from cptlaw.units import parse_quantity

# Columns that a run's settings tell without being asked for, under these names or as `model.n_params`, `replay_pct`.
OF_SETTINGS = ("n_params", "ptpp", "pt_tokens", "replay", "lr_peak", "seed", "batch_tokens")
# Words of settings that name a run, a place or a machine, and nothing that was trained differently.
_OF_PLACE = frozenset(
    "name id dir path file folder url uri host hostname port pid time date timestamp output run project entity group "
    "tags notes cache resume checkpoint checkpoints log logging report node rank device version commit user token hash "
    "created".split()
)
# Columns of which rows, and no settings, say what they hold.
_OF_ROWS = frozenset("run eval loss step tokens lr metric n_items chance phase samples flops".split())
SUM_TO_ONE = 0.02
_LONGEST = 40  # characters of a text that is a level of a setting rather than an account of it


class Settings:
    """What the settings of some runs tell of each, with notes on what was taken for what.

    Attributes
    ----------
    told
        Settings that vary and are no column.
    notes
        What was taken, kept and left out.
    """

    def __init__(self, histories: Sequence[History], wanted: ImportOptions) -> None:
        self._wanted = wanted
        self._asked = {*wanted.config, *wanted.constants, *wanted.metrics}
        taken = {key: name for run in histories for name, (key, _) in keys_of(run).items() if name not in self._asked}
        factors = {key for one in histories for key in batch_factors(one.config) or {}}
        self._kept, self.told = varying_settings(histories, {*taken, *factors, *wanted.config.values()})
        self._columns = {key: column_name(key, histories, self._kept) for key in self._kept}
        beside = cache(parameters_beside)  # runs may lie in one folder of 100,000 files
        self._sizes = {one.path: _size_of(one, beside) for one in histories}
        self.notes: list[str] = []
        if taken:
            said = sorted(name if name == key else f"{name} as {key!r}" for key, name in taken.items())
            self.notes.append(f"{', '.join(said)} from the settings of the runs, which name them so")
        if self._kept:
            said = [f"{key!r} ({range_of(key, histories)})" for key in self._kept]
            self.notes.append(
                f"settings that vary and are kept as columns: {', '.join(said)}. Say which of them is what: "
                f"--config COLUMN={self._kept[0]}, or --columns of the next command"
            )
        if self.told:
            self.notes.append(
                f"settings that vary and name runs or places, left out: {', '.join(map(repr, self.told))}"
            )
        sizes = {where for one in histories if "n_params" not in self._of(one) and (where := self._sizes[one.path])}
        if sizes:
            files = join_names(sorted({name for _, name in sizes}))
            self.notes.append(f"n_params: all parameters with embeddings, from {files} beside the logs")

    def of(self, history: History) -> dict[str, object]:
        """Return what holds for all rows of a run: its own constants, its settings, its name, what was given.

        Raises
        ------
        UsageError
            If a setting that was asked for is not there.
        """
        whole = self._of(history)
        size = self._sizes[history.path]
        if size is not None:
            whole = {"n_params": size[0]} | whole
        kept = {self._columns[key]: _value(history.config.get(key)) for key in self._kept}
        return {name: value for name, value in kept.items() if canonical_name(name) not in whole} | whole

    def _of(self, history: History) -> dict[str, object]:
        wanted = self._wanted
        whole: dict[str, object] = {}
        for name, (key, scale) in keys_of(history).items():
            if name not in self._asked:
                value = history.config[key]
                whole[name] = value if scale == 1.0 else scale * parse_quantity(str(value), f"{key} of {history.run}")
        whole |= history.constants
        for column, key in wanted.config.items():
            if key not in history.config:
                raise UsageError(
                    f"--config {column}={key}: run {history.run!r} ({history.path}) has no setting {key!r}."
                    f"{did_you_mean(key, history.config)} Found: {join_names(history.config) or 'no settings at all'}."
                )
            whole[column] = history.config[key]
        for more in (wanted.from_name(history.run), wanted.from_table(history.run), wanted.constants):
            whole |= dict(more)
        return whole


def _size_of(history: History, beside: Callable[[Path], tuple[float, str] | None]) -> tuple[float, str] | None:
    count = parameters_of_config(history.config)
    if count is not None:
        return count, "config.json"
    folder = history.path if history.path.is_dir() else history.path.parent
    return beside(folder) if folder.is_dir() else None


def keys_of(history: History) -> dict[str, tuple[str, float]]:
    """Return column -> the setting that names it and the unit of its numbers; one that two name alike has none."""
    result = {name: (name, 1.0) for name in OF_SETTINGS if name in history.config}
    meant: dict[str, list[tuple[int, str, float]]] = {}
    for key in history.config:
        meaning = meaning_of_name(str(key))
        if meaning is None:
            continue
        column = "lr_peak" if meaning.column == "lr" else meaning.column  # a setting holds for the whole run
        # A seed in a place is that of the place, as `data.seed`.
        if column in OF_SETTINGS and column != "seed":
            meant.setdefault(column, []).append((meaning.beyond, str(key), meaning.scale))
    for name, found in meant.items():
        (beyond, key, scale), *others = sorted(found)
        if name not in result and not (others and others[0][0] == beyond):
            result[name] = (key, scale)
    return result


def varying_settings(histories: Sequence[History], taken: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the settings in which runs differ and that are taken for no column: those to keep, and those to list.

    Parameters
    ----------
    histories
        The runs.
    taken
        Settings that became a column of a runs table, or a factor of one.

    Notes
    -----
    Kept are numbers, and texts of a few levels. Places, names and times, which differ in every run, are listed.
    """
    keys = dict.fromkeys(str(key) for history in histories for key in history.config)
    kept: list[str] = []
    told: list[str] = []
    for key in keys:
        values = [_value(history.config.get(key)) for history in histories]
        if len(set(values)) < 2 or key in taken:
            continue
        words = set(re.findall(r"[a-z]+", key.lower().replace("_", " ")))
        texts = [value for value in values if isinstance(value, str)]
        names_runs = len(set(values)) == len(values) and len(texts) == len(values) and len(values) > 2
        is_account = any(len(text) > _LONGEST or "/" in text or "\\" in text for text in texts)
        (told if words & _OF_PLACE or is_account or names_runs else kept).append(key)
    return kept, told


def column_name(key: str, histories: Sequence[History], kept: Sequence[str]) -> str:
    """Return what a kept setting is called as a column: its own name, where a runs table reads nothing wrong from it.

    A letter, a word that rows use otherwise, a number out of the range of the column that it names, or shares that do
    not add up would be refused or misread there: such a setting is called setting_NAME, and is asked about.
    """
    column = canonical_name(key)
    if column is None:
        return key
    values = [_value(history.config.get(key)) for history in histories]
    if corpus_of(key):
        mixes = [[_value(one.config.get(other)) for other in kept if corpus_of(other)] for one in histories]
        fits = all(abs(sum(part for part in mix if isinstance(part, float)) - 1.0) < SUM_TO_ONE for mix in mixes)
    else:
        known = column_of(column)
        inside = [isinstance(value, float) and known.lowest <= value <= known.highest for value in values]
        fits = column not in _OF_ROWS and len(key.strip()) > 1 and (all(inside) or not known.numeric)
    return key if fits else "setting_" + re.sub(r"\W+", "_", key)


def range_of(key: str, histories: Sequence[History]) -> str:
    """Say what a setting holds over the runs: 0.1 to 0.5, or its levels."""
    values = list(dict.fromkeys(_value(history.config.get(key)) for history in histories))
    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) == len(values):
        return f"{min(numbers):g} to {max(numbers):g}"
    return join_names(("none" if value is None else str(value) for value in values), 3)


def _value(value: object) -> float | str | None:
    """Return a setting as it is compared: numbers as such, whatever they are written as; lists as text."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return str(value)
