"""Fits without data: published coefficients, kept and planned with like a fit of one's own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.options import Options
from cptlaw.laws import Law, law
from cptlaw.laws.base import Role
from cptlaw.runs.schema import mix_columns
from cptlaw.units import parse_quantity


def given_fit(law_name: str | Law, params: Mapping[str, object], on: Role, note: str = "") -> LawFit:
    """Return a fit that holds given parameters, such as the coefficients of a paper.

    It forecasts, plans, is saved and loaded like any fit. There is no data behind it, so it has no intervals, and says
    so.

    Parameters
    ----------
    law_name
        A law, by name or built.
    params
        All its parameters, in the law's units; numbers or texts with units.
    on
        ``"source"`` or ``"target"``: the loss that they describe.
    note
        Where they come from, for the record.

    Raises
    ------
    UsageError
        If a parameter is missing or unknown, `on` is no role, or the law has no loss with these parameters.

    Examples
    --------
    >>> import pandas as pd
    >>> epoch = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}
    >>> fit = given_fit("chinchilla", epoch, "source", note="Besiroglu et al. 2024")
    >>> round(float(fit.predict(pd.DataFrame({"n_params": [70e9], "tokens": [1.4e12]}))[0]), 3)
    1.973
    """
    if on not in ("source", "target"):
        raise UsageError(f"on={on!r} is no role: given parameters describe the source or the target loss.")
    chosen = law(law_name)
    # Numbers with units, as papers print them: 1.69, 406.4, 34%.
    values = chosen.check_params({name: parse_quantity(value, name) for name, value in params.items()})
    _refuse_lossless(chosen, values, on)
    finding = Finding(
        "info",
        "given-parameters",
        "the parameters were given, not fitted: there are no data to say how sure they are.",
        "Fit the law to runs of your own for intervals.",
    )
    return LawFit(
        law=chosen,
        on=on,
        role=on,
        params=values,
        objective=0.0,
        n_points=0,
        n_runs=0,
        status="given",
        n_starts=0,
        n_agree=0,
        rank=0,
        n_free=0,
        findings=(finding,),
        data=pd.DataFrame({"run": [], "loss": []}),
        base=pd.DataFrame(columns=["n_params", "ptpp", "loss"]),
        options=Options(chosen.delta),
        provenance={"note": note} if note else {},
        optima=np.zeros((0, 0)),
    )


def _refuse_lossless(chosen: Law, values: Mapping[str, float], on: Role) -> None:
    """Refuse parameters with which a law has no loss at a point that any might be asked for."""
    if chosen.objects:  # which reads whole schedules
        return
    shares = dict.fromkeys(mix_columns(chosen.inputs), 1.0 / max(1, len(mix_columns(chosen.inputs))))
    point = dict.fromkeys(chosen.inputs, 1.0) | {"n_params": 1e9, "tokens": 1e10, "replay": 0.5, "ptpp": 100.0} | shares
    try:
        with np.errstate(all="raise", under="ignore"):
            numbers = {name: np.float64(value) for name, value in values.items()}  # whose powers are never complex
            loss = chosen.evaluate(chosen.fitted(numbers), chosen.bind(pd.DataFrame([point]), on))
            found = bool(np.isfinite(np.asarray(loss)).all())
    except ArithmeticError:
        found = False
    if found:
        return
    usual = {name: shape for name, shape in chosen.shapes.items() if name not in chosen.derived}
    odd = [
        f"{name} is {values[name]:g}, expected {shape.low:g} to {shape.high:g}"
        for name, shape in usual.items()
        if not shape.low <= values[name] <= shape.high
    ]
    raise UsageError(
        f"params: law {chosen.spec} has no finite loss with these parameters at 1B parameters and 10B tokens. "
        f"{'; '.join(odd) or 'Each may be in the units of another paper'}: see `cptlaw laws {chosen.name}`."
    )
