"""The loss curves of continual pre-training from published coefficients: figs. 2, 3, 6, 11, 12, 14 to 16, 19 and 20.

Wang et al. 2025 (arXiv:2505.07796) released no losses, but print the coefficients of every fit. With these the curves
are arithmetic; what can be checked is that they agree among themselves, and `shapes` says how far they do. The planning
figures (5, 7, 8, 13) are in cpt_schedule_figures.py. By family:

- shift: the change of corpus alone, in steps (figs. 2, 14) and in the forward area (fig. 6), where curves of all rates
  fall together; as a power and as an exponential form.
- corpora: both losses under WSD and cosine, two target corpora (figs. 3, 11).
- replay: 33, 50 and 67 % fitted one by one (fig. 12), and one law for all (fig. 19, in its corrected form).
- sizes: three sizes fitted one by one (figs. 3, 16), and one law for all (fig. 15).
- variants: annealing weighted by the rate, or to a power (fig. 20).
- real: the example runs of this package, fitted by the same law as an open base model's.

Ours where the paper is silent: pre-training of 20k steps at a peak of 2e-4, CPT of 10k steps, a warm-up of 500 steps.

Run it as ``python -m studies dynamics_figures [-o FOLDER] [--only FAMILY]``, or with ``--small`` (seconds). It writes
one CSV per family, an HTML picture beside those that are loss curves where the extra `report` is installed, and prints
what the shapes say.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.schedules import Phase, Schedule
from studies.papers.dynamics_published import (
    FIG_3,
    FIG_11,
    FIG_12,
    FIG_15,
    FIG_16,
    FIG_19,
    FIG_20,
    IN_STEPS,
    NAMES,
    POWER_NAMES,
    REPLAY_NAMES,
    ROLES,
    SIZE_NAMES,
)

PEAK, PRETRAIN, CPT = 2e-4, 20_000, 10_000


def phases(schedule: str) -> Schedule:
    """Return both phases of a run, the base model annealed."""
    base = Phase("pretrain", PRETRAIN, "wsd", peak=PEAK, warmup=500, decay=PRETRAIN // 5)
    decay = CPT // 5 if schedule == "wsd" else 0
    return Schedule([base, Phase("cpt", CPT, schedule, peak=PEAK, warmup=500, decay=decay)])


SCHEDULES = {name: phases(name) for name in ("wsd", "cosine", "constant")}


def curve(law: str, params: dict[str, float], role: str, run: str, every: int, **inputs: float) -> pd.DataFrame:
    """Return the losses of one run, step by step of CPT."""
    rows = pd.DataFrame({"run": run, "step": range(0, CPT + 1, every), "eval": role}).assign(**inputs)
    found = cl.given_fit(law, params, role)
    return rows.assign(loss=found.predict(found.law.attach(rows, SCHEDULES)))


def both(law: str, pair: tuple, names: tuple[str, ...], run: str, every: int, **inputs: float) -> pd.DataFrame:
    """Return the source and target losses of one run."""
    parts = [
        curve(law, dict(zip(names, values, strict=True)), role, run, every, **inputs)
        for role, values in zip(ROLES, pair, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def shift(every: int) -> pd.DataFrame:
    """Figs. 2, 6, 14: the shift in steps as printed, and of fig. 3 at three rates, by difference to no change."""
    step = np.arange(0, CPT + 1, every)
    parts = []
    for figure, of in IN_STEPS.items():
        for role, (amplitude, speed, bend) in of.items():
            value = amplitude * (1 - (1 + speed * step) ** -bend)
            parts.append(pd.DataFrame({"figure": figure, "eval": role, "run": "2e-4", "step": step, "shift": value}))
    for role, values in zip(ROLES, FIG_3, strict=True):
        params = dict(zip(NAMES, values, strict=True)) | {"C1": values[7]}
        without = {"L0": params["L0"], "A": params["A"], "alpha": params["alpha"], "C": params["C2"]}
        control = cl.given_fit("lr-annealing", without, role)
        for peak in (0.5e-4, 1e-4, 2e-4):
            run = f"{peak:g}"
            known = {run: Schedule([Phase("pretrain", PRETRAIN, "constant", peak=peak), Phase("cpt", CPT, "constant")])}
            rows = pd.DataFrame({"run": run, "step": step, "eval": role})
            changed = cl.given_fit("cpt-dynamics", params, role)
            rows = rows.assign(loss=changed.predict(changed.law.attach(rows, known)))
            found = cl.shift_of_runs(rows, role, control, known)
            parts.append(found[["run", "step", "s1_cpt", "shift"]].assign(figure="fig. 6", eval=role))
    return pd.concat(parts, ignore_index=True)


def corpora(every: int) -> pd.DataFrame:
    """Figs. 3, 11: two target corpora under three schedules."""
    pairs = {"fig. 3 (Knowledge-Pile)": FIG_3, "fig. 11 (Pile-of-Law)": FIG_11}
    return _stacked(
        both("cpt-dynamics", pair, NAMES, run, every).assign(figure=figure)
        for figure, pair in pairs.items()
        for run in SCHEDULES
    )


def replay(every: int) -> pd.DataFrame:
    """Figs. 12, 19: replay fitted one by one, and one law for all."""
    parts = [
        both("cpt-dynamics", pair, NAMES, "constant", every).assign(figure="fig. 12", replay=share)
        for share, pair in {0.0: FIG_3, **FIG_12}.items()
    ]
    parts += [
        both("cpt-dynamics-replay", FIG_19, REPLAY_NAMES, "constant", every, replay=share).assign(figure="fig. 19")
        for share in (0.0, *FIG_12)
    ]
    return _stacked(parts)


def sizes(every: int) -> pd.DataFrame:
    """Figs. 3, 15, 16: sizes fitted one by one, and one law for all."""
    parts = [
        both("cpt-dynamics", pair, NAMES, "cosine", every).assign(figure="fig. 16", n_params=size)
        for size, pair in FIG_16.items()
    ]
    parts += [
        both("cpt-dynamics-size", FIG_15, SIZE_NAMES, "cosine", every, n_params=size).assign(figure="fig. 15")
        for size in FIG_16
    ]
    return _stacked(parts)


def variants(every: int) -> pd.DataFrame:
    """Fig. 20: the annealing area weighted by the rate, or to a power, beside eq. 4."""
    laws = {"cpt-dynamics": FIG_3, **FIG_20}
    return _stacked(
        both(law, pair, POWER_NAMES if law.endswith("power") else NAMES, run, every).assign(figure="fig. 20", law=law)
        for law, pair in laws.items()
        for run in ("cosine", "wsd")
    )


def real(every: int) -> pd.DataFrame:
    """Return the example runs of the largest size at one budget, and the law with replay fitted to them.

    Rates were constant, so nothing tells the annealing coefficient: it is held at 0, and with it its dependence on
    replay means nothing.
    """
    runs = cl.examples.load("en-fr-pilot")
    rows = "n_params > 100K and ptpp == 31 and replay > 0 and replay < 1 and lr_schedule == 'constant' and step > 0"
    law, held = "cpt-dynamics-replay:open_base=true:normalised=true", {"C2": 0.0, "a1": 0.05}
    parts = []
    for role in ROLES:
        table = runs.where(rows).on(role).frame
        known = {
            str(run): Schedule([Phase("cpt", int(part["step"].max()), "constant", peak=3e-3, warmup=50)])
            for run, part in table.groupby(table["run"].astype(str))
        }
        fit = cl.fit(law, table, on=role, schedules=known, fix=held, starts=8, restraint="none")
        kept = table[["run", "step", "eval", "loss", "replay"]]
        parts.append(kept.assign(figure="example runs", fitted=fit.predict(fit.law.attach(table, known))))
    return _stacked(parts)


def _stacked(parts: object) -> pd.DataFrame:
    return pd.concat(list(parts), ignore_index=True)


FAMILIES: dict[str, Callable[[int], pd.DataFrame]] = {
    "shift": shift,
    "corpora": corpora,
    "replay": replay,
    "sizes": sizes,
    "variants": variants,
    "real": real,
}


def shapes(found: dict[str, pd.DataFrame]) -> dict[str, bool]:
    """Return what the published fits should have in common, and whether they do."""
    said = {}
    if "shift" in found:
        table = found["shift"]
        one = table[(table["figure"] == "fig. 6") & (table["eval"] == "source")]
        across = cl.fit_shift(one), cl.fit_shift(one, against="step")
        said["6: in the forward area the shifts of all rates are one curve, in steps they are not"] = (
            across[0].r2 > 0.9999 > across[1].r2
        )
        for role in ROLES:
            printed = table[(table["figure"] == "fig. 2") & (table["eval"] == role) & (table["step"] > 0)]
            power, exponential = (cl.fit_shift(printed, form, "step") for form in ("power", "exponential"))
            said[f"2: the exponential form cannot follow the printed {role} shift"] = exponential.r2 < power.r2
    if "corpora" in found:
        ends = _ends(found["corpora"], ["figure", "run"])
        said["3, 11: the target loss falls below where it began under every schedule"] = bool(
            (ends["target"] < 0).all()
        )
        said["11: the shift to Pile-of-Law costs more source loss than that to Knowledge-Pile"] = bool(
            (ends["source"].xs("fig. 11 (Pile-of-Law)") > ends["source"].xs("fig. 3 (Knowledge-Pile)")).all()
        )
    if "replay" in found:
        ends = _ends(found["replay"], ["figure", "replay"])
        for figure in ("fig. 12", "fig. 19"):
            of = ends.xs(figure).sort_index()
            said[f"{figure[5:]}: the more replay, the less the target loss falls"] = bool(
                of["target"].is_monotonic_increasing
            )
            name = f"{figure[5:]}: any replay costs less source loss than none"
            said[name] = bool((of["source"].iloc[1:] < of["source"].iloc[0]).all())
    if "sizes" in found:
        table = found["sizes"]
        last = table[table["step"] == CPT].pivot_table(index="n_params", columns=["figure", "eval"], values="loss")
        said["15, 16: larger models end lower on both losses"] = bool((last.diff().dropna() < 0).all(axis=None))
        gap = (last["fig. 15"] - last["fig. 16"]).abs().max(axis=None)
        said["15, 16: one law for all sizes ends within 0.1 nats of single fits"] = bool(gap < 0.1)
    if "variants" in found:
        table = found["variants"]
        last = table[table["step"] == CPT].pivot_table(index=["run", "eval"], columns="law", values="loss")
        said["20: the variants end within 0.05 nats of eq. 4"] = bool(
            last.sub(last["cpt-dynamics"], axis=0).abs().max(axis=None) < 0.05
        )
    if "real" in found:
        missed = (found["real"]["fitted"] / found["real"]["loss"] - 1).abs()
        said["example runs: the law is within 2 % of every measured loss"] = bool(missed.max() < 0.02)
    return said


def _ends(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how far source and target losses end above where CPT began."""
    first = table[table["step"] == 0].set_index([*by, "eval"])["loss"]
    return (table[table["step"] == CPT].set_index([*by, "eval"])["loss"] - first).unstack("eval")


def picture(name: str, table: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the loss curves of a family, one page per loss; nothing without the extra `report`."""
    try:
        import plotly  # noqa: F401
    except ImportError:
        return []
    if "loss" not in table.columns:
        return []
    parts = [table[key].astype(str) for key in ("figure", "law", "run", "replay", "n_params") if key in table.columns]
    label = parts[0].str.cat(parts[1:], sep=", ")
    written = []
    for role in ROLES:
        rows = table.assign(run=label)[(table["eval"] == role).to_numpy()][["run", "eval", "step", "loss"]]
        names = rows["run"].unique().tolist()
        drawn = cl.figures.loss_curves(cl.read_runs(rows), role, names=names)
        written.append(folder / f"{name}-{role}.html")
        drawn.drawing.write_html(written[-1], include_plotlyjs="directory")
    return written


def main(arguments: list[str] | None = None) -> dict[str, bool]:
    """Write the figures' data and pictures, and print the shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="every 1,000 steps instead of every 50")
    parser.add_argument("--only", choices=FAMILIES, action="append", help="these families only")
    parser.add_argument("-o", "--output", type=Path, default=Path("dynamics-figures"), help="folder for the files")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    found = {name: FAMILIES[name](1000 if chosen.small else 50) for name in chosen.only or FAMILIES}
    for name, table in found.items():
        table.to_csv(chosen.output / f"{name}.csv", index=False)
        pages = picture(name, table, chosen.output)
        print(f"{chosen.output / name}.csv: {len(table)} rows", *pages)
    said = shapes(found)
    print()
    for text, holds in said.items():
        print(f"{'yes' if holds else 'NO '}  {text}")
    return said


if __name__ == "__main__":
    main()
