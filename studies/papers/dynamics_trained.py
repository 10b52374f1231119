"""Curves that were trained to test plans and protocols of the learning-dynamics paper (arXiv:2505.07796), at 46K.

- planned schedules (the seal studies/sealed/schedules_46k.json) beside cosine and WSD at equal tokens, three seeds; and
  which schedule is best by weight of the source loss, by the law and measured (fig. 8);
- fig. 5 by its two protocols; the end of pre-training, the optimiser's state and the length of the re-warm-up;
- the hidden curve of the new corpus (fig. 1): from scratch on it, beside CPT after 62 tokens per parameter of the old;
- the critical point (fig. 7c): where in budget and size a run without replay begins to lose source loss for good.

    python -m studies dynamics_trained            # prints the tables; seconds
    python -m studies dynamics_trained --write    # keeps them for studies/dynamics.md
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import HOME, MEASURED, show, spread, write_result

SEAL = HOME / "sealed" / "schedules_46k.json"
PLANNED = {("wsd", 0.006, 432): "planned for .3", ("wsd", 0.000829, 661): "planned for .55"}
WEIGHTS = (0.3, 0.55)
FEW_ABOVE = 0.005  # peaks that less than a tenth of the fitted runs had: `plan schedule` takes none of them unasked
SIZE = 45936
ON = ("target", "source")
BEGUN = {
    ("linear", 0.0006): "linear from a tenth of the peak, re-warmed",
    ("linear", 0.003): "linear from half of the peak",
    ("linear", 0.006): "linear from the peak",
    ("cosine", 0.003): "cosine",
}
TENTH, HALF, PEAK, COSINE = BEGUN.values()
CHANGES = (  # run, over run: how CPT began, its warm-up, the optimiser's state, and the end of pre-training
    (
        "not annealed, from the peak, over half annealed, from half of it",
        (PEAK, 0, "fresh", 1.0),
        (HALF, 0, "fresh", 0.5),
    ),
    (
        "not annealed over annealed, re-warmed to a tenth of the peak",
        (TENTH, 50, "fresh", 1.0),
        (TENTH, 50, "fresh", 0.0),
    ),
    ("not annealed over annealed, linear from half of the peak", (HALF, 0, "fresh", 1.0), (HALF, 0, "fresh", 0.0)),
    ("not annealed over annealed, cosine", (COSINE, 50, "fresh", 1.0), (COSINE, 50, "fresh", 0.0)),
    ("optimiser's state kept over fresh, cosine, not annealed", (COSINE, 50, "kept", 1.0), (COSINE, 50, "fresh", 1.0)),
    ("no warm-up over 50 steps, cosine, not annealed", (COSINE, 0, "fresh", 1.0), (COSINE, 50, "fresh", 1.0)),
    ("warm-up of 200 over 50 steps, cosine, not annealed", (COSINE, 200, "fresh", 1.0), (COSINE, 50, "fresh", 1.0)),
)


def ends(name: str) -> pd.DataFrame:
    """Return the last losses of the runs of a table, one row each, with their schedules."""
    frame = pd.read_csv(MEASURED / f"{name}.csv")
    phases = pd.read_json(MEASURED / f"{name}_schedules.json", typ="series")
    frame = frame[frame["run"].isin(phases.index) & (frame["tokens"] > 0)]
    frame = frame[frame["phase"].fillna("cpt") == "cpt"] if "phase" in frame else frame
    last = frame.loc[frame.groupby(["run", "eval"])["step"].idxmax()]
    table = last.pivot_table(index=["run", "seed", "base", "lr_schedule", "lr_peak"], columns="eval", values="loss")
    table = table.reset_index()
    cpt = [phases[run][-1] for run in table["run"]]
    return table.assign(decay=[one.get("decay", 0) for one in cpt], warmup=[one.get("warmup", 0) for one in cpt])


def schedules() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return planned and usual schedules by their losses, and the best one by weight: as sealed and as measured."""
    sealed = cl.score([SEAL], MEASURED / "schedules_46k.csv").frame
    said = sealed.pivot_table(index="run", columns="on", values="loss").add_prefix("said ")
    table = ends("schedules_46k").merge(said, left_on="run", right_index=True)
    names = [
        PLANNED.get(
            (row["lr_schedule"], row["lr_peak"], row["decay"]), f"{row['lr_schedule']}, peak {row['lr_peak']:g}"
        )
        for row in table.to_dict("records")
    ]
    table = table.assign(schedule=names)
    for weight in WEIGHTS:
        for prefix in ("", "said "):
            table[f"{prefix}{weight}"] = weight * table[f"{prefix}source"] + (1 - weight) * table[f"{prefix}target"]
    rows = []
    for name, part in table.groupby("schedule"):
        row = {"schedule": name, "target": part["target"].mean(), "source": part["source"].mean()}
        for weight in WEIGHTS:
            best = table.groupby("seed")[str(weight)].transform("min")
            first = int((part[str(weight)] == best[part.index]).sum())
            row |= {f"at {weight}": part[str(weight)].mean(), f"at {weight}, sealed": part[f"said {weight}"].mean()}
            row |= {f"at {weight}, best of": f"{first} of {len(part)}"}
        rows.append(row)
    means = table.groupby("schedule")[["target", "source", "said target", "said source", "lr_peak"]].mean()
    usual = means["lr_peak"] < FEW_ABOVE
    best = []
    for weight in np.arange(0, 11) / 10:
        of = {key: weight * means[f"{key}source"] + (1 - weight) * means[f"{key}target"] for key in ("", "said ")}
        chosen, first, within = of["said "].idxmin(), of[""].idxmin(), of["said "][usual].idxmin()
        over, of_usual = (100 * (of[""][one] / of[""][first] - 1) for one in (chosen, within))
        row = {"weight": f"{weight:.1f}", "by the law": chosen, "measured": first, "over the best, %": over}
        best.append(row | {"by the law, at usual peaks": within, "over the best then, %": of_usual})
    return pd.DataFrame(rows).sort_values("at 0.55"), pd.DataFrame(best)


def protocols() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both losses at the end of CPT by what the base model ended at and how CPT began, and changes of them.

    Means and ranges over seeds; a change is that of one seed's runs, in per cent.
    """
    table = ends("checkpoints_46k")
    carried = table["run"].str.contains("carried|state")
    table = table.assign(
        end=table["base"].str.extract(r"-e([\d.]+)$")[0].astype(float),
        state=np.where(carried, "kept", "fresh"),
        CPT=[BEGUN[pair] for pair in zip(table["lr_schedule"], table["lr_peak"], strict=True)],
    )
    by = table.set_index(["CPT", "warmup", "state", "end", "seed"]).sort_index()[["source", "target"]]
    found = by.groupby(level=[0, 1, 2, 3]).agg(lambda losses: spread(losses, 3)).unstack("end")
    found.columns = [f"{on}, end {end:.0%}" for on, end in found.columns]
    changes = []
    for words, one, other in CHANGES:
        change = (100 * (by.loc[one] / by.loc[other] - 1)).dropna()
        changes.append({"change": words} | {f"{on}, %": spread(change[on]) for on in ("source", "target")})
    return found.reset_index(), pd.DataFrame(changes)


def hidden() -> pd.DataFrame:
    """Return the French loss along tokens of French: from scratch, and after English."""
    scratch = pd.read_csv(MEASURED / "scratch_46k.csv").query("phase == 'pretrain' and eval == 'source'")
    after = pd.read_csv(MEASURED / "schedules_46k.csv").query(
        "eval == 'target' and tokens > 0 and lr_schedule == 'wsd'"
    )
    after = after[(after["lr_peak"] == 0.006) & (after["step"] < 280)].groupby("tokens")["loss"].mean()
    curve = scratch.groupby("tokens")["loss"].mean()
    rows = []
    for per_param in (0.5, 1, 2, 4, 6):
        tokens = per_param * SIZE
        one, other = (np.interp(np.log(tokens), np.log(each.index), each.to_numpy()) for each in (curve, after))
        reached = curve.index[curve.to_numpy() <= other]
        worth = "more than 31" if not len(reached) else f"{reached[0] / SIZE:.0f}"
        rows.append({"French, tokens per parameter": per_param, "from scratch": one, "after English": other,
                     "scratch needs, tokens per parameter": worth})  # fmt: skip
    return pd.DataFrame(rows)


def critical() -> pd.DataFrame:
    """Return the change of the source loss over 16 tokens per parameter without replay, nats, by size and budget."""
    frame = cl.examples.load("en-fr-ladder").frame.query("seed == 0 and eval == 'source'")
    usual = frame[(frame["replay"] == 0) & (frame["tokens"] > 0) & (frame["lr_schedule"] == "constant")]
    last = usual.loc[usual.groupby("run", observed=True)["tokens"].idxmax()]
    base = frame[frame["tokens"] == 0].groupby(["n_params", "ptpp"])["loss"].first()
    change = last["loss"].to_numpy() - base.loc[list(zip(last["n_params"], last["ptpp"], strict=True))].to_numpy()
    table = last.assign(change=change).pivot_table(index="n_params", columns="ptpp", values="change")
    table = table[[budget for budget in table.columns if budget <= 279]].rename(columns=lambda each: f"budget {each:g}")
    table.insert(0, "parameters", [f"{size / 1e3:.0f}K" for size in table.index])
    return table


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables, as they are shown."""
    planned, best = schedules()
    begun, changes = protocols()
    made = {"schedules": planned, "best": best, "hidden": hidden(), "critical": critical()}
    made |= {"protocols": begun, "changes": changes}
    return {
        name: each.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) and np.isfinite(cell) else cell).fillna(
            "-"
        )
        for name, each in made.items()
    }


def probe() -> list[pd.DataFrame]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return [hidden(), critical()]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("dynamics_trained", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
