"""The stated objective with penalties: value, exact gradient and Hessian, for many problems side by side.

    F(c, z) = sum_n w_n Huber_delta(log L_n(c, z) - log y_n) + penalties

Axes: s = problems (starts, bootstrap samples, points of a profile), n = rows, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cptlaw.fitting.solving.huber import huber
from cptlaw.fitting.solving.loss_at import LossAt
from cptlaw.fitting.solving.priors import Penalty, squares
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array

SLOPE_STEP = 1e-4  # of the ratio, for the slope that monotone=soft penalises


@dataclass(frozen=True, eq=False)
class ForecastPenalty:
    """A penalty that draws the forecast at one point to a wanted value: 0.5 * weight * (log L(x) - log_loss)^2.

    Parameters
    ----------
    rows
        The law at the points.
    beside
        The rows of the objective, then these; None where inputs cannot be stacked, and then there is one point.
    of
        The point of each problem, (s,).
    log_loss
        Wanted log loss of each problem, (s,).
    weight
        Stiffness, in rows of data.
    """

    rows: Problem
    beside: Problem | None
    of: NDArray[np.intp]
    log_loss: Array
    weight: float

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> ForecastPenalty:
        """Return the penalty on some of the problems."""
        return replace(self, of=self.of[rows], log_loss=self.log_loss[rows])

    def squares(self, loss: LossAt, order: int) -> tuple[Array, Array, Array, Array]:
        """Return total (s,), gradient (s, v), Gauss-Newton matrix and Hessian (s, v, v), given the loss there."""
        value, slope = np.log(loss.value) - self.log_loss[:, None], loss.slopes[:, :, 0] / loss.value
        outer = slope[:, :, None] * slope[:, None, :]
        product = self.weight * outer
        bend: Array | float = 0.0
        if order > 1:
            bend = self.weight * value[:, :, None] * (loss.curvature(1.0 / loss.value) - outer)
        return 0.5 * self.weight * value[:, 0] ** 2, self.weight * value * slope, product, product + bend


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised.

    Parameters
    ----------
    weights
        Weight of each row, (s, n); ones where absent.
    rising
        Weight of the penalty on losses that rise with the law's ratio at the rows (``monotone=soft``).
    forecast
        A wanted forecast at one point.
    """

    problem: Problem
    delta: float
    weights: Array | None = None
    penalty: Penalty | None = None
    rising: float = 0.0
    forecast: ForecastPenalty | None = None

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Objective:
        """Return the objective of some of the problems."""
        return replace(
            self,
            weights=None if self.weights is None else self.weights[rows],
            penalty=self.penalty
            if self.penalty is None or np.ndim(self.penalty.means) == 1
            else replace(self.penalty, means=self.penalty.means[rows]),
            forecast=None if self.forecast is None else self.forecast.take(rows),
        )

    def evaluate(self, v: Array, order: int = 2) -> dict[str, Array]:
        """Return data part, total, gradient, Hessian and the majorising Gauss-Newton matrix at v, (s, v).

        Beside them stands the total without the wanted forecast, under "unforced".

        With ``order`` 1 no second derivatives are taken, and the majorising matrix stands for the Hessian.
        """
        problem, delta, weights = self.problem, self.delta, self.weights
        along, forecast = None if self.penalty is None else self.penalty.along, self.forecast
        rows = problem if along is None else along.beside
        taken = rows if forecast is None or forecast.beside is None else forecast.beside
        loss = together = LossAt.of(taken, v, order, fitted=None if taken is problem else problem.n)
        if taken is not problem:
            loss = together.rows(slice(problem.n))
        tilted = None if along is None else together.rows(slice(problem.n, rows.n))
        # A law of curves subtracts terms and may cross zero on its way; the logarithm then refuses the step by its
        # size.
        positive = np.maximum(loss.value, 1e-300)
        inverse = 1.0 / positive
        jacobian = loss.slopes * inverse[:, None, :]
        residual = np.log(positive) - problem.log_loss
        magnitude = np.abs(residual)
        psi = np.clip(residual, -delta, delta)  # derivative of the Huber function
        inside = (magnitude <= delta).astype(float)
        # The weights of iteratively reweighted least squares: a parabola with them touches the Huber function at the
        # residual and lies above it everywhere else.
        majorising = np.minimum(1.0, delta / np.maximum(magnitude, 1e-300))
        cost = huber(residual, delta)
        if weights is not None:
            psi, inside, majorising, cost = psi * weights, inside * weights, majorising * weights, cost * weights
        objective = cost.sum(axis=1)
        gradient = np.matmul(jacobian, psi[:, :, None])[:, :, 0]
        transposed = jacobian.transpose(0, 2, 1)
        weighed = jacobian * majorising[:, None, :]
        majoriser = weighed @ transposed
        # d2/dv2 of rho(log L): rho'' J J' and rho' (L''/L - J J'), of which the last part joins the first here.
        if order > 1:
            hessian = np.multiply(jacobian, (inside - psi)[:, None, :], out=weighed) @ transposed
            hessian += loss.curvature(psi * inverse)
        else:
            hessian = majoriser.copy()
        result = {
            "objective": objective,
            "total": objective.copy(),
            "gradient": gradient,
            "hessian": hessian,
            "majoriser": majoriser,
        }
        if self.penalty is not None:
            _add(result, *squares(problem, v, self.penalty, loss.scales, tilted, order))
        result["unforced"] = result["total"].copy()
        if forecast is not None:
            if forecast.beside is None:
                there = LossAt.of(forecast.rows, v, order, loss.scales)
            else:
                there = together.row_of_each(rows.n + forecast.of)
            _add(result, *forecast.squares(there, order))
        if self.rising:
            # A central difference in the ratio: a law's terms carry derivatives by parameters, and not by inputs.
            up, down = (LossAt.of(problem.at_ratio(sign * SLOPE_STEP), v, order, loss.scales) for sign in (1.0, -1.0))
            _add(result, *_rising(up, down, 0.5 / SLOPE_STEP / problem.loss, self.rising, order))
        total = result["total"]
        finite = np.isfinite(total) & np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(majoriser).all(axis=(1, 2))
        if not finite.all():
            # A start that is not finite stays where it is: a step of zero, refused, ends it.
            total[~finite], gradient[~finite] = np.inf, 0.0
            hessian[~finite] = majoriser[~finite] = np.eye(problem.size)
        return result


def _add(result: dict[str, Array], total: Array, gradient: Array, majoriser: Array, hessian: Array) -> None:
    for name, part in (("total", total), ("gradient", gradient), ("majoriser", majoriser), ("hessian", hessian)):
        result[name] += part


def _rising(up: LossAt, down: LossAt, step: Array, weight: float, order: int) -> tuple[Array, Array, Array, Array]:
    """Return total, gradient and matrices of 0.5 * weight * sum over rows of (the relative slope where positive)^2."""
    slope = np.maximum((up.value - down.value) * step, 0.0)
    on = (slope > 0) * step
    slopes = (up.slopes - down.slopes) * on[:, None, :]
    gradient = weight * np.einsum("sn,svn->sv", slope, slopes)
    product = weight * (slopes @ slopes.transpose(0, 2, 1))
    bend = weight * (up.curvature(slope * on) - down.curvature(slope * on)) if order > 1 else 0.0
    return 0.5 * weight * np.sum(slope * slope, axis=1), gradient, product, product + bend
