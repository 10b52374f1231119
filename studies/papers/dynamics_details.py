"""Figures 9, 13, 17 and 18 of the learning-dynamics paper (Wang et al. 2025, arXiv:2505.07796) on measured curves.

Curves of `studies/measured/dynamics.csv` and `dynamics_batches.csv` (46K parameters; the recipes have these names):

- turning length (fig. 13): after how many steps at a constant rate the weighted loss is back where CPT began, measured,
  and forecast by Eq. 4 from the other runs;
- batches (fig. 17): CPT with half and with four times the sequences per step; one law for all, and the shift of each;
- open base models (fig. 18): Eq. 4 fitted to CPT alone, the forward area of pre-training fitted too, the source loss
  and that of another corpus as its proxy; beside the law that knows pre-training;
- two corpora that no run trains on as combinations of both losses (Eq. 6, fig. 9), in `dynamics_measured.py`.

Run it as ``python -m studies dynamics_details`` (a minute).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import show, write_result
from studies.papers.dynamics_measured import LAW, ROLES, SIZE, errors, fitted, in_text, load

WEIGHTS = (0.0, 0.5, 0.52, 0.54, 0.56, 0.58, 0.6, 0.8, 1.0)
"""Of the source loss."""
CONTEXT = 128
PROXY = "manuals"
"""A public corpus near the source: what stands for it where a base model's own corpus is not known."""


def composite(run: pd.DataFrame, weight: float) -> pd.Series:
    """Return the weighted loss of a run at its steps, weight of the source loss given."""
    losses = run.pivot_table(index="step", columns="eval", values="loss")
    return weight * losses["source"] + (1 - weight) * losses["target"]


def turning(steps: np.ndarray, losses: np.ndarray, start: float) -> float:
    """Return the step at which a loss is back at its start: 0 if it never exceeds it, infinity if it never returns."""
    above = np.flatnonzero(losses > start)
    if not len(above):
        return 0.0
    back = np.flatnonzero(losses[above[0] :] <= start)
    if not len(back):
        return float("inf")
    k = above[0] + back[0]
    return float(np.interp(start, losses[[k, k - 1]], steps[[k, k - 1]]))


def turning_lengths(
    frame: pd.DataFrame, more: pd.DataFrame, bases: pd.Series, schedules: dict[str, object], starts: int
) -> pd.DataFrame:
    """Return turning lengths of the longest run without replay at a constant rate, by weight of the source loss.

    Where CPT starts is the base model's own loss. ``law``: Eq. 4 fitted to ``frame``, the other runs without replay, at
    the steps measured; a run that is not back within its length is ``inf``.
    """
    run = more[(more["replay"] == 0) & (more["tokens"].groupby(more["run"]).transform("max") > 50 * SIZE)]
    said = []
    for on in ROLES:
        fit = fitted(LAW, frame[(frame["phase"] == "pretrain") | (frame["replay"] == 0)], on, schedules, starts)
        mine = run[run["eval"] == on]
        said.append(mine.assign(loss=mine["loss"] * np.exp(errors(fit, mine, schedules))))
    rows = []
    for weight in WEIGHTS:
        began = float(weight * bases["source"] + (1 - weight) * bases["target"])
        row: dict[str, object] = {"weight of the source": weight}
        for name, part in (("measured", run), ("law", pd.concat(said))):
            path = composite(part, weight)
            row[f"{name}, steps"] = turning(path.index.to_numpy(dtype=float), path.to_numpy(), began)
            row[f"{name}, most over start, %"] = 100 * (path.max() / began - 1)
            row[f"{name}, end over start, %"] = 100 * (path.iloc[-1] / began - 1)
        rows.append(row)
    return pd.DataFrame(rows)


def batches(frame: pd.DataFrame, schedules: dict[str, object], starts: int) -> pd.DataFrame:
    """Return how one law fits CPT with other batches than it was fitted to, and the shift fitted to each batch alone.

    ``all``: fitted to all batches together. ``left out``: to the other batches. Both in the learning rate per step, as
    the law is written.
    """
    rows = []
    cpt = frame["phase"] == "cpt"
    sequences = (frame["tokens"] / frame["step"].where(frame["step"] > 0) / CONTEXT).where(cpt).round()
    short = frame["tokens"] < 20 * SIZE
    plain = frame[~cpt | ((frame["replay"] == 0) & (frame["ptpp"] == 62) & short)]
    for on in ROLES:
        together = fitted(LAW, plain, on, schedules, starts)
        for size in sorted(sequences.dropna().unique()):
            of = cpt & (sequences == size)
            mine = plain[of[plain.index] & (plain["eval"] == on) & (plain["lr_peak"] == 3e-3)]
            row: dict[str, object] = {"loss": on, "sequences": int(size), "runs": mine["run"].nunique()}
            row["all, %"] = 100 * np.abs(errors(together, mine, schedules)).mean()
            left = fitted(LAW, plain[~of[plain.index]], on, schedules, starts)
            row["left out, %"] = 100 * np.abs(errors(left, mine, schedules)).mean()
            alone = fitted(LAW, plain[of[plain.index] | ~cpt[plain.index]], on, schedules, starts)
            row["alone, %"] = 100 * np.abs(errors(alone, mine, schedules)).mean()
            rows.append(row | {name: alone.params[name] for name in ("B", "E", "beta")})
    return pd.DataFrame(rows)


def open_bases(frame: pd.DataFrame, schedules: dict[str, object], starts: int) -> pd.DataFrame:
    """Return errors in CPT of Eq. 4 fitted to the CPT runs of one base model alone, as if it had been downloaded.

    Fitted on constant and WSD, scored in sample and on the cosine runs. ``S1pt`` is the forward area as fitted, beside
    the true one.
    """
    rows = []
    one = frame[(frame["ptpp"] == 62) & (frame["potential"] == 0) & (frame["replay"] == 0) & (frame["phase"] == "cpt")]
    first = frame["phase"] == "pretrain"
    known_area = float(cl.law(LAW).attach(one, schedules)["s1_pretrain"].iloc[0])
    for on, role in (("target", "target"), ("source", "source"), (PROXY, "source")):
        mine = one[one["eval"] == on].assign(eval=role)
        asked = mine["lr_schedule"] == "cosine"
        for law in (f"{LAW}:open_base=true", LAW):
            before = frame[first & (frame["eval"] == on)].assign(eval=role)
            known = mine[~asked] if "open" in law else pd.concat([before, mine[~asked]], ignore_index=True)
            fit = cl.fit(law, known, on=role, schedules=schedules, starts=starts, restraint="none")
            row: dict[str, object] = {"loss": on, "law": "open base" if "open" in law else "base known"}
            row["in sample, %"] = 100 * np.abs(errors(fit, mine[~asked], schedules)).mean()
            row["cosine, %"] = 100 * np.abs(errors(fit, mine[asked], schedules)).mean()
            row["S1pt fitted"] = fit.params.get("S1pt", np.nan)
            row["S1pt true"] = known_area
            rows.append(row | {name: fit.params[name] for name in ("B", "E", "beta")})
    return pd.DataFrame(rows)


def main() -> None:
    """Run all studies and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few starts")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    starts = 2 if asked.small else 4
    frame, schedules = load()
    more, others = load("dynamics_batches")
    bases = load("dynamics_batches", warm=False)[0]
    bases = bases[(bases["run"] == "base-46k-p62-s0") & (bases["tokens"] == 0)].set_index("eval")["loss"]
    schedules = others | schedules
    more = more[more["phase"] == "cpt"].assign(potential=0.0)
    frame = frame[frame["n_params"] == SIZE].reset_index(drop=True)
    together = pd.concat([frame, more], ignore_index=True)
    made = {
        "turning": in_text(turning_lengths(frame, more, bases, schedules, starts)),  # fig. 13
        "batches": in_text(batches(together, schedules, starts)),  # fig. 17
        "open-bases": in_text(open_bases(frame, schedules, starts)),  # fig. 18
    }
    print(show(made))
    if asked.write:
        write_result("dynamics_details", made)


if __name__ == "__main__":
    main()
