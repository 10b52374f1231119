"""Forgetting by size in nats and in per cent of the base model's source loss, of English to French as measured.

    python -m studies forgetting_by_size             # prints the table
    python -m studies forgetting_by_size --write     # keeps it for studies/measured_tables.md; a test compares

Constant rate, 16 tokens of adaptation per parameter, means over seeds. Rows are what the committed tables hold.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, show, write_result

SHIFTS = ("en-fr-ladder", "code-to-prose", "docs-to-manuals")  # whose runs name their base model
BUDGETS, REPLAYS = (31, 62, 279), (0.0, 0.1)


def ends(name: str = "en-fr-ladder") -> pd.DataFrame:
    """Return the rise of the source loss of each run, in nats and as a share of the base model's."""
    frame = cl.examples.load(name).frame
    if name == "en-fr-ladder":
        frame = pd.concat([frame, cl.read_runs(MEASURED / "large.csv").frame], ignore_index=True)
    frame = frame[frame["eval"] == "source"]
    if "pretrain_decay" in frame:
        frame = frame[frame["pretrain_decay"].fillna(0.15) > 0]
    base = frame[frame["tokens"] == 0].groupby("base", observed=True)["loss"].first()
    runs = frame[(frame["tokens"] > 0) & (frame["lr_schedule"] == "constant")]
    last = runs.loc[runs.groupby("run", observed=True)["tokens"].idxmax()]
    usual = last["lr_peak"] == last.groupby("n_params")["lr_peak"].transform(lambda each: each.mode().iloc[0])
    last = last[usual & (last["tokens"] / last["n_params"] > 15)]
    start = last["base"].map(base).astype(float)
    return last.assign(nats=last["loss"] - start, share=last["loss"] / start - 1.0)


def rows(name: str = "en-fr-ladder") -> pd.DataFrame:
    """Return mean forgetting in nats and share, and the number of seeds, by size, budget and replay."""
    found = ends(name)
    parts = found.groupby(["n_params", "ptpp", "replay"])
    return parts.agg(nats=("nats", "mean"), share=("share", "mean"), seeds=("seed", "nunique")).reset_index()


def lines() -> list[list[str]]:
    """Return the cells of the table, a line per size."""
    found = rows()
    out = []
    for size, mine in found.groupby("n_params"):
        cells = [f"{size / 1e3:.0f}K"]
        for replay in REPLAYS:
            for budget in BUDGETS:
                one = mine[np.isclose(mine["replay"], replay) & np.isclose(mine["ptpp"], budget)]
                several = "" if one.empty or one["seeds"].iloc[0] == 1 else f" ({one['seeds'].iloc[0]})"
                if one.empty:
                    cells.append("-")
                    continue
                nats, share = (float(one[name].iloc[0]) for name in ("nats", "share"))
                cells.append(f"{nats:.2f}, {100 * share:.0f} %{several}")
        out.append(cells)
    return out


def shifts() -> pd.DataFrame:
    """Return forgetting after budget 279 on every shift of our own, a line per shift and replay, a column per size."""
    lines = []
    for name in SHIFTS:
        found = rows(name)
        found = found[np.isclose(found["ptpp"], BUDGETS[-1])]
        for replay in (*REPLAYS, 0.25):
            here = found[np.isclose(found["replay"], replay)]
            cells = {
                f"{row.n_params / 1e3:.0f}K": f"{row.nats:.2f}, {100 * row.share:.0f} %" for row in here.itertuples()
            }
            lines.append({"shift": name, "replay": f"{replay:g}", **cells})
    return pd.DataFrame(lines).fillna("-")


def bases() -> pd.DataFrame:
    """Return the error of the base models' own source losses at 279, forecast from 31, 62 and 124, in per cent."""
    lines = []
    for name in ("en-fr-pilot", "docs-to-code", *SHIFTS):
        runs = cl.examples.load(name)
        plain = "tokens == 0" + (" and pretrain_decay > 0" if "pretrain_decay" in runs.frame else "")
        fit = cl.fit("ptpp-base", runs, on="source", where=f"{plain} and ptpp in (31, 62, 124)", restraint="none")
        held = runs.on("source").where(f"{plain} and ptpp == 279").frame
        error = 100 * np.abs(fit.predict(held) / held["loss"].to_numpy() - 1)
        lines.append({"table": name, "base models": len(held), "ptpp-base, error": f"{error.mean():.2f}"})
    return pd.DataFrame(lines)


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables."""
    heads = [f"replay {replay:g}, budget {budget}" for replay in REPLAYS for budget in BUDGETS]
    return {"ends": pd.DataFrame(lines(), columns=["parameters", *heads]), "shifts": shifts(), "bases": bases()}


def probe() -> list[pd.DataFrame]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return [ends()[["nats", "share"]], rows()]


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("forgetting_by_size", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
