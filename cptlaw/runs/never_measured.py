"""Losses that were not measured where they stand: those of the base model, of another eval, or of another row.

A loss that was measured comes within a tenth of a per cent of its base model's as often as it comes within each other
tenth beside it. Losses that were copied heap up at nought: in all rows, or in those of one size, machine or restart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.findings import Finding, Remedy, Severity
from cptlaw.runs.convert import row_codes
from cptlaw.runs.within import SEEDS, SETTINGS
from cptlaw.units import counted, format_percent

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MODEL = ("n_params", "ptpp", "lr_pretrain", "base", "seed", "domain", "vocab_added")
# Log loss between a copy and what it was copied from: to the digit; as a mean over seeds, rounded, or beside noise.
CLOSE = (1e-4, 1e-3)
AROUND = (5.0, 20.0)  # times as far: how many rows lie there says how many chance brings close
CHANCE = 0.001  # probability of so many
LEAST_ROWS, LEAST_SETTINGS = 3, 2
STILL_OVER = 4.0  # times the tokens, over which a loss that stands still was not measured
MOST_NAMED, MOST_COMPARED, DIGITS = 3, 40, 8


def base_losses(rows: pd.DataFrame, adapted: pd.DataFrame, *, same_seed: bool = False) -> Floats:
    """Return for each adapted row the loss of its base model, NaN where it was not measured, (n,).

    Parameters
    ----------
    rows, adapted
        Those of one eval, base models among them, and those of adapted models alone.
    same_seed
        Whether both have one seed; else it is the mean over the seeds of base models.
    """
    if "tokens" not in rows.columns or len(adapted) == len(rows):
        return np.full(len(adapted), np.nan)
    base = rows[(rows["tokens"] == 0).to_numpy()]
    keys = [name for name in MODEL if name in rows.columns and (name != "seed" or same_seed)]
    keys = [name for name in keys if base[name].notna().all() and adapted[name].notna().all()]
    model = row_codes(pd.concat([base[keys], adapted[keys]]))
    means = pd.Series(base["loss"].to_numpy(dtype=float)).groupby(model[: len(base)]).mean()
    return means.reindex(model[len(base) :]).to_numpy(dtype=float)


def adapted_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of adapted models."""
    return rows[(rows["tokens"] != 0).to_numpy()] if "tokens" in rows.columns else rows


def copies_of_bases(name: str, adapted: pd.DataFrame, *base: Floats) -> Iterator[Finding]:
    """Say which losses of an eval are those of base models, or of other rows, and of which runs they are.

    Parameters
    ----------
    adapted
        The rows of adapted models.
    *base
        The loss of the base model of each row, NaN where it was not measured, in several ways, (n,) each.
    """
    loss = adapted["loss"].to_numpy(dtype=float)
    apart = np.fmin.reduce([np.abs(np.log(loss / one)) for one in base])
    apart[in_first_half(adapted)] = np.nan  # the first steps of a run change little
    severity: Severity
    at, whose, severity = _heap(apart, adapted), "those of their base models", "error"
    if not at.any():
        at, last = _again(adapted)
        # Some trainers log their last evaluation twice.
        whose, severity = "those of the row before", "error" if (at & ~last).any() else "warning"
    if at.any():
        yield _copied(Finding(severity, "still-loss", ""), name, whose, adapted, at)
    elif (moves := _most_moved(adapted)) < SEEDS:
        yield Finding(
            "warning",
            "still-loss",
            f"the loss of {name!r} moves by {format_percent(moves, 2)} at most in any model, less than two seeds "
            "differ by: it was not measured after training, or training did not reach it.",
            "Measure this eval on the adapted models, and look how both tables were joined.",
            data={"moves": moves},
        )


def _most_moved(adapted: pd.DataFrame) -> float:
    """Return by how much the log loss of one model moves at most between its rows; inf where few could make it move."""
    tokens = adapted["tokens"] if "tokens" in adapted.columns else pd.Series([1.0])
    model = row_codes(adapted[[name for name in MODEL if name in adapted.columns]])
    several = LEAST_ROWS <= len(adapted) > model.max() + 1 and settings_of(adapted) >= LEAST_SETTINGS
    if not several or tokens.max() < STILL_OVER * tokens.min():
        return math.inf
    loss = adapted["loss"].groupby(model)
    return math.log((loss.max() / loss.min()).max())


def copies_of_evals(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Say which evals hold the same losses, and in which runs.

    Parameters
    ----------
    tables
        Eval -> its rows, base models among them.
    """
    names = [*tables]
    # A table from scratch has no old and no new corpus that would have to differ.
    is_cpt = any({"replay", "ptpp"} & set(rows.columns) for rows in tables.values())
    for i, first in enumerate(names):
        for second in names[i + 1 : i + 1 + MOST_COMPARED]:
            rows, others = tables[first], tables[second]
            keys = [key for key in ("run", "step", "tokens") if key in rows.columns and key in others.columns]
            one, other = (table.set_index(keys)["loss"] for table in (rows, others))
            if not (one.index.is_unique and other.index.is_unique) or rows["loss"].nunique() == 1:
                continue
            apart = np.abs(np.log(one.to_numpy(dtype=float) / other.reindex(one.index).to_numpy(dtype=float)))
            if (at := _heap(apart, rows)).any():
                found = Finding("error" if is_cpt else "warning", "equal-evals", "")
                yield _copied(found, first, f"those of {second!r}", rows, at)


def _heap(apart: Floats, rows: pd.DataFrame, within: Sequence[float] = CLOSE) -> Mask:
    """Return which rows lie so close to what they may be copied from as chance does not bring so many of them, (n,).

    Parameters
    ----------
    apart
        How far the log loss of each row lies from that, NaN where there is nothing of the kind, (n,).
    within
        What is close.
    """
    for close in within:
        at = apart < close
        count = int(at.sum())
        expected = max(0.1, *(((apart < far * close).sum() - count) / (far - 1.0) for far in AROUND))
        # Chernoff's bound on so many where so few are expected (Poisson).
        surprise = count * math.log(count / expected) - count + expected if count > expected else 0.0
        if count >= LEAST_ROWS and surprise > -math.log(CHANCE) and settings_of(rows[at]) >= LEAST_SETTINGS:
            return at
    return np.zeros(len(apart), dtype=bool)


def _again(rows: pd.DataFrame) -> tuple[Mask, Mask]:
    """Return which rows have the loss of the row before in their run, and which are the last of theirs, (n,) each."""
    loss = rows["loss"].to_numpy(dtype=float)
    close = 0.5 * 10.0 ** -digits_of(loss) / float(np.median(loss))
    at, last = np.zeros(len(loss), dtype=bool), np.zeros(len(loss), dtype=bool)
    if close > CLOSE[0] / 10.0:  # rounded losses meet
        return at, last
    along = rows["tokens"].to_numpy(dtype=float) if "tokens" in rows.columns else np.arange(len(rows))
    run = pd.factorize(rows["run"])[0]
    order = np.lexsort((along, run))
    apart = np.where(np.diff(run[order]) == 0, np.abs(np.diff(np.log(loss[order]))), np.nan)
    at[order[1:]] = _heap(apart, rows.iloc[order[1:]], (close,))
    last[order[np.append(np.diff(run[order]) != 0, True)]] = True
    return at, last


def digits_of(loss: Floats) -> int:
    """Return how many digits losses have after the point."""
    return next((n for n in range(DIGITS) if np.all(np.abs(loss * 10**n - np.round(loss * 10**n)) < 1e-6)), DIGITS)


def in_first_half(rows: pd.DataFrame) -> Mask:
    """Return which rows stand in the first half of their run, (n,)."""
    if "tokens" not in rows.columns:
        return np.zeros(len(rows), dtype=bool)
    last = rows["tokens"].groupby(rows["run"].to_numpy(), observed=True).transform("max")
    return np.asarray(rows["tokens"] < 0.5 * last, dtype=bool)


def settings_of(rows: pd.DataFrame) -> int:
    """Return how many settings rows have between them."""
    names = [name for name in (*SETTINGS, "tokens", "replay") if name in rows.columns]
    return len(rows[names].drop_duplicates())


def _copied(finding: Finding, name: str, whose: str, rows: pd.DataFrame, at: Mask) -> Finding:
    """Return a finding with what is said of the losses of some rows that are another's."""
    runs = list(dict.fromkeys(rows.loc[at, "run"].astype(str)))
    some = rows["run"].nunique() > len(runs)
    which = f"{counted(len(runs), 'run')}{', such as' if len(runs) > MOST_NAMED else ':'} "
    without = " and ".join(f'run != "{run}"' for run in runs) if some and len(runs) <= MOST_NAMED else None
    return replace(
        finding,
        message=f"{int(at.sum())} of {len(rows)} losses of {name!r} are {whose}, in {which}"
        f"{join_names(map(repr, runs[:MOST_NAMED]), MOST_NAMED)}. They were copied, not measured.",
        advice=f"Measure {name!r} on these models, and look which columns the losses are read from"
        f"{'; or leave these runs out' if some else ''}.",
        data={"runs": runs},
        remedy=Remedy("where", without) if without else None,
    )
