"""What plans are: frozen values that print well, show well in a notebook and go to JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity, has_error, said_by
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.laws.shared_tokens import FULL_TRAINING
from cptlaw.planning.limits import LossLimit
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.plan_fields import PLAN_FIELDS, field_line
from cptlaw.result import Line, Result
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity, format_span, short_percent

FLOPS_PER_PARAMETER_TOKEN = 6.0


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """Base of all plans. Attributes are the promised JSON keys; quantities are raw parameters and raw tokens.

    A plan is no surer than the fits that it rests on: their errors and warnings stand among its own findings.
    """

    _fits: tuple[Forecaster, ...] = field(default=(), compare=False, kw_only=True)

    def __post_init__(self) -> None:
        grave = (one for one in said_by((fit.on, fit.findings) for fit in self._fits) if one.severity != "info")
        object.__setattr__(self, "findings", by_severity([*self.findings, *grave]))


SHARES = frozenset(("replay", "min-replay", "max-replay", "min-share", "max-share", "min", "max-drop", "score", "drop"))
COUNTS = frozenset(("tokens", "max-tokens", "unique-target-tokens", "unique"))


@dataclass(frozen=True, repr=False, kw_only=True)
class LimitedPlan(Plan):
    """A plan under limits: what keeps it from being better or, where none keeps them, what is in the way.

    Attributes
    ----------
    feasible
        Whether anything keeps all limits.
    forgetting_measure
        Forgetting is a fraction, or nats per token where this is ``"absolute"``.
    scores
        By eval: ``score`` (0 to 1), ``score_lo``, ``score_hi``, and where a drop is limited ``base`` and ``drop``.
    binding
        What keeps the plan from being better.
    blocking
        Where infeasible: the limits of which lifting one would make it feasible, or, where none alone does, those that
        cannot be kept.
    best_reachable
        Where infeasible: the best value of each limited quantity that can be reached with the other limits kept.
    feasible_from
        Where infeasible: for each blocking limit the value beyond which there is a plan.
    risk, interval
        Probability with which limits hold, and coverage of ``_lo`` to ``_hi``.
    price_of_doubt
        With `risk`: by how much what the plan minimises lies above the plan without it; ``None`` where either is
        infeasible.
    findings
        The worst first.
    """

    feasible: bool
    forgetting_measure: str = "relative"
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    binding: tuple[str, ...] = ()
    blocking: str | None = None
    best_reachable: Mapping[str, float | None] | None = None
    feasible_from: Mapping[str, float] | None = None
    risk: float | None = None
    interval: float | None = None
    price_of_doubt: float | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        lines = self._found() if self.feasible else self._refused()
        lines += risk_lines(self.risk, self.findings)
        if self.feasible and self.price_of_doubt is not None:
            # A small difference of two losses or counts: more digits would be read as sure.
            lines.append(("with 50% probability", f"{self._price(float(f'{self.price_of_doubt:.2g}'))} less"))
        return lines

    def _found(self) -> list[Line]:
        """Return the plan, what is expected of it, and which limits bind."""
        scores = [(name, score_text(fields)) for name, fields in self.scores.items()]
        return [*self._expected(), *scores, ("binding", ", ".join(self.binding) or "nothing")]

    def _expected(self) -> list[Line]:
        raise NotImplementedError

    def _price(self, value: float) -> str:
        """Return an amount of what is minimised."""
        raise NotImplementedError

    def _refused(self) -> list[Line]:
        lines = [("feasible", "no"), ("blocking", str(self.blocking))]
        for name, value in (self.best_reachable or {}).items():
            if value is not None:
                label = f"lowest for {name}" if name.startswith("max-") else f"best {name.replace('_loss', ' loss')}"
                lines.append((label, self._amount(name, value) + self._where_reached()))
        for name, value in (self.feasible_from or {}).items():
            side = "below" if name.startswith("min") else "above"
            lines.append((f"feasible with {name}", f"{side} {self._amount(name, value)}"))
        return lines

    def _where_reached(self) -> str:
        """Return where the best values are reached, to stand behind each; empty where there is one place."""
        return ""

    def _amount(self, name: str, value: float) -> str:
        """Print a value of a limited quantity or of a limit."""
        kind = name.partition(" ")[0]
        relative = kind.endswith("forgetting") and self.forgetting_measure == "relative"
        if relative or kind in SHARES:
            return format_percent(value, 4)
        return quantity_text(value) if kind in COUNTS else number_text(value)

    def _forgetting(self, value: float, low: float | None, high: float | None, limit: float | None = None) -> str:
        return forgetting_text(value, low, high, self.forgetting_measure == "relative", limit)


def risk_lines(risk: float | None, findings: Iterable[Finding]) -> list[Line]:
    """Return what a plan says of the probability with which its limits hold: nothing beside an error."""
    if risk is None or has_error(findings):
        return []
    return [("risk", f"each limit holds with probability {format_percent(risk)}")]


class OfModel(Protocol):
    """A plan for a model."""

    @property
    def n_params(self) -> float:
        """Its parameters."""

    @property
    def ptpp(self) -> float | None:
        """Its pre-training tokens per parameter, where given."""


def model_text(plan: OfModel) -> str:
    """Return the model that a plan is for: its size and, where given, its pre-training tokens per parameter."""
    size, budget = (PLAN_FIELDS[name] for name in ("n_params", "ptpp"))
    trained = "" if plan.ptpp is None else f", {budget.text(plan.ptpp)} {budget.label}"
    return f"{size.text(plan.n_params)} {size.label}{trained}"


def weights_text(plan: object) -> str:
    """Return what a plan says of adapters and of a merge with the base model, where its laws read them."""
    weight, rank = (getattr(plan, name, None) for name in FULL_TRAINING)
    full_rank = FULL_TRAINING["lora_rank"]
    adapters = "" if rank is None else "all trained" if rank >= full_rank else f"adapters of rank {rank:g}"
    merge = "" if weight is None else "not merged" if weight == 1 else f"merged back at {weight:g}"
    return ", ".join(filter(None, (adapters, merge)))


@dataclass(frozen=True, repr=False, kw_only=True)
class MixPlan(LimitedPlan):
    """A mix to train on: replay, tokens, and the losses to expect. See `LimitedPlan` for what plans under limits share.

    Attributes
    ----------
    n_params, ptpp
        The model: parameters, and pre-training tokens per parameter where given.
    lr_peak
        Peak rate of CPT: where a law reads it the given one, or the best of the measured ones; else where the runs vary
        rate and batch, that of their valley.
    batch_tokens
        Tokens of a step: those of that valley, else of the runs nearest in size.
    merge_weight, lora_rank
        Weight of the adapted model in a merge with its base, and rank of its adapters, likewise.
    replay
        Share of the source corpus; ``None`` where no law reads it, or the plan is infeasible (as all below).
    tokens, atpp, flops
        Adaptation tokens, replay included; tokens per parameter; 6 n_params tokens.
    target_tokens, source_tokens
        The two parts of `tokens`.
    target_loss, source_loss
        Nats per token, each with ``_lo`` and ``_hi``, between which a measured loss lies with probability `interval`.
    forgetting
        Against the base model's source loss. Its interval has the doubt about that loss in it where it was not
        measured.
    base_source_loss, reference
        The loss from which forgetting counts, and which of the references it is.
    """

    n_params: float
    ptpp: float | None
    lr_peak: float | None = None
    batch_tokens: float | None = None
    merge_weight: float | None = None
    lora_rank: float | None = None
    replay: float | None = None
    tokens: float | None = None
    atpp: float | None = None
    flops: float | None = None
    target_tokens: float | None = None
    source_tokens: float | None = None
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
    reference: str | None = None
    _mix: FittedMix | None = field(default=None, compare=False)

    @property
    def mix(self) -> FittedMix | None:
        """The scenario with its fits, from which `plot` draws; ``None`` for a plan that was put together by hand."""
        return self._mix

    @property
    def fitted_mix(self) -> FittedMix:
        """The same, for what cannot do without.

        Raises
        ------
        UsageError
            If this plan was read from a file or put together by hand.
        """
        if self._mix is None:
            raise UsageError("this plan does not know its fits, as one read from a file: ask for it again.")
        return self._mix

    @property
    def limits(self) -> tuple[LossLimit, ...]:
        """The limits that were given."""
        return () if self._mix is None else self._mix.limits

    @property
    def searched_range(self) -> dict[str, float]:
        """The ends of the range of replay that were given, rather than taken from the fits."""
        if self._mix is None:
            return {}
        ends = {"min_replay": self._mix.low, "max_replay": self._mix.high}
        return {name: value for name, value in ends.items() if name in self._mix.given.given}

    @property
    def unit(self) -> str:
        """The unit of the losses, as the tables of the fits have them."""
        return USUAL_UNIT if self._mix is None else self._mix.unit

    def _question(self) -> str:
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{self._question()} for {model_text(self)}"

    def _expected(self) -> list[Line]:
        known = [
            (name, getattr(self, name)) for name in ("replay", "lr_peak", "batch_tokens", "tokens", "atpp", "flops")
        ]
        lines = [field_line(name, value) for name, value in known if value is not None]
        if weights := weights_text(self):
            lines.append(("weights", weights))
        for role in ("target", "source"):
            loss, low, high = (getattr(self, f"{role}_loss{end}") for end in ("", "_lo", "_hi"))
            if loss is not None:
                limit = self.limit_of(f"{role}_loss")
                lines.append((PLAN_FIELDS[f"{role}_loss"].label, f"{format_span(loss, low, high, limit)} {self.unit}"))
        if self.forgetting is not None:
            ends, limit = (self.forgetting_lo, self.forgetting_hi), self.limit_of("forgetting")
            text = self._forgetting(self.forgetting, *ends, limit)
            base = f"of the base model's {number_text(self.base_source_loss)} ({self.reference})"
            lines.append((PLAN_FIELDS["forgetting"].label, f"{text} {base}"))
        return lines

    def limit_of(self, quantity: str) -> float | None:
        """Return the limit on a quantity, where there is one."""
        return next((limit.value for limit in self.limits if limit.about == quantity), None)

    def _price(self, value: float) -> str:
        return f"{number_text(value)} {self.unit.split()[0]} of target loss"


def score_text(fields: Mapping[str, float | None]) -> str:
    """Print what is expected of a score: ``43% (40% to 46%), 1.2 points below the base model's 44.2%``."""
    text = format_percent(fields["score"] or 0.0)
    low, high = fields.get("score_lo"), fields.get("score_hi")
    if low is not None and high is not None:
        text += f" ({format_percent(low)} to {format_percent(high)})"
    base, drop = fields.get("base"), fields.get("drop")
    if base is not None and drop is not None:
        text += (
            f", {abs(100 * drop):.2g} points {'below' if drop > 0 else 'above'} the base model's {format_percent(base)}"
        )
    return text


def flops_of(n_params: float, tokens: float) -> float:
    """Return training FLOPs, 6 N D."""
    return FLOPS_PER_PARAMETER_TOKEN * n_params * tokens


def forgetting_text(
    value: float, low: float | None, high: float | None, relative: bool = True, limit: float | None = None
) -> str:
    """Print forgetting with its interval, of which either end may be open: a share in percent, or nats."""
    if not relative:
        return format_span(value, low, high, limit)
    text, ends = short_percent(value, limit), [short_percent(end) for end in (low, high) if end is not None]
    span = f"{'up to ' * (low is None)}{' to '.join(ends)}{' or more' * (high is None)}"
    return f"{text} ({span})" if ends else text


def number_text(value: float | None, digits: int = 5) -> str:
    """Print a loss or a ratio."""
    return "not known" if value is None else f"{value:.{digits}g}"


def quantity_text(value: float | None) -> str:
    """Print a count of parameters, tokens or FLOPs."""
    return "not known" if value is None else format_quantity(value, 4)
