"""A forecast and its doubt, for which next runs are chosen, and what is to be said of the choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.base_models import KEYS
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.point_covariance import ONE_SD
from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import AboveBase
from cptlaw.planning.next_runs.cells import SAME, CandidateRun, Offer, rows_of
from cptlaw.planning.next_runs.doubt import Doubt, above_base, along_directions, doubt, errors
from cptlaw.planning.next_runs.few_runs import FewRuns
from cptlaw.planning.next_runs.greedy import AboveGuess, Openness, Sample, choose
from cptlaw.planning.next_runs.suggestion import Cell, Suggestion
from cptlaw.planning.result import quantity_text
from cptlaw.runs.metrics import unit_of
from cptlaw.units import format_percent, format_quantity

MOST_CELLS = 24
LITTLE = 0.05  # of the width: less than this gained is said
NOISY = 0.5  # share of the squared half-width from measuring one loss, from which it is said


@dataclass(frozen=True, eq=False)
class OpenForecast:
    """A forecast and its doubt, for which next runs can be chosen again and again.

    Parameters
    ----------
    asked
        One row: the forecast that matters.
    before
        The row as `Fit.forecast` returned it.
    of_loss
        The doubt about the loss.
    above
        How the loss lies above that of its base model, where that is asked and a guess; else the loss itself is asked.
    """

    fit: LawFit
    asked: pd.DataFrame
    interval: float
    before: pd.Series
    of_loss: Doubt
    offer: Offer
    whole: Fit
    above: AboveBase | None = None

    def answer(self, budget: float, most: int = MOST_CELLS) -> Suggestion:
        """Choose among the runs, for a budget in FLOPs."""
        fit, asked, before, open_doubt = self.fit, self.asked, self.before, self.doubt
        sample, runs = self.sample, self.offer.cells
        # An evaluation of the base model costs no training: where it tells anything, runs are chosen after it.
        with_base = sample.with_base()
        share_of_base = float(np.sqrt(with_base.variance / max(sample.variance, 1e-300)))
        base_gain = open_doubt.width() - open_doubt.width(share_of_base)
        if base_gain < LITTLE * open_doubt.width():
            with_base, share_of_base, base_gain = sample, 1.0, 0.0
        chosen = choose(with_base, self.offer, budget, most)
        shares = [share_of_base, *(float(np.sqrt(step.variance / max(sample.variance, 1e-300))) for step in chosen)]
        widths = [open_doubt.width(share) for share in shares]
        cells = tuple(
            Cell(
                **vars(runs[step.candidate]),
                flops=step.run_flops + step.base_flops,
                gain=max(before_it - after_it, 0.0),
                run_flops=step.run_flops,
                base_flops=step.base_flops,
            )
            for step, (before_it, after_it) in zip(chosen, pairwise(widths), strict=True)
        )
        ends = (float(before["lo"]), float(before["hi"])) if self.above is None else open_doubt.interval()
        findings = _findings(self, budget, shares, widths)
        findings += [*_below_sizes(fit, cells), *_anchor(self, budget)]
        after = open_doubt.interval(shares[-1]) if chosen or base_gain else ends
        return Suggestion(
            law=fit.law.spec,
            on=fit.on,
            at={str(name): float(value) for name, value in asked.iloc[0].items() if isinstance(value, int | float)},
            loss=float(before["loss"]),
            cells=cells,
            base_gain=base_gain,
            interval_before=_known(ends),
            interval_after=_known(after),
            interval=self.interval,
            budget=budget,
            flops=float(sum(cell.flops for cell in cells)),
            findings=(*before["findings"], *findings),
            unit=unit_of(fit),
            _fits=(self.whole,),
        )

    @cached_property
    def doubt(self) -> Doubt:
        """The doubt about what is asked."""
        if self.above is None:
            return self.of_loss
        points = {name: self.asked[name] for name in ("replay", "tokens") if name in self.asked}
        return above_base(self.of_loss, self.above, points, self.interval)

    @cached_property
    def alone(self) -> Array:
        """Which share of the standard deviation of the forecast is left after each run alone, (c,)."""
        told = self.sample.reductions(np.arange(len(self.offer.cells)))
        return np.asarray(np.sqrt(np.maximum(1.0 - told / max(self.sample.variance, 1e-300), 0.0)))

    @cached_property
    def sample(self) -> Openness:
        """The doubt as directions along which the forecast and the losses of runs move together."""
        fit, runs = self.fit, self.offer.cells
        checkpoints = rows_of(runs, self.asked.iloc[0], fit.law.inputs)
        if isinstance(self.whole, Average) and self.whole.uses_studies and {*KEYS, "tokens"} <= set(checkpoints):
            last = np.cumsum([len(run.checkpoints) for run in runs]) - 1
            of_change = self.above is not None and self.above.shared is not None
            noise, rows = self.whole.scatter(ONE_SD) ** 2, checkpoints.iloc[last]
            few = FewRuns.of(self.whole, self.asked, rows, noise=noise, of_change=of_change)
            return few if of_change else self._above_guess(few)
        shifts = along_directions(fit, pd.concat([self.asked[list(checkpoints)], checkpoints], ignore_index=True))
        # By as much as the interval says the forecast errs by, with its ends as those of a normal law's.
        errs = float(np.linalg.norm(shifts[:, 0])) * float(special.ndtri(0.5 + 0.5 * self.interval))
        shifts = shifts * (self.of_loss.half_width / max(errs, 1e-300))
        noise = self.of_loss.scatter / self.of_loss.half_width
        return self._above_guess(Sample.of(shifts[:, 0], shifts[:, 1:], runs, errors(fit), noise))

    def _above_guess(self, loss: Openness) -> Openness:
        """Return what is open of a loss above the guess of its base model's, whose doubt is its own."""
        if self.above is None:
            return loss
        ratio = self.doubt.half_width / self.of_loss.half_width
        at = self.asked.iloc[0]
        on_base = [run.n_params == at["n_params"] and run.ptpp in (None, at.get("ptpp")) for run in self.offer.cells]
        return AboveGuess(loss, max(ratio**2 - 1.0, 0.0) * loss.variance, np.array(on_base))


def open_forecast(
    fit: LawFit,
    asked: pd.DataFrame,
    interval: float,
    offer: Offer,
    whole: Fit | None = None,
    above: AboveBase | None = None,
) -> OpenForecast:
    """Forecast a point and the doubt about it.

    Parameters
    ----------
    fit
        The law along whose directions runs are chosen.
    offer
        The runs to choose from.
    whole
        What forecasts: the average that holds the law, where one does.
    above
        How the loss lies above its base model's, where that is asked: forgetting.
    """
    whole = fit if whole is None else whole
    before = whole.forecast(asked, interval).iloc[0]
    # Above a base model that was measured, a loss is as much in doubt as how far it lies above.
    guessed = above is not None and above.reference.half_width(interval) > 0
    of_loss = doubt(whole, before, interval)
    return OpenForecast(fit, asked, interval, before, of_loss, offer, whole, above if guessed else None)


def _findings(ahead: OpenForecast, budget: float, shares: list[float], widths: list[float]) -> list[Finding]:
    """Say what keeps the interval from shrinking more."""
    findings = []
    result, costs, alone, doubt_now = ahead.offer.cells, ahead.offer.costs, ahead.alone, ahead.doubt
    if len(shares) == 1 and costs.min() > budget:
        cheapest = int(costs.argmin())
        findings.append(
            Finding(
                "warning",
                "budget-too-small",
                f"no run costs {quantity_text(budget)} FLOPs or less; the cheapest is {_name(result[cheapest])} at "
                f"{quantity_text(costs[cheapest])}.",
                "Raise the budget, or give shorter runs or smaller sizes.",
                remedy=Remedy("budget", quantity_text(costs[cheapest])),
            )
        )
    elif widths[0] - widths[-1] < LITTLE * widths[0]:
        findings.append(
            Finding(
                "info",
                "little-to-gain",
                f"within {quantity_text(budget)} FLOPs the interval narrows by "
                f"{format_percent((widths[0] - widths[-1]) / widths[0], 2)}.",
                "The candidates tell little about this forecast: it needs other runs, or more compute.",
            )
        )
    share = shares[-1]
    dear = np.flatnonzero((costs > budget) & (alone < 0.7 * share))
    if len(dear):
        best = int(dear[costs[dear].argmin()])
        low, high = doubt_now.interval(float(alone[best]))
        findings.append(
            Finding(
                "info",
                "beyond-budget",
                f"{_name(result[best])} alone would narrow the interval to {low:.4f} to {high:.4f}, for "
                f"{quantity_text(costs[best])} FLOPs.",
                "Ask again with that budget to see what else it would buy.",
            )
        )
    half = doubt_now.half_width * share
    noise_share = doubt_now.scatter**2 / (doubt_now.scatter**2 + half**2)
    if noise_share > NOISY:
        findings.append(
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
            findings.append(
                Finding(
                    "info",
                    "open-interval",
                    f"the interval is open {side}; gains count from a factor of e {side} the forecast.",
                    "Take the order of the cells as the answer, and ask again once they are measured.",
                )
            )
    return findings


def _below_sizes(fit: LawFit, cells: tuple[Cell, ...]) -> list[Finding]:
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
            "Keep to sizes of your own.",
            remedy=Remedy("sizes"),
        )
    ]


def _anchor(ahead: OpenForecast, budget: float) -> list[Finding]:
    """Name the run nearest in size at a pre-training budget that no fitted run had, and what it would tell alone."""
    asked = float(ahead.asked.iloc[0].get("ptpp", np.nan))
    seen = ahead.fit.data["ptpp"] if "ptpp" in ahead.fit.data.columns else pd.Series(dtype=float)
    runs, costs, alone = ahead.offer.cells, ahead.offer.costs, ahead.alone
    budgets = np.array([np.nan if run.ptpp is None else run.ptpp for run in runs])
    there = np.flatnonzero(np.isclose(budgets, asked, rtol=SAME)).tolist()
    if not there or np.isclose(seen, asked, rtol=SAME).any():
        return []
    affordable = [i for i in there if costs[i] <= budget]
    if not affordable:
        cheapest = min(there, key=lambda i: costs[i])
        return [
            Finding(
                "info",
                "nearest-anchor",
                f"no run at {format_quantity(asked)} pre-training tokens per parameter costs {quantity_text(budget)} "
                f"FLOPs or less; the cheapest is {_name(runs[cheapest])} at {quantity_text(costs[cheapest])}.",
                "Without a run at that budget the forecast rests on the law's form in it.",
                data={"flops": float(costs[cheapest])},
                remedy=Remedy("budget", quantity_text(costs[cheapest])),
            )
        ]
    largest = max(runs[i].n_params for i in affordable)
    best = max((i for i in affordable if runs[i].n_params == largest), key=lambda i: (-alone[i], -costs[i]))
    low, high = ahead.doubt.interval(float(alone[best]))
    return [
        Finding(
            "info",
            "nearest-anchor",
            f"no fitted run had {format_quantity(asked)} pre-training tokens per parameter; the nearest that the "
            f"budget pays for is {_name(runs[best])}, for {quantity_text(costs[best])} FLOPs: alone it would narrow "
            f"the interval to {low:.4f} to {high:.4f}.",
            "A run at the asked budget ends the extrapolation in it.",
            data={"n_params": largest, "ptpp": asked, "flops": float(costs[best])},
        )
    ]


def _name(cell: CandidateRun) -> str:
    parts = [f"n_params {format_quantity(cell.n_params)}"]
    if cell.ptpp is not None:
        parts.append(f"ptpp {format_quantity(cell.ptpp)}")
    if cell.replay is not None:
        parts.append(f"replay {format_percent(cell.replay)}")
    parts += [f"{name} {format_percent(share)}" for name, share in cell.mix.items()]
    parts += [] if cell.lr_peak is None else [f"peak rate {cell.lr_peak:.3g}"]
    return f"a run at {', '.join(parts)}, tokens {format_quantity(cell.tokens)}"


def _known(ends: tuple[float, float]) -> tuple[float | None, float | None]:
    low, high = (end if np.isfinite(end) else None for end in ends)
    return low, high
