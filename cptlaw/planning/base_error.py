"""What a base model's own measured loss says of the losses of its runs.

Base models err as one: where the loss of a base model lies above what a law says of it, so do the source losses of the
runs that start from it, by about two fifths as much. What counts is by how much more it lies above than those of the
fitted base models do, for a law may err at the jump from base model to CPT and yet be right of the runs. Over 35 base
models of a budget held out, of five tables, this lowers what the source loss is missed by from 1.45 to 1.31 % (root
mean square; ``python -m studies cpt_forecasts``). Without it a limit on forgetting, which counts from the measured
loss, is thought to be easier than it is wherever that loss is high. Target losses show nothing of the kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.checking.distance import fact
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.planning.loss import Loss
from cptlaw.planning.reference import SAME, Reference, own_base_loss
from cptlaw.units import format_percent

SHARE = 0.4
WORTH_SAYING = 0.002  # log loss: less moves no plan that anyone would notice


def with_base_error(source: Loss, reference: Reference) -> tuple[Loss, tuple[Finding, ...]]:
    """Return the source loss with what its base model's measured loss adds to the forecasts, and what to say of it.

    Nothing is added where the base model was not measured, the law has no loss of it, or its own runs were fitted: they
    say more of it than its loss does.
    """
    if reference.kind != "measured" or _own_runs(source):
        return source, ()
    own = own_base_loss(source)
    if own is None:
        return source, ()
    missed = float(np.log(reference.loss / own)) - usual_miss(source.fit)
    if abs(missed) < WORTH_SAYING:
        return source, ()
    where = "above" if missed > 0 else "below"
    away = format_percent(abs(np.expm1(missed)), 2)
    carried = Finding(
        "info",
        "base-error-carried",
        f"the base model's measured source loss lies {away} {where} what the runs of other base models make of it: "
        f"{format_percent(SHARE)} of that is taken to hold for its runs too.",
        "One short run of this base model would show how much of it does.",
    )
    return replace(source, carried=SHARE * missed, _asked={}), (carried,)


def usual_miss(fit: Any) -> float:
    """Return by how much the measured losses of the base models whose runs were fitted lie above the fit: log, median.

    0 where none was measured.
    """
    rows = fit.data
    keys = ["n_params", "ptpp"]
    if fit.base.empty or not {*keys, "tokens"} <= set(rows.columns):
        return 0.0

    def read() -> float:
        adapted = rows[rows["tokens"] > 0]
        base = fit.base.merge(adapted[keys].drop_duplicates(), on=keys)
        # A base model has neither mix nor rate; any of those fitted will do.
        usual = {name: adapted[name].median() for name in ("replay", "lr_peak", "lr_pretrain") if name in adapted}
        try:
            with np.errstate(all="ignore"):
                own = np.asarray(fit.predict(base.assign(tokens=0.0, **usual)), dtype=float)
        except CptlawError:
            return 0.0
        missed = np.log(base["loss"].to_numpy(dtype=float) / own)
        known = missed[np.isfinite(missed)]
        return float(np.median(known)) if len(known) else 0.0

    return fact(rows, ("usual miss", id(fit)), read)


def _own_runs(source: Loss) -> bool:
    """Say whether runs of the planned base model were fitted; where nothing tells base models apart, all are its."""
    rows = source.fit.data
    if rows.empty:
        return True
    same = rows["tokens"].to_numpy(dtype=float) > 0 if "tokens" in rows.columns else np.ones(len(rows), dtype=bool)
    for name in ("n_params", "ptpp"):
        if name in rows.columns and name in source.known:
            same = same & np.isclose(rows[name].to_numpy(dtype=float), source.known[name], rtol=SAME, atol=0)
    return bool(same.any())
