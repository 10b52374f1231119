"""What a user asks of `answer`: the model, what may be spent, what must be kept, and how sure that must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw.errors import UsageError
from cptlaw.planning.options import label
from cptlaw.planning.result import FLOPS_PER_PARAMETER_TOKEN
from cptlaw.planning.scenario import (
    AnswerQuestion,
    LimitedData,
    MinTokens,
    PlanQuestion,
    TradeOff,
    as_words,
    options_of,
    read_scenario,
)
from cptlaw.runs.schema import SMALLEST_RAW_COUNT
from cptlaw.signatures import Declared
from cptlaw.units import format_percent, format_quantity

RISK = options_of(AnswerQuestion)["risk"].default
WITHIN = 0.003  # of the target loss: the least by which two seeds of one run differ in any of our tables
IN_POINTS = ("min_score", "max_drop", "base_score")
RANGE = ("min_replay", "max_replay")
# The mix of a pareto question without limits is the end of the front with the lowest target loss.
KINDS: Mapping[str, Declared] = {
    "limited-data": LimitedData,
    "trade-off": TradeOff,
    "min-tokens": MinTokens,
    "pareto": TradeOff,
}


class Asked(PlanQuestion):
    """A question of `answer`, in raw parameters, raw tokens and FLOPs."""

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Asked:
        """Read a question from numbers or from texts such as ``"8B"`` and ``"2%"``.

        Raises
        ------
        UsageError
            If a value cannot be read, makes no sense, or two say what may be spent.
        """
        read = read_scenario(
            AnswerQuestion,
            {name: value for name, value in given.items() if not (isinstance(value, tuple | Mapping) and not value)},
            "answer",
        )
        if read.n_params is None:
            raise UsageError("answer needs the size of the model: --n-params 8B (n_params= in the library).")
        for name in ("n_params", "tokens", "target_tokens"):
            count = read.values[name]
            if count is not None and count < SMALLEST_RAW_COUNT:  # as in a table: a guess would be wrong by nine digits
                raise UsageError(
                    f"{label(name)}: {count:g}. Expected at least {SMALLEST_RAW_COUNT:g}. If billions are meant write "
                    f"{count:g}B, if millions {count:g}M."
                )
        spent = [name for name in ("tokens", "target_tokens", "budget") if name in read.given]
        if len(spent) > 1:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in spent)
            raise UsageError(f"{flags} each say what may be spent. Give one of them.")
        return cls(read.scenario, read.values, read.given)

    @property
    def plan_arguments(self) -> dict[str, Any]:
        """What the plan that answers it is asked, by the names of its options."""
        result = self.for_scenario(KINDS[self.kind])
        if self.kind == "min-tokens":
            result["max_tokens"] = self.spendable
        elif self.kind == "limited-data":
            result |= {"target_tokens": self.target_tokens, "within": WITHIN}
        else:
            result["tokens"] = self.spendable
        # A risk without a limit is refused by the plans: there would be nothing to keep with that probability.
        result["risk"] = self.risk if self.limited else None
        return {name: value for name, value in result.items() if value is not None}

    @property
    def command_words(self) -> list[str]:
        """The question as `answer` takes it on the command line."""
        known = options_of(AnswerQuestion)
        asked = {name: self.values[name] for name in known if self.values[name] != known[name].default}
        return as_words(AnswerQuestion, asked)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The scores that limits name."""
        return tuple(dict.fromkeys([*(self.min_score or {}), *(self.max_drop or {})]))

    @property
    def limited(self) -> bool:
        """Whether there is a limit to keep."""
        return self.max_forgetting is not None or self.max_target_loss is not None or bool(self.benchmarks)

    @property
    def limits(self) -> dict[str, float]:
        """The limits on forgetting and the target loss, by the names that an answer has for them."""
        known = {"max-forgetting": self.max_forgetting, "max-target-loss": self.max_target_loss}
        return {name: value for name, value in known.items() if value is not None}

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
        flops: float | None = self.budget
        tokens: float | None = self.tokens
        return tokens if flops is None else flops / (FLOPS_PER_PARAMETER_TOKEN * self.trained)

    @property
    def text(self) -> str:
        """The question in words."""
        model = f"{format_quantity(self.n_params, 4)} parameters"
        if self.n_active is not None:
            model += f", {format_quantity(self.trained, 4)} of them active"
        if self.ptpp is not None:
            budget = f"{self.ptpp:,.0f}" if self.ptpp >= 1000 else f"{self.ptpp:.4g}"
            model += f" ({budget} tokens each)"
        what = {
            "limited-data": f"with {format_quantity(self.target_tokens or 0, 4)} new tokens",
            "trade-off": f"on {format_quantity(self.spendable or 0, 4)} tokens",
            "min-tokens": "on as few tokens as will do",
        }.get(self.kind, "")
        if self.budget is not None:
            within = f"within {format_quantity(self.budget, 4)} FLOPs"
            within += f" ({format_quantity(self.spendable or 0, 4)} tokens)"
            what = f"{what}, {within}" if self.kind == "min-tokens" else within
        limits = []
        if self.max_forgetting is not None:
            limits.append(f"forgetting at most {format_percent(self.max_forgetting)}")
        if self.max_target_loss is not None:
            limits.append(f"target loss at most {self.max_target_loss:g}")
        limits += [f"{name} at least {format_percent(value)}" for name, value in (self.min_score or {}).items()]
        limits += [f"{name} down at most {100 * value:g} points" for name, value in (self.max_drop or {}).items()]
        return f"How to continue {model} {what}" + (f"; {', '.join(limits)}" if limits else "")
