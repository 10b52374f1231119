"""Runs that differ by nothing that a table says, and all the same in loss: then something is missing from the table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, join_names
from cptlaw.importing.history import History
from cptlaw.runs.metrics import is_score, metric_name
from cptlaw.runs.run_names import PART

# Of a loss. Seeds and the order of text move one by a few thousandths; of models of 75,000 parameters, as small as
# anybody fits, by up to .024 in mid-run (the example pilot).
NOISE, NOISE_OF_SMALL, SMALL = 0.01, 0.03, 1e7
_OF_POINTS = ("run", "eval", "loss", "step", "tokens", "flops", "samples", "metric", "n_items", "chance", "lr")
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
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    whole = [name for name in frame.columns if name not in _OF_POINTS]
    for run, rows in frame.groupby("run", sort=False):
        rate = rows["lr"].max() if "lr" in rows else None
        length = max((rows[name].max() for name in ("step", "tokens") if name in rows), default=1.0)
        # One of another length by a third follows another schedule, which tells it apart.
        order = round(3.0 * float(np.log(max(length, 1.0)))) if np.isfinite(length) else None
        alike[(*(_whole(rows[name]) for name in whole), _whole(pd.Series([rate])), order)].append(str(run))
    for runs in alike.values():
        apart = _furthest_apart(frame[frame["run"].isin(runs)]) if len(runs) > 1 else None
        if apart is not None:
            raise DataError(_message(runs, apart, histories, told))


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


def _whole(values: pd.Series) -> object:
    held = values.dropna().astype(str).unique()
    return held[0] if len(held) == 1 else f"{len(held)} values"


def _furthest_apart(frame: pd.DataFrame) -> tuple[str, str, str, float, float] | None:
    """Return two runs, the eval and both losses, where they are furthest apart at one step; none within noise."""
    at = next((name for name in ("tokens", "step") if name in frame.columns and frame[name].notna().any()), None)
    losses = frame
    small = "n_params" in frame.columns and pd.to_numeric(frame["n_params"], errors="coerce").max() < SMALL
    noise = NOISE_OF_SMALL if small else NOISE
    if "metric" in frame.columns:
        kinds = frame["metric"].map(lambda word: metric_name(word) if isinstance(word, str) else "loss")
        losses = frame[~kinds.map(is_score)]
    furthest: tuple[float, tuple[str, str, str, float, float]] | None = None
    for _, rows in losses.groupby(["eval", at] if at else ["eval"], sort=False):
        runs, evals, values = rows["run"].tolist(), rows["eval"].tolist(), rows["loss"].to_numpy(dtype=np.float64)
        low, high = int(values.argmin()), int(values.argmax())
        ratio = float(np.log(values[high] / values[low]))
        if runs[low] != runs[high] and ratio > noise and (furthest is None or ratio > furthest[0]):
            found = (str(runs[low]), str(runs[high]), str(evals[low]), float(values[low]), float(values[high]))
            furthest = ratio, found
    return None if furthest is None else furthest[1]


def _message(
    runs: Sequence[str], apart: tuple[str, str, str, float, float], histories: Sequence[History], told: Sequence[str]
) -> str:
    low, high, name, least, most = apart
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
        f"{histories[0].path}: {len(runs)} runs differ by nothing in the table, and in loss by more than noise: of "
        f"eval {name!r} {low!r} has {least:.4g} and {high!r} {most:.4g}. What was set differently is missing: replay, "
        f"rate, size, .. {look}{how}. Say it to cptlaw import: {by_name}; or --settings TABLE.csv, with a "
        "row per run (run,replay,..)."
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
