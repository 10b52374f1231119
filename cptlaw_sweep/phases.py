"""Learning-rate schedules of a recipe: one phase of a run, checked by the schedules themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.errors import DataError
from cptlaw.schedules import Phase
from cptlaw_sweep import fields as read

# A learning rate is kept per step, and no run of today comes near so many.
MOST_STEPS = 100_000_000


def make_phase(where: str, **values: Any) -> read.Plain:
    """Return a phase as plain data.

    Raises
    ------
    DataError
        If there are more steps than a run can have, or a field that no schedule reads.
    """
    if values["steps"] > MOST_STEPS:
        raise DataError(
            f"{where}: {values['steps']:.3g} optimiser steps. Expected {MOST_STEPS:,} or fewer: take larger batches, "
            "or fewer tokens."
        )
    try:
        return Phase(**values).to_dict()
    except TypeError as error:
        raise DataError(f"{where}: schedule {values}: {error}.") from None


def read_schedules(value: Any, where: str) -> list[read.Plain]:
    """Read schedules of adaptation: the fields of a phase without its steps; `peak` may be several rates."""
    return [single for each in read.many(_read_schedule)(value, where) for single in each]


def _read_schedule(value: Any, where: str) -> list[read.Plain]:
    if not isinstance(value, Mapping) or "schedule" not in value or "peak" not in value:
        raise DataError(
            f"{where}: found {value!r}. Expected a schedule, such as {{schedule: wsd, peak: 3e-3, decay: 25%}}."
        )
    unusable = {"phase", "steps", "tokens_per_step"} & set(value)
    if unusable:
        raise DataError(f"{where}: {', '.join(sorted(unusable))} follow from the run; leave them out.")
    peaks = value["peak"] if isinstance(value["peak"], list) else [value["peak"]]
    if not peaks:
        raise DataError(f"{where}: peak: the list is empty.")
    return [{**{str(key): item for key, item in value.items()}, "peak": peak} for peak in peaks]


def rate_of(value: Any, model: str, n_params: int, where: str) -> float:
    """Return a learning rate given once, per model, or by a rule of size.

    Parameters
    ----------
    value
        A rate; ``{MODEL: rate, ..}``; or ``{at: 6e-3, n_params: 46K, power: -0.3}``: ``at * (N / n_params) ** power``.
        Under the maximal-update rule the best rate of hidden layers falls as 1 / width (arXiv:2203.03466), which is a
        power of about -1/3 where depth grows with width and -1/2 where it does not.
    model, n_params
        The model that it is for.
    where
        The place in the recipe.
    """
    if isinstance(value, Mapping) and "at" in value:
        fields = read.Fields(value, where)
        at, size = fields.take("at", read.positive), fields.take("n_params", read.positive)
        power = fields.take("power", read.number, -1 / 3)
        fields.end()
        return float(f"{at * (n_params / size) ** power:.4g}")
    if isinstance(value, Mapping):
        if model not in value:
            raise DataError(f"{where}: there is none for model {model}. Give one per model, or one for all.")
        value = value[model]
    return read.positive(value, where)
