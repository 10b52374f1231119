"""Losses of one eval against a plain surface over the inputs: rows, runs and sizes that lie off all others.

The surface is a robust regression of the log loss on the logs of the inputs. It is no law, but what it misses by tens
of per cent is no law's shortcoming either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.findings import Finding, Remedy, Severity
from cptlaw.runs.convert import row_codes
from cptlaw.runs.schema import COLUMNS, mix_columns
from cptlaw.runs.within import SEEDS
from cptlaw.units import format_quantity

Floats = npt.NDArray[np.float64]

LEAST_RUNS = 6
STRANGE = 0.15  # log loss by which a whole run lies off the others
STRANGE_ALONE = 0.28  # the same for runs on one corpus alone, beside others; bits for nats are .37
STRANGE_MIX = 0.7  # the same for mixes of k corpora: no plain surface follows what a first share teaches
STRANGE_ROW = 0.5  # the same for one row of a run: a row at twice the loss was not measured on the same model
FAR_ABOVE = 1.6  # log loss of one row above its base model, than which no forgetting went farther; 1.4 was measured
TIMES = 6.0  # and by how many standard deviations of the usual scatter
ROUNDS = 20
BITS = 1.0 / math.log(2.0)
# Factor by which a mix-up of units multiplies a loss.
UNITS = {"in bits instead of nats": BITS, "in nats instead of bits": 1.0 / BITS}
MANY = 0.2  # share of the runs: fewer slipped one by one, more are a pattern
INPUTS = ("n_params", "tokens", "ptpp", "replay", "lr_peak")
KINDS = ("domain", "lr_schedule", "method", "tokenizer", "vocab_added", "lora_rank", "merge_weight")
MOST_LEVELS = 8
SIZE_RISES = 0.03  # log loss, by which a larger model may be worse: rates are rarely tuned for each
# Log loss, by which larger base models may lie above and below others beyond what budgets, and size too, can do.
BASES_RISE, BASES_FALL = 0.1, 0.05  # .06 and -.01 were measured
MANY_OFF = 0.25  # share of the pairs of base models of which no two have one budget
STEEPEST_BUDGET = 0.2  # d log loss / d log budget; .26 was measured, where size lowers losses by less than it can
SIZE_OFF = 0.18  # log loss, by which one size lies off the line through the others
STEEPEST = 0.42  # d log loss / d log size; .34 is published for the part of the loss that size can lower at all
LEAST_SLOPES = 2  # between sizes and between budgets, from which their medians are compared
LEAST_GAINED = 0.02  # -d log loss / d log size of models that learned its corpus; .067 was measured at least
LEAST_RATIO = 0.4  # log ratio of sizes, from which that is asked
SURE_PAIRS = 4  # pairs of rows that rise with size, all of them, from which rising is no error
FOLDS = 10
NEIGHBOURS, MOST_COMPARED = 3, 400
SPREAD = 0.05  # standard deviation of log losses, below which inputs leave little to explain
ROUGH = 0.5  # squared steps along curves, as a share of those between any two rows: losses at random come to 1
SURE_RUNS = 16
FAR_OFF, MOST_FAR = 9.0, 0.1  # six standard deviations, in medians of what rows lie away; the share of rows beyond
EXPLAINED = 0.1  # share of the variance
FIRST_SHARE = 0.02
MOST_NAMED = 3  # runs that a finding names


class LossSurface:
    """A robust regression of the log losses of one eval on its inputs, and what lies off it.

    Parameters
    ----------
    frame
        Rows of one eval of adapted models.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.loss = np.log(frame["loss"].to_numpy(dtype=float))
        codes, names = pd.factorize(frame["run"])
        self.run, self.names = codes, names.astype(str)

    @cached_property
    def design(self) -> Floats:
        """The inputs as columns that are centred and scaled, with a parabola where there are levels for one."""
        columns = [np.ones(len(self.frame))]
        for column in self.inputs.values():
            # A parabola in logarithms follows any of the laws closely enough to see a run that lies 15 % off it.
            columns += [column, column**2] if len(np.unique(column)) > 2 else [column]
        return np.column_stack([*columns, *self.single_corpus, *self.kinds])

    def standardised_input(self, name: str) -> Floats | None:
        """Return one input as standard scores, (n,); None where a value is missing or it never varies."""
        if name not in self.frame.columns:
            return None
        values = self.frame[name].to_numpy(dtype=float)
        if not np.all(np.isfinite(values)) or np.ptp(values) == 0:
            return None
        # Effects of sizes and tokens are powers; a replay of zero has no logarithm.
        values = values if name == "replay" else np.log(np.maximum(values, 1e-300))
        standardised: Floats = (values - values.mean()) / values.std()
        return standardised

    @cached_property
    def inputs(self) -> dict[str, Floats]:
        """The inputs of laws that are known and vary, each as standard scores, (n,)."""
        # Steps are what curves without tokens run along.
        names = [name if name != "tokens" or name in self.frame.columns else "step" for name in INPUTS]
        known = {name: self.standardised_input(name) for name in names}
        return {name: column for name, column in known.items() if column is not None}

    @cached_property
    def single_corpus(self) -> list[Floats]:
        """Dummies of replay 0 and of replay 1, (n,): no parabola in replay follows losses to one corpus alone."""
        if "replay" not in self.frame.columns:
            return []
        share = self.frame["replay"].to_numpy(dtype=float)
        ends: list[Floats] = [np.where(share == end, 1.0, 0.0) for end in (0.0, 1.0)]
        return [end for end in ends if 0 < end.sum() < len(end)]

    @cached_property
    def kinds(self) -> list[Floats]:
        """Dummies of the levels of text columns, and log shares of the corpora of a mix, (n,) each."""
        result = []
        for name in (name for name in KINDS if name in self.frame.columns):
            codes = pd.factorize(self.frame[name].astype(str), sort=True)[0]
            if 1 < codes.max() + 1 <= MOST_LEVELS:
                result += [(codes == code).astype(float) for code in range(1, codes.max() + 1)]
        for name in mix_columns(self.frame.columns)[:-1]:
            # In logs, for the first per cents of a corpus lower its loss most.
            share = np.log(self.frame[name].to_numpy(dtype=float) + FIRST_SHARE)
            result += [share - share.mean()] if np.all(np.isfinite(share)) and np.ptp(share) > 0 else []
        return result

    @cached_property
    def residual(self) -> Floats:
        """Log losses less the surface, (n,)."""
        return robust_residuals(self.design, self.loss)[0]

    @property
    def unexplained(self) -> float:
        """Standard deviation of log losses that the surface leaves; of all that there is where it takes every row."""
        left = len(self.loss) - self.design.shape[1]
        return float(np.sqrt(np.sum(self.residual**2) / left)) if left > 0 else float(self.loss.std())

    @property
    def determined(self) -> bool:
        """Whether there are runs enough for a surface."""
        return bool(len(self.names) >= max(LEAST_RUNS, 2 * int(self.design.shape[1])))

    @cached_property
    def coordinates(self) -> Floats:
        """All columns by which losses may differ, the user's own among them, as standard scores, (n, k); k may be 0."""
        pretrain = self.standardised_input("lr_pretrain")
        result = [*self.inputs.values(), *([] if pretrain is None else [pretrain]), *self.single_corpus, *self.kinds]
        for name in map(str, self.frame.columns):
            column = self.frame[name]
            if name in COLUMNS and name not in ("step", "seed", "warmup", "lr_end", "batch_tokens", "samples"):
                continue
            codes = column if pd.api.types.is_numeric_dtype(column) else pd.Series(pd.factorize(column.astype(str))[0])
            # In order of size, whatever the column counts; a name of every run tells nothing.
            rank = codes.rank(method="dense").to_numpy(dtype=float)
            if 1 < len(np.unique(rank)) <= max(2, len(self.names) / 2) and np.isfinite(rank).all():
                result.append((rank - rank.mean()) / rank.std())
        return np.column_stack([np.zeros((len(self.frame), 0)), *result])

    def explained_by_neighbours(self) -> float:
        """Return the share of the variance that the nearest rows of other runs explain."""
        chosen = np.unique(np.linspace(0, len(self.loss) - 1, MOST_COMPARED).round().astype(int))
        at, loss, run = self.coordinates[chosen], self.loss[chosen], self.run[chosen]
        distance = ((at[:, None, :] - at[None, :, :]) ** 2).sum(axis=2)
        distance[run[:, None] == run[None, :]] = np.inf
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :NEIGHBOURS]
        return 1.0 - float(np.mean((loss - loss[nearest].mean(axis=1)) ** 2)) / max(float(loss.var()), 1e-300)

    def explained_share(self, design: Floats) -> float:
        """Return the R2 of a regression on a design in runs that it leaves out, by folds of runs."""
        scaled = design / np.maximum(np.linalg.norm(design, axis=0), 1e-300)
        fold = self.run % min(FOLDS, len(self.names))
        missed, spread = 0.0, 0.0
        for number in range(fold.max() + 1):
            out = fold == number
            kept, losses = scaled[~out], self.loss[~out]
            solved = np.linalg.lstsq(kept.T @ kept + 1e-3 * np.eye(kept.shape[1]), kept.T @ losses, rcond=1e-9)[0]
            missed += float(np.sum((self.loss[out] - scaled[out] @ solved) ** 2))
            spread += float(np.sum((self.loss[out] - losses.mean()) ** 2))
        return 1.0 - missed / max(spread, 1e-300)


def robust_residuals(design: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return residuals and coefficients of a regression by least absolute deviations, by reweighted least squares."""
    norm = np.maximum(np.linalg.norm(design, axis=0), 1e-300)
    scaled = design / norm
    weight, residual, solved = np.ones(len(values)), values, np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        # By the normal equations: the columns are few, centred and scaled, and rows may be a million.
        weighted = scaled.T * weight
        solved = np.linalg.lstsq(weighted @ scaled, weighted @ values, rcond=1e-12)[0]
        residual = values - scaled @ solved
        # Least absolute deviations: a run that was mixed up must not bend the curve that shows it.
        weight = 1.0 / np.maximum(np.abs(residual), 1e-4)
    return residual, solved / norm


def outlier_runs(surface: LossSurface) -> Iterator[Finding]:
    """Say which runs lie off all others as a whole, or that they lie in two heaps."""
    if len(surface.loss) < max(LEAST_RUNS, 2 * surface.design.shape[1]):
        return
    residual, run, names = surface.residual, surface.run, surface.names
    by_run: Floats = np.asarray(pd.Series(residual).groupby(run).median(), dtype=np.float64)
    for what, off, of in (("rows", residual, np.arange(len(run))), ("runs", by_run, run)):
        if heaps := _two_heaps(surface, what, off, of):
            yield heaps
            return
    if not surface.determined:
        return
    away = by_run - np.median(by_run)
    # The median absolute deviation as a standard deviation of normal errors: the strange run has no part in it.
    usual = 1.4826 * float(np.median(np.abs(away)))
    alone = np.any([np.zeros(len(run)), *surface.single_corpus], axis=0)
    limit = np.where(np.bincount(run, alone) > 0, STRANGE_ALONE, STRANGE)
    limit = np.maximum(limit, STRANGE_MIX if mix_columns(surface.frame.columns) else 0.0)
    strange = np.flatnonzero((np.abs(away) > limit) & (np.abs(away) > TIMES * usual))
    if not 0 < len(strange) <= MANY * len(by_run):
        return
    worst = strange[np.argsort(-np.abs(away[strange]))]
    runs, gap = names[worst].tolist(), float(away[worst[0]])
    lie = f"{len(runs)} runs, such as {join_names(map(repr, runs), MOST_NAMED)}, lie up to {_percent_off(gap)}"
    lie = f"run {runs[0]!r} lie {_percent_off(gap)}" if len(runs) == 1 else lie
    yield _mix_up(f"the losses of {lie} what the others lead one to expect{_as_if(gap, 3.0 * usual)}.", runs, gap=gap)


def _two_heaps(surface: LossSurface, what: str, off: Floats, of: npt.NDArray[np.intp]) -> Finding | None:
    """Return that runs, or rows, lie in two heaps with nothing between them and no column that parts them alike.

    Parameters
    ----------
    off
        How far each of them lies off the surface, (k,).
    of
        To which of them each row belongs, (n,).
    """
    order, least = np.sort(off), math.ceil(MANY * len(off))
    gaps = np.diff(order)[least - 1 : len(order) - least]
    if len(order) < LEAST_RUNS or mix_columns(surface.frame.columns):
        return None
    high = off > order[least - 1 + int(gaps.argmax())]
    low_end, high_end = (float(np.median(off[high == side])) for side in (False, True))
    usual = 1.4826 * float(np.median(np.abs(off - np.where(high, high_end, low_end))))
    if gaps.max() < max(STRANGE / 2.0, 3.0 * usual):
        return None
    for column in surface.coordinates.T:
        levels = len(np.unique(column))
        if levels <= len(surface.names) / 2 and len(np.unique(np.column_stack([column, high[of]]), axis=0)) == levels:
            return None
    fewer = high if high.mean() <= 0.5 else ~high
    gap = (high_end - low_end) * (1.0 if fewer is high else -1.0)
    runs = surface.names[np.unique(surface.run[fewer[of]])].tolist()
    text = f"{fewer.sum()} of {len(off)} {what}, of {join_names(map(repr, runs), MOST_NAMED)}, lie {_percent_off(gap)} "
    return _mix_up(
        f"{text}what the others lead one to expect, and none between{_as_if(gap, 3.0 * usual)}.", runs, gap=gap
    )


def _as_if(gap: float, near: float) -> str:
    """Return which mix-up of units sets losses so far apart, in words."""
    how = next((how for how, by in UNITS.items() if abs(gap - math.log(by)) < max(0.05, near)), None)
    return f", as if {how}" if how else ""


def _mix_up(text: str, runs: list[str], **data: float) -> Finding:
    which = " and ".join(f'run != "{run}"' for run in runs[:MOST_NAMED])
    return Finding(
        "warning",
        "suspected-mix-up",
        text,
        "They diverged, or another tokenizer, unit, eval or model slipped in: look at these runs, or leave them out.",
        data={"run": runs[0], "runs": runs, **data},
        remedy=Remedy("where", which) if len(runs) <= MOST_NAMED else None,
    )


def outlier_rows(surface: LossSurface, name: str, base: Floats) -> Iterator[Finding]:
    """Say which single rows lie off their own run or all rows, or else far above their base model.

    Parameters
    ----------
    surface
        Of the rows of adapted models.
    name
        Of their eval.
    base
        The loss of the base model of each row, NaN where it was not measured, (n,).
    """
    rows, change = _off_the_others(surface), surface.loss - np.log(base)
    if rows:
        values = ", ".join(f"{value:.4g}" for value in surface.frame.loc[rows[:3], "loss"])
        where = f"row {rows[0]} has" if len(rows) == 1 else f"rows {join_names(map(str, rows), 5)} have"
        text = f"{where} a loss of {values}{' ..' if len(rows) > 3 else ''}, more than {math.expm1(STRANGE_ROW):.0%} "
        text += "off what the rows around lead one to expect."
    else:  # of however few
        far = np.flatnonzero(np.nan_to_num(change) > FAR_ABOVE)
        if not 0 < len(far) <= max(1, 0.05 * len(change)):
            return
        rows = surface.frame.index[far].tolist()
        text = f"row {rows[0]} has a {name!r} loss of {math.exp(surface.loss[far[0]]):.4g}, "
        text += f"{math.exp(change[far[0]]):.1f} times that of its base model."
    advice = "Look whether this row was measured on the same model and eval; correct it, or leave it out."
    yield Finding("warning", "outlier-rows", text, advice, data={"rows": rows})


def _off_the_others(surface: LossSurface) -> list[int]:
    """Return which single rows lie off their own run, or off all rows where runs have one each; none where many do."""
    order = np.lexsort((_along(surface.frame), surface.run))
    loss, run = surface.loss[order], surface.run[order]
    inner = np.zeros(len(loss), dtype=bool)
    if len(loss) > 2:
        inner[1:-1] = (run[:-2] == run[1:-1]) & (run[2:] == run[1:-1])
    off = np.zeros(len(loss))
    # Against the two neighbours on a curve: a loss that jumps and stays has moved for a reason, such as its rate.
    below, above = loss[1:-1] - np.maximum(loss[:-2], loss[2:]), loss[1:-1] - np.minimum(loss[:-2], loss[2:])
    off[1:-1] = np.where(below > 0, below, np.minimum(above, 0.0)) * inner[1:-1]
    if len(loss) >= max(LEAST_RUNS, 2 * surface.design.shape[1]) and not mix_columns(surface.frame.columns):
        residual = surface.residual[order]
        usual = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
        counts = np.bincount(run)
        # The first and the last row of a curve have one neighbour.
        alone = (counts[run] < 3) | ((~inner) & (residual > 0))
        off = np.where(alone & (np.abs(residual) > TIMES * usual), residual, off)
    elif LEAST_RUNS <= len(loss) == len(surface.names):  # too few for a surface: one far beyond all others
        below, last = np.delete(loss, loss.argmax()), int(loss.argmax())
        gap = float(loss[last] - below.max())
        off[last] = gap if gap > max(2.0 * STRANGE_ROW, float(np.ptp(below))) else off[last]
    strange = order[np.abs(off) > STRANGE_ROW]
    if not 0 < len(strange) <= max(2, 0.05 * len(loss)):
        return []
    rows: list[int] = surface.frame.index[np.sort(strange)].tolist()
    return rows


def unexplained_losses(surface: LossSurface) -> Iterator[Finding]:
    """Say that no input explains the losses: runs that are left out are forecast no better than by the mean."""
    spread = surface.unexplained
    rough = _roughness(surface)
    if spread < SPREAD or (rough is not None and rough < ROUGH):  # curves are smooth
        return
    enough = len(surface.names) >= LEAST_RUNS
    if rough is None and not (enough and surface.inputs):  # what tells these runs apart is not known
        return
    best = _most_explained(surface) if enough else -math.inf
    if best > EXPLAINED:
        return
    away = np.abs(surface.loss - np.median(surface.loss))
    far = away > FAR_OFF * np.median(away)
    if 0 < far.mean() < MOST_FAR and enough and _most_explained(LossSurface(surface.frame[~far])) > EXPLAINED:
        values = ", ".join(f"{loss:.3g}" for loss in np.sort(np.exp(surface.loss[far]))[::-1][:4])
        yield Finding(
            "warning",
            "unexplained-losses",
            f"a few losses lie so far from the others that inputs explain none of the rest beside them: {values}.",
            "Look whether these runs collapsed, or are of another unit; leave them out.",
            data={"explained": best, "spread": spread},
        )
        return
    sure = rough is not None or len(surface.names) >= SURE_RUNS
    yield Finding(
        "error" if sure else "warning",
        "unexplained-losses",
        f"losses differ by {spread:.0%} (standard deviation), and neither size, tokens, budget, rate nor mix explain "
        f"any of it: runs that are left out are forecast no better than by the mean of the others.",
        "Look whether losses stand in the rows of their runs, and whether a column that sets runs apart is missing.",
        data={"explained": None if not enough else best, "spread": spread},
    )


def _most_explained(surface: LossSurface) -> float:
    """Return the largest share of the log losses of runs left out that the inputs explain, by any of some designs."""
    one, replay = np.ones(len(surface.loss)), surface.inputs.get("replay")
    share = [] if replay is None else [replay, replay**2]
    plain, of_mix = (one, *surface.inputs.values()), (one, *share, *surface.single_corpus)
    designs = (np.column_stack(plain), np.column_stack(of_mix), surface.design)
    return float(max(*map(surface.explained_share, designs), surface.explained_by_neighbours()))


def _roughness(surface: LossSurface) -> float | None:
    """Return how far neighbours on curves differ, as a share of how far any two rows do: 0 smooth, 1 at random."""
    order = np.lexsort((_along(surface.frame), surface.run))
    same = np.diff(surface.run[order]) == 0
    if same.sum() < LEAST_RUNS:
        return None
    return float(np.mean(np.diff(surface.loss[order])[same] ** 2)) / max(2.0 * float(surface.loss.var()), 1e-300)


def sizes_out_of_order(rows: pd.DataFrame, surface: LossSurface, learned: bool) -> Iterator[Finding]:
    """Say that larger models are no better, or that one size lies off the line through the others.

    Parameters
    ----------
    rows
        Those of one eval, base models among them.
    surface
        Of its adapted models, by which sizes are compared where no two have runs that are alike else.
    learned
        Whether adapted models alone have learned the corpus of the eval, and base models tell nothing of it.
    """
    if "n_params" not in rows.columns or rows["n_params"].isna().any():
        return
    levels, code = sizes_of(rows)
    if not 2 <= len(levels) <= MOST_LEVELS:
        return
    adapted = (rows["tokens"] != 0).to_numpy() if "tokens" in rows.columns else np.ones(len(rows), dtype=bool)
    of_adapted = _between_pairs(rows[adapted], code[adapted], len(levels))
    # Size lowers a corpus that base models have not learned by another factor in them: the two are never joined.
    kinds = ~adapted if learned and of_adapted is None else np.ones(len(rows), dtype=bool)
    effect = _between_pairs(rows[kinds], code[kinds], len(levels))
    of_bases = of_adapted is None and effect is not None
    if effect is None and len(sizes_of(surface.frame)[0]) == len(levels):
        effect = _between_all(surface, len(levels))
    found = None if effect is None else _odd_size(*effect, levels)
    if found is None and learned and of_adapted is not None:
        found = _little_gained(of_adapted[0], levels)
    if found is None:
        return
    # Where no two adapted rows differ in size alone, what else a size differs in may set it apart; and base models
    # that have not learned a corpus say nothing for sure.
    unsure = of_adapted is None and (found.code == "size-out-of-line" or (learned and of_bases))
    yield replace(found, severity="warning") if unsure else found


def sizes_of(rows: pd.DataFrame) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return the sizes, (k,), and which one each row has, (n,): those that print alike are one, counted twice."""
    sizes, code = np.unique(rows["n_params"].to_numpy(dtype=float), return_inverse=True)
    printed, _ = pd.factorize(np.array([format_quantity(size) for size in sizes.tolist()], dtype=object))
    return sizes[np.unique(printed, return_index=True)[1]], printed[code]


def _between_pairs(rows: pd.DataFrame, code: npt.NDArray[np.intp], n: int) -> tuple[Floats, float] | None:
    """Return the effect of each size on the log loss and its error, from pairs of rows that differ in size alone."""
    names = [name for name in ("ptpp", "replay", *KINDS, *mix_columns(rows.columns)) if name in rows]
    alike = row_codes(rows[names])
    bins = [np.zeros(len(rows))]
    if "tokens" in rows.columns:
        # Ladders have the same tokens for each parameter, other designs the same tokens.
        tokens, n_params = (rows[name].to_numpy(dtype=float) for name in ("tokens", "n_params"))
        with np.errstate(divide="ignore"):
            bins = [np.round(5.0 * np.log(amount)) for amount in (tokens / n_params, tokens)]
    cells = pd.DataFrame({"loss": np.log(rows["loss"].to_numpy(dtype=float)), "size": code})
    by_bin = [_gaps(cells, [alike, place], n) for place in bins]
    gaps = max(by_bin, key=lambda some: sum(map(len, some.values())))
    if not gaps:
        return None
    # The effects of the sizes are what best explains the median gap of each pair of sizes, by its number of gaps.
    weights = np.sqrt([len(one) for one in gaps.values()])
    moves = weights * [float(np.median(one)) for one in gaps.values()]
    matrix = np.zeros((len(gaps), n))
    for row, (smaller, larger) in enumerate(gaps):
        matrix[row, [smaller, larger]] = -weights[row], weights[row]
    if np.linalg.matrix_rank(matrix) < n - 1:
        return None
    off = np.concatenate([one - np.median(one) for one in gaps.values()])
    spread = max(1.4826 * float(np.median(np.abs(off))), 2 * SEEDS)
    error = TIMES * spread / float(weights.min())
    every = np.concatenate([*gaps.values()])
    if len(every) >= SURE_PAIRS and every.min() > 0:  # differences that all rise may differ, and are no error
        error = min(error, float(every.min()))
    return np.linalg.lstsq(matrix, moves, rcond=None)[0], error


def _gaps(cells: pd.DataFrame, keys: Sequence[object], n: int) -> dict[tuple[int, int], Floats]:
    """Return the differences in log loss between two sizes in rows that are alike in all keys, where there are any."""
    # The column by itself: to group a table by arrays, pandas writes each of them out as text first.
    wide = cells["loss"].groupby([*keys, cells["size"]], dropna=False).mean().unstack("size")
    values = wide.reindex(columns=range(n)).to_numpy(dtype=float)
    moved = {(i, j): values[:, j] - values[:, i] for i in range(n) for j in range(i + 1, n)}
    return {pair: known for pair, one in moved.items() if len(known := one[np.isfinite(one)])}


def _between_all(surface: LossSurface, n: int) -> tuple[Floats, float] | None:
    """Return the effects of `_between_pairs` from all rows, by a regression on the other inputs."""
    code = sizes_of(surface.frame)[1]
    # Straight lines: where an input goes with size, a parabola would put any jump of size into it, and back.
    columns = [column for name, column in surface.inputs.items() if name in ("tokens", "ptpp")]
    mix = [*([surface.inputs["replay"]] if "replay" in surface.inputs else []), *surface.single_corpus, *surface.kinds]
    columns += mix
    fewest = int(np.bincount(code).min())
    if fewest < 2 or len(code) < 2 * (len(columns) + n):
        return None
    dummies = (code[:, None] == np.arange(n)).astype(float)
    # A share of replay that one size alone has may be what sets that size apart.
    together = np.column_stack([dummies, *mix])
    if np.linalg.matrix_rank(together) < n - 1 + np.linalg.matrix_rank(np.column_stack([np.ones(len(code)), *mix])):
        return None
    residual, solved = robust_residuals(np.column_stack([dummies, *columns]), surface.loss)
    usual = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    return solved[:n], TIMES * usual / math.sqrt(fewest)


def _odd_size(effect: Floats, error: float, levels: Floats) -> Finding | None:
    """Return what is odd about the effect of each size on the log loss, (k,), given its error."""
    size = np.log(levels)
    steps = np.diff(effect)
    beyond = -steps - STEEPEST * np.diff(size)  # what falls faster than size can make it
    line = [_robust_line_at(np.delete(size, i), np.delete(effect, i), size[i]) for i in range(len(size))]
    off = effect - np.array(line) if len(size) > 2 else np.zeros(len(size))
    i = int(np.abs(off).argmax())
    rises = bool(steps.max() > max(SIZE_OFF, error))
    if (steps > max(SIZE_RISES, error) / len(steps)).all() and effect[-1] - effect[0] > max(SIZE_RISES, error):
        return Finding(
            "error",
            "rising-with-size",
            f"larger models have higher losses: those of {format_quantity(float(levels[-1]))} parameters lie "
            f"{math.expm1(float(effect[-1] - effect[0])):.0%} above those of {format_quantity(float(levels[0]))} where "
            "all else is alike.",
            "Look whether n_params stands in the rows of its own runs, and whether all losses have one unit.",
            data={"rise": float(effect[-1] - effect[0])},
        )
    if beyond.max() > max(SIZE_OFF, error) and not rises:
        return _falls_too_fast("error", steps, beyond, levels)
    if abs(off[i]) > max(SIZE_OFF, error) or (abs(off[i]) > SIZE_OFF and rises):
        return Finding(
            "error" if rises else "warning",
            "size-out-of-line",
            f"the losses of {format_quantity(float(levels[i]))} parameters lie {_percent_off(float(off[i]))} what the "
            f"other sizes lead one to expect{_as_if(float(off[i]), 0.08)}.",
            "Look whether these runs were measured alike: unit, tokenizer, eval, rate; or leave this size out.",
            data={"n_params": float(levels[i]), "gap": float(off[i])},
            remedy=Remedy("where", f"n_params != {levels[i]:.10g}"),
        )
    if beyond.max() > 0:
        return _falls_too_fast("warning", steps, beyond, levels)
    return None


def _falls_too_fast(severity: Severity, steps: Floats, beyond: Floats, levels: Floats) -> Finding:
    i = int(np.argmax(beyond))
    return Finding(
        severity,
        "size-out-of-line",
        f"from {format_quantity(float(levels[i]))} to {format_quantity(float(levels[i + 1]))} parameters the loss "
        f"falls by {-math.expm1(float(steps[i])):.0%}, faster than size has ever been seen to lower one.",
        "Look whether both sizes were measured alike: unit, tokenizer, eval.",
        data={"n_params": float(levels[i]), "gap": float(-steps[i])},
    )


def _little_gained(effect: Floats, levels: Floats) -> Finding | None:
    """Return that the largest model learned a corpus as the smallest did, where all else is alike."""
    size, moved = float(np.log(levels[-1] / levels[0])), float(effect[-1] - effect[0])
    if moved < -LEAST_GAINED * size or size < LEAST_RATIO:
        return None
    return Finding(
        "warning",
        "little-from-size",
        f"models of {format_quantity(float(levels[-1]))} parameters have losses {_percent_off(moved)} those of "
        f"{format_quantity(float(levels[0]))} where all else is alike: size has always been seen to lower losses more.",
        "Look whether all sizes were measured alike, and whether the rate is right for each.",
        data={"gap": moved},
    )


def bases_out_of_line(base: pd.DataFrame) -> Iterator[Finding]:
    """Say that base models differ by more than their sizes and budgets can make, on a corpus that none learned too."""
    if not {"n_params", "ptpp"} <= set(base.columns) or base["n_params"].nunique() < 2:
        return
    kinds = [name for name in KINDS if name in base.columns and base[name].notna().any()]
    group = base.groupby(kinds, observed=True, dropna=False).ngroup() if kinds else np.zeros(len(base))
    cells = base.assign(kind=group, loss=np.log(base["loss"])).groupby(["n_params", "ptpp", "kind"])["loss"].mean()
    sizes, budgets, kind = (np.asarray(cells.index.get_level_values(i)) for i in range(3))
    i, j = np.triu_indices(len(cells), 1)  # the smaller size first
    i, j = (one[(kind[i] == kind[j]) & (sizes[i] < sizes[j])] for one in (i, j))
    size, budget = np.log(sizes[j] / sizes[i]), np.log(budgets[j] / budgets[i])
    moved = cells.to_numpy()[j] - cells.to_numpy()[i]
    rises = moved - STEEPEST_BUDGET * np.maximum(-budget, 0.0) > BASES_RISE
    falls = moved + STEEPEST * size + STEEPEST_BUDGET * np.maximum(budget, 0.0) < -BASES_FALL
    off = rises | falls
    if not off.any() or (off.mean() < MANY_OFF and not off[budget == 0].any()):
        return
    more = int(rises.sum()) >= int(falls.sum())
    by = float(np.median(moved[rises if more else falls]))
    yield Finding(
        "warning",
        "rising-with-size" if more else "size-out-of-line",
        f"larger base models have losses {_percent_off(by)} those of smaller ones: more than size and budget can do.",
        "Look whether n_params stands in the rows of its own runs, and whether all losses have one unit.",
        data={"gap": by},
    )


def size_beside_budget(base: pd.DataFrame) -> Iterator[Finding]:
    """Say that size lowers the losses of base models by less than pre-training tokens do, of which it brings more."""
    if not {"n_params", "ptpp"} <= set(base.columns):
        return
    levels, code = sizes_of(base)
    cells = np.log(base.groupby([levels[code], "ptpp"])["loss"].mean()).unstack("ptpp")
    sizes, budgets = (
        np.concatenate([np.zeros(0), *(_along_index(line.dropna()) for _, line in table.items())])
        for table in (cells, cells.T)
    )
    if min(len(sizes), len(budgets)) < LEAST_SLOPES or np.median(sizes) < np.median(budgets):
        return
    of_size, of_budget = (math.expm1(math.log(2.0) * float(np.median(one))) for one in (sizes, budgets))
    if of_budget > -SEEDS:
        return
    yield Finding(
        "warning",
        "little-from-size",
        f"twice the parameters change the losses of base models by {of_size:+.1%}, twice the pre-training tokens for "
        f"each parameter by {of_budget:+.1%}: as twice the size brings twice the tokens too, it lowers losses more.",
        "Look whether all sizes were measured alike, and whether n_params stands in the rows of its own runs.",
        data={"by_size": of_size, "by_budget": of_budget},
    )


def _along_index(line: pd.Series) -> Floats:
    return _slopes(np.log(line.index.to_numpy(dtype=float)), line.to_numpy(dtype=float))


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return the slopes between any two points."""
    i, j = np.triu_indices(len(x), 1)
    return np.asarray((y[j] - y[i]) / (x[j] - x[i]), dtype=np.float64)


def _robust_line_at(x: Floats, y: Floats, at: float) -> float:
    """Return the value at a point of a line through points: median slope and median intercept (Theil and Sen)."""
    slope = float(np.median(_slopes(x, y))) if len(x) > 1 else 0.0
    return float(np.median(y - slope * x)) + slope * float(at)


def _along(frame: pd.DataFrame) -> Floats:
    """Return what the rows of a run are ordered by, (n,): steps, else tokens, else their place in the table."""
    for name in ("step", "tokens"):
        if name in frame.columns:
            return frame[name].to_numpy(dtype=float)
    return np.arange(len(frame), dtype=float)


def _percent_off(gap: float) -> str:
    """Print a difference in log loss, as ``12% above``."""
    return f"{abs(math.expm1(gap)):.0%} {'above' if gap > 0 else 'below'}"
