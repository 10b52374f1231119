"""Fit one law to a table: rows, what the source says of the target, restraint, search."""

from __future__ import annotations

from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.fitted_law import Fit
from cptlaw.fitting.from_source import with_source
from cptlaw.laws import Law
from cptlaw.runs import Runs
from cptlaw.solving.options import HowToFit, Options
from cptlaw.solving.origin import provenance_of
from cptlaw.solving.restraint import Restraint
from cptlaw.solving.training_rows import training_rows


def fit_one(chosen: Law, table: Runs, on: str, where: str | None, how: HowToFit) -> Fit:
    """Return the fit of one law; see `cptlaw.fit`."""
    seed = how.get("seed", 0)
    training = training_rows(chosen, table, on, where, how.get("schedules"))
    from_source = with_source(training, table, where, seed)
    training, chosen = from_source.training, from_source.training.law
    given = Restraint.build(chosen, how.get("fix"), how.get("tie"), how.get("bound"), how.get("prior"))
    restraint = given.joined(chosen, training.role, from_source.known)
    options = Options.build(chosen, how.get("delta"), how.get("starts"), seed, restraint)
    return fit_rows(
        training.chosen(),
        options,
        base=table.base_losses(training.on),
        provenance=provenance_of(table, training.on, where),
    )
