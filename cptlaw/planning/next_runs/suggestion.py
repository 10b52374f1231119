"""What a suggestion of next runs is: the runs, and what they are expected to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from cptlaw.findings import Finding
from cptlaw.planning.result import Plan, number_text, quantity_text
from cptlaw.result import Line, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.runs.schema import MIX, corpus_of
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import CELLS, csv_text, write_to_edit


@dataclass(frozen=True)
class Cell:
    """A run to make next.

    Attributes
    ----------
    n_params, ptpp, replay, tokens
        What to train: raw parameters, pre-training tokens per parameter, source share, adaptation tokens. ``None``
        where neither the law nor the table knows the budget or the mix.
    flops
        Cost of this line: `run_flops` and `base_flops`.
    gain
        By how much this cell is expected to narrow the interval after those before it, nats per token.
    run_flops
        6 n_params tokens; of a mixture of experts 6 n_active tokens.
    base_flops
        What the base model adds: 0 where there is one, or where a line before has paid for it.
    checkpoints
        Tokens at which to measure the loss along the run; `tokens` is the last.
    mix
        Share of each of k corpora, by name; empty where the law reads no such mix.
    lr_peak
        Peak learning rate, where the runs had several and the law reads it; otherwise that of the asked point.
    n_active
        Parameters that a token trains, where they are known not to be all.
    """

    n_params: float
    ptpp: float | None
    replay: float | None
    tokens: float
    flops: float
    gain: float
    run_flops: float
    base_flops: float
    checkpoints: tuple[float, ...]
    mix: Mapping[str, float] = field(default_factory=dict)
    lr_peak: float | None = None
    n_active: float | None = None


@dataclass(frozen=True, repr=False)
class Suggestion(Plan):
    """The next runs, in the order of choice.

    Attributes
    ----------
    law, on
        What is forecast.
    at
        The forecast that matters: its inputs.
    loss
        The forecast there, in `unit`.
    cells
        The runs to make.
    base_gain
        By how much an evaluation of the asked base model, which trains nothing, is expected to narrow the interval,
        nats per token, where that is worth it: the cells are chosen after it.
    interval_before
        Lower and upper end of the interval of a measured loss at the point, as `Fit.forecast` gives it; ``None`` where
        the data bounds nothing.
    interval_after
        The interval to expect with the cells, if their losses come out as the fit forecasts. The gains
        add up to what its width has lost; where `interval_before` is open, the width is counted from a factor of e on
        that side of the forecast.
    interval
        Coverage of both.
    budget, flops
        FLOPs allowed, and used by the cells.
    findings
        The worst first.
    unit
        Of the losses.
    """

    law: str
    on: str
    at: Mapping[str, float]
    loss: float
    cells: tuple[Cell, ...]
    interval_before: tuple[float | None, float | None]
    interval_after: tuple[float | None, float | None]
    interval: float
    budget: float
    flops: float
    findings: tuple[Finding, ...] = ()
    unit: str = USUAL_UNIT
    base_gain: float = 0.0

    def table(self) -> pd.DataFrame:
        """Return the cells as a table: run, the cell's inputs, costs, gain."""
        names = ("n_params", "ptpp", "replay", "tokens", "flops", "gain", "run_flops", "base_flops")
        columns: dict[str, Sequence[object]] = {"run": [f"next-{place}" for place in range(1, len(self.cells) + 1)]}
        columns |= {name: [getattr(cell, name) for cell in self.cells] for name in names}
        if self._rates:
            columns["lr_peak"] = [cell.lr_peak for cell in self.cells]
        if any(cell.n_active for cell in self.cells):
            columns["n_active"] = [cell.n_active or cell.n_params for cell in self.cells]
        if self._corpora:
            del columns["replay"]
            columns |= {f"{MIX}{name}": [cell.mix[name] for cell in self.cells] for name in self._corpora}
        return pd.DataFrame(columns)

    @property
    def _corpora(self) -> tuple[str, ...]:
        """The k corpora of the cells; none where their mix is a replay."""
        return tuple(self.cells[0].mix) if self.cells else ()

    @property
    def _rates(self) -> bool:
        """Whether the peak rate of the cells is a choice."""
        return any(cell.lr_peak is not None for cell in self.cells)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the cells as CSV and return where they are: beside other cells, as NAME-2, unless `force` is given."""
        return write_to_edit(path, self.to_csv(), CELLS, force)

    def to_csv(self) -> str:
        """Return the cells as CSV: raw parameters, raw tokens, one run per line."""
        frame = self.table()
        for name in ("n_params", "tokens"):
            frame[name] = [f"{round(value)}" if value == round(value) else repr(value) for value in frame[name]]
        return csv_text(frame)

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        where = ", ".join(
            f"{name} {format_percent(value) if name == 'replay' or corpus_of(name) else quantity_text(value)}"
            for name, value in self.at.items()
        )
        return f"Next runs for the {self.on} loss at {where} ({self.law})"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        return [
            ("forecast", f"{number_text(self.loss)} {self.unit}"),
            ("interval before", _interval_text(self.interval_before)),
            *([("base model", f"one evaluation of it narrows that by {self.base_gain:.4f}")] if self.base_gain else []),
            ("interval after", f"{_interval_text(self.interval_after)} expected"),
            ("flops", f"{quantity_text(self.flops)} of {quantity_text(self.budget)}"),
            ("cells", str(len(self.cells))),
        ]

    @property
    def tables(self) -> list[Table]:
        """The runs to make."""
        rows = tuple(
            (
                format_quantity(cell.n_params),
                "-" if cell.ptpp is None else format_quantity(cell.ptpp),
                *(format_percent(cell.mix[name]) for name in self._corpora),
                *(() if self._corpora else ("-" if cell.replay is None else format_percent(cell.replay),)),
                format_quantity(cell.tokens),
                *((f"{cell.lr_peak:.3g}",) if self._rates else ()),
                format_quantity(cell.flops),
                format_quantity(cell.base_flops),
                f"{cell.gain:.4f}",
            )
            for cell in self.cells
        )
        note = "gain: how much narrower the interval becomes, after the lines above, in " + self.unit
        mix = self._corpora or ("replay",)
        rate = ("lr_peak",) if self._rates else ()
        return [Table(("n_params", "ptpp", *mix, "tokens", *rate, "flops", "of it base", "gain"), rows, "", note)]


def _interval_text(ends: tuple[float | None, float | None]) -> str:
    low, high = ("open" if end is None else f"{end:.4f}" for end in ends)
    return f"{low} to {high}"
