"""The forecasts of the PTPP study: which rows are fitted and forecast, by which laws, and how sure the errors are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize

import cptlaw as cl
from cptlaw.forecasting.backtest.metrics import metrics
from cptlaw.laws.calculus import Array
from studies.papers.open_fits import HELD_VALUES, error_text, open_fit
from studies.papers.ptpp_published import FORMS, ORACLE, TRANSFER

NEAREST = "ptpp-nearest"
LAWS = (*FORMS, TRANSFER, NEAREST, ORACLE)
INPUTS = ["n_params", "tokens", "replay", "ptpp"]
LEVEL = 0.9
UNITS = (1e9, 1e6, 1e4, 1.0)
"""Tokens per unit of D: part of the gated forms, and not published."""


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
    held_values
        Values at which each parameter is held in the search for equal fits.
    """

    runs: cl.Runs
    where: str
    fit_ptpp: tuple[float, ...] = (15, 31)
    test_ptpp: float = 279
    anchors: int = 20
    starts: int = 64
    resamples: int = 1000
    every: int = 1
    held_values: int = HELD_VALUES

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
        Forecasts of fits that the fitted rows cannot tell from the best, (fits, rows): where the design leaves a law
        open, which of them is reported is an accident of the search.
    user
        Mean absolute relative error of the fit that a user gets, with learned priors.
    """

    law: str
    on: str
    anchored: bool
    rows: pd.DataFrame
    fit: cl.Fit
    equals: Array
    user: float

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
    made = open_fit(chosen, rows, on, where, study.held_values, study.starts)
    fit = made.fit
    test = rows.where(tested).frame
    test = test[test["eval"] == on]
    points = test[INPUTS].drop_duplicates()
    found = fit.forecast(points.iloc[:: study.every], LEVEL)
    test = test.merge(found[[*INPUTS, "lo", "hi"]], on=INPUTS, how="left")
    equals = np.array([fit.law.predict(place, test, fit.role) for place in made.equals])
    user = cl.fit(chosen, rows, on=on, where=where) if law in FORMS else fit
    error = float(np.abs(user.predict(test) / test["loss"].to_numpy() - 1.0).mean())
    return Forecasts(law, on, anchored, test.assign(forecast=fit.predict(test)), fit, equals, error)


def published_protocol(study: Study, law: str, on: str, starts: int = 16) -> pd.DataFrame:
    """Fit as the paper says it did: L-BFGS-B from single starts, positive parameters, Huber 0.02 on log residuals.

    Neither starts nor their number nor bounds nor the unit of D are published. One start of all ones and random ones
    (log-normal around it, a factor e in one standard deviation) stand in for them.

    Returns
    -------
    DataFrame
        One row per start, the best objective first: ``objective`` and ``mae_rel`` at the test budget.
    """
    rows = study.rows
    fitted, test = (rows.where(text).frame for text in (study.fitted, f"ptpp == {study.test_ptpp}"))
    fitted, test = fitted[fitted["eval"] == on], test[test["eval"] == on]
    known = cl.law(law)
    observed = np.log(fitted["loss"].to_numpy())
    bound = known.bind(fitted, on)
    steps = 1e-8 * np.vstack([np.zeros(len(known.parameters)), np.eye(len(known.parameters))])

    def objective(place: Array) -> tuple[float, Array]:
        """Return the objective and its forward differences, as L-BFGS-B takes them where it is given none."""
        places = place + steps
        params = {name: places[:, i : i + 1] for i, name in enumerate(known.parameters)}
        with np.errstate(all="ignore"):
            apart = np.abs(np.log(known.evaluate(known.fitted(params), bound)) - observed)
            values = np.where(apart <= 0.02, 0.5 * apart**2, 0.02 * (apart - 0.01)).sum(axis=1)
        values = np.where(np.isfinite(values), values, 1e6)
        return float(values[0]), (values[1:] - values[0]) / 1e-8

    rng = np.random.default_rng(0)
    size = len(known.parameters)
    bounds = [(None if name == "zeta" else 1e-6, None) for name in known.parameters]
    beginnings = [np.ones(size), *np.exp(rng.standard_normal((starts - 1, size)))]
    found = []
    for beginning in beginnings:
        end = optimize.minimize(objective, beginning, jac=True, method="L-BFGS-B", bounds=bounds)
        forecasts = known.predict(dict(zip(known.parameters, map(float, end.x), strict=True)), test, on)
        errors = np.abs(forecasts / test["loss"].to_numpy() - 1.0)
        found.append({"objective": float(end.fun), "mae_rel": float(errors.mean())})
    return pd.DataFrame(found).sort_values("objective", ignore_index=True)


def resampled(found: Forecasts, chosen: list[Array], metric: str) -> Array:
    """Return a metric for each resampling of the test runs, (resamples,)."""
    predicted, observed = found.rows["forecast"].to_numpy(), found.rows["loss"].to_numpy()
    return np.array([metrics(predicted[rows], observed[rows])[metric] for rows in chosen])


def base_models(rows: pd.DataFrame) -> pd.Series:
    """Return the base model that each row's run continued: runs of one base model are one observation.

    Half to two thirds of the residual variance is shared by all runs of a base model (its seed, its budget), so that
    runs counted singly would be taken for several times as much evidence as they are.
    """
    if "base" in rows:
        return rows["base"].astype(str)
    known = [name for name in ("n_params", "ptpp", "seed") if name in rows]
    return rows[known].astype(str).agg("/".join, axis=1)


def resamplings(rows: pd.DataFrame, count: int) -> list[Array]:
    """Draw base models with replacement; return the positions of their runs' rows, one array a draw."""
    positions = list(rows.groupby(base_models(rows), observed=True).indices.values())
    rng = np.random.default_rng(0)
    draws = rng.integers(len(positions), size=(count, len(positions)))
    return [np.concatenate([positions[base] for base in draw]) for draw in draws]


def seed_noise(study: Study) -> str:
    """Return how far runs differ that differ by seed alone, at the test budget."""
    frame = study.rows.where(f"ptpp == {study.test_ptpp}").frame
    cells = frame.assign(log=np.log(frame["loss"])).groupby(["eval", "n_params", "replay", "tokens"], observed=True)
    spread = cells["log"].agg(["var", "size"]).query("size > 1").reset_index()
    if spread.empty:
        return "seeds: one run per cell, so the noise is not known"
    by_eval = np.sqrt(spread.groupby("eval", observed=True)["var"].mean())
    return "seeds: " + ", ".join(f"{on} loss differs by {100 * sd:.2f} %" for on, sd in by_eval.items()) + " (SD)"


def forecast_error(study: Study, law: str, on: str, anchored: bool) -> str:
    """Return the mean absolute relative error of a law's forecasts in per cent, a range where fits are equal."""
    rows, held_out = study.rows, f"ptpp == {study.test_ptpp}"
    listed = ", ".join(f'"{run}"' for run in study.anchor_runs())
    tested = f"{held_out} and run not in ({listed})" if anchored else held_out
    where = f"{study.fitted} or run in ({listed})" if anchored and law.partition(":")[0] in FORMS else study.fitted
    chosen, where = (TRANSFER, tested) if law == ORACLE else (law, where)
    test = rows.where(tested).frame
    return error_text(open_fit(chosen, rows, on, where, study.held_values).errors(test[test["eval"] == on]))


def by_unit(study: Study, splits: list[tuple[float, ...]]) -> pd.DataFrame:
    """Return errors in percent of the gated forms with D in other units: a free choice that they hide.

    Every split of budgets without anchors, and the study's own with them.
    """
    rows = []
    gated = [law for law in FORMS if "gate" in law]
    settings = [*((split, False) for split in splits), (study.fit_ptpp, True)]
    for on, (split, anchored), law in itertools.product(("target", "source"), settings, gated):
        row = {"loss": on, "fitted on": ", ".join(f"{budget:g}" for budget in split) + " and anchors" * anchored}
        row["law"] = name_of(law)
        for unit in UNITS:
            asked = replace(study, fit_ptpp=split)
            row[f"D per {unit:g} tokens"] = forecast_error(asked, f"{law}:unit_tokens={unit:g}", on, anchored)
        rows.append(row)
    return pd.DataFrame(rows)


def name_of(law: str) -> str:
    """Return a law with what the paper calls it."""
    theirs = FORMS.get(law, {TRANSFER: "D-CPT transfer", ORACLE: "oracle"}.get(law, "not in the paper"))
    return f"{law} ({theirs})"
