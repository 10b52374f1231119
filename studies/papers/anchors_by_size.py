"""Anchors of the PTPP paper by their size: whether runs added at the highest budget help forecasts of larger models.

Of every shift that was measured at 279 tokens per parameter, the forms are fitted to budgets 15 and 31 of all sizes,
and to the runs at 279 of one size (the anchors); forecast is every larger size at 279. Anchors of one size and tests at
several tell the size of the anchors from their nearness.

    python -m studies anchors_by_size             # prints the tables: some minutes
    python -m studies anchors_by_size --write     # keeps them for studies/measured_tables.md
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import HOME, MEASURED, Array, progress, show, write_result
from studies.papers.budgets_by_shift import NAMES, usual_rows
from studies.papers.open_fits import is_open, open_fit
from studies.papers.ptpp_published import FORMS

BUDGET = 279
ROWS = "replay in (0.1, 0.25, 0.5) and tokens > 0"
LARGE = 200_000


def errors(name: str) -> pd.DataFrame:
    """Return errors in per cent, (equal fits, tests): a row per loss, size of anchors (0 for none), size and form."""
    runs = usual_rows(cl.examples.load(name)).where(ROWS)
    sizes = sorted(runs.where(f"ptpp == {BUDGET}").frame["n_params"].unique())
    found = []
    for on, anchors in itertools.product(("target", "source"), (0.0, *sizes[:-1])):
        progress(f"{name}, {on}, anchors of {anchors:,.0f}")
        known = "ptpp in (15, 31)" + (f" or ptpp == {BUDGET} and n_params == {anchors}" if anchors else "")
        held = runs.on(on).where(f"ptpp == {BUDGET}").frame
        for law in FORMS:
            every = open_fit(law, runs, on, known).errors(held)
            for size in sizes:
                asked = (held["n_params"] == size).to_numpy()
                if size > anchors and asked.any():
                    row = {"shift": name, "loss": on, "anchors": anchors, "asked": size, "law": law}
                    found.append(row | {"errors": every[:, asked]})
    return pd.DataFrame(found)


def size_text(size: float) -> str:
    """Return a size as the pages write it."""
    return f"{size / 1e3:.0f}K" if size else "none"


def short(errors: Array) -> str:
    """Return the mean error of equal fits with one decimal, as a range where they leave it open."""
    means = errors.mean(axis=1)
    ends = f"{means.min():.1f}", f"{means.max():.1f}"
    return " to ".join(ends) if is_open(float(means.min()), float(means.max())) else f"{means[0]:.1f}"


def by_anchors(found: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of the three forms by shift, loss, anchors and size asked, `Forms 1 / 2 / 3`."""
    rows = []
    asked_sizes = sorted(found["asked"].unique())
    for (shift, on, anchors), part in found.groupby(["shift", "loss", "anchors"], sort=False):
        row = {"shift": shift, "loss": on, "anchors": size_text(anchors)}
        for size in asked_sizes:
            one = part[part["asked"] == size].set_index("law")["errors"]
            row[f"at {size_text(size)}"] = " / ".join(short(one[law]) for law in FORMS) if len(one) else "-"
        rows.append(row)
    return pd.DataFrame(rows)


def large(found: pd.DataFrame) -> pd.DataFrame:
    """Return the errors at the sizes above 200K by the size of the anchors, both losses."""
    rows = []
    part = found[(found["asked"] > LARGE) & (found["anchors"] < LARGE)]
    for anchors, mine in part.groupby("anchors"):
        row = {"anchors": size_text(anchors)}
        for on, (law, name) in itertools.product(("target", "source"), FORMS.items()):
            each = mine[(mine["loss"] == on) & (mine["law"] == law)]["errors"]
            row[f"{on}, {name}"] = short(np.mean([one.mean(axis=1) for one in each], axis=0)[:, None])
        rows.append(row)
    return pd.DataFrame(rows)


def sealed() -> pd.DataFrame:
    """Return what the sealed forecasts of 75K at 124 on English to German missed by, by the size of their anchors."""
    runs = cl.read_runs(MEASURED / "german.csv", n_params_kind="total")
    rows = []
    for anchors in ("none", "30k", "46k"):
        points = cl.score([HOME / "sealed" / f"en_de_75k_124_{anchors}.json"], runs).frame
        row: dict[str, object] = {"anchors": anchors.upper() if anchors != "none" else anchors}
        for (on, law), part in points.groupby(["on", "law"], sort=False):
            row[f"{on}, {FORMS[law]}"] = f"{100 * part['error'].abs().mean():.1f} ({100 * part['error'].mean():+.1f})"
        held = points["inside"].dropna()
        rows.append(row | {"90 % intervals that held": f"{int(held.sum())} of {len(held)}"})
    return pd.DataFrame(rows)


def tables(names: tuple[str, ...] = NAMES) -> dict[str, pd.DataFrame]:
    """Return the tables."""
    found = pd.concat([errors(name) for name in names], ignore_index=True)
    return {"large": large(found), "all": by_anchors(found), "sealed": sealed()}


def probe() -> Array:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    runs = usual_rows(cl.examples.load("docs-to-code")).where(ROWS)
    held = runs.on("source").where(f"ptpp == {BUDGET}").frame
    return open_fit("ptpp-floor", runs, "source", "ptpp in (15, 31)", held_values=0, starts=4).errors(held)


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    made = tables()
    print(show(made))
    if write:
        write_result("anchors_by_size", made)


if __name__ == "__main__":
    main()
