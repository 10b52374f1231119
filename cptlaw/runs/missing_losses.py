"""Where the losses of a table may stand, when no column is called so: its numbers tell what names do not."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from cptlaw.commands import command_line
from cptlaw.errors import DataError
from cptlaw.runs.convert import to_numbers
from cptlaw.runs.naming import loss_columns, missing_column, quoted
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import normal_name

LOWEST, HIGHEST = 0.2, 13.0  # nats per token; the highest is a uniform guess over half a million words
LEAST_LEVELS = 3
WIDEST = 3.0  # nats by which a loss may differ from a base model's
DELTA = re.compile(r"(?:^|_)(?:d|delta|diff|difference|change|forgetting|rise|gain)(?:_|$)")
OLD, NEW = frozenset("old source src general base pretrain orig".split()), frozenset("new target tgt domain".split())
MEASURE = frozenset("loss losses val valid validation eval test ce nll xent nats".split())
NO_LOSS = frozenset("lr rate epoch epochs hour hours day days gb weight decay temperature beta dropout id seed".split())


def no_losses(raw: RawTable) -> DataError:
    """Return the error for a table without a column of losses, with the options that would read what may be some."""
    error = missing_column("loss", map(str, raw.frame.columns), raw.label)
    more = "" if raw.path is None else f" {command_line(['cptlaw', 'read', raw.label])} shows how the rest is read."
    return DataError(f"{error}{_of_values(raw)}{_of_differences(raw)}{more}")


def possible_losses(raw: RawTable) -> dict[str, str]:
    """Return the columns whose numbers may be losses: eval -> column; the evals have their roles for names where told.

    Examples
    --------
    >>> frame = pd.DataFrame({"val_old": [2.1, 2.2, 2.3], "val_new": [1.9, 1.8, 1.7], "note": ["a", "b", "c"]})
    >>> possible_losses(RawTable(frame, "runs.csv"))
    {'source': 'val_old', 'target': 'val_new'}
    """
    found = {_eval_of(name): name for name in raw.free if _like_losses(raw.frame[name]) and not _words(name) & NO_LOSS}
    roles = {
        role: [name for name in found if _words(name) & words] for role, words in (("source", OLD), ("target", NEW))
    }
    told = {names[0]: role for role, names in roles.items() if len(names) == 1 and role not in found}
    return {told.get(name, name): place for name, place in found.items()}


def _of_values(raw: RawTable) -> str:
    if loss_columns(map(str, raw.frame.columns)):
        return ""  # named so, and said
    found = possible_losses(raw)
    if not found:
        return ""
    flag = command_line(["--losses", ",".join(f"{name}={place}" for name, place in found.items())])
    return (
        f" By its numbers, {quoted(found.values())} may hold losses: {flag} reads {'them' if len(found) > 1 else 'it'}."
    )


def _of_differences(raw: RawTable) -> str:
    for name in raw.free:
        values = to_numbers(raw.frame[name])[0] if DELTA.search(normal_name(name)) else np.array([np.inf])
        if bool((np.abs(values[~np.isnan(values)]) < WIDEST).all()):
            return (
                f" {name!r} looks like a difference from the base model's loss: where that is 2.9, --losses "
                f"'source=2.9+`{name}`' adds it."
            )
    return ""


def _like_losses(cells: pd.Series) -> bool:
    """Whether numbers may be losses: more than a few values between a good model's and a guess, and no shares."""
    values, unreadable = to_numbers(cells)
    known = values[~np.isnan(values)]
    if unreadable.any() or len(np.unique(known)) < min(LEAST_LEVELS, len(cells)) or not len(known):
        return False
    return bool(known.min() > LOWEST and 1.0 < known.max() < HIGHEST and (known % 1.0 != 0).any())


def _words(name: str) -> set[str]:
    return set(normal_name(name).split("_"))


def _eval_of(name: str) -> str:
    words = [word for word in normal_name(name).split("_") if word not in MEASURE]
    return "_".join(words) or name
