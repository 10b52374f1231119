"""Published coefficients of both losses, and runs, for tests of plans of schedules."""

from cptlaw.schedules import Phase, Schedule, areas

NAMES = ("L0", "A", "alpha", "B", "E", "beta", "C1", "C2")
# Fig. 3 of arXiv:2505.07796 (specification 6.4): Knowledge-Pile, 106M.
SOURCE = dict(zip(NAMES, (3.057, 0.490, 0.497, 0.366, 28, 0.189, 0.299, 0.298), strict=True))
TARGET = dict(zip(NAMES, (3.024, 0.412, 0.677, -0.666, 5662, 0.146, 0.278, 0.324), strict=True))
BASE = Phase("pretrain", 20_000, "wsd", peak=2e-4, warmup=500, decay=4000)
RUN = Schedule([BASE, Phase("cpt", 5000, "cosine", peak=2e-4)])
FOUR_RUNS = {
    f"{shape}-{peak:g}": Schedule([BASE, Phase("cpt", 5000, shape, peak=peak)])
    for shape in ("cosine", "constant")
    for peak in (1e-4, 2e-4)
}


def losses(run, source=SOURCE, target=TARGET):
    """Return source and target loss at the end of a run, from the equation."""
    at = areas(run).at(run.n_steps)
    found = []
    for p in (source, target):
        shift = p["B"] * (1 - (1 + p["E"] * at.s1_cpt) ** -p["beta"])
        found.append(p["L0"] + p["A"] * at.s1 ** -p["alpha"] - p["C1"] * at.s2_pretrain - p["C2"] * at.s2_cpt + shift)
    return found
