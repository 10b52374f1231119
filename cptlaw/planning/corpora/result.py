"""What a plan of k corpora says: the mix, and what to expect on every eval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cptlaw.planning.limits import LossLimit
from cptlaw.planning.result import LimitedPlan, number_text, quantity_text
from cptlaw.result import Line, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity, format_span


@dataclass(frozen=True, repr=False, kw_only=True)
class CorporaPlan(LimitedPlan):
    """A mix of k corpora; see `cptlaw.planning.result.LimitedPlan` for what plans under limits share.

    Quantities are raw parameters and raw tokens. Limits go by their names, such as ``"max-forgetting web"``.

    Attributes
    ----------
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
    value
        The weighted mean of the losses that is minimised, nats per token.
    best_measured_mix, gain_on_measured
        The best of the fitted mixes that keep the limits, at the planned scale; by how much the plan lies below it.
    repetition
        ``"forbid"`` or ``"discount"``, where pools were given.
    unit
        Of the losses.
    """

    tokens: float
    n_params: float | None = None
    flops: float | None = None
    minimise: Mapping[str, float] = field(default_factory=dict)
    laws: Mapping[str, str] = field(default_factory=dict)
    mix: Mapping[str, float] = field(default_factory=dict)
    corpus_tokens: Mapping[str, float] = field(default_factory=dict)
    epochs: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    value: float | None = None
    best_measured_mix: Mapping[str, float] | None = None
    gain_on_measured: float | None = None
    repetition: str | None = None
    unit: str = USUAL_UNIT
    _limits: tuple[LossLimit, ...] = field(default=(), compare=False)

    @property
    def limits(self) -> tuple[LossLimit, ...]:
        """The limits that were given."""
        return self._limits

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        model = "" if self.n_params is None else f" for {format_quantity(self.n_params, 4)} parameters"
        return f"Mix with the lowest loss{model} at {format_quantity(self.tokens, 4)} tokens"

    def _expected(self) -> list[Line]:
        shares = sorted(self.mix.items(), key=lambda item: -item[1])
        lines = [("mix", ", ".join(f"{name} {format_percent(share, 3)}" for name, share in shares))]
        one = next(iter(self.minimise)) if len(self.minimise) == 1 else f"{len(self.minimise)} evals, weighted"
        lines.append(("minimised", f"{number_text(self.value)} {self.unit} ({one})"))
        if self.gain_on_measured is not None:
            lines.append(("gain", f"{self.gain_on_measured:.2g} nats on the best of the measured mixes"))
        return lines

    def _price(self, value: float) -> str:
        return f"{number_text(value)} nats"

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
        most = {limit.name: limit.value for limit in self.limits}
        evals = []
        for name, value in self.losses.items():
            loss = format_span(value["loss"] or 0.0, value["loss_lo"], value["loss_hi"], most.get(f"max-loss {name}"))
            row = (name, f"{self.minimise.get(name, 0.0):.3g}", loss)
            evals.append((*row, self._forgotten(value, most.get(f"max-forgetting {name}"))) if forgets else row)
        titles = ("eval", "weight", "loss", *(("forgetting",) if forgets else ()))
        return [Table(head, tuple(corpora)), Table(titles, tuple(evals))]

    def _forgotten(self, loss: Mapping[str, float | None], most: float | None) -> str:
        value = loss.get("forgetting")
        return "-" if value is None else self._forgetting(value, loss["forgetting_lo"], loss["forgetting_hi"], most)
