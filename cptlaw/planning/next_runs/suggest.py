"""The next experiments: which runs shrink the doubt about one forecast most for a given compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting import fit as fit_law
from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws import Law, law
from cptlaw.planning.next_runs.cells import Bases, Candidate, candidates, rows_of
from cptlaw.planning.next_runs.doubt import Doubt, doubt, errors
from cptlaw.planning.next_runs.greedy import Choice, Sample, choose
from cptlaw.planning.options import positive, probability
from cptlaw.planning.result import Plan, number_text, quantity_text
from cptlaw.result import Line, Table
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.points import point
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import CELLS, csv_text, write_text

MOST_CELLS = 24
INPUTS = ("n_params", "tokens", "replay", "ptpp")
LITTLE = 0.05  # of the width: less than this gained is said
NOISY = 0.5  # share of the squared half-width from measuring one loss, from which it is said


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
        6 n_params tokens.
    base_flops
        What the base model adds: 0 where there is one, or where a line before has paid for it.
    checkpoints
        Tokens at which to measure the loss along the run; `tokens` is the last.
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
        The forecast there, nats per token.
    cells
        The runs to make.
    interval_before
        Lower and upper end of the interval of a measured loss at the point, as `Fit.forecast` gives it; ``None`` where
        the data bounds nothing.
    interval_after
        The interval to expect with the cells, if their losses come out as the fit forecasts. The gains of the cells
        add up to what its width has lost; where `interval_before` is open, the width is counted from a factor of e on
        that side of the forecast.
    interval
        Coverage of both.
    budget, flops
        FLOPs allowed, and used by the cells.
    findings
        The worst first.
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

    def table(self) -> pd.DataFrame:
        """Return the cells as a table: run, the cell's inputs, costs, gain."""
        names = ("n_params", "ptpp", "replay", "tokens", "flops", "gain", "run_flops", "base_flops")
        columns: dict[str, Any] = {"run": [f"next-{place}" for place in range(1, len(self.cells) + 1)]}
        columns |= {name: [getattr(cell, name) for cell in self.cells] for name in names}
        return pd.DataFrame(columns)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the cells as CSV, in one step or not at all. Only `force` overwrites another kind of file."""
        return write_text(path, self.to_csv(), CELLS, force=force)

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
            f"{name} {format_percent(value) if name == 'replay' else quantity_text(value)}"
            for name, value in self.at.items()
        )
        return f"Next runs for the {self.on} loss at {where} ({self.law})"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        return [
            ("forecast", f"{number_text(self.loss)} nats per token"),
            ("interval before", _interval_text(self.interval_before)),
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
                "-" if cell.replay is None else format_percent(cell.replay),
                format_quantity(cell.tokens),
                format_quantity(cell.flops),
                format_quantity(cell.base_flops),
                f"{cell.gain:.4f}",
            )
            for cell in self.cells
        )
        note = "gain: how much narrower the interval becomes, after the lines above, in nats per token"
        return [Table(("n_params", "ptpp", "replay", "tokens", "flops", "of it base", "gain"), rows, "", note)]


def suggest(
    law_name: str | Law,
    runs: Any,
    on: str,
    where: str | None = None,
    *,
    at: Any,
    budget: Any,
    n: int | None = None,
    sizes: Any = None,
    ptpps: Any = None,
    replays: Any = None,
    tokens: Any = None,
    interval: Any = 0.9,
    delta: float | None = None,
    starts: int | None = None,
    seed: int = 0,
    fix: Mapping[str, Any] | Iterable[str] | None = None,
    tie: Iterable[Any] | None = None,
    bound: Mapping[str, Any] | Iterable[str] | None = None,
    prior: Mapping[str, Any] | Iterable[str] | None = None,
    restraint: str = "none",
) -> Suggestion:
    """Choose the runs that shrink the interval of one forecast most for a compute budget.

    Parameters
    ----------
    law_name, runs, on, where, delta, starts, seed, fix, tie, bound, prior, restraint
        What is fitted, as for `cptlaw.fit`.
    at
        The forecast that matters: text such as ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"``, a mapping, a row,
        or a plan, whose optimum is meant.
    budget
        FLOPs for runs and new base models together, such as ``"1e20"``.
    n
        Most cells; up to 24 where absent.
    sizes, ptpps, replays, tokens
        Levels to choose from, such as ``"241M,517M"``; sensible ones where absent, see `docs/suggest.md`.
    interval
        Coverage of the interval that is to shrink.

    Returns
    -------
    Suggestion
        Without cells, and with a finding that says why, where the budget is too small for any.

    Raises
    ------
    UsageError, DataError, FitError
        If an argument or the data is unusable.

    Notes
    -----
    The doubt is a sample of laws that the data cannot tell apart, spread along the profile of the forecast; a cell is
    worth what a regression of the forecast on its losses explains over that sample, given the noise of its points,
    which share their run's error. Expected, not promised: the losses may come out otherwise.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (15, 31) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9"
    >>> ask = "n_params=125K,tokens=1M,replay=25%,ptpp=279"
    >>> found = cl.suggest("ptpp-floor", runs, on="target", where=rows, at=ask, budget="1e13", n=3, starts=16)
    >>> max(cell.ptpp for cell in found.cells)
    279.0
    """
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    flops, coverage = positive(budget, "budget", "1e20"), probability(interval, "interval")
    if n is not None and (isinstance(n, bool) or int(n) != n or n < 1):
        raise UsageError(f"n (-n): {n!r} is not a number of cells. Expected 1 or more.")
    asked = _point(at)
    if law_name == "auto":
        # The doubt of an average is mostly that of the law which counts most; inputs of one level need not be said.
        leading = fit_law("auto", table, on, where, seed=seed).members[0].fit
        for name in leading.law.inputs:
            if name not in asked.columns and name in leading.data.columns and leading.data[name].nunique() == 1:
                asked = asked.assign(**{name: leading.data[name].iloc[0]})
        _check(leading.law, asked)
        found = candidates(leading, table.frame, asked.iloc[0], sizes, ptpps, replays, tokens)
        return question(leading, asked, coverage).answer(found, Bases.of(table.frame), flops, n or MOST_CELLS)
    chosen = law(law_name)
    _check(chosen, asked)
    options: dict[str, Any] = {"delta": delta, "starts": starts, "seed": seed}
    options |= {"fix": fix, "tie": tie, "bound": bound, "prior": prior, "restraint": restraint}
    fit = fit_law(chosen, table, on, where, **options)
    found = candidates(fit, table.frame, asked.iloc[0], sizes, ptpps, replays, tokens)
    return question(fit, asked, coverage).answer(found, Bases.of(table.frame), flops, n or MOST_CELLS)


@dataclass(frozen=True, eq=False)
class Question:
    """A forecast and its doubt, for which next runs can be chosen again and again.

    Parameters
    ----------
    fit
        The fit of what there is.
    asked
        One row: the forecast that matters.
    interval
        Coverage of the interval.
    before
        The row as `Fit.forecast` returned it.
    doubt
        The doubt about it.
    """

    fit: Fit
    asked: pd.DataFrame
    interval: float
    before: pd.Series
    doubt: Doubt

    def answer(self, found: list[Candidate], bases: Bases, budget: float, most: int = MOST_CELLS) -> Suggestion:
        """Choose among candidates, for a budget in FLOPs."""
        return _answer(self, found, bases, budget, most)

    def share_after(self, cells: list[Candidate]) -> float:
        """Return which share of the doubt about the fitted loss is expected to be left after some runs."""
        if not cells:
            return 1.0
        sample = before = self.sample(cells)
        for place in range(len(cells)):
            sample = sample.measured(place)
        return float(np.sqrt(sample.variance / max(before.variance, 1e-300)))

    def sample(self, found: list[Candidate]) -> Sample:
        """Return the doubt as forecasts and losses of candidates over the sample of laws."""
        fit, members = self.fit, self.doubt.members
        losses = np.log(fit.law.predict_many(members, rows_of(found, self.asked.iloc[0], fit.law.inputs), fit.role))
        forecasts = np.log(fit.law.predict_many(members, self.asked, fit.role)[:, 0])
        usable = np.isfinite(losses).all(axis=1) & np.isfinite(forecasts)
        noise = self.doubt.scatter / self.doubt.half_width
        return Sample.of(forecasts[usable], losses[usable], found, errors(fit), noise)


def question(fit: Fit, asked: pd.DataFrame, interval: float) -> Question:
    """Forecast a point and sample the doubt about it."""
    before = fit.forecast(asked, interval).iloc[0]
    return Question(fit, asked, interval, before, doubt(fit, asked, before, interval))


def _answer(asking: Question, found: list[Candidate], bases: Bases, budget: float, most: int) -> Suggestion:
    fit, asked, before, open_doubt = asking.fit, asking.asked, asking.before, asking.doubt
    sample = asking.sample(found)
    chosen = choose(sample, found, bases, budget, most)
    shares = [float(np.sqrt(step.variance / max(sample.variance, 1e-300))) for step in chosen]
    widths = [open_doubt.width(), *(open_doubt.width(share) for share in shares)]
    cells = tuple(_cell(found[step.candidate], step, widths[i] - widths[i + 1]) for i, step in enumerate(chosen))
    ends = (float(before["lo"]), float(before["hi"]))
    said = _findings(sample, found, bases, budget, open_doubt, shares, widths)
    said += _below_sizes(fit, cells)
    after = open_doubt.interval(shares[-1]) if shares else ends
    return Suggestion(
        law=fit.law.spec,
        on=fit.on,
        at={str(name): float(value) for name, value in asked.iloc[0].items() if isinstance(value, int | float)},
        loss=float(before["loss"]),
        cells=cells,
        interval_before=_known(ends),
        interval_after=_known(after),
        interval=asking.interval,
        budget=budget,
        flops=float(sum(cell.flops for cell in cells)),
        findings=by_severity([*before["findings"], *said]),
    )


def _point(at: Any) -> pd.DataFrame:
    """Read the forecast that matters as one row."""
    if isinstance(at, str):
        return point(at)
    if isinstance(at, Plan):
        values = {name: getattr(at, name, None) for name in INPUTS}
        if values["n_params"] is None or values["tokens"] is None:
            raise UsageError("at: the plan has no optimum, so there is no forecast to sharpen. Give a point instead.")
        at = values
    elif isinstance(at, pd.DataFrame):
        if len(at) != 1:
            raise UsageError(f"at: {len(at)} rows were given. Expected one point.")
        at = at.iloc[0].to_dict()
    elif isinstance(at, pd.Series):
        at = at.to_dict()
    if not isinstance(at, Mapping):
        raise UsageError(f"at (--at): {at!r} is no point. Expected n_params=8.1B,tokens=72B,replay=34%,ptpp=279.")
    given = {str(name): value for name, value in at.items() if value is not None and str(name) != "loss"}
    read = point(",".join(f"{name}={value}" for name, value in given.items() if not _is_text(value)))
    for name, value in given.items():
        if _is_text(value):
            read[name] = value
    return read


def _is_text(value: Any) -> bool:
    """Say whether a value is a word, such as the name of a domain, and no quantity."""
    return isinstance(value, str) and not any(character.isdigit() for character in value)


def _check(chosen: Law, asked: pd.DataFrame) -> None:
    if chosen.on_base_models or "tokens" not in chosen.inputs:
        raise UsageError(
            f"law {chosen.name} does not describe runs of continual pre-training, so no run would sharpen it. "
            f"Expected a law that reads tokens; `cptlaw laws` lists them."
        )
    missing = [name for name in chosen.inputs if name not in asked.columns]
    if missing:
        raise UsageError(
            f"at (--at): law {chosen.name} needs {', '.join(missing)} too. "
            f"Expected {','.join(f'{name}=..' for name in chosen.inputs)}."
        )


def _cell(candidate: Candidate, step: Choice, gain: float) -> Cell:
    return Cell(
        n_params=candidate.n_params,
        ptpp=candidate.ptpp,
        replay=candidate.replay,
        tokens=candidate.tokens,
        flops=step.run_flops + step.base_flops,
        gain=max(gain, 0.0),
        run_flops=step.run_flops,
        base_flops=step.base_flops,
        checkpoints=candidate.checkpoints,
    )


def _findings(
    sample: Sample,
    found: list[Candidate],
    bases: Bases,
    budget: float,
    doubt_now: Doubt,
    shares: list[float],
    widths: list[float],
) -> list[Finding]:
    """Say what keeps the interval from shrinking more."""
    said = []
    costs = np.array([cell.run_flops + bases.price(cell, {}) for cell in found])
    alone = np.sqrt(np.maximum(1.0 - sample.reductions(np.arange(len(found))) / max(sample.variance, 1e-300), 0.0))
    if not shares and costs.min() > budget:
        cheapest = int(costs.argmin())
        said.append(
            Finding(
                "warning",
                "budget-too-small",
                f"no run costs {quantity_text(budget)} FLOPs or less; the cheapest is {_name(found[cheapest])} at "
                f"{quantity_text(costs[cheapest])}.",
                f"Raise the budget to {quantity_text(costs[cheapest])}, or give shorter runs or smaller sizes with "
                f"--tokens and --sizes.",
            )
        )
    elif widths[0] - widths[-1] < LITTLE * widths[0]:
        said.append(
            Finding(
                "info",
                "little-to-gain",
                f"within {quantity_text(budget)} FLOPs the interval narrows by "
                f"{format_percent((widths[0] - widths[-1]) / widths[0], 2)}.",
                "The candidates tell little about this forecast: it needs other runs, or more compute.",
            )
        )
    share = shares[-1] if shares else 1.0
    dear = np.flatnonzero((costs > budget) & (alone < 0.7 * share))
    if len(dear):
        best = int(dear[costs[dear].argmin()])
        low, high = doubt_now.interval(float(alone[best]))
        said.append(
            Finding(
                "info",
                "beyond-budget",
                f"{_name(found[best])} alone would narrow the interval to {low:.4f} to {high:.4f}, for "
                f"{quantity_text(costs[best])} FLOPs.",
                "Ask again with that budget to see what else it would buy.",
            )
        )
    half = doubt_now.half_width * share
    noise_share = doubt_now.scatter**2 / (doubt_now.scatter**2 + half**2)
    if noise_share > NOISY:
        said.append(
            Finding(
                "info",
                "noise-binds",
                f"{format_percent(noise_share, 2)} of the squared width that is left is the noise of measuring one "
                f"loss, which no further run removes.",
                "Average over seeds or a larger validation set to measure better.",
            )
        )
    for bounded, side in zip(doubt_now.bounded, ("below", "above"), strict=True):
        if not bounded:
            said.append(
                Finding(
                    "info",
                    "open-interval",
                    f"the interval is open {side}; gains count from a factor of e {side} the forecast.",
                    "Take the order of the cells as the answer, and ask again once they are measured.",
                )
            )
    return said


def _below_sizes(fit: Fit, cells: tuple[Cell, ...]) -> list[Finding]:
    """Say that cells are smaller than any fitted model."""
    if "n_params" not in fit.data.columns:
        return []
    smallest = float(fit.data["n_params"].min())
    below = [cell for cell in cells if cell.n_params < smallest * 0.999]
    if not below:
        return []
    return [
        Finding(
            "info",
            "below-sizes",
            f"{len(below)} of {len(cells)} cells are smaller than any fitted model ({format_quantity(smallest)}): "
            f"cheap, but what they teach rests on the law's form in size.",
            "Keep to sizes of your own with --sizes.",
        )
    ]


def _name(cell: Candidate) -> str:
    parts = [f"n_params {format_quantity(cell.n_params)}"]
    if cell.ptpp is not None:
        parts.append(f"ptpp {format_quantity(cell.ptpp)}")
    if cell.replay is not None:
        parts.append(f"replay {format_percent(cell.replay)}")
    return f"a run at {', '.join(parts)}, tokens {format_quantity(cell.tokens)}"


def _known(ends: tuple[float, float]) -> tuple[float | None, float | None]:
    low, high = (end if np.isfinite(end) else None for end in ends)
    return low, high


def _interval_text(ends: tuple[float | None, float | None]) -> str:
    low, high = ("open" if end is None else f"{end:.4f}" for end in ends)
    return f"{low} to {high}"
