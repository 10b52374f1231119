"""Forecasts as answers: the frame that the library promises, which prints like every other answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.saved import Saved
from cptlaw.fitting.solving.origin import origin
from cptlaw.result import Line, Result, Table, plain
from cptlaw.runs.dataframe import to_polars
from cptlaw.runs.metrics import unit_of
from cptlaw.units import decimals, format_percent, format_quantity

if TYPE_CHECKING:
    import polars

DOUBT = "doubt_"
SPAN = ("loss", "lo", "hi")
UNBOUNDED = "unbounded"  # code of the finding
OPEN = "wider than a factor of 2"
MOST_EXPLAINED = 3  # forecasts of scores of which the parts of the doubt are told
COUNTS = ("n_params", "tokens", "samples", "ptpp", "pt_tokens")


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
        loss, *shown = span_texts(row)
        span = OPEN if unbounded(row) else "without end" if {*shown} == {"-"} else " to ".join(shown)
        ends = f", {bounds} of a measured loss {span}" if bounds else ""
        return f"{eval_}: {loss} {unit_of(*self.frame.fits)}{ends}"

    @property
    def lines(self) -> list[Line]:
        """Of scores, how much of the doubt is the loss, the link, the form and the items."""
        result: list[Line] = []
        doubt = [name for name in self.frame.columns if str(name).startswith(DOUBT)]
        for row in (
            self.frame.to_dict("records") if "metric" in self.frame and len(self.frame) <= MOST_EXPLAINED else ()
        ):
            if doubt and isinstance(row["metric"], str):
                parts = [
                    f"{one.removeprefix(DOUBT)} {format_percent(row[one], 2)}" for one in doubt if row[one] == row[one]
                ]
                label = f"doubt of {row['on']}" if "on" in row else "doubt"
                result.append((label, f"{', '.join(parts)} of the variance"))
        return result

    @property
    def details(self) -> list[Line]:
        """Where the intervals come from."""
        result: list[Line] = []
        by_method: dict[str, list[str]] = {}
        for fit in self.frame.fits:
            by_method.setdefault(fit.interval_method, []).append(f"{fit.law.spec} on {fit.on}")
        bounds = interval_words(self.frame.interval)
        for method, fits in by_method.items():
            result.append(("lo, hi", f"{bounds} of a measured loss, {', '.join(fits)}: {method}"))
        return result if bounds else []

    @property
    def tables(self) -> list[Table]:
        """The forecasts, one row each."""
        lead = [name for name in ("law", "on") if name in self.frame]
        others = [name for name in self.frame.columns if name not in (*lead, "findings")]
        shown = self.frame[[*lead, *(name for name in others if not str(name).startswith(DOUBT))]]
        formats = point_formats(shown)
        if self.all_scores:
            formats |= dict.fromkeys(("score", "lo", "hi"), format_percent)
            return [Table.of(shown.drop(columns="metric").rename(columns={"loss": "score"}), formats)]
        texts = zip(*map(span_texts, self.frame.to_dict("records")), strict=True)
        written = {name: list(column) for name, column in zip(SPAN, texts, strict=True) if name in shown}
        return [Table.of(shown.assign(**written), formats)]

    def to_dict(self) -> dict[str, object]:
        """Return points, interval and where the intervals come from."""
        methods = [
            {"law": fit.law.spec, "on": fit.on, "interval_method": fit.interval_method, **origin(fit)}
            for fit in self.frame.fits
        ]
        points = self.frame.to_dict("records")
        for point in points:  # a score says so by its own name too; lo and hi are its ends
            if isinstance(point.get("metric"), str):
                point["score"] = point["loss"]
        result: dict[str, object] = plain({"points": points, "interval": self.frame.interval, "intervals": methods})
        return result


class AnswerFrame(pd.DataFrame):
    """A frame that prints as its answer does; what is selected from it is a frame like any other."""

    def to_polars(self) -> polars.DataFrame:
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
    fits: tuple[Saved, ...] = ()

    @property
    def answer(self) -> Forecast:
        """The forecasts in title, lines, tables and findings."""
        return Forecast(self)

    @classmethod
    def of(cls, frame: pd.DataFrame, interval: float | None, fits: Iterable[Saved]) -> ForecastFrame:
        """Return forecasts that know the coverage of their intervals and the fits that they come from."""
        result = cls(frame)
        result.interval, result.fits = interval, tuple(fits)
        return result


def interval_words(interval: float | None) -> str:
    """Return the coverage of an interval in words, the same for all answers: ``90% interval``."""
    return "" if interval is None else f"{format_percent(interval)} interval"


def loss_text(value: float | None) -> str:
    """Return a loss, nats per token, with four decimals."""
    if value is None or value != value:
        return "-"
    return f"{value:.4f}" if value < 1e4 else f"{value:.3g}"


def point_formats(columns: Iterable[Hashable]) -> dict[str, Callable[..., str]]:
    """Return how the columns of a table of points are printed."""
    known: dict[str, Callable[..., str]] = dict.fromkeys(COUNTS, format_quantity)
    known |= {"replay": format_percent, "step": "{:.0f}".format}
    return {str(name): known[str(name)] for name in columns if name in known}


def unbounded(row: Mapping[Any, Any]) -> bool:
    """Say whether a forecast is not bounded within a factor of 2: its findings do."""
    return any(finding.code == UNBOUNDED for finding in row["findings"])


def span_texts(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return a forecast loss and the ends of its interval, to no more digits than the interval leaves the loss."""
    ends = [row.get(name) for name in SPAN[1:]]
    places = decimals(row["loss"], [end for end in ends if end is not None and math.isfinite(end)])
    if places is not None and not unbounded(row):
        return tuple("-" if end is None or end != end else f"{end:.{places}f}" for end in (row["loss"], *ends))
    loss = f"{row['loss']:.2g}" if unbounded(row) else loss_text(row["loss"])
    return loss, *map(loss_text, ends)
