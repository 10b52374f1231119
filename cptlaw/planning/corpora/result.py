"""What a plan of k corpora says: the mix, and what to expect on every eval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cptlaw.findings import Finding
from cptlaw.planning.result import Plan, forgetting_text, limit_lines, number_text, quantity_text, score_text
from cptlaw.result import Line, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity, format_span


@dataclass(frozen=True, repr=False)
class CorporaPlan(Plan):
    """A mix of k corpora. Attributes are the JSON keys; quantities are raw parameters and raw tokens.

    Attributes
    ----------
    feasible
        Whether any mix keeps all limits.
    tokens, n_params, flops
        The run: tokens, parameters where given, and 6 n_params tokens.
    minimise
        Weights of the evals in what is minimised, by eval, adding up to one.
    laws
        The law of each eval.
    mix
        Share of each corpus, by name; empty where the plan is infeasible (as all below).
    corpus_tokens, epochs
        Tokens read of each corpus; how often each pool that was given is read.
    losses
        For each eval ``loss``, ``loss_lo``, ``loss_hi`` and, where the base model's loss is known, ``base_loss``,
        ``forgetting``, ``forgetting_lo``, ``forgetting_hi``.
    scores
        For each score that was given ``score`` (0 to 1), ``score_lo``, ``score_hi``, and where a drop is limited
        ``base`` and ``drop``.
    value
        The weighted mean of the losses that is minimised, nats per token.
    best_measured_mix, gain_on_measured
        The best of the fitted mixes that keep the limits, at the planned scale; by how much the plan lies below it.
    binding
        What keeps the plan from being better.
    blocking, best_reachable, feasible_from
        Where infeasible: as for `cptlaw.planning.result.MixPlan`, by the names of the limits.
    repetition
        ``"forbid"`` or ``"discount"``, where pools were given.
    risk, interval, price_of_doubt
        As for `cptlaw.planning.result.MixPlan`.
    findings
        The worst first.
    unit
        Of the losses.
    """

    feasible: bool
    tokens: float
    n_params: float | None = None
    flops: float | None = None
    minimise: Mapping[str, float] = field(default_factory=dict)
    laws: Mapping[str, str] = field(default_factory=dict)
    mix: Mapping[str, float] = field(default_factory=dict)
    corpus_tokens: Mapping[str, float] = field(default_factory=dict)
    epochs: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    value: float | None = None
    best_measured_mix: Mapping[str, float] | None = None
    gain_on_measured: float | None = None
    binding: tuple[str, ...] = ()
    blocking: str | None = None
    best_reachable: Mapping[str, float | None] | None = None
    feasible_from: Mapping[str, float] | None = None
    forgetting_measure: str = "relative"
    repetition: str | None = None
    risk: float | None = None
    interval: float | None = None
    price_of_doubt: float | None = None
    findings: tuple[Finding, ...] = ()
    unit: str = USUAL_UNIT

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        model = "" if self.n_params is None else f" for n_params {format_quantity(self.n_params, 4)}"
        return f"Mix with the lowest loss{model} at {format_quantity(self.tokens, 4)} tokens"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        if not self.feasible:
            return self._infeasible_lines()
        shares = sorted(self.mix.items(), key=lambda item: -item[1])
        lines = [("mix", ", ".join(f"{name} {format_percent(share, 3)}" for name, share in shares))]
        one = next(iter(self.minimise)) if len(self.minimise) == 1 else f"{len(self.minimise)} evals, weighted"
        lines.append(("minimised", f"{number_text(self.value)} {self.unit} ({one})"))
        if self.gain_on_measured is not None:
            lines.append(("gain", f"{self.gain_on_measured:.2g} nats on the best of the measured mixes"))
        lines += [(name, score_text(result)) for name, result in self.scores.items()]
        return lines + limit_lines(self, lambda price: f"{number_text(price)} nats")

    @property
    def tables(self) -> list[Table]:
        """The corpora, and the evals."""
        if not self.feasible:
            return []
        pooled = bool(self.epochs)
        head = ("corpus", "share", "tokens", *(("epochs",) if pooled else ()))
        corpora = []
        for name, share in self.mix.items():
            row = (name, format_percent(share, 4), quantity_text(self.corpus_tokens[name]))
            times = f"{self.epochs[name]:.2f}" if name in self.epochs else "-"
            corpora.append((*row, times) if pooled else row)
        forgets = any("forgetting" in value for value in self.losses.values())
        evals = []
        for name, value in self.losses.items():
            loss = format_span(value["loss"] or 0.0, value["loss_lo"], value["loss_hi"])
            row = (name, f"{self.minimise.get(name, 0.0):.3g}", loss)
            evals.append((*row, self._forgetting(value)) if forgets else row)
        titles = ("eval", "weight", "loss", *(("forgetting",) if forgets else ()))
        return [Table(head, tuple(corpora)), Table(titles, tuple(evals))]

    def _forgetting(self, loss: Mapping[str, float | None]) -> str:
        value = loss.get("forgetting")
        if value is None:
            return "-"
        relative = self.forgetting_measure == "relative"
        return forgetting_text(value, loss.get("forgetting_lo"), loss.get("forgetting_hi"), relative)

    def _amount(self, value: float) -> str:
        return format_percent(value, 3) if self.forgetting_measure == "relative" else number_text(value)

    def _infeasible_lines(self) -> list[Line]:
        lines = [("feasible", "no"), ("blocking", str(self.blocking))]
        for name, value in (self.best_reachable or {}).items():
            if value is not None:
                best = f"best {name}" if name.startswith("score ") else f"lowest for {name}"
                lines.append((best, self._show(name, value)))
        for name, value in (self.feasible_from or {}).items():
            more = "below" if name.startswith(("min-share", "min ")) else "above"
            lines.append((f"feasible with {name}", f"{more} {self._show(name, value)}"))
        if self.risk is not None:
            lines.append(("risk", f"each limit holds with probability {format_percent(self.risk)}"))
        return lines

    def _show(self, name: str, value: float) -> str:
        if name.startswith("unique"):
            return quantity_text(value)
        if name.startswith(("min-share", "max-share", "min ", "max-drop ", "score ", "drop ")):
            return format_percent(value, 4)
        return self._amount(value) if name.startswith("max-forgetting") else number_text(value)
