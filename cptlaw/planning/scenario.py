"""What a plan is asked: typed scenarios, each option of which is declared once.

An entry of a scenario says how its value is read and what the command line says of it. Library, command line, report
and app all follow from here: an option that stands in `Mix` belongs to every plan of a mix. Two kinds of options need
nothing besides their declaration: inputs that laws read (``law_input``) and upper limits (``limit``).

Nothing heavy is imported: ``--help`` reads this file.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Annotated, Any, Literal, Required, Self, TypeAlias, TypedDict, get_type_hints

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.planning.options import (
    Entry,
    amount,
    as_given,
    at_least_one,
    by_name,
    change,
    choice,
    count,
    label,
    points,
    positive,
    probability,
    quantity,
    risk,
    share,
    word,
)
from cptlaw.signatures import Declared, spell_out
from cptlaw.units import Share, format_quantity

# A number, or text such as `"8.1B"`, `"2%"`, `"1e20"`; `None` as if it had not been given.
Quantity: TypeAlias = float | str | None
# Numbers by name, as a mapping or as texts such as `"code=2%"`; and several numbers, as `"1B,8B"` or one by one.
Named: TypeAlias = Mapping[str, float | str] | Iterable[str] | str | None
Numbers: TypeAlias = Iterable[float | str] | float | str | None

Measure = Literal["relative", "absolute"]
MEASURES: tuple[Measure, ...] = ("relative", "absolute")
ReferenceKind = Literal["measured", "law", "base-law", "asymptote", "min-tokens", "shifted"]
REFERENCES: tuple[ReferenceKind, ...] = ("measured", "law", "base-law", "asymptote", "min-tokens", "shifted")
REPETITION = ("forbid", "discount")
REPLAY_OF = ("own", "other")


class Intervals(TypedDict, total=False):
    """How sure the intervals of the losses are to be."""

    interval: Annotated[
        Quantity, Entry(probability, "Probability that the intervals hold, as 0.9 or 90%.", "P", default=0.9)
    ]


class KnownModel(TypedDict, total=False):
    """What is known of the base model and of the training.

    An option that is added here reaches every plan of a mix, allocate, mixes of k corpora, answer, report and app.
    """

    ptpp: Annotated[
        Quantity, amount("279", "Pre-training tokens per parameter of the base model.", "P", law_input=True)
    ]
    lr_peak: Annotated[
        Quantity,
        amount(
            "2e-4", "Peak rate of CPT, where a law reads it. [default: the best measured one]", "LR", law_input=True
        ),
    ]
    merge_weight: Annotated[
        Quantity,
        amount("0.7", "Weight in a merge with the base. [default: the best measured]", "W", law_input=True),
    ]
    lora_rank: Annotated[Quantity, amount("16", "Rank of adapters. [default: the best measured]", "R", law_input=True)]


class BaseLoss(TypedDict, total=False):
    """The base model's source loss, and how forgetting counts from it."""

    base_source_loss: Annotated[Quantity, amount("2.1", "Measured source loss of the base model.", "L0")]
    forgetting: Annotated[str, word(MEASURES, "Forgetting as a share of the base model's source loss, or in nats.")]


class ReferenceChoice(BaseLoss, total=False):
    """From which loss forgetting counts where none was measured; see `cptlaw.planning.reference`."""

    reference: Annotated[str, word(REFERENCES, "Where the base model's source loss comes from.")]
    base_law: Annotated[object, Entry(as_given, "Fit of ptpp-base, for --reference base-law.", "B.json")]


class OneCorpus(TypedDict, total=False):
    """The corpus that is asked about, where the fitted runs were on several."""

    domain: Annotated[str | None, Entry(as_given, "The corpus that is asked about, of those in column domain.", "NAME")]


class Mix(KnownModel, Intervals, ReferenceChoice, OneCorpus, total=False):
    """What every plan of one replay is given. An option that is added here reaches all of them, and the report."""


class Experts(TypedDict, total=False):
    """What a mixture of experts trains at each token. Compute and its cost count it; laws read all parameters."""

    n_active: Annotated[
        Quantity, amount("3.3B", "Parameters of n_params that are active for a token, where experts idle.", "N")
    ]


class Sized(Experts, total=False):
    """The model that is planned for."""

    n_params: Required[Annotated[Quantity, amount("8.1B", "Parameters of the model, as in 8.1B.", "N", law_input=True)]]


class Range(TypedDict, total=False):
    """The range of replay that is searched."""

    min_replay: Annotated[Quantity, Entry(share, "Smallest replay to consider. [default: the fitted one]", "R")]
    max_replay: Annotated[Quantity, Entry(share, "Largest replay to consider. [default: the fitted one]", "R")]


class WideRange(TypedDict, total=False):
    """The range of replay where it may lie beyond what the fits have seen."""

    min_replay: Annotated[Quantity, Entry(share, "Smallest replay to consider.", "R", default=0.0)]
    max_replay: Annotated[Quantity, Entry(share, "Largest replay to consider.", "R", default=0.95)]


class Risk(TypedDict, total=False):
    """How sure limits are to hold."""

    risk: Annotated[
        Quantity, Entry(risk, "Each limit holds with this probability, 0.5 to below 1, under the fits' doubt.", "P")
    ]


class Limits(Risk, total=False):
    """Limits on the source, and the probability with which all limits hold."""

    max_forgetting: Annotated[
        Quantity, Entry(change, "Limit on forgetting, as in 2%.", "X", limit="forgetting", in_nats=quantity)
    ]
    max_source_loss: Annotated[
        Quantity, amount("2.1", "Highest source loss, in the unit of the table.", "L", limit="source_loss")
    ]


class TargetLimit(TypedDict, total=False):
    """A limit on the target."""

    max_target_loss: Annotated[
        Quantity, amount("1.8", "Highest target loss, in the unit of the table.", "L", limit="target_loss")
    ]


class PointLimits(TypedDict, total=False):
    """Limits in points, on scores that are fitted for them."""

    min_score: Annotated[Named, Entry(points, "Least score, as in gsm8k=60%.", "NAME=X", several="min")]
    max_drop: Annotated[Named, Entry(points, "Limit on points lost, as in mmlu=1pt.", "NAME=X", several="max-drop")]
    base_score: Annotated[Named, Entry(points, "The base model's score.", "NAME=X", several="base-score")]


class ScoreLimits(PointLimits, total=False):
    """Limits on scores of benchmarks, in points, with the fits of these."""

    scores: Annotated[object, Entry(as_given, "Fit of a score. May be repeated.", "FIT.json", several="score")]


class LimitedMix(Mix, Sized, Limits, ScoreLimits, total=False):
    """A mix under limits."""


class Hardware(TypedDict, total=False):
    """What a run is trained on, to say its cost; see `cptlaw.planning.cost`."""

    gpus: Annotated[
        str | None,
        Entry(as_given, "Devices to say the cost in, as in 8xH100. [default: hours of an H100]", "KxNAME"),
    ]
    mfu: Annotated[Quantity, Entry(as_given, "Share of the devices' peak that training reaches. [default: 40%]", "P")]
    gpu_hour: Annotated[Quantity, Entry(as_given, "Price of an hour of one device, as in 2.50.", "PRICE")]


class Passes(TypedDict, total=False):
    """How often the tokens of the new domain may be read."""

    max_epochs: Annotated[
        Quantity,
        Entry(at_least_one, "Times that new text may be read; repeats count for less. [default: once]", "E"),
    ]


class Supply(Passes, total=False):
    """The tokens that there are to train on."""

    max_tokens: Annotated[Quantity, amount("100B", "Limit on adaptation tokens, as in 100B.", "D")]
    unique_target_tokens: Annotated[Quantity, amount("5B", "Target tokens there are.", "U")]
    repetition: Annotated[
        str, word(REPETITION, "Read target tokens once, or repeat them at the discounted worth of Muennighoff et al.")
    ]


class MinTokens(LimitedMix, TargetLimit, Range, Supply, total=False):
    """The question of `min_tokens`."""


class TradeOff(LimitedMix, TargetLimit, Range, total=False):
    """The question of `trade_off`."""

    tokens: Required[Annotated[Quantity, amount("10B", "Adaptation tokens, replay included.", "D")]]


class LimitedData(LimitedMix, TargetLimit, WideRange, Passes, total=False):
    """The question of `limited_data`."""

    target_tokens: Required[Annotated[Quantity, amount("5B", "Tokens of the target corpus that there are.", "D")]]
    within: Annotated[Quantity, Entry(share, "Fewest tokens so near the lowest loss, as in 0.3%.", "X", default=0.0)]


class Pareto(Mix, Sized, Range, ScoreLimits, Risk, total=False):
    """The question of `pareto`."""

    budget: Required[Annotated[Quantity, amount("5e19", "Compute, 6 x parameters x tokens, as in 5e19.", "FLOPS")]]
    points: Annotated[int, Entry(partial(count, least=2), "Limit on points of the front.", "K", default=20)]


_POSITIVE = partial(positive, example="2.1")


def _named(read: Callable[..., float], help: str, metavar: str, flag: str) -> Entry:
    """Declare numbers by the name of a corpus or an eval; the flag is repeated for each."""
    return Entry(partial(by_name, read=read), help, f"NAME={metavar}", several=flag)


class MixOfCorpora(KnownModel, Experts, Intervals, ScoreLimits, Risk, total=False):
    """The question of `mix`."""

    tokens: Required[Annotated[Quantity, amount("20B", "Tokens of the run, as in 20B.", "D")]]
    n_params: Annotated[
        Quantity, amount("1B", "Parameters of the model, where the laws read them.", "N", law_input=True)
    ]
    minimise: Annotated[
        Named,
        _named(_POSITIVE, "Weight of an eval's loss in what is minimised. [default: all alike]", "W", "minimise"),
    ]
    max_forgetting: Annotated[
        Named,
        replace(
            _named(change, "Limit on forgetting, as in web=2%.", "X", "max-forgetting"),
            in_nats=partial(by_name, read=quantity),
        ),
    ]
    max_loss: Annotated[Named, _named(_POSITIVE, "Highest loss of an eval, in the unit of the table.", "L", "max-loss")]
    base_loss: Annotated[
        Named,
        _named(_POSITIVE, "Base model's loss on an eval, from which forgetting counts.", "L0", "base-loss"),
    ]
    forgetting: Annotated[str, word(MEASURES, "Forgetting as a share of the base model's loss, or in nats.")]
    unique_tokens: Annotated[
        Named,
        _named(_POSITIVE, "Tokens that there are of a corpus, as in math=5B.", "U", "unique"),
    ]
    repetition: Annotated[
        str, word(REPETITION, "Read a pool once, or repeat it at the discounted worth of Muennighoff et al.")
    ]
    min_share: Annotated[
        Named, _named(share, "Smallest share of a corpus. [default: the fitted one]", "R", "min-share")
    ]
    max_share: Annotated[Named, _named(share, "Largest share of a corpus. [default: the fitted one]", "R", "max-share")]


class Allocate(KnownModel, Intervals, ScoreLimits, Risk, OneCorpus, total=False):
    """The question of `allocate`."""

    budget: Required[Annotated[Quantity, amount("5e19", "Compute, 6 x parameters x tokens, as in 5e19.", "FLOPS")]]
    replay: Annotated[Quantity, Entry(share, "Share of the source corpus, where the law reads it.", "R")]


class NextRuns(Experts, Intervals, total=False):
    """The question of `suggest`."""

    at: Required[
        Annotated[object, Entry(as_given, "The forecast that matters, as in n_params=8B,tokens=20B.", "K=V,..")]
    ]
    budget: Required[Annotated[Quantity, amount("1e20", "Compute for runs and new base models, as in 1e20.", "FLOPS")]]
    n: Annotated[int | None, Entry(partial(count, least=1), "Limit on cells.", "N", default=24)]
    sizes: Annotated[
        Numbers, Entry(as_given, "Sizes to choose from. [default: half the smallest to the asked one]", "N,N")
    ]
    ptpps: Annotated[Numbers, Entry(as_given, "Pre-training budgets to choose from. [default: seen to asked]", "P,P")]
    replays: Annotated[Numbers, Entry(as_given, "Mixes to choose from. [default: seen ones and the asked one]", "R,R")]
    tokens: Annotated[
        Numbers, Entry(as_given, "Lengths to choose from. [default: from an eighth of the longest]", "D,D")
    ]


class AnswerQuestion(KnownModel, Experts, PointLimits, TargetLimit, Range, Passes, Hardware, total=False):
    """The question of `answer`."""

    n_params: Annotated[Quantity, amount("8B", "Parameters of the model, as in 8B.", "N", law_input=True)]
    tokens: Annotated[Quantity, amount("20B", "Adaptation tokens there are to spend, replay included.", "D")]
    target_tokens: Annotated[Quantity, amount("5B", "Unique tokens of the new domain there are.", "D")]
    budget: Annotated[Quantity, amount("1e22", "Compute to spend, 6 x parameters x tokens, as in 1e22.", "FLOPS")]
    max_forgetting: Annotated[Quantity, Entry(change, "Limit on forgetting, as in 2%.", "X", limit="forgetting")]
    base_source_loss: Annotated[
        Quantity, amount("2.1", "Source loss of the base model, where no run measured it.", "L0")
    ]
    base_target_loss: Annotated[
        Quantity, amount("2.1", "Target loss of the base model, where no run measured it.", "L0")
    ]
    batch_tokens: Annotated[Quantity, amount("4M", "Tokens of an optimiser step. [default: the best known]", "D")]
    replay_of: Annotated[
        str | None,
        choice(REPLAY_OF, "Without RUNS: replay is text of the base's own pre-training, or other text. [default: own]"),
    ]
    method: Annotated[str | None, Entry(as_given, "Kind of runs, by column method. [default: the best]", "NAME")]
    vocab_added: Annotated[Quantity, Entry(quantity, "Tokens added to the vocabulary, where runs differ in it.", "V")]
    lr_pretrain: Annotated[
        Quantity, amount("2e-4", "Without RUNS: peak rate of pre-training. [default: usual for N]", "LR")
    ]
    risk: Annotated[Quantity, Entry(probability, "Each limit holds with this probability.", "P", default=0.8)]


SCENARIOS: dict[str, Declared] = {
    "min-tokens": MinTokens,
    "trade-off": TradeOff,
    "limited-data": LimitedData,
    "pareto": Pareto,
    "mix": MixOfCorpora,
    "allocate": Allocate,
}


# -- how scenarios are read ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanQuestion:
    """What was asked: the values of a scenario, each also an attribute.

    Parameters
    ----------
    scenario
        The class that declares them.
    values
        By name; defaults where none was given.
    given
        The names of those that were given.
    """

    scenario: Declared
    values: Mapping[str, Any]
    given: frozenset[str] = field(default=frozenset(), compare=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.values:
            raise AttributeError(f"this question has no {name!r}")
        return self.values[name]

    def replaced(self, **values: object) -> Self:
        """Return the question with other values; ``None`` takes one away."""
        given = (self.given | values.keys()) - {name for name, value in values.items() if value is None}
        return replace(self, values={**self.values, **values}, given=given)

    @property
    def law_inputs(self) -> dict[str, float]:
        """The inputs of laws that were given."""
        return {name: self.values[name] for name, one in options_of(self.scenario).items()
                if one.law_input and self.values[name] is not None}  # fmt: skip

    @property
    def trained(self) -> float:
        """Parameters that a token trains: all of them, or the active ones of a mixture of experts.

        Raises
        ------
        UsageError
            If more are active than there are.
        """
        active: float = self.values.get("n_active") or self.n_params
        if active > self.n_params:
            raise UsageError(
                f"{label('n_active')}: {format_quantity(active, 4)} of {format_quantity(self.n_params, 4)} parameters. "
                "Expected at most n_params, which counts all of them."
            )
        return active

    def for_scenario(self, scenario: Declared) -> dict[str, Any]:
        """Return what was given that another scenario takes too."""
        return {name: self.values[name] for name in options_of(scenario) if name in self.given}


def as_words(scenario: Declared, values: Mapping[str, Mapping[str, float] | str | float | None]) -> list[str]:
    """Return values of a scenario as the command line takes them."""
    result = []
    for name, value in values.items():
        flag = f"--{options_of(scenario)[name].several or name.replace('_', '-')}"
        if isinstance(value, Mapping):
            result += [word for key, one in value.items() for word in (flag, f"{key}={_amount(key, one)}")]
        elif value is not None:
            result += [flag, value if isinstance(value, str) else _amount(name, value)]
    return result


def _amount(name: str, value: float) -> str:
    if isinstance(value, Share) and value >= 1:  # without its sign it would not be read
        return f"{100 * value:.6g}%"
    return format_quantity(value, 6) if name.startswith("n_") or name.endswith("tokens") else f"{value:.6g}"


@cache
def options_of(scenario: Declared) -> dict[str, Entry]:
    """Return the options that a scenario declares, by name: what must be given first."""
    hints = get_type_hints(scenario, include_extras=True)
    # What `Annotated` carries may be more than one thing; the declaration is the one of them that is an `Entry`.
    result = {name: next(item for item in _metadata(hint) if isinstance(item, Entry)) for name, hint in hints.items()}
    required = vars(scenario)["__required_keys__"]
    return {name: result[name] for name in sorted(result, key=lambda name: name not in required)}


def _metadata(hint: Any) -> tuple[object, ...]:
    """Return what `Annotated` keeps, also where `Required` stands around it."""
    while not hasattr(hint, "__metadata__"):
        (hint,) = hint.__args__
    metadata: tuple[object, ...] = hint.__metadata__
    return metadata


def read_scenario(scenario: Declared, given: Mapping[str, object], plan: str) -> PlanQuestion:
    """Read what was given of a scenario; what was not has its default.

    Parameters
    ----------
    scenario
        One of the classes above.
    given
        Values by name.
    plan
        The plan, as the command line names it, for messages.

    Returns
    -------
    PlanQuestion

    Raises
    ------
    UsageError
        If an entry is unknown here, cannot be read, or is missing.
    """
    known = options_of(scenario)
    for name in given:
        if name not in known:
            others = [other for other, foreign in SCENARIOS.items() if name in options_of(foreign)]
            hint = f" It belongs to {' and '.join(others)}." if others else did_you_mean(name, known)
            raise UsageError(f"{plan} takes no {label(name)}.{hint} Its options: {', '.join(known)}.")
    missing = [name for name in known if name in vars(scenario)["__required_keys__"] and given.get(name) is None]
    if missing:
        raise UsageError(f"{plan} needs {'; '.join(f'{label(name)}: {known[name].help}' for name in missing)}")
    values: dict[str, object] = {}
    in_nats = given.get("forgetting") == "absolute"
    for name, option in known.items():
        value = given.get(name)
        # An interval of None asks for none; all else that is None was not given.
        values[name] = option.default if value is None and (name != "interval" or name not in given) else value
        if value is not None:
            values[name] = ((in_nats and option.in_nats) or option.read)(value, name)
    return PlanQuestion(scenario, values, frozenset(name for name in known if given.get(name) is not None))


def documented(function: Callable[..., object], scenario: Declared) -> None:
    """Spell out what a scenario declares, in the signature and the docstring of the function that takes it.

    The function takes ``**scenario: Unpack[..]``, which type checkers read; `help` and editors read the signature.
    """
    options = options_of(scenario)
    lines = ["", "    Options", "    -------"]
    for name, option in options.items():
        words = f" One of {', '.join(option.words)}." if option.words else ""
        default = "" if option.default is None else f" Default: {option.default}."
        lines += [f"    {name}", f"        {option.help}{words}{default}"]
    spell_out(function, scenario, {name: option.default for name, option in options.items()})
    function.__doc__ = (function.__doc__ or "").rstrip() + "\n" + "\n".join(lines) + "\n    "
