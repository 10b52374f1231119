"""What a user asks, read once: the model, what may be spent, what must be kept, and how sure that must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.planning.options import points, positive, quantity, share
from cptlaw.planning.result import FLOPS_PER_PARAMETER_TOKEN
from cptlaw.units import format_percent, format_quantity, parse_probability

RISK = 0.8
WITHIN = 0.003  # of the target loss: the least by which two seeds of one run differ in any of our tables
IN_POINTS = ("min_score", "max_drop", "base_score")
RANGE = ("min_replay", "max_replay")


@dataclass(frozen=True)
class Asked:
    """A question in raw parameters, raw tokens and FLOPs.

    Parameters
    ----------
    n_params, ptpp
        The model, and the pre-training tokens per parameter of its base model.
    tokens, target_tokens, budget
        What may be spent: adaptation tokens in all, unique tokens of the target corpus, or the most FLOPs. At most one.
    max_forgetting
        Highest relative rise of the source loss above the base model's.
    max_target_loss
        Highest target loss, nats per token.
    base_source_loss, base_target_loss
        The base model's losses where no run measured them.
    batch_tokens
        Tokens of one optimiser step, without runs alone.
    lr_peak, lr_pretrain
        Peak rates of CPT and of pre-training; the latter without runs alone.
    min_score, max_drop, base_score
        By benchmark: the least score, the most points that it may lose, the base model's score where no run has it.
    min_replay, max_replay
        Range of replay that is searched; by default the one that was run.
    risk
        Probability with which each limit shall hold; ``None`` where the forecasts themselves must keep it.
    """

    n_params: float
    ptpp: float | None = None
    tokens: float | None = None
    target_tokens: float | None = None
    budget: float | None = None
    max_forgetting: float | None = None
    max_target_loss: float | None = None
    base_source_loss: float | None = None
    base_target_loss: float | None = None
    batch_tokens: float | None = None
    lr_peak: float | None = None
    lr_pretrain: float | None = None
    min_score: Mapping[str, float] | None = None
    max_drop: Mapping[str, float] | None = None
    base_score: Mapping[str, float] | None = None
    min_replay: float | None = None
    max_replay: float | None = None
    risk: float | None = RISK

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Asked:
        """Read a question from numbers or from texts such as ``"8B"`` and ``"2%"``.

        Raises
        ------
        UsageError
            If a value cannot be read, makes no sense, or two say what may be spent.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UsageError(f"answer takes no {name}.{did_you_mean(name, known)} It takes {', '.join(known)}.")
        read: dict[str, Any] = {
            name: positive(value, name, "8B")
            for name, value in given.items()
            if value is not None and name not in ("risk", "max_forgetting", *IN_POINTS, *RANGE)
        }
        if "n_params" not in read:
            raise UsageError("answer needs the size of the model: --n-params 8B (n_params= in the library).")
        spent = [name for name in ("tokens", "target_tokens", "budget") if name in read]
        if len(spent) > 1:
            flags = " and ".join(_flag(name) for name in spent)
            raise UsageError(f"{flags} each say what may be spent. Give one of them.")
        if (forgetting := given.get("max_forgetting")) is not None:
            read["max_forgetting"] = quantity(forgetting, "max_forgetting")
        for name in IN_POINTS:
            if given.get(name):
                read[name] = points(given[name], name)
        read |= {name: share(given[name], name) for name in RANGE if given.get(name) is not None}
        if (risk := given.get("risk")) is not None:
            read["risk"] = parse_probability(risk, "risk (--risk)")
        return cls(**read)

    def replaced(self, **values: Any) -> Asked:
        """Return the question with other values."""
        return replace(self, **values)

    @property
    def options(self) -> list[tuple[str, str]]:
        """What was given besides the model, as the command line takes it."""
        limited = self.limited
        texts = {
            "tokens": self.spendable if self.kind == "trade-off" else None,
            "max_tokens": self.spendable if self.kind == "min-tokens" else None,
            "budget": self.budget if self.kind == "pareto" else None,
            "target_tokens": self.target_tokens,
            "within": WITHIN if self.kind == "limited-data" else None,
            "max_forgetting": self.max_forgetting,
            "max_target_loss": self.max_target_loss,
            "base_source_loss": self.base_source_loss,
            "lr_peak": self.lr_peak,
            "min_replay": self.min_replay,
            "max_replay": self.max_replay,
            "risk": self.risk if limited else None,
        }
        found = [(_flag(name), f"{value:.6g}") for name, value in texts.items() if value is not None]
        flags = (("--min", self.min_score), ("--max-drop", self.max_drop), ("--base-score", self.base_score))
        return found + [(flag, f"{name}={value:.6g}") for flag, of in flags for name, value in (of or {}).items()]

    @property
    def words(self) -> list[str]:
        """The question as `answer` takes it on the command line."""
        words = []
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Mapping):
                flag = "--min" if item.name == "min_score" else _flag(item.name)
                words += [word for name, limit in value.items() for word in (flag, f"{name}={limit:.6g}")]
            elif value not in (None, item.default):
                counts = item.name == "n_params" or item.name.endswith("tokens")
                words += [_flag(item.name), format_quantity(value, 6) if counts else f"{value:.6g}"]
        return words

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The scores that limits name."""
        return tuple(dict.fromkeys([*(self.min_score or {}), *(self.max_drop or {})]))

    @property
    def limited(self) -> bool:
        """Whether there is a limit to keep."""
        return self.max_forgetting is not None or self.max_target_loss is not None or bool(self.benchmarks)

    @property
    def kind(self) -> str:
        """The plan that answers it, by what is given.

        target_tokens: limited-data. tokens: trade-off, the best mix of so many. budget: min-tokens, the cheapest mix
        within it, where the target is limited; trade-off, the best mix for it, where something else is; pareto, all
        compromises, where nothing is. None of these: min-tokens.
        """
        if self.target_tokens is not None:
            return "limited-data"
        if self.tokens is not None:
            return "trade-off"
        if self.budget is None or self.max_target_loss is not None or self.min_score:
            return "min-tokens"
        return "trade-off" if self.limited else "pareto"

    @property
    def spendable(self) -> float | None:
        """Adaptation tokens that may be spent, replay included, where that does not depend on the replay."""
        return self.budget / (FLOPS_PER_PARAMETER_TOKEN * self.n_params) if self.budget is not None else self.tokens

    @property
    def text(self) -> str:
        """The question in words."""
        model = f"a model of {format_quantity(self.n_params, 4)} parameters"
        if self.ptpp is not None:
            budget = f"{self.ptpp:,.0f}" if self.ptpp >= 1000 else f"{self.ptpp:.4g}"
            model += f", pre-trained on {budget} tokens per parameter"
        what = {
            "limited-data": f"with {format_quantity(self.target_tokens or 0, 4)} tokens of the new domain",
            "trade-off": f"on {format_quantity(self.spendable or 0, 4)} tokens",
            "min-tokens": "on as few tokens as will do",
        }.get(self.kind, "")
        if self.budget is not None:
            within = (
                f"within {format_quantity(self.budget, 4)} FLOPs ({format_quantity(self.spendable or 0, 4)} tokens)"
            )
            what = f"{what}, {within}" if self.kind == "min-tokens" else within
        limits = []
        if self.max_forgetting is not None:
            limits.append(f"forgetting at most {format_percent(self.max_forgetting)}")
        if self.max_target_loss is not None:
            limits.append(f"target loss at most {self.max_target_loss:g}")
        limits += [f"{name} at least {format_percent(value)}" for name, value in (self.min_score or {}).items()]
        limits += [f"{name} down at most {100 * value:g} points" for name, value in (self.max_drop or {}).items()]
        return f"How to continue {model}, {what}" + (f"; {', '.join(limits)}" if limits else "")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
