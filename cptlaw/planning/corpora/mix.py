"""The mix of k corpora with the lowest losses, under limits on every eval and with pools of unique tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.laws.calculus import Array
from cptlaw.planning.corpora.losses import EvalLoss, build_losses, build_scores
from cptlaw.planning.corpora.pools import Pools
from cptlaw.planning.corpora.question import SHARE_SCALE, BestMix
from cptlaw.planning.corpora.result import CorporaPlan
from cptlaw.planning.corpora.simplex import KEPT, MixRange
from cptlaw.planning.limits import ForgettingScale, Limit, check_risk
from cptlaw.planning.mixes.repetition import read_often
from cptlaw.planning.options import label
from cptlaw.planning.points import DROP, LEAST, as_asked, reached_names, score_fields, score_limits
from cptlaw.planning.result import flops_of
from cptlaw.planning.scenario import MixOfCorpora, documented, options_of, read_scenario
from cptlaw.planning.settle import Solution, certificate, solve
from cptlaw.planning.solve import Certificate
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.metrics import unit_of
from cptlaw.scores import fit_all_scores
from cptlaw.units import format_percent

ON_LIMIT = 1e-6  # nats per token, or of the base loss: distance from which a limit counts as binding
AT_EDGE = 1e-4  # of the mix


def mix(fits: Any, law: Any = "auto", where: str | None = None, **scenario: Unpack[MixOfCorpora]) -> CorporaPlan:
    """Find the mix of k corpora with the lowest weighted loss, under limits on each eval.

    Parameters
    ----------
    fits
        Fits of laws of mixes, one for each eval, or their files: a mapping by eval, or several; or a runs table with
        columns ``mix_NAME``, of which each eval that the question names (all losses, where it names none) is fitted
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
            setattr(given, name, getattr(given, name) or {})
    known = {} if given.n_params is None else {"n_params": given.n_params}
    if _is_table(fits):
        fits, given.scores = _fitted(fits, law, where, given)
    elif where is not None or law != "auto":
        raise UsageError("law and where are for a runs table; fits were given.")
    losses = build_losses(fits, known)
    scores = build_scores(given.scores, next(iter(losses.values())).corpora, known)
    solution = solve(_question(given, losses, scores), given.risk)
    fields = _fixed(given, solution.question)
    found = [*solution.findings, *(finding for loss in losses.values() for finding in loss.weakness())]
    if not solution.optimum.kept:
        why = certificate(solution.question, solution.optimum.place)
        return CorporaPlan(
            feasible=False,
            blocking=" and ".join(why.blocking),
            best_reachable={name: value if np.isfinite(value) else None for name, value in _reachable(why).items()},
            feasible_from=as_asked({name: value for name, value in why.feasible_from.items() if np.isfinite(value)}),
            findings=by_severity(found),
            **fields,
        )
    values, noticed = _expected(given, solution, scores)
    return CorporaPlan(feasible=True, findings=by_severity([*found, *noticed]), **fields, **values)


def _is_table(fits: Any) -> bool:
    if isinstance(fits, Runs | pd.DataFrame):
        return True
    return isinstance(fits, str | Path) and not str(fits).endswith(".json")


def _fitted(table: Any, law: Any, where: str | None, given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fits of the losses, and of the scores that limits name, unless these were given."""
    from cptlaw.verbs import fit

    runs = read_runs(table)
    if not runs.corpora:
        raise UsageError(
            f"{runs.label}: no column holds the share of a corpus. Expected columns such as mix_code and mix_web; "
            f"columns={{'mix_code': 'NAME IN THE FILE'}} (--columns) says which they are."
        )
    asked = dict.fromkeys([*given.minimise, *given.max_forgetting, *given.max_loss])
    losses = [name for name in runs.evals if name not in runs.scores]
    fits = {name: fit(law, runs, name, where) for name in asked or losses}
    named = dict.fromkeys([*given.min_score, *given.max_drop])
    if given.scores or not named:
        return fits, given.scores
    return fits, fit_all_scores(runs, list(named), where, losses=fits if law == "auto" else None)


def _question(given: Any, losses: Mapping[str, EvalLoss], scores: Mapping[str, EvalLoss]) -> BestMix:
    """Return what is asked."""
    corpora = next(iter(losses.values())).corpora
    for name in ("minimise", "max_forgetting", "max_loss", "base_loss"):
        _known_names(name, getattr(given, name), tuple(losses), "eval")
    for name in ("unique_tokens", "min_share", "max_share"):
        _known_names(name, getattr(given, name), corpora, "corpus")
    weights = given.minimise or dict.fromkeys(losses, 1.0)
    total = sum(weights.values())
    limits = [_forgetting_limit(given, losses[name], name, value) for name, value in given.max_forgetting.items()]
    limits += [
        Limit(f"max-loss {name}", "loss", value, losses[name], None, given.risk)
        for name, value in given.max_loss.items()
    ]
    limits += score_limits(given, scores, given.risk, lambda loss: loss.reference(None).loss)
    check_risk(given.risk, limits)
    measured = losses[next(iter(weights))].measured.to_numpy(dtype=float)
    seen = measured if len(measured) else np.stack([np.zeros(len(corpora)), np.ones(len(corpora))])
    # Within the shares that were run unless the user widens them: laws of mixes are worst at the corners that nobody
    # measured.
    low = np.array([given.min_share.get(name, seen[:, i].min()) for i, name in enumerate(corpora)])
    high = np.array([given.max_share.get(name, seen[:, i].max()) for i, name in enumerate(corpora)])
    pools = Pools.of(corpora, given.unique_tokens, given.repetition)
    mixes = MixRange(low, high, measured.reshape(-1, len(corpora)))
    if mixes.empty:
        raise UsageError(
            f"min_share and max_share leave no mix: the smallest shares add up to {low.sum():.3g} and the largest to "
            f"{high.sum():.3g}. Expected at most 1, and at least 1."
        )
    shares = {name: weight / total for name, weight in weights.items()}
    ends = [
        f"{end} {name}"
        for end, named in (("min-share", given.min_share), ("max-share", given.max_share))
        for name in named
    ]
    return BestMix(losses, shares, tuple(limits), mixes, pools, given.tokens, tuple(ends))


def _forgetting_limit(given: Any, loss: EvalLoss, name: str, value: float) -> Limit:
    how = ForgettingScale(loss.reference(given.base_loss.get(name)), given.forgetting)
    return Limit(f"max-forgetting {name}", "forgetting", value, loss, how, given.risk)


def _reachable(why: Certificate) -> dict[str, float]:
    """Return the best value of each limited quantity: of losses by the name of the limit, of scores in points."""
    in_points = reached_names(why.lowest)
    return {name: value for name, value in why.lowest.items() if not name.startswith((LEAST, DROP))} | in_points


def _known_names(option: str, named: Mapping[str, float], known: tuple[str, ...], what: str) -> None:
    for name in named:
        if name not in known:
            raise UsageError(
                f"{label(option)}: {name!r} is no {what} of this plan.{did_you_mean(name, known)} Expected one of "
                f"{', '.join(known)}."
            )


def _fixed(given: Any, question: BestMix) -> dict[str, Any]:
    """Return the fields of the plan that do not depend on the answer."""
    return {
        "tokens": given.tokens,
        "n_params": given.n_params,
        "flops": None if given.n_params is None else flops_of(given.n_params, given.tokens),
        "minimise": dict(question.weights),
        "laws": {name: loss.spec for name, loss in question.losses.items()},
        "repetition": given.repetition if given.unique_tokens else None,
        "forgetting_measure": given.forgetting,
        "risk": given.risk,
        "interval": given.interval,
        "unit": unit_of(*(loss.fit for loss in question.losses.values())),
    }


def _expected(given: Any, solution: Solution, scores: Mapping[str, EvalLoss]) -> tuple[dict[str, Any], list[Finding]]:
    """Return what to expect at the best mix, and what to be wary of there."""
    question: BestMix = solution.question
    shares = question.mixes.within(solution.optimum.place[None] / SHARE_SCALE)
    counted = question.pools.counted(shares, question.tokens)
    found: list[Finding] = []
    evals: dict[str, dict[str, float | None]] = {}
    references = {limit.loss.role: limit.forgetting for limit in question.limits if limit.forgetting is not None}
    for name, loss in question.losses.items():
        expected = loss.forecast(*counted, given.interval)
        evals[name] = {f"loss{end}": value[0] for end, value in expected.losses.items()}
        how = references.get(name)
        if how is None and name in given.base_loss:
            how = ForgettingScale(loss.reference(given.base_loss[name]), given.forgetting)
        if how is not None:
            evals[name]["base_loss"] = how.reference.loss
            for end in ("", "_lo", "_hi"):
                value = evals[name].get(f"loss{end}")
                evals[name][f"forgetting{end}"] = None if value is None else float(how.of(value))
        found += expected.findings
    place = SHARE_SCALE * shares
    reached = [limit for limit in question.limits if question.reached(limit, place)[0] >= limit.value - ON_LIMIT]
    corpora, epochs = question.corpora, question.pools.epochs(shares, question.tokens)[0]
    read = dict(zip(corpora, (shares[0] * question.tokens).tolist(), strict=True))
    pooled = {name: float(value) for name, value in zip(corpora, epochs, strict=True) if name in given.unique_tokens}
    fields = {
        "mix": dict(zip(corpora, map(float, shares[0]), strict=True)),
        "corpus_tokens": read,
        "epochs": pooled,
        "losses": evals,
        "scores": score_fields(scores, question.limits, *counted, given.interval),
        "value": float(question.goal(shares)[0]),
        "binding": tuple(limit.name for limit in reached) + _pools_in_the_way(question, shares[0]),
        "price_of_doubt": solution.price_of_doubt,
        **_beside_measured(question, shares),
    }
    return fields, [
        *dict.fromkeys(found),
        *_edges(given, question, shares[0]),
        *(read_often(pooled) if given.repetition == "discount" else ()),
    ]


def _pools_in_the_way(question: BestMix, mix_: Array) -> tuple[str, ...]:
    most = question.pools.most(question.tokens)
    # A pool binds only where it, and not the range, is the lower of the two ends.
    tight = (most < question.mixes.high) & (mix_ >= most - KEPT)
    return tuple(f"unique {name}" for name, is_tight in zip(question.corpora, tight, strict=True) if is_tight)


def _beside_measured(question: BestMix, shares: Array) -> dict[str, Any]:
    """Return the best of the measured mixes that keep the limits, and what the plan gains on it by the forecasts."""
    measured = question.mixes.measured
    if not len(measured):
        return {}
    # Measured mixes are held to the same pools and limits, or the gain on them would be that of breaking rules.
    inside = np.all(measured <= question.pools.most(question.tokens) + KEPT, axis=1)
    table = question.values(measured)
    kept = inside & (table[:, 1:].max(axis=1, initial=-np.inf) <= KEPT)
    if not kept.any():
        return {}
    best = int(np.argmin(np.where(kept, table[:, 0], np.inf)))
    return {
        "best_measured_mix": dict(zip(question.corpora, map(float, measured[best]), strict=True)),
        "gain_on_measured": float(table[best, 0] - question.goal(shares)[0]),
    }


def _edges(given: Any, question: BestMix, mix_: Array) -> list[Finding]:
    """Say which shares lie at the end of what was fitted, so that a better mix may lie beyond."""
    ends = []
    for i, name in enumerate(question.corpora):
        low, high = float(question.mixes.low[i]), float(question.mixes.high[i])
        if name not in given.min_share and low > 0 and mix_[i] <= low + AT_EDGE:
            ends.append(f"{name} at its least, {format_percent(low)}")
        if name not in given.max_share and high < 1 and mix_[i] >= high - AT_EDGE:
            ends.append(f"{name} at its most, {format_percent(high)}")
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
