"""The study of the PTPP paper (Goffinet et al. 2025, arXiv:2510.23198) on runs that were measured, next to its numbers.

The paper forecasts both losses at a pre-training budget (tokens per parameter, PTPP) that no fitted run had, with three
laws that know of budgets and one that does not. Its runs were never published. This script asks the same questions of
another table: by default the example runs of the package, or any with ``--runs``. It prints

- Tables 1 and 2 and Appendices A and B: both losses, no anchors and anchors at the smallest size, the blind law as
  transfer baseline and as oracle, all six metrics, with the paper's values beside ours, the baseline that the paper
  lacks (``ptpp-nearest``), and intervals;
- which of the paper's claims hold here, decided by resampling the test runs;
- what the result depends on: budgets fitted, the first points, anchors;
- the planning case of section 4, planned without the held-out budget and then held against it;

and with ``-o FOLDER`` writes Figures 1 to 3 as CSV: forecasts against measurements, loss curves, the planning map.

Run it as ``python examples/reproduce_ptpp.py -o reproduction`` (about a minute) or with ``--small`` (seconds).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from ptpp_published import CLAIMS, FORMS, ORACLE, PLAN, PUBLISHED, TRANSFER

import cptlaw as cl
from cptlaw.laws.calculus import Array
from cptlaw.uncertainty.metrics import METRICS, metrics

NEAREST = "ptpp-nearest"
LAWS = (*FORMS, TRANSFER, NEAREST, ORACLE)
INPUTS = ["n_params", "tokens", "replay", "ptpp"]
SIX = METRICS[:6]
LEVEL = 0.9
PLAN_LAWS = (("target", "ptpp-gated-floor"), ("source", "ptpp-floor"))


@dataclass(frozen=True)
class Study:
    """Which rows of which table are fitted and forecast, and how thoroughly.

    Parameters
    ----------
    runs
        The table, with base models (tokens = 0) for the planning case.
    where
        Filter of the rows that count.
    fit_ptpp, test_ptpp
        Budgets to fit on, and the one to forecast.
    anchors
        Most anchor points.
    starts, resamples
        Starts of each fit, and resamplings of the test runs.
    every
        Intervals are found at every so manieth test point.
    """

    runs: cl.Runs
    where: str
    fit_ptpp: tuple[float, ...] = (15, 31)
    test_ptpp: float = 279
    anchors: int = 20
    starts: int = 64
    resamples: int = 1000
    every: int = 1

    @property
    def rows(self) -> cl.Runs:
        """The rows that count, base models left out."""
        return self.runs.where(f"({self.where}) and tokens > 0")

    @property
    def fitted(self) -> str:
        """The filter of the rows to fit on."""
        return f"ptpp in ({', '.join(f'{budget:g}' for budget in self.fit_ptpp)})"

    def anchor_runs(self) -> list[str]:
        """Return whole runs of the smallest size at the test budget, one replay after the other, within the number."""
        frame = self.rows.where(f"ptpp == {self.test_ptpp}").frame
        frame = frame[(frame["n_params"] == frame["n_params"].min()) & (frame["eval"] == frame["eval"].iloc[0])]
        points = frame.groupby(["run", "replay"], observed=True).size().reset_index(name="points")
        points["turn"] = points.groupby("replay").cumcount()
        points = points.sort_values(["turn", "replay"], kind="stable")
        return points.loc[points["points"].cumsum() <= self.anchors, "run"].tolist()


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What one law forecast for the test rows.

    Parameters
    ----------
    law, on, anchored
        What was asked.
    rows
        Test rows with loss, forecast, lo and hi.
    fit
        The fit.
    equals
        Forecasts of all fits that the fitted rows cannot tell from the best, (fits, rows): where the design leaves a
        law open, which of them is reported is an accident of the search.
    """

    law: str
    on: str
    anchored: bool
    rows: pd.DataFrame
    fit: cl.Fit
    equals: Array

    @property
    def scores(self) -> dict[str, float]:
        """The six metrics and R squared."""
        return metrics(self.rows["forecast"].to_numpy(), self.rows["loss"].to_numpy())

    def range_over_equals(self, metric: str) -> tuple[float, float]:
        """Return the least and greatest value of a metric over the fits that the data cannot tell apart."""
        values = [metrics(predicted, self.rows["loss"].to_numpy())[metric] for predicted in self.equals]
        return min(values), max(values)

    def without(self, runs: list[str]) -> Forecasts:
        """Return the same with fewer test runs."""
        kept = ~self.rows["run"].isin(runs).to_numpy()
        return replace(self, rows=self.rows[kept].reset_index(drop=True), equals=self.equals[:, kept])


def forecast(study: Study, law: str, on: str, anchored: bool) -> Forecasts:
    """Fit a law without the test budget (the oracle: on it), and forecast the test rows.

    The transfer baseline and the nearest budget take no anchors, as in the paper; all laws of a table are scored on
    the same rows, from which anchors are left out.
    """
    rows, held_out = study.rows, f"ptpp == {study.test_ptpp}"
    anchors = study.anchor_runs() if anchored else []
    listed = ", ".join(f'"{run}"' for run in anchors)
    tested = f"{held_out} and run not in ({listed})" if anchors else held_out
    where = f"{study.fitted} or run in ({listed})" if anchors and law in FORMS else study.fitted
    chosen, where = (TRANSFER, tested) if law == ORACLE else (law, where)
    fit = cl.fit(chosen, rows, on=on, where=where, starts=study.starts)
    test = rows.where(tested).frame
    test = test[test["eval"] == on]
    points = test[INPUTS].drop_duplicates()
    found = fit.forecast(points.iloc[:: study.every], LEVEL)
    test = test.merge(found[[*INPUTS, "lo", "hi"]], on=INPUTS, how="left")
    problem = fit.problem()
    parameters = problem.parameters(fit.optima[:, : problem.k], fit.optima[:, problem.k :])
    equals = np.array([fit.law.predict(dict(zip(fit.params, row, strict=True)), test, fit.role) for row in parameters])
    return Forecasts(law, on, anchored, test.assign(forecast=fit.predict(test)), fit, equals)


def resampled(found: Forecasts, chosen: list[Array], metric: str) -> Array:
    """Return a metric for each resampling of the test runs, (resamples,)."""
    predicted, observed = found.rows["forecast"].to_numpy(), found.rows["loss"].to_numpy()
    return np.array([metrics(predicted[rows], observed[rows])[metric] for rows in chosen])


def resamplings(rows: pd.DataFrame, count: int) -> list[Array]:
    """Draw whole runs with replacement; return the positions of their rows, one array a draw."""
    positions = list(rows.groupby("run", observed=True).indices.values())
    rng = np.random.default_rng(0)
    draws = rng.integers(len(positions), size=(count, len(positions)))
    return [np.concatenate([positions[run] for run in draw]) for draw in draws]


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
        row["over test runs, 90 %"] = interval_text(errors, ".4f")
        row["over equal fits"] = f"{least:.4f} to {most:.4f}"
        row["times ptpp-nearest, 90 %"] = interval_text(errors / base, ".2f")
        row["at larger sizes"] = f"{(larger['forecast'] / larger['loss'] - 1).abs().mean():.4f}"
        row["inside its 90 % interval"] = f"{100 * bounded['loss'].between(bounded['lo'], bounded['hi']).mean():.0f} %"
        row["half width"] = f"{100 * ((bounded['hi'] - bounded['lo']) / 2 / bounded['forecast']).mean():.1f} %"
        rows.append(row)
    return pd.DataFrame(rows)


def name_of(law: str) -> str:
    """Return a law with what the paper calls it."""
    theirs = FORMS.get(law, {TRANSFER: "D-CPT transfer", ORACLE: "oracle"}.get(law, "not in the paper"))
    return f"{law} ({theirs})"


def claims(found: dict[tuple[str, bool, str], Forecasts], study: Study) -> pd.DataFrame:
    """Hold the paper's orderings against ours: which error is smaller, and in how many resamplings of the test runs.

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


def forecast_error(study: Study, law: str, on: str, anchored: bool) -> float:
    """Return the mean absolute relative error through `cl.compare`, which needs no intervals."""
    listed = ", ".join(f'"{run}"' for run in study.anchor_runs())
    takes = anchored and law in FORMS
    test = f"ptpp == {study.test_ptpp}" + (f" and run not in ({listed})" if anchored and not takes else "")
    found = cl.compare(
        [law], study.rows, on=on, fit_where=study.fitted, test_where=test,
        anchors_where=f"run in ({listed})" if takes else None, starts=study.starts,
    )  # fmt: skip
    return float(found["mae_rel"].iloc[0])


def planning(
    study: Study, found: dict[tuple[str, bool, str], Forecasts], limits: tuple[float, float], grid: int
) -> tuple[str, pd.DataFrame]:
    """Ask the planning question of section 4 at the largest size; return the answers and the map of Figure 3.

    The source law is Form 1 and the target law Form 3, as published; beside them the same on the two highest budgets
    below, and `ptpp-nearest`. What each plans is held against the oracle, fitted on the runs of the test budget.
    """
    max_loss, max_forgetting = limits
    frame = study.rows.frame
    setting = {"n_params": float(frame["n_params"].max()), "ptpp": study.test_ptpp}
    base = study.runs.where(f"tokens == 0 and ptpp == {study.test_ptpp} and n_params == {setting['n_params']}").frame
    base_loss = float(base.loc[base["eval"] == "source", "loss"].mean())
    upper = sorted(level for level in frame["ptpp"].unique() if level < study.test_ptpp)[-2:]
    later = replace(study, fit_ptpp=tuple(upper))
    pairs = {
        "forms": ("Forms 3 and 1", *(found[on, False, law].fit for on, law in PLAN_LAWS)),
        "forms_upper": (
            f"Forms 3 and 1, fitted on {upper[0]:g} and {upper[1]:g}",
            *(cl.fit(law, study.rows, on=on, where=later.fitted, starts=study.starts) for on, law in PLAN_LAWS),
        ),
        "nearest": ("nearest budget", *(found[on, False, NEAREST].fit for on in ("target", "source"))),
        "oracle": ("oracle", *(found[on, False, ORACLE].fit for on in ("target", "source"))),
    }
    if later.fit_ptpp == study.fit_ptpp:
        del pairs["forms_upper"]
    oracle = pairs["oracle"][1:]
    rows = []
    for allowed in dict.fromkeys((max_forgetting, PLAN["max_forgetting"])):
        for name, target, source in pairs.values():
            plan = cl.plan.min_tokens(
                target, source, **setting, max_target_loss=max_loss, max_forgetting=allowed, base_source_loss=base_loss
            )
            row = {"fits": name, "forgetting allowed": f"{100 * allowed:g} %"}
            if plan.feasible:
                mix = pd.DataFrame([setting | {"tokens": plan.tokens, "replay": plan.replay}])
                loss, forgetting = oracle[0].predict(mix)[0], oracle[1].predict(mix)[0] / base_loss - 1
                row |= {"tokens per parameter": f"{plan.atpp:.3g}", "replay": f"{100 * plan.replay:.0f} %"}
                row["target loss (90 %)"] = (
                    f"{plan.target_loss:.3f} ({plan.target_loss_lo:.3f} to {plan.target_loss_hi:.3f})"
                )
                row["forgetting (90 %)"] = (
                    f"{100 * plan.forgetting:.0f} % ({100 * plan.forgetting_lo:.0f} to {100 * plan.forgetting_hi:.0f})"
                )
                row["by the oracle"] = f"{loss:.3f}, {100 * forgetting:.0f} %"
            else:
                reached = (plan.best_reachable or {}).get("forgetting")
                said = f"; least forgetting {100 * reached:.0f} %" if reached is not None else ""
                row |= {"tokens per parameter": "no plan", "replay": f"blocked by {plan.blocking}{said}"}
            rows.append(row)
    atpp = frame["tokens"] / frame["n_params"]
    points = pd.MultiIndex.from_product(
        [np.linspace(frame["replay"].min(), frame["replay"].max(), grid), np.geomspace(atpp.min(), atpp.max(), grid)],
        names=["replay", "atpp"],
    ).to_frame(index=False)
    points = points.assign(**setting, tokens=points["atpp"] * setting["n_params"])
    for short, (_, target, source) in pairs.items():
        points[f"target_loss_{short}"] = target.predict(points)
        points[f"forgetting_{short}"] = source.predict(points) / base_loss - 1
        kept = (points[f"target_loss_{short}"] <= max_loss) & (points[f"forgetting_{short}"] <= max_forgetting)
        points[f"feasible_{short}"] = kept.astype(int)
    model = f"{setting['n_params']:,.0f} parameters, PTPP {study.test_ptpp:g}"
    asked = f"Asked: a target loss of {max_loss:g} nats per token at {model}."
    published = (
        f"Published: {PLAN['atpp']} tokens per parameter at replay {100 * PLAN['replay']:.0f} %, for "
        f"{PLAN['n_params'] / 1e9:g}B parameters, target loss {PLAN['max_target_loss']}, forgetting 2 %."
    )
    return f"{asked}\n{published}\n\n{markdown(pd.DataFrame(rows).fillna(''))}", points


def curves(study: Study, found: dict[tuple[str, bool, str], Forecasts], grid: int) -> pd.DataFrame:
    """Return Figure 2: loss against tokens at the test budget, forecast and measured, by size and replay."""
    parts = []
    for on in ("target", "source"):
        rows = found[on, False, NEAREST].rows
        for (n_params, replay), cell in rows.groupby(["n_params", "replay"]):
            tokens = np.geomspace(cell["tokens"].min(), cell["tokens"].max(), grid)
            line = pd.DataFrame({"n_params": n_params, "tokens": tokens, "replay": replay, "ptpp": study.test_ptpp})
            for law in LAWS:
                parts.append(line.assign(eval=on, kind=law, loss=found[on, False, law].fit.predict(line)))
            parts.append(cell[[*INPUTS, "loss"]].assign(eval=on, kind="measured"))
    return pd.concat(parts, ignore_index=True)[["eval", "kind", *INPUTS, "loss"]]


def markdown(frame: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    head = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * len(frame.columns)]
    return "\n".join([*head, *("| " + " | ".join(map(str, row)) + " |" for row in frame.to_numpy())])


def seed_noise(study: Study) -> str:
    """Return how far runs differ that differ by seed alone, at the test budget."""
    frame = study.rows.where(f"ptpp == {study.test_ptpp}").frame
    cells = frame.assign(log=np.log(frame["loss"])).groupby(["eval", "n_params", "replay", "tokens"], observed=True)
    spread = cells["log"].agg(["var", "size"]).query("size > 1").reset_index()
    if spread.empty:
        return "seeds: one run per cell, so the noise is not known"
    by_eval = np.sqrt(spread.groupby("eval", observed=True)["var"].mean())
    return "seeds: " + ", ".join(f"{on} loss differs by {100 * sd:.2f} %" for on, sd in by_eval.items()) + " (SD)"


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
    parser.add_argument("-o", "--output", type=Path, help="folder for the figures' data")
    parser.add_argument("--small", action="store_true", help="few intervals and resamplings, no sensitivity: seconds")
    asked = parser.parse_args(arguments)
    pilot = asked.runs is None
    runs = cl.examples.load("en-fr-pilot") if pilot else cl.read_runs(asked.runs)
    published_levels = "replay in (0.1, 0.25, 0.5)" + (" and lr_schedule == 'constant'" if pilot else "")
    where = asked.where or published_levels + (" and atpp >= 1.9" if pilot else "")
    fit_ptpp = tuple(float(level) for level in asked.fit_ptpp.split(","))
    small = {"resamples": 50, "every": 24} if asked.small else {}
    study = Study(runs, where, fit_ptpp, asked.test_ptpp, asked.anchors, **small)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", file=sys.stderr, flush=True)

    frame = study.rows.frame
    print(f"{'Example runs en-fr-pilot' if pilot else asked.runs}: {where}")
    print(f"fitted on PTPP {asked.fit_ptpp}, forecast at {study.test_ptpp:g}; {frame['run'].nunique()} runs, "
          f"{frame['n_params'].nunique()} sizes up to {frame['n_params'].max():,.0f} parameters")  # fmt: skip
    print(seed_noise(study))
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
    print(
        "\n## Claims of the paper\n\nDecided by Huber_log, on the same test rows; resamplings of test runs that agree."
    )
    print("open: fits that the fitted rows cannot tell apart disagree. undecided: less than 95 % either way.\n")
    print(markdown(claims(found, study)))
    if not asked.small:
        say("sensitivity")
        budgets = sorted(level for level in frame["ptpp"].unique() if level < study.test_ptpp)
        pairs = [tuple(budgets[start : start + 2]) for start in range(len(budgets) - 1)]
        splits = dict.fromkeys([study.fit_ptpp, *pairs, *(tuple(budgets[-top:]) for top in range(3, len(budgets) + 1))])
        print("\n## What it depends on: error in percent at the held-out budget\n")
        print(markdown(sensitivity(study, list(splits), published_levels if where != published_levels else None)))
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
        curves(study, found, 5 if asked.small else 40).to_csv(asked.output / "figure2_loss_curves.csv", index=False)
        plan_map.to_csv(asked.output / "figure3_planning_map.csv", index=False)
        say(f"figures' data in {asked.output}")
    say("done")


if __name__ == "__main__":
    main()
