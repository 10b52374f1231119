"""Choose cells one after another, each the one that shrinks the doubt most for what it costs.

If one set of losses is measured, the variance of the forecast falls by what a linear regression of the forecast on
these losses explains over the doubt about the parameters, given the noise of measurement: the Bayesian linear update.

Axes: d = directions of the parameters, c = candidates, m = checkpoints (padded with zeros).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array
from cptlaw.planning.next_runs.cells import CandidateRun, Offer
from cptlaw.planning.next_runs.doubt import Variances
from cptlaw.progress import track

POWERS = (1.0, 0.5, 0.0)  # of the cost by which a gain is divided: per FLOP, between, and regardless of cost
CLOSE = 1.01  # times the width that the best plan leaves: the cheapest plan that comes so far is chosen
AS_CHEAP = 1.02  # times the cost of that plan: what costs so little more counts as cheap, and the narrowest is taken
AS_GOOD = 1.0 - 1e-6  # of the largest gain: so close, the last digits would choose; the first of the cells is taken
LEAST = 2e-3  # of the width: cells that gain less are not worth a line
REPEATS = 2  # of one cell: more would average its noise, but not the error of the law's form there


@dataclass(frozen=True)
class Choice:
    """One chosen cell: what it costs, and the variance that is left after it."""

    candidate: int
    run_flops: float
    base_flops: float
    variance: float


class Openness(Protocol):
    """What is open of a forecast, and what candidates would leave of it."""

    @property
    def variance(self) -> float:
        """Variance of the forecast."""

    def width(self, variance: Array | float) -> Array:
        """Return what the width of the interval is proportional to, at other variances of the forecast."""

    def reductions(self, rows: NDArray[np.intp]) -> Array:
        """Return by how much each of some candidates would reduce the variance, alone, (rows,)."""

    def take(self, places: NDArray[np.intp]) -> Openness:
        """Return the forecast with some of the candidates."""

    def measured(self, candidate: int) -> Openness:
        """Return the same after one candidate was measured."""

    def with_base(self) -> Openness:
        """Return the same after the base model of the asked point was measured."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Forecast and measurements along the directions in which the law is in doubt.

    Parameters
    ----------
    forecast
        (d,); its sum of squares is the variance of the forecast.
    whitened
        Returns `cells`, which nobody asks for after the last choice.
    floor
        Variance of measuring one loss, which stays in the interval whatever is run.
    """

    forecast: Array
    whitened: Callable[[], Array]
    floor: float = 0.0

    @cached_property
    def cells(self) -> Array:
        """Whitened measurements, (c, d, m): in units of their noise."""
        return self.whitened()

    @classmethod
    def of(
        cls, forecast: Array, losses: Array, cells: Sequence[CandidateRun], errors: Variances, noise: float
    ) -> Sample:
        """Bring measurements to the unit of their noise.

        Parameters
        ----------
        forecast
            How the log loss at the asked point moves along each direction, (d,).
        losses
            The same at the checkpoints of all cells, one after another, (d, sum of checkpoints).
        noise
            Half-width of the interval that measuring one loss adds, as a share of that of the forecast.
        """
        counts = [len(cell.checkpoints) for cell in cells]
        whitened = np.zeros((len(cells), len(forecast), max(counts)))
        first = 0
        whiteners = {count: _whitener(count, errors) for count in set(counts)}
        for place, count in enumerate(counts):
            whitened[place, :, :count] = losses[:, first : first + count] @ whiteners[count]
            first += count
        return cls(forecast, lambda: whitened, floor=noise**2 * float(forecast @ forecast))

    def take(self, places: NDArray[np.intp]) -> Sample:
        """Return the forecast with some of the candidates."""
        return Sample(self.forecast, lambda: self.cells[places], self.floor)

    @property
    def variance(self) -> float:
        """Variance of the forecast."""
        return float(self.forecast @ self.forecast)

    def width(self, variance: Array | float) -> Array:
        """Return what the width of the interval is proportional to, at other variances of the forecast."""
        values: Array = np.sqrt(np.maximum(variance, 0.0) + self.floor)
        return values

    def reductions(self, rows: NDArray[np.intp]) -> Array:
        """Return by how much each of some candidates would reduce the variance, alone, (rows,)."""
        cells = self.cells[rows]
        shared = cells.transpose(0, 2, 1) @ self.forecast
        # In units of their noise measurements have the identity as their own covariance.
        inner = cells.transpose(0, 2, 1) @ cells + np.eye(cells.shape[2])
        solved = np.linalg.solve(inner, shared[:, :, None])[:, :, 0]
        values: Array = np.maximum(np.sum(shared * solved, axis=1), 0.0)
        return values

    def measured(self, candidate: int) -> Sample:
        """Return the sample after one candidate was measured."""
        left, singular, _ = np.linalg.svd(self.cells[candidate], full_matrices=False)
        # The square root of the update of a covariance: what is left can be measured again.
        shrink = 1.0 / np.sqrt(1.0 + singular**2) - 1.0
        forecast = self.forecast + left @ (shrink * (left.T @ self.forecast))
        return Sample(forecast, lambda: self.cells + (left * shrink) @ (left.T @ self.cells), self.floor)

    def with_base(self) -> Sample:
        """Return the same: what is in doubt of its parameters a base model does not tell."""
        return self


@dataclass(frozen=True, eq=False)
class AboveGuess:
    """How far a loss lies above that of a base model which is a guess with a doubt of its own.

    Parameters
    ----------
    loss
        What is open of the loss.
    guess
        Variance of the guess; 0 once the base model was measured.
    on_base
        Whether candidates start from that base model, (c,): whoever trains one measures it.
    """

    loss: Openness
    guess: float
    on_base: NDArray[np.bool_]

    @property
    def variance(self) -> float:
        """Variance of the forecast."""
        return self.loss.variance + self.guess

    def width(self, variance: Array | float) -> Array:
        """Return what the width of the interval is proportional to, at other variances of the forecast."""
        return self.loss.width(variance)

    def reductions(self, rows: NDArray[np.intp]) -> Array:
        """Return by how much each of some candidates would reduce the variance, alone, (rows,)."""
        return self.loss.reductions(rows) + self.guess * self.on_base[rows]

    def take(self, places: NDArray[np.intp]) -> AboveGuess:
        """Return the forecast with some of the candidates."""
        return AboveGuess(self.loss.take(places), self.guess, self.on_base[places])

    def measured(self, candidate: int) -> AboveGuess:
        """Return the same after one candidate was measured."""
        return AboveGuess(self.loss.measured(candidate), self.guess * (not self.on_base[candidate]), self.on_base)

    def with_base(self) -> AboveGuess:
        """Return the same after the base model of the asked point was measured."""
        return AboveGuess(self.loss.with_base(), 0.0, self.on_base)


def _whitener(count: int, errors: Variances) -> Array:
    """Return W with W W' the inverse covariance of the points of one run: an offset that they share, and scatter."""
    covariance = errors.within * np.eye(count) + errors.between
    values, vectors = np.linalg.eigh(covariance)
    whitener: Array = vectors / np.sqrt(values)
    return whitener


@dataclass(eq=False)
class _Path:
    """A plan in the making: what it has taken, and what is left of the doubt and of the budget.

    Parameters
    ----------
    sample
        The doubt that is left.
    offer
        What there is to take.
    left
        FLOPs that are left.
    """

    sample: Openness
    offer: Offer
    left: float
    trunks: dict[float, float] = field(default_factory=dict)  # that were paid for: by size, their budget
    taken: list[Choice] = field(default_factory=list)

    def costs(self) -> Array:
        """Return what each cell costs now, with its base."""
        return self.offer.runs + self.offer.base_prices(self.trunks) if self.trunks else self.offer.costs

    def gains(self, places: NDArray[np.intp]) -> Array:
        """Return by how much each of some cells would narrow the interval."""
        variance = self.sample.variance
        return self.sample.width(variance) - self.sample.width(variance - self.sample.reductions(places))

    def take(self, place: int) -> Self:
        """Pay for a cell and measure it."""
        cell = self.offer.cells[place]
        base = float(self.offer.base_prices(self.trunks, slice(place, place + 1))[0])
        self.sample = self.sample.measured(place)
        self.left -= cell.run_flops + base
        if base > 0 and cell.ptpp is not None:
            # A trunk that was paid for to a budget serves all smaller ones: they are stages on its way.
            self.trunks[cell.n_params] = max(self.trunks.get(cell.n_params, 0.0), cell.ptpp)
        self.taken.append(Choice(place, cell.run_flops, base, self.sample.variance))
        return self


def choose(sample: Openness, offer: Offer, budget: float, most: int) -> list[Choice]:
    """Choose cells within a budget.

    A base model costs much at once and pays off over several runs, so that greed alone would never buy one. The search
    is therefore repeated, each time beginning with a cell on another new base, and with gains divided by more or less
    of the cost; the cheapest of the plans that come close to the best one is returned, and of those as cheap the one
    that narrows most.
    """
    within = np.flatnonzero(offer.costs <= budget)
    if not len(within):
        return []
    # Only what can be paid for is carried along; places are mapped back at the end.
    sample, offer = sample.take(within), offer.take(within)
    bases = [_base(cell) for cell in offer.cells]
    alone = sample.reductions(np.arange(len(bases)))
    begin = partial(_Path, sample, offer, budget)
    plans = []
    on_new = sorted({base for base, new in zip(bases, offer.costs > offer.runs, strict=True) if new})
    for base in track((None, *on_new), "choosing runs"):
        opening = np.array([one == base for one in bases])
        for power in POWERS:
            # The base is bought for several runs, so its price does not count in choosing the first of them.
            first = None if base is None else _best_first(np.where(opening, alone / offer.runs**power, -1.0))
            plans.append(_greedy(begin(), most, power, first))
    widths = [float(sample.width(plan[-1].variance if plan else sample.variance)) for plan in plans]
    enough = CLOSE * min(widths)
    close = [(width, _cost(plan), plan) for plan, width in zip(plans, widths, strict=True) if width <= enough]
    # Plans within a few per cent of each other differ by less than the doubt is known; among such the cheaper one is
    # better.
    cheap = AS_CHEAP * min(cost for _, cost, _ in close)
    best = min((one for one in close if one[1] <= cheap), key=lambda one: one[:2])[2]
    best = _in_order(begin(), _without_idle_bases(begin, best, enough))
    return [replace(step, candidate=int(within[step.candidate])) for step in best]


def _base(cell: CandidateRun) -> tuple[float, float]:
    return cell.n_params, cell.ptpp or 0.0


def _best_first(values: Array) -> int:
    """Return the place of the largest value; of those equal but for their last digits, the first."""
    return int((values >= AS_GOOD * values.max()).argmax())


def _cost(plan: Sequence[Choice]) -> float:
    return sum(step.run_flops + step.base_flops for step in plan)


def _without_idle_bases(begin: Callable[[], _Path], plan: list[Choice], enough: float) -> list[Choice]:
    """Leave out the cells of each new base without which the interval is still narrow enough."""
    cells = begin().offer.cells
    for base in sorted({_base(cells[step.candidate]) for step in plan if step.base_flops > 0}):
        rest = begin()
        for step in plan:
            if _base(cells[step.candidate]) != base:
                rest.take(step.candidate)
        if rest.taken and rest.sample.width(rest.sample.variance) <= enough:
            plan = rest.taken
    return plan


def _in_order(course: _Path, plan: Sequence[Choice]) -> list[Choice]:
    """Return a plan's cells so that each is the one of those left that gains most per FLOP.

    What the plan costs stays the same: a trunk costs as much as its last stage, in whatever order it is bought.
    """
    left = [step.candidate for step in plan]
    while left:
        course.take(left.pop(_best_first(course.gains(np.array(left)) / course.costs()[left])))
    return course.taken


def _greedy(course: _Path, most: int, power: float, first: int | None) -> list[Choice]:
    costs = course.costs()
    times = np.zeros(len(costs), dtype=int)
    while len(course.taken) < most:
        if first is not None and not course.taken:
            best = first
        else:
            # A cell may come again, with another seed: noise is averaged as long as that narrows most.
            rows = np.flatnonzero((costs <= course.left) & (times < REPEATS))
            if not len(rows):
                break
            gains = course.gains(rows)
            # A tiny cell has the best gain per FLOP for ever: below this share of the width it changes no decision.
            worth = gains >= LEAST * course.sample.width(course.sample.variance)
            if not worth.any():
                break
            best = int(rows[_best_first(np.where(worth, gains / costs[rows] ** power, -1.0))])
        times[best] += 1
        if course.take(best).taken[-1].base_flops > 0:
            costs = course.costs()
    return course.taken
