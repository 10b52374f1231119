"""Forecasts averaged over laws, and the doubt split into the law's form, its parameters and the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.comparing.stacking import stacking_weights
from cptlaw.errors import CptlawError, UsageError, did_you_mean
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.choose_restraint import SPARE, STARTS, rollouts
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws.base import Known
from cptlaw.laws.calculus import Array
from cptlaw.runs.points import as_points
from cptlaw.solving.training_rows import TrainingRows
from cptlaw.uncertainty.intervals import doubt_parts
from cptlaw.units import parse_probability, parse_quantity

DOUBT = ("doubt_form", "doubt_parameters", "doubt_noise")
AVERAGE = "average"
ROUNDS = 80  # of the bisection for an end of the interval, in log loss
REACH = 50.0  # standard deviations within which the ends are sought


def forecast_average(
    fits: Sequence[Fit], frame: Any, interval: float | str | None = 0.9, weights: Any = None
) -> pd.DataFrame:
    """Average the forecasts of several laws that were fitted to the losses of one eval.

    Parameters
    ----------
    fits
        Two or more fits of one eval.
    frame
        Rows with the inputs of all laws.
    interval
        Probability that a measured loss lies between lo and hi; ``None`` leaves the two columns out.
    weights
        ``"stack"``: from rollouts within the fitted rows, see `rollout_weights`. ``"equal"``. ``None``: the first, or,
        with a finding that says why, the second where there are no rollouts. Or a weight for each law by its name,
        such as ``{"ptpp-floor": 0.7, "ptpp-gate": 0.3}``, as `compare` gives them.

    Returns
    -------
    DataFrame
        The rows of `frame` with loss, lo, hi; ``doubt_form``, ``doubt_parameters`` and ``doubt_noise``, the shares of
        the variance of the log loss from the form (between laws, and what each may miss beyond its data), from the
        parameters within laws, and from measuring; and findings.

    Raises
    ------
    UsageError
        If the fits are not of one eval, or the weights do not fit them.

    Notes
    -----
    The forecast is the weighted mean of log losses. Its distribution is the mixture of the laws' own, each a normal
    with the two sides of its interval. Where laws far apart share the weight the interval covers them all.
    """
    evals = list(dict.fromkeys(fit.on for fit in fits))
    if len(fits) < 2 or len(evals) != 1:
        raise UsageError(
            f"an average needs two or more fits of one eval; given: {len(fits)} fits of {', '.join(evals) or 'none'}."
        )
    frame = as_points(frame)
    if interval is not None:
        interval = parse_probability(interval, "interval")
    share, notes = _weights(fits, weights)
    tables = [fit.forecast(frame, None) for fit in fits]
    centres = np.log(np.stack([table["loss"].to_numpy(dtype=float) for table in tables]))  # (laws, n)
    mean = share @ centres
    out = (frame if fits[0].law.needs_schedules else fits[0].completed(frame)).copy()
    out["loss"] = np.exp(mean)
    silent = np.zeros(len(out), dtype=bool)
    if interval is not None:
        out = out.assign(**_doubt(fits, frame, interval, share, centres))
        silent = ~np.isfinite(out[["lo", "hi"]].to_numpy(dtype=float)).all(axis=1)
    open_end = Finding(
        "warning",
        "unbounded",
        "the data does not bound this loss under a law that has weight here.",
        "Add runs nearer to this point, or leave that law out.",
    )
    # Each law says of each point how far it is beyond its own data; the same words count once.
    own = zip(*(table["findings"] for table in tables), strict=True)
    out["findings"] = pd.Series(
        [
            by_severity([*(item for several in row for item in several), *notes, *([open_end] if mute else [])])
            for row, mute in zip(own, silent, strict=True)
        ],
        index=out.index,
        dtype=object,
    )
    return out


def _doubt(fits: Sequence[Fit], frame: pd.DataFrame, interval: float, share: Array, centres: Array) -> dict[str, Array]:
    """Return the ends of the interval and the shares of the doubt, (n,) each, from the laws' log losses, (laws, n)."""
    parts = [doubt_parts(fit, fit.completed(frame), interval) for fit in fits]
    # Half-widths of each law at the same coverage are brought to standard deviations, for a mixture is read at every
    # probability.
    normal = float(special.ndtri(0.5 + 0.5 * interval))
    below, above, form = (np.stack([part[side] for part in parts]) / normal for side in (0, 1, 2))  # (laws, n)
    noise = np.array([part[3] for part in parts])[:, None] / normal
    low, high = (np.hypot(np.hypot(side, form), noise) for side in (below, above))
    used = share > 0  # a law without weight may be unbounded, and infinity times nothing is no number
    found: dict[str, Array] = {
        name: np.exp(_quantile(share[used], centres[used], low[used], high[used], probability))
        for name, probability in (("lo", 0.5 - 0.5 * interval), ("hi", 0.5 + 0.5 * interval))
    }
    variance = {
        "doubt_form": share @ (centres - share @ centres) ** 2 + share[used] @ (form**2)[used],
        "doubt_parameters": share[used] @ (0.25 * (below + above) ** 2)[used],
        "doubt_noise": np.broadcast_to(share[used] @ (noise**2)[used], centres.shape[1]),
    }
    whole = np.asarray(sum(variance.values()))
    bounded = np.isfinite(whole)  # beside an endless part the shares are no numbers
    for name, part in variance.items():
        found[name] = np.full(whole.shape, np.nan)
        np.divide(part, np.where(whole > 0, whole, 1.0), out=found[name], where=bounded)
    return found


def rollout_weights(fits: Sequence[Fit]) -> Array:
    """Return weights, (fits,), from rollouts within the fitted rows: fit the lower levels, forecast the higher ones.

    Lower and higher in compute, tokens per parameter, pre-training budget and size; loss curves are rolled out to
    schedules that were left out and to later steps. Every law keeps its restraint. A level counts as one observation,
    so that a direction with many runs does not outvote the others.

    Raises
    ------
    UsageError
        If there are no rollouts that all laws can be fitted in, or the rows of the fits differ.
    """
    tables, scheduled = _tables(fits)
    widest = int(np.argmax([fit.n_points for fit in fits]))
    frame = tables[widest]
    for fit, table in zip(fits, tables, strict=True):
        missing = [name for name in fit.law.inputs if name not in table.columns]
        strange = set(fit.data["run"].astype(str)) - set(frame["run"].astype(str))
        if missing or strange:
            what = f"column {', '.join(missing)}" if missing else f"run {sorted(strange)[0]!r}"
            raise UsageError(
                f"the laws were not fitted on the same rows: {fits[widest].law.spec} has no {what} of {fit.law.spec}. "
                f"Give weights (--weights LAW=W,LAW=W or equal), or fit all laws on the same rows."
            )
    # By the freest law: a rollout that some cannot be fitted in would weigh the others alone.
    folds = rollouts(frame, max(fit.n_free for fit in fits) + SPARE, scheduled)
    # Curves are judged by the rows that no law leaves out at their start.
    kept = [_kept(fit, table) for fit, table in zip(fits, tables, strict=True)]
    judged = np.logical_and.reduce(kept)
    errors: list[Array] = []
    labels: list[str] = []
    for fold in folds:
        test = fold.test & judged
        if not test.any():
            continue
        try:
            found = [
                _errors(fit, table, fold.fit & own, test) for fit, table, own in zip(fits, tables, kept, strict=True)
            ]
        except CptlawError:
            continue
        errors.append(np.column_stack(found))
        labels += [fold.label] * int(test.sum())
    if not errors:
        raise UsageError(
            "no rollout within the fitted rows can be fitted by all of these laws, so that nothing says which one "
            "forecasts better. Give weights (--weights LAW=W,LAW=W or equal)."
        )
    return stacking_weights(np.concatenate(errors), labels, fits[0].options.seed)


def _tables(fits: Sequence[Fit]) -> tuple[list[pd.DataFrame], bool]:
    """Return the same rows for every fit, those of the widest, and whether they are loss curves with schedules."""
    frame = max(fits, key=lambda fit: fit.n_points).data.reset_index(drop=True)
    schedules = {run: known for fit in fits for run, known in fit.schedules.items()}
    if not (all(fit.law.needs_schedules for fit in fits) and set(frame["run"].astype(str)) <= set(schedules)):
        return [frame] * len(fits), False
    plain = frame[[name for name in ("run", "step", "phase", "n_params", "replay", "loss") if name in frame.columns]]
    return [fit.law.inputs_of(plain, Known(schedules=schedules)) for fit in fits], True


def _kept(fit: Fit, table: pd.DataFrame) -> Any:
    """Return which rows a law reads, (n,): its options may leave out the first steps."""
    if not fit.law.needs_schedules:
        return np.ones(len(table), dtype=bool)
    return np.isin(np.arange(len(table)), fit.law.rows(table, Known(schedules=fit.schedules)).index.to_numpy())


def _errors(fit: Fit, frame: pd.DataFrame, lower: Any, higher: Any) -> Array:
    """Return the errors in log loss of a law that was fitted to the lower levels only."""
    rows = TrainingRows(
        fit.law, frame[lower].reset_index(drop=True), fit.role, fit.on, schedules=fit.schedules
    ).chosen()
    # The whole fit has found the valley; a part of its rows needs fewer starts to find it again.
    options = replace(fit.options, starts=min(STARTS, fit.options.starts), rollout=None)
    fitted = fit_rows(rows, options)
    test = frame[higher]
    found: Array = np.log(fitted.predict(test)) - np.log(test["loss"].to_numpy(dtype=float))
    return found


def _weights(fits: Sequence[Fit], weights: Any) -> tuple[Array, tuple[Finding, ...]]:
    """Return the weights in the order of the fits, and what is to be said of them."""
    names = [fit.law.spec for fit in fits]
    notes: list[Finding] = []
    share, how = np.full(len(fits), 1.0 / len(fits)), "equal"
    if weights is None or weights == "stack":
        try:
            share, how = rollout_weights(fits), "by rollouts within the fitted rows"
        except UsageError as error:
            if weights is not None:
                raise
            notes.append(Finding("warning", "weights-equal", f"the laws are weighted equally: {error}"))
    elif weights != "equal":
        share, how = _given(names, weights), "as given"
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(names, share, strict=True))
    return share, (*notes, Finding("info", "average", f"weights {how}: {shown}."))


def _given(names: list[str], weights: Any) -> Array:
    """Read weights by name: a mapping, or text such as ``ptpp-floor=0.7,ptpp-gate=0.3``."""
    if isinstance(weights, str):
        pairs = [item.partition("=") for item in weights.split(",") if item.strip()]
        if not all(equals and value.strip() for _, equals, value in pairs):
            raise UsageError(f"weights (--weights): {weights!r}. Expected stack, equal, or LAW=W,LAW=W.")
        weights = {name.strip(): value.strip() for name, _, value in pairs}
    if not isinstance(weights, Mapping):
        raise UsageError(f"weights: {weights!r}. Expected 'stack', 'equal', or a weight for each law by its name.")
    for name in weights:
        if name not in names:
            raise UsageError(
                f"weights: no fit of law {name!r}.{did_you_mean(str(name), names)} Fits: {', '.join(names)}."
            )
    if len(set(names)) < len(names):
        raise UsageError(
            f"two fits are of one law ({', '.join(names)}), so that weights by name mean nothing. Give each law once, "
            f"or weights equal or stack."
        )
    values = np.array([parse_quantity(weights.get(name, 0.0), f"weight of {name}") for name in names])
    if values.min() < 0 or values.sum() <= 0:
        raise UsageError("weights: they must not be negative, and one must be positive.")
    found: Array = values / values.sum()
    return found


def _quantile(share: Array, centre: Array, low: Array, high: Array, probability: float) -> Array:
    """Return a quantile of the mixture of split normals at each row, (n,); nan where a law without end decides it.

    Parameters
    ----------
    share
        Weights, (laws,).
    centre, low, high
        Mode and the standard deviation on either side, (laws, n); infinite where a law has no end.
    """

    def below(x: Array) -> Array:
        side = np.where(x < centre, low, high)
        with np.errstate(invalid="ignore"):
            z = np.where(
                np.isfinite(side), (x - centre) / np.maximum(np.where(np.isfinite(side), side, 1.0), 1e-12), 0.0
            )
        found: Array = share @ special.ndtr(z)
        return found

    widest = np.where(np.isfinite(low), low, 0.0).max(axis=0) + np.where(np.isfinite(high), high, 0.0).max(axis=0)
    # Beyond all laws by so much that the mixture is 0 and 1 there, unless a law without end keeps it between.
    bottom, top = centre.min(axis=0) - REACH * widest - 1e-9, centre.max(axis=0) + REACH * widest + 1e-9
    decided = (below(bottom) < probability) & (below(top) > probability)
    for _ in range(ROUNDS):
        middle = 0.5 * (bottom + top)
        enough = below(middle) >= probability
        bottom, top = np.where(enough, bottom, middle), np.where(enough, middle, top)
    return np.where(decided, 0.5 * (bottom + top), np.nan)
