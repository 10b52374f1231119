"""Where the losses of a table may stand, when no column is called so: its numbers tell what names do not."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from cptlaw.commands import command_line
from cptlaw.runs.base_rows import BASE_WORDS, base_columns
from cptlaw.runs.convert import hashable, texts_in, to_numbers
from cptlaw.runs.metrics import HIGHEST_LOSS
from cptlaw.runs.naming import about_scores, loss_columns, missing_column, quoted
from cptlaw.runs.question import NotUnderstoodError, as_flag
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.tracker_names import role_of_name, words_of

LOWEST_LOSS = 0.2  # nats per token
LEAST_LEVELS = 3
WIDEST = 3.0  # nats by which a loss may differ from a base model's
DELTA_WORDS = frozenset("d delta δ diff difference change forgetting rise gain".split())
MEASURE = frozenset("loss losses val valid validation eval test ce nll xent nats perte verlust".split())
NO_LOSS = frozenset("lr rate epoch epochs hour hours day days gb weight decay temperature beta dropout id seed".split())


def no_losses(raw: RawTable) -> NotUnderstoodError:
    """Return the error for a table without a column of losses, with the options that would read what may be some."""
    error = missing_column("loss", map(str, raw.frame.columns), raw.label)
    more = "" if raw.path is None else f" {command_line(['cptlaw', 'read', raw.label])} shows how the rest is read."
    names = [str(name) for name in raw.frame.columns]
    named, scores = loss_columns(names), about_scores(names)
    found, text, choices = named or possible_losses(raw), "", error.choices
    if found:
        choice = command_line(["--losses", ",".join(f"{name}={place}" for name, place in found.items())])
        long = len(found) == 1 and not {"source", "target"} & set(found)
        if not named and (long or {"eval", "domain"} & set(raw.taken)):
            choice = f"loss={next(iter(found.values()))}"
        text = f" By its numbers, {quoted(found.values())} may hold losses: {as_flag(choice)} reads them."
        text = f" If each eval has a column of its own, say {choice}." if named else text
        choices = (choice, *(choices if named else ()))
    text += f" {scores} reads them." if scores else ""
    text += "".join(
        f" {name!r} looks like a difference from the base model's loss: --losses 'source={added}' adds it, with that "
        "loss for BASE."
        for name in _differences(raw)[:1]
        for added in [f"BASE*(1+`{name}`%)" if "%" in name else f"BASE+`{name}`"]
    )
    return NotUnderstoodError(f"{error}{text}{more}", choices, error.form)


def possible_losses(raw: RawTable) -> dict[str, str]:
    """Return the columns whose numbers may be losses: eval -> column; the evals have their roles for names where told.

    Examples
    --------
    >>> frame = pd.DataFrame({"val_old": [2.1, 2.2, 2.3], "val_new": [1.9, 1.8, 1.7], "note": ["a", "b", "c"]})
    >>> possible_losses(RawTable(frame, "runs.csv"))
    {'source': 'val_old', 'target': 'val_new'}
    """
    like = [name for name in raw.free if _like_losses(raw.frame[name]) and not words_of(name) & NO_LOSS]
    bases = base_columns(like, like)
    found = {_eval_of(name): name for name in like if name not in bases}
    roles = {role: [name for name in found if role_of_name(name) == role] for role in ("source", "target")}
    told = {names[0]: role for role, names in roles.items() if len(names) == 1 and role not in found}
    if len(found) == 2 and len(told) == 1:
        told |= {name: "target" if "source" in told.values() else "source" for name in found if name not in told}
    return {told.get(name, name): place for name, place in found.items()}


def refuse_differences(raw: RawTable, losses: Mapping[str, str]) -> None:
    """Refuse a wide table with differences from base models' losses, be these in a column beside or nowhere.

    Raises
    ------
    NotUnderstoodError
        With the option that adds them.
    """
    for name, place in losses.items():
        values = np.abs(to_numbers(raw.frame[place])[0])
        if words_of(place) & DELTA_WORDS and bool((values[~np.isnan(values)] < LOWEST_LOSS).all()):
            raise NotUnderstoodError(
                f"{raw.label}: {place!r} seems to hold what each run adds to its base model's loss, and no column has "
                f"that loss. Add one, such as base_loss, and read the sum: --losses 'source=base_loss+`{place}`,..'. "
                "Any other --losses is read as it says.",
                [],
            )
        rest = words_of(place) - BASE_WORDS - MEASURE
        beside = [one for one in _differences(raw) if words_of(one) - DELTA_WORDS - MEASURE <= rest]
        if words_of(place) & BASE_WORDS and len(beside) == 1:
            in_percent = any("%" in text for text in texts_in(raw.frame[beside[0]]))
            read = {**losses, name: f"`{place}`*(1+`{beside[0]}`)" if in_percent else f"{place}+`{beside[0]}`"}
            read = {"_".join(sorted(rest)) if one == name and rest else one: what for one, what in read.items()}
            choice = command_line(["--losses", ",".join(f"{one}={what}" for one, what in read.items())])
            raise NotUnderstoodError(
                f"{raw.label}: {place!r} seems to hold the losses of base models, and {beside[0]!r} what each run adds "
                f"to them. {choice} adds them; any other --losses is read as it says.",
                [choice],
            )


def is_base_loss_column(raw: RawTable, place: str) -> bool:
    """Whether a column holds base models' losses by its name, and one for each of them."""
    keys = [raw.taken[name] for name in ("n_params", "ptpp", "pt_tokens", "base") if name in raw.taken]
    if not words_of(place) & BASE_WORDS or not keys:
        return False
    return bool(hashable(raw.frame[place]).groupby([hashable(raw.frame[key]) for key in keys]).nunique().max() == 1)


def _differences(raw: RawTable) -> list[str]:
    """Return the columns that look like differences from another loss."""
    found = []
    for name in raw.free:
        values = to_numbers(raw.frame[name])[0] if words_of(name) & DELTA_WORDS else np.array([np.inf])
        if bool((np.abs(values[~np.isnan(values)]) < (100.0 if "%" in name else WIDEST)).all()):
            found.append(name)
    return found


def _like_losses(cells: pd.Series) -> bool:
    """Whether numbers may be losses: more than a few values between a good model's and a guess, and no shares."""
    values, unreadable = to_numbers(cells)
    known = values[~np.isnan(values)]
    if unreadable.any() or len(np.unique(known)) < min(LEAST_LEVELS, len(cells)) or not len(known):
        return False
    return bool(known.min() > LOWEST_LOSS and 1.0 < known.max() < HIGHEST_LOSS and (known % 1.0 != 0).any())


def _eval_of(name: str) -> str:
    words = [word for word in re.findall(r"[^\W_]+", name.lower()) if word not in MEASURE]
    return "_".join(words) or name
