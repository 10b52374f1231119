"""The answer to a user's question: what to train, what to expect, how sure that is, and what to run next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.answering.batches import MEASURED
from cptlaw.findings import Finding
from cptlaw.fitting.uncertainty.chances import likelihood
from cptlaw.planning.result import score_text, weights_text
from cptlaw.result import Line, Result, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import decimals, format_percent, format_quantity, format_span, short_percent
from cptlaw.writing import REPORT, write_text

LEAST_SHOWN = 0.05  # weight of a law in an average
SAME = 5e-4  # relative difference that three digits do not show
MOST_EVALS = 3  # of which the laws are listed one by one
LEAST_SHARE = 0.001  # of a corpus in a mix
LIMITS = {
    "max-forgetting": "the limit on forgetting",
    "max-target-loss": "the limit on the target loss",
    "max-tokens": "the limits within the budget",
}


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
        Without runs: tokens of one optimiser step, by the tokens of the run alone (``_lo``) and with those of
        pre-training (``_hi``), and what half and twice of it (or of the one asked about) cost in both losses.
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
        Limit -> probability that it holds under this mix.
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
    alternatives
        What else saves the source: ``method`` (a merge, an adapter), what it comes to, and where that was measured.
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
    probabilities: Mapping[str, float] = field(default_factory=dict)
    risk: float | None = None
    laws: tuple[Mapping[str, Any], ...] = ()
    without_risk: Mapping[str, Any] | None = None
    what_if: tuple[Mapping[str, Any], ...] = ()
    other_sizes: tuple[Mapping[str, Any], ...] = ()
    other_kinds: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Mapping[str, Any], ...] = ()
    blocking: str | None = None
    best_reachable: Mapping[str, float | None] | None = None
    next_runs: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[str, ...] = ()
    rule_of_thumb: str | None = None
    options: tuple[Mapping[str, Any], ...] = ()
    knee: float | None = None
    cheapest: Mapping[str, float] | None = None
    _page: Callable[[], Any] | None = field(default=None, repr=False)
    _plan: Any = field(default=None, repr=False, compare=False)

    @property
    def plan(self) -> Any:
        """The plan behind the answer; ``None`` without runs."""
        return self._plan

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
        lines = [("answer", self._advice()), *(self._expected() if self.feasible else ())]
        # Of no plan, only the studies say how likely the mix that comes nearest keeps its limit.
        best = "" if self.feasible else "at best "
        lines += [(_of(name), best + likelihood(value)) for name, value in self.probabilities.items()]
        if self.without_risk is not None and (self.probabilities or not self.feasible):
            lines.append(("at even odds", self._price()))
        if self.what_if:
            lines.append(("what if", "; ".join(self._alternative(mix) for mix in self.what_if)))
        if self.cheapest is not None:
            lines.append(("cheapest", self._cheapest()))
        lines += self._replays()
        if self.lr_options:
            lines += self._rates()
        if self.batch_options:
            lines.append(("batch", self._batch()))
        lines += [("or no replay", self._instead(one)) for one in self.alternatives[:1]]
        if self.other_sizes:
            lines.append(("same compute", "; ".join(self._alternative(mix) for mix in self.other_sizes)))
        lines += [("or", str(other["change"])) for other in self.other_kinds]
        if self.rule_of_thumb is not None:
            lines.append(("beside it", self.rule_of_thumb))
        if self.laws:
            lines.append(("from", self._laws()))
        elif self.evidence:
            count = len({entry["study"] for entry in self.evidence})
            lines.append(("from", f"{count} studies of others (--json lists them); no run of yours"))
        if self.next_runs:
            lines.append(("run next", runs_in_words(self.next_runs, self.mix)))
        return lines

    def _expected(self) -> list[Line]:
        """Return what to expect of both losses, and of the scores."""
        lines: list[Line] = []
        if self.target_loss is not None:
            lines.append(("target loss", f"{self._span('target_loss')} {self._unit}"))
        elif self.target_gain is not None:
            low, middle, high = (short_percent(value) for value in self.target_gain)
            lines.append(("target loss", f"falls by {middle} of the base model's ({low} to {high})"))
        if self.forgetting is not None:
            lines.append(("forgetting", f"{self._span('forgetting', percent=True)} of the base model's source loss"))
        elif self.source_loss is not None:
            lines.append(("source loss", f"{self._span('source_loss')} {self._unit}"))
        each = {
            name: format_span(result["loss"] or 0.0, result["loss_lo"], result["loss_hi"])
            for name, result in self.losses.items()
        }
        if len(each) > MOST_EVALS:  # a line of each: twenty in one are read by nobody
            lines += [(name, f"{span} {self._unit}") for name, span in each.items()]
        elif each:
            lines.append(("losses", f"{'; '.join(map(' '.join, each.items()))} {self._unit}"))
        return lines + [(name, score_text(fields)) for name, fields in self.scores.items()]

    @property
    def details(self) -> list[Line]:
        """What else saves the source; with runs also what each share of replay comes to, and why this peak rate."""
        others = [("or no replay", self._instead(one)) for one in self.alternatives[1:]]
        if self.knee is not None:
            return others
        why = [] if self.lr_why is None else [("peak rate", f"{self.lr_peak:.3g}, {self.lr_why}")]
        shares = [(f"{format_percent(row['replay'] or 0.0)} replay", self._share(row)) for row in self.options]
        return [*why, *shares, *others]

    def _share(self, row: Mapping[str, float | None]) -> str:
        """Return what a share of replay comes to, from runs."""
        parts = []
        for name in ("target_loss", "source_loss"):
            if row.get(name) is not None:
                span = format_span(row[name] or 0.0, row[f"{name}_lo"], row[f"{name}_hi"])
                parts.append(f"{name.replace('_', ' ')} {span}")
        if (forgetting := row.get("forgetting")) is not None:
            parts.append(f"forgetting {short_percent(forgetting)}")
        return f"{'; '.join(parts)}; {format_quantity(row['tokens'] or 0, 3)} tokens"

    def report(self, path: str | Path, force: bool = False) -> Path:
        """Write the page to send: the answer with its figures, which need the extra ``report``; without runs, none."""
        if self._page is None:
            from cptlaw.reporting.plain_page import plain_page

            # Without runs, and of a mix of k corpora, there is nothing to draw, and no extra to install for it.
            page = plain_page(self, *self._on_page())
            return write_text(path, page, REPORT, force=force)
        written: Path = self._page().save(path, force=force)
        return written

    def _on_page(self) -> tuple[list[Line], list[str], list[Table], tuple[str, ...]]:
        """Return what a page without figures shows beside the answer: lines, what to do, tables, commands."""
        from cptlaw.reporting.cost import cost_text

        # Which runs come next and which studies speak stands on the page in places of its own.
        elsewhere = " (--json lists them)"
        lines = [(name, text.replace(elsewhere, "")) for name, text in self.lines[1:] if name != "run next"]
        lines += [] if self.flops is None else [("cost", cost_text(self.flops))]
        runs = runs_in_words(self.next_runs, self.mix)
        if self.knee is not None:
            doing = [f"Train the three pilots, which narrow it most for their compute: {runs}."]
            doing.append("Put them into files that a trainer reads with the command below, and ask again with runs.")
            return lines, doing, [_options(self), _pilots(self), _studies(self)], self.steps
        doing = [f"Train next, as what narrows the answer most for its compute: {runs}."] if runs else []
        doing.append("Seal this forecast before the run is trained, and score it after.")
        named = zip(("The mix", "The losses"), self._plan.tables, strict=False)
        return lines, doing, [replace(table, caption=name) for name, table in named], self.steps

    @property
    def following(self) -> str:
        """The command to run next."""
        return self.steps[0]  # the first of them: the others read what it writes

    def _advice(self) -> str:
        if self.feasible is None:
            return (
                "no limit on forgetting was given: take the share of replay whose forgetting you can bear; from the "
                "knee on, each further share of replay buys less"
            )
        if not self.feasible:
            best = (self.best_reachable or {}).get(self._quantity)
            reach = "" if best is None else f"; {self._value(best)} can be kept"
            limits = " and ".join(LIMITS.get(name, name) for name in (self.blocking or "").split(" and "))
            shares = "mix" if self.kind == "mix" else "replay share"
            return f"no {shares} keeps {limits} with {format_percent(self.risk or 0.5)} probability{reach}"
        mix = f"train on {format_quantity(self.tokens or 0, 3)} tokens"
        if self.mix:
            mix += f": {_shares(self.mix)}"
        elif self.replay is not None:
            mix += f", {format_percent(self.replay, 3)} of them replay"
        if self.lr_peak is not None:
            mix += f", peak rate {self.lr_peak:.3g}"
        mix += f"; weights {weights}" if (weights := weights_text(self)) else ""
        mix += "" if self.method is None else f"; method {self.method}"
        mix += "" if self.vocab_added is None else f"; {self.vocab_added:g} tokens added to the vocabulary"
        return f"{mix} ({self.atpp:.3g} tokens per parameter, {self.flops:.2g} FLOPs)"

    def _value(self, value: float) -> str:
        name = self.blocking or ""
        if not ("forgetting" in name or " " in name):
            return f"{value:.4g} {self._unit}"
        # A rise of more than the whole is easily read as a share that is left.
        many = name == "max-forgetting" and value >= 1.0
        return format_percent(value, 3) + (f", a source loss {1.0 + value:.2g} times the base model's" if many else "")

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
        if not percent:
            return format_span(*values)
        middle, low, high = ("not bounded" if value is None else short_percent(value) for value in values)
        return f"{middle} ({low} to {high})"

    def _replays(self) -> list[Line]:
        """Return what each share of replay does where no limit chose one, else the ends and the knee alone."""
        if self.knee is None:  # of runs the table is for those who ask for more
            return []
        shown = self.options
        if self.feasible is not None:
            shown = tuple(row for row in shown if row["replay"] in (0.0, self.knee, 0.5))
        lines = []
        for row in shown:
            lost, won = (_ends(row, name) for name in ("forgetting", "target_gain"))
            text = f"forgetting {lost}, target loss {won} lower; {format_quantity(row['tokens'], 3)} tokens, "
            text += f"{row['flops']:.2g} FLOPs" + (" <- knee" if row["replay"] == self.knee else "")
            lines.append((f"{format_percent(row['replay'])} replay", text))
        return lines

    def _rates(self) -> list[Line]:
        half, _, twice = (
            f"forgetting {short_percent(each['forgetting'])}, target loss {short_percent(each['target_gain'])} lower"
            for each in self.lr_options
        )
        span = f"{self.lr_peak:.2g} ({self.lr_peak_lo:.2g} to {self.lr_peak_hi:.2g})"
        share = format_percent((self.knee if self.replay is None else self.replay) or 0.0, 3)
        others = f"at {share} replay, half the rate: {half}; twice: {twice}"
        return [("peak rate", f"{span}; {self.lr_why}"), ("other rates", others)]

    def _cheapest(self) -> str:
        plan = self.cheapest or {}
        mix = f"{format_quantity(plan['tokens'], 3)} tokens, {format_percent(plan['replay'], 3)} replay"
        return f"{mix}, {plan['flops']:.2g} FLOPs, target loss {short_percent(plan['target_gain'])} lower"

    def _alternative(self, mix: Mapping[str, Any]) -> str:
        name = "mean loss" if self.losses else "target loss"
        # As many decimals as the plan's own loss is shown with.
        ends = [end for end in (self.target_loss_lo, self.target_loss_hi) if end is not None]
        places = None if self.target_loss is None else decimals(self.target_loss, ends)
        loss = f"{mix['target_loss']:.4g}" if places is None else f"{mix['target_loss']:.{places}f}"
        text = f"{mix['change']}: {name} {loss}"
        return text if mix.get("forgetting") is None else f"{text}, forgetting {short_percent(mix['forgetting'])}"

    def _instead(self, other: Mapping[str, Any]) -> str:
        merged = other["method"] == "merge"
        kind = (
            f"merged back at {other['merge_weight']:g}"
            if merged
            else f"an adapter of rank {other['rank_over_width']:.2g} x width"
        )
        if other["target_loss"] is None:
            target = f"target loss {_ends(other, 'target_gain')} lower"
        else:
            target = f"target loss {format_span(*(other[f'target_loss{end}'] for end in ('', '_lo', '_hi')))}"
        return f"{kind}: {target}, forgetting {_ends(other, 'forgetting')}; measured from {other['measured_on']}"

    def _batch(self) -> str:
        """Return the batch, and what others cost."""
        low, middle, high = (format_quantity(getattr(self, f"batch_tokens{end}"), 3) for end in ("_lo", "", "_hi"))
        beside = "; ".join(
            f"at {format_quantity(each['batch_tokens'], 3)} losses {format_percent(each['loss_rise'], 2)} higher, "
            f"{format_percent(each['loss_rise_at_it'], 2)} at {each['lr_factor']:.2g} times the rate"
            for each in self.batch_options
            if each["loss_rise"] >= SAME
        )
        return f"{middle} tokens ({low} by this run's tokens alone, {high} with pre-training's); {beside}; {MEASURED}"

    def _price(self) -> str:
        other = self.without_risk or {}
        if other.get("tokens") is None or other.get("feasible") is False:
            return "no mix either: the forecasts themselves allow none"
        if self.feasible and self._is_planned(other):
            return "the same run"
        mix = f"{format_quantity(other['tokens'], 3)} tokens"
        if other.get("mix"):
            mix += f": {_shares(other['mix'])}"
        if other.get("replay") is not None:
            mix += f", {format_percent(other['replay'], 3)} replay"
        if other.get("lr_peak") is not None and other["lr_peak"] != self.lr_peak:
            mix += f", peak rate {other['lr_peak']:.3g}"
        return mix

    def _is_planned(self, other: Mapping[str, Any]) -> bool:
        """Say whether another run is the planned one, to the digits that are shown."""
        pairs = [(getattr(self, name), other.get(name)) for name in ("tokens", "replay", "lr_peak") if name in other]
        pairs += [(share, (other.get("mix") or {}).get(name)) for name, share in self.mix.items()]
        return all(one == two or (one and two and abs(two / one - 1.0) < SAME) for one, two in pairs)

    def _laws(self) -> str:
        weights: dict[str, dict[str, float]] = {}
        for entry in self.laws:  # variants of a law are one law to its reader
            of_eval = weights.setdefault(entry["on"], {})
            name = str(entry["law"]).partition(":")[0]
            of_eval[name] = of_eval.get(name, 0.0) + entry["weight"]
        if len(weights) > MOST_EVALS:
            pooled: dict[str, float] = {}
            for value in weights.values():
                for name, weight in value.items():
                    pooled[name] = pooled.get(name, 0.0) + weight / len(weights)
            weights = {f"{len(weights)} evals": pooled}
        parts = []
        for on, value in weights.items():
            # Three laws are what a reader takes in; the rest of the weight is in the JSON.
            heaviest = sorted(value.items(), key=lambda pair: -pair[1])[:3]
            texts = [f"{name} {short_percent(weight)}" for name, weight in heaviest if weight >= LEAST_SHOWN]
            parts.append(f"{on}: {', '.join(texts)}")
        return "; ".join(parts)


def _ends(row: Mapping[str, float], name: str) -> str:
    middle, low, high = (short_percent(row[name + end]) for end in ("", "_lo", "_hi"))
    return f"{middle} ({low} to {high})"


def _options(answer: Answer) -> Table:
    rows = tuple(
        (
            format_percent(row["replay"]) + (" (knee)" if row["replay"] == answer.knee else ""),
            format_quantity(row["tokens"], 3),
            f"{row['flops']:.2g}",
            _ends(row, "forgetting"),
            _ends(row, "target_gain"),
            *((likelihood(row["probability"]),) if "probability" in row else ()),
        )
        for row in answer.options
    )
    columns = ("replay", "tokens", "FLOPs", "forgetting (90 % interval)", "target loss falls by (90 % interval)")
    limited = "probability" in answer.options[0]
    return Table((*columns, "limit holds") if limited else columns, rows, "What replay does")


def _shares(mix: Mapping[str, float]) -> str:
    """Return the shares of corpora in words, the largest first; those that are next to nothing are left out."""
    listed = sorted(mix.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {format_percent(share, 2)}" for name, share in listed if share >= LEAST_SHARE)


def runs_in_words(cells: Iterable[Mapping[str, Any]], planned: Mapping[str, float] | None = None) -> str:
    """Return runs to train next in words: size, tokens, replay or mix (beside the planned one), seeds."""
    shown = []
    for cell in [*cells][:3]:
        mix = f"{format_quantity(cell['tokens'], 3)} tokens"
        mix += "" if cell.get("replay") is None else f" at {format_percent(cell['replay'], 3)} replay"
        if cell.get("mix"):
            mix += " of this mix" if _shares(cell["mix"]) == _shares(planned or {}) else f" of {_shares(cell['mix'])}"
        size, budget, rate, base = (cell.get(name) for name in ("n_params", "ptpp", "lr_peak", "base_flops"))
        model = cell.get("base") or (None if size is None else format_quantity(size, 3))
        text = f"on {mix}" if model is None else f"{model} on {mix}"
        text += "" if rate is None else f", peak rate {rate:.2g}"
        text += f" ({cell['flops']:.2g} FLOPs)" if "flops" in cell else ""
        if base:
            text += f" with its base at {format_quantity(budget or 0, 3)} tokens per parameter, to be pre-trained first"
        shown.append(text)
    # Repeats of one cell are seeds: said once, with their number.
    seeds = {text: shown.count(text) for text in shown}
    return "; ".join(text if n == 1 else f"{text}, {n} seeds" for text, n in seeds.items())


def _of(name: str) -> str:
    """Return what a limit is about, for the chance that it holds: ``forgetting``, ``mmlu``."""
    kind, _, score = name.partition(" ")
    return f"{score or kind.removeprefix('max-').replace('-', ' ')} within its limit"


def _pilots(answer: Answer) -> Table:
    formats = {"replay": format_percent} | dict.fromkeys(("n_params", "ptpp", "tokens", "flops"), format_quantity)
    return Table.of(pd.DataFrame(answer.next_runs), formats, caption="Pilots that would narrow it most per FLOP")


def _studies(answer: Answer) -> Table:
    listed = pd.DataFrame(answer.evidence)[["outcome", "study", "shift", "source"]]
    return Table.of(listed, caption="Studies that it rests on")
