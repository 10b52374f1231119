"""Which runs could be next, and what they cost.

A cell is one run: a size, a pre-training budget, a mix, a length, and a peak rate where the table varies it. It gives
losses at checkpoints spread evenly over log tokens. Its cost is 6 n_params tokens, plus what its base still costs; of a
mixture of experts, which the asked model alone is known to be, the active parameters count:

- a base model on which the table has a run, or whose own loss it has, costs nothing;
- a new one costs 6 n_params (ptpp n_params): the whole trunk from scratch, once, however many cells use it;
- trunks branch: once a trunk of a size is paid for, its earlier stages are free, and a longer one costs the difference.

The short decay at the end of each branch is neglected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.fitting.solving.open_rates import at_size
from cptlaw.laws.calculus import Array
from cptlaw.planning.options import label, positive, share
from cptlaw.planning.result import FLOPS_PER_PARAMETER_TOKEN, flops_of
from cptlaw.planning.scenario import Numbers
from cptlaw.runs.schema import MIX, corpus_of

if TYPE_CHECKING:
    from cptlaw.fitting.law_fit import LawFit

SHORTER = (0.125, 0.25, 0.5, 1.0)  # of the longest runs in the table, in tokens per parameter
MOST_POINTS = 8
MOST_MIXES = 12  # of k corpora, to choose from
SAME = 1e-6
SIZES = "241M,517M"  # an example of levels
LEVEL = partial(positive, example=SIZES)
NEAR = 0.02  # an asked level this little above one that there is stands for that one, as 125K for 124,672


@dataclass(frozen=True)
class CandidateRun:
    """One run that could be made; `ptpp` and `replay` are ``None`` where neither law nor table knows them.

    `mix` has the shares of k corpora, by name; it is empty for laws that read no such mix. `lr_peak` is
    ``None`` where the rate is no choice: that of the asked point is meant. `n_active` are the parameters that a token
    trains, where they are not all.
    """

    n_params: float
    ptpp: float | None
    replay: float | None
    tokens: float
    checkpoints: tuple[float, ...]
    mix: Mapping[str, float] = field(default_factory=dict)
    lr_peak: float | None = None
    n_active: float | None = None

    @property
    def trained(self) -> float:
        """Parameters that a token trains."""
        return self.n_active or self.n_params

    @property
    def run_flops(self) -> float:
        """Compute of the run itself."""
        return flops_of(self.trained, self.tokens)


class Bases:
    """Base models there are.

    Parameters
    ----------
    owned
        Pairs (n_params, ptpp) that the table has.
    """

    def __init__(self, owned: Iterable[tuple[float, float]]) -> None:
        self._owned = tuple(owned)
        self._owns: dict[tuple[float, float], bool] = {}  # thousands of cells have a few base models

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Bases:
        """Collect the base models of a runs table, of all its rows."""
        if not {"n_params", "ptpp"} <= set(frame.columns):
            return cls(())
        pairs = frame[["n_params", "ptpp"]].dropna().drop_duplicates()
        return cls((float(n), float(p)) for n, p in pairs.itertuples(index=False))

    def lacked(self, candidate: CandidateRun) -> float:
        """Return the pre-training tokens per parameter of the base of a cell; 0 where there is that base."""
        size, budget = candidate.n_params, candidate.ptpp
        if budget is None:
            return 0.0
        if (size, budget) not in self._owns:
            self._owns[size, budget] = any(_same(size, n) and _same(budget, p) for n, p in self._owned)
        return 0.0 if self._owns[size, budget] else budget


class Offer:
    """Cells side by side, (c,), and what they cost.

    Attributes
    ----------
    cells
        The runs that could be made.
    runs
        Compute of each.
    costs
        The same with its base, where nothing was bought before.
    """

    def __init__(self, cells: Sequence[CandidateRun], bases: Bases) -> None:
        self.cells, self.bases = cells, bases
        self._sizes, self._trained = np.array([[cell.n_params, cell.trained] for cell in cells]).reshape(-1, 2).T
        self._lacked = np.array([bases.lacked(cell) for cell in cells])
        self.runs = np.array([cell.run_flops for cell in cells])
        self.costs = self.runs + self.base_prices({})

    def base_prices(self, trunks: Mapping[float, float], places: slice = slice(None)) -> Array:
        """Return what the bases of cells still cost, in FLOPs, once trunks were paid for: by size, their budget."""
        sizes, lacked = self._sizes[places], self._lacked[places]
        paid = np.zeros(len(sizes))
        for size, budget in trunks.items():
            paid[sizes == size] = budget
        prices: Array = FLOPS_PER_PARAMETER_TOKEN * self._trained[places] * (np.maximum(lacked - paid, 0.0) * sizes)
        return prices

    def take(self, places: Iterable[int]) -> Offer:
        """Return some of the cells."""
        return Offer([self.cells[place] for place in places], self.bases)


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=SAME)


def candidates(
    fit: LawFit,
    table: pd.DataFrame,
    asked: pd.Series,
    *,
    sizes: Numbers = None,
    ptpps: Numbers = None,
    replays: Numbers = None,
    tokens: Numbers = None,
    n_active: float | None = None,
) -> list[CandidateRun]:
    """List the runs that could be next.

    Parameters
    ----------
    table
        Rows of the table, for the budgets to which the law is blind.
    asked
        The forecast that matters.
    sizes, ptpps, replays, tokens
        Levels of one's own: numbers, or text such as ``"241M,517M"``. Where absent: the levels of the fitted rows and
        the asked one, with steps in between where they are far apart; no size above the asked one; lengths from an
        eighth of the longest runs, in tokens per parameter, up to the longest ones and up to the asked tokens. Mixes of
        k corpora are those of the fitted rows and the asked one, peak rates the asked one and the ends of what was run
        near the size.
    n_active
        Parameters that a token trains, of a model of the asked size.
    """
    data = fit.data
    reads = fit.law.inputs
    have_sizes = _levels(data, "n_params")
    own_sizes = _given(sizes, "sizes", LEVEL)
    size_levels = own_sizes or _size_levels(have_sizes, _asked_value(asked, "n_params"))
    ptpp_levels: Sequence[float | None] = _given(ptpps, "ptpps", LEVEL)
    if not ptpp_levels:
        wanted = _asked_value(asked, "ptpp")
        if "ptpp" in reads:
            ptpp_levels = _bridge(_levels(data, "ptpp"), wanted)
        else:  # to a law that is blind to it, any base will do: the cheapest that there is
            ptpp_levels = _levels(table, "ptpp")[:1] or ([wanted] if wanted is not None else [None])
    replay_levels: Sequence[float | None] = _given(replays, "replays", share, "10%,25%")
    if not replay_levels:
        wanted = _asked_value(asked, "replay")
        result = set(_levels(data, "replay")) | ({wanted} if wanted is not None else set())
        replay_levels = sorted(result) if result else [None]
    mixes = _mixes(fit, asked)
    own_tokens = _given(tokens, "tokens", LEVEL)
    spans = _spans(data)
    chosen_cells = []
    for size in size_levels:
        active = n_active if n_active and abs(size / float(asked["n_params"]) - 1.0) <= NEAR else None
        rates = _rates(fit, size, _asked_value(asked, "lr_peak"))
        for length in own_tokens or _lengths(spans, size, _asked_value(asked, "tokens")):
            points = _checkpoints(spans, size, length)
            chosen_cells += [
                CandidateRun(size, budget, replay, length, points, mix, rate, active)
                for budget in ptpp_levels
                for replay in replay_levels
                for mix in mixes
                for rate in rates
            ]
    return chosen_cells


def rows_of(cells: Sequence[CandidateRun], asked: pd.Series, inputs: Sequence[str]) -> pd.DataFrame:
    """Return the checkpoints of cells as rows with a law's inputs; what no cell chooses is as in the asked point."""
    points = [len(cell.checkpoints) for cell in cells]
    columns: dict[str, Array] = {
        name: np.repeat([getattr(cell, name) for cell in cells], points)
        for name in ("n_params", "ptpp", "replay", "lr_peak")
        if name in inputs and (name != "lr_peak" or cells[0].lr_peak is not None)
    }
    for name in cells[0].mix:
        columns[MIX + name] = np.repeat([cell.mix[name] for cell in cells], points)
    columns["tokens"] = np.concatenate([cell.checkpoints for cell in cells])
    frame = pd.DataFrame(columns).astype(float)
    for name in asked.index:
        if name not in frame.columns and name not in ("n_params", "ptpp", "replay"):
            frame[name] = asked[name]
    return frame


@dataclass(frozen=True)
class _Spans:
    """How runs of the table are measured: first and last point in tokens per parameter, and points per run."""

    first: float
    last: float
    points: int


def _spans(data: pd.DataFrame) -> _Spans:
    data = data[data["tokens"] > 0]  # a log may measure the base model in every run
    ratio = data["tokens"] / data["n_params"] if "n_params" in data.columns else data["tokens"]
    by_run = ratio.groupby(data["run"].astype(str))
    first, last = float(by_run.min().median()), float(by_run.max().max())
    return _Spans(first, last, int(np.clip(by_run.count().median(), 1, MOST_POINTS)))


def _lengths(spans: _Spans, size: float, asked: float | None) -> list[float]:
    """Return lengths of runs in tokens: shorter than the longest of the table, as long, and as long as asked."""
    lengths = {_rounded(spans.last * part * size) for part in SHORTER if spans.last * part >= spans.first}
    longest = spans.last * size
    if asked is not None and asked > longest:
        lengths |= {_rounded(value) for value in (math.sqrt(asked * longest), asked)}
    elif asked is not None:  # runs of a larger model, shorter in tokens per parameter than any of the table
        lengths |= {_rounded(part * asked) for part in SHORTER}
    return sorted(lengths)


def _checkpoints(spans: _Spans, size: float, length: float) -> tuple[float, ...]:
    """Return the tokens at which a run is measured: as densely in log tokens as the runs of the table.

    Points earlier than those of the table are left out: there the law was not fitted.
    """
    first = min(spans.first * size, length)
    if spans.points < 2 or spans.last <= spans.first:
        return (length,)
    count = 1 + round((spans.points - 1) * math.log(length / first) / math.log(spans.last / spans.first))
    count = int(np.clip(count, 1, MOST_POINTS))
    return tuple(float(value) for value in np.geomspace(first, length, count)) if count > 1 else (length,)


def _size_levels(have: Sequence[float], asked: float | None) -> list[float]:
    levels = list(have) if asked is None else [size for size in _bridge(have, asked) if size <= asked * (1 + SAME)]
    # A base model costs as the square of its size: a smaller proxy buys budgets that are else out of reach.
    return sorted({*levels, *([float(f"{min(levels) / 2:.2g}")] if levels else [])})


def _bridge(have: Sequence[float], asked: float | None) -> list[float]:
    """Return the levels there are, the asked one, and even log steps between it and the nearest, where far apart."""
    if asked is None or any(-SAME <= asked / level - 1.0 <= NEAR for level in have):
        return list(have)
    if not have:
        return [asked]
    nearest = min(have, key=lambda level: abs(math.log(level / asked)))
    gap = abs(math.log(asked / nearest))
    steps = 0 if gap < math.log(2) else (1 if gap < math.log(4) else 2)
    between = [float(f"{value:.2g}") for value in np.geomspace(nearest, asked, steps + 2)[1:-1]]
    return sorted({*have, *between, asked})


def _mixes(fit: LawFit, asked: pd.Series) -> list[dict[str, float]]:
    """Return mixes of k corpora to choose from: the asked one, and those of the fitted runs, far apart if many."""
    names = [name for name in fit.law.inputs if corpus_of(name)]
    if not names:
        return [{}]
    trained = fit.data.loc[fit.data["tokens"] > 0, names].drop_duplicates().to_numpy(dtype=float)
    values = np.array([[asked[name] for name in names]], dtype=float)
    for _ in range(MOST_MIXES - 1):
        away = np.abs(trained[:, None, :] - values[None, :, :]).sum(axis=2).min(axis=1)
        if not len(away) or away.max() < NEAR:
            break
        values = np.vstack([values, trained[int(away.argmax())]])
    corpora = [str(corpus_of(name)) for name in names]
    return [dict(zip(corpora, map(float, shares), strict=True)) for shares in values]


def _rates(fit: LawFit, size: float, asked: float | None) -> Sequence[float | None]:
    """Return peak rates to choose from: the asked one, and the lowest and the highest that were run near a size."""
    if asked is None or "lr_peak" not in fit.law.inputs or len(_levels(fit.data, "lr_peak")) < 2:
        return [None]
    (run,) = at_size(fit.data, "lr_peak", np.array([size]))
    return [asked, *(rate for rate in np.unique(run)[[0, -1]].tolist() if abs(math.log(rate / asked)) > NEAR)]


def _levels(frame: pd.DataFrame, name: str) -> list[float]:
    if name not in frame.columns:
        return []
    return [float(value) for value in np.unique(frame[name].dropna().to_numpy(dtype=float))]


def _asked_value(asked: pd.Series, name: str) -> float | None:
    return float(asked[name]) if name in asked.index and not pd.isna(asked[name]) else None


def _rounded(tokens: float) -> float:
    return float(f"{tokens:.3g}")


def _given(values: Numbers, name: str, read: Callable[[object, str], float], example: str = SIZES) -> list[float]:
    """Read levels of one's own: a number, text with commas, or a sequence; an empty list where none were given."""
    if values is None:
        return []
    items = values.split(",") if isinstance(values, str) else [values] if isinstance(values, int | float) else values
    read_items = [read(item, name) for item in items]
    if not read_items:
        raise UsageError(f"{label(name)}: no level was given. Expected a list such as {example}.")
    return sorted(set(read_items))
