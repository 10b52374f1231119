"""Where the rows of a fit came from, and what they can be known by without the rows."""

from __future__ import annotations

import hashlib

from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.saved import Saved
from cptlaw.runs import Runs
from cptlaw.runs.metrics import USUAL_UNIT, loss_unit
from cptlaw.schedules.valley import measured_tuning

DIGITS = 12  # hexadecimal ones of the digest of a run's name: enough to know it again


def origin(fit: Saved) -> dict[str, object]:
    """Return what the fitted rows of a fit can be known by: fingerprint, filter, counts, digests of the runs' names."""
    # Digests and not names: a seal may be published before anyone should know which runs there are.
    names = sorted({digest(str(name)) for name in fit.data["run"]}) if "run" in fit.data else []
    return {
        "fingerprint": fit.provenance.get("fingerprint"),
        "where": fit.provenance.get("where"),
        "n_points": fit.n_points,
        "n_runs": fit.n_runs,
        # One text: a list would take a line of the forecast's JSON for each run.
        "fitted_runs": " ".join(names),
    }


def provenance_of(table: Runs, on: str, where: str | None) -> Provenance:
    """Return where the data of a fit of one eval came from; its unit and its corpora where the table says them."""
    unit = loss_unit(table.on(on).frame)
    domains = (table if where is None else table.where(where)).domains
    result: Provenance = {
        "source": str(table.path) if table.path else None,
        "fingerprint": table.fingerprint,
        "where": where,
        "n_params_kind": table.n_params_kind,
    }
    if unit != USUAL_UNIT:
        result["loss_unit"] = unit
    if domains:
        result["domains"] = domains
    if tuning := measured_tuning(table):
        result["tuning"] = tuning
    return result


def digest(name: str) -> str:
    """Return the digits that a run's name is known by in a seal."""
    return hashlib.sha256(name.encode()).hexdigest()[:DIGITS]
