"""Rows that measure the same thing twice."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.runs.candidates import Numbers
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.problems import Problems
from cptlaw.runs.question import as_flag


def add_repeated_rows(frame: pd.DataFrame, is_eval_assumed: bool, problems: Problems) -> None:
    """Note rows with the same run, eval and step, or tokens where there is no step.

    Parameters
    ----------
    is_eval_assumed
        Whether the source has no column ``eval``: then another column may be what tells the rows apart.
    """
    # What tells the points of one run apart.
    stepwise = "step" in frame.columns and frame["step"].notna().all()
    positions = ["step"] if stepwise else [name for name in ("step", "tokens") if name in frame.columns]
    keys = _keys(frame, positions)
    repeated = keys.duplicated().to_numpy()
    if not repeated.any():
        return

    def described(position: int) -> str:
        values = frame.iloc[position]
        point = "".join(f", {name} {values[name]:.10g}" for name in positions if not np.isnan(values[name]))
        key = keys.iloc[position]
        same = (keys.eq(key) | (keys.isna() & key.isna())).all(axis="columns").to_numpy()
        first = frame.index[int(same.argmax())]
        return f"run {values['run']!r}, eval {values['eval']!r}{point} again (as row {first})"

    where = f"columns {', '.join(map(repr, ['run', 'eval', *positions]))}"
    remedy, choices = _remedy(frame, keys, is_eval_assumed)
    problems.add_rows(where, frame["run"], repeated, "each point of a run once", remedy, describe=described)
    problems.offer(choices)


def copies(frame: pd.DataFrame) -> pd.Series[bool]:
    """Say which rows belong to runs that repeat an earlier one to the last digit, in all but name and seed, (n,)."""
    # Texts as numbers: half a character has no bytes that could be hashed.
    apart = frame.drop(columns=["run", "seed"], errors="ignore").apply(
        lambda column: column if pd.api.types.is_numeric_dtype(column) else pd.factorize(hashable(column))[0]
    )
    # The sum over the rows of a run, whatever their order; of 64 bits, so that no two runs meet by chance.
    of_run = pd.util.hash_pandas_object(apart, index=False).groupby(frame["run"].to_numpy(), sort=False).sum()
    return frame["run"].isin(of_run.index[of_run.duplicated()])


def _keys(frame: pd.DataFrame, positions: list[str]) -> pd.DataFrame:
    # One integer for run and eval: far faster than two text columns.
    codes = frame["run"].cat.codes.astype(np.int64) * len(frame["eval"].cat.categories) + frame["eval"].cat.codes
    if "phase" in frame.columns:  # steps count from the start of each phase
        codes = codes * (1 + len(frame["phase"].cat.categories)) + frame["phase"].cat.codes
    return pd.DataFrame({"run and eval": codes, **{name: frame[name] for name in positions}})


def _remedy(frame: pd.DataFrame, keys: pd.DataFrame, is_eval_assumed: bool) -> tuple[str, list[str]]:
    """Return what can be done, and the choices that would do it."""
    apart = [
        name
        for name in frame.columns
        if name not in ("run", "eval", "loss", *keys.columns)
        and not keys.assign(other=hashable(frame[name])).duplicated().any()
    ]
    texts = [name for name in apart if not pd.api.types.is_numeric_dtype(frame[name])]
    if is_eval_assumed and texts:
        choice = f"eval={texts[0]}"
        return (
            f"The rows differ in {texts[0]!r}: if it names the validation set, say columns={{'eval': {texts[0]!r}}} "
            f"({as_flag(choice)})."
        ), [choice]
    if apart and (counts := _count_readings(frame, apart[0])):
        return f"The rows differ in {apart[0]!r}: say what it counts, as in {as_flag(counts[0])}.", counts
    if apart:
        return f"The rows differ in {apart[0]!r}: make it a part of the name of the run, or remove the repeats.", []
    if is_eval_assumed:
        return (
            "There is no column 'eval', so that every loss counts as one of eval 'target': add it if the rows are of "
            "several validation sets; else remove the repeats."
        ), []
    return "Remove the repeats, or give each rerun a name of its own in the column 'run'.", []


def _count_readings(frame: pd.DataFrame, name: str) -> list[str]:
    """Return how a column that grows along runs may count their tokens or steps, where nothing else does."""
    values, unreadable = to_numbers(frame[name])
    if {"tokens", "step", "samples"} & set(frame.columns) or unreadable.any() or not (values >= 0).all():
        return []
    sized = "n_params" in frame.columns
    one = Numbers.of(frame, name, within=True, missing=("tokens",), sized=sized, steps_count=False)
    return [pair for _, pair in sorted(one.offers(), key=lambda offer: -offer[0]) if not pair.startswith(IGNORE)]
