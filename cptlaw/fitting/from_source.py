"""What the source loss tells a law of the target loss: both are measured on the same runs.

The source loss is fitted first. How large its shift is goes into the fit of the target loss as a prior: the source
fit's estimate, with its doubt and the correlations of its parameters. So the target's rows have a say in the shift, and
what two budgets cannot tell of it stays open in what the target loss pays for it. How the shift goes on along tokens
and mix is taken over as it was fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cptlaw.errors import CptlawError, FitError
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.curvature import as_priors
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows, training_rows
from cptlaw.runs import Runs

SUFFIX = "_source"


@dataclass(frozen=True)
class FromSource:
    """The rows of the target loss with a law that reads what the source loss tells.

    Parameters
    ----------
    training
        Rows and law; as given where the source loss tells nothing.
    known
        The shift of the source loss: pinned parameters, and priors with their correlations.
    fit
        The fit to the source loss.
    """

    training: TrainingRows
    known: Restraint
    fit: LawFit | None = None


def usual(training: TrainingRows) -> Restraint:
    """Return the law's usual priors."""
    return Restraint().with_usual_priors(training.law, training.role)


def with_source(
    training: TrainingRows,
    table: Runs,
    where: str | None,
    seed: int = 0,
    starts: int | None = None,
    restrain: Callable[[TrainingRows], Restraint] = usual,
) -> FromSource:
    """Give a law of the target loss what the source loss tells, where the law can read it and it was measured.

    Parameters
    ----------
    training
        The rows of the target loss.
    table, where
        The runs, and the filter of rows.
    seed, starts
        Of the search of the fit to the source loss; the law's own number of starts where absent.
    restrain
        The restraint of that fit.
    """
    chosen = training.law
    # Asked of the law itself: whether it can read the source at all is its own affair, and no list of names.
    paying = chosen.for_rows(training.frame, damage=True)
    if training.role != "target" or not paying.from_source or not _measures_source(table):
        return FromSource(training, Restraint())
    try:
        of_source = training_rows(chosen.for_rows(training.frame, damage=False), table, "source", where)
        if not trained(of_source.frame).any():
            raise FitError("no run with tokens above 0 has a source loss.")
        options = Options.build(of_source.law, starts=starts, seed=seed, restraint=restrain(of_source))
        fitted = fit_rows(of_source, options, checked=not options.restraint.priors)
        in_doubt = [name.removesuffix(SUFFIX) for name in paying.in_doubt if name in paying.from_source]
        taken = [name.removesuffix(SUFFIX) for name in paying.from_source if name not in paying.in_doubt]
        if not set(in_doubt) <= set(fitted.problem().free):
            raise FitError("rows of the source loss lack a column that those of the target loss have.")
        known = as_priors(fitted, in_doubt, SUFFIX, taken)
    except (CptlawError, np.linalg.LinAlgError):  # too little of the source was measured
        return FromSource(training, Restraint())
    shift = paying.shift_of_source(fitted.params)
    # What the source fit is not asked to share its doubt about is taken as it was fitted: how the shift goes on along
    # tokens and mix.
    pinned = {name: value for name, value in shift.items() if name not in known.priors}
    return FromSource(replace(training, law=paying), replace(known, fixed=pinned), fitted)


def _measures_source(table: Runs) -> bool:
    return any(table.role(name) == "source" for name in table.evals)
