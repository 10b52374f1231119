"""The fitted losses of a plan of k corpora, by the name of their eval. It uses the public methods of fits only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.forecasting.scores import scoring
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import Loss, as_fit, base_losses
from cptlaw.planning.points import score_fits
from cptlaw.planning.reference import Reference
from cptlaw.runs.schema import MIX, corpus_of
from cptlaw.units import format_quantity


def corpora_of(fit: Forecaster) -> tuple[str, ...]:
    """Return the corpora that a fit's laws read, in their order."""
    columns = dict.fromkeys(name for one in fit.laws for name in one.inputs)
    return tuple(str(corpus_of(name)) for name in columns if corpus_of(name))


def base_model(loss: Loss, given: float | None = None) -> Reference:
    """Return the base model's loss: as given, else as it came with the fit.

    Raises
    ------
    UsageError
        If there is none.
    """
    if given is not None:
        return Reference("measured", given)
    size = loss.known.get("n_params")
    base = base_losses(loss.fit, size)
    if not len(base):
        what = "" if size is None else f" of n_params {format_quantity(size, 4)}"
        raise UsageError(
            f"max_forgetting (--max-forgetting): no loss of a base model{what} was measured on {loss.role}. Give "
            f"base_loss={{{loss.role!r}: L0}} (--base-loss {loss.role}=L0), or add rows with tokens = 0."
        )
    return Reference("measured", float(base.mean()))


def measured_mixes(loss: Loss, corpora: Sequence[str]) -> Array:
    """Return the mixes that were fitted, (n, corpora)."""
    mixes = loss.fit.data.reindex(columns=[MIX + name for name in corpora]).drop_duplicates().dropna()
    return np.asarray(mixes, dtype=float)


def _loss(fit: Forecaster, name: str, known: Mapping[str, float]) -> Loss:
    loss = Loss(fit, name, known)
    for column in loss.inputs:
        if column not in ("tokens", *known) and not corpus_of(column):
            raise UsageError(f"{name}: law {loss.spec} reads {column}. Give {column}= (--{column.replace('_', '-')}).")
    return loss


def build_losses(fits: object, known: Mapping[str, float]) -> dict[str, Loss]:
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
        own = corpora_of(fit)
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
    return {name: _loss(fit, name, known) for name, fit in named}


def build_scores(fits: object, corpora: tuple[str, ...], known: Mapping[str, float]) -> dict[str, Loss]:
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
    result = {}
    for name, fit in score_fits(fits).items():
        own = corpora_of(fit)
        if not own:
            # A direct law of size and tokens would keep or break its limit whatever the mix.
            names = ", ".join(part.name for part in fit.members)
            raise UsageError(
                f"scores (--score): the laws of {name} ({names}) see nothing of the mix. Expected a fit through "
                f"a loss on a table with columns mix_NAME: cptlaw fit RUNS --on {name}"
            )
        if set(own) != set(corpora):
            raise UsageError(
                f"scores (--score): {name} was fitted on mixes of {', '.join(own)}, the losses on mixes of "
                f"{', '.join(corpora)}. Expected the same corpora."
            )
        result[name] = _loss(scoring.ErrorRate(fit), name, known)
    return result


def _several(fits: object) -> Sequence[object]:
    return fits if isinstance(fits, Sequence) and not isinstance(fits, str | Path) else (fits,)
