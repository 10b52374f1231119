"""What the rows say of a column that nobody named: whether losses differ with it among runs alike else.

Rows are compared within groups that share every setting that was read, so that a column which follows from others,
such as FLOPs, explains nothing; what is left there is noise of seeds unless a setting was not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.runs.convert import row_codes, to_numbers
from cptlaw.runs.schema import COLUMNS, mix_columns
from cptlaw.runs.table import Runs
from cptlaw.runs.within import ONE_SEED, less_mean, rounded

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

SHARE = 0.25  # of the variance left among rows alike else, from which a column explains it
CHANCE = 1e-3  # probability by which levels drawn at random would explain as much
NEARLY_ALL, OF_FEW = 0.9, 0.02  # the same of few rows: a setting that explains nearly all of what three runs differ by
MOST_LEVELS = 40  # of a column that is compared level by level
FEW = 4  # rows from which anything can be told
ALL = b""  # the way of a column beside which all others count
# What is no setting, or is compared by itself.
NO_SETTING = frozenset(
    "run loss seed chance n_items n_params_kind n_params_non_embedding flops from_loss lr tokens step".split()
)


@dataclass(frozen=True)
class Effect:
    """How the losses of one eval differ with a column, among rows alike else.

    Parameters
    ----------
    eval
        Its name.
    size
        Standard deviation of the log loss that the column explains.
    change
        Log loss at the column's highest value less that at its lowest, on a straight line; 0 for texts.
    share
        Of the variance that is left among rows alike else.
    explains
        Whether that is more than noise and chance.
    """

    eval: str
    size: float
    change: float
    share: float
    explains: bool


class Evidence:
    """The rows of adapted models, and what their losses leave unexplained.

    Parameters
    ----------
    runs
        Checked runs; scores and base models are left out.
    unread
        Columns that may be settings: of each, the others count as settings where rows alike in them are left.
    """

    def __init__(self, runs: Runs, unread: Sequence[str]) -> None:
        frame = runs.frame
        keep = np.ones(len(frame), dtype=bool)
        if "tokens" in frame.columns:
            keep &= (frame["tokens"] != 0).to_numpy(dtype=bool)
        if runs.scores:
            keep &= ~frame["eval"].isin(list(runs.scores)).to_numpy(dtype=bool)
        self.frame = frame[keep]
        self.unread = tuple(unread)
        self.log_loss = np.log(self.frame["loss"].to_numpy(dtype=float))

    @cached_property
    def codes(self) -> Mapping[str, Codes]:
        """Each unread column as codes, (n,)."""
        return {name: row_codes(self.frame[[name]]) for name in self.unread}

    @cached_property
    def settings(self) -> Codes:
        """The group of rows that share every setting that was read, (n,)."""
        frame = self.frame
        known = [name for name in COLUMNS if name in frame.columns and name not in NO_SETTING]
        rows = frame[[*known, *mix_columns(frame.columns)]]
        if "tokens" in frame.columns:
            rows = rows.assign(at=rounded(frame["tokens"]))
        elif "step" in frame.columns:
            rows = rows.assign(at=frame["step"])
        return row_codes(rows)

    @cached_property
    def apart(self) -> Mapping[bytes, tuple[Codes, Codes]]:
        """For each way in which unread columns part the rows: the rows alike in what was read and in all before it.

        And those alike in all after it, (n,) each. Columns that part the rows alike come once: one that says the same,
        such as the share of the other corpus, would leave no rows to compare.
        """
        few = {_way(code): code for code in self.codes.values() if code.max(initial=0) < len(code) // 3}
        before, after = [self.settings], [np.zeros_like(self.settings)]
        for one, other in zip(few.values(), reversed(few.values()), strict=True):
            before.append(_both(before[-1], one))
            after.append(_both(after[-1], other))
        ends = zip(before[:-1], after[-2::-1], strict=True)
        return dict(zip(few, ends, strict=True)) | {ALL: (before[-1], after[0])}

    def effects(self, name: str) -> list[Effect]:
        """Return what a column explains of each eval: among rows alike in all else, or else in what was read."""
        apart = self._effects(name, _both(*self.apart.get(_way(self.codes[name]), self.apart[ALL])))
        if any(effect.explains for effect in apart):
            return apart
        together = self._effects(name, self.settings)
        return together if any(effect.explains for effect in together) or not apart else apart

    def _effects(self, name: str, groups: Codes) -> list[Effect]:
        column, values = self.codes[name], _numbers(self.frame[name])
        result = []
        for place, label in enumerate(self.frame["eval"].cat.categories):
            of_eval = self.frame["eval"].cat.codes.to_numpy() == place
            shared = of_eval & (np.bincount(groups[of_eval], minlength=groups.max(initial=0) + 1)[groups] > 1)
            if shared.sum() >= FEW:
                part = None if values is None else values[shared]
                result.append(_effect(str(label), self.log_loss[shared], groups[shared], column[shared], part))
        return result


def _effect(label: str, log_loss: Floats, groups: Codes, column: Codes, values: Floats | None) -> Effect:
    """Compare the rows of one eval within their groups."""
    left = less_mean(log_loss, groups)
    whole = float(left @ left)
    levels = len(np.unique(column))
    # A number with a level for each row would explain everything: such a one counts by a line and its bend.
    if values is not None and levels > min(len(left) // 2, MOST_LEVELS):
        order = pd.Series(values).rank().fillna(len(values) / 2).to_numpy() / len(values) - 0.5
        design = np.stack([less_mean(order, groups), less_mean(order**2, groups)], axis=1)
        fitted = design @ np.linalg.lstsq(design, left, rcond=None)[0]
        used = 2
    else:
        # Levels as deviations from their groups' own: what two groups of one level each differ by is not theirs.
        fitted = _level_means(left, groups, column)
        used = levels - 1
    explained = float(fitted @ fitted)
    free = len(left) - len(np.unique(groups)) - used
    change = 0.0
    if values is not None and np.isfinite(values).all() and np.ptp(values) > 0:
        line = less_mean(values / np.ptp(values), groups)
        spread = float(line @ line)
        change = float(line @ left) / spread if spread > 0 else 0.0
    if whole <= 0 or used < 1:
        return Effect(label, 0.0, change, 0.0, False)
    size = float(np.sqrt(explained / len(left)))
    share = explained / whole
    chance = _by_chance(explained, whole - explained, used, free)
    explains = size >= ONE_SEED and ((share >= SHARE and chance < CHANCE) or (share >= NEARLY_ALL and chance < OF_FEW))
    return Effect(label, size, change, share, explains)


def _level_means(left: Floats, groups: Codes, column: Codes) -> Floats:
    """Return what the levels of a column fit to differences within groups, (n,): least squares on their indicators."""
    _, column = np.unique(column, return_inverse=True)
    within = np.column_stack([less_mean(indicator, groups) for indicator in np.eye(column.max() + 1)[:, column]])
    # By normal equations: levels are few, and rows may be a hundred thousand.
    solved = np.linalg.lstsq(within.T @ within, within.T @ left, rcond=1e-10)[0]
    result: Floats = within @ solved
    return result


def _by_chance(explained: float, left: float, used: int, free: int) -> float:
    """Return the probability that levels drawn at random explain as much."""
    if free < 1:
        return 1.0
    if left <= 1e-12 * explained:
        return 0.0
    from scipy.special import fdtrc

    return float(fdtrc(used, free, explained / used / (left / free)))


def _both(first: Codes, second: Codes) -> Codes:
    """Return one code for each pair of codes, (n,)."""
    if first.max(initial=0) == len(first) - 1:  # no two rows are alike, and no more can be told apart
        return first
    result: Codes = pd.factorize(first * (second.max(initial=0) + 1) + second)[0].astype(np.int64)
    return result


def _way(codes: Codes) -> bytes:
    """Return how codes part the rows, the same for two that part them alike."""
    return bytes(pd.factorize(codes)[0].tobytes())


def _numbers(column: pd.Series) -> Floats | None:
    """Return a column as numbers, or ``None`` where it is text."""
    values, unreadable = to_numbers(column)
    return None if unreadable.any() or not np.isfinite(values).any() else values
