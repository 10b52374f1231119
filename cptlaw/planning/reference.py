"""The base model's source loss, from which forgetting counts.

The published reference L_src(N, 0, 1, P) of Goffinet et al. 2025 (arXiv:2510.23198) is infinite, because
B r^nu / D^beta diverges at D = 0; every limit on forgetting would hold. Six that are finite:

measured    the base model's loss as measured: exact. The default.
law         the source law itself where it is finite without tokens and has one loss there, whatever the mix: that is
            the base model's. It stands in where none was measured.
base-law    a law of base models, L0(N, P) = E + A/N^alpha + B/(P N)^beta, fitted on measured base losses: at replay 1,
            continual pre-training is more pre-training.
asymptote   the source law at replay 1 without its term of tokens: always there, lower than the base model's loss, so it
            overstates forgetting (conservative).
min-tokens  the source law at replay 1 and the smallest fitted tokens: higher than the base model's loss as the law sees
            it, so it understates forgetting (optimistic).
shifted     a source law built with shifted=True at replay 1 and no tokens, where it is finite.

A guess carries its doubt into every interval and probability of forgetting: that of a fit of base models its own, that
of the source law without tokens what such guesses were seen to miss by. The other three are conventions, no guesses,
and count as known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.errors import FitError, UsageError
from cptlaw.findings import Finding, Remedy, Severity
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.base_models import LOSS, MEASURED, coordinates, interpolate_residuals, measured_bases
from cptlaw.fitting.cached import cached_stat
from cptlaw.fitting.checking.extrapolation import extrapolations
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.learned import left_out
from cptlaw.fitting.point_covariance import ONE_SD
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.fitting.study_prior import guessed_spread
from cptlaw.fitting.uncertainty.intervals import MIN_RUNS
from cptlaw.laws import law
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import Loss, as_fit
from cptlaw.planning.scenario import ReferenceKind
from cptlaw.runs.metrics import unit_of
from cptlaw.units import counted, format_quantity

SAME = 1e-6  # relative difference up to which two sizes or budgets are one
UNLIKE = 0.01  # relative difference from which a loss that was given contradicts the runs
ENDLESS = 1e30  # tokens, for the limit of many
LEAST_BASE_MODELS = 6  # for the five parameters of the law of base models

ANOTHER = ", or another reference= (--reference): base-law, asymptote or min-tokens"
LEAST_WORTH = 5e-4  # of forgetting: what a measured base model takes off its doubt, from which that is said
BETTER = "One evaluation of the base model is better."
INSTEAD = f"{BETTER} Give base_source_loss= (--base-source-loss){ANOTHER}."


@dataclass(frozen=True)
class Reference:
    """The base model's source loss.

    Attributes
    ----------
    kind
        Which of them it is.
    loss
        Nats per token.
    findings
        What it rests on.
    """

    kind: ReferenceKind
    loss: float
    findings: tuple[Finding, ...] = ()
    of_the_laws: bool = False  # whether it is a guess by the laws of the source loss, whose doubt it shares
    _half_width: Callable[[float], float] | None = field(default=None, repr=False)

    def half_width(self, probability: float) -> float:
        """Return how far below `loss` the reference may lie for reasons of its own, in logs; 0 for a measurement."""
        return 0.0 if self._half_width is None else self._half_width(probability)


def find_reference(
    source: Loss, kind: ReferenceKind, base_source_loss: float | None = None, base_law: object = None
) -> Reference:
    """Return the reference of one kind for the model that `source` stands for.

    Parameters
    ----------
    source
        The source fit at the planned size and budget.
    kind
        Which reference.
    base_source_loss
        The measured loss of the base model, nats per token, for ``"measured"``; looked up among the fit's base models
        where absent.
    base_law
        A fit of a law of base models or its file, for ``"base-law"``; fitted on the fit's base models where absent.

    Raises
    ------
    UsageError
        If the reference cannot be had, naming what would help.
    """
    if base_source_loss is not None and kind != "measured":
        raise UsageError(
            f"base_source_loss (--base-source-loss) is the measured reference, but reference={kind!r} was asked for. "
            f"Leave one of the two out."
        )
    if base_law is not None and kind != "base-law":
        raise UsageError(
            f"base_law was given, but reference={kind!r} was asked for. Give reference='base-law' with it."
        )
    if kind == "measured" and base_source_loss is not None:
        return Reference(kind, base_source_loss, _unlike_the_data(source, base_source_loss))
    if kind == "measured":
        # Each plan of an answer, and each kind of it, counts from the same.
        about = ("measured", source.role, left_out(), *sorted(source.known.items()))
        result: Reference = cached_stat(source.fit, about, lambda: _nearest_to_measured(source))
        return result
    return _by_base_law(source, base_law) if kind == "base-law" else _by_own_law(source, kind)


def _nearest_to_measured(source: Loss) -> Reference:
    """Measured base loss, else the law's value plus interpolated residuals.

    From one to the other there is no step: what is carried from a measured base model falls with the distance to it.
    """
    try:
        return Reference("measured", measured_base_loss(source))
    except UsageError:
        budget = budget_of(source)
        told = source.fit.base.get("ptpp", pd.Series(dtype=float)).notna().any()
        if not told:  # base models of one budget differ in size alone
            budget = budget if np.isfinite(budget) else 1.0
        base = measured_bases(source.fit.base if told else source.fit.base.assign(ptpp=budget))
        # Base models of other budgets come nearer than the source law without tokens: that law is fitted at the rate of
        # CPT, and an annealed base model lies below it.
        if told and len(base) >= LEAST_BASE_MODELS and np.isfinite(budget):
            result, values = _by_base_law(source, None), fit_base_law(source.fit).predict(base)
        elif own_base_loss(source) is not None:
            result, values = _by_own_law(source, "law"), _own_losses(source, base)
        else:
            raise
    if base.empty or not np.isfinite(budget):
        return result
    at = coordinates(pd.DataFrame({"n_params": [source.n_params], "ptpp": [budget]}))
    with np.errstate(all="ignore"):
        residuals = np.log(base["loss"].to_numpy(dtype=float) / values)
    known = np.isfinite(residuals)
    added, left = interpolate_residuals(at, coordinates(base)[known], residuals[known])
    # In full where a base model was measured, and nowhere more than the law alone leaves open.
    doubt = result._half_width
    narrower = None if doubt is None else lambda probability: float(np.sqrt(left[0])) * doubt(probability)
    loss = result.loss * float(np.exp(added[0]))
    near = np.abs(at - coordinates(base)).max(axis=1).min(initial=np.inf) <= MEASURED
    if near:
        return Reference("measured", loss, (), result.of_the_laws, narrower)
    findings = tuple(
        replace(one, message=one.message.replace(f"{result.loss:.4f}", f"{loss:.4f}")) for one in result.findings
    )
    return Reference(result.kind, loss, findings, result.of_the_laws, narrower)


def _own_losses(source: Loss, base: pd.DataFrame) -> Array:
    """Return what the source law says of base models without tokens, (n,)."""
    return source.predict(source.frame(0.0, np.zeros(len(base)), **{name: base[name] for name in ("n_params", "ptpp")}))


def own_base_loss(source: Loss) -> float | None:
    """Return the source law's own loss without tokens; ``None`` where it has none, or one that depends on the mix."""
    # In an average only the laws that are finite without tokens speak there.
    if not source.reads("tokens") or all("tokens" in law.diverges_at_zero for law in source.laws):
        return None
    with np.errstate(all="ignore"):
        # Without tokens the mix cannot have done anything yet; a law that differs there has no base model in it.
        losses = source.at(np.array([0.0, 0.5, 1.0]), 0.0)
    same = np.isfinite(losses).all() and losses.min() > 0 and np.ptp(losses) <= SAME * losses[0]
    return float(losses[0]) if same else None


def _by_own_law(source: Loss, kind: ReferenceKind) -> Reference:
    """Return the loss that the source law itself has where a base model would be."""
    loss: float | None = None
    severity: Severity = "info"
    where, more, example = "without tokens", "", "shared-tokens"
    with np.errstate(all="ignore"):
        if kind == "law":
            loss = own_base_loss(source)
        elif kind == "shifted":
            where, example = "at replay 1 and no tokens", "ptpp-floor:shifted=true"
            if getattr(source.laws[0], "shifted", False):
                loss = float(source.at(1.0, 0.0)[0])
        elif kind == "asymptote":
            # Endless replay is the source corpus alone: what is left there is the law's floor for this model.
            loss, where = float(source.at(1.0, ENDLESS)[0]), "at replay 1 in the limit of many tokens"
            more = " As the law sees it the base model's lies above: forgetting is overstated, the plan conservative."
        else:
            # At the fewest fitted tokens and no further down, where laws of tokens diverge.
            least = source.fitted_tokens[0]
            loss, severity = float(source.at(1.0, least)[0]), "warning"
            where = f"at replay 1 and its smallest fitted tokens, {format_quantity(least)}"
            more = " The law is highest there: forgetting is understated, the plan optimistic."
    if loss is None or not np.isfinite(loss):
        raise UsageError(
            f"reference={kind!r} needs a source law that is finite without tokens and has one loss there, such as "
            f"{example}; {source.spec} is not. {INSTEAD}"
        )
    text = (
        f"the base model's source loss was not measured: {loss:.4f} {unit_of(source.fit)} is an estimate, by "
        f"{source.spec} {where}.{more}{_measured_too(source)}"
    )
    doubt, advice = None, BETTER
    if kind == "law" and not source.fit.of_changes:
        worth, own = _worth_of_a_measurement(source, loss)
        doubt = partial(_normal_half_width, own)
        if worth >= LEAST_WORTH:
            severity = "warning"
            text += f" Forgetting is uncertain by {100 * worth:.2g} points because of it."
            advice = f"One evaluation of the base model takes these {100 * worth:.2g} points away."
    note = Finding(severity, f"reference-{kind}", text, advice, remedy=Remedy("base_source_loss"))
    return Reference(kind, loss, (note,), kind == "law", doubt)


def _worth_of_a_measurement(source: Loss, loss: float) -> tuple[float, float]:
    """Return what measuring the base model takes off the doubt about forgetting, and the doubt about its loss, in logs.

    Both are standard deviations. Where a fit knows what is in doubt about a loss and its base model's together, the
    first may be small and the second large, as of a size that was not run.
    """
    spread = guessed_spread(source.fit.base)
    point = {"replay": 0.5, "tokens": source.fitted_tokens[1]}
    widths = []
    for one in (source, replace(source, known={**source.known, LOSS: loss})):
        widths.append(one.half_width_of_change(point, one.half_width(point, ONE_SD), ONE_SD))
    guessed, known = widths
    if guessed is None or known is None or not isinstance(source.fit, Average):
        return spread, spread
    # What few runs leave open of changes is no doubt about the base model.
    alone = replace(source, fit=source.fit.of_runs_alone())
    own = alone.half_width({"replay": 0.5, "tokens": 0.0}, ONE_SD, measured=False)
    return float(np.sqrt(max(guessed[0] ** 2 - known[0] ** 2, 0.0))), float(np.hypot(own[0], spread))


def _normal_half_width(spread: float, probability: float) -> float:
    """Return the half-width of the central interval of a normal doubt."""
    return spread * float(special.ndtri(0.5 + 0.5 * probability))


def budget_of(source: Loss) -> float:
    """Return the planned model's pre-training tokens per parameter; NaN where it was not given."""
    return source.known.get("ptpp", float("nan"))


def measured_base_loss(source: Loss) -> float:
    """Look up the base model's measured loss among those that came with the source fit.

    Raises
    ------
    UsageError
        If there is none at this size and budget, or several that differ in a budget that was not given.
    """
    base = source.fit.base
    sizes, budgets, losses = cached_stat(base, "base columns", lambda: _base_models(source.fit).to_numpy().T.copy())
    # A table that does not tell sizes or budgets is of one: what it measured before training is that base model.
    mask = np.isclose(sizes, source.n_params, rtol=SAME, atol=0) | np.isnan(sizes)
    if np.isfinite(budget_of(source)):
        mask &= np.isclose(budgets, budget_of(source), rtol=SAME, atol=0) | np.isnan(budgets)
    else:
        # A law that does not read the budget is fitted at one: the base models of the others are none of its.
        known = source.fit.data.get("ptpp", pd.Series(dtype=float))
        fitted = known.dropna().unique()
        if len(fitted) == 1:
            mask &= np.isclose(budgets, fitted[0], rtol=SAME, atol=0)
        if len(np.unique(budgets[mask])) > 1:
            raise UsageError(
                f"reference='measured': base models of n_params {format_quantity(source.n_params)} were measured at "
                f"ptpp {_listed(budgets[mask])}. Say which with ptpp= (--ptpp)."
            )
    if not mask.any():
        what = f"n_params {format_quantity(source.n_params, 6)}"
        if np.isfinite(budget_of(source)):
            what += f" and ptpp {budget_of(source):g}"
        have = (
            f"The source fit has base losses at n_params {_listed(sizes)} and ptpp {_listed(budgets)}."
            if len(losses)
            else "The source fit came without base losses (rows with tokens = 0)."
        )
        raise UsageError(
            f"forgetting needs the base model's source loss, and none was measured at {what}. {have} {INSTEAD}"
        )
    return float(np.nanmean(losses[mask]))


def _by_base_law(source: Loss, base_law: object) -> Reference:
    fitted = fit_base_law(source.fit) if base_law is None else as_fit(base_law, "base_law")
    if not (isinstance(fitted, LawFit) and fitted.law.on_base_models):
        raise UsageError(
            f"base_law: {fitted.law.name} is not a law of base models. Expected a fit such as cl.fit('ptpp-base', "
            f"runs, on='source')."
        )
    if fitted.role == "target":
        raise UsageError(f"base_law: this fit is of the target eval {fitted.on!r}. Fit it on the source eval.")
    if "ptpp" in fitted.law.inputs and not np.isfinite(budget_of(source)):
        raise UsageError(
            "reference='base-law' needs ptpp= (--ptpp), the base model's pre-training tokens per parameter."
        )
    row = pd.DataFrame({"n_params": [source.n_params], "ptpp": [budget_of(source)]})
    loss = float(fitted.predict(row)[0])
    note = Finding(
        "info",
        "reference-base-law",
        f"forgetting counts from {fitted.law.spec}, fitted on {counted(fitted.n_points, 'base model')}: {loss:.4f} "
        f"nats per token, not a measurement.{_measured_too(source)}",
        BETTER,
        remedy=Remedy("base_source_loss"),
    )

    def half_width(probability: float) -> float:
        return float(np.log(loss) - fitted.log_quantiles(row, [0.5 - 0.5 * probability], measured=False)[0, 0])

    # Fewer runs cannot say how runs differ; then the reference counts as known.
    doubt = half_width if fitted.n_runs >= MIN_RUNS else None
    return Reference("base-law", loss, (note, *extrapolations(fitted.law, fitted.data, row)[0]), False, doubt)


def fit_base_law(source_fit: Forecaster) -> LawFit:
    """Fit the law of base models on the base losses that came with a source fit, once."""
    kept = getattr(source_fit, "_cache", {})
    if "base-law" not in kept:
        base = _base_models(source_fit).groupby(["n_params", "ptpp"], as_index=False)["loss"].mean()
        if len(base) < LEAST_BASE_MODELS:
            raise UsageError(
                f"reference='base-law': the source fit came with {counted(len(base), 'base model')}, and a law of base "
                f"models needs at least {LEAST_BASE_MODELS}, over several sizes and budgets. Add rows with tokens = 0, "
                f"or give base_source_loss= (--base-source-loss)."
            )
        chosen = law("ptpp-base")
        rows = base.reset_index(drop=True).assign(run=[f"base-{i}" for i in range(len(base))])
        seed = getattr(getattr(source_fit, "options", None), "seed", 0)
        try:
            kept["base-law"] = fit_rows(
                TrainingRows(chosen, rows, cast(Role, source_fit.role), source_fit.on),
                Options(chosen.delta, seed=seed),
                base=source_fit.base,
                provenance=source_fit.provenance,
            )
        except FitError as error:
            raise UsageError(f"reference='base-law': {error} {INSTEAD}") from None
    fitted: LawFit = kept["base-law"]
    return fitted


def _base_models(source_fit: Forecaster) -> pd.DataFrame:
    """Return n_params, ptpp and loss of the base models; a table of several domains lists them once per domain."""
    base: pd.DataFrame = source_fit.base
    return cached_stat(base, "base models", lambda: base.reindex(columns=["n_params", "ptpp", "loss"]).astype(float))


def _unlike_the_data(source: Loss, given: float) -> tuple[Finding, ...]:
    """Say where a loss that was given differs from what the runs measured for the same base model."""
    try:
        measured = measured_base_loss(source)
    except UsageError:
        return ()
    if abs(given / measured - 1.0) <= UNLIKE:
        return ()
    return (
        Finding(
            "warning",
            "base-loss-differs",
            f"base_source_loss is {given:.4f}, but the runs measured this base model at {measured:.4f} "
            f"{unit_of(source.fit)}.",
            "Leave base_source_loss out to use the measurement; losses of different validation sets or tokenizers do "
            "not compare.",
        ),
    )


def _measured_too(source: Loss) -> str:
    """Say what was measured, where a stand-in was asked for although a measurement is at hand."""
    try:
        return f" This base model was measured at {measured_base_loss(source):.4f}."
    except UsageError:
        return ""


def _listed(values: Array) -> str:
    levels = np.unique(values[~np.isnan(values)])
    return ", ".join(format_quantity(value, 6) for value in levels.tolist()) or "(not given)"
