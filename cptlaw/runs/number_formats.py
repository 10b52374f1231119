"""Numbers as people write them, and the units that names of columns tell: brought to plain numbers, and said."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError
from cptlaw.runs.convert import hashable, texts_in, to_numbers, with_cells
from cptlaw.runs.metrics import NATS_PER_BYTE, UNITS
from cptlaw.runs.naming import loss_columns
from cptlaw.runs.question import NotUnderstoodError, as_flag
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import BASE_TOKENS, TPP, column_of, normal_name
from cptlaw.runs.tracker_names import meaning_of_name, words_of
from cptlaw.units import IN_UNITS

_UNIT = re.sub(r"\?P<\w+>", "?:", IN_UNITS)
GROUPS = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:([ \u00a0\u202f'\u2019,.])\d{{3}})(?:\1\d{{3}})*(?:[.,]\d+)?{_UNIT}", re.I)
COMMA = re.compile(rf"[+-]?\d+,\d+(?:[eE][+-]?\d+)?{_UNIT}", re.I)
EITHER = re.compile(rf"[+-]?[1-9]\d{{0,2}},\d{{3}}{_UNIT}", re.I)  # thousands, or three decimals
POINT = re.compile(r"[+-]?\d+\.\d+")
LN2 = float(np.log(2.0))
SPREAD = 0.3  # of the logarithm of a ratio, below which two columns count the same thing
# Words of a column of losses in another unit -> what it holds, and the unit that it is brought to.
OTHER_UNITS = (
    (re.compile(r"ppl|perplexity", re.IGNORECASE), "a perplexity", "nats"),
    (re.compile(r"bpb|bits[_ -]?(?:per|/)[_ -]?byte", re.IGNORECASE), "in bits per byte", "nats per byte"),
    (re.compile(r"bits[_ -]?(?:(?:per|/)[_ -]?token|loss)|(?:loss.?(?:in)?.?|[\[(])bits", re.I), "in bits", "nats"),
)
NO_LOSS = frozenset(("train", "training", "std", "se", "err", "best", "min", "max", "delta", "ratio", "word"))


def decimal_marks(raw: RawTable) -> RawTable:
    """Return a table whose numbers have points as decimal marks and nothing between their thousands.

    Raises
    ------
    DataError
        If ``1,234`` may be either and nothing tells.
    """
    odd = {name: marked for name in map(str, raw.frame.columns) if (marked := _marked(raw, name))}
    of_file = any(_is_decimal(one) for some in odd.values() for one in some)
    columns, plain = {}, dict[str, str]()
    for name, marked in odd.items():
        decimal = of_file or _is_decimal_column(raw, name, marked)
        plain = {one: _plain(one, decimal) for one in marked if decimal or not POINT.fullmatch(one)}
        if plain:
            columns[name] = with_cells(raw.frame[name], plain)
    if not columns:
        return raw
    note = f"{'decimal commas' if of_file else 'marks within numbers'} are read in {', '.join(map(repr, columns))}"
    return raw.reshaped(raw.frame.assign(**columns), note)


def _marked(raw: RawTable, name: str) -> list[str]:
    """Return the numbers of a column that have commas, or points between their thousands."""
    if name in raw.naming.text_columns or pd.api.types.is_numeric_dtype(raw.frame[name]):
        return []
    texts = {one.strip() for one in texts_in(raw.frame[name])}
    return [one for one in texts if GROUPS.fullmatch(one) or COMMA.fullmatch(one)]


def _is_decimal(text: str) -> bool:
    return COMMA.fullmatch(text) is not None and not GROUPS.fullmatch(text)


def _is_decimal_column(raw: RawTable, name: str, texts: list[str]) -> bool:
    """Whether the commas of a column are decimal marks: as its numbers say, else as what it counts says."""
    if any("," in one and GROUPS.fullmatch(one) and not EITHER.fullmatch(one) for one in texts):
        return False
    canonical = next((canonical for canonical, place in raw.taken.items() if place == name), "")
    if canonical == "loss" or loss_columns([name]) or not any("," in one for one in texts):
        return any("," in one for one in texts)
    if canonical and (column_of(canonical).raw_count or canonical in ("step", "batch_tokens", "samples", "n_items")):
        return False
    one = next(one for one in texts if "," in one)
    raise DataError(
        f"{raw.label}, column {name!r}: {one!r} may be {one.replace(',', '')} or {one.replace(',', '.')}, and nothing "
        f"in the table tells which. Expected plain numbers, such as {one.replace(',', '.')}. Save it with points as "
        f"decimal marks and nothing between thousands."
    )


def _plain(text: str, decimal: bool) -> str:
    text = re.sub(r"[ \u00a0\u202f'\u2019]", "", text)
    if not decimal:
        return text.replace(",", "")
    return (text.replace(".", "") if GROUPS.fullmatch(text) and "." in text else text).replace(",", ".")


def plain_units(raw: RawTable) -> RawTable:
    """Return a table whose columns named with a unit, such as ``replay_pct`` or ``tokens_b``, hold plain numbers."""
    columns, scales, read = {}, {}, []
    for canonical, name in raw.taken.items():
        meaning = meaning_of_name(name)
        if meaning is None or meaning.column != canonical or meaning.scale == 1.0:
            continue
        cells = raw.frame[name]
        values, unreadable = to_numbers(cells)
        bare = np.array([isinstance(one, str) and not one.strip()[-1:].isdigit() for one in cells])  # a unit of its own
        largest = np.nanmax(values, initial=0.0)
        if unreadable.any() or bare.all() or (meaning.scale > 1.0 and largest * meaning.scale > 1e18):
            continue
        if meaning.scale < 1.0 and 0 < largest <= 1.0 and not bare.any():
            if canonical in (raw.columns or {}):
                continue  # who names it means the numbers as they are
            choice = f"{canonical}={name}"
            raise NotUnderstoodError(
                f"{raw.label}: column {name!r} is called a percentage and holds {largest:g} at most. Are these shares? "
                f"Then say {as_flag(choice)} (columns={{{canonical!r}: {name!r}}}); percent are written as 25 or 25%.",
                [choice],
            )
        columns[name] = np.where(bare, values, values * meaning.scale)
        scales[name] = meaning.scale
        unit = "percent" if meaning.scale < 1 else f"units of {meaning.scale:.0e}".replace("e+0", "e")
        read.append(f"{name!r} in {unit}")
    if not columns:
        return raw
    plain = raw.reshaped(raw.frame.assign(**columns), f"read by their names: {', '.join(read)}")
    return replace(plain, scales=scales)


def nats_of(column: str, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], str, str]:
    """Return losses in nats, what the column holds if its name tells another unit, and the unit that it has now.

    Examples
    --------
    >>> nats_of("eval/fr_perplexity", np.array([np.e])), nats_of("fr_loss", np.array([2.0]))
    ((array([1.]), 'a perplexity', 'nats'), (array([2.]), '', 'nats'))
    """
    for sign, what, unit in OTHER_UNITS:
        if sign.search(column):
            with np.errstate(all="ignore"):
                return np.log(values) if what == "a perplexity" else values * LN2, what, unit
    return values, "", "nats"


def loss_in_other_units(raw: RawTable) -> RawTable:
    """Return a table with losses in nats, of one that has a perplexity or bits under a name that says so."""
    place = raw.taken.get("loss")
    if place is None:
        named = [name for name in raw.free if any(sign.search(name) for sign, *_ in OTHER_UNITS)]
        named = [name for name in named if not NO_LOSS & set(re.findall("[a-z]+", normal_name(name).replace("_", " ")))]
        place = named[0] if len(named) == 1 else None
    if place is None or "metric" in raw.taken:
        return raw
    raw_values, unreadable = to_numbers(raw.frame[place])
    values, what, unit = nats_of(place, raw_values)
    if not what or unreadable.any() or np.nanmin(raw_values, initial=1.0) <= 0:
        return raw.named({"loss": place})  # what cannot be read is complained of with the other rows
    columns = {place: values} | ({"metric": NATS_PER_BYTE} if unit == UNITS[NATS_PER_BYTE] else {})
    note = f"loss: {place!r} is {what}, converted to {unit}"
    return raw.reshaped(raw.frame.assign(**columns), note).named({"loss": place})


def tokens_of_base(raw: RawTable) -> RawTable:
    """Return a table in which the tokens of base models are read, where their column counts more than any run saw."""
    places = [name for name in raw.free if normal_name(re.split("[./]", name)[-1]) in BASE_TOKENS]
    if len(places) != 1 or "tokens" not in raw.taken or {"ptpp", "pt_tokens"} & set(raw.taken):
        return raw
    of_base, tokens = (to_numbers(raw.frame[name])[0] for name in (places[0], raw.taken["tokens"]))
    more = bool((of_base >= pd.Series(tokens).max()).all())
    return raw.named({"pt_tokens": places[0]}, f"pt_tokens from {places[0]!r}") if more else raw


def budget_or_progress(raw: RawTable) -> RawTable:
    """Return a table whose tokens per parameter are its budget, unless they are those of adaptation."""
    if "ptpp" in (raw.columns or {}):
        return raw
    named = [raw.taken["ptpp"]] if "ptpp" in raw.taken else raw.free
    places = [name for name in named if re.split(r"[./]", normal_name(name))[-1] in TPP]
    if len(places) != 1 or "pt_tokens" in raw.taken:
        return raw
    if {"tokens", "n_params"} <= set(raw.taken):
        tokens, size = (to_numbers(raw.frame[raw.taken[name]])[0] for name in ("tokens", "n_params"))
        ratio = to_numbers(raw.frame[places[0]])[0]
        used = (tokens > 0) & (size > 0) & (ratio > 0)
        apart = np.log(tokens[used] / size[used] / ratio[used])
        if len(apart) and np.ptp(apart) < SPREAD:
            if "ptpp" not in raw.taken:
                return raw
            note = f"column {places[0]!r} is tokens / n_params, and no budget of pre-training"
            other = "atpp" if "atpp" not in raw.frame.columns else "tokens / n_params"
            return raw.reshaped(raw.frame.rename(columns={places[0]: other}), note)
    counted = {"tokens", "step", "samples", "flops", "replay"} & set(raw.taken)
    if not counted and "n_params" in raw.taken and not _may_count(raw, places[0]):
        values = to_numbers(raw.frame[places[0]])[0] * to_numbers(raw.frame[raw.taken["n_params"]])[0]
        note = f"tokens: {places[0]!r} x n_params, as nothing else counts what was trained on"
        return raw.reshaped(raw.frame.assign(tokens=values).rename(columns={places[0]: "atpp"}), note)
    return raw if "ptpp" in raw.taken else raw.named({"ptpp": places[0]}, f"ptpp from {places[0]!r}")


def _may_count(raw: RawTable, tpp: str) -> bool:
    """Whether another column that nobody named may count what was trained on."""
    for name in raw.free:
        values, unreadable = to_numbers(raw.frame[name])
        if name == tpp or unreadable.any() or NO_LOSS & words_of(name) or loss_columns([name]):
            continue
        if len(np.unique(values)) > 1 and np.nanmin(values) > 0:
            return True
    return False


def peak_of_rates(raw: RawTable) -> RawTable:
    """Return a table whose column ``lr`` is the peak rate, where it holds one rate for each run."""
    taken = raw.taken
    if "lr" not in taken or {"lr_peak", "phase"} & set(taken) or "run" not in taken:
        return raw
    # By number: as labels of the result pandas would refuse names that are no text, such as half a character.
    run = pd.factorize(hashable(raw.frame[taken["run"]]).to_numpy(dtype=object))[0]
    rates = to_numbers(raw.frame[taken["lr"]])[0]
    by_run = pd.Series(rates).groupby(run).agg(["min", "max"])
    few = len(np.unique(by_run["max"])) <= max(1, len(by_run) // 2)
    if {"replay", "ptpp"} & set(taken):
        few |= "step" not in taken
    else:  # of the ends of runs it is that of a sweep; of a curve from scratch perhaps of some step
        at = next((taken[name] for name in ("step", "tokens") if name in taken), None)
        few = few and at is not None and bool(hashable(raw.frame[at]).groupby(run).nunique().max() == 1)
    if not np.isfinite(rates).all() or (rates <= 0).any() or not few or (by_run["min"] != by_run["max"]).any():
        return raw
    return raw.reshaped(raw.frame.assign(lr_peak=rates), f"lr_peak: {taken['lr']!r}, which holds one rate for each run")
