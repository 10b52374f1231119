"""Figures 9, 13, 17 and 18 of the learning-dynamics paper (Wang et al. 2025, arXiv:2505.07796) on measured curves.

Curves of `studies/measured/dynamics.csv` and `dynamics_batches.csv` (46K parameters; the recipes have these names):

- turning length (fig. 13): after how many steps at a constant rate the weighted loss is back where CPT began, measured,
  and forecast by Eq. 4 from the other runs;
- batches (fig. 17): CPT with half and with four times the sequences per step; one law for all, and the shift of each;
- rows of 64, 128 and 256 tokens in pre-training and in CPT (`dynamics_rows.csv`), with a seal scored;
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
from studies.harness import HOME, MEASURED, show, write_result
from studies.papers.dynamics_measured import LAW, ROLES, SIZE, errors, fitted, in_text, last, load

WEIGHTS = (0.0, 0.5, 0.52, 0.54, 0.56, 0.58, 0.6, 0.8, 1.0)
"""Of the source loss."""
CONTEXT = 128
PLATEAU = 2.7
"""Nats of English: below what a model of 46K knows before it looks further back than a few letters."""
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


def row_lengths(starts: int) -> pd.DataFrame:
    """Return what rows of other lengths in CPT come to, from base models trained on rows of each length.

    ``sealed``: by the law fitted to the curves with rows of 128 and sealed before, at a quarter of the run and at its
    end. ``one law``: fitted where both phases have rows of one length, all lengths together. ``alone``: to these runs
    and the pre-training before them. Losses are in nats per token on validation rows as long as those of CPT.
    """
    frame, schedules = load("dynamics_rows")
    begun = load("dynamics_rows", warm=False)[0].query("phase == 'cpt' and step == 0")
    sealed = cl.score([HOME / "sealed" / "dynamics_rows.json"], MEASURED / "dynamics_rows.csv").frame
    cpt = frame["phase"] == "cpt"
    frame["batch"] = (frame["tokens"] / frame["step"] / frame["context"]).where(cpt).round()
    before = frame["base"].str.extract(r"rows(\d+)")[0].fillna(frame["run"].str.extract(r"rows(\d+)")[0]).astype(int)
    alike = frame[~cpt | (before == frame["context"])]
    rows = []
    for on in ROLES:
        together = fitted(LAW, alike, on, schedules, starts)
        first = begun[begun["eval"] == on].set_index(["base", "context"])["loss"].groupby(level=[0, 1]).first()
        for (old, new, batch), mine in frame[cpt & (frame["eval"] == on)].groupby([before, "context", "batch"]):
            ends = last(mine).set_index("lr_schedule")["loss"]
            row = {"loss": on, "rows before": old, "in CPT": f"{batch:.0f} x {new:.0f}"}
            row |= {"start": first[mine["base"].iloc[0], new], "constant": ends["constant"], "cosine": ends["cosine"]}
            said = sealed[sealed["run"].isin(mine["run"]) & (sealed["on"] == on)]
            row |= {"sealed, %": 100 * said["error"].abs().mean(), "sealed, mean, %": 100 * said["error"].mean()}
            row["sealed, held"] = f"{said['inside'].sum():.0f} of {len(said)}"
            row["one law, %"] = 100 * np.abs(errors(together, mine, schedules)).mean()
            own = fitted(LAW, frame[(~cpt & (before == old)) | frame["run"].isin(mine["run"])], on, schedules, starts)
            rows.append(row | {"alone, %": 100 * np.abs(errors(own, mine, schedules)).mean()})
    return pd.DataFrame(rows)


def plateaus() -> pd.DataFrame:
    """Return when the pre-training on rows of each length leaves the plateau of its first thousand steps."""
    frame = load("dynamics_rows", warm=False)[0].query("eval == 'source' and run.str.startswith('trunk')")
    rows = []
    for length, run in frame.groupby("context"):
        step = float(np.interp(-PLATEAU, -run["loss"], run["step"]))
        said = {"rows before": length, f"English below {PLATEAU} nats after, steps": f"{step:.0f}"}
        rows.append(said | {"rows by then": f"{step * 1024 / length:.0f}"})
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


def probe() -> np.ndarray:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    frame, schedules = load()
    rows = frame[(frame["n_params"] == SIZE) & (frame["phase"] == "cpt") & (frame["replay"] == 0)]
    fit = fitted(f"{LAW}:open_base=true", rows, "target", schedules, 1)
    return errors(fit, rows[rows["eval"] == "target"], schedules)


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
        "rows": in_text(row_lengths(starts)),
        "plateaus": plateaus(),
        "open-bases": in_text(open_bases(frame, schedules, starts)),  # fig. 18
    }
    print(show(made))
    if asked.write:
        write_result("dynamics_details", made)


if __name__ == "__main__":
    main()
