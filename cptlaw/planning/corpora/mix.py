"""The mix of k corpora with the lowest losses, under limits on every eval and with pools of unique tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeGuard, Unpack

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.forecasting.scores import scoring
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array
from cptlaw.planning.corpora.losses import base_model, build_losses, build_scores, corpora_of, measured_mixes
from cptlaw.planning.corpora.pools import Pools
from cptlaw.planning.corpora.result import CorporaPlan
from cptlaw.planning.descent import Domain
from cptlaw.planning.limits import AboveBase, GivenLimit, LossLimit, Solution, check_risk, iterate_margins, with_margin
from cptlaw.planning.loss import Loss, tokens_in_reach
from cptlaw.planning.mixes.expected import binding, out_of_reach
from cptlaw.planning.mixes.repetition import read_often
from cptlaw.planning.options import label
from cptlaw.planning.points import base_score, infeasible_fields, score_fields, score_limits
from cptlaw.planning.result import flops_of
from cptlaw.planning.scenario import MixOfCorpora, PlanQuestion, documented, options_of, read_scenario
from cptlaw.planning.solve import Axis, Points, RelaxedBounds, Space, certificate, worst_excess
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.metrics import unit_of
from cptlaw.runs.schema import MIX
from cptlaw.runs.table import RunsLike
from cptlaw.units import format_percent

SHARE = "share "  # before the name of a corpus: its share of the run, where repetition makes another one count
STEP = 1e-5  # of the range of a share, for slopes
AT_EDGE = 1e-4  # of the mix
ROUNDING = 1e-8


def mix(
    fits: object, law: str | Law = "auto", where: str | None = None, **scenario: Unpack[MixOfCorpora]
) -> CorporaPlan:
    """Find the mix of k corpora with the lowest weighted loss, under limits on each eval.

    Parameters
    ----------
    fits
        Fits of laws of mixes, one for each eval, or their files: a mapping by eval, or several; or a runs table with
        columns ``mix_NAME``, of which the losses that are minimised (all, where none is named) or limited are fitted
        first.
    law
        The law to fit, where a table is given.
    where
        Filter of its rows.
    **scenario
        Tokens, what is minimised, limits, pools and ranges. What goes by name is a mapping, such as
        ``max_forgetting={"web": "2%"}``, or the command line's texts.

    Returns
    -------
    CorporaPlan
        With ``feasible=False``, what blocks and the best within reach, where no mix keeps the limits.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.
    """
    given = read_scenario(MixOfCorpora, scenario, "mix")
    for name, option in options_of(MixOfCorpora).items():
        if option.several:
            given = given.replaced(**{name: getattr(given, name) or {}})
    known = given.law_inputs
    if _is_table(fits):
        fits, scores_given = _fitted(fits, law, where, given)
        given = given.replaced(scores=scores_given)
    elif where is not None or law != "auto":
        raise UsageError("law and where are for a runs table; fits were given.")
    losses = build_losses(fits, known)
    scores = build_scores(given.scores, corpora_of(next(iter(losses.values())).fit), known)
    question = _question(given, losses, scores)
    solution = iterate_margins(question.space, question.value, question.limits)
    plan = _fixed(given, question, scores)
    if not solution.best.kept:
        found = certificate(question.space, solution.limits, solution.best, question.relaxed_bounds())
        why = infeasible_fields(found, solution.limits)
        return replace(plan, findings=solution.findings, **why)
    return _beside_measured(_expected(plan, question, solution, scores), question, solution)


@dataclass(frozen=True, eq=False)
class MixQuestion:
    """The mix with the lowest weighted loss at a number of tokens.

    Parameters
    ----------
    given
        What was asked, as `read_scenario` returns it.
    losses
        By eval.
    weights
        Of the losses in what is minimised, by eval; they add up to one.
    limits
        Limits to keep.
    corpora
        In the order of the shares.
    low, high
        Smallest and largest share of each, (k,), without what pools forbid.
    measured
        Mixes that were fitted, (n, k).
    pools
        Unique tokens.
    """

    given: PlanQuestion
    losses: Mapping[str, Loss]
    weights: Mapping[str, float]
    limits: Sequence[LossLimit]
    corpora: tuple[str, ...]
    low: Array
    high: Array
    measured: Array
    pools: Pools

    @property
    def tokens(self) -> float:
        """Tokens of the run."""
        return float(self.given.tokens)

    @property
    def tokens_in_reach(self) -> float:
        """Tokens up to which forecasts of longer runs were held to runs."""
        return tokens_in_reach((one.fit for one in self.losses.values() if one.reads("tokens")), self.given.n_params)

    @property
    def space(self) -> Space:
        """The mixes to choose from, within what the pools allow."""
        high = np.minimum(self.high, self.pools.most(self.tokens))
        names = [SHARE + name for name in self.corpora]
        axes = tuple(map(Axis, names, self.low.tolist(), np.maximum(high, self.low).tolist()))
        inside = self.measured[:, [one.open for one in axes]]
        return Space(axes, self.points, Domain(STEP, 1.0, inside))

    def points(self, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return the mixes with the shares and tokens that count for the laws."""
        shares = np.stack([chosen[SHARE + name] for name in self.corpora], axis=1)
        shares = shares / shares.sum(axis=1, keepdims=True)  # steps for slopes leave the simplex
        counted, tokens = self.pools.counted(shares, self.tokens)
        columns = {MIX + name: counted[:, i] for i, name in enumerate(self.corpora)}
        columns |= {SHARE + name: shares[:, i] for i, name in enumerate(self.corpora)}
        return {**columns, "tokens": tokens}

    def value(self, points: Points) -> Array:
        """Return what is minimised at points, (n,): the weighted mean of the losses, nats per token."""
        return np.asarray(sum(weight * self.losses[name].upper(points, None) for name, weight in self.weights.items()))

    def relaxed_bounds(self) -> RelaxedBounds:
        """Return the spaces without a pool or without an end of a range that was given: see `certificate`."""
        result = {}
        for i, name in enumerate(self.corpora):
            if self.pools.unique[i] < self.high[i] * self.tokens and self.pools.repetition == "forbid":
                pools = replace(
                    self.pools, unique=np.where(np.arange(len(self.corpora)) == i, np.inf, self.pools.unique)
                )
                result[f"unique {name}"] = replace(self, pools=pools).space, partial(_times, self.tokens, name)
            for end, column, sign, bound in (("min_share", "low", -1.0, 0.0), ("max_share", "high", 1.0, 1.0)):
                ends = getattr(self, column).copy()
                if name in getattr(self.given, end) and ends[i] != bound:
                    ends[i] = bound
                    larger = replace(self, **{column: ends}).space
                    result[f"{end.replace('_', '-')} {name}"] = larger, partial(_times, sign, name)
        return result


def _times(factor: float, name: str, points: Points) -> Array:
    return factor * points[SHARE + name]


def _is_table(fits: object) -> TypeGuard[RunsLike]:
    if isinstance(fits, Runs | pd.DataFrame):
        return True
    return isinstance(fits, str | Path) and not str(fits).endswith(".json")


def _fitted(
    table: RunsLike, law: str | Law, where: str | None, given: PlanQuestion
) -> tuple[dict[str, Forecaster], object]:
    """Return the fits of the losses, and of the scores that limits name, unless these were given."""
    from cptlaw.forecasting.verbs import fit

    runs = read_runs(table)
    if not runs.corpora:
        raise UsageError(
            f"{runs.label}: no column holds the share of a corpus. Expected columns such as mix_code and mix_web; "
            f"columns={{'mix_code': 'NAME IN THE FILE'}} (--columns) says which they are."
        )
    minimised = given.minimise or [name for name in runs.evals if name not in runs.scores]
    asked = dict.fromkeys([*minimised, *given.max_forgetting, *given.max_loss])
    fits: dict[str, Forecaster] = {name: fit(law, runs, name, where) for name in asked}
    named = dict.fromkeys([*given.min_score, *given.max_drop])
    if given.scores or not named:
        return fits, given.scores
    of_losses = {name: one for name, one in fits.items() if isinstance(one, Fit)} if law == "auto" else None
    return fits, scoring.fit_all_scores(runs, list(named), where, losses=of_losses)


def _question(given: PlanQuestion, losses: Mapping[str, Loss], scores: Mapping[str, Loss]) -> MixQuestion:
    """Return what is asked."""
    corpora = corpora_of(next(iter(losses.values())).fit)
    for name in ("minimise", "max_forgetting", "max_loss", "base_loss"):
        _known_names(name, getattr(given, name), tuple(losses), "eval")
    for name in ("unique_tokens", "min_share", "max_share"):
        _known_names(name, getattr(given, name), corpora, "corpus")
    weights = given.minimise or dict.fromkeys(losses, 1.0)
    limits = []
    for name, value in given.max_forgetting.items():
        how = AboveBase(base_model(losses[name], given.base_loss.get(name)), given.forgetting)
        option = f"max-forgetting {name}"
        limits.append(_limit(GivenLimit(option, option, value, losses[name], how, given.risk)))
    for name, value in given.max_loss.items():
        option = f"max-loss {name}"
        limits.append(_limit(GivenLimit(option, option, value, losses[name], None, given.risk)))
    limits += score_limits(given, scores, _limit, partial(base_score, measured=lambda loss: base_model(loss).loss))
    check_risk(given.risk, limits)
    measured = measured_mixes(losses[next(iter(weights))], corpora)
    seen = measured if len(measured) else np.array([np.zeros(len(corpora)), np.ones(len(corpora))])
    # Within the shares that were run unless the user widens them: laws of mixes are worst at the corners that nobody
    # measured.
    low = np.array([given.min_share.get(name, least) for name, least in zip(corpora, seen.min(axis=0), strict=True)])
    high = np.array([given.max_share.get(name, most) for name, most in zip(corpora, seen.max(axis=0), strict=True)])
    if np.any(low > high) or not low.sum() - ROUNDING <= 1.0 <= high.sum() + ROUNDING:
        raise UsageError(
            f"min_share and max_share leave no mix: the smallest shares add up to {low.sum():.3g} and the largest to "
            f"{high.sum():.3g}. Expected at most 1, and at least 1."
        )
    shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    pools = Pools.of(corpora, given.unique_tokens, given.repetition)
    return MixQuestion(given, losses, shares, limits, corpora, low, high, measured, pools)


def _limit(given: GivenLimit[Loss]) -> LossLimit:
    """Return a limit on a loss, or on what a scale makes of it."""
    loss = given.loss

    def spread(points: Points) -> float:
        return float(np.log(loss.upper(points, given.risk) / loss.upper(points, None))[0])

    return with_margin(given, partial(loss.upper, risk=None), spread)


def _known_names(option: str, named: Mapping[str, float], known: tuple[str, ...], what: str) -> None:
    for name in named:
        if name not in known:
            raise UsageError(
                f"{label(option)}: {name!r} is no {what} of this plan.{did_you_mean(name, known)} Expected one of "
                f"{', '.join(known)}."
            )


def _fixed(given: PlanQuestion, question: MixQuestion, scores: Mapping[str, Loss]) -> CorporaPlan:
    """Return the plan as far as it does not depend on the answer."""
    return CorporaPlan(
        feasible=False,
        tokens=given.tokens,
        n_params=given.n_params,
        flops=None if given.n_params is None else flops_of(given.trained, given.tokens),
        minimise=dict(question.weights),
        laws={name: loss.spec for name, loss in question.losses.items()},
        repetition=given.repetition if given.unique_tokens else None,
        forgetting_measure=given.forgetting,
        risk=given.risk,
        interval=given.interval,
        unit=unit_of(*(loss.fit for loss in question.losses.values())),
        _limits=tuple(question.limits),
        _fits=tuple(loss.fit for loss in (*question.losses.values(), *scores.values())),
    )


def _expected(plan: CorporaPlan, question: MixQuestion, solution: Solution, scores: Mapping[str, Loss]) -> CorporaPlan:
    """Return the plan with what to expect at the best mix, and what to be wary of there."""
    best, corpora, given = solution.best, question.corpora, question.given
    shares = np.array([best.point[SHARE + name] for name in corpora])
    findings: list[Finding] = []
    evals: dict[str, dict[str, float | None]] = {}
    references = {limit.loss.role: limit.scale for limit in question.limits if limit.scale is not None}
    for name, loss in question.losses.items():
        expected = loss.forecast(best.points, given.interval)
        evals[name] = {f"loss{end}": value[0] for end, value in expected.losses.items()}
        how = references.get(name)
        if how is None and name in given.base_loss:
            how = AboveBase(base_model(loss, given.base_loss[name]), given.forgetting)
        if how is not None:
            evals[name]["base_loss"] = how.reference.loss
            for end in ("", "_lo", "_hi"):
                value = evals[name].get(f"loss{end}")
                evals[name][f"forgetting{end}"] = None if value is None else float(how.of(value))
        findings += expected.findings
    epochs = question.pools.epochs(shares[None], question.tokens)[0]
    pooled = {name: float(value) for name, value in zip(corpora, epochs, strict=True) if name in given.unique_tokens}
    most = question.pools.most(question.tokens)
    # A pool binds only where it, and not the range, is the lower of the two ends.
    tight = [
        f"unique {name}"
        for i, name in enumerate(corpora)
        if shares[i] >= most[i] - ROUNDING and most[i] < question.high[i]
    ]
    noticed = [
        *solution.findings,
        *findings,
        *_edges(given, question, shares),
        *out_of_reach(question.tokens_in_reach, question.tokens),
        *(read_often(pooled) if given.repetition == "discount" else ()),
    ]
    return replace(
        plan,
        feasible=True,
        mix=dict(zip(corpora, map(float, shares), strict=True)),
        corpus_tokens=dict(zip(corpora, (shares * question.tokens).tolist(), strict=True)),
        epochs=pooled,
        losses=evals,
        scores=score_fields(scores, question.limits, best.points, given.interval),
        value=best.value,
        binding=(*binding(solution.limits, best), *tight),
        price_of_doubt=None if given.risk is None else solution.price_of_doubt,
        findings=tuple(noticed),
    )


def _beside_measured(plan: CorporaPlan, question: MixQuestion, solution: Solution) -> CorporaPlan:
    """Return the plan with the best measured mix that keeps the limits, and what it gains on that by the forecasts."""
    measured = question.measured
    if not len(measured):
        return plan
    points = question.points({SHARE + name: measured[:, i] for i, name in enumerate(question.corpora)})
    # Measured mixes are held to the same pools and limits, or the gain on them would be that of breaking rules.
    inside = np.all(measured <= question.pools.most(question.tokens) + ROUNDING, axis=1)
    kept = inside & (worst_excess(solution.limits, points) <= ROUNDING)
    if not kept.any():
        return plan
    values = np.where(kept, question.value(points), np.inf)
    best = int(np.argmin(values))
    return replace(
        plan,
        best_measured_mix=dict(zip(question.corpora, map(float, measured[best]), strict=True)),
        gain_on_measured=float(values[best] - solution.best.value),
    )


def _edges(given: PlanQuestion, question: MixQuestion, shares: Array) -> list[Finding]:
    """Say which shares lie at the end of what was fitted, so that a better mix may lie beyond."""
    ends = []
    for name, share, low, high in zip(question.corpora, shares, question.low, question.high, strict=True):
        if name not in given.min_share and low > 0 and share <= low + AT_EDGE:
            ends.append(f"{name} at its least, {format_percent(float(low))}")
        if name not in given.max_share and high < 1 and share >= high - AT_EDGE:
            ends.append(f"{name} at its most, {format_percent(float(high))}")
    if not ends:
        return []
    return [
        Finding(
            "info",
            "share-at-edge",
            f"the best mix lies at the end of the fitted ones ({'; '.join(ends)}); a better one may lie beyond.",
            "Add runs beyond it, or widen the range at the risk of extrapolating.",
            remedy=Remedy("max_share"),
        )
    ]


documented(mix, MixOfCorpora)
