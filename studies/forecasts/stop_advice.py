"""Stop advice over whole curves: how often a good run would have been stopped, and what doomed runs are saved.

    python -m studies stop_advice [--every 3] [--most 100] [--only GROUP] [--save looks.csv] [--load looks.csv]
        [--data FOLDER]

Each curve is replayed: at each look the end is forecast from the rows so far alone, as `StopRule` does it. A run is
good where its last loss is within its limit. A good run is stopped wrongly if at *any* look the rule says stop. The
margin of the rule is set from the curves of all other studies (leave one study out) and then applied to the study in
hand; limits are the losses that 10, 25, 50 and 75 % of a study's runs reach (of runs of one size and loss), so that
the rest are doomed; the share of their steps that is not trained is the saving.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.schedules import Phase, Schedule, read_schedules
from cptlaw_sweep.integrations.stopping import FIRST, LEAST, doubt_of, falling_after
from studies.forecasts.unfinished_runs import Case, _case, _until, groups
from studies.harness import MEASURED, Clock, seconds, table

TABLES = ("docs-to-code", "docs-to-manuals", "code-to-prose", "domains", "en-fr-ladder")
LOOKS = (FIRST, 0.075, 0.1, 0.125, 0.15, *(k / 20 for k in range(4, 20)))
REACHED = (0.1, 0.25, 0.5, 0.75)
MISSED = 0.02  # share of good runs that may be stopped, over all looks of a run


def replay(case: Case, name: str) -> list[dict[str, object]]:
    """Return the forecast of the end at each look."""
    end = case.rows.iloc[-1]
    plan = _last_phase(_until(case.plan, int(end["step"])))
    run = str(end["run"])
    rows: list[dict[str, object]] = []
    seen = 0
    for look in LOOKS:
        head = case.rows[case.rows["step"] <= look * end["step"]]
        if len(head) == seen or (head["step"] > 0).sum() < LEAST:
            continue
        seen = len(head)
        try:
            found = cl.forecast_run(head, {run: plan}, run).points.iloc[0]
        except cl.DataError:  # too early
            continue
        rows.append(
            {
                "study": study_of(case.group),
                "group": f"{case.group} {name}",
                "curve": f"{case.group}: {run}",
                "look": float(head["step"].iloc[-1] / end["step"]),
                "rows": int((head["step"] > 0).sum()),
                "last": float(found["last_loss"]),
                "loss": float(found["loss"]),
                "lo": float(found["lo"]),
                "hi": float(found["hi"]),
                "falling": falling_after(plan.lr, int(head["step"].iloc[-1])),
                "end": float(end["loss"]),
            }
        )
    return rows


def _last_phase(plan: Schedule) -> Schedule:
    """Return what a callback knows of a plan: the training at hand, and nothing of the one before it."""
    begun = plan.n_steps - plan.phases[-1].steps
    rates = plan.lr[begun:]
    last = plan.phases[-1]
    known = Phase(last.phase, last.steps, "file", points=(np.arange(len(rates)), rates), warmup=last.warmup)
    return Schedule([known])


def curves(folder: str | None) -> dict[str, list[Case]]:
    """Return all curves by group: the public ones, the pilot, and our own with every share of replay."""
    found = {name: cases for name, cases in groups(folder).items() if not name.startswith("docs to code")}
    for name, frame, plans in own_tables():
        frame = frame.astype({"run": str, "eval": str})
        for (on, run), part in frame.groupby(["eval", "run"]):
            case = _case(f"{name}, {on} loss", part, frame.iloc[:0], {str(run): plans[str(run)]})
            found.setdefault(case.group, []).append(case)
    return found


def own_tables() -> Iterator[tuple[str, pd.DataFrame, dict[str, Schedule]]]:
    """Yield name, rows and schedules of the example tables, and of the runs that were measured more densely."""
    for name in TABLES:
        frame = cl.examples.load(name).frame
        yield name, frame[frame["tokens"] > 0], dict(read_schedules(cl.examples.schedules(name)))
    frame = pd.read_csv(MEASURED / "dense.csv")
    constant = Schedule(
        [Phase("cpt", int(frame["step"].max()), "constant", peak=3e-3, warmup=50)]
    )  # domains_dense.yaml
    yield "dense", frame[frame["step"] > 0], dict.fromkeys(frame["run"].astype(str), constant)
    frame = pd.read_csv(MEASURED / "dynamics.csv")
    plans = dict(read_schedules(MEASURED / "dynamics_schedules.json"))
    kept = (frame["phase"] == "cpt") & (frame["step"] > 0) & frame["eval"].isin(["source", "target"])
    yield "dynamics", frame[kept & frame["run"].isin(list(plans))], plans


def study_of(group: str) -> str:
    """Return the study of a group: both losses of one study belong together."""
    return group.split(",")[0] if "loss" in group else group


def score_of(loss: Any, lo: Any, progress: Any, end: float, falling: Any = 0.0) -> float:
    """Return the worst overestimate of the end at any look, in units of the doubt there.

    Parameters
    ----------
    loss, lo, progress, falling
        As `doubt_of` takes them.
    end
        The loss at which the run ended.
    """
    # The worst look and not each: a rule that looks often must not stop a good run at any of its looks.
    return float(np.max((np.asarray(loss) - end) / doubt_of(loss, lo, progress, falling)))


def conformal_margin(scores: Any, value: float = MISSED) -> float:
    """Return the margin that a new curve exceeds with at most some probability.

    Parameters
    ----------
    scores
        Of finished curves, (curves,).
    value
        The probability.

    Returns
    -------
    float
        Infinite where there are too few curves to promise it.

    Examples
    --------
    >>> conformal_margin(np.arange(99), 0.02)
    97.0
    >>> conformal_margin([1.0, 2.0])
    inf
    """
    ranked = np.sort(np.asarray(scores, dtype=float))
    # Split conformal prediction: a new curve is equally likely to take any place among the ranked ones, so that this
    # rank is exceeded with at most that probability, whatever the distribution (Vovk et al. 2005).
    rank = math.ceil((len(ranked) + 1) * (1 - value))
    return float(ranked[rank - 1]) if rank <= len(ranked) else math.inf


def scores(looks: pd.DataFrame) -> pd.DataFrame:
    """Return one row per curve: the worst overestimate of its end at any look, in units of the forecast's own doubt."""
    return pd.DataFrame(
        [
            {
                "study": part["study"].iloc[0],
                "curve": curve,
                "score": score_of(part["loss"], part["lo"], part["look"], float(part["end"].iloc[0]), part["falling"]),
            }
            for curve, part in looks.groupby("curve", sort=False)
        ]
    )


def outcomes(looks: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Return one row per curve and limit: whether it was good, and the share of its steps that was trained."""
    rows = []
    for group, part in looks.groupby("group", sort=False):
        ends = part.groupby("curve")["end"].first()
        for reached in REACHED:
            limit = float(ends.quantile(reached))
            for curve, mine in part.groupby("curve", sort=False):
                bound = mine["loss"] - margin * doubt_of(mine["loss"], mine["lo"], mine["look"], mine["falling"])
                stopped = mine.loc[bound > limit, "look"]
                trained = float(stopped.iloc[0]) if len(stopped) else 1.0
                good = bool(mine["end"].iloc[0] <= limit)
                rows.append(
                    {"group": group, "curve": curve, "reached": reached, "good": good, "trained": trained,
                     "far": float(mine["end"].iloc[0]) > 1.02 * limit}
                )  # fmt: skip
    return pd.DataFrame(rows)


def main(arguments: list[str] | None = None) -> None:
    """Print the margin, and the table of studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take every so many curves of a group")
    parser.add_argument("--most", type=int, default=10_000, help="curves of a group at most")
    parser.add_argument("--only", default="", help="groups whose name holds this text")
    parser.add_argument("--save", help="write the looks to a CSV file")
    parser.add_argument("--load", nargs="+", help="read them from such files, instead of forecasting anew")
    parser.add_argument("--data", help="folder of the public data")
    given = parser.parse_args(arguments)
    clock = Clock()
    with clock.running():
        if given.load:
            looks = pd.concat([pd.read_csv(path) for path in given.load], ignore_index=True)
        else:
            rows = []
            for name, cases in curves(given.data).items():
                for case in cases[:: given.every][: given.most] if given.only in name else ():
                    rows += replay(case, _size_of(case))
            looks = pd.DataFrame(rows)
        if given.save:
            looks.to_csv(given.save, index=False)
        found = scores(looks)
        shown = []
        everything = []
        for study in dict.fromkeys(found["study"]):
            margin = conformal_margin(found.loc[found["study"] != study, "score"].to_numpy())
            mine = outcomes(looks[looks["study"] == study], margin)
            everything.append(mine)
            shown.append([study, str(mine["curve"].nunique()), f"{margin:.2f}", *_told(mine)])
        shown.append(["all, each by the others", str(len(found)), "", *_told(pd.concat(everything))])
    header = ["study", "curves", "margin of the others", "good stopped %", "doomed caught %", "doomed compute saved %"]
    header.append("of runs that miss by more than 2 %")
    print(table(header, shown))
    print(f"\nmargin of all curves, for a false stop of at most {MISSED:.0%}: ", end="")
    print(f"{conformal_margin(found['score'].to_numpy()):.2f}")
    print(f"{len(looks)} forecasts; {seconds(clock.cpu)} CPU, {seconds(clock.wall)} wall")


def _size_of(case: Case) -> str:
    """Return what runs must share to have one limit: the scale of their last loss."""
    return f"{np.floor(float(case.rows['loss'].iloc[-1]) / 0.25) * 0.25:.2f}"


def _told(mine: pd.DataFrame) -> list[str]:
    good, doomed = mine[mine["good"]], mine[~mine["good"]]
    # A run is good at some limits and doomed at others; a wrong stop at any of them counts.
    wrong = good.groupby("curve")["trained"].min() < 1
    return [
        f"{100 * wrong.mean():.1f}" if len(wrong) else "-",
        f"{100 * (doomed['trained'] < 1).mean():.0f}" if len(doomed) else "-",
        f"{100 * (1 - doomed['trained']).mean():.0f}" if len(doomed) else "-",
        f"{100 * (1 - doomed.loc[doomed['far'], 'trained']).mean():.0f}" if doomed["far"].any() else "-",
    ]


if __name__ == "__main__":
    main()
