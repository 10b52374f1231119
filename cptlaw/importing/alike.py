"""Runs that differ by nothing that a table says, and all the same in loss: then something is missing from the table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

from cptlaw.errors import DataError, join_names
from cptlaw.importing.history import History
from cptlaw.runs.alike import AlikeRuns, furthest_alike
from cptlaw.runs.metrics import is_score, metric_name
from cptlaw.runs.run_names import PART

# What the parts of names of runs stand for, by the word before the number or the unit behind it.
_MEANT = {
    **dict.fromkeys(("r", "replay", "mix"), "{replay}"),
    **dict.fromkeys(("p", "ptpp", "tpp"), "{ptpp}"),
    **dict.fromkeys(("s", "seed"), "{seed}"),
    **dict.fromkeys(("lr",), "{lr_peak}"),
}


def require_differences(frame: pd.DataFrame, histories: Sequence[History], told: Sequence[str]) -> None:
    """Complain of runs that the table cannot tell apart though their losses differ by more than noise.

    Parameters
    ----------
    frame
        The table, a row a loss.
    histories
        Its runs as they were logged.
    told
        Settings that vary and that the table leaves out.

    Raises
    ------
    DataError
        If there are such runs; the message names settings to look at, and how to give what differs.
    """
    losses = frame
    if "metric" in frame.columns:
        words = {word: metric_name(word) if isinstance(word, str) else "loss" for word in frame["metric"].unique()}
        losses = frame[~frame["metric"].map(words).map(is_score)]
    found = furthest_alike(losses)
    if found is not None:
        raise DataError(_message(found, histories, told))


def pattern_of(names: Sequence[str]) -> str | None:
    """Return a ``--pattern`` that names of runs look like, where it tells them apart; else ``None``.

    Examples
    --------
    >>> pattern_of(["124M-p31-r25-s0", "1.4B-p31-r50-s0"]), pattern_of(["a", "b"])
    ('{n_params}-p{ptpp}-r{replay%}-s{seed}', None)
    """
    made = {_generalised(name, names) for name in names}
    pattern = made.pop()
    return pattern if not made and re.search(r"\{(?!any)", pattern) else None


def _message(found: AlikeRuns, histories: Sequence[History], told: Sequence[str]) -> str:
    held = {str(key) for history in histories for key in history.config}
    if told:
        look = f"They differ in {join_names(map(repr, told), 6)}, which are read as names and places"
        how = f"; if one of these is what differs, keep it with --config COLUMN={told[0]}"
    elif held:
        look, how = f"Their settings are the same in all {len(held)} keys ({join_names(sorted(held), 4)})", ""
    else:
        look, how = "No settings lie beside these logs (config.json, args.json, config.yaml)", ""
    pattern = pattern_of([history.run for history in histories])
    by_name = f"their names look like --pattern '{pattern}'" if pattern else "--pattern, where names tell it"
    by_name += " (put {replay%}, {ptpp}, {lr_peak}, .. in the place of {any1})" if "{any1}" in by_name else ""
    return (
        f"{histories[0].path}: {len(found.runs)} runs have the same settings and differ in loss by more than noise: of "
        f"eval {found.eval!r} {found.low!r} has {found.lowest:.4g} and {found.high!r} {found.highest:.4g}. What was "
        f"set differently is missing: replay, rate, size, .. {look}{how}. Say it to cptlaw import: {by_name}; or "
        "--settings TABLE.csv, with a row per run (run,replay,..)."
    )


def _generalised(name: str, names: Sequence[str]) -> str:
    used: dict[str, int] = defaultdict(int)
    values = [[match[0] for match in PART.finditer(one)] for one in names]
    parts = [match for one in names for match in PART.finditer(one)]

    def part(match: re.Match[str]) -> str:
        word, unit = match["word"].lower(), match["unit"].upper()
        if unit and word not in _MEANT and not match["counts"]:
            meant = "{n_params}"
        elif word in _MEANT and not unit:
            alike = [float(one["number"]) for one in parts if one["word"].lower() == word]
            of_hundred = _MEANT[word] == "{replay}" and all(number > 1 or number == 0 for number in alike)
            meant = "{replay%}" if of_hundred else _MEANT[word]
        else:
            meant = "{any}" if any(match[0] not in one for one in values) else ""
        used[meant] += 1
        if meant == "{any}":
            meant = f"{{any{used[meant]}}}"
        elif not meant or used[meant] > 1:
            return match[0]
        return f"{match['word']}{match['sign']}{meant}"

    return PART.sub(part, name)
