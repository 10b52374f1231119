"""The studies that numbers are learned from: tables of real runs as series of one loss each.

A *study* is one team's set of runs, the unit that is left out; a *series* is one loss of it. Public tables are read
from a folder and are no part of this project; what is kept of them are numbers learned over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, find_data

KEPT = ("run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "lr_peak", "seed")
MOST_ROWS = 160


@dataclass(frozen=True, eq=False)
class Series:
    """One loss of one study.

    Parameters
    ----------
    study, name
        The study, and which of its losses.
    kind
        ``"static"``: models over sizes and tokens; ``"cpt"``: CPT over tokens, mixes, budgets and rates.
    frame
        A runs table of one eval.
    """

    study: str
    name: str
    kind: str
    frame: pd.DataFrame


def all_series(folder: str | None, further: bool = False) -> Iterator[Series]:
    """Yield the series of every study whose file is there, and of the examples that nothing was learned from."""
    for study, (file, build) in (STUDIES | FURTHER if further else STUDIES).items():
        if file is None:
            yield from build(pd.DataFrame())
            continue
        path = find_data(file, folder)
        if path is None:
            print(f"skipped: {study}, for {file} is not in the data folder (--data).")
            continue
        yield from build(pd.read_csv(path))


def _series(study: str, name: str, kind: str, frame: pd.DataFrame, role: str = "target") -> Series:
    table = frame.rename(columns={"run_id": "run", "replay_ratio": "replay", "cpt_tokens": "tokens"})
    table = table.loc[:, ~table.columns.duplicated()].assign(eval=role)
    if len(table) > MOST_ROWS:  # whole runs, spread over the table
        names = table["run"].astype(str).unique()
        count = int(len(names) * MOST_ROWS / len(table))
        kept = names[np.unique(np.linspace(0, len(names) - 1, count).round().astype(int))]
        table = table[table["run"].astype(str).isin(kept)]
    return Series(study, name, kind, table[[c for c in KEPT if c in table.columns]].reset_index(drop=True))


def _chinchilla(table: pd.DataFrame) -> Iterator[Series]:
    kept = table.iloc[(table["tokens"] / table["n_params"]).argsort().to_numpy()[5:]]
    yield Series("chinchilla", "loss", "static", _series("", "", "", kept).frame)


def _by_domain(study: str) -> Callable[[pd.DataFrame], Iterator[Series]]:
    def build(table: pd.DataFrame) -> Iterator[Series]:
        for domain in sorted(table["domain"].unique()):
            yield _series(study, domain, "static", table[table["domain"] == domain])

    return build


def _dmsl(table: pd.DataFrame) -> Iterator[Series]:
    sizes = table.groupby("mix_id")["n_params"].nunique()
    mixes = sorted(sizes[sizes == 3].index)[::5][:8]
    for mix in mixes:
        for loss in ("c4_loss", "openhermes_loss"):
            rows = table[table["mix_id"] == mix].assign(loss=lambda frame, loss=loss: frame[loss]).dropna(subset="loss")
            yield _series("dmsl", f"mix {mix} {loss}", "static", rows.assign(run_id=rows["run_id"]))


def _lr_schedules(table: pd.DataFrame) -> Iterator[Series]:
    table = table.assign(tokens=table["iters"] * table["tokens_per_step"], loss=table["final_val_loss"]).dropna(
        subset="loss"
    )
    for schedule in ("cos", "wsd"):
        rows = table[table["sched"] == schedule]
        best = rows.groupby(["n_params", "tokens"])["loss"].idxmin()
        yield _series("lr_schedules", schedule, "static", rows.loc[best])


def _marin(table: pd.DataFrame) -> Iterator[Series]:
    # The file has widths: their cube stands for the size, of which exponents and distances see the ratios alone.
    size = 0.1 * table["width"].astype(float) ** 3
    frame = table.assign(run=[f"w{i}" for i in range(len(table))], n_params=size)
    frame = frame.assign(tokens=frame["tokens_per_param"] * size, loss=frame["paloma_macro_loss_best_lr"])
    yield _series("marin", "paloma", "static", frame)


def _mixlaws_scratch(table: pd.DataFrame) -> Iterator[Series]:
    rows = table[(table["mix_set"] == "2Mix") | (table["n_params"] < 4e8)]
    for (mix_set, ratios, domain), part in rows.groupby(["mix_set", "ratios", "domain"]):
        if part["n_params"].nunique() < 2 or part["step"].nunique() < 6:
            continue
        steps = np.sort(part["step"].unique())
        chosen = steps[np.unique(np.geomspace(1, len(steps), 12).round().astype(int) - 1)]
        part = part[part["step"].isin(chosen) & (part["step"] >= 0.05 * steps.max())]
        frame = part.assign(run=[f"n{size:g}" for size in part["n_params"]], tokens=part["step"] * 1e6)
        yield _series("mixlaws-scratch", f"{mix_set} {ratios} {domain}", "static", frame)


def _delphi(table: pd.DataFrame) -> Iterator[Series]:
    table = table.assign(lr_peak=table["lr_factor"])
    for domain in ("math_val_raw", "math_val_decon_j075"):
        for factor in (0.33, 0.5, 0.67, 0.83):
            part = table[(table["domain"] == domain) & (table["lr_factor"] == factor) & (table["replay_ratio"] == 0.33)]
            part = part[part["series"] == "k0p20"]
            if len(part) >= 6:
                frame = part.assign(run=part["run_id"]).drop(columns=["ptpp", "replay_ratio", "lr_peak"])
                yield _series("delphi", f"{domain} rate {factor:g}", "static", frame)


def _mixlaws_ct(table: pd.DataFrame) -> Iterator[Series]:
    table = table.assign(tokens=table["step"] * table["pt_tokens"] / table["pt_steps"])
    table = table.assign(ptpp=table["pt_tokens"] / table["n_params"])
    for domain in ("python", "PILE_weighted", "Github", "Wikipedia_en", "ArXiv"):
        role = "target" if domain == "python" else "source"
        rows = table[(table["domain"] == domain) & (table["tokens"] > 0)].assign(run=lambda frame: frame["run_id"])
        yield _series("mixlaws-ct", domain, "cpt", rows, role)


def _watts(table: pd.DataFrame) -> Iterator[Series]:
    for optimiser, part in table.groupby("optimizer"):
        for role in ("source", "target"):
            frame = part.assign(run=part["run_id"], loss=part[f"{role}_loss"], lr_peak=part["cpt_peak_lr"])
            yield _series("watts", f"{optimiser} {role}", "cpt", frame, role)


def _example(name: str) -> Callable[[pd.DataFrame], Iterator[Series]]:
    def build(_: pd.DataFrame) -> Iterator[Series]:
        rows = cl.examples.load(name).frame
        if "lr_schedule" in rows.columns:
            rows = rows[(rows["tokens"] == 0) | (rows["lr_schedule"].astype(str) == "constant")]
        if rows["lr_peak"].nunique() > 1:
            rows = rows[(rows["tokens"] == 0) | (rows["lr_peak"] == rows["lr_peak"].mode().iloc[0])]
        rows = rows[(rows["tokens"] == 0) | (rows["tokens"] >= 1.9 * rows["n_params"])]
        rows = rows[rows["seed"] <= 1].drop(columns="lr_peak")
        for role in ("source", "target"):
            yield _series(name, role, "cpt", rows[rows["eval"] == role], role)

    return build


def _rate_and_replay(_: pd.DataFrame) -> Iterator[Series]:
    """Yield the one study that varies rate and replay together, each shift by itself."""
    rows = pd.read_csv(MEASURED / "rate_and_replay.csv")
    rows = rows[(rows["tokens"] == 0) | (rows["tokens"] >= 1.9 * rows["n_params"])]
    for shift in sorted(rows["domain"].dropna().unique()):
        here = rows[rows["domain"].isna() | (rows["domain"] == shift)]
        for role in ("source", "target"):
            yield _series("rate-and-replay", f"{shift} {role}", "cpt", here[here["eval"] == role], role)


STUDIES: dict[str, tuple[str | None, Callable[[pd.DataFrame], Iterator[Series]]]] = {
    "chinchilla": ("chinchilla_epoch.csv", _chinchilla),
    "gadre": ("gadre_overtraining_c4.csv", _by_domain("gadre")),
    "olmo": ("olmo_ladder.csv", _by_domain("olmo")),
    "dmsl": ("dmsl_slimpajama.csv", _dmsl),
    "lr_schedules": ("lr_schedules_runs.csv", _lr_schedules),
    "marin": ("marin_overtraining.csv", _marin),
    "mixlaws-scratch": ("mixlaws_scratch_2_3mix.csv", _mixlaws_scratch),
    "delphi": ("delphi_midtrain.csv", _delphi),
    "mixlaws-ct": ("mixlaws_ct_pythia70m.csv", _mixlaws_ct),
    "watts": ("watts_musicpile_60m.csv", _watts),
    "en-fr-pilot": (None, _example("en-fr-pilot")),
    "docs-to-code": (None, _example("docs-to-code")),
}

# Tables of ours that no number was learned from.
FURTHER: dict[str, tuple[str | None, Callable[[pd.DataFrame], Iterator[Series]]]] = {
    name: (None, _example(name)) for name in ("code-to-prose", "docs-to-manuals", "en-fr-ladder")
} | {"rate-and-replay": (None, _rate_and_replay)}
