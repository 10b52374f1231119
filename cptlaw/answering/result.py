"""The answer to a user's question: what to train, what to expect, how sure that is, and what to run next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.answering import answer_text
from cptlaw.findings import Finding, has_error
from cptlaw.result import Line, Result, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import REPORT, write_text

if TYPE_CHECKING:
    from cptlaw.planning.corpora.result import CorporaPlan
    from cptlaw.planning.result import MixPlan
    from cptlaw.reporting.figures import Figure
    from cptlaw.reporting.page import Report


@dataclass(frozen=True)
class UsefulOption:
    """An option that was not given and may narrow an answer.

    Attributes
    ----------
    option, said
        Its name, and what would have to be said for that.
    of, by
        What it may narrow, and by which share of the interval.
    """

    option: str
    said: str
    of: str
    by: float


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """What to train and what to expect. Attributes are the promised JSON keys.

    Attributes
    ----------
    question, kind
        What was asked, in words; the plan that answers it.
    feasible
        Whether a mix keeps the limits with the probability that was asked; without runs ``None`` where no
        limit was asked for: `options` and `knee` are the answer then.
    replay, tokens, atpp, flops
        The mix: share of the source corpus, adaptation tokens with replay, tokens per parameter, 6 N D. ``None`` where
        infeasible.
    mix
        Share of each corpus, by name, where the runs mix k corpora; `replay` is then that of the source eval's own.
    merge_weight, lora_rank
        Weight of the run in a merge with its base, and rank of its adapters, where runs with several tell of them.
    method, vocab_added
        The kind of runs that the answer is for, where the runs are of several.
    lr_peak, lr_peak_lo, lr_peak_hi, lr_why, lr_options
        Peak rate, where the laws read it or there are no runs; its range (with runs: of what was run), why, and without
        runs what half and twice of it do.
    batch_tokens, batch_tokens_lo, batch_tokens_hi, batch_options
        Tokens of one optimiser step. With runs: theirs, and their range. Without: by the tokens of the run alone
        (``_lo``) and with those of pre-training (``_hi``), and what half and twice of it cost in both losses.
    target_loss, source_loss, forgetting
        What to expect, each with ``_lo`` and ``_hi``; nats per token, and a share of `base_source_loss`.
    losses
        Where the mean over several evals is lowered: by eval ``loss``, ``loss_lo``, ``loss_hi``.
    target_gain
        Without runs: by which share the target loss falls below the base model's; low end, middle, high end.
    options, knee
        By share of replay: tokens, FLOPs, forgetting and the fall of the target loss with their ends, with runs also
        both losses; without runs the share from which more replay buys least.
    cheapest
        Without runs, under a limit: the cheapest mix that keeps it with nearly the gain of the best.
    scores
        By benchmark: ``score`` (0 to 1), ``score_lo``, ``score_hi``, and where a drop is limited ``base`` and ``drop``.
    probabilities
        Limit -> probability that it holds under this mix; here, and in all that stands beside, ``None`` where a finding
        is an error: what was not understood is not likely.
    laws
        Eval, law and weight of what was fitted.
    without_risk
        The mix if each limit need hold only as often as not.
    what_if
        What would change the answer: mixes near this one, in words, with the losses that they would have.
    other_sizes
        Where a budget of compute is given: the best mixes of the models of other sizes that were run.
    other_kinds
        What the runs of other methods come to under the same question, the best first.
    base
        The base model that was named, as a trainer loads it: its id on Hugging Face, or its folder.
    alternatives
        By ``name`` what else could be trained: ``cheaper``, ``safer``, ``no-replay``, and what else saves the source,
        by ``method`` (a merge, an adapter). What each comes to, and where that was measured.
    blocking, best_reachable
        Where infeasible: the limit that cannot be kept; the mix that comes nearest (``replay``, ``tokens``, losses),
        the ``probability`` that it keeps the limits after all, and the value of the ``limit`` that it does keep.
    reference
        From which loss forgetting counts: ``kind`` is measured, given or estimated; ``loss``, and its ``sd`` in nats.
    steps, epochs, epochs_worth
        Optimiser steps at `batch_tokens`; how often the tokens of the new domain are read, and how often they would
        have to be there to do as much without repeats.
    gpu_hours, days, cost, hardware
        Of the run: hours of one device, days on as many as were named, money at the price that was given; and what
        that rests on.
    next_runs
        The runs worth buying next; one of no tokens is an evaluation of the base model.
    most_useful_option
        From few runs: the option not given that may narrow the answer most; ``None`` where none does by a tenth.
    along_replay
        Without runs: a function from shares of replay to rows of `options`, at the plan's part of what there is.
    findings, evidence
        What to doubt, the worst first; where the numbers come from.
    commands
        The commands that repeat each step.
    """

    question: str
    kind: str
    feasible: bool | None
    replay: float | None = None
    mix: Mapping[str, float] = field(default_factory=dict)
    tokens: float | None = None
    atpp: float | None = None
    flops: float | None = None
    merge_weight: float | None = None
    lora_rank: float | None = None
    method: str | None = None
    vocab_added: float | None = None
    lr_peak: float | None = None
    lr_peak_lo: float | None = None
    lr_peak_hi: float | None = None
    lr_why: str | None = None
    lr_options: tuple[Mapping[str, float], ...] = ()
    batch_tokens: float | None = None
    batch_tokens_lo: float | None = None
    batch_tokens_hi: float | None = None
    batch_options: tuple[Mapping[str, float], ...] = ()
    target_loss: float | None = None
    target_loss_lo: float | None = None
    target_loss_hi: float | None = None
    source_loss: float | None = None
    source_loss_lo: float | None = None
    source_loss_hi: float | None = None
    forgetting: float | None = None
    forgetting_lo: float | None = None
    forgetting_hi: float | None = None
    base_source_loss: float | None = None
    losses: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    target_gain: tuple[float, float, float] | None = None
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    probabilities: Mapping[str, float | None] = field(default_factory=dict)
    risk: float | None = None
    laws: tuple[Mapping[str, Any], ...] = ()
    without_risk: Mapping[str, Any] | None = None
    what_if: tuple[Mapping[str, object], ...] = ()
    other_sizes: tuple[Mapping[str, object], ...] = ()
    other_kinds: tuple[Mapping[str, object], ...] = ()
    alternatives: tuple[Mapping[str, Any], ...] = ()
    blocking: str | None = None
    best_reachable: Mapping[str, object] | None = None
    reference: Mapping[str, Any] | None = None
    steps: int | None = None
    epochs: float | None = None
    epochs_worth: float | None = None
    gpu_hours: float | None = None
    days: float | None = None
    cost: float | None = None
    hardware: Mapping[str, Any] = field(default_factory=dict)
    next_runs: tuple[Mapping[str, Any], ...] = ()
    most_useful_option: UsefulOption | None = None
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Mapping[str, object], ...] = ()
    commands: tuple[str, ...] = ()
    rule_of_thumb: str | None = None
    base: str | None = None
    options: tuple[Mapping[str, Any], ...] = ()
    knee: float | None = None
    cheapest: Mapping[str, float] | None = None
    _page: Callable[[], Report] | None = field(default=None, repr=False)
    _plan: MixPlan | CorporaPlan | None = field(default=None, repr=False, compare=False)
    _limits: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    searched: tuple[float, float] | None = field(default=None, repr=False, compare=False)
    along_replay: Callable[[ArrayLike], list[dict[str, float]]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not has_error(self.findings):
            return
        object.__setattr__(self, "probabilities", dict.fromkeys(self.probabilities))
        for name in ("options", "alternatives"):
            object.__setattr__(self, name, tuple(map(_without_probability, getattr(self, name))))
        for name in ("cheapest", "best_reachable"):
            if (row := getattr(self, name)) is not None:
                object.__setattr__(self, name, _without_probability(row))

    @property
    def plan(self) -> MixPlan | CorporaPlan | None:
        """The plan behind the answer; ``None`` without runs."""
        return self._plan

    @property
    def unit(self) -> str:
        """The unit of the losses."""
        return USUAL_UNIT if self._plan is None else str(self._plan.unit)

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits that were asked for, by name."""
        return self._limits

    @property
    def title(self) -> str:
        """What was asked."""
        return self.question

    @property
    def lines(self) -> list[Line]:
        """The answer, the mix first, and what to run next."""
        return answer_text.short_lines(self)

    @property
    def details(self) -> list[Line]:
        """What it takes and rests on, and what else could be done."""
        return answer_text.detail_lines(self)

    @property
    def tables(self) -> list[Table]:
        """What else could be trained; without a limit what each share of replay comes to."""
        return answer_text.short_tables(self)

    @property
    def most_findings(self) -> int:
        """How many findings are shown at once: the lines above say the rest."""
        return 1

    def report(self, path: str | Path, force: bool = False) -> Path:
        """Write the page to send: the answer with its figures, which need the extra ``report``; without runs, one."""
        if self._page is None:
            from cptlaw.reporting.plain_page import plain_page

            page = plain_page(self, *self._on_page(), self._drawn())
            return write_text(path, page, REPORT, force=force)
        written: Path = replace(self._page(), instead=tuple(self.tables)).save(path, force=force)
        return written

    def _drawn(self) -> Figure | None:
        """Return what a page without runs draws where it can: the page itself asks for no extra."""
        if self.along_replay is None or find_spec("plotly") is None:
            return None
        from cptlaw.reporting.figures.forgetting_and_gain import forgetting_and_gain

        return forgetting_and_gain(self)

    def _on_page(self) -> tuple[list[Line], list[str], list[Table], tuple[str, ...]]:
        """Return what a page without runs shows beside the answer: lines, what to do, tables, commands."""
        # Which runs come next and which studies speak stands on the page in places of its own.
        lines = [line for line in (*self.lines[1:], *self.details) if line[0] not in ("run next", "from")]
        if self.knee is not None:  # a table below has them
            lines = [line for line in lines if not line[0].endswith("% replay")]
        runs = answer_text.runs_text(self.next_runs, self.mix)
        instead = [replace(table, caption="What else could be trained", close=False) for table in self.tables]
        if self.knee is not None:
            doing = [f"Train the three pilots, which narrow it most for their compute: {runs}."]
            doing.append("Put them into files that a trainer reads with the command below, and ask again with runs.")
            tables = [*(instead if self.feasible is not None else []), answer_text.options_table(self)]
            return lines, doing, [*tables, _pilots(self), _studies(self)], self.commands
        doing = [f"Train next, as what narrows the answer most for its compute: {runs}."] if runs else []
        doing.append("Seal this forecast before the run is trained, and score it after.")
        named = zip(("The mix", "The losses"), self._plan.tables if self._plan else (), strict=False)
        return lines, doing, [*instead, *(replace(table, caption=name) for name, table in named)], self.commands

    @property
    def following(self) -> str:
        """The command to run next."""
        return self.commands[0]  # the first of them: the others read what it writes


def _without_probability(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row without the probability in it, and without the limit that is kept with one."""
    return {name: None if name in ("probability", "limit") else value for name, value in row.items()}


def _pilots(answer: Answer) -> Table:
    formats = {"replay": format_percent} | dict.fromkeys(("n_params", "ptpp", "tokens", "flops"), format_quantity)
    listed = pd.DataFrame(answer.next_runs)[["n_params", "ptpp", "replay", "tokens", "lr_peak", "flops", "gain"]]
    return Table.of(listed, formats, caption="Pilots that would narrow it most per FLOP")


def _studies(answer: Answer) -> Table:
    listed = pd.DataFrame(answer.evidence)[["outcome", "study", "shift", "source"]]
    return Table.of(listed, caption="Studies that it rests on")
