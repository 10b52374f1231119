"""The study of the PTPP paper (Goffinet et al. 2025, arXiv:2510.23198) on runs that were measured, next to its numbers.

The paper forecasts both losses at a pre-training budget (tokens per parameter, PTPP) that no fitted run had, with three
laws that know of budgets and one that does not. Its runs were never published. This script asks the same questions of
another table: by default the example runs of the package, or any with ``--runs``. It prints

- Table 1 (target loss, no anchors), Table 2 (with anchors at the smallest size) and Appendix A (source loss), the blind
  law as transfer baseline and as oracle, all six metrics, with the paper's values beside ours, the baseline that the
  paper lacks (``ptpp-nearest``), and intervals;
- which of the paper's claims hold here, decided by resampling the base models of the test runs;
- what the result depends on: budgets fitted, the first points, anchors, the unit of D, the starts of a plain L-BFGS-B;
- the planning case of section 4, planned without the held-out budget and then held against it;

and with ``-o FOLDER`` draws Figures 1 to 3 (forecasts against measurements, the planning map of both losses in two
panels, Form 3 on the rows it was fitted to), with their data as CSV, and loss curves at the held-out budget.

Run it as ``python -m studies reproduce_ptpp -o reproduction`` (some minutes) or with ``--small`` (seconds). ``--write``
keeps its tables in ``studies/results/``, and ``docs/run_pages.py --write studies/reproduction.md`` fills the page.
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
from cptlaw.forecasting.backtest.metrics import METRICS
from cptlaw.laws.calculus import Array
from studies.harness import write_result
from studies.papers.budgets_by_shift import usual_rows
from studies.papers.open_fits import is_open, open_fit
from studies.papers.ptpp_figures import draw
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
PILOT = "en-fr-pilot"


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


def summary(found: dict[tuple[str, bool, str], Forecasts], study: Study) -> pd.DataFrame:
    """Return the errors of all laws on one table: without and with anchors, the paper's beside ours."""
    rows = []
    for on in ("target", "source"):
        chosen = resamplings(found[on, False, NEAREST].rows, study.resamples)
        base = resampled(found[on, False, NEAREST], chosen, "mae_rel")
        for law in LAWS:
            row = {"loss": on, "law": law, "paper's name": name_of(law).partition("(")[2].rstrip(")")}
            for anchored in (False, True) if law in FORMS else (False,):
                one = found[on, anchored, law]
                theirs = PUBLISHED.get((on, anchored, law))
                said = f"{mae_text(one)} %" + (f" ({100 * theirs[2]:.2f})" if theirs else "")
                bounded = one.rows.dropna(subset=["lo", "hi"])
                held = 100 * bounded["loss"].between(bounded["lo"], bounded["hi"]).mean()
                with_anchors = " with anchors" if anchored else ""
                row[f"error{with_anchors}"] = said
                row[f"as a user fits it{with_anchors}"] = f"{100 * one.user:.2f} %" if law in FORMS else ""
                row[f"intervals held{with_anchors}"] = f"{held:.0f} %"
                if not anchored:
                    row["rank"] = f"{one.fit.rank} of {one.fit.n_free}"
                    times = interval_text(resampled(one, chosen, "mae_rel") / base, ".2f")
                    row["times nearest"] = "open" if is_open(*one.range_over_equals("mae_rel")) else times
            rows.append(row)
    return pd.DataFrame(rows).fillna("")


def mae_text(found: Forecasts) -> str:
    """Return the mean absolute relative error in per cent, a range where fits are equal."""
    low, high = (100 * each for each in found.range_over_equals("mae_rel"))
    return f"{low:.1f} to {high:.1f}" if is_open(low, high) else f"{100 * found.scores['mae_rel']:.2f}"


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
        crosses = most > other_least and least < other_most
        if crosses and (is_open(least, most) or is_open(other_least, other_most)):
            verdict = "open"
        else:
            verdict = "holds" if share >= 0.95 else "does not hold" if share <= 0.05 else "undecided"
        errors = " against ".join(f"{mae_text(each)} %" for each in (one, other))
        agree = "-" if verdict == "open" else f"{100 * share:.0f} %"
        rows.append({"loss": on, "claim": text, "here": verdict, "resamplings": agree, "mae": errors})
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


def sensitivity(study: Study, splits: list[tuple[float, ...]]) -> pd.DataFrame:
    """Return mean absolute relative errors in percent, by budgets fitted."""
    rows = []
    settings = [(split, anchored) for split in splits for anchored in (False, True)]
    for on in ("target", "source"):
        for split, anchored in settings:
            asked = replace(study, fit_ptpp=split)
            row: dict[str, str] = {"loss": on, "fitted on": ", ".join(f"{budget:g}" for budget in split)}
            row["anchors"] = f"{asked.anchors} or fewer" if anchored else "none"
            for law in LAWS:
                row[law] = forecast_error(asked, law, on, anchored)
            rows.append(row)
    return pd.DataFrame(rows)


class Printed:
    """What the study prints: tables as they are made, and on stderr what it is at.

    Attributes
    ----------
    tables
        Those that a result file keeps, by key.
    """

    def __init__(self) -> None:
        self.tables: dict[str, pd.DataFrame] = {}
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """Say what is done now."""
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", file=sys.stderr, flush=True)

    def show(self, key: str, title: str, table: pd.DataFrame) -> None:
        """Print a table that is kept."""
        self.tables[key] = table
        print(f"\n## {title}\n\n{markdown(table)}", flush=True)


def options() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", default=PILOT, help="an example of the package, or a table of yours")
    parser.add_argument("--where", help="rows that count; the published replay levels where absent")
    parser.add_argument("--fit-ptpp", default="15,31", help="budgets to fit on")
    parser.add_argument("--test-ptpp", type=float, default=279, help="budget to forecast")
    parser.add_argument("--anchors", type=int, default=20, help="most anchor points")
    parser.add_argument("--max-target-loss", type=float, help="of the planning case")
    parser.add_argument("--max-forgetting", type=float, help="of the planning case, as a fraction")
    parser.add_argument("--held-values", type=int, help="values at which each parameter is held to find equal fits")
    parser.add_argument("-o", "--output", type=Path, help="folder for the figures and their data")
    parser.add_argument("--protocol", action="store_true", help="the unit of D and the published search alone")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    parser.add_argument("--small", action="store_true", help="few intervals and resamplings, no sensitivity: seconds")
    return parser


def study_of(asked: argparse.Namespace) -> Study:
    """Return the study that was asked for."""
    example = asked.runs in cl.examples.EXAMPLES
    runs = usual_rows(cl.examples.load(asked.runs)) if example else cl.read_runs(asked.runs)
    where = asked.where or "replay in (0.1, 0.25, 0.5)"
    fit_ptpp = tuple(float(level) for level in asked.fit_ptpp.split(","))
    small = {"resamples": 50, "every": 1000, "held_values": 0, "starts": 8} if asked.small else {}
    small |= {} if asked.held_values is None else {"held_values": asked.held_values}
    return Study(runs, where, fit_ptpp, asked.test_ptpp, asked.anchors, **small)


def describe(study: Study, asked: argparse.Namespace) -> None:
    """Print what is fitted, what is forecast, and how far seeds lie apart."""
    frame = study.rows.frame
    print(f"{asked.runs}: {study.where}")
    print(f"fitted on PTPP {asked.fit_ptpp}, forecast at {study.test_ptpp:g}; {frame['run'].nunique()} runs, "
          f"{frame['n_params'].nunique()} sizes up to {frame['n_params'].max():,.0f} parameters")  # fmt: skip
    print(seed_noise(study))
    tested = study.rows.where(f"ptpp == {study.test_ptpp}").frame
    print(f"{base_models(tested).nunique()} base models at {study.test_ptpp:g}: what is resampled")


def splits_of(study: Study) -> list[tuple[float, ...]]:
    """Return budgets to fit on: those of the study, each pair of neighbours, and the three and more highest."""
    levels = study.rows.frame["ptpp"].unique()
    budgets = sorted(level for level in levels if level < study.test_ptpp)
    pairs = [tuple(budgets[start : start + 2]) for start in range(len(budgets) - 1)]
    highest = (tuple(budgets[-top:]) for top in range(3, len(budgets) + 1))
    return list(dict.fromkeys([study.fit_ptpp, *pairs, *highest]))


def show_protocol(study: Study, printed: Printed) -> None:
    """Print what the unit of D and the published search come to."""
    printed.say("units")
    printed.show("units", "The unit of D: error in percent", by_unit(study, splits_of(study)))
    printed.say("the published protocol")
    title = "L-BFGS-B from single starts, as published (starts, bounds and units are ours)"
    printed.show("protocol", title, protocol_table(study))


def forecasts(study: Study, printed: Printed) -> dict[tuple[str, bool, str], Forecasts]:
    """Return forecasts of each loss, without and with anchors, by each law; print how good and sure they are."""
    frame, anchor_runs = study.rows.frame, study.anchor_runs()
    found: dict[tuple[str, bool, str], Forecasts] = {}
    for on in ("target", "source"):
        for anchored in (False, True):
            for law in LAWS:
                printed.say(f"{on}, {'anchors' if anchored else 'no anchors'}: {law}")
                found[on, anchored, law] = forecast(study, law, on, anchored)
            shown = [found[on, anchored, law] for law in LAWS]
            points = sum(len(frame[(frame["run"] == run) & (frame["eval"] == on)]) for run in anchor_runs)
            how = f"{points} anchors at the smallest size ({len(anchor_runs)} runs)" if anchored else "no anchors"
            theirs = "Appendix A" if on == "source" else "Table 2" if anchored else "Table 1"
            print(f"\n## The {on} loss, {how} (the paper's {theirs})\n")
            print(f"Ours (the paper's); {len(shown[0].rows)} test points.\n")
            print(markdown(scores_table(shown)))
            print("\nHow sure that is:\n")
            print(markdown(doubt_table(shown, study)))
    return found


def write_figures(
    folder: Path, study: Study, found: dict[tuple[str, bool, str], Forecasts], plan_map: pd.DataFrame, grid: int
) -> bool:
    """Write the data of the figures to a folder, and draw them where plotly is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    scatter = pd.concat([one.rows.assign(law=one.law, anchored=int(one.anchored)) for one in found.values()])
    columns = ["eval", "law", "anchored", "run", *INPUTS, "loss", "forecast", "lo", "hi"]
    scatter[columns].to_csv(folder / "figure1_forecast_against_measured.csv", index=False)
    plan_map.to_csv(folder / "figure2_planning_map.csv", index=False)
    in_sample(found, grid).to_csv(folder / "figure3_form3_in_sample.csv", index=False)
    curves(study, found, grid).to_csv(folder / "loss_curves_held_out.csv", index=False)
    return bool(draw(folder))


def probe() -> list[Array]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    found = []
    for name in (PILOT, "en-fr-ladder"):
        study = study_of(options().parse_args(["--small", "--runs", name]))
        rows = study.rows.where(f"ptpp == {study.test_ptpp}").on("target").frame
        found.append(open_fit("ptpp-floor", study.rows, "target", study.fitted, 0, 4).errors(rows))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the study and print it."""
    asked = options().parse_args(arguments)
    study, printed = study_of(asked), Printed()
    describe(study, asked)
    if asked.protocol:
        show_protocol(study, printed)
        return
    found = forecasts(study, printed)
    printed.show("errors", "Errors at the held-out budget, the paper's in brackets", summary(found, study))
    print("\nDecided by Huber_log on the same rows; resamplings (of base models) that agree.")
    print("open: fits that the fitted rows cannot tell apart disagree. undecided: less than 95 % either way.")
    printed.show("claims", "Claims of the paper", claims(found, study))
    if not asked.small:
        printed.say("sensitivity")
        title = "What it depends on: error in percent at the held-out budget"
        printed.show("budgets", title, sensitivity(study, splits_of(study)))
        show_protocol(study, printed)
    printed.say("planning")
    example = asked.runs in cl.examples.EXAMPLES
    limits = (
        asked.max_target_loss or (1.70 if example else PLAN["max_target_loss"]),
        asked.max_forgetting or (0.25 if example else PLAN["max_forgetting"]),
    )
    text, plans, plan_map = planning(study, found, limits, 5 if asked.small else 33)
    printed.show("plans", f"The planning case\n\n{text}", plans)
    if asked.write:
        name = "reproduce_ptpp" if asked.runs == PILOT else f"reproduce_ptpp_{asked.runs.replace('-', '_')}"
        command = " ".join(["python -m studies reproduce_ptpp", *(arguments or sys.argv[1:])])
        printed.say(f"wrote {write_result(name, printed.tables, command)}")
    if asked.output:
        drawn = write_figures(asked.output, study, found, plan_map, 5 if asked.small else 40)
        printed.say(f"figures in {asked.output}" if drawn else f"figures' data in {asked.output}; plotly draws them")
    printed.say("done")


if __name__ == "__main__":
    main()
