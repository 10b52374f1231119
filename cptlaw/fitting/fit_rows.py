"""Fit a law to rows that are already selected: a global search, the polish of its optima, and findings about both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import FitError
from cptlaw.findings import by_severity
from cptlaw.fitting.checking.design import check_rows
from cptlaw.fitting.checking.optimum import check_independence, check_optimum, check_search
from cptlaw.fitting.checking.residuals import check_residuals
from cptlaw.fitting.checking.unread import check_unread
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.solving import identifiability as identify
from cptlaw.fitting.solving import newton, varpro
from cptlaw.fitting.solving.blocks import along_runs, independent_blocks
from cptlaw.fitting.solving.huber import noise_weight
from cptlaw.fitting.solving.newton import Descent
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.priors import Penalty, priors_on
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.laws import Law
from cptlaw.laws.calculus import Array

AGREE = 1e-3  # starts whose polished objective is within this share of the best agree with it
# With a prior on every parameter few starts agree mostly; where none does, as where rows were doubled, more are taken.
FEW_STARTS, MORE_STARTS = 4, 16
PROBED_STARTS = 4  # starts at which a law is evaluated before it is fitted, to see whether any row is infinite
# Kept with a fit even where its law does not read them, so that a forecast elsewhere can say so.
KNOWN_INPUTS = ("ptpp", "n_params", "tokens", "samples", "replay", "lr_peak", "seed", "base")
MOST_SEARCHED_OF_CURVES = 250  # rows of loss curves on which the global search runs; the polish takes all
MOST_SEARCHED = 4000  # rows of other tables; of more it takes half as many, and some of each level of each input
ROWS_OF_LEVEL = 4
MOST_LEVELS = 100  # of an input: one with more values has no levels
LEADING = 0.02  # share above the best objective on the searched rows, up to which an optimum is polished on all
# For a fit that says how large residuals are, nothing else: few steps from all, the best further, under priors that
# only bound its valleys. Without, it stopped anywhere in a flat one, and noise of 1e-9 moved what priors count by 1e-3.
SCALE_STEPS, SCALE_END, FAINT, TIED = 8, 1000, 1e-6, 1e-9
SMALLEST_SHARE = 1e-4  # of the loss, at which a term with a prior on its share starts at least
SOFT_WEIGHT = 1.0  # of squared relative slopes dL/dr > 0 under monotone=soft, beside squared log residuals


def fit_rows(
    training: TrainingRows,
    options: Options,
    base: pd.DataFrame | None = None,
    provenance: Provenance | None = None,
    checked: bool = True,
    near: LawFit | None = None,
) -> LawFit:
    """Fit on rows that are already selected: what `fit`, compare and the studies share.

    Parameters
    ----------
    training
        Law, rows and role.
    options
        How to fit.
    base
        Losses of base models that the fit keeps.
    provenance
        Where the rows are from.
    checked
        Whether rows and residuals are looked at for findings; they cost a third of a fit, and nobody reads those of
        one that only helps another.
    near
        A fit of the law to about the same rows: one search starts where it ended, in place of `options.starts`.

    Raises
    ------
    FitError
        If the rows cannot determine the law.
    """
    chosen, frame = training.law, training.frame
    problem = Problem(chosen, chosen.bind(frame, training.role), frame["loss"].to_numpy(dtype=float), options.restraint)
    if problem.n + len(options.restraint.priors) < problem.size:
        raise FitError(
            f"{problem.n} points cannot determine the {problem.size} free parameters of law {chosen.name}. Add runs, "
            f"hold parameters with --fix or --tie, or choose a smaller law."
        )
    _refuse_infinite(chosen, frame, problem)
    before = check_rows(chosen, frame, problem) if checked else ()
    for finding in before:
        if finding.code == "one-level" and not options.restraint.priors:
            raise FitError(f"{finding.message} {finding.advice}")
    redundancy = _redundancy_of(chosen, frame)

    def search(how: Options, begin: Array | None = None) -> tuple[Descent, Array, float]:
        if training.role != "source" or begin is not None:
            return minimise(problem, chosen, how, redundancy, begin)
        # The fit of a target loss fits its source loss first, which is then fitted for itself.
        return FITS.fitted(lambda: minimise(problem, chosen, how, redundancy), training, repr(how))

    begin = None
    if near is not None and near.problem().free == problem.free:
        begin, options = near.optima[:1, problem.k :], replace(options, starts=1)
    descent, members, prior_weight = search(options, begin)
    if options.restraint.priors and 1 < options.starts <= FEW_STARTS and _agreeing(descent, members) < 2:
        options = replace(options, starts=MORE_STARTS)
        descent, members, prior_weight = search(options)
    best, agree = int(np.argmin(descent.total)), _agreeing(descent, members)
    c, z = descent.c[best], descent.z[best]
    matrix = identify.jacobian(problem, c, z)
    rank = identify.rank(matrix)
    after = list(check_optimum(chosen, problem, c, z, matrix, rank))
    residual = log_residuals(problem, c, z)
    if checked:
        after += [*check_residuals(frame, residual, matrix, options.delta), *check_unread(chosen, frame, residual)]
    converged = descent.status[best] == newton.CONVERGED
    after += check_search(converged, agree, options.starts)
    params = dict(zip(chosen.parameters, map(float, problem.parameters(c[None], z[None])[0]), strict=True))
    if not np.isfinite([*params.values()]).all():
        raise FitError(f"no number can hold the parameters of law {chosen.name} that fit these losses. Choose another.")
    wanted = ("domain", *chosen.inputs, *KNOWN_INPUTS)
    if chosen.needs_schedules:
        wanted = (*wanted, "step", "phase", *chosen.objects)
    keep = ["run", *dict.fromkeys(name for name in wanted if name in frame.columns), "loss"]
    fitted = LawFit(
        law=chosen,
        on=training.on,
        role=training.role,
        params=chosen.with_signs(params, training.role),
        objective=float(descent.objective[best]),
        n_points=problem.n,
        n_runs=int(frame["run"].nunique()),
        status="converged" if converged else "not converged",
        n_starts=options.starts,
        n_agree=agree,
        rank=rank,
        n_free=problem.size,
        findings=(),
        data=frame[keep].reset_index(drop=True),
        base=pd.DataFrame(columns=["n_params", "ptpp", "loss"]) if base is None else base,
        options=options,
        provenance=Provenance(**provenance or {}),
        optima=_near_optima(descent, best, problem.n),
        schedules=dict(training.schedules),
        prior_weight=prior_weight,
    )
    after += [*chosen.notes(fitted.params, frame), *check_independence(fitted)]
    return replace(fitted, findings=by_severity([*training.findings, *before, *after]))


def _refuse_infinite(chosen: Law, frame: pd.DataFrame, problem: Problem) -> None:
    """Refuse rows at which a law is infinite whatever its parameters, as where a share that it divides by is 0."""
    with np.errstate(all="ignore"):
        terms = problem.columns(problem.starts(PROBED_STARTS, np.random.default_rng(0)), 0)
        beyond = np.flatnonzero((~np.isfinite(sum(term.value for term in terms))).all(axis=0))
    if len(beyond):
        row = frame.iloc[beyond[0]]
        at = ", ".join(f"{name} {row[name]:g}" for name in chosen.inputs if name in frame.columns)
        raise FitError(
            f"law {chosen.name} is infinite in {len(beyond)} of {len(frame)} rows, as in row {row.name} ({at}). Leave "
            f"them out (--where), or choose another law."
        )


def _agreeing(descent: Descent, members: Array) -> int:
    """Return how many starts reached the best optimum, to a share of the objective that no data could tell apart."""
    # Starts that ended at the same point count once in the polish and as often as they came there here.
    return int(members[descent.total <= descent.total.min() * (1 + AGREE) + 1e-26].sum())


def _near_optima(descent: Descent, best: int, n: int) -> Array:
    """Return the coordinates of all optima that the data cannot tell from the best, which comes first.

    Objectives that differ by less than four shares in n would pass a likelihood-ratio test at the 95 % level. In a flat
    valley every start ends elsewhere, so these points spread along what the data does not see.
    """
    coordinates = np.concatenate([descent.c, descent.z], axis=1)
    order = np.argsort(descent.total, kind="stable")
    near = [i for i in order if i != best and descent.total[i] <= descent.total[best] * (1 + 4.0 / n) + 1e-26]
    return coordinates[[best, *near]]


def _redundancy_of(chosen: Law, frame: pd.DataFrame) -> Callable[[Array], float]:
    """Return a function of the residuals: rows per independent row, 1 unless the law is of loss curves."""
    if chosen.correlated_along not in frame.columns:
        return lambda residual: 1.0
    run, order = frame["run"].to_numpy(dtype=str), along_runs(frame)
    return lambda residual: len(residual) / sum(independent_blocks(run, order, residual)[1].values())


def minimise(
    problem: Problem,
    chosen: Law,
    options: Options,
    redundancy: Callable[[Array], float] = lambda residual: 1.0,
    begin: Array | None = None,
) -> tuple[Descent, Array, float]:
    """Search from all starts and polish each distinct optimum.

    Parameters
    ----------
    redundancy
        Function of the log residuals: rows per independent row. A prior counts like one independent row.
    begin
        Shapes from which to search, (s, m), in place of those that are drawn.

    Returns
    -------
    Descent
        The distinct optima, in order of the search's cost.
    array of int
        How many starts ended at each.
    float
        What half a squared standard score of a prior counts beside the objective, 0 without priors.
    """
    # Search first, on relative errors and over the shapes alone; then polish what is distinct on the stated objective.
    starts = _starts(problem, options) if begin is None else begin
    curves = chosen.correlated_along is not None
    searched, weight = problem, None
    if problem.k:
        searched = _searched(problem, curves)
        c, z, cost = varpro.search(searched, starts)
        chosen_starts, members = _distinct(problem, z, cost)
        c, z = c[chosen_starts], z[chosen_starts]
    else:  # no amplitude to project out: the polish is the search
        c, z, members = np.zeros((len(starts), 0)), starts, np.ones(len(starts), dtype=int)
    if searched is not problem:
        if not curves:  # of many rows a part says which optimum is the best, and how far they scatter
            weight = _prior_weight(searched, options, redundancy, c, z)
            near = _polished(searched, options, c, z, weight * searched.n / problem.n)
            c, z, members = _possibly_best(near, members)
        # The scale of a column is its mean over the rows, so coordinates change with the rows.
        c = c * problem.scales(z) / searched.scales(z)
    if weight is None:
        weight = _prior_weight(problem, options, redundancy, c, z)
    return _polished(problem, options, c, z, weight), members, weight


def _starts(problem: Problem, options: Options) -> Array:
    """Return the shapes from which the search begins, (s, m): the same for every seed where priors say where to look.

    Few rows leave optima of the same probability (1.461e-3 and 1.462e-3 of the objective, from three runs): which of
    them a few starts come to first must not decide a forecast.
    """
    informed = all(group[0] in options.restraint.priors for group in problem.shape_groups)
    return problem.starts(options.starts, np.random.default_rng(0 if informed else options.seed))


def _objective(problem: Problem, options: Options) -> Objective:
    """Return the objective without priors."""
    rising = SOFT_WEIGHT if getattr(problem.law, "monotone", None) == "soft" else 0.0
    return Objective(problem, options.delta, rising=rising)


def _polished(problem: Problem, options: Options, c: Array, z: Array, weight: float) -> Descent:
    """Return the optima of the objective, priors of a weight included, that starts lead to."""
    penalty = priors_on(problem, weight) if options.restraint.priors else None
    goal = replace(_objective(problem, options), penalty=penalty)
    return newton.descend(goal, _off_zero(problem, penalty, c), z)


def _prior_weight(
    problem: Problem, options: Options, redundancy: Callable[[Array], float], c: Array, z: Array
) -> float:
    """Scale the priors by the residuals of a fit that they hardly hold: each counts like one independent observation.

    Where as many parameters as rows leave no residual, the floor of the noise stands in; 0 without priors.
    """
    if not options.restraint.priors:
        return 0.0
    alone = _objective(problem, options)
    free = newton.descend(alone, c, z, SCALE_STEPS)
    # Where a term is zero its shapes are free: of starts that tie the first, or rounding would choose among them.
    best = [int(np.argmax(free.objective <= (1.0 + TIED) * free.objective.min()))]
    faint = priors_on(problem, FAINT)
    at, bounded = _off_zero(problem, faint, free.c[best]), replace(alone, penalty=faint)
    free = newton.descend(bounded, at, free.z[best], SCALE_END)
    residual = log_residuals(problem, free.c[0], free.z[0])
    weight = noise_weight(residual, options.delta, problem.n - problem.size, options.restraint.noise)
    return weight * redundancy(residual)


def _off_zero(problem: Problem, penalty: Penalty | None, c: Array) -> Array:
    """Return amplitudes, (s, k), raised off zero where they have a prior on their logarithm or on their share."""
    c = c.copy()  # the search leaves terms out
    for index, scale in zip(penalty.coordinates, penalty.scales, strict=True) if penalty else ():
        if scale != "value" and index < problem.k:
            c[:, index] = np.maximum(c[:, index], SMALLEST_SHARE * float(problem.loss.mean()))
    return c


def _searched(problem: Problem, curves: bool) -> Problem:
    """Return the problem on the rows that the search looks at: all, where they are not many.

    Of loss curves neighbouring points say the same. Of other tables rows are taken evenly along the inputs in order,
    and some of each level of each input, so that no direction of the law is lost.
    """
    if curves:
        if problem.n <= MOST_SEARCHED_OF_CURVES:
            return problem
        return problem.subset(np.unique(np.linspace(0, problem.n - 1, MOST_SEARCHED_OF_CURVES).round().astype(int)))
    if problem.n <= MOST_SEARCHED:
        return problem
    inputs = [np.asarray(getattr(column, "value", column), dtype=float) for column in vars(problem.x).values()]
    inputs = [values for values in inputs if values.shape == (problem.n,)]
    # In the order of the inputs every second row still covers all of their ranges.
    order = np.lexsort(inputs)
    taken = [order[np.linspace(0, problem.n - 1, MOST_SEARCHED // 2).round().astype(int)]]
    for values in inputs:
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) <= MOST_LEVELS:
            first = np.cumsum(counts) - counts
            by_level = np.argsort(values, kind="stable")
            shares = np.linspace(0.0, 1.0, ROWS_OF_LEVEL)
            # Some rows of every level, spread over it: a level that the thinning missed could not be fitted at all.
            taken.append(by_level[(first[:, None] + shares * (counts[:, None] - 1)).round().astype(int)].ravel())
    return problem.subset(np.unique(np.concatenate(taken)))


def _possibly_best(descent: Descent, members: Array) -> tuple[Array, Array, Array]:
    """Return the distinct optima on the searched rows of which one may be the best on all rows."""
    order = np.argsort(descent.total, kind="stable")
    near = [i for i in order if descent.total[i] <= descent.total[order[0]] * (1 + LEADING) + 1e-26]
    chosen: list[int] = []
    counts: list[int] = []
    for i in near:
        same = [place for place, j in enumerate(chosen) if np.allclose(descent.z[i], descent.z[j], rtol=0, atol=1e-4)]
        if same:
            counts[same[0]] += int(members[i])
        else:
            chosen.append(int(i))
            counts.append(int(members[i]))
    return descent.c[chosen], descent.z[chosen], np.array(counts)


def _distinct(problem: Problem, z: Array, cost: Array) -> tuple[Array, Array]:
    """Group starts that the search brought to one point; return a representative of each and its number of starts."""
    spread = np.maximum(problem.z_high - problem.z_low, 1e-12)
    order = np.argsort(cost, kind="stable")
    chosen: list[int] = []
    members: list[int] = []
    for i in order:
        for place, j in enumerate(chosen):
            # Closer than the search stops: one optimum, found twice.
            same_cost = cost[i] == cost[j] or abs(cost[i] - cost[j]) <= 1e-5 * cost[j]  # both may be infinite
            if same_cost and np.all(np.abs(z[i] - z[j]) <= 1e-3 * spread):
                members[place] += 1
                break
        else:
            chosen.append(int(i))
            members.append(1)
    return np.array(chosen), np.array(members)


def log_residuals(problem: Problem, c: Array, z: Array) -> Array:
    """Return log(predicted) - log(observed) at one coordinate vector, shape (n,)."""
    params = dict(zip(problem.law.parameters, problem.parameters(c[None], z[None])[0], strict=True))
    predicted = np.asarray(problem.law.evaluate(problem.law.fitted(params), problem.x), dtype=float)
    residual: Array = np.log(np.broadcast_to(predicted, (problem.n,))) - problem.log_loss
    return residual
