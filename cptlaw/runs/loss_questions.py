"""What is asked of the losses of a table: whether they are any, and which eval is of the old and the new domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from cptlaw.commands import command_line
from cptlaw.runs.convert import row_codes
from cptlaw.runs.evidence import FEW, Effect
from cptlaw.runs.metrics import HIGHEST_LOSS
from cptlaw.runs.question import Question, as_flag
from cptlaw.runs.table import Runs
from cptlaw.runs.tracker_names import role_of_name
from cptlaw.runs.within import correlation_within

TOGETHER = 0.6  # correlation with log tokens, from which a value rises as a model learns
LESS, SOMEWHAT_LESS = 0.5, 0.75  # of what one loss falls by, so that roles tell what a column is, and to propose them
MOST_EVALS = 4  # without roles, of which some may be the old and the new domain's


def about_losses(runs: Runs) -> Iterator[Question]:
    """Ask about losses that can be none: perplexities, and scores that rise as a model learns."""
    if "metric" in runs.frame.columns:
        return
    for name in runs.evals:
        rows = _adapted(runs.on(name).frame)
        loss = rows["loss"].to_numpy(dtype=float)
        if not len(loss):
            continue
        if float(np.median(loss)) > HIGHEST_LOSS:
            text = (
                f"the losses of {name!r} are {loss.min():.4g} to {loss.max():.4g}: more than guessing costs in nats. "
                f"Are they perplexities? In a table with a column for each eval, --losses '{name}=log(COLUMN)'."
            )
            yield Question(name, text, ("loss=log(loss)", "metric=loss"), as_flag("loss=log(loss)"), True)
        elif runs.role(name) == "target" and loss.max() <= 1.0 and (_with_tokens(rows) or 0.0) > TOGETHER:
            text = (
                f"the values of {name!r} lie between 0 and 1 and rise with tokens, as a score does and the loss on the "
                f"corpus that is learned does not. What are they? In a table with a column for each eval, --scores "
                f"'{name}=COLUMN'."
            )
            yield Question(name, text, ("metric=accuracy", "metric=loss"), as_flag("metric=accuracy"), True)


def likely_roles(runs: Runs, unread: Iterable[Sequence[Effect]] = (), less: float = LESS) -> dict[str, str]:
    """Return the eval of each role: as it was said, else as names tell, else as losses go with tokens.

    Parameters
    ----------
    unread
        How losses differ with each column that may count tokens, where none is known to.
    less
        Part of what one loss falls by with such a column: another that falls by less is that of the old domain.
    """
    losses = [name for name in runs.evals if name not in runs.scores]
    found = _sole_evals(losses, role_of_name) | _sole_evals(losses, runs.role)  # what was said goes before
    # More tokens of the new corpus lower its loss, and as a rule raise that of the old one.
    rises = {name: _with_tokens(_adapted(runs.on(name).frame)) or 0.0 for name in losses}
    rises = rises if any(rises.values()) else _opposed(unread, less)
    ordered = sorted(rises, key=lambda name: rises[name]) or (losses if len(losses) == 2 else [])
    left = [name for name in ordered if name not in found.values()]
    if "target" not in found and left and (found or (rises and rises[left[0]] < 0)):
        found["target"] = left.pop(0)
    if "source" not in found and left and found:
        found["source"] = left.pop()
    return found


def _sole_evals(losses: Sequence[str], role_of: Callable[[str], str | None]) -> dict[str, str]:
    """Return the eval of each role that one eval alone has."""
    named = [(role, name) for name in losses if (role := role_of(name)) in ("source", "target")]
    roles = [role for role, _ in named]
    return {role: name for role, name in named if roles.count(role) == 1}


def _opposed(unread: Iterable[Sequence[Effect]], less: float) -> dict[str, float]:
    """Return by how much each loss rises with the first column that lowers one of them far more than another."""
    for some in unread:
        change = {one.eval: one.change for one in some}
        low, high = (min(change.values()), max(change.values())) if change else (0.0, 0.0)
        if any(one.explains for one in some) and low < 0 and high > less * low:
            return change
    return {}


def about_roles(runs: Runs, roles: Mapping[str, str]) -> Iterator[Question]:
    """Ask which eval is the old and which the new domain's, where a table of two or a few says neither."""
    losses = [name for name in runs.evals if name not in runs.scores]
    said = {runs.role(name) for name in losses} - {"other"}
    if not 2 <= len(losses) <= MOST_EVALS or runs.corpora or len(said) == 2:
        return
    source, target = (roles.get(role) for role in ("source", "target"))
    first = (source, target) if source and target else (losses[0], losses[1])
    pairs = [first, first[::-1]] if len(losses) == 2 and not said else [first]
    choices = [
        command_line(
            word
            for role, name in (("source", old), ("target", new))
            if role not in said
            for word in (f"--{role}-eval", name)
        )
        for old, new in pairs
    ]
    evals = ", ".join(map(repr, losses))
    text = f"not every role has an eval ({evals}): which one is the old domain's (source), which one the new one's?"
    yield Question("", text, tuple(choices), choices[0], False)


def _adapted(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["tokens"] > 0] if "tokens" in rows.columns else rows


def _with_tokens(rows: pd.DataFrame) -> float | None:
    """Return how losses go with log tokens between rows alike else, from -1 to 1; ``None`` where nothing tells."""
    if "tokens" not in rows.columns or len(rows) < FEW:
        return None
    alike = row_codes(rows[[name for name in ("n_params", "ptpp", "replay") if name in rows.columns]])
    tokens, values = (rows[name].to_numpy(dtype=float) for name in ("tokens", "loss"))
    return correlation_within(np.log(tokens), values, alike)
