"""Measuring a design: the losses that a truth gives its runs, with noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws import law
from cptlaw.laws.calculus import Array
from cptlaw.units import format_quantity


@dataclass(frozen=True)
class Truth:
    """What the simulated losses of one eval follow.

    Parameters
    ----------
    law
        Name of the law that adapted models follow, with its options.
    params
        Its parameters, in its units.
    base
        The base model's loss E + A/N^alpha + F/P^eta, N in billions of parameters and P = ptpp: values of ``E``,
        ``A``, ``alpha`` and, where budgets vary, ``F`` and ``eta``. Laws of adaptation do not contain it.
    """

    law: str
    params: Mapping[str, float]
    base: Mapping[str, float] = field(default_factory=dict)

    def base_losses(self, rows: pd.DataFrame) -> Array:
        """Return the base models' losses, shape (n,), for rows with n_params and, if the base has F, ptpp."""
        unknown = set(self.base) - {"E", "A", "alpha", "F", "eta"}
        if unknown or "E" not in self.base:
            raise UsageError(f"base={dict(self.base)}: expected E and, if wanted, A with alpha and F with eta.")
        size = rows["n_params"].to_numpy(dtype=float) / 1e9
        loss = np.full(len(rows), float(self.base["E"]))
        if "A" in self.base:
            loss = loss + self.base["A"] * size ** -self.base["alpha"]
        if "F" in self.base:
            loss = loss + self.base["F"] * rows["ptpp"].to_numpy(dtype=float) ** -self.base["eta"]
        return loss


# By eval: one truth, or one by domain.
Truths = Mapping[str, Truth | Mapping[str, Truth]]


class Errors(TypedDict, total=False):
    """How measurements err: what `measure` takes beside design and truths."""

    noise: float | Mapping[str, float]
    correlation: float
    run_noise: float | Mapping[str, float]
    seed: int


def measure(
    design: pd.DataFrame,
    truths: Truths,
    noise: float | Mapping[str, float] = 0.0,
    correlation: float = 0.0,
    run_noise: float | Mapping[str, float] = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate the losses of a design.

    A measured loss is the law's loss times exp(e). The error e of a point is a run's own offset (standard deviation
    `run_noise`) plus a stationary first-order autoregression along the run (standard deviation `noise`, `correlation`
    between neighbouring points). The law's loss is thus the median, not the mean, of what is measured.

    Parameters
    ----------
    design
        Points with run and the inputs of the laws; with domain where truths differ by domain.
    truths
        By eval, one truth or one by domain. The eval's role is its name, ``source`` or ``target``.
    noise
        Standard deviation of log losses around their run, for all evals or by eval.
    correlation
        From 0 to below 1.
    run_noise
        Standard deviation of log losses between runs, for all evals or by eval.
    seed
        Seed of the noise; the same seed gives the same table.

    Returns
    -------
    DataFrame
        run, eval, loss, n_params, tokens, replay, ptpp, domain, step as far as the design has them; then one row with
        tokens = 0 for each base model and eval, where the truths say how it starts. Base losses carry `noise` too, and
        name a domain only where the base loss depends on it.

    Raises
    ------
    UsageError
        If a domain has no truth, or the noise is no size.
    """
    if not 0 <= correlation < 1:
        raise UsageError(f"correlation={correlation}: expected 0 or more, below 1.")
    if len(design) == 0:
        raise UsageError("the design has no points.")
    parts = []
    for place, (eval_name, given) in enumerate(truths.items()):
        # A stream for each eval: another eval, or one less, leaves the noise of the others as it was.
        rng = np.random.default_rng([seed, place])
        spread, between = _of_eval(noise, eval_name, "noise"), _of_eval(run_noise, eval_name, "run_noise")
        by_domain = _truth_by_domain(design, given)
        for truth, rows in by_domain:
            loss = law(truth.law).predict(truth.params, rows.assign(eval=eval_name))
            error = _errors(rows, rng, spread, correlation, between)
            parts.append(rows.assign(eval=eval_name, loss=loss * np.exp(error)))
        # Base models are measured too, with the noise of a measurement and without that of a run of CPT.
        for truth, rows in _base_rows(by_domain):
            error = spread * rng.standard_normal(len(rows))
            parts.append(rows.assign(eval=eval_name, loss=truth.base_losses(rows) * np.exp(error)))
    table = pd.concat(parts, ignore_index=True)
    first = ["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "domain", "step"]
    return table[[*(name for name in first if name in table), *(name for name in table if name not in first)]]


def _truth_by_domain(design: pd.DataFrame, given: Truth | Mapping[str, Truth]) -> list[tuple[Truth, pd.DataFrame]]:
    if isinstance(given, Truth):
        return [(given, design)]
    if "domain" not in design:
        raise UsageError("truths by domain need a design with a column 'domain'.")
    found = []
    for domain, rows in design.groupby("domain", sort=False, observed=True):
        if domain not in given:
            raise UsageError(
                f"no truth for domain {domain!r}.{did_you_mean(str(domain), given)} Known: {', '.join(given)}."
            )
        found.append((given[str(domain)], rows))
    return found


def _base_rows(by_domain: Sequence[tuple[Truth, pd.DataFrame]]) -> list[tuple[Truth, pd.DataFrame]]:
    """Return one row per base model: shared by all domains where their truths start alike, else one per domain."""
    if not all(truth.base for truth, _ in by_domain):
        return []
    # The general corpus is measured on one base model, whatever it is adapted to later.
    if all(truth.base == by_domain[0][0].base for truth, _ in by_domain):
        everything = pd.concat([rows for _, rows in by_domain])
        by_domain = [(by_domain[0][0], everything.drop(columns="domain", errors="ignore"))]
    keys = ("n_params", "ptpp", "domain")
    found = []
    for truth, rows in by_domain:
        base = rows[[name for name in keys if name in rows]].drop_duplicates().reset_index(drop=True)
        labels = [
            "-".join(
                [
                    f"base-{format_quantity(row['n_params'])}",
                    *([f"p{row['ptpp']:g}"] if "ptpp" in base else []),
                    *([str(row["domain"])] if "domain" in base else []),
                ]
            )
            for _, row in base.iterrows()
        ]
        base = base.assign(run=labels, tokens=0.0, **({"step": 0} if "step" in rows else {}))
        found.append((truth, base))
    return found


def _errors(rows: pd.DataFrame, rng: np.random.Generator, spread: float, correlation: float, between: float) -> Array:
    """Return log errors, shape (n,): an offset per run plus a stationary autoregression in the order of tokens."""
    errors = np.empty(len(rows))
    tokens = rows["tokens"].to_numpy(dtype=float)
    for positions in rows.groupby("run", sort=False, observed=True).indices.values():
        # Shocks of the variance that makes the series stationary at one: its spread is then what was asked for, at any
        # correlation.
        shocks = rng.standard_normal(len(positions))
        fresh = np.sqrt(1.0 - correlation**2)
        shocks[1:] *= fresh  # the first point is drawn from the stationary distribution itself
        from scipy.signal import lfilter

        along = lfilter([1.0], [1.0, -correlation], shocks)
        errors[positions[np.argsort(tokens[positions], kind="stable")]] = spread * along
        errors[positions] += between * rng.standard_normal()
    return errors


def _of_eval(value: float | Mapping[str, float], eval_name: str, what: str) -> float:
    size = value.get(eval_name) if isinstance(value, Mapping) else value
    if size is None or not (np.isfinite(size) and size >= 0):
        raise UsageError(f"{what}={value!r}: expected zero or more for eval {eval_name!r}.")
    return float(size)
