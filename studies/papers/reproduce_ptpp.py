"""The study of the PTPP paper (Goffinet et al. 2025, arXiv:2510.23198) on runs that were measured, next to its numbers.

The paper forecasts both losses at a pre-training budget (tokens per parameter, PTPP) that no fitted run had, with three
laws that know of budgets and one that does not. Its runs were never published. This script asks the same questions of
another table: by default the example runs of the package, or any with ``--runs``. It prints

- Tables 1 and 2 and Appendices A and B: both losses, no anchors and anchors at the smallest size, the blind law as
  transfer baseline and as oracle, all six metrics, with the paper's values beside ours, the baseline that the paper
  lacks (``ptpp-nearest``), and intervals;
- which of the paper's claims hold here, decided by resampling the base models of the test runs;
- what the result depends on: budgets fitted, the first points, anchors, the unit of D, the starts of a plain L-BFGS-B;
- the planning case of section 4, planned without the held-out budget and then held against it;

and with ``-o FOLDER`` writes as CSV what Figures 1 to 3 are drawn from: forecasts against measurements, the planning
map, Form 3 on the rows it was fitted to; and loss curves at the held-out budget.

Run it as ``python -m studies reproduce_ptpp -o reproduction`` (some minutes) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.comparing.metrics import METRICS
from cptlaw.laws.calculus import Array
from studies.papers.ptpp_forecasts import (
    INPUTS,
    LAWS,
    LEVEL,
    NEAREST,
    Forecasts,
    Study,
    base_models,
    by_unit,
    forecast,
    forecast_error,
    name_of,
    published_protocol,
    resampled,
    resamplings,
    seed_noise,
)
from studies.papers.ptpp_planning import curves, in_sample, markdown, planning
from studies.papers.ptpp_published import CLAIMS, FORMS, PLAN, PUBLISHED

SIX = METRICS[:6]


def interval_text(values: Array, form: str) -> str:
    """Return the middle 90 % as text."""
    low, high = np.nanquantile(values, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return f"{low:{form}} to {high:{form}}"


def scores_table(all_found: list[Forecasts]) -> pd.DataFrame:
    """Return one row per law: the six metrics, the paper's beside ours."""
    rows = []
    for found in all_found:
        # Transfer and oracle take no anchors, so the paper has one row for both.
        published = PUBLISHED.get((found.on, found.anchored and found.law in FORMS, found.law))
        row = {"law": name_of(found.law)}
        for index, metric in enumerate(SIX):
            form = ".3f" if metric in ("intercept", "slope") else ".2e" if metric == "huber_log" else ".4f"
            row[metric] = f"{found.scores[metric]:{form}}" + (f" ({published[index]:{form}})" if published else "")
        rows.append(row)
    return pd.DataFrame(rows)


def doubt_table(all_found: list[Forecasts], study: Study) -> pd.DataFrame:
    """Return one row per law: how sure its error is, and how honest its own intervals are."""
    chosen = resamplings(all_found[0].rows, study.resamples)
    smallest = study.rows.frame["n_params"].min()
    base = resampled(next(found for found in all_found if found.law == NEAREST), chosen, "mae_rel")
    rows = []
    for found in all_found:
        errors, (least, most) = resampled(found, chosen, "mae_rel"), found.range_over_equals("mae_rel")
        larger = found.rows[found.rows["n_params"] > smallest]
        bounded = found.rows.dropna(subset=["lo", "hi"])
        row = {"law": name_of(found.law), "rank": f"{found.fit.rank} of {found.fit.n_free}"}
        row["mae_rel"] = f"{found.scores['mae_rel']:.4f}"
        row["over base models, 90 %"] = interval_text(errors, ".4f")
        row["over equal fits"] = f"{least:.4f} to {most:.4f} ({len(found.equals)})"
        row["times ptpp-nearest, 90 %"] = interval_text(errors / base, ".2f")
        row["at larger sizes"] = f"{(larger['forecast'] / larger['loss'] - 1).abs().mean():.4f}"
        row["inside its 90 % interval"] = f"{100 * bounded['loss'].between(bounded['lo'], bounded['hi']).mean():.0f} %"
        row["half width"] = f"{100 * ((bounded['hi'] - bounded['lo']) / 2 / bounded['forecast']).mean():.1f} %"
        rows.append(row)
    return pd.DataFrame(rows)


def claims(found: dict[tuple[str, bool, str], Forecasts], study: Study) -> pd.DataFrame:
    """Hold the paper's orderings against ours: which error is smaller, and in how many resamplings of base models.

    A claim is open where fits that the fitted rows cannot tell apart disagree on it: then the search decides, not the
    data. It is undecided where less than 95 % of the resamplings agree.
    """
    rows = []
    ours = [(f"{FORMS[law]} better than the nearest budget alone (ours)", on, (law, False), (NEAREST, False))
            for on in ("target", "source") for law in FORMS]  # fmt: skip
    anchored = study.anchor_runs()
    for text, on, (better, anchors), (worse, other_anchors) in (*CLAIMS, *ours):
        one, other = found[on, anchors, better], found[on, other_anchors, worse]
        if anchors != other_anchors:  # scored on the rows that both leave to forecast
            one, other = one.without(anchored), other.without(anchored)
        chosen = resamplings(one.rows, study.resamples)
        share = float(np.mean(resampled(one, chosen, "huber_log") < resampled(other, chosen, "huber_log")))
        (least, most), (other_least, other_most) = (each.range_over_equals("huber_log") for each in (one, other))
        if (
            most > other_least
            and least < other_most
            and (most - least > 0.02 * most or other_most > 1.02 * other_least)
        ):
            verdict = "open"
        else:
            verdict = "holds" if share >= 0.95 else "does not hold" if share <= 0.05 else "undecided"
        errors = " against ".join(f"{100 * each.scores['mae_rel']:.2f} %" for each in (one, other))
        rows.append({"loss": on, "claim": text, "here": verdict, "resamplings": f"{100 * share:.0f} %", "mae": errors})
    return pd.DataFrame(rows)


def protocol_table(study: Study) -> pd.DataFrame:
    """Return what a plain L-BFGS-B finds from each of its starts: one row per form and loss."""
    rows = []
    for on in ("target", "source"):
        for law in FORMS:
            found = published_protocol(study, law, on)
            near = found[found["objective"] <= 1.01 * found["objective"].min()]
            row = {"loss": on, "law": name_of(law), "starts": str(len(found))}
            row["best objective"] = f"{found['objective'].iloc[0]:.4f}"
            row["median"] = f"{found['objective'].median():.4f}"
            row["error of the best"] = f"{100 * found['mae_rel'].iloc[0]:.2f} %"
            row["starts within 1 % of it"] = str(len(near))
            row["their errors"] = f"{100 * near['mae_rel'].min():.2f} to {100 * near['mae_rel'].max():.2f} %"
            row["errors of all starts"] = f"{100 * found['mae_rel'].min():.2f} to {100 * found['mae_rel'].max():.2f} %"
            rows.append(row)
    return pd.DataFrame(rows)


def sensitivity(study: Study, splits: list[tuple[float, ...]], without_first: str | None) -> pd.DataFrame:
    """Return mean absolute relative errors in percent, by budgets fitted, with and without the first points."""
    rows = []
    settings = [(split, anchored, study.where) for split in splits for anchored in (False, True)]
    if without_first:
        settings += [(study.fit_ptpp, False, without_first)]
    for on in ("target", "source"):
        for split, anchored, where in settings:
            asked = replace(study, fit_ptpp=split, where=where)
            row: dict[str, str] = {"loss": on, "fitted on": ", ".join(f"{budget:g}" for budget in split)}
            row["anchors"] = f"{asked.anchors} or fewer" if anchored else "none"
            row["points"] = "all" if where != study.where else "as above"
            for law in LAWS:
                row[law] = f"{100 * forecast_error(asked, law, on, anchored):.2f}"
            rows.append(row)
    return pd.DataFrame(rows)


def main(arguments: list[str] | None = None) -> None:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", help="a runs table; the package's pilot where absent")
    parser.add_argument("--where", help="rows that count; published replay levels, after the warm-up, where absent")
    parser.add_argument("--fit-ptpp", default="15,31", help="budgets to fit on")
    parser.add_argument("--test-ptpp", type=float, default=279, help="budget to forecast")
    parser.add_argument("--anchors", type=int, default=20, help="most anchor points")
    parser.add_argument("--max-target-loss", type=float, help="of the planning case")
    parser.add_argument("--max-forgetting", type=float, help="of the planning case, as a fraction")
    parser.add_argument("--held-values", type=int, help="values at which each parameter is held to find equal fits")
    parser.add_argument("-o", "--output", type=Path, help="folder for the figures' data")
    parser.add_argument("--protocol", action="store_true", help="the unit of D and the published search alone")
    parser.add_argument("--small", action="store_true", help="few intervals and resamplings, no sensitivity: seconds")
    asked = parser.parse_args(arguments)
    pilot = asked.runs is None
    runs = cl.examples.load("en-fr-pilot") if pilot else cl.read_runs(asked.runs)
    published_levels = "replay in (0.1, 0.25, 0.5)" + (" and lr_schedule == 'constant'" if pilot else "")
    where = asked.where or published_levels + (" and atpp >= 1.9" if pilot else "")
    fit_ptpp = tuple(float(level) for level in asked.fit_ptpp.split(","))
    small = {"resamples": 50, "every": 24, "held_values": 0} if asked.small else {}
    small |= {} if asked.held_values is None else {"held_values": asked.held_values}
    study = Study(runs, where, fit_ptpp, asked.test_ptpp, asked.anchors, **small)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", file=sys.stderr, flush=True)

    frame = study.rows.frame
    print(f"{'Example runs en-fr-pilot' if pilot else asked.runs}: {where}")
    print(f"fitted on PTPP {asked.fit_ptpp}, forecast at {study.test_ptpp:g}; {frame['run'].nunique()} runs, "
          f"{frame['n_params'].nunique()} sizes up to {frame['n_params'].max():,.0f} parameters")  # fmt: skip
    print(seed_noise(study))
    tested = study.rows.where(f"ptpp == {study.test_ptpp}").frame
    print(f"{base_models(tested).nunique()} base models at {study.test_ptpp:g}: what is resampled")
    budgets = sorted(level for level in frame["ptpp"].unique() if level < study.test_ptpp)
    pairs = [tuple(budgets[start : start + 2]) for start in range(len(budgets) - 1)]
    splits = dict.fromkeys([study.fit_ptpp, *pairs, *(tuple(budgets[-top:]) for top in range(3, len(budgets) + 1))])

    def how_it_was_fitted() -> None:
        say("units")
        print("\n## The unit of D: error in percent\n")
        print(markdown(by_unit(study, list(splits))), flush=True)
        say("the published protocol")
        print("\n## L-BFGS-B from single starts, as published (starts, bounds and units are ours)\n")
        print(markdown(protocol_table(study)))

    if asked.protocol:
        how_it_was_fitted()
        return
    anchor_runs = study.anchor_runs()
    found: dict[tuple[str, bool, str], Forecasts] = {}
    for number, on in enumerate(("target", "source"), start=1):
        for anchored in (False, True):
            for law in LAWS:
                say(f"{on}, {'anchors' if anchored else 'no anchors'}: {law}")
                found[on, anchored, law] = forecast(study, law, on, anchored)
            shown = [found[on, anchored, law] for law in LAWS]
            points = sum(len(frame[(frame["run"] == run) & (frame["eval"] == on)]) for run in anchor_runs)
            how = f"{points} anchors at the smallest size ({len(anchor_runs)} runs)" if anchored else "no anchors"
            print(f"\n## Table {number}: {on} loss, {how}\n\nOurs (the paper's); {len(shown[0].rows)} test points.\n")
            print(markdown(scores_table(shown)))
            print("\nHow sure that is:\n")
            print(markdown(doubt_table(shown, study)))
    print("\n## Claims of the paper\n\nDecided by Huber_log on the same rows; resamplings (of base models) that agree.")
    print("open: fits that the fitted rows cannot tell apart disagree. undecided: less than 95 % either way.\n")
    print(markdown(claims(found, study)))
    if not asked.small:
        say("sensitivity")
        print("\n## What it depends on: error in percent at the held-out budget\n")
        print(markdown(sensitivity(study, list(splits), published_levels if where != published_levels else None)))
        how_it_was_fitted()
    say("planning")
    limits = (
        asked.max_target_loss or (1.70 if pilot else PLAN["max_target_loss"]),
        asked.max_forgetting or (0.25 if pilot else PLAN["max_forgetting"]),
    )
    text, plan_map = planning(study, found, limits, 5 if asked.small else 33)
    print(f"\n## The planning case\n\n{text}")
    if asked.output:
        asked.output.mkdir(parents=True, exist_ok=True)
        scatter = pd.concat([one.rows.assign(law=one.law, anchored=int(one.anchored)) for one in found.values()])
        columns = ["eval", "law", "anchored", "run", *INPUTS, "loss", "forecast", "lo", "hi"]
        scatter[columns].to_csv(asked.output / "figure1_forecast_against_measured.csv", index=False)
        grid = 5 if asked.small else 40
        plan_map.to_csv(asked.output / "figure2_planning_map.csv", index=False)
        in_sample(found, grid).to_csv(asked.output / "figure3_form3_in_sample.csv", index=False)
        curves(study, found, grid).to_csv(asked.output / "loss_curves_held_out.csv", index=False)
        say(f"figures' data in {asked.output}")
    say("done")


if __name__ == "__main__":
    main()
