"""Planning curves of the CPT learning-dynamics law from its published coefficients: the questions of figs. 5, 7, 8, 13.

Wang et al. 2025 (arXiv:2505.07796) released no losses, but print coefficients; with these the paper's planning figures
are arithmetic. The paper gives curves and no numbers, so what can be checked is their shape; `shapes` says which
follows from the equations and looks at each.

- fig. 5: final losses against the loss potential of the base model (its last rate over its peak), without re-warm-up
  (CPT starts at the base's last rate and falls linearly to 0) and with it (a ramp from 0 to 10 % of the peak, then
  linearly to 0).
- fig. 7: the weighted loss against the peak of CPT, for 20k, 40k, 60k and 80k steps.
- fig. 8: the best loss potential (a), the best peak (b) and the best replay (c) against the weight of the source loss;
  (a, b) under three strengths of the shift, (c) at 20k, 30k and 40k steps.
- fig. 13: the turning length against the weight of the source loss.

Ours where the paper is silent: pre-training is WSD with 40k steps, the last fifth decaying, peak 2e-4; a re-warm-up
takes 5 % of the steps; the exponents beta of fig. 19 are those that match its shifts to fig. 3.

Run it as ``python -m studies cpt_schedule_figures [-o FOLDER]``, or with ``--small`` (a few seconds). It writes one
CSV per figure and prints what the shapes say.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.schedules import Phase, Schedule, areas
from studies.papers.dynamics_published import FIG_3, FIG_11, FIG_12, FIG_19, NAMES, REPLAY_NAMES, ROLES

PEAK, PRETRAIN = 2e-4, 40_000
MODERATE = "moderate (Knowledge-Pile)"
SHIFTS = {"strong (Pile-of-Law)": FIG_11, MODERATE: FIG_3, "weak (67 % replay)": FIG_12[0.67]}
# Eq. 8 in its corrected form.
REPLAY = {role: dict(zip(REPLAY_NAMES, values, strict=True)) for role, values in zip(ROLES, FIG_19, strict=True)}


@dataclass(frozen=True)
class Scale:
    """How finely is looked."""

    points: int
    weights: int
    lengths: tuple[int, ...]


FULL = Scale(points=201, weights=21, lengths=(20_000, 40_000, 60_000, 80_000))
SMALL = Scale(points=31, weights=6, lengths=(20_000, 40_000))


def fits(strength: str) -> tuple[cl.Fit, cl.Fit]:
    """Return the published target and source law of one strength of the shift."""
    source, target = (dict(zip(NAMES, values, strict=True)) for values in SHIFTS[strength])
    return cl.given_fit("cpt-dynamics", target, "target"), cl.given_fit("cpt-dynamics", source, "source")


def base(potential: float = 0.0) -> Phase:
    """Return pre-training that ends at a share of its peak."""
    return Phase("pretrain", PRETRAIN, "wsd", peak=PEAK, warmup=500, decay=PRETRAIN // 5, end=potential * PEAK)


def final(schedules: list[Schedule]) -> pd.DataFrame:
    """Return the areas at the ends of schedules, as the laws read them."""
    return pd.DataFrame([vars(areas(schedule).at(-1)) for schedule in schedules])


def losses(strength: str, schedules: list[Schedule]) -> tuple[np.ndarray, np.ndarray]:
    """Return final target and source losses."""
    rows = final(schedules)
    target, source = fits(strength)
    return target.predict(rows), source.predict(rows)


def after_potential(potential: float, rewarmed: bool, steps: int = 10_000) -> Schedule:
    """Return a run whose base model ends at a share of its peak, with or without re-warm-up."""
    if rewarmed:
        cpt = Phase("cpt", steps, "linear", peak=0.1 * PEAK, warmup="5%")
    else:
        cpt = Phase("cpt", steps, "linear", peak=potential * PEAK)
    return Schedule([base(potential), cpt])


def fig_5(scale: Scale) -> pd.DataFrame:
    """Return final losses against the loss potential."""
    potentials = np.linspace(0.0, 1.0, scale.points)
    parts = []
    for rewarmed in (False, True):
        target, source = losses(MODERATE, [after_potential(x, rewarmed) for x in potentials])
        part = {"loss_potential": potentials, "rewarmup": rewarmed, "target_loss": target, "source_loss": source}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def peaks(scale: Scale) -> np.ndarray:
    """Return peaks of CPT from 1 % of that of pre-training to twice it."""
    return np.geomspace(0.01 * PEAK, 2.0 * PEAK, scale.points)


def fig_7(scale: Scale) -> pd.DataFrame:
    """Return losses against the peak of CPT, at several lengths."""
    parts = []
    for steps in scale.lengths:
        runs = [Schedule([base(), Phase("cpt", steps, "cosine", peak=peak)]) for peak in peaks(scale)]
        target, source = losses(MODERATE, runs)
        part = {"steps": steps, "peak": peaks(scale), "target_loss": target, "source_loss": source}
        parts.append(pd.DataFrame(part).assign(weighted_loss=0.5 * (target + source)))
    return pd.concat(parts, ignore_index=True)


def weights(scale: Scale) -> np.ndarray:
    """Return weights of the source loss."""
    return np.linspace(0.0, 1.0, scale.weights)


def _best(strength: str, runs: list[Schedule], values: np.ndarray, scale: Scale) -> Iterator[dict[str, object]]:
    target, source = losses(strength, runs)
    for weight in weights(scale):
        weighted = weight * source + (1 - weight) * target
        k = int(np.argmin(weighted))
        yield {"shift": strength, "weight_source": weight, "best": values[k], "weighted_loss": weighted[k]}


def fig_8a(scale: Scale) -> pd.DataFrame:
    """Return the best loss potential, CPT without re-warm-up going on as a cosine, against the weight."""
    potentials = np.linspace(0.0, 1.0, scale.points)
    runs = [Schedule([base(x), Phase("cpt", 10_000, "cosine", peak=x * PEAK)]) for x in potentials]
    return pd.DataFrame([row for strength in SHIFTS for row in _best(strength, runs, potentials, scale)])


def fig_8b(scale: Scale) -> pd.DataFrame:
    """Return the best peak of CPT against the weight."""
    runs = [Schedule([base(), Phase("cpt", 10_000, "cosine", peak=peak)]) for peak in peaks(scale)]
    return pd.DataFrame([row for strength in SHIFTS for row in _best(strength, runs, peaks(scale), scale)])


def fig_8c(scale: Scale) -> pd.DataFrame:
    """Return the best replay against the weight, at three lengths."""
    laws = {on: cl.given_fit("cpt-dynamics-replay", params, on) for on, params in REPLAY.items()}
    replay = np.linspace(0.0, 1.0, scale.points)
    found = []
    for steps in (20_000, 30_000, 40_000):
        row = final([Schedule([base(), Phase("cpt", steps, "cosine", peak=PEAK)])])
        rows = pd.concat([row] * len(replay), ignore_index=True).assign(replay=replay)
        target, source = laws["target"].predict(rows), laws["source"].predict(rows)
        for weight in weights(scale):
            k = int(np.argmin(weight * source + (1 - weight) * target))
            found.append({"steps": steps, "weight_source": weight, "best": replay[k]})
    return pd.DataFrame(found)


def fig_13(scale: Scale) -> pd.DataFrame:
    """Return the turning length against the weight, under three strengths of the shift."""
    found = []
    for strength in SHIFTS:
        target, source = fits(strength)
        for weight in weights(scale):
            plan = cl.plan.turning_length(target, source, weight_source=weight, schedules=Schedule([base()]))
            found.append({"shift": strength, "weight_source": weight, "kind": plan.kind, "steps": plan.steps})
    return pd.DataFrame(found)


def figures(scale: Scale) -> dict[str, pd.DataFrame]:
    """Return all figures' data."""
    return {
        "fig_5": fig_5(scale),
        "fig_7": fig_7(scale),
        "fig_8a": fig_8a(scale),
        "fig_8b": fig_8b(scale),
        "fig_8c": fig_8c(scale),
        "fig_13": fig_13(scale),
    }


def shapes(found: dict[str, pd.DataFrame]) -> dict[str, bool]:
    """Return what the equations say of the curves, and whether the curves do it.

    With a weight on a loss that an unknown x makes rise and another that it makes fall, the best x is monotone in the
    weight whatever the laws: of two weights, the larger one cannot choose the x with the higher source loss. That the
    best peak falls with the strength of the shift is what the three published sets say.
    """
    said = {}
    without = found["fig_5"].query("not rewarmup").sort_values("loss_potential")
    with_ramp = found["fig_5"].query("rewarmup").sort_values("loss_potential")
    said["5: without re-warm-up a higher loss potential lowers the final target loss"] = bool(
        without["target_loss"].iloc[-1] < without["target_loss"].iloc[0]
        and without["target_loss"].idxmin() > without["target_loss"].index[len(without) // 2]
    )
    said["5: with re-warm-up the target loss depends far less on the loss potential"] = bool(
        np.ptp(with_ramp["target_loss"]) < 0.5 * np.ptp(without["target_loss"])
    )
    best = found["fig_7"].loc[found["fig_7"].groupby("steps")["weighted_loss"].idxmin()]
    said["7: with more steps the best weighted loss is lower"] = bool(np.all(np.diff(best["weighted_loss"]) < 0))
    for name, what in (("fig_8a", "loss potential"), ("fig_8b", "peak")):
        said[f"{name[4:]}: the best {what} never rises with the weight of the source loss"] = all(
            bool(np.all(np.diff(part["best"]) <= 1e-15)) for _, part in found[name].groupby("shift")
        )
    by_shift = found["fig_8b"].pivot(index="weight_source", columns="shift", values="best")[list(SHIFTS)].to_numpy()
    said["8b: the stronger the shift, the smaller the best peak"] = bool(np.all(np.diff(by_shift, axis=1) >= -1e-15))
    said["8c: the best replay never falls with the weight of the source loss"] = all(
        bool(np.all(np.diff(part["best"]) >= -1e-15)) for _, part in found["fig_8c"].groupby("steps")
    )
    for _, part in found["fig_13"].groupby("shift"):
        lengths = part.sort_values("weight_source")["steps"].to_numpy()
        rising = all(after >= before for before, after in pairwise(lengths))
        name = "13: the turning length never falls with the weight of the source loss"
        said[name] = said.get(name, True) and rising
    return said


def main(arguments: list[str] | None = None) -> dict[str, bool]:
    """Write the figures' data and print the shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="coarse, in seconds")
    parser.add_argument("-o", "--output", type=Path, default=Path("cpt-schedule-figures"), help="folder for the CSVs")
    chosen = parser.parse_args(arguments)
    found = figures(SMALL if chosen.small else FULL)
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        table.to_csv(chosen.output / f"{name}.csv", index=False)
        print(f"{chosen.output / name}.csv: {len(table)} rows")
    for name in ("fig_8a", "fig_8b", "fig_8c", "fig_13"):
        by = "steps" if name == "fig_8c" else "shift"
        value = "steps" if name == "fig_13" else "best"
        table = found[name].pivot(index="weight_source", columns=by, values=value)
        print(f"\n{name}: {value} by weight of the source loss\n{table.to_string(float_format='{:.4g}'.format)}")
    said = shapes(found)
    print()
    for text, holds in said.items():
        print(f"{'yes' if holds else 'NO '}  {text}")
    return said


if __name__ == "__main__":
    main()
