"""The numbers of the answer without runs, as the calculator of the site reads them."""

from __future__ import annotations

import json

from cptlaw.answering import batches, without_runs
from cptlaw.answering.question import RISK
from cptlaw.answering.takes import SURER
from cptlaw.fitting.learned import forgetting_and_gain as studies
from cptlaw.planning.cost import PEAK_FLOPS
from cptlaw.runs.known_models import bases
from cptlaw.units import FEWEST_STEPS, ROW


def numbers_js() -> str:
    """Return a script that declares what the calculator computes with.

    ``NUMBERS`` holds by outcome the coefficients, their covariance and the spreads, and what gives the batch;
    ``PLANNING`` the constants of the plan, ``BASES`` the known base models, ``DEVICES`` their peak FLOP/s, and
    ``STUDIES`` the largest model and budget of each study, and its kind of text.
    """
    outcomes: tuple[studies.Outcome, ...] = ("forgetting", "gain")
    numbers: dict[str, object] = {outcome: _of_outcome(outcome) for outcome in outcomes}
    declared = {
        "NUMBERS": {
            **numbers,
            "batch": vars(batches.valley()),
            "leastSteps": batches.LEAST_STEPS,
            "fewestTokens": FEWEST_STEPS * ROW,
        },
        "PLANNING": {
            "shares": without_runs.SHARES,
            "mostReplay": without_runs.MOST_REPLAY,
            "leastTokens": without_runs.LEAST_TOKENS,
            "nearly": without_runs.NEARLY,
            "risk": RISK,
            "surer": SURER,
            "seenRates": without_runs.SEEN_RATES,
            "rates": without_runs.RATES,
        },
        "BASES": _published_bases(),
        "DEVICES": {name: peak for name, (peak, _) in PEAK_FLOPS.items()},
        "STUDIES": _study_entries(),
    }
    return "".join(f"const {name} = {json.dumps(value, allow_nan=False)};\n" for name, value in declared.items())


def _of_outcome(outcome: studies.Outcome) -> dict[str, object]:
    law = studies.learned(outcome)
    scalars = {name: getattr(law, name) for name in studies.SCALARS}
    return {"mean": law.mean.tolist(), "covariance": law.covariance.tolist(), **scalars}


def _published_bases() -> list[dict[str, object]]:
    """Return the base models whose tokens are published; their peak rate is 0 where none is."""
    listed = bases().dropna(subset=["pt_tokens"]).fillna({"lr_pretrain": 0.0})
    return [
        {
            "name": row["name"],
            "n": row["n_params"],
            "active": row["n_active"],
            "ptpp": row["ptpp"],
            "pretrain": row["lr_pretrain"],
            "publicText": row["public_text"] == "yes",
        }
        for row in listed.to_dict("records")
    ]


def _study_entries() -> list[dict[str, object]]:
    listed = {each["study"]: each for outcome in ("forgetting", "gain") for each in studies.learned(outcome).studies}
    return [
        {"name": name, "shift": each["shift"], "n": each["n_params"][1], "ptpp": each["ptpp"][1]}
        for name, each in listed.items()
    ]
