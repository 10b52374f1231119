"""The answer to a user's question: what to train, what to expect, how sure that is, and what to run next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.planning.result import score_text
from cptlaw.result import Line, Result, Table, plain
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.uncertainty.chances import likelihood
from cptlaw.units import format_percent, format_quantity, short_percent
from cptlaw.writing import REPORT, write_text

LEAST_SHOWN = 0.05  # weight of a law in an average
LIMITS = {
    "max-forgetting": "the limit on forgetting",
    "max-target-loss": "the limit on the target loss",
    "max-tokens": "the limits within the budget",
}
WORDS = {"max-forgetting": "forgetting within its limit", "max-target-loss": "target loss within its limit"}


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """What to train and what to expect. Attributes are the promised JSON keys.

    Attributes
    ----------
    question, kind
        What was asked, in words; the plan that answers it.
    feasible
        Whether a mix keeps the limits with the probability that was asked.
    replay, tokens, atpp, flops
        The mix: share of the source corpus, adaptation tokens with replay, tokens per parameter, 6 N D. ``None`` where
        infeasible.
    lr_peak
        Peak rate, where the runs vary it.
    target_loss, source_loss, forgetting
        What to expect, each with ``_lo`` and ``_hi``; nats per token, and a share of `base_source_loss`.
    target_gain
        Without runs: by which share the target loss falls below the base model's; low end, middle, high end.
    scores
        By benchmark: ``score`` (0 to 1), ``score_lo``, ``score_hi``, and where a drop is limited ``base`` and ``drop``.
    probabilities
        Limit -> probability that it holds under this mix.
    laws
        Eval, law and weight of what was fitted.
    without_risk
        The mix if each limit need hold only as often as not.
    what_if
        What would change the answer: mixes near this one, in words, with the losses that they would have.
    other_sizes
        Where a budget of compute is given: the best mixes of the models of other sizes that were run.
    blocking, best_reachable
        Where infeasible: the limit that cannot be kept, and the best values in reach.
    next_runs
        The runs worth buying next.
    findings, evidence
        What to doubt, the worst first; where the numbers come from.
    steps
        The commands that repeat each step.
    """

    question: str
    kind: str
    feasible: bool
    replay: float | None = None
    tokens: float | None = None
    atpp: float | None = None
    flops: float | None = None
    lr_peak: float | None = None
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
    target_gain: tuple[float, float, float] | None = None
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    probabilities: Mapping[str, float] = field(default_factory=dict)
    risk: float | None = None
    laws: tuple[Mapping[str, Any], ...] = ()
    without_risk: Mapping[str, Any] | None = None
    what_if: tuple[Mapping[str, Any], ...] = ()
    other_sizes: tuple[Mapping[str, Any], ...] = ()
    blocking: str | None = None
    best_reachable: Mapping[str, float | None] | None = None
    next_runs: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[str, ...] = ()
    rule_of_thumb: str | None = None
    options: Table | None = None
    _page: Callable[[], Any] | None = field(default=None, repr=False)
    _plan: Any = field(default=None, repr=False, compare=False)

    @property
    def plan(self) -> Any:
        """The plan behind the answer; ``None`` without runs."""
        return self._plan

    def plot(self, **options: Any) -> Any:
        """Return the figure of the plan behind the answer, as Plotly has it. Needs the extra ``report``.

        Raises
        ------
        UsageError
            If the answer is without runs, or Plotly is not installed.
        """
        if self._plan is None:
            raise UsageError("an answer without runs has no figure: there is nothing of yours to draw.")
        return self._plan.plot(**options)

    @property
    def _unit(self) -> str:
        return USUAL_UNIT if self._plan is None else str(self._plan.unit)

    @property
    def title(self) -> str:
        """What was asked."""
        return self.question

    @property
    def lines(self) -> list[Line]:
        """The answer, the mix first."""
        lines = [("answer", self._advice())]
        if self.feasible:
            if self.target_loss is not None:
                lines.append(("target loss", f"{self._span('target_loss')} {self._unit}"))
            elif self.target_gain is not None:
                low, middle, high = (short_percent(value) for value in self.target_gain)
                lines.append(("target loss", f"falls by {middle} of the base model's ({low} to {high})"))
            if self.forgetting is not None:
                lines.append(
                    ("forgetting", f"{self._span('forgetting', percent=True)} of the base model's source loss")
                )
            elif self.source_loss is not None:
                lines.append(("source loss", f"{self._span('source_loss')} {self._unit}"))
        lines += [(name, score_text(fields)) for name, fields in self.scores.items()] if self.feasible else []
        lines += [(_of(name), likelihood(value)) for name, value in self.probabilities.items()]
        if self.without_risk is not None and (self.probabilities or not self.feasible):
            lines.append(("price of doubt", self._price()))
        if self.what_if:
            lines.append(("what if", "; ".join(self._alternative(mix) for mix in self.what_if)))
        if self.other_sizes:
            lines.append(("same compute", "; ".join(self._alternative(mix) for mix in self.other_sizes)))
        if self.rule_of_thumb is not None:
            lines.append(("rule of thumb", self.rule_of_thumb))
        if self.laws:
            lines.append(("from", self._laws()))
        elif self.evidence:
            count = len({entry["study"] for entry in self.evidence})
            lines.append(("from", f"{count} studies of others (--json lists them); no run of yours"))
        if self.next_runs:
            lines.append(("run next", runs_in_words(self.next_runs)))
        return lines

    @property
    def tables(self) -> list[Table]:
        """What each replay would do, where no run was given."""
        return [] if self.options is None else [self.options]

    def to_dict(self) -> dict[str, Any]:
        """Return the promised JSON keys."""
        shown = (item.name for item in fields(self) if item.name not in ("options", "_page", "_plan"))
        return {name: plain(getattr(self, name)) for name in shown}

    def report(self, path: str | Path, force: bool = False) -> Path:
        """Write the page to send: the answer with its figures, which need the extra ``report``; without runs, none."""
        if self._page is None:
            from cptlaw.reporting.plain_page import plain_page

            # Without runs there is nothing to draw, and no extra to install for it.
            page = plain_page(self, self.steps, (_pilots(self), _studies(self)))
            return write_text(path, page, REPORT, force=force)
        written: Path = self._page().save(path, force=force)
        return written

    @property
    def following(self) -> str:
        """The command to run next."""
        return self.steps[0]  # the first of them: the others read what it writes

    def _advice(self) -> str:
        if not self.feasible:
            best = (self.best_reachable or {}).get(self._quantity)
            reach = "" if best is None else f"; {self._value(self.blocking or '', best)} can be promised"
            limits = " and ".join(LIMITS.get(name, name) for name in (self.blocking or "").split(" and "))
            return f"no mix keeps {limits} with {format_percent(self.risk or 0.5)} probability{reach}"
        mix = f"train on {format_quantity(self.tokens or 0, 3)} tokens"
        if self.replay is not None:
            mix += f", {format_percent(self.replay, 3)} of them replay"
        if self.lr_peak is not None:
            mix += f", peak rate {self.lr_peak:.3g}"
        return f"{mix} ({self.atpp:.3g} tokens per parameter, {self.flops:.2g} FLOPs)"

    def _value(self, name: str, value: float) -> str:
        in_percent = "forgetting" in name or " " in name
        return format_percent(value, 3) if in_percent else f"{value:.4g}"

    @property
    def _quantity(self) -> str:
        """What the blocking limit is about, as `best_reachable` names it."""
        name = self.blocking or ""
        if name == "max-forgetting":
            return "forgetting"
        for start, quantity in (("min ", "score "), ("max-drop ", "drop ")):
            if name.startswith(start):
                return quantity + name.removeprefix(start)
        return "target_loss"

    def _span(self, name: str, percent: bool = False) -> str:
        values = [getattr(self, name + end) for end in ("", "_lo", "_hi")]
        show = short_percent if percent else "{:.4g}".format
        middle, low, high = ("not bounded" if value is None else show(value) for value in values)
        return f"{middle} ({low} to {high})"

    def _alternative(self, mix: Mapping[str, Any]) -> str:
        text = f"{mix['change']}: target loss {mix['target_loss']:.4g}"
        return text if mix.get("forgetting") is None else f"{text}, forgetting {short_percent(mix['forgetting'])}"

    def _price(self) -> str:
        other = self.without_risk or {}
        if other.get("tokens") is None:
            return "none: the forecasts themselves allow no mix"
        mix = f"{format_quantity(other['tokens'], 3)} tokens"
        if other.get("replay") is not None:
            mix += f", {format_percent(other['replay'], 3)} replay"
        return f"as good as a coin toss would be {mix}"

    def _laws(self) -> str:
        weights: dict[str, dict[str, float]] = {}
        for entry in self.laws:  # variants of a law are one law to its reader
            of_eval = weights.setdefault(entry["on"], {})
            name = str(entry["law"]).partition(":")[0]
            of_eval[name] = of_eval.get(name, 0.0) + entry["weight"]
        parts = []
        for on, found in weights.items():
            # Three laws are what a reader takes in; the rest of the weight is in the JSON.
            heaviest = sorted(found.items(), key=lambda pair: -pair[1])[:3]
            texts = [f"{name} {short_percent(weight)}" for name, weight in heaviest if weight >= LEAST_SHOWN]
            parts.append(f"{on}: {', '.join(texts)}")
        return "; ".join(parts)


def runs_in_words(cells: Iterable[Mapping[str, Any]]) -> str:
    """Return runs to train next in words: size, tokens, replay, seeds; nothing where there are none."""
    shown = []
    for cell in [*cells][:3]:
        mix = f"{format_quantity(cell['tokens'], 3)} tokens"
        mix += "" if cell.get("replay") is None else f" at {format_percent(cell['replay'], 3)} replay"
        size = cell.get("n_params")
        shown.append(f"on {mix}" if size is None else f"{format_quantity(size, 3)} on {mix}")
    # Repeats of one cell are seeds: said once, with their number.
    seeds = {text: shown.count(text) for text in shown}
    return "; ".join(text if n == 1 else f"{text}, {n} seeds" for text, n in seeds.items())


def _of(name: str) -> str:
    if name.startswith(("min ", "max-drop ")):
        return f"{name.partition(' ')[2]} within its limit"
    return WORDS.get(name, name)


def _pilots(answer: Answer) -> Table:
    formats = {"replay": format_percent} | dict.fromkeys(("n_params", "ptpp", "tokens", "flops"), format_quantity)
    return Table.of(pd.DataFrame(answer.next_runs), formats, caption="Pilots that would narrow it most per FLOP")


def _studies(answer: Answer) -> Table:
    listed = pd.DataFrame(answer.evidence)[["outcome", "study", "shift", "source"]]
    return Table.of(listed, caption="Studies that it rests on")
