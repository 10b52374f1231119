"""The fewest tokens, and the replay, that keep limits on forgetting and losses (arXiv:2510.23198, section on planning).

For each replay r a limit k needs D_k(r) tokens, in closed form; a mix needs D(r) = max_k D_k(r); the plan is the least
D(r). At a fixed model size that is also the fewest FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.laws.calculus import Array
from cptlaw.planning import asked
from cptlaw.planning.expected import at_edge, expected_at, fixed_fields
from cptlaw.planning.limits import QUANTITY, Limit, settled
from cptlaw.planning.repetition import REPETITION, Repetition, effective_tokens, tokens_for_effective
from cptlaw.planning.result import MixPlan, quantity_text
from cptlaw.planning.saving import Saving, saving
from cptlaw.planning.search import minimise
from cptlaw.planning.setting import Setting, build_setting
from cptlaw.result import Line
from cptlaw.units import format_percent, format_quantity

ON_LIMIT = 1e-6  # relative distance from which a limit counts as binding
ROUNDING = 1e-12
# A plan of more than this many times the tokens that a fit has seen is one on paper only: a law whose exponent has gone
# to zero answers with more tokens than there are atoms.
OUT_OF_REACH = 1e6
NEARLY_ALL = 1e3  # times the most tokens that a fit has seen: where doubt is taken if no number of tokens will do


@dataclass(frozen=True, repr=False)
class MinTokensPlan(MixPlan):
    """Answer of `min_tokens`. See `MixPlan` for the attributes that all mixes share.

    Attributes
    ----------
    saving
        With `risk`: the runs that would pay for themselves by narrowing the intervals, and what they save.
    unique_target_tokens, repetition, target_epochs
        The unique target tokens that there are, what is said of repeating them, and how often the plan reads them.
    effective_tokens
        With repeated target tokens: unique tokens that would be worth as much as `tokens`.
    max_tokens
        The tokens that may be spent, where that was said.
    """

    saving: Saving | None = None
    unique_target_tokens: float | None = None
    repetition: str | None = None
    target_epochs: float | None = None
    effective_tokens: float | None = None
    max_tokens: float | None = None

    def _question(self) -> str:
        return "Fewest tokens"

    def _price(self, value: float) -> str:
        return f"{quantity_text(value)} tokens"

    def _reach(self) -> str:
        if self.unique_target_tokens is not None and self.repetition == "forbid":
            return " with all target tokens"
        return " in the limit of many tokens" if self.max_tokens is None else " with all tokens"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        lines = super().lines
        if self.target_epochs is not None:
            lines.append(
                (
                    "target data",
                    f"{quantity_text(self.unique_target_tokens)} tokens, read {self.target_epochs:.3g} times",
                )
            )
        if self.saving is not None:
            lines.append(("next runs", _saving_text(self.saving)))
        return lines


def _saving_text(found: Saving) -> str:
    if not found.cells:
        return f"none within {quantity_text(found.budget)} FLOPs, the price of doubt, would pay for themselves"
    return (
        f"{len(found.cells)} for {quantity_text(found.flops)} FLOPs would save about "
        f"{quantity_text(found.saved_tokens)} tokens ({quantity_text(found.saved_flops)} FLOPs)"
    )


@dataclass(frozen=True)
class _Question:
    """Limits, the range of replay, and what bounds tokens from below and above."""

    limits: tuple[Limit, ...]
    low: float
    high: float
    least: float
    ceiling: float
    unique: float | None
    repetition: Repetition

    def needed(self, limit: Limit, replay: Array) -> Array:
        """Return the tokens that one limit needs at each replay, (n,)."""
        tokens = limit.tokens(replay)
        if self.unique is None or self.repetition == "forbid":
            return tokens
        return tokens_for_effective(tokens, replay, self.unique)

    def tokens(self, replay: Array) -> Array:
        """Return the fewest tokens that keep all limits at each replay, (n,); infinity where none do."""
        need = np.full(len(replay), self.least)
        for limit in self.limits:
            need = np.maximum(need, self.needed(limit, replay))
        return np.where(need <= self.most(replay) * (1.0 + ROUNDING), need, np.inf)

    def most(self, replay: Array) -> Array:
        """Return the most tokens of a mix that stays within reach and repeats nothing it must not, (n,)."""
        if self.unique is None or self.repetition == "discount":
            return np.full(len(replay), self.ceiling)
        with np.errstate(divide="ignore"):
            return np.minimum(self.unique / (1.0 - replay), self.ceiling)

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return the lowest value of a limited quantity at each replay, with all the tokens that there are, (n,)."""
        most = self.most(replay)
        if self.unique is not None and self.repetition == "discount":
            most = effective_tokens(most, replay, self.unique)
        return limit.reached(replay, most)

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails with all the tokens that there are, (n,)."""
        worst = self.least / self.most(replay) - 1.0
        for limit in self.limits:
            worst = np.maximum(worst, self.best(limit, replay) - limit.value)
        return worst

    def solve(self) -> tuple[float, float]:
        """Return the best replay and its tokens; infinitely many where there is no plan."""
        replay, tokens = minimise(self.tokens, self.low, self.high, self.violation)
        if tokens <= self.least * (1.0 + ROUNDING) and self.high > self.low:
            # Several mixes do with the least tokens: take the one whose limits leave most room.
            replay, _ = minimise(
                lambda r: np.where(self.tokens(r) <= self.least * (1.0 + ROUNDING), self._room(r), np.inf),
                self.low,
                self.high,
            )
        return replay, tokens

    def mix(self) -> tuple[float, float]:
        """Return replay and tokens of the answer or, where there is none, of the mix that comes nearest."""
        replay, tokens = self.solve()
        if not np.isfinite(tokens):
            replay, _ = minimise(self.violation, self.low, self.high)
            seen = max(limit.side.fitted_tokens[1] for limit in self.limits)
            tokens = min(float(self.most(np.array([replay]))[0]), NEARLY_ALL * seen)
        if self.unique is None or self.repetition == "forbid":
            return replay, tokens
        return replay, float(effective_tokens(tokens, replay, self.unique))

    def _room(self, replay: Array) -> Array:
        """Return the worst quantity relative to its limit at the least tokens, (n,)."""
        worst = np.full(len(replay), -np.inf)
        for limit in self.limits:
            at = effective_tokens(self.least, replay, self.unique) if self.unique is not None else self.least
            worst = np.maximum(worst, (limit.reached(replay, at) - limit.value) / max(abs(limit.value), 1e-3))
        return worst


def min_tokens(
    target: Any,
    source: Any = None,
    *,
    n_params: Any,
    ptpp: Any = None,
    max_forgetting: Any = None,
    max_target_loss: Any = None,
    max_source_loss: Any = None,
    base_source_loss: Any = None,
    reference: str = "measured",
    base_law: Any = None,
    forgetting: str = "relative",
    unique_target_tokens: Any = None,
    repetition: str = "forbid",
    min_replay: Any = None,
    max_replay: Any = None,
    max_tokens: Any = None,
    risk: Any = None,
    savings: bool = True,
    interval: Any = 0.9,
) -> MinTokensPlan:
    """Find the fewest adaptation tokens, and the replay, that keep limits on forgetting and losses.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files. Limits on the source side need `source`.
    n_params, ptpp
        The model: parameters, and pre-training tokens per parameter where a law or the reference reads them. Numbers,
        or text such as ``"8.1B"``, as everywhere here.
    max_forgetting
        Most forgetting: a fraction of the base model's source loss (``"2%"``), or nats per token with
        ``forgetting="absolute"``.
    max_target_loss, max_source_loss
        Highest losses, nats per token. At least one of the three limits is needed.
    base_source_loss
        The base model's measured source loss, nats per token; looked up in `source` where absent.
    reference
        From which loss forgetting counts: ``"measured"``, ``"base-law"``, ``"asymptote"``, ``"min-tokens"`` or
        ``"shifted"``; see `cptlaw.planning.reference`.
    base_law
        A fit of a law of base models for ``reference="base-law"``; fitted from `source` where absent.
    forgetting
        ``"relative"`` or ``"absolute"``.
    unique_target_tokens
        Tokens of the target corpus, where it is limited.
    repetition
        ``"forbid"``: never read a target token twice. ``"discount"``: repeat, at the worth of Muennighoff et al. 2023
        (arXiv:2305.16264).
    max_tokens
        Most tokens to spend; without it a plan may need more than anyone has, which a finding then says.
    min_replay, max_replay
        Range of replay; the fitted one where absent, without runs on the source corpus alone.
    risk
        Probability with which each limit must hold for a measured loss under the fits' uncertainty, such as 0.9;
        ``None`` plans on the point forecasts. The plan then says what that costs in tokens (`price_of_doubt`).
    savings
        With `risk`: also work out which next runs would pay for themselves, as `cptlaw.suggest` does (`saving`). Takes
        some seconds.
    interval
        Coverage of the intervals of the losses; ``None`` for none, which saves time.

    Returns
    -------
    MinTokensPlan
        With ``feasible=False``, the limits that block and the best values within reach, where no mix will do.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.

    Notes
    -----
    Tokens are never fewer than the smallest fitted ones: the laws claim that loss falls from the first token on, while
    forgetting sets in there. Minimises ATPP, D / N, of Goffinet et al. 2025 (arXiv:2510.23198); exact to 1e-6.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    >>> target, source = (cl.fit("ptpp-floor", runs, on=eval, where=rows) for eval in ("target", "source"))
    >>> plan = cl.plan.min_tokens(
    ...     target, source, n_params=124672, ptpp=279, max_forgetting="18%", max_target_loss=1.75, interval=None
    ... )
    >>> plan.feasible, plan.binding
    (True, ('max-forgetting', 'max-target-loss'))
    """
    given = (max_forgetting, max_target_loss, max_source_loss)
    if all(limit is None for limit in given):
        raise UsageError(
            "min-tokens needs a limit: max_forgetting (--max-forgetting), max_target_loss (--max-target-loss) or "
            "max_source_loss. Without one, no tokens at all are the fewest."
        )
    setting = build_setting(
        target,
        source,
        n_params=n_params,
        ptpp=ptpp,
        max_forgetting=max_forgetting,
        max_target_loss=max_target_loss,
        max_source_loss=max_source_loss,
        base_source_loss=base_source_loss,
        reference=reference,
        base_law=base_law,
        forgetting=forgetting,
        min_replay=min_replay,
        max_replay=max_replay,
        risk=risk,
        interval=interval,
    )
    for side in setting.sides:
        side.must_fall_with_tokens()
    unique = (
        None if unique_target_tokens is None else asked.positive(unique_target_tokens, "unique_target_tokens", "5B")
    )
    rule = asked.one_of(repetition, "repetition", REPETITION)
    ceiling = np.inf if max_tokens is None else asked.positive(max_tokens, "max_tokens", "100B")
    least = min(setting.smallest_fitted_tokens, ceiling)
    question = _Question(setting.limits, setting.low, setting.high, least, ceiling, unique, rule)
    certain = question.solve() if setting.risk is not None else None
    question, restless = settled(question)
    replay, tokens = question.solve()
    fields = fixed_fields(setting) | {
        "unique_target_tokens": unique,
        "max_tokens": None if max_tokens is None else ceiling,
    }
    if unique is not None:
        fields["repetition"] = rule
    if not np.isfinite(tokens):
        found = by_severity([*setting.findings, *restless, *_doubt_decides(certain)])
        why = _certificate(question, setting, max_tokens is not None)
        return MinTokensPlan(feasible=False, findings=found, **fields, **why)
    repeated = unique is not None and rule == "discount"
    counted = float(effective_tokens(tokens, replay, unique)) if repeated and unique is not None else None
    values, found_there = expected_at(setting, replay, tokens, counted)
    if unique is not None:
        fields["target_epochs"] = (1.0 - replay) * tokens / unique
    if certain is not None and np.isfinite(certain[1]):
        fields["price_of_doubt"] = tokens - certain[1]
        if savings and setting.risk is not None and setting.risk > 0.5 and not restless:
            fields["saving"] = saving(
                question.limits,
                replay,
                tokens if counted is None else counted,
                tokens - certain[1],
                2.0 * setting.risk - 1.0,
                lambda limits: replace(question, limits=limits).solve()[1],
            )
    return MinTokensPlan(
        feasible=True,
        binding=_binding(question, setting, replay, tokens),
        effective_tokens=counted,
        findings=by_severity(
            [
                *setting.findings,
                *restless,
                *found_there,
                *at_edge(setting, replay),
                *_at_floor(question, tokens),
                *_far(setting, tokens),
            ]
        ),
        **fields,
        **values,
    )


def _binding(question: _Question, setting: Setting, replay: float, tokens: float) -> tuple[str, ...]:
    """Name what keeps the tokens from being fewer."""
    at = np.array([replay])
    found: list[str] = [
        limit.name for limit in question.limits if question.needed(limit, at)[0] >= tokens * (1.0 - ON_LIMIT)
    ]
    if tokens <= question.least * (1.0 + ROUNDING):
        found.append("smallest-fitted-tokens")
    if question.unique is not None and (1.0 - replay) * tokens >= question.unique * (1.0 - ON_LIMIT):
        found.append("unique-target-tokens")
    if setting.low < setting.high:
        for end, given, name in (
            (setting.low, setting.given_low, "min-replay"),
            (setting.high, setting.given_high, "max-replay"),
        ):
            if given and abs(replay - end) <= 1e-9:
                found.append(name)
    return tuple(found)


def _at_floor(question: _Question, tokens: float) -> tuple[Finding, ...]:
    if tokens > question.least * (1.0 + ROUNDING):
        return ()
    return (
        Finding(
            "info",
            "smallest-fitted-tokens",
            f"all limits already hold at {format_quantity(tokens)} tokens, the fewest that the fits have seen. Below "
            f"them the laws are wrong: they claim that losses only fall, while forgetting sets in there.",
            "Fewer tokens may do; runs measured earlier would tell.",
        ),
    )


def _far(setting: Setting, tokens: float) -> tuple[Finding, ...]:
    most = setting.largest_fitted_tokens
    if tokens <= OUT_OF_REACH * most:
        return ()
    return (
        Finding(
            "error",
            "out-of-reach",
            f"the plan needs {tokens / most:.1g} times the most tokens that a fit has seen: it exists on paper only.",
            "Loosen the limit that binds, or give the tokens that you can spend with max_tokens= (--max-tokens).",
        ),
    )


def _doubt_decides(certain: tuple[float, float] | None) -> tuple[Finding, ...]:
    if certain is None or not np.isfinite(certain[1]):
        return ()
    return (
        Finding(
            "info",
            "doubt-decides",
            f"the point forecasts alone would allow a plan: {format_quantity(certain[1])} tokens at replay "
            f"{format_percent(certain[0])}.",
            "Lower risk=, loosen the limits, or add runs that narrow the forecasts.",
        ),
    )


def _certificate(question: _Question, setting: Setting, max_tokens_given: bool) -> dict[str, Any]:
    """Say which limits block, what can be reached, and from which value on there would be a plan."""
    lifted: dict[str, _Question] = {
        limit.name: replace(question, limits=tuple(other for other in question.limits if other is not limit))
        for limit in question.limits
    }
    if question.unique is not None and question.repetition == "forbid":
        lifted["unique-target-tokens"] = replace(question, unique=None)
    if max_tokens_given:
        lifted["max-tokens"] = replace(question, ceiling=OUT_OF_REACH * setting.largest_fitted_tokens)
    if setting.given_low and setting.fitted_low < question.low:
        lifted["min-replay"] = replace(question, low=setting.fitted_low)
    if setting.given_high and setting.fitted_high > question.high:
        lifted["max-replay"] = replace(question, high=setting.fitted_high)
    solved = {name: other.solve() for name, other in lifted.items()}
    # Lifting any one of these is enough.
    blocking = [name for name, (_, tokens) in solved.items() if np.isfinite(tokens)]
    lowest: dict[str, float] = {limit.name: _lowest(question, lifted[limit.name], limit) for limit in question.limits}
    feasible_from: dict[str, float] = {}
    for name in blocking:
        if name in QUANTITY:
            feasible_from[name] = lowest[name]
        elif name == "unique-target-tokens":
            feasible_from[name] = _fewest_unique(lifted[name])
        elif name == "max-tokens":
            feasible_from[name] = solved[name][1]
        else:
            feasible_from[name] = _nearest_replay(lifted[name], -1.0 if name == "min-replay" else 1.0)
    if not blocking:
        alone = [limit for limit in question.limits if not _reachable(replace(question, limits=(limit,)))]
        together = alone or list(question.limits)
        blocking = [limit.name for limit in together]
        # No single one will do: the values at the mix that comes nearest, to be granted together.
        nearest, _ = minimise(question.violation, question.low, question.high)
        at = np.array([nearest])
        feasible_from = {limit.name: float(question.best(limit, at)[0]) for limit in together}
    return {
        "blocking": " and ".join(blocking),
        "best_reachable": {"target_loss": None, "forgetting": None}
        | {QUANTITY[name]: value for name, value in lowest.items()},
        "feasible_from": feasible_from,
    }


def _fewest_unique(question: _Question) -> float:
    """Return the fewest target tokens of any mix that keeps the limits."""
    return minimise(lambda replay: (1.0 - replay) * question.tokens(replay), question.low, question.high)[1]


def _nearest_replay(question: _Question, sign: float) -> float:
    """Return the lowest replay (sign 1), or the highest (sign -1), that keeps the limits."""

    def ordered(replay: Array) -> Array:
        return np.where(np.isfinite(question.tokens(replay)), sign * replay, np.inf)

    return sign * minimise(ordered, question.low, question.high, question.violation)[1]


def _reachable(question: _Question) -> bool:
    return bool(np.isfinite(question.solve()[1]))


def _lowest(question: _Question, others: _Question, limit: Limit) -> float:
    """Return the lowest value of a limited quantity with the other limits kept or, where they cannot be, without."""

    def within(replay: Array) -> Array:
        return np.where(others.violation(replay) <= 0, question.best(limit, replay), np.inf)

    _, value = minimise(within, question.low, question.high, others.violation)
    if not np.isfinite(value):
        _, value = minimise(lambda r: question.best(limit, r), question.low, question.high)
    return value
