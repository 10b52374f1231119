"""The base model's source loss, from which forgetting counts.

The published reference L_src(N, 0, 1, P) of Goffinet et al. 2025 (arXiv:2510.23198) is infinite, because
B r^nu / D^beta diverges at D = 0; every limit on forgetting would hold. Five that are finite:

measured    the base model's loss as measured: exact. The default.
base-law    a law of base models, L0(N, P) = E + A/N^alpha + B/(P N)^beta, fitted on measured base losses: at replay 1,
            continual pre-training is more pre-training.
asymptote   the source law at replay 1 without its term of tokens: always there, lower than the base model's loss, so it
            overstates forgetting (conservative).
min-tokens  the source law at replay 1 and the smallest fitted tokens: higher than the base model's loss as the law sees
            it, so it understates forgetting (optimistic).
shifted     a source law built with shifted=True at replay 1 and no tokens, where it is finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from cptlaw.checking.extrapolation import extrapolation
from cptlaw.errors import FitError, UsageError
from cptlaw.findings import Finding
from cptlaw.fitting import Fit
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.options import Options
from cptlaw.laws import law
from cptlaw.laws.calculus import Array
from cptlaw.planning.side import Side, as_fit
from cptlaw.solving.training_rows import Training
from cptlaw.uncertainty.intervals import MIN_RUNS
from cptlaw.uncertainty.profile import profile
from cptlaw.units import format_quantity

ReferenceKind = Literal["measured", "base-law", "asymptote", "min-tokens", "shifted"]
REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote", "min-tokens", "shifted")

SAME = 1e-6  # relative difference up to which two sizes or budgets are one
UNLIKE = 0.01  # relative difference from which a loss that was given contradicts the runs
LEAST_BASE_MODELS = 6  # for the five parameters of the law of base models

INSTEAD = (
    "Give base_source_loss= (--base-source-loss), one evaluation of the base model, or another reference= "
    "(--reference): base-law, asymptote, min-tokens or shifted."
)


@dataclass(frozen=True)
class Reference:
    """The base model's source loss.

    Attributes
    ----------
    kind
        Which of the five it is.
    loss
        Nats per token.
    findings
        What it rests on.
    """

    kind: ReferenceKind
    loss: float
    findings: tuple[Finding, ...] = ()
    _under: Callable[[Array], Array] | None = field(default=None, repr=False)
    _half_width: Callable[[float], float] | None = field(default=None, repr=False)

    def under(self, laws: Array) -> Array:
        """Return the loss under each of several source laws (s, parameters), (s, 1)."""
        return np.full((len(laws), 1), self.loss) if self._under is None else self._under(laws)

    def with_half_width(self, half_width: Callable[[float], float]) -> Reference:
        """Return the same reference with another account of its own doubt, such as one that is quicker to ask."""
        return replace(self, _half_width=half_width)

    def half_width(self, probability: float) -> float:
        """Return how far below `loss` the reference may lie for reasons of its own, in logs; 0 for a measurement."""
        return 0.0 if self._half_width is None else self._half_width(probability)


def find_reference(
    source: Side, kind: ReferenceKind, base_source_loss: float | None = None, base_law: Any = None
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
        return Reference(kind, measured_base_loss(source))
    if kind == "base-law":
        return _by_base_law(source, base_law)
    if kind == "asymptote":
        return Reference(
            kind,
            float(source.curve(1.0).limit[0]),
            (
                Finding(
                    "info",
                    "reference-asymptote",
                    "forgetting counts from the source law's limit at replay 1, which as the law sees it lies below "
                    f"the base model's loss: forgetting is overstated, the plan conservative.{_measured_too(source)}",
                    INSTEAD,
                ),
            ),
            lambda laws: source.curve(1.0, laws).limit,
        )
    if kind == "min-tokens":
        least = source.fitted_tokens[0]
        return Reference(
            kind,
            float(source.losses(1.0, least)[0]),
            (
                Finding(
                    "warning",
                    "reference-min-tokens",
                    f"forgetting counts from the source law at replay 1 and its smallest fitted tokens, "
                    f"{format_quantity(least)}: the law is highest there, so forgetting is understated and the plan "
                    f"optimistic.{_measured_too(source)}",
                    INSTEAD,
                ),
            ),
            lambda laws: source.curve(1.0, laws).loss(least),
        )
    return _by_shifted_law(source)


def measured_base_loss(source: Side) -> float:
    """Look up the base model's measured loss among those that came with the source fit.

    Raises
    ------
    UsageError
        If there is none at this size and budget, or several that differ in a budget that was not given.
    """
    base = _base_models(source.fit)
    sizes = np.isclose(base["n_params"].to_numpy(), source.n_params, rtol=SAME, atol=0)
    same_size = base[sizes]
    if np.isfinite(source.ptpp):
        found = same_size[np.isclose(same_size["ptpp"].to_numpy(), source.ptpp, rtol=SAME, atol=0)]
    else:
        found = same_size
        if found["ptpp"].nunique(dropna=False) > 1:
            raise UsageError(
                f"reference='measured': base models of n_params {format_quantity(source.n_params)} were measured at "
                f"ptpp {_listed(found['ptpp'])}. Say which with ptpp= (--ptpp)."
            )
    if found.empty:
        what = f"n_params {format_quantity(source.n_params, 6)}"
        if np.isfinite(source.ptpp):
            what += f" and ptpp {source.ptpp:g}"
        have = (
            f"The source fit has base losses at n_params {_listed(base['n_params'])} and ptpp {_listed(base['ptpp'])}."
            if len(base)
            else "The source fit came without base losses (rows with tokens = 0)."
        )
        raise UsageError(
            f"forgetting needs the base model's source loss, and none was measured at {what}. {have} {INSTEAD}"
        )
    return float(found["loss"].mean())


def _by_base_law(source: Side, base_law: Any) -> Reference:
    fitted = fit_base_law(source.fit) if base_law is None else as_fit(base_law, "base_law")
    if not fitted.law.on_base_models:
        raise UsageError(
            f"base_law: {fitted.law.name} is not a law of base models. Expected a fit such as cl.fit('ptpp-base', "
            f"runs, on='source')."
        )
    if fitted.role == "target":
        raise UsageError(f"base_law: this fit is of the target eval {fitted.on!r}. Fit it on the source eval.")
    if "ptpp" in fitted.law.inputs and not np.isfinite(source.ptpp):
        raise UsageError(
            "reference='base-law' needs ptpp= (--ptpp), the base model's pre-training tokens per parameter."
        )
    row = pd.DataFrame({"n_params": [source.n_params], "ptpp": [source.ptpp]})
    loss = float(fitted.predict(row)[0])
    note = Finding(
        "info",
        "reference-base-law",
        f"forgetting counts from {fitted.law.spec}, fitted on {fitted.n_points} base models: {loss:.4f} nats per "
        f"token, not a measurement.{_measured_too(source)}",
        INSTEAD,
    )

    def half_width(probability: float) -> float:
        return float(np.log(loss) - profile(fitted, row, probability)[0, 0])

    # Fewer runs cannot say how runs differ; then the reference counts as known.
    doubt = half_width if fitted.n_runs >= MIN_RUNS else None
    return Reference("base-law", loss, (note, *extrapolation(fitted.law, fitted.data, row.iloc[0])), None, doubt)


def _by_shifted_law(source: Side) -> Reference:
    loss = np.inf
    if getattr(source.fit.law, "shifted", False):
        with np.errstate(divide="ignore", over="ignore"):
            loss = float(source.losses(1.0, 0.0)[0])
    if not np.isfinite(loss):
        raise UsageError(
            f"reference='shifted' needs a source law that is finite without tokens, such as ptpp-floor:shifted=true; "
            f"{source.fit.law.spec} is not. {INSTEAD}"
        )
    note = Finding(
        "info",
        "reference-shifted",
        f"forgetting counts from {source.fit.law.spec} at replay 1 and no tokens: {loss:.4f} nats per token, not a "
        f"measurement.{_measured_too(source)}",
        INSTEAD,
    )
    return Reference("shifted", loss, (note,), lambda laws: source.curve(1.0, laws).loss(0.0))


def fit_base_law(source_fit: Fit) -> Fit:
    """Fit the law of base models on the base losses that came with a source fit, once."""
    if "base-law" not in source_fit._cache:
        base = _base_models(source_fit).groupby(["n_params", "ptpp"], as_index=False)["loss"].mean()
        if len(base) < LEAST_BASE_MODELS:
            raise UsageError(
                f"reference='base-law': the source fit came with {len(base)} base models, and a law of base models "
                f"needs at least {LEAST_BASE_MODELS}, over several sizes and budgets. Add rows with tokens = 0, or "
                f"give base_source_loss= (--base-source-loss)."
            )
        chosen = law("ptpp-base")
        rows = base.reset_index(drop=True).assign(run=[f"base-{i}" for i in range(len(base))])
        try:
            source_fit._cache["base-law"] = fit_rows(
                Training(chosen, rows, source_fit.role, source_fit.on),
                Options(chosen.delta, seed=source_fit.options.seed),
                base=source_fit.base,
                provenance=source_fit.provenance,
            )
        except FitError as error:
            raise UsageError(f"reference='base-law': {error} {INSTEAD}") from None
    fitted: Fit = source_fit._cache["base-law"]
    return fitted


def _base_models(source_fit: Fit) -> pd.DataFrame:
    """Return n_params, ptpp and loss of the base models; a table of several domains lists them once per domain."""
    return source_fit.base.reindex(columns=["n_params", "ptpp", "loss"]).astype(float)


def _unlike_the_data(source: Side, given: float) -> tuple[Finding, ...]:
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
            f"base_source_loss is {given:.4f}, but the runs measured this base model at {measured:.4f} nats per token.",
            "Leave base_source_loss out to use the measurement; losses of different validation sets or tokenizers do "
            "not compare.",
        ),
    )


def _measured_too(source: Side) -> str:
    """Say what was measured, where a stand-in was asked for although a measurement is at hand."""
    try:
        return f" This base model was measured at {measured_base_loss(source):.4f}."
    except UsageError:
        return ""


def _listed(values: Any) -> str:
    levels = sorted(set(values.dropna()))
    return ", ".join(format_quantity(value, 6) for value in levels) or "(not given)"
