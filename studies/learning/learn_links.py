"""Learn from studies of scores what links of a new one look like, and how fast forecasts of scores err with distance.

    python -m studies learn_links [--data FOLDER]

Writes cptlaw/fitting/learned/links.json: for each study and parameter the mean over its benchmarks, its standard
error, and their spread; and what forecasts of scores missed per e-fold beyond what links and forms say. The same
files give the same numbers. A few minutes of one core.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import leaving_out
from cptlaw.forecasting.verbs import fit
from cptlaw_scores.check_scores import check_scores
from cptlaw_scores.fit_scores import rollouts_of
from cptlaw_scores.joint import join
from cptlaw_scores.laws.score_law import SCORE_LAWS, known_score_laws, score_law
from cptlaw_scores.members import PlannedMember
from cptlaw_scores.pooling import fit_pooled, own_prior
from cptlaw_scores.rollouts import folds_of
from studies.forecasts.accuracy import gadre, math500, olmo
from studies.harness import ROOT, progress

TARGET = ROOT / "cptlaw" / "fitting" / "learned" / "links.json"
SOURCES = {
    "gadre": ("c4_val", "gadre_downstream_c4.csv"),
    "olmo": ("c4_en", "olmo_ladder_downstream.csv"),
    "delphi": ("target", "marin_math500_after_sft.csv"),
}
BETWEEN = 0.3  # usual difference between studies, on the logarithms, before any is seen
LEAST_ERROR = 0.05  # of a study's mean: its benchmarks have their models in common


def tables(folder: Path) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield name, carrying loss and table of the studies."""
    yield "gadre", "c4_val", gadre(folder / "gadre_downstream_c4.csv")
    yield "olmo", "c4_en", olmo(folder / "olmo_ladder_downstream.csv", folder / "olmo_ladder.csv")
    yield "delphi", "target", math500(folder / "marin_math500_after_sft.csv", folder / "delphi_midtrain.csv")


def parameters(frame: pd.DataFrame, carrier: str, loss: Any) -> dict[str, dict[str, dict[str, float]]]:
    """Return law -> parameter -> mean, error and spread over the benchmarks that carry signal."""
    runs = cl.read_runs(frame)
    joint = join(runs)
    tasks = tuple(one.name for one in check_scores(runs, next(iter(joint.tasks))).tasks if one.carries)
    values = joint.values(carrier).copy()
    lacks = ~np.isfinite(values) & joint.frame[list(loss.law.inputs)].notna().all(axis=1).to_numpy()
    values[lacks] = loss.predict(joint.frame[lacks])
    mixed = "replay" in joint.frame.columns
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in known_score_laws():
        law = score_law(name)
        if law.reads in ("nothing", "answers") or (mixed and law.reads != "loss"):
            continue
        plan = PlannedMember(law, tasks, dict.fromkeys(tasks, carrier) if law.reads == "loss" else {})
        tasks_in = plan.in_units_of(joint.frame, {carrier: values}).tasks_in(joint, {carrier: values})
        prior = own_prior(law)
        fitted = fit_pooled(law, tasks_in, first=prior)
        theta = fitted.posterior.theta
        variance = np.einsum("skk->sk", fitted.posterior.covariance)
        for i, (axis, known) in enumerate(law.axes.items()):
            # A benchmark that says nothing of a parameter repeats the prior, which would be learned from itself.
            tells = np.clip(1.0 - variance[:, i] / prior.sd[i] ** 2, 0.0, 1.0)
            if not known.pooled or tells.sum() < 1.0:
                continue
            mean = float(tells @ theta[:, i] / tells.sum())
            spread = float(np.sqrt(tells @ (theta[:, i] - mean) ** 2 / tells.sum()))
            error = max(spread / np.sqrt(tells.sum()), LEAST_ERROR)
            found.setdefault(name, {})[axis] = {
                "mean": round(mean, 4), "error": round(float(error), 4), "spread": round(spread, 4)
            }  # fmt: skip
    return found


def surplus(frame: pd.DataFrame, carrier: str, loss: Any) -> float:
    """Return the mean square of what rollouts missed per e-fold beyond what links and forms said."""
    joint = join(cl.read_runs(frame))
    sigmoid, exponential, flat = (score_law(name) for name in ("score-sigmoid", "score-exponential", "score-flat"))
    names = tuple(joint.tasks)
    plans = [PlannedMember(law, names, dict.fromkeys(names, carrier)) for law in (sigmoid, exponential)] + [
        PlannedMember(flat, names)
    ]
    if "replay" not in joint.frame.columns:
        plans += [PlannedMember(score_law(name), names) for name in ("score-size", "score-compute")]
    return round(rollouts_of(joint, plans, {carrier: loss}, folds_of(joint)).surplus, 6)


def main() -> None:
    """Learn and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    losses = {}
    for study, carrier, frame in tables(options.data):
        progress(f"links of {study}")
        losses[study] = fit("auto", cl.read_runs(frame), on=carrier)
        for law, of_law in parameters(frame, carrier, losses[study]).items():
            for axis, numbers in of_law.items():
                found.setdefault(law, {}).setdefault(axis, {})[study] = numbers
    write(found, dict.fromkeys(SOURCES, 0.0))
    growth = {}
    for study, carrier, frame in tables(options.data):
        progress(f"growth in {study}")
        with leaving_out(study):
            growth[study] = surplus(frame, carrier, losses[study])
    write(found, growth)


def write(found: dict[str, Any], growth: dict[str, float]) -> None:
    """Write the file, and let what reads it read it again."""
    axes = {law: {axis: SCORE_LAWS[law].axes[axis].mean for axis in of_law} for law, of_law in found.items()}
    made = {
        "made_by": "python -m studies learn_links --data FOLDER",
        "studies": {study: {"file": file, "loss": loss} for study, (loss, file) in SOURCES.items()},
        "usual": {law: {axis: [mean, BETWEEN] for axis, mean in of_law.items()} for law, of_law in axes.items()},
        "links": found,
        "growth": {
            "meaning": "mean square missed per e-fold beyond the doubt of links and forms, arcsine scale",
            "studies": growth,
        },
    }
    TARGET.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
