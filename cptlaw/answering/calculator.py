"""The numbers of the answer without runs, as the calculator of the site reads them."""

from __future__ import annotations

import json

from cptlaw.answering import studies


def numbers_js() -> str:
    """Return a script that declares ``NUMBERS``: by outcome the coefficients, their covariance and the spreads."""
    result = {}
    outcomes: tuple[studies.Outcome, ...] = ("forgetting", "gain")
    for outcome in outcomes:
        law = studies.learned(outcome)
        scalars = {name: getattr(law, name) for name in studies.SCALARS}
        result[outcome] = {"mean": law.mean.tolist(), "covariance": law.covariance.tolist(), **scalars}
    return f"const NUMBERS = {json.dumps(result)};\n"
