"""Annealing areas of the multi-power law in Eq. 4: what they change on curves of our own.

Eq. 4 takes annealing for an area with a momentum (lambda); the multi-power law lets each drop of the rate take effect
by a power of the area since, C eta^-gamma S, to the power -beta. Its sum over the drops of pre-training and that over
those of CPT stand here in place of the two annealing areas. All are fitted alike: the amplitudes by least squares of
the relative errors, exactly, at each trial of the other parameters.

    python -m studies annealing_areas --write
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from scipy import optimize

from cptlaw.laws import law
from cptlaw.laws.curve_rows import global_steps, rows_by_run
from cptlaw.schedules import effective_lr
from cptlaw_curves.laws.lr_drops import Drops, drops_of
from studies.harness import show, write_result
from studies.papers.dynamics_measured import CORPORA, ROLES, load_corpus, plain

DECAYS = (0.999, 0.98)
LAMBDAS = tuple(1.0 - 10.0 ** np.linspace(-3.0, -1.0, 9))  # of which the best is taken
HELD = (0.5, 0.5)  # beta and gamma, where the authors of the law start
BOUNDS = {"alpha": (0.05, 2.0), "E": (1e-2, 1e6), "beta of the shift": (1e-3, 5.0), "C": (1e-3, 1e3)}
POWERS = (0.02, 5.0)
STARTS = ((0.8, 100.0, 0.1, 1.0), (0.5, 10.0, 0.5, 5.0))

Areas = Callable[..., tuple[np.ndarray, np.ndarray]]


def multi_power_areas(rows: pd.DataFrame, schedules: dict, in_cpt: np.ndarray, rises: bool) -> Areas:
    """Return what gives both sums over drops at C, beta and gamma.

    Parameters
    ----------
    in_cpt
        Forward area of CPT at each row: what changed within it belongs to CPT.
    rises
        Whether a rise of the rate in CPT, its warm-up, takes back what a drop gives.
    """
    of_rows = np.empty(len(rows), dtype=object)
    for run, at in rows_by_run(rows):
        steps = global_steps(rows.iloc[at], schedules[run], run)
        for i, nodes in zip(at, drops_of(effective_lr(schedules[run], "actual"), steps), strict=True):
            of_rows[i] = nodes
    drops = Drops.of_rows(of_rows)
    row = np.repeat(np.arange(len(rows)), np.diff(drops.first))
    late = np.exp(drops.log_area) <= in_cpt[row] * (1 + 1e-9)
    counted = np.where(late & (drops.weight > 0) & (not rises), 0.0, drops.weight)

    def areas(factor: float, beta: float, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        within = np.minimum(np.log(factor) - gamma * drops.log_rate + drops.log_area, 600.0)
        effect = counted * np.expm1(-beta * np.log1p(np.exp(within)))
        return tuple(np.bincount(row, np.where(part, effect, 0.0), len(rows)) for part in (~late, late))

    return areas


def fitted(loss: np.ndarray, before: np.ndarray, in_cpt: np.ndarray, areas: Areas, powers: int) -> np.ndarray:
    """Return the relative errors of the best fit, (n,).

    Parameters
    ----------
    before, in_cpt
        Forward areas of pre-training and of CPT.
    areas
        The two annealing areas, of as many parameters as `powers` says: none, C, or C, beta and gamma.
    """

    def errors(logs: np.ndarray) -> np.ndarray:
        alpha, scale, beta, *more = np.exp(logs)
        shift = -np.expm1(-beta * np.log1p(scale * in_cpt))
        terms = np.stack([np.ones_like(loss), (before + in_cpt) ** -alpha, *areas(*more), shift], axis=1)
        terms /= loss[:, None]
        return terms @ np.linalg.lstsq(terms, np.ones_like(loss), rcond=None)[0] - 1.0

    count = 3 + (powers > 0)
    ends = np.log([*list(BOUNDS.values())[:count], *([POWERS] * (powers - 1 if powers > 1 else 0))]).T
    found = [
        optimize.least_squares(errors, np.log([*start[:count], *(HELD if powers > 1 else ())]), bounds=tuple(ends))
        for start in STARTS
    ]
    return min(found, key=lambda one: one.cost).fun


def compared(corpus: str, on: str) -> dict[str, float]:
    """Return the mean absolute error in CPT, in per cent, by what annealing is taken for."""
    frame, schedules = load_corpus(corpus)
    rows = plain(frame)
    rows = rows[rows["eval"] == on].reset_index(drop=True)
    loss, late = rows["loss"].to_numpy(dtype=float), (rows["phase"] == "cpt").to_numpy()

    def areas_of(decay: float) -> pd.DataFrame:
        return law(f"cpt-dynamics:decay={decay}").attach(rows, schedules).fillna(0.0)

    forward = areas_of(DECAYS[0])
    before, in_cpt = (forward[f"s1_{phase}"].to_numpy(dtype=float) for phase in ("pretrain", "cpt"))
    fit = partial(fitted, loss, before, in_cpt)

    def by_momentum(decay: float) -> np.ndarray:
        fixed = areas_of(decay)
        return fit(lambda: (fixed["s2_pretrain"].to_numpy(), fixed["s2_cpt"].to_numpy()), 0)

    of_lambda = [by_momentum(decay) for decay in LAMBDAS]
    multi, risen = (multi_power_areas(rows, schedules, in_cpt, rises) for rises in (True, False))
    errors = {f"lambda {decay:g}": by_momentum(decay) for decay in DECAYS}
    errors["lambda fitted"] = min(of_lambda, key=lambda one: float(one @ one))
    errors["multi-power, C fitted"] = fit(lambda factor: multi(factor, *HELD), 1)
    errors["multi-power, all fitted"] = fit(multi, 3)
    errors["multi-power, C fitted, without rises in CPT"] = fit(lambda factor: risen(factor, *HELD), 1)
    return {name: 100 * np.abs(one[late]).mean() for name, one in errors.items()}


def probe() -> np.ndarray:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    frame, schedules = load_corpus("French")
    rows = plain(frame).query("eval == 'target'").reset_index(drop=True)
    areas = law(f"cpt-dynamics:decay={DECAYS[0]}").attach(rows, schedules).fillna(0.0)
    loss, before, in_cpt = (
        np.asarray(each, dtype=float) for each in (rows["loss"], areas["s1_pretrain"], areas["s1_cpt"])
    )
    return fitted(loss, before, in_cpt, lambda: (areas["s2_pretrain"].to_numpy(), areas["s2_cpt"].to_numpy()), 0)


def main() -> None:
    """Compare on every corpus, both losses, and print or keep the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the table in studies/results")
    asked = parser.parse_args()
    rows = []
    for corpus in CORPORA:
        for on in ROLES:
            found = compared(corpus, on)
            rows.append({"corpus": corpus, "loss": on} | {name: f"{error:.2f}" for name, error in found.items()})
            print(*rows[-1].values(), flush=True)
    tables = {"in-cpt": pd.DataFrame(rows)}
    if asked.write:
        write_result("annealing_areas", tables)
    else:
        print(show(tables))


if __name__ == "__main__":
    main()
