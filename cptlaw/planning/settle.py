"""How every plan is found: a question is answered, under a risk until its doubt settles, or shown to have no answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import Limit
from cptlaw.planning.solve import Certificate

ROUNDS = 8
SETTLED = 1e-5  # relative change of a limited quantity that a further look at the doubt may still make
UNSEEN = 1e-4  # the same, below which nothing is said of it: no printed digit shows it
LEAST_SCALE = 1e-2  # of a limited quantity, for relative changes: forgetting may be limited to 0


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best that a question allows.

    Parameters
    ----------
    place
        Where it lies, in the question's coordinates, (d,), each on a scale of about 1; where nothing keeps the limits,
        the place that comes nearest to it.
    value
        What is minimised; infinite where nothing keeps the limits.
    """

    place: Array
    value: float

    @property
    def kept(self) -> bool:
        """Whether all limits are kept."""
        return bool(np.isfinite(self.value))


class Question(Protocol):
    """Something to choose under limits: a mix, or a schedule. It is a frozen dataclass."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits."""

    def optimum(self) -> Optimum:
        """Return the best place."""

    def reached(self, limit: Limit, places: Array) -> Array:
        """Return a limited quantity at places, (n, d) to (n,)."""

    def around(self, place: Array) -> Array:
        """Return where to look at the doubt first, (k, d), the place itself last."""

    def learned(self, limit: Limit, places: Array) -> Limit:
        """Return a limit with its doubt at places."""

    def lifted(self) -> dict[str, Any]:
        """Return the questions with one bound less, by the name of the bound; limits are among them."""

    def lowest(self, limit: Limit, others: Any) -> float:
        """Return the lowest value of a limited quantity, the limits of `others` kept where they can be."""

    def feasible_from(self, name: str, lifted: Any, optimum: Optimum) -> float:
        """Return from which value of a bound that is no limit there is an answer."""


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


@dataclass(frozen=True, eq=False)
class Solution:
    """What came of a question.

    Parameters
    ----------
    question
        The question, its limits knowing the doubt at the answer.
    optimum
        The best place.
    certain
        That on the forecasts alone, where a risk was asked for.
    findings
        What is to be said of the way.
    """

    question: Any
    optimum: Optimum
    certain: Optimum | None
    findings: tuple[Finding, ...]

    @property
    def price_of_doubt(self) -> float | None:
        """By how much the value lies above that on the forecasts alone; ``None`` without a risk or an answer."""
        if self.certain is None or not (self.certain.kept and self.optimum.kept):
            return None
        return self.optimum.value - self.certain.value


def solve(question: AnyQuestion, risk: float | None) -> Solution:
    """Answer a question, its limits kept with a probability where a risk is given.

    The answer is sought, the doubt of each limited loss is looked at there, and the answer is sought again with what
    was seen, until the look shows nothing new.

    Parameters
    ----------
    question
        With limits that know nothing of doubt yet.
    risk
        As its limits have it.
    """
    optimum = question.optimum()
    if not any(limit.doubtful for limit in question.limits):
        return Solution(question, optimum, optimum if risk is not None else None, ())
    # A search by cutting planes: the profile at each answer joins what is known of the limit, so that a plan rests on
    # the same intervals as `forecast` gives, noise and distance from the data included.
    certain, places = optimum, question.around(optimum.place)
    for _ in range(ROUNDS):
        limits = tuple(question.learned(limit, places) for limit in question.limits)
        # Judged by what the new look changes at the plan itself: elsewhere a margin may go on moving without touching
        # the answer.
        news = _news(question, limits, places[-1:])
        question = replace(question, limits=limits)  # type: ignore[type-var]
        optimum = question.optimum()
        if news <= SETTLED:
            return Solution(question, optimum, certain, _open_ends(question))
        places = optimum.place[None]
    if news <= UNSEEN:
        return Solution(question, optimum, certain, _open_ends(question))
    unsettled = Finding(
        "warning",
        "risk-not-settled",
        f"after {ROUNDS} rounds the doubt at the plan still changes it, as it does far beyond the runs: take the "
        f"probabilities that stand beside the limits, not the one asked for.",
        "Runs nearer to the plan settle it; so does a looser limit, or a lower risk.",
    )
    return Solution(question, optimum, certain, (unsettled, *_open_ends(question)))


def _open_ends(question: Question) -> tuple[Finding, ...]:
    """Say which losses the data does not bound from above, so that nothing is sure of their limits."""
    return tuple(
        Finding(
            "warning",
            "unbounded",
            f"the data does not bound the {limit.loss.role} loss from above at the plan: no probability above one half "
            f"can be given for {limit.name}.",
            "Add runs nearer to the plan, hold parameters of the fit, or ask for a probability of one half.",
        )
        for limit in question.limits
        if limit.margin is not None and not limit.margin.bounded
    )


def _news(question: Question, limits: tuple[Limit, ...], place: Array) -> float:
    """Return by how much, relatively, the limited quantities at a place differ from what was thought of them."""
    changes = [
        abs(question.reached(after, place)[0] - question.reached(before, place)[0]) / max(abs(after.value), LEAST_SCALE)
        for before, after in zip(question.limits, limits, strict=True)
    ]
    return float(max(changes, default=0.0))


def certificate(question: Question, nearest: Array) -> Certificate:
    """Return why a question has no answer.

    Parameters
    ----------
    nearest
        The place that comes nearest to an answer.
    """
    lifted = question.lifted()
    optima = {name: other.optimum() for name, other in lifted.items()}
    lowest = {limit.name: question.lowest(limit, lifted[limit.name]) for limit in question.limits}
    blocking = tuple(name for name, optimum in optima.items() if optimum.kept)
    if blocking:
        values = {
            name: lowest[name] if name in lowest else question.feasible_from(name, lifted[name], optima[name])
            for name in blocking
        }
        return Certificate(blocking, lowest, values)
    # No single one will do: the values at the place that comes nearest, to be granted together.
    # Limits that each can be kept alone contradict one another only together; then all of them are named.
    alone = [limit for limit in question.limits if not _only(question, limit).optimum().kept]
    together = alone or list(question.limits)
    values = {limit.name: float(question.reached(limit, nearest[None])[0]) for limit in together}
    return Certificate(tuple(values), lowest, values)


def without(question: AnyQuestion, limit: Limit) -> AnyQuestion:
    """Return a question with one limit less."""
    others = tuple(other for other in question.limits if other is not limit)
    return replace(question, limits=others)  # type: ignore[type-var]


def _only(question: AnyQuestion, limit: Limit) -> AnyQuestion:
    return replace(question, limits=(limit,))  # type: ignore[type-var]
