"""One number per fit on all pages, and the range over equal fits where the fitted rows leave a law open.

Two budgets do not determine the forms of the PTPP paper: fits whose objective is the same to a thousandth forecast
losses that differ by several per cent, and which of them a search returns is an accident of rounding. Such a fit has no
error of its own, but the least and the greatest of all equal ones. Beside them stands the fit that a user gets, whose
learned priors choose among equal fits.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.laws.calculus import Array
from studies.papers.ptpp_published import FORMS

EQUAL = 1e-3
"""Fits whose objective is higher by no more than this share are equal: the fitted rows do not tell them apart."""
FLOOR = 1e-4
"""Nor do they where log residuals are below this: no loss is measured better."""
OPEN = 0.02
"""Errors of equal fits that differ by more than this share leave open which is the law's."""
STARTS, HELD_VALUES = 64, 4


@dataclass(frozen=True, eq=False)
class OpenFit:
    """A fit without priors, and all that equal it.

    Parameters
    ----------
    fit
        The fit that the search returned.
    equals
        Parameters of equal fits, itself among them.
    """

    fit: cl.Fit
    equals: list[dict[str, float]]

    def errors(self, test: pd.DataFrame) -> Array:
        """Return errors in per cent at each row of a table, (fits, rows)."""
        predicted = np.array([self.fit.law.predict(one, test, self.fit.role) for one in self.equals])
        return 100 * np.abs(predicted / test["loss"].to_numpy() - 1)


_made: dict[tuple[str | int, ...], OpenFit] = {}


def open_fit(
    law: str, runs: cl.Runs, on: str, where: str, held_values: int = HELD_VALUES, starts: int = STARTS
) -> OpenFit:
    """Fit a law without priors, and find the equals of a form of the paper where the rows do not determine it.

    A study asks for the same fit in several tables: it is made once.
    """
    rows = runs.on(on).where(where).frame
    digest = hashlib.sha256(rows.to_csv().encode()).hexdigest()
    key = (cl.law(law).spec, on, held_values, starts, digest)
    if key not in _made:
        fit = cl.fit(law, runs, on=on, where=where, starts=starts, restraint="none")
        undetermined = fit.rank < fit.n_free and law.partition(":")[0] in FORMS
        equals = equal_fits(fit, runs, where, held_values) if undetermined else [dict(fit.params)]
        _made[key] = OpenFit(fit, equals)
    return _made[key]


def equal_fits(fit: cl.Fit, rows: cl.Runs, where: str, held_values: int) -> list[dict[str, float]]:
    """Return the parameters of fits whose objective is within `EQUAL` of the best, the fit itself first.

    The starts of a search end where it is steepest, and see nothing of a flat valley. So each parameter in turn is held
    at values on either side of the fitted one while all others are fitted again, as a profile does.
    """
    problem = fit.problem()
    ends = problem.parameters(fit.optima[:, : problem.k], fit.optima[:, problem.k :])  # of equally good starts
    places = [(fit.objective, dict(zip(fit.params, map(float, end), strict=True))) for end in ends]
    factors = np.geomspace(0.05, 20.0, held_values)
    middle = float(fit.data["loss"].median())
    for (name, value), factor in itertools.product(fit.params.items(), factors):
        # An amplitude at zero has no size of its own: it is tried at shares of the loss. Some shapes have a sign.
        held = value * factor if value > 0 else middle * factor / 40.0 if value == 0 else value - np.log(factor)
        try:
            other = cl.fit(
                fit.law.spec, rows, on=fit.on, where=where, fix={name: float(held)}, starts=4, restraint="none"
            )
        except cl.CptlawError:  # outside the law's range
            continue
        places.append((other.objective, dict(other.params)))
    best = min(objective for objective, _ in places)
    allowed = (1.0 + EQUAL) * best + 0.5 * FLOOR**2 * fit.n_points
    return [place for objective, place in places if objective <= allowed]


def is_open(low: float, high: float) -> bool:
    """Return whether errors of equal fits differ so much that none of them is the law's."""
    return high > (1 + OPEN) * low


def error_text(errors: Array) -> str:
    """Return the mean error of equal fits, (fits, rows): one number, or a range where the rows leave it open."""
    means = errors.mean(axis=1)
    low, high = float(means.min()), float(means.max())
    return f"{low:.1f} to {high:.1f}" if is_open(low, high) else f"{means[0]:.2f}"


def error_of_a_user(law: str, runs: cl.Runs, on: str, where: str, test: pd.DataFrame) -> Array:
    """Return errors in per cent, (rows,), of the fit that `cptlaw fit` gives: with learned priors."""
    fit = cl.fit(law, runs, on=on, where=where)
    return 100 * np.abs(fit.predict(test) / test["loss"].to_numpy() - 1)
