"""Anchors of the PTPP paper by their size: whether runs added at the highest budget help a larger model's forecast.

Fitted to budgets 15 and 31 of every size of `en-fr-ladder`, and to the runs at 279 of one small size (the anchors);
forecast: 204K and 371K at 279, target loss, replay 0.1 and 0.25.

    python -m studies anchors_by_size     # a minute
"""

from __future__ import annotations

import numpy as np

import cptlaw as cl
from studies.harness import table
from studies.papers.ptpp_published import FORMS

TEST = "ptpp == 279 and n_params > 200K and tokens > 0 and lr_schedule == 'constant' and replay in (0.1, 0.25)"
SEEN = "lr_schedule == 'constant' and pretrain_decay == 0.15 and tokens > 0"
ANCHORS = {"none": None, "30K": (25e3, 35e3), "46K": (40e3, 50e3), "75K": (70e3, 80e3), "125K": (120e3, 130e3)}


def error(law: str, anchors: tuple[float, float] | None) -> float:
    """Return the mean absolute error in per cent of a form with some anchors."""
    runs = cl.examples.load("en-fr-ladder").where("seed == 0")
    extra = "" if anchors is None else f" or ptpp == 279 and n_params > {anchors[0]:g} and n_params < {anchors[1]:g}"
    fit = cl.fit(law, runs, on="target", where=f"({SEEN}) and (ptpp in (15, 31){extra})", restraint="none")
    held = runs.on("target").where(TEST).frame
    return 100 * float(np.mean(np.abs(fit.predict(held) / held["loss"].to_numpy() - 1.0)))


def main() -> None:
    """Print the table."""
    print(
        table(
            ["anchors", *FORMS], [[name, *(f"{error(law, at):.1f}" for law in FORMS)] for name, at in ANCHORS.items()]
        )
    )


if __name__ == "__main__":
    main()
