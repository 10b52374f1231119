"""The fitted losses of a plan of k corpora, by the name of their eval. It uses the public methods of fits only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import Expected, OneLoss, as_fit, laws_of
from cptlaw.planning.points import score_fits
from cptlaw.planning.reference import Reference
from cptlaw.runs.schema import MIX, corpus_of
from cptlaw.scores.error_rate import ErrorRate
from cptlaw.units import format_quantity

SAME = 1e-6  # relative difference up to which two sizes are one


@dataclass(frozen=True, eq=False)
class EvalLoss(OneLoss):
    """The loss of one eval.

    Parameters
    ----------
    fit
        A fitted law of a mix, or an average of several.
    role
        The name of the eval: what messages call this loss.
    corpora
        The corpora of the plan, in order.
    known
        Inputs that the scenario fixes, raw, such as n_params.
    """

    fit: Any
    role: str
    corpora: tuple[str, ...]
    known: Mapping[str, float]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Columns that the laws read."""
        return tuple(dict.fromkeys(name for one in laws_of(self.fit) for name in one.inputs))

    def check(self) -> EvalLoss:
        """Return this loss, if the plan has all that its laws read.

        Raises
        ------
        UsageError
            Naming what is missing.
        """
        have = {"tokens", *(MIX + name for name in self.corpora), *self.known}
        for name in self.inputs:
            if name not in have:
                raise UsageError(
                    f"{self.role}: law {self.spec} reads {name}. Give {name}= (--{name.replace('_', '-')})."
                )
        return self

    def frame(self, shares: Array, tokens: Array) -> pd.DataFrame:
        """Return rows at mixes (n, k) and tokens (n,) that count."""
        columns = {MIX + name: shares[:, i] for i, name in enumerate(self.corpora)} | {"tokens": tokens}
        # An average may also hold laws that read none of the mix; what they do not read does no harm.
        return pd.DataFrame(columns | {name: np.full(len(shares), value) for name, value in self.known.items()})

    def at(self, shares: Array, tokens: Array) -> Array:
        """Return losses at mixes and tokens that count, (n,)."""
        found: Array = self.fit.predict(self.frame(shares, tokens))
        return found

    def margins(self, shares: Array, tokens: Array, chance: float) -> tuple[Array, Array]:
        """Return how far above its forecast a loss may lie, in logs, (n,): the law's part, and all with the noise."""
        frame = self.frame(shares, tokens)
        centre = np.log(self.fit.predict(frame))
        law, whole = (self.fit.log_quantiles(frame, [chance], measured)[0] - centre for measured in (False, True))
        return law, whole

    def forecast(self, shares: Array, tokens: Array, interval: float | None) -> Expected:
        """Return the loss at one mix, (1, k), with the fit's interval, and findings about the point."""
        table = self.fit.forecast(self.frame(shares, tokens), interval)
        losses: dict[str, list[float | None]] = {}
        for column, end in (("loss", ""), ("lo", "_lo"), ("hi", "_hi")):
            values = table[column].to_numpy(dtype=float) if column in table else np.full(len(table), np.nan)
            losses[end] = [float(value) if np.isfinite(value) else None for value in values]
        return Expected(losses, tuple(dict.fromkeys(found for row in table["findings"] for found in row)))

    def reference(self, given: float | None) -> Reference:
        """Return the base model's loss: as given, else as it came with the fit.

        Raises
        ------
        UsageError
            If there is none.
        """
        if given is not None:
            return Reference("measured", given)
        base, size = self.fit.base, self.known.get("n_params")
        if size is not None and "n_params" in base.columns:
            base = base[np.isclose(base["n_params"].astype(float), size, rtol=SAME, atol=0)]
        if base.empty:
            what = "" if size is None else f" of n_params {format_quantity(size, 4)}"
            raise UsageError(
                f"max_forgetting (--max-forgetting): no loss of a base model{what} was measured on {self.role}. Give "
                f"base_loss={{{self.role!r}: L0}} (--base-loss {self.role}=L0), or add rows with tokens = 0."
            )
        return Reference("measured", float(base["loss"].mean()))

    @property
    def measured(self) -> pd.DataFrame:
        """The mixes that were fitted, one row for each."""
        data, columns = self.fit.data, [MIX + name for name in self.corpora]
        if not set(columns) <= set(data.columns):
            return pd.DataFrame(columns=columns, dtype=float)
        found: pd.DataFrame = data[columns].drop_duplicates().reset_index(drop=True)
        return found

    def weakness(self) -> tuple[Finding, ...]:
        """Say where the fit itself cannot be trusted."""
        fit = self.fit
        if getattr(fit, "members", None) or not fit.n_points or (fit.status == "converged" and fit.rank == fit.n_free):
            return ()
        return (
            Finding(
                "warning",
                "weak-fit",
                f"the {self.role} fit ({fit.law.name}): {fit.status}, rank {fit.rank} of {fit.n_free}. This plan may "
                f"rest on parameters that its data does not determine.",
                "See the findings of the fit; hold its parameters, or choose a smaller law.",
            ),
        )


def build_losses(fits: Any, known: Mapping[str, float]) -> dict[str, EvalLoss]:
    """Return the losses of a plan, by eval.

    Parameters
    ----------
    fits
        Fits or their files: a mapping from names of evals, or several whose evals name them.
    known
        Inputs that the scenario fixes.

    Raises
    ------
    UsageError
        If there is none, two are of one eval, or they are of different corpora.
    """
    given = fits.items() if isinstance(fits, Mapping) else [(None, fit) for fit in _several(fits)]
    read = [(name, as_fit(fit, name or "fits")) for name, fit in given]
    named = [(name or fit.on, fit) for name, fit in read]
    names = [name for name, _ in named]
    if not names:
        raise UsageError("mix needs fits= (--fit): a fit of the loss of each eval that counts, or a runs table.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"fits: two fits are of the eval {twice!r}. Expected one for each eval.")
    corpora: tuple[str, ...] = ()
    for name, fit in named:
        own = _corpora_of(fit)
        if not own:
            raise UsageError(
                f"{name}: law {fit.law.spec} reads no mix of corpora. Expected a law such as mix-additive, fitted on a "
                f"table with columns mix_NAME."
            )
        if corpora and set(own) != set(corpora):
            raise UsageError(
                f"fits: {names[0]} was fitted on mixes of {', '.join(corpora)}, and {name} on mixes of "
                f"{', '.join(own)}. Expected the same corpora."
            )
        corpora = corpora or own
    return {name: EvalLoss(fit, name, corpora, known).check() for name, fit in named}


def build_scores(fits: Any, corpora: tuple[str, ...], known: Mapping[str, float]) -> dict[str, EvalLoss]:
    """Return the fitted scores of a plan as error rates, by eval.

    Parameters
    ----------
    fits
        Fitted scores or their files: one, several, or a mapping.
    corpora
        The corpora of the plan, in order.
    known
        Inputs that the scenario fixes.

    Raises
    ------
    UsageError
        If one of them is no fit of a score, sees nothing of the mix, or saw a mix of other corpora.
    """
    found = {}
    for name, fit in score_fits(fits).items():
        own = _corpora_of(fit)
        if not own:
            # A direct law of size and tokens would keep or break its limit whatever the mix.
            raise UsageError(
                f"scores (--score): the ways to {name} ({', '.join(way.name for way in fit.ways)}) see nothing of the "
                f"mix. Expected a fit through a loss on a table with columns mix_NAME: cptlaw fit RUNS --on {name}"
            )
        if set(own) != set(corpora):
            raise UsageError(
                f"scores (--score): {name} was fitted on mixes of {', '.join(own)}, the losses on mixes of "
                f"{', '.join(corpora)}. Expected the same corpora."
            )
        found[name] = EvalLoss(ErrorRate(fit), name, corpora, known).check()
    return found


def _several(fits: Any) -> Sequence[Any]:
    return fits if isinstance(fits, Sequence) and not isinstance(fits, str | Path) else (fits,)


def _corpora_of(fit: Any) -> tuple[str, ...]:
    """Return the corpora that a fit's laws read, in their order."""
    columns = dict.fromkeys(name for one in laws_of(fit) for name in one.inputs)
    return tuple(str(corpus_of(name)) for name in columns if corpus_of(name))
