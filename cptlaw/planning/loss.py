"""A fitted loss in a plan: what it is at a mix, and how sure. It uses the public methods of fits only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.base_models import KEYS, LOSS
from cptlaw.fitting.cached import cached_stat
from cptlaw.fitting.checking.distance import levels as levels_of
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.learned import left_out
from cptlaw.fitting.uncertainty.intervals import MIN_RUNS
from cptlaw.forecasting.scores import is_score_fit
from cptlaw.forecasting.verbs import load_fit
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.laws.inputs import AnyRows, Columns
from cptlaw.planning.solve import Points
from cptlaw.runs.schema import corpus_of

GIVEN_ATPP = (1e-3, 1e4)  # tokens per parameter between which plans look where parameters were given, not fitted
# Times the tokens of the runs, as far as forecasts were held to longer runs (studies/bench.md, more tokens).
AHEAD = 4.0
REPLAY_STEP = 1e-4  # for the slope in replay
MIX_COLUMNS = ("replay", "tokens")  # of points: laws read other ones only where they are among their inputs
EVEN = 0.5  # the probability with which the forecast itself is kept
SAME_SIZE = 1e-6  # relative difference up to which two sizes are one
MOST_ASKED = 200  # tables of losses that are kept for a fit


FitLike: TypeAlias = Forecaster | str | Path  # a fit, or its file


@dataclass(frozen=True)
class LossForecast:
    """Losses at n points: under ``""`` the forecast, under ``"_lo"`` and ``"_hi"`` its interval where there is one."""

    losses: Mapping[str, list[float | None]]
    findings: tuple[Finding, ...]


class LossBase:
    """What every loss of a plan says of its fit."""

    fit: Forecaster
    role: str

    @property
    def spec(self) -> str:
        """The law with its options, as ``--law`` takes it."""
        return str(self.fit.law.spec)

    @cached_property
    def n_runs(self) -> int:
        """Number of fitted runs."""
        data = self.fit.data
        return cached_stat(data, "n_runs", lambda: int(data["run"].nunique())) if "run" in data.columns else 0

    @property
    def knows_doubt(self) -> bool:
        """Whether there are enough runs to say how runs differ, or other studies do."""
        return self.n_runs >= MIN_RUNS or bool(self.fit.uses_studies)


@dataclass(frozen=True, eq=False)
class Loss(LossBase):
    """The target or the source loss of a plan.

    Parameters
    ----------
    fit
        A fitted law, or an average of several.
    role
        Its role in the plan: ``"target"``, ``"source"``, or the name of an eval or a benchmark.
    known
        Inputs that the scenario fixes, raw, such as n_params and ptpp.
    """

    fit: Forecaster
    role: str
    known: Mapping[str, float]

    @classmethod
    def build(cls, fit: FitLike, role: str, known: Mapping[str, float]) -> Loss:
        """Check that a fit can serve in this role, and bring it to the planned model.

        Raises
        ------
        UsageError
            If this is no fit, its eval has the other role, or its law reads what the plan does not have.
        """
        fit = fit_of(fit, role)
        if fit.role != role and is_dataclass(fit) and not isinstance(fit, type):
            fit = replace(fit, role=role)
        loss = cls(fit, role, known)
        if not loss.laws:
            raise UsageError(
                f"{role}: law {fit.law.spec} reads {', '.join(fit.law.inputs)}; a plan of a mix needs a law of tokens, "
                f"replay or both, such as ptpp-floor or dcpt-l3."
            )
        barrier = next((one for one in fit.findings if one.code == "replay-at-zero"), None)
        if barrier is not None:
            raise UsageError(
                f"{role}: no mix can be planned with this fit of {loss.spec}: {barrier.message} {barrier.advice_text()}"
            )
        missing = [
            name for name in loss.inputs if name not in (*known, "tokens", "replay") and not loss.may_be_open(name)
        ]
        if any(corpus_of(name) for name in missing):
            raise UsageError(
                f"{role}: law {loss.spec} reads the shares of k corpora, and this plan chooses one replay. `cptlaw "
                f"plan mix` finds all shares (cl.plan.mix in the library)."
            )
        for name in missing:
            example = " Give ptpp= (--ptpp), such as 279." if name == "ptpp" else f" Give {name}=."
            meaning = ", the pre-training tokens per parameter of the base model" if name == "ptpp" else ""
            raise UsageError(f"{role}: law {loss.spec} reads {name}{meaning}.{example}")
        return loss

    @cached_property
    def laws(self) -> tuple[AnyLaw, ...]:
        """The fitted law, or those that are averaged, as far as a mix is all that they need."""
        return tuple(one for one in self.fit.laws if not (one.needs_schedules or one.on_base_models))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Columns that the laws read."""
        return tuple(dict.fromkeys(name for one in self.laws for name in one.inputs))

    @property
    def n_params(self) -> float:
        """Parameters of the model."""
        return self.known["n_params"]

    def reads(self, name: str) -> bool:
        """Whether the loss depends on an input."""
        return name in self.inputs

    def may_be_open(self, name: str) -> bool:
        """Whether a point may leave an input open, which the fit then fills in."""
        return bool(self.fit.fills_in(name))

    @cached_property
    def fitted_tokens(self) -> tuple[float, float]:
        """Smallest and largest fitted tokens above 0, raw; for given parameters, whatever CPT may sensibly spend."""
        data = self.fit.data
        if data.empty or "tokens" not in data.columns:
            return GIVEN_ATPP[0] * self.n_params, GIVEN_ATPP[1] * self.n_params
        trained = levels_of(data, "tokens")
        trained = trained[trained > 0]
        return (float(trained[0]), float(trained[-1])) if len(trained) else (0.0, 0.0)

    @cached_property
    def fitted_replay(self) -> Array:
        """The fitted levels of replay, sorted; empty where the law does not read it, all for given parameters."""
        if not self.reads("replay"):
            return np.array([])
        data = self.fit.data
        return np.array([0.0, 1.0]) if data.empty else levels_of(data, "replay")

    def rate(self, points: Mapping[str, ArrayLike]) -> float | None:
        """Return the peak rate at one point, which the fit chooses where the plan leaves it open; None where unread."""
        if not self.reads("lr_peak") or (self.may_be_open("lr_peak") and "lr_peak" not in self.fit.data.columns):
            return None
        return float(self.fit.completed(self.frame(**self._columns_read(points)))["lr_peak"].iloc[0])

    def levels(self, name: str) -> Array:
        """Return the measured levels of an input, sorted, base models' included."""
        return measured_levels([self.fit], name)

    # -- what it says --------------------------------------------------------------------------------------------------

    def frame(self, replay: ArrayLike = 0.0, tokens: ArrayLike = 0.0, **more: ArrayLike) -> pd.DataFrame:
        """Return rows at this model; replay, tokens and other inputs are numbers or arrays that broadcast."""
        columns = self._columns(replay, tokens, **more)
        return pd.DataFrame(columns, index=range(len(next(iter(columns.values()), ()))))

    def _columns(self, replay: ArrayLike = 0.0, tokens: ArrayLike = 0.0, **more: ArrayLike) -> dict[str, Array]:
        """Return the same as columns by name, (n,) each."""
        given = {"replay": replay, "tokens": tokens, **more}
        chosen = dict(zip(given, np.broadcast_arrays(*map(np.atleast_1d, given.values())), strict=True))
        values = {name: chosen.get(name, self.known.get(name)) for name in (*self.inputs, *KEYS, LOSS)}
        size = chosen["replay"].size
        return {
            name: np.array(np.ravel(one) if np.ndim(one) else np.full(size, one), dtype=float)
            for name, one in values.items()
            if one is not None
        }

    def at(self, replay: ArrayLike, tokens: ArrayLike) -> Array:
        """Return losses at replays and tokens, in the shape to which these broadcast."""
        shape = np.broadcast_shapes(np.shape(replay), np.shape(tokens)) or (1,)
        return self.predict(self.frame(replay, tokens)).reshape(shape)

    def upper(self, points: Points, risk: float | None) -> Array:
        """Return the loss below which a measurement lies with a probability, at points, (n,); the forecast without."""
        columns = self._columns(**self._columns_read(points))
        risk = None if risk == EVEN else risk
        # A certificate asks for the first grid of a plan once more for every limit, and the plans beside an answer
        # search as it does.
        key = (risk, left_out(), *((name, column.tobytes()) for name, column in columns.items()))
        known: dict[object, Array] = cached_stat(self.fit, "asked", dict)
        result = known.get(key)
        if result is None:
            index = np.arange(len(next(iter(columns.values()))))
            frame = Columns(columns, index) if isinstance(self.fit, Fit) else pd.DataFrame(columns)
            with np.errstate(all="ignore"):
                forecast = self.predict(frame) if risk is None else np.exp(self.log_quantiles(frame, [risk])[0])
            if len(known) >= MOST_ASKED:
                known.clear()
            known[key] = result = np.where(np.isnan(forecast), np.inf, forecast)
        return result

    def _columns_read(self, points: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
        """Return the columns of points that the laws read, and those of the mix."""
        return {name: column for name, column in points.items() if name in self.inputs or name in MIX_COLUMNS}

    def predict(self, frame: AnyRows) -> Array:
        """Return the losses of rows of this base model, (n,)."""
        return np.asarray(self.fit.predict(frame), dtype=float)

    def log_quantiles(self, frame: AnyRows, probabilities: Sequence[float]) -> Array:
        """Return quantiles of the log of measured losses of this base model, shape (probabilities, n)."""
        return np.asarray(self.fit.log_quantiles(frame, probabilities), dtype=float)

    def half_width(self, points: Mapping[str, ArrayLike], coverage: float, measured: bool = True) -> Array:
        """Return the half-width of the central interval of the log loss at points, (n,)."""
        rows = self.frame(**self._columns_read(points))
        with np.errstate(all="ignore"):
            low, high = self.fit.log_quantiles(rows, [0.5, 0.5 + 0.5 * coverage], measured)
        return np.asarray(high - low, dtype=float)

    def half_width_of_change(self, points: Mapping[str, ArrayLike], half_width: Array, coverage: float) -> Array | None:
        """Return the half-width of the log of the loss over the base model's, (n,), given that of the log loss."""
        return self.fit.half_width_of_change(self.frame(**self._columns_read(points)), half_width, coverage)

    def forecast(self, points: Mapping[str, ArrayLike], interval: float | None) -> LossForecast:
        """Return losses with the fit's intervals, and findings about the points, each once.

        Parameters
        ----------
        points
            Columns such as replay and tokens: numbers, or (n,).
        interval
            Coverage of the intervals; ``None`` for none.
        """
        rows = self.frame(**self._columns_read(points))
        table = self.fit.forecast(rows, interval)
        result: list[Finding] = []
        for i, findings in enumerate(table["findings"]):
            # Of many points along a line, the ends say how far all of them lie outside the data.
            result += [item for item in findings if item.code != "extrapolation" or i in (0, len(table) - 1)]
        return LossForecast(losses_of(table), tuple(dict.fromkeys(result)))

    def slope_in_replay(self, replay: float, tokens: float) -> float:
        """Return dL/dreplay, nats per unit of replay, within [0, 1]; 0 for laws without it."""
        if not self.reads("replay"):
            return 0.0
        ends = np.clip([replay - REPLAY_STEP, replay + REPLAY_STEP], 0.0, 1.0)
        low, high = self.at(ends, tokens)
        return float((high - low) / (ends[1] - ends[0]))


def losses_of(table: pd.DataFrame) -> dict[str, list[float | None]]:
    """Return the losses of a forecast under ``""``, and their ends under ``"_lo"`` and ``"_hi"``; ``None`` if open."""
    columns = {end: table.get(column) for column, end in (("loss", ""), ("lo", "_lo"), ("hi", "_hi"))}
    result: dict[str, list[float | None]] = {}
    for end, values in columns.items():
        numbers = np.full(len(table), np.nan) if values is None else np.asarray(values, dtype=float)
        result[end] = [float(value) if np.isfinite(value) else None for value in numbers]
    return result


def measured_levels(fits: Iterable[Forecaster], name: str) -> Array:
    """Return the levels of an input that fits have seen, base models' included, sorted."""
    result = [levels_of(frame, name) for fit in fits for frame in (fit.data, fit.base) if name in frame.columns]
    return np.unique(np.concatenate(result)) if result else np.array([])


def tokens_in_reach(fits: Iterable[Forecaster], n_params: float | None) -> float:
    """Return the tokens up to which forecasts of longer runs were held to runs; infinity where fits have no tokens.

    `AHEAD` times the most that any run had, in all or per parameter of a model.
    """
    most = []
    for data in (fit.data for fit in fits):
        if data.empty and n_params is not None:  # parameters were given
            most.append(GIVEN_ATPP[1] * n_params)
        elif "tokens" in data.columns and not data.empty:
            most.append(float(data["tokens"].max()))
            if "n_params" in data.columns and n_params is not None:
                most.append(float((data["tokens"] / data["n_params"]).max()) * n_params)
    return AHEAD * max(most, default=np.inf)


def base_losses(fit: Forecaster, n_params: float | None) -> Array:
    """Return the losses of base models that came with a fit: of one size, of all where it is not known."""
    base = fit.base
    if n_params is not None and "n_params" in base.columns:
        base = base[np.isclose(base["n_params"].astype(float), n_params, rtol=SAME_SIZE, atol=0)]
    return np.asarray(base["loss"], dtype=float)


def as_fit(fit: object, name: str) -> Forecaster:
    """Return a fitted loss, read from its file where a path is given.

    Raises
    ------
    DataError
        If the file cannot be read.
    UsageError
        If this is neither, or is of a score.
    """
    if isinstance(fit, str | Path):
        fit = load_fit(fit)
    if is_score_fit(fit):  # the lowest of it would be the worst
        raise UsageError(
            f"{name}: this fit is of the score {fit.on!r}. Expected a fit of a loss; scores are limited, with scores= "
            f"(--score) and min_score= (--min) or max_drop= (--max-drop)."
        )
    if not isinstance(fit, Forecaster):
        raise UsageError(f"{name}={fit!r}: expected a fit, as cl.fit(...) or cl.load_fit(...) returns, or its file.")
    return fit


def fit_of(fit: FitLike, role: str) -> Forecaster:
    """Return a fitted loss for one side of a plan.

    Raises
    ------
    DataError, UsageError
        As for `as_fit`, or if its eval has the other role.
    """
    result = as_fit(fit, role)
    if result.role not in (role, "other"):
        raise UsageError(
            f"{role}: this fit is of the eval {result.on!r}, whose role is {result.role}. Expected a fit of the {role} "
            f"loss; are --target and --source exchanged?"
        )
    return result


def check_pair(losses: Iterable[Loss]) -> None:
    """Refuse two fits that count parameters in different ways.

    Raises
    ------
    DataError
        If one counts all parameters and the other leaves out embeddings.
    """
    # Embeddings are half of a small model: with two ways of counting the two losses would speak of models of different
    # sizes.
    kinds = [loss.fit.provenance.get("n_params_kind") for loss in losses]
    if len(kinds) == 2 and None not in kinds and kinds[0] != kinds[1]:
        raise DataError(
            f"the target fit counts {kinds[0]} parameters and the source fit {kinds[1]} ones. Expected the same count "
            f"in both; fit both on the same table."
        )
