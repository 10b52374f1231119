"""The budget of pre-training and its forward area: when laws of PTPP and of learning dynamics say the same.

Laws of PTPP (arXiv:2510.23198) know a base model by its tokens per parameter, those of learning dynamics
(arXiv:2505.07796) by the forward area S1pt of its learning rate, and by what its decay has left (the loss potential).
Two parts:

1. Simulation. Losses follow the dynamics law with its published coefficients (fig. 3). A law of PTPP, E + F PTPP^-eta,
   is fitted to the ends of CPT runs from six budgets up to 124 and forecasts 279, where pre-training was alike, where
   it ended annealed for some budgets only, where its peak differed, and where CPT ran another schedule.
2. The example runs. The PTPP forms and the joint law (cpt-dynamics-joint, S1pt from the schedules of pre-training) are
   fitted to budgets up to 124 and forecast 279.

Run it as ``python -m studies budget_and_dynamics``, or with ``--small`` (fewer laws and budgets).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.schedules import Phase, Schedule, read_schedules
from studies.harness import write_result
from studies.papers.budgets_by_shift import usual_rows
from studies.papers.dynamics_published import FIG_3, NAMES, ROLES
from studies.papers.open_fits import error_text, open_fit

KEPT = "replay in (0.1, 0.25, 0.5) and tokens > 0"
EXAMPLES = ("en-fr-pilot", "docs-to-code")
SIZE, BATCH, PEAK, CPT = 106e6, 1e6, 2e-4, 4000
BUDGETS, ASKED = (15, 22, 31, 44, 62, 124), 279


def base(budget: float, annealed: bool = True, peak: float = PEAK) -> Phase:
    """Return pre-training to a budget."""
    steps = round(budget * SIZE / BATCH)
    if annealed:
        return Phase("pretrain", steps, "wsd", peak=peak, warmup=100, decay="20%")
    return Phase("pretrain", steps, "constant", peak=peak, warmup=100)


def cpt(schedule: str = "cosine") -> Phase:
    """Return the CPT that follows."""
    return Phase("cpt", CPT, schedule, peak=0.5 * PEAK, warmup=100)


def cases() -> dict[str, dict[int, Schedule]]:
    """Return the schedules by budget; the last budget is the one asked for."""
    every = (*BUDGETS, ASKED)
    return {
        "alike, annealed": {p: Schedule([base(p), cpt()]) for p in every},
        "alike, not annealed": {p: Schedule([base(p, annealed=False), cpt()]) for p in every},
        "the asked-for one not annealed": {p: Schedule([base(p, annealed=p != ASKED), cpt()]) for p in every},
        "every second one annealed": {p: Schedule([base(p, annealed=k % 2 == 0), cpt()]) for k, p in enumerate(every)},
        "half the peak from 62 on": {p: Schedule([base(p, peak=PEAK * (0.5 if p >= 62 else 1)), cpt()]) for p in every},
        "CPT of the asked-for one constant": {
            p: Schedule([base(p), cpt("constant" if p == ASKED else "cosine")]) for p in every
        },
    }


JOINT = "cpt-dynamics-joint:normalised=true"  # its shift grows with the budget
EQUATION_8 = "cpt-dynamics-joint:normalised=true:growth=nothing"


def simulated() -> pd.DataFrame:
    """Return by how much a law of PTPP misses the losses at the budget asked for, in percent, by case."""
    found = []
    for case, schedules in cases().items():
        known = {str(p): schedule for p, schedule in schedules.items()}
        rows = pd.DataFrame({"run": list(known), "step": CPT, "ptpp": list(schedules), "n_params": SIZE})
        rows = rows.assign(tokens=CPT * BATCH, replay=0.25)
        row: dict[str, object] = {"pre-training": case}
        for role, values in zip(ROLES, FIG_3, strict=True):
            truth = cl.given_fit("cpt-dynamics", dict(zip(NAMES, values, strict=True)), role)
            table = rows.assign(eval=role, loss=truth.predict(truth.law.attach(rows.assign(eval=role), known)))
            # One size, one mix, one length: of the PTPP law remains E + F PTPP^-eta.
            held = {"A": 0, "alpha": 0.3, "B": 0, "beta": 0.3, "nu": 1, "C": 0, "gamma": 0.5}
            fit = cl.fit("ptpp-floor", table, on=role, where=f"ptpp < {ASKED}", fix=held, restraint="none")
            asked = table[table["ptpp"] == ASKED]
            row[f"{role}, %"] = 100 * float(fit.predict(asked)[0] / asked["loss"].iloc[0] - 1)
        found.append(row)
    return pd.DataFrame(found).set_index("pre-training")


def example_schedules(name: str, runs: cl.Runs) -> dict[str, Schedule]:
    """Return the schedules of example runs; of the pilot pre-training in batches of 1024 bytes, then constant CPT."""
    if name in cl.examples.SCHEDULES:
        return read_schedules(cl.examples.schedules(name))
    adapted = runs.frame[runs.frame["tokens"] > 0]
    found = {}
    for run, rows in adapted.groupby(adapted["run"].astype(str)):
        steps = round(rows["ptpp"].iloc[0] * rows["n_params"].iloc[0] / 1024)
        before = Phase("pretrain", steps, "wsd", peak=6e-3, warmup=100, decay="15%")
        found[str(run)] = Schedule([before, Phase("cpt", int(rows["step"].max()), "constant", peak=3e-3, warmup=50)])
    return found


def measured(name: str, small: bool = False) -> pd.DataFrame:
    """Return mean absolute relative errors of example runs at budget 279, in percent, by law and fitted budgets."""
    runs = cl.examples.load(name)
    usual = usual_rows(runs).where(KEPT)
    schedules = example_schedules(name, runs)
    laws = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", JOINT, "ptpp-nearest", EQUATION_8)
    found = []
    for budgets in ("15, 31, 62, 124",) if small else ("15, 31", "15, 31, 62, 124", "31, 62, 124", "62, 124"):
        for spec in laws[-2:] if small else laws:
            row: dict[str, object] = {"fitted": budgets, "law": spec}
            for role in ("target", "source"):
                asked = usual.where(f"ptpp == {ASKED}").on(role).frame
                if spec.startswith(
                    "cpt"
                ):  # a constant rate tells nothing of what the mix does to annealing: a1 as published
                    own = {"schedules": schedules, "fix": {"a1": 0.05}}
                    fit = cl.fit(spec, usual, on=role, where=f"ptpp in ({budgets})", **own, restraint="none")
                    predicted = fit.predict(fit.law.attach(asked, schedules))
                    row[f"{role}, %"] = 100 * float(np.abs(predicted / asked["loss"] - 1).mean())
                else:
                    every = open_fit(spec, usual, role, f"ptpp in ({budgets})")
                    fit = every.fit
                    row[f"{role}, %"] = error_text(every.errors(asked))
                row[f"{role} rank"] = f"{fit.rank} of {fit.n_free}"
            found.append(row)
    return pd.DataFrame(found).set_index(["fitted", "law"])


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return simulated()


def main(arguments: list[str] | None = None) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="fewer laws and budgets")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    chosen = parser.parse_args(arguments)
    simulation = simulated()
    print(f"Simulation: error of a law of PTPP at {ASKED}\n{simulation.round(2).to_string()}")
    found = {name: measured(name, chosen.small) for name in EXAMPLES}
    for name, table in found.items():
        print(f"\nExample runs {name}: mean absolute relative error at {ASKED}\n{table.round(2).to_string()}")
    if chosen.write:
        shown = {"simulated": simulation, **found}
        write_result("budget_and_dynamics", {key: in_text(table.reset_index()) for key, table in shown.items()})
    return simulation, found


def in_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as it is shown."""
    return table.map(lambda cell: f"{cell:.2f}" if isinstance(cell, float) else str(cell))


if __name__ == "__main__":
    main()
