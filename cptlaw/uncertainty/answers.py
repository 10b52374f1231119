"""Forecasts and comparisons as answers: the frames that the library promises, which print like every other answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.plotting import PlotAccessor

from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.origin import origin
from cptlaw.result import Line, Result, Table, plain
from cptlaw.runs.dataframe import to_polars
from cptlaw.runs.metrics import unit_of
from cptlaw.uncertainty.baselines import BASELINES
from cptlaw.units import format_percent, format_quantity

if TYPE_CHECKING:
    from cptlaw.auto.auto_fit import AutoFit
    from cptlaw.fitting.fitted_law import Fit

ORACLE = "ptpp-oracle"  # fitted on the test rows: a bound, and never the best forecast
AVERAGE = "average"
DOUBT = "doubt_"
MOST_EXPLAINED = 3  # forecasts of scores of which the parts of the doubt are told
COUNTS = ("n_params", "tokens", "ptpp", "pt_tokens")
SCORES = {
    **dict.fromkeys(("huber_log", "rmse_log", "mae_rel", "mape_clip"), "{:.3g}".format),
    **dict.fromkeys(("intercept", "slope", "r2", "weight"), "{:.3f}".format),
    **dict.fromkeys(("difference", "difference_se"), "{:.2g}".format),
}
SHOWN_SCORES = ("law", "huber_log", "mae_rel", "slope", "n_fit", "n_test", "n_params_free", "difference",
                "difference_se", "weight")  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Forecast(Result):
    """Losses forecast at points.

    Attributes
    ----------
    frame
        One row per fit and point: inputs, loss, lo, hi, findings; with several fits also law, on and shares of doubt.
    """

    frame: ForecastFrame

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all rows, the worst first."""
        return by_severity(finding for row in self.frame["findings"] for finding in row)

    @property
    def all_scores(self) -> bool:
        """Whether all rows are scores, from 0 to 1, and none is a loss."""
        return "metric" in self.frame and bool(self.frame["metric"].notna().all())

    @property
    def title(self) -> str:
        """The answer where it is one loss, else how many there are."""
        bounds = interval_words(self.frame.interval)
        what = "score" if self.all_scores else "loss"
        if len(self.frame) > 1:
            ends = f"; lo to hi: {bounds} of a measured {what}" if bounds else ""
            return f"{len(self.frame)} forecasts, {'percent' if self.all_scores else unit_of(*self.frame.fits)}{ends}"
        row: dict[str, Any] = dict(self.frame.iloc[0])
        if self.all_scores:
            eval_ = f"{row['on']} {row['metric']}" if "on" in row else str(row["metric"])
            span = " to ".join(format_percent(row[end]) for end in ("lo", "hi") if end in row)
            ends = f", {bounds} of a measured score {span}" if bounds else ""
            return f"{eval_}: {format_percent(row['loss'])}{ends}"
        eval_ = f"{row['on']} loss" if "on" in row else "loss"
        ends = f", {bounds} of a measured loss {_ends(row)}" if bounds else ""
        return f"{eval_}: {loss_text(row['loss'])} {unit_of(*self.frame.fits)}{ends}"

    @property
    def lines(self) -> list[Line]:
        """Of averages, how much of the doubt is the law's form, its parameters and the noise."""
        found: list[Line] = []
        doubt = [name for name in self.frame.columns if str(name).startswith(DOUBT)]
        for row in (
            self.frame.to_dict("records") if "metric" in self.frame and len(self.frame) <= MOST_EXPLAINED else ()
        ):
            if doubt and isinstance(row["metric"], str):
                parts = [
                    f"{one.removeprefix(DOUBT)} {format_percent(row[one], 2)}" for one in doubt if row[one] == row[one]
                ]
                label = f"doubt of {row['on']}" if "on" in row else "doubt"
                found.append((label, f"{', '.join(parts)} of the variance"))
        averaged = self.frame[self.frame["law"] == AVERAGE] if doubt and "law" in self.frame else self.frame[:0]
        for row in averaged.to_dict("records"):
            parts = [
                f"{str(name).removeprefix(DOUBT)} {format_percent(row[name], 2)}"
                for name in doubt
                if row[name] == row[name]
            ]
            text = f"loss {loss_text(row['loss'])}; doubt: {', '.join(parts) or 'without end'}"
            found.append((f"average of {row['on']}", text))
        return found

    @property
    def details(self) -> list[Line]:
        """Where the intervals come from."""
        found: list[Line] = []
        by_method: dict[str, list[str]] = {}
        for fit in self.frame.fits:
            by_method.setdefault(fit.interval_method, []).append(f"{fit.law.spec} on {fit.on}")
        bounds = interval_words(self.frame.interval)
        for method, fits in by_method.items():
            found.append(("lo, hi", f"{bounds} of a measured loss, {', '.join(fits)}: {method}"))
        return found if bounds else []

    @property
    def tables(self) -> list[Table]:
        """The forecasts, one row each."""
        lead = [name for name in ("law", "on") if name in self.frame]
        others = [name for name in self.frame.columns if name not in (*lead, "findings")]
        shown = self.frame[[*lead, *(name for name in others if not str(name).startswith(DOUBT))]]
        formats = point_formats(shown)
        if self.all_scores:
            formats |= dict.fromkeys(("loss", "lo", "hi"), format_percent)
            shown = shown.drop(columns="metric").rename(columns={"loss": "score"})
            formats["score"] = format_percent
        return [Table.of(shown, formats)]

    def to_dict(self) -> dict[str, Any]:
        """Return points, interval and where the intervals come from."""
        methods = [
            {"law": fit.law.spec, "on": fit.on, "interval_method": fit.interval_method, **origin(fit)}
            for fit in self.frame.fits
        ]
        points = self.frame.to_dict("records")
        for point in points:  # a score says so by its own name too; lo and hi are its ends
            if isinstance(point.get("metric"), str):
                point["score"] = point["loss"]
        found: dict[str, Any] = plain({"points": points, "interval": self.frame.interval, "intervals": methods})
        return found


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Result):
    """Laws scored by their forecasts.

    Attributes
    ----------
    frame
        One row per law, best first, as `cptlaw.compare` gives it.
    """

    frame: pd.DataFrame

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands against laws, once with the laws that it concerns, the worst first."""
        of_law: dict[Finding, list[str]] = {}
        for row in self.frame.to_dict("records"):
            for finding in row["findings"]:
                of_law.setdefault(finding, []).append(str(row["law"]))
        return by_severity(
            Finding(found.severity, found.code, f"{', '.join(laws)}: {found.message}", found.advice)
            for found, laws in of_law.items()
        )

    @property
    def best(self) -> str:
        """The law that forecasts best: the first that is no bound."""
        names = [str(name) for name in self.frame["law"]]
        return next((name for name in names if name != ORACLE), names[0])

    @property
    def best_law(self) -> str | None:
        """The best that can be fitted: no bound, and no forecast without a law; None where none could be scored."""
        scored = self.frame[self.frame["mae_rel"].notna()]
        return next((str(name) for name in scored["law"] if name not in (ORACLE, *BASELINES)), None)

    @property
    def title(self) -> str:
        """Which law forecasts best."""
        row = self.frame[self.frame["law"] == self.best].iloc[0]
        if row["mae_rel"] != row["mae_rel"]:
            return "No law could be scored"
        missed = f"{format_percent(row['mae_rel'])} off on average on {row['n_test']} test points"
        return f"{self.best} forecasts best: {missed}"

    @property
    def lines(self) -> list[Line]:
        """What stands against each law, in short."""
        return [(str(row["law"]), row["diagnostics"]) for row in self.frame.to_dict("records") if row["diagnostics"]]

    @property
    def tables(self) -> list[Table]:
        """The scores."""
        note = "mae_rel: mean relative error; difference: how far huber_log is behind the best, and its standard error"
        return [Table.of(self.frame[[name for name in SHOWN_SCORES if name in self.frame]], SCORES, "", note)]

    def to_dict(self) -> dict[str, Any]:
        """Return the promised rows."""
        found: dict[str, Any] = plain({"rows": self.frame.to_dict("records")})
        return found


class Plot(PlotAccessor):
    """``frame.plot()`` draws the answer; with arguments, and as ``frame.plot.line``, it is pandas' own."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return the answer as a figure of Plotly, or what pandas draws where it is told what."""
        if arguments or options:
            return super().__call__(*arguments, **options)
        drawn: AnswerFrame = self._parent  # type: ignore[attr-defined]  # the frame, which the stubs do not know
        return drawn.answer.plot()


class AnswerFrame(pd.DataFrame):
    """A frame that prints as its answer does; what is selected from it is a frame like any other."""

    @property
    def plot(self) -> Plot:
        """``plot()`` draws the answer with Plotly; all else is what pandas has."""
        return Plot(self)

    def to_polars(self) -> Any:
        """Return the frame as one of polars; findings become lists of their codes."""
        return to_polars(self)

    @property
    def answer(self) -> Result:
        """The answer in title, lines, tables and findings."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.answer.summary()

    def _repr_html_(self) -> str:
        return self.answer._repr_html_()


class ForecastFrame(AnswerFrame):
    """Forecasts, one row each; `answer` has them as text, page and JSON."""

    _metadata = ["interval", "fits"]
    interval: float | None = None
    fits: tuple[Fit | AutoFit, ...] = ()

    @property
    def answer(self) -> Forecast:
        """The forecasts in title, lines, tables and findings."""
        return Forecast(self)

    @classmethod
    def of(cls, frame: pd.DataFrame, interval: float | None, fits: Iterable[Fit | AutoFit]) -> ForecastFrame:
        """Return forecasts that know the coverage of their intervals and the fits that they come from."""
        found = cls(frame)
        found.interval, found.fits = interval, tuple(fits)
        return found


class ComparisonFrame(AnswerFrame):
    """Scores of laws, best first; `answer` has them as text, page and JSON."""

    @property
    def answer(self) -> Comparison:
        """The scores in title, lines, tables and findings."""
        return Comparison(self)


def interval_words(interval: float | None) -> str:
    """Return the coverage of an interval in words, the same for all answers: ``90% interval``."""
    return "" if interval is None else f"{format_percent(interval)} interval"


def loss_text(value: float | None) -> str:
    """Return a loss, nats per token, with four decimals."""
    if value is None or value != value:
        return "-"
    return f"{value:.4f}" if value < 1e4 else f"{value:.3g}"


def point_formats(columns: Iterable[Any]) -> dict[str, Any]:
    """Return how the columns of a table of points are printed."""
    known: dict[str, Any] = dict.fromkeys(COUNTS, format_quantity)
    known |= {"replay": format_percent, "step": "{:.0f}".format} | dict.fromkeys(("loss", "lo", "hi"), loss_text)
    return {name: known[name] for name in columns if name in known}


def _ends(row: Mapping[str, Any]) -> str:
    ends = [row.get(name) for name in ("lo", "hi")]
    return "without end" if all(end is None or end != end for end in ends) else " to ".join(map(loss_text, ends))
