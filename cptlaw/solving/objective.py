"""The stated objective with penalties: value, exact gradient and Hessian, for many problems side by side.

    F(c, z) = sum_n w_n Huber_delta(log L_n(c, z) - log y_n) + penalties

Axes: s = problems (starts, bootstrap samples, points of a profile), n = rows, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array, Jet, log
from cptlaw.solving.huber import huber
from cptlaw.solving.problem import Problem

TINY = 1e-12  # of an amplitude in nats, below which its logarithm is not taken
SLOPE_STEP = 1e-4  # of the ratio, for the slope that monotone=soft penalises


@dataclass(frozen=True)
class Penalty:
    """Priors on free coordinates: 0.5 * weight * ((value - mean) / sd)^2.

    Parameters
    ----------
    coordinates
        Indices of the coordinates.
    means, sds
        Of the prior, (priors,); means also (s, priors), another one for each problem.
    weight
        What half a squared standard score counts beside the objective.
    scales
        What `means` and `sds` speak of: the parameter's ``"value"``, its ``"log"``, or the log of the ``"share"`` that
        its term has in the mean loss.
    root
        Lower triangular root of the priors' correlations, (priors, priors), where some are correlated.
    """

    coordinates: tuple[int, ...]
    means: Array
    sds: Array
    weight: float
    scales: tuple[str, ...]
    root: Array | None = None


@dataclass(frozen=True, eq=False)
class ForecastPenalty:
    """A penalty that draws the forecast at one point to a wanted value: 0.5 * weight * (log L(x) - log_loss)^2.

    Parameters
    ----------
    x
        The point, as `Law.bind` returns one row, or a point for each problem: columns of shape (s, 1).
    log_loss
        Wanted log loss of each problem, (s,).
    weight
        Stiffness, in rows of data.
    """

    x: SimpleNamespace
    log_loss: Array
    weight: float

    def take(self, rows: Any) -> ForecastPenalty:
        """Return the penalty on some of the problems."""
        columns = vars(self.x)
        if all(np.ndim(getattr(column, "value", column)) == 2 for column in columns.values()):
            return ForecastPenalty(
                SimpleNamespace(**{name: column[rows] for name, column in columns.items()}),
                self.log_loss[rows],
                self.weight,
            )
        return replace(self, log_loss=self.log_loss[rows])


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

    def take(self, rows: Any) -> Objective:
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

        With ``order`` 1 no second derivatives are taken, and the majorising matrix stands for the Hessian.
        """
        problem, delta, weights = self.problem, self.delta, self.weights
        k, n, s, size = problem.k, problem.n, len(v), problem.size
        c = v[:, :k]
        offset, columns = problem.columns(v[:, k:], order)
        columns, scales = problem.normalised(columns)
        parts = [(column, c[:, i : i + 1]) for i, column in enumerate(columns)] + [(offset, 1.0)]
        loss = np.zeros((s, n))
        jacobian = np.zeros((s, size, n))
        for i, (part, amplitude) in enumerate(parts):
            value = part.value if isinstance(part, Jet) else part
            loss += amplitude * value
            if i < k:
                jacobian[:, i] = value
            if isinstance(part, Jet):
                for index, slope in part.slopes.items():
                    jacobian[:, index] += amplitude * slope
        # A law of curves subtracts terms and may cross zero on its way; the logarithm then refuses the step by its
        # size.
        positive = np.maximum(loss, 1e-300)
        inverse = 1.0 / positive
        jacobian *= inverse[:, None, :]
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
        gradient = np.einsum("svn,sn->sv", jacobian, psi)
        transposed = jacobian.transpose(0, 2, 1)
        majoriser = (jacobian * majorising[:, None, :]) @ transposed
        # d2/dv2 of rho(log L): rho'' J J' and rho' (L''/L - J J'), of which the last part joins the first here; L''
        # follows.
        hessian = (jacobian * (inside - psi)[:, None, :]) @ transposed if order > 1 else majoriser.copy()
        if order > 1:
            _add_curvature(hessian, parts, psi * inverse, k)
        total = objective.copy()
        found = {
            "objective": objective,
            "total": total,
            "gradient": gradient,
            "hessian": hessian,
            "majoriser": majoriser,
        }
        needed = self.penalty or self.forecast or self.rising
        amplitudes = [natural(problem, v, i, scales, order) for i in range(k)] if needed else []
        if self.penalty is not None:
            _add_squares(_scores(problem, v, scales, amplitudes, self.penalty, order), self.penalty.weight, found)
        if self.forecast is not None:
            at_point = _loss(problem.moved_to(self.forecast.x), v, amplitudes, order)
            _draw_to(self.forecast, at_point, found)
        if self.rising:
            # A central difference in the ratio: a law's terms carry derivatives by parameters, and not by inputs.
            up, down = (_loss(problem.at_ratio(sign * SLOPE_STEP), v, amplitudes, order) for sign in (1.0, -1.0))
            slope = (up - down) * (0.5 / SLOPE_STEP / problem.loss)
            _add_square(slope, self.rising, found, only_positive=True)
        finite = np.isfinite(total) & np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(majoriser).all(axis=(1, 2))
        total[~finite] = np.inf
        # A start that is not finite stays where it is: a step of zero, refused, ends it.
        for matrix in (hessian, majoriser):
            matrix[~finite] = np.eye(size)
        gradient[~finite] = 0.0
        return found


def priors_on(problem: Problem, weight: float) -> Penalty | None:
    """Return the priors of a problem's restraint as a penalty, `None` where there is none."""
    priors = problem.restraint.priors
    names = [name for name in problem.free if name in priors]
    if not names:
        return None
    correlation = np.eye(len(names))
    for (one, other), value in problem.restraint.correlations.items():
        if one in names and other in names:
            i, j = names.index(one), names.index(other)
            correlation[i, j] = correlation[j, i] = value
    return Penalty(
        coordinates=tuple(problem.free.index(name) for name in names),
        means=np.array([priors[name].centre for name in names]),
        sds=np.array([priors[name].sd for name in names]),
        weight=weight,
        scales=tuple(priors[name].scale for name in names),
        # Scores times the inverse of this root are independent, so that correlated priors are a sum of squares as well.
        root=np.asarray(np.linalg.cholesky(correlation), dtype=float) if problem.restraint.correlations else None,
    )


def penalty_of(problem: Problem, v: Array, penalty: Penalty | None) -> Array:
    """Return what the priors add to the objective at v, (s,)."""
    total = np.zeros(len(v))
    if penalty is not None:
        _, scales = problem.normalised(problem.columns(v[:, problem.k :], order=1)[1])
        amplitudes = [natural(problem, v, i, scales, 1) for i in range(problem.k)]
        for score in _scores(problem, v, scales, amplitudes, penalty, 1):
            total += 0.5 * penalty.weight * np.broadcast_to(score.value, (len(v), 1))[:, 0] ** 2
    return total


def _add_curvature(hessian: Array, parts: list[Any], lever: Array, k: int) -> None:
    """Add what is left of the second derivative of log L: the second derivatives of the terms.

    Parameters
    ----------
    hessian
        Changed in place, (s, v, v).
    parts
        Columns with their amplitudes, then the part without.
    lever
        Derivative of the objective by the loss of each row, (s, n).
    k
        Number of columns with a free amplitude.
    """
    for i, (part, amplitude) in enumerate(parts):
        if not isinstance(part, Jet):
            continue
        lifted = lever * amplitude
        if i < k:
            for index, slope in part.slopes.items():
                mixed = np.sum(lever * slope, axis=1)
                hessian[:, i, index] += mixed
                hessian[:, index, i] += mixed
        for (a, b), curve in (part.curves or {}).items():
            bend = np.sum(lifted * curve, axis=1)
            hessian[:, a, b] += bend
            if a != b:
                hessian[:, b, a] += bend


def _scores(
    problem: Problem, v: Array, scales: list[Any], amplitudes: list[Jet], penalty: Penalty, order: int
) -> list[Jet]:
    """Return the standard score of each prior as a Jet (s, 1); of correlated ones, what each adds to those before.

    `amplitudes` are the natural ones, as `natural` gives them from `scales`.
    """
    found: list[Jet] = []
    shapes = problem.shapes(v[:, problem.k :], order)
    for i, (index, sd, scale) in enumerate(zip(penalty.coordinates, penalty.sds, penalty.scales, strict=True)):
        mean = penalty.means[..., i]
        # On the normalised scale an amplitude is the mean of its term over the rows, so that its share of the mean loss
        # needs no more than that mean.
        if scale == "share":
            coordinate = np.maximum(v[:, index : index + 1], TINY)  # it may come down to 0, its logarithm not
            share: Jet = Jet(coordinate, {index: np.ones_like(coordinate)}, {} if order > 1 else None)
            value = log(share) - float(np.log(problem.loss.mean()))
        elif index >= problem.k:
            value = getattr(shapes, problem.shape_groups[index - problem.k][0])
            value = log(value) if scale == "log" else value
        else:
            value = amplitudes[index]
            if scale == "log":
                value = log(value)
        score = (value - (mean[:, None] if np.ndim(mean) else mean)) * (1.0 / sd)
        if penalty.root is not None:
            for j in np.flatnonzero(penalty.root[i, :i]):
                score = score - found[j] * float(penalty.root[i, j])
            score = score * float(1.0 / penalty.root[i, i])
        found.append(score)
    return found


def natural(problem: Problem, v: Array, index: int, scales: list[Any], order: int = 2) -> Jet:
    """Return the natural value of one coordinate as a Jet over all coordinates, shape (s, 1)."""
    if index >= problem.k:
        name = problem.shape_groups[index - problem.k][0]
        value: Jet = getattr(problem.shapes(v[:, problem.k :], order), name)
        return value
    coordinate = v[:, index : index + 1]
    natural: Jet = Jet(coordinate, {index: np.ones_like(coordinate)}, {} if order > 1 else None) / scales[index]
    return natural


def _loss(problem: Problem, v: Array, amplitudes: list[Jet], order: int) -> Jet:
    """Return the losses at the rows of `problem`, given natural amplitudes from elsewhere, as a Jet (s, n)."""
    offset, columns = problem.columns(v[:, problem.k :], order)
    total: Any = offset
    for k, column in enumerate(columns):
        total = total + amplitudes[k] * column
    return total if isinstance(total, Jet) else Jet(total, {}, {})


def _draw_to(forecast: ForecastPenalty, loss: Jet, found: dict[str, Array]) -> None:
    """Add 0.5 * weight * (log of the loss at the point - what is wanted)^2 to total, gradient, matrices, in place."""
    s, size = found["gradient"].shape
    slope, curve = np.zeros((s, size)), np.zeros((s, size, size))
    for i, one in loss.slopes.items():
        slope[:, i : i + 1] = one
    for (i, j), one in (loss.curves or {}).items():
        curve[:, i, j : j + 1] = one
        curve[:, j, i : i + 1] = one
    # In matrices, not pair by pair: all pairs of parameters meet in the logarithm, and the arrays are tiny.
    value = np.log(loss.value) - forecast.log_loss[:, None]
    slope /= loss.value
    curve /= loss.value[:, :, None]
    outer = slope[:, :, None] * slope[:, None, :]
    weight = forecast.weight
    found["total"] += 0.5 * weight * value[:, 0] ** 2
    found["gradient"] += weight * value * slope
    found["majoriser"] += weight * outer
    found["hessian"] += weight * outer
    if loss.curves is not None:
        found["hessian"] += weight * value[:, :, None] * (curve - outer)


def _add_squares(scores: list[Jet], weight: float, found: dict[str, Array]) -> None:
    """Add 0.5 * weight * the sum of squares of scores, (s, 1) each, to total, gradient and matrices, in place."""
    s, size = found["gradient"].shape
    # All at once, for the arrays are tiny: what counts is how often NumPy is called.
    value, slopes = np.empty((s, len(scores))), np.zeros((s, size, len(scores)))
    for j, score in enumerate(scores):
        value[:, j : j + 1] = score.value
        for i, slope in score.slopes.items():
            slopes[:, i, j : j + 1] = slope
    found["total"] += 0.5 * weight * np.sum(value * value, axis=1)
    found["gradient"] += weight * np.einsum("sn,sin->si", value, slopes)
    product = weight * (slopes @ slopes.transpose(0, 2, 1))
    found["hessian"] += product
    found["majoriser"] += product
    for j, score in enumerate(scores):
        for (a, b), curve in (score.curves or {}).items():
            bend = weight * value[:, j] * (curve[:, 0] if np.ndim(curve) else curve)
            found["hessian"][:, a, b] += bend
            if a != b:
                found["hessian"][:, b, a] += bend


def _add_square(u: Jet, weight: float, found: dict[str, Array], only_positive: bool = False) -> None:
    """Add 0.5 * weight * sum over rows of u^2 (of its positive part) to total, gradient and matrices, in place."""
    shape = np.shape(u.value)
    on = (u.value > 0).astype(float) if only_positive else np.ones(shape)
    value = u.value * on
    found["total"] += 0.5 * weight * np.sum(value * value, axis=1)
    # Stacked, for the arrays are tiny: what counts is how often NumPy is called.
    at = np.array(list(u.slopes), dtype=np.intp)
    if len(at):
        slopes = np.stack([np.broadcast_to(slope, shape) for slope in u.slopes.values()], axis=1) * on[:, None]
        found["gradient"][:, at] += weight * np.einsum("sn,sin->si", value, slopes)
        product = weight * (slopes @ slopes.transpose(0, 2, 1))
        found["hessian"][:, at[:, None], at] += product
        found["majoriser"][:, at[:, None], at] += product
    if u.curves:
        pairs = np.array(list(u.curves), dtype=np.intp)
        curves = np.stack([np.broadcast_to(curve, shape) for curve in u.curves.values()], axis=1)
        bends = weight * np.einsum("sn,spn->sp", value, curves)
        for place, (i, j) in enumerate(pairs):
            found["hessian"][:, i, j] += bends[:, place]
            if i != j:
                found["hessian"][:, j, i] += bends[:, place]
