"""The shift between two corpora alone: a CPT curve minus the curve that training without a change would have had.

Wang et al. 2025 (arXiv:2505.07796) look at it this way in figs. 2, 6 and 14 before they join it to the rest of the law:
as a power form, B (1 - (1 + E x)^-beta), and an exponential one, B (1 - e^(-E x)), in steps or in the forward area
of CPT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.findings import Finding
from cptlaw.fitting.law_fit import LawFit
from cptlaw.laws.calculus import Array
from cptlaw.laws.curve_rows import global_steps
from cptlaw.result import Line, Result
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import SchedulesLike, areas, read_schedules
from cptlaw.units import counted
from cptlaw_curves.laws.curve_law import CurveLaw
from cptlaw_curves.laws.dynamics import STRAIGHT

FORMS = ("power", "exponential")
AGAINST = ("s1_cpt", "step")
SPARE_GAPS = 1.3  # how far beyond its ends the control run's losses are used, in gaps between its steps


def shift_of_runs(
    runs: RunsLike,
    on: str,
    control: LawFit | str,
    schedules: SchedulesLike,
    where: str | None = None,
) -> pd.DataFrame:
    """Return the shift along CPT runs, by difference to the curve without a change of the corpus.

    Parameters
    ----------
    runs
        A runs table with run, step, eval and loss; rows of pre-training are marked in the column ``phase``.
    on
        The eval.
    control
        What the loss would have been without the change. Either the id of a run in the table that went on with the old
        corpus under the same schedule, whose losses are interpolated between its steps; or a fit of a law of curves
        without a shift, such as lr-annealing on runs without a change, which forecasts every schedule.
    schedules
        Schedules by run, or a schedules file.
    where
        Filter of rows.

    Returns
    -------
    DataFrame
        run, step (of CPT), s1_cpt (forward area of CPT), loss, without (the loss without the change), shift.

    Raises
    ------
    DataError, UsageError
        If there is no such eval or control run, or the control run does not cover the steps.
    """
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    frame = (table.where(where) if where else table).on(on).frame
    known = read_schedules(schedules)
    if "phase" in frame.columns:
        frame = frame[(frame["phase"].isna() | (frame["phase"].astype(str) == "cpt")).to_numpy()]
    run = frame["run"].astype(str)
    if isinstance(control, str):
        if control not in set(run):
            raise UsageError(
                f"control={control!r}: no such run of CPT on {on}.{did_you_mean(control, sorted(set(run)))} Name a run "
                f"that went on with the old corpus, or give a fit of a law without a shift."
            )
        without = _control_losses(frame[run == control], frame, control)
        frame, without = frame[(run != control).to_numpy()], without[(run != control).to_numpy()]
    elif isinstance(control, LawFit) and isinstance(control.law, CurveLaw):
        without = np.asarray(control.predict(control.law.attach(frame, known)), dtype=float)
    else:
        raise UsageError(f"control: {control!r}. Expected the id of a run, or a fit of a law of loss curves.")
    result = pd.DataFrame({"run": frame["run"].astype(str), "step": frame["step"].astype(int)}).reset_index(drop=True)
    area = np.empty(len(result))
    for name, rows in result.groupby("run", sort=False, observed=True):
        if name not in known:
            raise DataError(f"run {name!r} has no learning-rate schedule.{did_you_mean(str(name), known)}")
        at = global_steps(rows.assign(phase="cpt"), known[str(name)], f"run {name!r}")
        # The plain forward area: the shift grows with what has been trained, and annealing has no part in it.
        area[rows.index] = areas(known[str(name)]).s1_cpt[at]
    loss = frame["loss"].to_numpy(dtype=float)
    return result.assign(s1_cpt=area, loss=loss, without=without, shift=loss - without)


def _control_losses(control: pd.DataFrame, frame: pd.DataFrame, name: str) -> Array:
    """Return the losses of the control run at the steps of all rows."""
    rows = control.sort_values("step")
    step, loss = rows["step"].to_numpy(dtype=float), rows["loss"].to_numpy(dtype=float)
    asked = frame["step"].to_numpy(dtype=float)
    # Two runs seldom measure at the very same steps; about a gap beyond its end the control curve is still as good as
    # known.
    spare = SPARE_GAPS * (float(np.diff(step).max()) if len(step) > 1 else 0.0)
    outside = (asked < step[0] - spare) | (asked > step[-1] + spare)
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise DataError(
            f"run {frame['run'].iloc[i]!r}, step {asked[i]:.0f}: control run {name!r} has losses from step "
            f"{step[0]:.0f} to {step[-1]:.0f}. Leave those rows out with where, or give a fit of a law without a "
            f"shift as control."
        )
    values: Array = np.interp(asked, step, loss)
    return values


@dataclass(frozen=True, repr=False)
class ShiftFit(Result):
    """A form fitted to the shift alone.

    Parameters
    ----------
    form, against
        As for `fit_shift`.
    params
        B (nats, with its sign), E (per unit of `against`) and, for the power form, beta.
    r2, rmse
        Of the shift, in nats.
    n_points
        Points fitted.
    findings
        Where the data do not determine a parameter.
    """

    form: str
    against: str
    params: dict[str, float]
    r2: float
    rmse: float
    n_points: int
    findings: tuple[Finding, ...] = ()

    def predict(self, x: ArrayLike) -> Array:
        """Return the shift at steps, or at forward areas of CPT."""
        at = np.asarray(x, dtype=float)
        values: Array = self.params["B"] * _unit_shift(at, self.params["E"], self.params.get("beta"))
        return values

    @property
    def title(self) -> str:
        """The form."""
        shown = "B (1 - (1 + E x)^-beta)" if self.form == "power" else "B (1 - e^(-E x))"
        return f"shift = {shown}, x = {self.against}"

    @property
    def lines(self) -> list[Line]:
        """Parameters, and how well they fit."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.params.items())
        return [("parameters", values), ("fit", f"R2 {self.r2:.4f}, {counted(self.n_points, 'point')}")]


def fit_shift(
    shift: pd.DataFrame, form: Literal["power", "exponential"] = "power", against: Literal["s1_cpt", "step"] = "s1_cpt"
) -> ShiftFit:
    """Fit a form to the shift alone, by least squares on nats.

    Parameters
    ----------
    shift
        As `shift_of_runs` gives it: the column ``shift``, and the column `against`.
    form
        ``"power"``, B (1 - (1 + E x)^-beta), or ``"exponential"``, B (1 - e^(-E x)).
    against
        ``"s1_cpt"``, the forward area of CPT, or ``"step"``, which only runs of one constant rate share.

    Returns
    -------
    ShiftFit

    Raises
    ------
    UsageError, DataError
        If an option is unknown, a column is missing, or there are too few points.

    Notes
    -----
    B is linear, so it is solved for; E and beta are searched on a grid in logarithms and then by bounded least squares
    from the best ones. As beta goes to 0 only B beta is determined, and a finding says so.

    Examples
    --------
    >>> x = np.linspace(0.01, 4, 60)
    >>> rows = pd.DataFrame({"s1_cpt": x, "shift": 0.366 * (1 - (1 + 28 * x) ** -0.189)})
    >>> fit_shift(rows).params["B"].__round__(3)
    0.366
    """
    for value, known, name in ((form, FORMS, "form"), (against, AGAINST, "against")):
        if value not in known:
            raise UsageError(f"{name}={value!r}: expected {' or '.join(known)}.{did_you_mean(str(value), known)}")
    missing = [name for name in (against, "shift") if name not in shift.columns]
    if missing:
        raise DataError(f"the shift has no column {missing[0]!r}. Make it with shift_of_runs.")
    x, y = shift[against].to_numpy(dtype=float), shift["shift"].to_numpy(dtype=float)
    size = 3 if form == "power" else 2
    if len(x) <= size or not np.isfinite(x).all() or not np.isfinite(y).all() or x.max() <= 0 or x.min() < 0:
        raise DataError(f"{len(x)} points of the shift: expected more than {size}, finite, along CPT ({against} >= 0).")
    speed, bend = _search(x, y, form)
    column = _unit_shift(x, speed, bend)
    amplitude = float(column @ y / max(float(column @ column), 1e-300))
    residual = y - amplitude * column
    spread = float(np.sum((y - y.mean()) ** 2))
    params = {"B": amplitude, "E": speed} | ({} if bend is None else {"beta": bend})
    return ShiftFit(
        form,
        against,
        params,
        1.0 - float(residual @ residual) / spread if spread > 0 else math.nan,
        float(np.sqrt(np.mean(residual**2))),
        len(x),
        _notes(amplitude, speed, bend, float(x.max())),
    )


def _unit_shift(x: Array, speed: float, bend: float | None) -> Array:
    """Return the shift for B = 1: of the power form, or of the exponential one without a bend."""
    values: Array = -np.expm1(-speed * x) if bend is None else -np.expm1(-bend * np.log1p(speed * x))
    return values


def _search(x: Array, y: Array, form: str) -> tuple[float, float | None]:
    """Return E and, for the power form, beta: the best of a grid, descended from its best points."""
    from scipy.optimize import least_squares

    reach = float(x.max())
    # By the reach of the points: a shift far faster or slower than they can see is a step or a straight line, and its
    # speed anything.
    bounds = [(math.log(1e-3 / reach), math.log(1e6 / reach))]
    if form == "power":
        bounds.append((math.log(1e-4), math.log(1e2)))

    def missed(v: Array) -> Array:
        column = _unit_shift(x, math.exp(v[0]), math.exp(v[1]) if len(v) > 1 else None)
        values: Array = y - column * (column @ y / max(float(column @ column), 1e-300))
        return values

    # A grid before the descents: E and beta trade off along a bent valley, and a descent from one end of it may stop
    # short.
    axes = [np.linspace(low, high, 15) for low, high in bounds]
    grid = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
    order = np.argsort([float(np.sum(missed(v) ** 2)) for v in grid], kind="stable")
    lower, upper = np.array(bounds).T
    # A start of the bounded descent must lie within its bounds, not on them.
    inside = 1e-6 * (upper - lower)
    starts = [np.clip(grid[k], lower + inside, upper - inside) for k in order[:3]]
    values = [
        least_squares(missed, start, bounds=(lower, upper), xtol=1e-12, ftol=1e-14, gtol=1e-14) for start in starts
    ]
    best = min(values, key=lambda one: float(one.cost)).x
    return math.exp(best[0]), math.exp(best[1]) if form == "power" else None


def _notes(amplitude: float, speed: float, bend: float | None, reach: float) -> tuple[Finding, ...]:
    if bend is None or bend * math.log1p(speed * reach) >= STRAIGHT:
        return ()
    return (
        Finding(
            "warning",
            "degenerate-shift",
            f"the shift is a logarithm here (beta = {bend:.3g}): the data determine B beta = {amplitude * bend:.4g} "
            f"and E = {speed:.4g}, and neither B nor beta.",
            "It has no asymptote: what lies far beyond the fitted points is not determined. Run longer.",
        ),
    )
