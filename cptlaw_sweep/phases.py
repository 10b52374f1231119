"""Learning-rate schedules of a recipe: one phase of a run, checked by the schedules themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.errors import DataError, quote
from cptlaw.schedules import Phase
from cptlaw.units import parse_quantity
from cptlaw_sweep.fields import Plain, read_block
from cptlaw_sweep.schema import RateRule

# A learning rate is kept per step, and no run of today comes near so many.
MOST_STEPS = 100_000_000


def whole_steps(where: str, steps: float) -> int:
    """Return a number of steps as a whole one.

    Raises
    ------
    DataError
        If there are more than a run can have.
    """
    if steps > MOST_STEPS:
        raise DataError(
            f"{where}: {steps:.3g} optimiser steps. Expected {MOST_STEPS:,} or fewer: take larger batches, or fewer "
            "tokens."
        )
    return round(steps)


def make_phase(where: str, **values: Any) -> Plain:
    """Return a phase as plain data.

    Raises
    ------
    DataError
        If there are more steps than a run can have, or a field that no schedule reads.
    """
    whole_steps(where, values["steps"])
    try:
        return Phase(**values).to_dict()
    except TypeError as error:
        raise DataError(f"{where}: schedule {values}: {error}.") from None


def rate_of(value: object, model: str, n_params: int, where: str) -> float:
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
        rule = read_block(RateRule, value, where)
        return float(f"{rule.at * (n_params / rule.n_params) ** rule.power:.4g}")
    if isinstance(value, Mapping):
        if model not in value:
            raise DataError(f"{where}: there is none for model {model}. Give one per model, or one for all.")
        value = value[model]
    if (result := parse_quantity(value, where)) <= 0:
        raise DataError(f"{where}: found {quote(value)}. Expected a number above 0.")
    return result
