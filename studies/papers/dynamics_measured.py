"""The learning-dynamics law (Wang et al. 2025, arXiv:2505.07796) on whole curves that were measured for it.

`studies/measured/dynamics.csv` has losses along pre-training and CPT from English to French at 46K parameters, from
base models of three lengths and three loss potentials (last rate of pre-training over its peak), with several
schedules, peaks, lengths and replays (`studies/recipes/dynamics.yaml`), and a few at 30K and 75K. Printed are

- Eq. 4 fitted to all curves without replay, beside the published coefficients, its variants (Table 2, Eqs. 9 and 10),
  and what becomes of the fit with each boundary between the phases;
- what it forecasts: a schedule, a loss potential, a length of pre-training and one of CPT left out;
- Eq. 8 for replay in both readings, Eq. 7 for sizes, Eq. 6 for the losses on two other corpora;
- what was measured at the ends of the runs, beside the paper's statements;
- the same on a second and a third corpus and at 125K, from base models of one length (`dynamics_corpora.csv`).

Steps of the warm-ups, and the first 200 of pre-training, are left out.

Run it as ``python -m studies dynamics_measured`` (minutes) or with ``--small`` (few starts, Eq. 4 alone).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.schedules import read_schedules
from studies.harness import MEASURED, write_result
from studies.papers.dynamics_published import FIG_3, NAMES

WARM = {"pretrain": 200, "cpt": 50}
PUBLISHED = "cpt-dynamics"
LAW = "cpt-dynamics:decay=0.98"
"""The momentum of annealing forgets within 50 steps here, where the paper's runs are ten times as long; chosen of 0.999
(published), 0.995, 0.99, 0.98 and fit by the error on the rows that are fitted."""
VARIANTS = (
    *(PUBLISHED, "cpt-dynamics-weighted", "cpt-dynamics-weighted:lr_power=0.2", "cpt-dynamics-power"),
    *(f"{PUBLISHED}:decay={decay}" for decay in (0.995, 0.99, 0.98, "fit")),
)
BOUNDARIES = ("origin", "carry", "reset_jump", "reset")
PUBLISHED_R2 = {"source": (0.9944, 0.9950, 0.9950, 0.9952), "target": (0.9993, 0.9984, 0.9983, 0.9984)}  # table 2
ROLES = ("source", "target")
SIZE = 45936
BUDGET = 62
CORPORA = {
    "French": ("dynamics", ""),
    "Python": ("dynamics_corpora", "python"),
    "German": ("dynamics_corpora", "german"),
}
"""Corpus of the CPT -> table, and its name in the column ``domain``."""


def load(name: str = "dynamics", warm: bool = True) -> tuple[pd.DataFrame, dict[str, object]]:
    """Return the rows of curves, after the warm-ups unless told otherwise, and the schedules."""
    frame = pd.read_csv(MEASURED / f"{name}.csv")
    schedules = read_schedules(MEASURED / f"{name}_schedules.json")
    kept = frame["run"].isin(schedules) & (frame["step"] >= frame["phase"].map(WARM) * warm)
    frame = frame[kept].reset_index(drop=True)
    end = frame["base"].astype(str).str.extract(r"-e([\d.]+)$")[0].astype(float).fillna(0.0)
    return frame.assign(potential=end.where(frame["phase"] == "cpt")), schedules


def load_corpus(corpus: str) -> tuple[pd.DataFrame, dict[str, object]]:
    """Return pre-training and the CPT on one corpus from the base models of the length that all corpora have."""
    table, domain = CORPORA[corpus]
    frame, schedules = load(table)
    if domain:
        frame = frame[frame["domain"].isna() | (frame["domain"] == domain)]
    return frame[(frame["phase"] == "pretrain") | (frame["ptpp"] == BUDGET)], schedules


def plain(frame: pd.DataFrame, size: int = SIZE) -> pd.DataFrame:
    """Return pre-training and CPT without replay at one size."""
    return frame[(frame["n_params"] == size) & ((frame["phase"] == "pretrain") | (frame["replay"] == 0))]


def errors(fit: cl.Fit, rows: pd.DataFrame, schedules: dict[str, object]) -> np.ndarray:
    """Return log forecast minus log loss."""
    found = fit.predict(fit.law.attach(rows, schedules))
    return np.log(found / rows["loss"].to_numpy(dtype=float))


def fitted(law: str, rows: pd.DataFrame, on: str, schedules: dict[str, object], starts: int) -> cl.Fit:
    """Fit one loss's rows."""
    return cl.fit(law, rows[rows["eval"] == on], on=on, schedules=schedules, starts=starts, restraint="none")


def equation_four(
    frame: pd.DataFrame, schedules: dict[str, object], starts: int, laws: tuple[str, ...]
) -> pd.DataFrame:
    """Return coefficients and errors of Eq. 4 and its variants, both losses."""
    rows = []
    table = plain(frame)
    for on, published in zip(ROLES, FIG_3, strict=True):
        for law in laws:
            fit = fitted(law, table, on, schedules, starts)
            errs = how_far(fit, table[table["eval"] == on], schedules)
            row = {"loss": on, "law": law, **errs, "Huber, 1e-5": 1e5 * fit.objective / fit.n_points}
            rows.append(row | {name: fit.params[name] for name in NAMES})
        rows.append({"loss": on, "law": "published (fig. 3)"} | dict(zip(NAMES, published, strict=True)))
    return pd.DataFrame(rows)


def how_far(fit: cl.Fit, rows: pd.DataFrame, schedules: dict[str, object]) -> dict[str, float]:
    """Return R2, and the mean errors of a fit in per cent: of all rows, and of those in CPT."""
    missed = errors(fit, rows, schedules)
    loss = rows["loss"].to_numpy()
    r2 = 1 - np.sum((loss * np.expm1(missed)) ** 2) / np.sum((loss - loss.mean()) ** 2)
    in_cpt = missed[(rows["phase"] == "cpt").to_numpy()]
    return {"R2": r2, "error, %": 100 * np.abs(missed).mean(), "in CPT, %": 100 * np.abs(in_cpt).mean()}


def by_corpus(starts: int) -> pd.DataFrame:
    """Return Eq. 4 by corpus and size (figs. 6a, 11 and 16), from base models of one length."""
    rows = []
    for corpus in CORPORA:
        frame, schedules = load_corpus(corpus)
        for size in sorted(frame.loc[frame["phase"] == "cpt", "n_params"].unique()):
            table = plain(frame, size)
            for on in ROLES:
                mine = table[table["eval"] == on]
                row = {"corpus": corpus, "parameters": f"{size / 1e3:.0f}K", "loss": on}
                row |= {"curves": mine.loc[mine["step"] > 0, "run"].nunique()}
                fit = fitted(LAW, table, on, schedules, starts)
                # The other parameters of the shift are not determined by base models of one length.
                shown = {name: fit.params[name] for name in ("C1", "C2")}
                rows.append(row | how_far(fit, mine, schedules) | shown)
    return pd.DataFrame(rows)


def held_out_by_corpus(starts: int) -> pd.DataFrame:
    """Return the errors of `held_out` that every corpus has, over the points of CPT, source / target in per cent."""
    columns = {}
    for corpus in CORPORA:
        frame, schedules = load_corpus(corpus)
        found = held_out(frame, schedules, starts, (LAW,)).set_index("held out")
        source, target = (found[f"{on}, 0.98, %"].map("{:.1f}".format) for on in ROLES)
        columns[corpus] = source + " / " + target
    return pd.DataFrame(columns).rename_axis("held out").reset_index()


def statements_by_corpus() -> pd.DataFrame:
    """Return the paper's statements on the ends of runs by corpus, as pairs that agree."""
    said = {corpus: statements(ends(load_corpus(corpus)[0])) for corpus in CORPORA}
    table = pd.DataFrame(said).rename_axis("statement").reset_index()
    return table[(table != "0 of 0 pairs").all(axis=1)]  # one length of pre-training


def surface(frame: pd.DataFrame, schedules: dict[str, object], starts: int) -> pd.DataFrame:
    """Return where on its surface Eq. 4 errs (fig. 4): mean log errors in CPT, per cent, by forward and annealing area.

    Thirds of the points by the forward area of CPT, and of each by its annealing area.
    """
    rows = []
    table = plain(frame)
    for on in ROLES:
        fit = fitted(LAW, table, on, schedules, starts)
        mine = fit.law.attach(table[(table["eval"] == on) & (table["phase"] == "cpt")], schedules)
        missed = pd.Series(100 * np.log(fit.predict(mine) / mine["loss"].to_numpy(dtype=float)), mine.index)
        forward = pd.qcut(mine["s1_cpt"].rank(method="first"), 3, labels=["least", "middle", "most"])
        for name, part in mine.groupby(forward, observed=True):
            annealed = pd.qcut(part["s2_cpt"].rank(method="first"), 3, labels=["least", "middle", "most"])
            means = missed[part.index].groupby(annealed, observed=True).mean()
            rows.append({"loss": on, "forward area": name} | {f"annealed {one}": means[one] for one in means.index})
    return pd.DataFrame(rows)


def boundaries(frame: pd.DataFrame, schedules: dict[str, object], starts: int) -> pd.DataFrame:
    """Return the error in CPT with each boundary, and what it says of the loss potential beside what was measured.

    ``by potential`` is the loss at the end of the cosine runs from budget 62, base models not annealed over annealed.
    """
    table = plain(frame)
    rows = []
    for on in ROLES:
        ends = last(table[(table["eval"] == on) & (table["ptpp"] == 62) & (table["lr_peak"] == 3e-3)], "cosine")
        ends = ends[np.isclose(ends["tokens"], 16 * SIZE, rtol=0.01)].sort_values("potential")
        for boundary in BOUNDARIES:
            fit = fitted(f"{LAW}:boundary={boundary}", table, on, schedules, starts)
            mine = table[(table["eval"] == on) & (table["phase"] == "cpt")]
            said = ends["loss"].to_numpy() * np.exp(errors(fit, ends, schedules))
            row = {
                "loss": on,
                "boundary": boundary,
                "error in CPT, %": 100 * np.abs(errors(fit, mine, schedules)).mean(),
            }
            row |= {"by potential, %": 100 * (said[-1] / said[0] - 1)}
            rows.append(row | {"measured, %": 100 * (ends["loss"].iloc[-1] / ends["loss"].iloc[0] - 1)})
    return pd.DataFrame(rows)


def last(rows: pd.DataFrame, schedule: str | None = None) -> pd.DataFrame:
    """Return the last row of each run of CPT, of one schedule if one is named."""
    rows = rows[(rows["phase"] == "cpt") & ((rows["lr_schedule"] == schedule) if schedule else True)]
    return rows.loc[rows.groupby(["run", "eval"])["step"].idxmax()]


def held_out(
    frame: pd.DataFrame, schedules: dict[str, object], starts: int, laws: tuple[str, ...] = (PUBLISHED, LAW)
) -> pd.DataFrame:
    """Return errors of Eq. 4 in per cent on what it was not fitted to: over the points of CPT, and at its end."""
    table = plain(frame)
    cpt = table["phase"] == "cpt"
    long = table.groupby("run")["tokens"].transform("max") > 20 * SIZE
    asked = {
        "wsd, from the other schedules": cpt & (table["lr_schedule"] == "wsd"),
        "cosine, from constant and wsd": cpt & (table["lr_schedule"] == "cosine"),
        "potential 0.5, from 0 and 1": cpt & (table["potential"] == 0.5),
        "potential 1, from 0 and 0.5": cpt & (table["potential"] == 1.0),
        "CPT after budget 124, from 31 and 62": cpt & (table["ptpp"] == 124),
        "three times longer CPT": cpt & long,
        "peak 6e-3, from 1.5e-3 and 3e-3": cpt & (table["lr_peak"] == 6e-3),
    }
    rows = []
    for name, mask in asked.items():
        if not mask.any():
            continue
        row: dict[str, object] = {"held out": name}
        for on, law in ((on, law) for on in ROLES for law in laws):
            fit = fitted(law, table[~mask], on, schedules, starts)
            mine = table[mask & (table["eval"] == on)]
            label = f"{on}, {'0.999' if law == PUBLISHED else '0.98'}"
            row[f"{label}, %"] = 100 * np.abs(errors(fit, mine, schedules)).mean()
            row[f"{label}, end"] = 100 * np.abs(errors(fit, last(mine), schedules)).mean()
        rows.append(row)
    return pd.DataFrame(rows)


def mixes_and_sizes(frame: pd.DataFrame, schedules: dict[str, object], starts: int) -> pd.DataFrame:
    """Return errors of Eqs. 8 and 7 in CPT, in per cent: replay in both readings, sizes in one law."""
    one = frame[frame["n_params"] == SIZE]
    sized = frame[(frame["phase"] == "pretrain") | ((frame["replay"] == 0) & (frame["potential"] == 0))]
    asked = {
        "Eq. 8, corrected": ("cpt-dynamics-replay:normalised=true:decay=0.98", one),
        "Eq. 8, as printed": ("cpt-dynamics-replay:replay_form=as_printed:normalised=true:decay=0.98", one),
        "Eq. 7, sizes": ("cpt-dynamics-size:decay=0.98", sized),
        "Eq. 7, usual priors": ("cpt-dynamics-size:decay=0.98", sized),
        "Eq. 4, sizes together": (LAW, sized),
    }
    rows = []
    for name, (law, table) in asked.items():
        row: dict[str, object] = {"law": name}
        for on in ROLES:
            own = table[table["eval"] == on]
            restraint = None if name.endswith("usual priors") else "none"
            fit = cl.fit(law, own, on=on, schedules=schedules, starts=starts, restraint=restraint)
            mine = own[own["phase"] == "cpt"]
            row[f"{on}, %"] = 100 * np.abs(errors(fit, mine, schedules)).mean()
            row |= {f"{on} {key}": fit.params[key] for key in ("a1", "a2", "g1", "g2", "g3") if key in fit.params}
        rows.append(row)
    return pd.DataFrame(rows)


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the last losses of all runs at the size that has all of them, one row per run."""
    table = last(frame[(frame["n_params"] == SIZE) & frame["eval"].isin(ROLES)])
    table = table.assign(length=(table["tokens"] / SIZE).round())
    keys = ["ptpp", "length", "replay", "lr_schedule", "lr_peak", "potential"]
    return table.pivot_table(index=keys, columns="eval", values="loss").reset_index()


def statements(found: pd.DataFrame) -> dict[str, str]:
    """Return the paper's statements on the ends of runs: what was measured, and whether it agrees."""

    def ordered(rows: pd.DataFrame, by: str, on: str, falling: bool) -> str:
        """Say whether a loss falls (or rises) with a column, everything else alike."""
        others = [name for name in ("ptpp", "length", "replay", "lr_schedule", "lr_peak", "potential") if name != by]
        right = pairs = 0
        for _, group in rows.groupby(others):
            change = np.diff(group.sort_values(by)[on])
            right, pairs = right + int((change < 0).sum() if falling else (change > 0).sum()), pairs + len(change)
        return f"{right} of {pairs} pairs"

    cosine = found[(found["lr_schedule"] == "cosine") & (found["length"] == 16)]
    at_62 = cosine[cosine["ptpp"] == 62]
    alike = found[(found["length"] == 16) & (found["replay"] == 0)]
    long = found[(found["lr_schedule"] == "cosine") & (found["ptpp"] == 62) & (found["replay"] == 0)]
    return {
        "finding 3, fig. 5: higher loss potential, lower target loss": ordered(alike, "potential", "target", True),
        "fig. 5: higher loss potential, higher source loss": ordered(alike, "potential", "source", False),
        "figs. 7a-b: higher peak, lower target loss": ordered(at_62[at_62["replay"] == 0], "lr_peak", "target", True),
        "figs. 7a-b: higher peak, higher source loss": ordered(at_62[at_62["replay"] == 0], "lr_peak", "source", False),
        "fig. 12: more replay, lower source loss": ordered(at_62, "replay", "source", True),
        "fig. 12: more replay, higher target loss": ordered(at_62, "replay", "target", False),
        "fig. 7: longer CPT, lower target loss": ordered(long[long["lr_peak"] == 3e-3], "length", "target", True),
        "fig. 7: longer CPT, higher source loss": ordered(long[long["lr_peak"] == 3e-3], "length", "source", False),
        "longer pre-training, lower target loss": ordered(alike[alike["lr_peak"] == 3e-3], "ptpp", "target", True),
        "longer pre-training, lower source loss": ordered(alike[alike["lr_peak"] == 3e-3], "ptpp", "source", True),
    }


def third_corpora(frame: pd.DataFrame) -> pd.DataFrame:
    """Return Eq. 6 for two corpora that no run trains on."""
    runs = cl.read_runs(frame[(frame["n_params"] == SIZE) & (frame["phase"] == "cpt")].drop(columns=["potential"]))
    rows = []
    for on in ("german", "manuals"):
        found = cl.fit_out_of_domain(runs, on)
        row = {"corpus": on, "target share": found.target_share, "source share": found.source_share, "R2": found.r2}
        rows.append(row | {"left out, nats": found.left_out_rmse, "condition": found.condition})
    return pd.DataFrame(rows)


def in_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as it is shown."""
    return table.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) and np.isfinite(cell) else str(cell))


def probe() -> list[dict[str, float]]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    frame, schedules = load()
    rows = plain(frame)[lambda each: each["eval"] == "source"]
    return [how_far(fitted(law, rows, "source", schedules, 1), rows, schedules) for law in (LAW, PUBLISHED)]


def main() -> None:
    """Run all studies and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few starts, Eq. 4 alone")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    frame, schedules = load()
    print(f"{len(frame):,} losses of {frame['run'].nunique()} curves")
    made: dict[str, pd.DataFrame] = {}

    def show(key: str, title: str, table: pd.DataFrame) -> None:
        made[key] = in_text(table)
        print(f"\n## {title}\n\n{made[key].to_string(index=False)}", flush=True)

    said = pd.DataFrame(statements(ends(frame)).items(), columns=["statement", "measured"])
    show("statements", "The ends of runs", said)
    if asked.small:
        show("equation-4", "Eq. 4", equation_four(frame, schedules, 2, VARIANTS[:1]))
        return
    show("equation-4", "Eq. 4 and its variants", equation_four(frame, schedules, 6, VARIANTS))
    print("published R2, in this order:", PUBLISHED_R2)
    show("surface", "The surface of Eq. 4 (fig. 4)", surface(frame, schedules, 6))
    show("boundary", "The boundary between the phases", boundaries(frame, schedules, 4))
    show("held-out", "Held out, by lambda", held_out(frame, schedules, 4))
    show("mixes-and-sizes", "Replay and sizes", mixes_and_sizes(frame, schedules, 4))
    show("third-corpora", "Losses on a third corpus (Eq. 6)", third_corpora(frame))
    show("by-corpus", "Eq. 4 by corpus and size", by_corpus(6))
    show("held-out-by-corpus", "Held out by corpus, source / target", held_out_by_corpus(4))
    show("statements-by-corpus", "The ends of runs by corpus", statements_by_corpus())
    if asked.write:
        write_result("dynamics_measured", made)


if __name__ == "__main__":
    main()
