"""The answer without any run: what the studies of others say of each share of replay, the rate, and three pilots.

What is expected is relative to the base model's losses, which differ between tokenizers and corpora: forgetting as a
share of its source loss, the gain as a share of its target loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.answering import batches
from cptlaw.answering.alternatives import ENDS, merge_and_adapters
from cptlaw.answering.question import RISK, Asked
from cptlaw.answering.result import Answer
from cptlaw.answering.takes import MIX, SURER, lowest_probability
from cptlaw.commands import command_line
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.learned import forgetting_and_gain as studies
from cptlaw.fitting.prior_fit import SHIFT_ASSUMED, KnownBase, PriorFit, prior_fit
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import Columns
from cptlaw.planning.mixes.repetition import effective_tokens
from cptlaw.planning.result import flops_of
from cptlaw.units import FEWEST_STEPS, ROW, format_percent, format_quantity

SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5)  # of replay, in the table
MOST_REPLAY = 0.9  # where the search ends: beyond it no study has a gain
LEAST_TOKENS = 0.01  # of what there is to spend: a plan may spend less, where no replay keeps the limit
NEARLY = 0.95  # of the best gain: what the cheapest plan must reach
PRACTICE = "published practice replays 5 to 30 % (Ibrahim et al. 2024, Gu et al. 2024)"
PILOT_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)  # of the tokens that are asked about
PILOT_REPLAYS = (0.0, 0.05, 0.1, 0.25, 0.5)
PILOT_RATES = (1.0, 0.5, 2.0)  # of the advised peak, a pilot each: what another rate does is unknown too
PILOT_STEPS = 200  # at the advised batch: below these a schedule has no shape
INTERVAL = 0.9
RATES = (0.1, 1.0)  # of the peak of pre-training: where published runs lie
SEEN_RATES = (0.01, 2.0)
HARDLY = 0.03  # of an outcome: what an input must move at its double to matter
DOUBLED = {"n_params": "parameters", "ptpp": "tokens of pre-training", "tokens": "tokens of this run"}


@dataclass(frozen=True)
class Setting:
    """What is asked, complete: what studies say of the base model's two losses, and the rates that the answer takes.

    Parameters
    ----------
    source, target
        The priors of the two losses.
    n_params, ptpp
        The base model.
    lr_peak
        Peak rate of CPT, as asked, else `studies.TYPICAL_RATE` of that of pre-training.
    unique
        Tokens of the new domain that there are, where they may be read more than once.
    """

    source: PriorFit
    target: PriorFit
    n_params: float
    ptpp: float
    lr_peak: float
    unique: float | None = None

    @property
    def shift(self) -> str:
        """The kind of new text; one unlike the old where it was not said."""
        return self.source.study.shift or studies.UNLIKE

    @property
    def lr_pretrain(self) -> float:
        """Peak rate of pre-training, as given or as is usual for the size."""
        return self.source.lr_pretrain

    def points(self, replay: ArrayLike, tokens: ArrayLike, lr_peak: ArrayLike | None = None) -> Columns:
        """Return mixes as points of a forecast."""
        mix = {"replay": np.atleast_1d(replay), "tokens": np.atleast_1d(tokens)}
        rate = self.lr_peak if lr_peak is None else lr_peak
        return Columns(mix, np.arange(len(mix["replay"]))).assign(n_params=self.n_params, ptpp=self.ptpp, lr_peak=rate)

    def forgetting(self, replay: ArrayLike, tokens: ArrayLike, lr_peak: ArrayLike | None = None) -> studies.Outlook:
        """Return forgetting at mixes."""
        return self.source.outlook(self.points(replay, tokens, lr_peak))

    def gain(self, replay: ArrayLike, tokens: ArrayLike, lr_peak: ArrayLike | None = None) -> studies.Outlook:
        """Return the gain of the target loss at mixes."""
        counted = tokens if self.unique is None else effective_tokens(tokens, replay, self.unique)
        return self.target.outlook(self.points(replay, counted, lr_peak))


def from_studies(question: Asked, shift: str | None) -> Answer:
    """Answer a question from the studies alone; of a shift that is not told, as of another domain.

    Raises
    ------
    UsageError
        If the shift is unknown, or nothing says how many tokens there are.
    """
    setting = _base_model_setting(question, shift)
    table = tuple(replay_rows(setting, question, SHARES))
    knee = SHARES[_knee_index([row["forgetting"] for row in table])]
    limited = question.max_forgetting is not None or _least_gain(question) is not None
    plans = _best_and_cheapest(setting, question, question.risk or RISK) if limited else {}
    plan = plans.get("best")
    chosen: dict[str, Any] = {"feasible": plan is not None if limited else None}
    if plan is not None:
        even = _best_and_cheapest(setting, question, 0.5).get("best", plan)
        chosen |= _answer_fields(setting, question, plan)
        chosen |= {"cheapest": plans["cheapest"], "without_risk": {"feasible": True, **_mix_fields(even)}}
    elif limited:
        chosen |= _blocking_limit(setting, question)
    at = plan or table[SHARES.index(knee)]
    part = at["tokens"] / float(_affordable_tokens(question, at["replay"]))  # a plan need not spend all that there is
    read = setting.n_params * setting.ptpp
    batch = batches.recommend_batch(question.trained, read, at["tokens"], question.batch_tokens)
    pilots = next_pilots(setting, question, question.batch_tokens or batch["batch_tokens"])
    return Answer(
        question=question.text,
        kind=question.kind,
        **chosen,
        base_source_loss=question.base_source_loss,
        risk=question.risk,
        options=table,
        knee=knee,
        **_rate_fields(setting, at),
        **batch,
        alternatives=(
            *_other_choices(setting, question, plans, table),
            *_merge_and_adapter_runs(setting, question, at),
        ),
        reference=_estimated_reference(setting),
        searched=(0.0, MOST_REPLAY),
        along_replay=partial(_rows_along_replay, setting, question, part),
        next_runs=tuple(
            {
                **{str(key): value for key, value in cell.items()},
                "n_active": question.n_active,
                "batch_tokens": question.batch_tokens or batch["batch_tokens"],
                "narrows": {"of": "forgetting", "by": cell["gain"]},
            }
            for cell in pilots.to_dict("records")
        ),
        rule_of_thumb=PRACTICE,
        findings=(*_answer_findings(question, setting, pilots, at), *([SHIFT_ASSUMED] if shift is None else [])),
        evidence=_study_evidence(),
        commands=(_pilots_command(question, setting.shift),),
    )


def _base_model_setting(question: Asked, shift: str | None) -> Setting:
    """Refuse what cannot be answered without runs, and complete the rest."""
    studies.check_shift(shift)
    missing = []
    if question.ptpp is None:
        missing.append("the base model's tokens per parameter: --ptpp 1875, or --base llama-3.1-8b")
    if question.target_tokens is None and question.spendable is None:
        missing.append(
            "what there is to spend: --target-tokens 20B (of the new domain), --tokens 20B (in all) or --budget 1e21 "
            "(FLOPs)"
        )
    if missing:
        raise UsageError(f"answer without runs needs to know {'; and '.join(missing)}.")
    known = KnownBase(**{one.name: getattr(question, one.name) for one in fields(KnownBase)})
    source, target = (prior_fit(on, known, shift) for on in ("source", "target"))
    peak = question.lr_peak or studies.TYPICAL_RATE * source.lr_pretrain
    repeated = (question.max_epochs or 1.0) > 1.0
    unique = question.target_tokens if repeated else None
    return Setting(source, target, question.n_params, question.ptpp, peak, unique)


def replay_rows(
    setting: Setting, question: Asked, replay: ArrayLike, tokens: Array | None = None
) -> list[dict[str, float]]:
    """Return rows of the table of replay: tokens, FLOPs, forgetting, fall of the target loss, and their intervals."""
    shares = np.asarray(replay, dtype=float)
    spent = _affordable_tokens(question, shares) if tokens is None else tokens
    lost, won = setting.forgetting(shares, spent), setting.gain(shares, spent)
    columns = {"replay": shares, "tokens": spent, "flops": flops_of(question.trained, 1.0) * spent}
    for end, probability in (("", 0.5), ("_lo", 0.5 - INTERVAL / 2), ("_hi", 0.5 + INTERVAL / 2)):
        columns |= {f"forgetting{end}": lost.quantile(probability), f"target_gain{end}": won.fall(probability)}
    if question.max_forgetting is not None:
        columns["probability"] = lost.probability_below(question.max_forgetting)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _rows_along_replay(setting: Setting, question: Asked, part: float, replay: ArrayLike) -> list[dict[str, float]]:
    """Return the rows of shares of replay at a part of the tokens that may be spent."""
    return replay_rows(setting, question, replay, part * _affordable_tokens(question, replay))


def _affordable_tokens(question: Asked, replay: ArrayLike) -> Array:
    """Return the tokens, replay included, that may be spent at shares of replay, (n,)."""
    if question.target_tokens is not None:
        return np.asarray((question.max_epochs or 1.0) * question.target_tokens / (1.0 - np.asarray(replay)))
    return np.full(np.shape(replay), question.spendable or 0.0)


def _knee_index(forgetting: list[float]) -> int:
    """Return the place of the share that lies furthest below the straight line from the first to the last."""
    shares, values = np.array(SHARES), np.array(forgetting)
    line = values[0] + (values[-1] - values[0]) * (shares - shares[0]) / (shares[-1] - shares[0])
    return int(np.argmax(line - values))


def _best_and_cheapest(setting: Setting, question: Asked, risk: float) -> dict[str, dict[str, float]]:
    """Return the plan of the highest gain that keeps the limits, and the cheapest one that nearly gains as much.

    At each share of what may be spent, the least replay that keeps the limit on forgetting is found by bisection: its
    quantile falls with replay. None of them keeps the limits: an empty dictionary.
    """
    spent = np.geomspace(1.0, LEAST_TOKENS, 93)

    def tokens(replay: Array) -> Array:
        return spent * _affordable_tokens(question, replay)

    def keeps(replay: Array) -> Array:
        if question.max_forgetting is None:
            return np.ones(len(replay), dtype=bool)
        lost = setting.forgetting(replay, tokens(replay))
        return np.asarray(lost.quantile(risk) <= question.max_forgetting)

    low, high = np.zeros(len(spent)), np.full(len(spent), MOST_REPLAY)
    able = keeps(high)
    high[keeps(low)] = 0.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        kept = keeps(middle)
        low, high = np.where(kept, low, middle), np.where(kept, middle, high)
    won = setting.gain(high, tokens(high))
    if (least := _least_gain(question)) is not None:
        able = np.logical_and(able, won.quantile(1.0 - risk) >= least)
    if not able.any():
        return {}
    gain = np.where(able, won.fall(0.5), -np.inf)
    best = int(np.argmax(gain))
    enough = np.flatnonzero(gain >= NEARLY * gain[best])
    cheap = int(enough[np.argmin(tokens(high)[enough])])
    at = [best, cheap]
    return dict(zip(("best", "cheapest"), replay_rows(setting, question, high[at], tokens(high)[at]), strict=True))


def _least_gain(question: Asked) -> float | None:
    """Return the gain that a limit on the target loss asks for, where it is known from which loss it counts."""
    if question.max_target_loss is None or question.base_target_loss is None:
        return None
    return float(np.log(question.base_target_loss / question.max_target_loss))


def _blocking_limit(setting: Setting, question: Asked) -> dict[str, object]:
    """Return which limit nothing keeps, and the best value in reach: of the target loss, within that of forgetting."""
    risk = question.risk or RISK
    near = _best_and_cheapest(setting, question.replaced(max_target_loss=None), risk).get("best")
    blocking = "max-forgetting" if near is None else "max-target-loss"
    if near is None:
        replays = np.linspace(0.0, MOST_REPLAY, 100)
        few = LEAST_TOKENS * _affordable_tokens(question, replays)
        forgotten = setting.forgetting(replays, few).quantile(risk)
        place = int(np.argmin(forgotten))
        limit = float(forgotten[place])
        (near,) = replay_rows(setting, question, replays[[place]], few[[place]])
    else:
        fall = float(setting.gain(near["replay"], near["tokens"]).fall(1.0 - risk)[0])
        limit = (question.base_target_loss or 0.0) * (1.0 - fall)
    of_plan = _answer_fields(setting, question, near)
    reach = {name: of_plan.get(name) for name in ("replay", "tokens", "target_loss", "forgetting")}
    reach |= {"limit": limit, "probability": lowest_probability(of_plan["probabilities"])}
    return {"blocking": blocking, "best_reachable": reach}


def _estimated_reference(setting: Setting) -> dict[str, object]:
    """Return the base model's source loss as given, or as estimated; forgetting is a share of it and needs none."""
    (log_loss,), (doubt,) = setting.source.base_losses(setting.points(0.0, 0.0))
    kind, loss = "given" if doubt == 0 else "estimated", float(np.exp(log_loss))
    return {"kind": kind, "loss": loss, "sd": loss * float(doubt)}


def _other_choices(
    setting: Setting, question: Asked, plans: Mapping[str, Mapping[str, float]], table: tuple[Mapping[str, float], ...]
) -> tuple[Mapping[str, object], ...]:
    """Return the cheaper, the safer and the run without replay beside a plan."""
    best, risk = plans.get("best"), question.risk or RISK
    if best is None:
        return ()
    result = [("cheaper", f"{NEARLY:.0%} of the gain", plans["cheapest"])]
    for surer in SURER:
        if surer > risk and (other := _best_and_cheapest(setting, question, surer).get("best")) is not None:
            result.append(("safer", f"limits with {format_percent(surer)} probability", other))
            break
    if best["replay"] > 0.0:
        result.append(("no-replay", "no replay", table[0]))
    kept = [
        {"name": name, "change": change, "method": MIX, **_answer_fields(setting, question, row)}
        for name, change, row in result
        if name != "cheaper" or row["tokens"] < best["tokens"]
    ]
    return tuple(
        {
            **{key: value for key, value in row.items() if key not in ("probabilities", "target_gain")},
            "target_gain": row["target_gain"][1],
            "probability": lowest_probability(row["probabilities"]),
        }
        for row in kept
    )


def _mix_fields(plan: Mapping[str, float]) -> dict[str, float]:
    """Return the mix of a row, without what it leads to."""
    return {name: plan[name] for name in ("replay", "tokens", "flops")}


def _answer_fields(setting: Setting, question: Asked, plan: Mapping[str, float]) -> dict[str, Any]:
    """Return a plan as fields of an answer."""
    ends = ("", "_lo", "_hi")
    fields: dict[str, object] = {**_mix_fields(plan), "atpp": plan["tokens"] / setting.n_params}
    fields |= {f"forgetting{end}": plan[f"forgetting{end}"] for end in ends}
    if (base := question.base_source_loss) is not None:
        fields |= {f"source_loss{end}": base * (1.0 + plan[f"forgetting{end}"]) for end in ends}
    if (base := question.base_target_loss) is not None:  # the higher end of a loss is the lower one of its fall
        falls = zip(ends, ("", "_hi", "_lo"), strict=True)
        fields |= {f"target_loss{end}": base * (1.0 - plan[f"target_gain{other}"]) for end, other in falls}
    fields["target_gain"] = tuple(plan[f"target_gain{end}"] for end in ("_lo", "", "_hi"))
    kept = {"max-forgetting": plan["probability"]} if "probability" in plan else {}
    if (least := _least_gain(question)) is not None:
        won = setting.gain(plan["replay"], plan["tokens"])
        kept["max-target-loss"] = 1.0 - float(won.probability_below(least)[0])
    return fields | {"probabilities": kept}


def _merge_and_adapter_runs(
    setting: Setting, question: Asked, at: Mapping[str, float]
) -> tuple[Mapping[str, object], ...]:
    """Return what the run without replay comes to, merged back or as an adapter, in shares of base losses."""
    lost, won = setting.forgetting(0.0, at["tokens"]), setting.gain(0.0, at["tokens"])
    without = {
        "source": np.array([1.0 + lost.quantile(end)[0] for end in ENDS]),
        "target": np.array([np.exp(-won.quantile(1.0 - end)[0]) for end in ENDS]),
    }
    result = merge_and_adapters(
        {"source": 1.0, "target": 1.0}, without, at["forgetting"], at["tokens"], setting.n_params
    )
    base = question.base_target_loss  # without it the loss itself is not known, but for its fall
    return tuple(
        {
            key: (None if base is None else base * value) if key.startswith("target_loss") else value
            for key, value in each.items()
        }
        for each in result
    )


def _rate_fields(setting: Setting, at: Mapping[str, float]) -> dict[str, Any]:
    """Return the peak rate with its range, why, and what half and twice of it would do."""
    low, high = (factor * setting.lr_pretrain for factor in RATES)
    options = []
    for factor in (0.5, 1.0, 2.0):
        mix = at["replay"], at["tokens"], factor * setting.lr_peak
        lost, won = setting.forgetting(*mix), setting.gain(*mix)
        values = {"forgetting": float(lost.quantile(0.5)[0]), "target_gain": float(won.fall(0.5)[0])}
        options.append({"lr_peak": factor * setting.lr_peak, **values})
    origin = "given" if setting.source.study.lr_pretrain is not None else "usual for this size"
    why = (
        f"published runs lie between a tenth and the whole of the peak of pre-training, {setting.lr_pretrain:.2g} "
        f"({origin}); warm-up over 1 % of the steps, decay to a tenth or less"
    )
    return {
        "lr_peak": setting.lr_peak,
        "lr_peak_lo": low,
        "lr_peak_hi": high,
        "lr_why": why,
        "lr_options": tuple(options),
    }


def next_pilots(setting: Setting, question: Asked, batch_tokens: float) -> pd.DataFrame:
    """Return the three short runs of the base model that would narrow the forecast most per FLOP, in order.

    Each has another peak rate, and at least `PILOT_STEPS` steps of the advised batch, where the run itself has them.

    Returns
    -------
    DataFrame
        n_params, ptpp, replay, tokens, flops, lr_peak, gain: by which share the spread of forgetting falls with this
        run and those above it, on average over the shares of replay in the table.
    """
    asked = setting.points(SHARES, _affordable_tokens(question, SHARES))
    whole = float(_affordable_tokens(question, 0.0))
    lengths = sorted({min(max(share * whole, PILOT_STEPS * batch_tokens), whole) for share in PILOT_SHARES})
    mixes = [(replay, tokens) for replay in PILOT_REPLAYS for tokens in lengths]
    replays, spent = np.tile(mixes, (len(PILOT_RATES), 1)).T
    rates = np.repeat(PILOT_RATES, len(mixes)) * setting.lr_peak
    cells = pd.DataFrame(dict(setting.points(replays, spent, rates).columns))
    cells["flops"] = [flops_of(question.trained, tokens) for tokens in cells["tokens"]]
    both = {name: np.concatenate([values, cells[name]]) for name, values in asked.columns.items()}
    joint = studies.learned("forgetting").joint(
        "forgetting", setting.source.in_studies(Columns(both, np.arange(len(asked) + len(cells))))
    )
    before = float(setting.source.outlook(asked).spread.mean())
    taken: list[int] = []
    gains = []
    spread = before
    for number in range(len(PILOT_RATES)):
        left = {
            place: float(studies.posterior_spread(joint, len(asked), [len(asked) + i for i in (*taken, place)]).mean())
            for place in range(number * len(mixes), (number + 1) * len(mixes))
        }
        # A run's worth is what it takes off the spread; what it costs counts by its square root, for a pilot costs
        # the attention of people too, and the cheapest would always win otherwise.
        best = max(left, key=lambda place: (spread - left[place]) / float(np.sqrt(cells["flops"].iloc[place])))
        taken.append(best)
        spread = left[best]
        gains.append(1.0 - spread / before)
    chosen = cells.iloc[taken].reset_index(drop=True)
    return chosen[["n_params", "ptpp", "replay", "tokens", "flops", "lr_peak"]].assign(gain=gains)


def _pilots_command(question: Asked, shift: str) -> str:
    """Return the command that writes the pilots of this question."""
    return command_line(["cptlaw", "answer", *question.command_words, "--shift", shift, "--pilots", "pilots"])


def _answer_findings(
    question: Asked, setting: Setting, pilots: pd.DataFrame, at: Mapping[str, float]
) -> tuple[Finding, ...]:
    listed = [*{each["study"]: each for each in _study_evidence()}.values()]
    above = sum(study["n_params"][1] > 1e9 for study in listed)
    small = sum(study["n_params"][1] < 1e6 for study in listed)
    findings = [
        Finding(
            "warning",
            "no-runs",
            f"no run of yours was measured: {len(listed)} studies of others speak here, {above} of them above 1B "
            f"parameters and {small} below 1M.",
            f"Three short runs narrow the interval of forgetting by {format_percent(pilots['gain'].iloc[-1], 2)}.",
            data={"studies": len(listed), "above_1b": above, "below_1m": small},
        )
    ]
    if question.max_target_loss is not None and question.base_target_loss is None:
        findings.append(
            Finding(
                "warning",
                "limit-unread",
                "the limit on the target loss is not judged: studies tell by how much a target loss falls, not where "
                "yours begins.",
                "Measure your base model's loss on the new text, one evaluation.",
                remedy=Remedy("base_target_loss", None),
            )
        )
    if at["tokens"] < FEWEST_STEPS * ROW:
        findings.append(
            Finding(
                "error",
                "too-few-steps",
                f"{format_quantity(at['tokens'], 4)} tokens are {at['tokens'] / ROW:.2g} rows of {ROW} "
                f"tokens: no run of {FEWEST_STEPS} steps, and no study has one so short.",
                "`cptlaw export` refuses it too. Say more tokens; if billions were meant, as in 20B.",
                data={"tokens": at["tokens"], "fewest": FEWEST_STEPS * ROW},
            )
        )
    findings += _about_the_model(question, setting, listed)
    if setting.source.study.unread:
        findings.append(
            Finding(
                "info",
                "replay-of-other",
                "forgetting is that of the replayed text, which the base model learns besides; what it has read in "
                "pre-training and is not replayed is forgotten more.",
                "Measure a loss on such text too, and limit that.",
            )
        )
    if idle := [words for name, words in DOUBLED.items() if _hardly_moves(setting, at, name)]:
        findings.append(
            Finding(
                "info",
                "no-effect",
                f"twice the {' or the '.join(idle)} changes forgetting by less than {format_percent(HARDLY)} of it.",
                "By these studies replay, rate and kind of text decide it here.",
                data={"inputs": idle},
            )
        )
    relative = setting.lr_peak / setting.lr_pretrain
    if not SEEN_RATES[0] <= relative <= SEEN_RATES[1]:
        findings.append(
            Finding(
                "warning",
                "rate-beyond-seen",
                f"a peak of {setting.lr_peak:.2g} is {relative:.2g} times pre-training's; studies have 0.01 to 2.",
                "Above it runs collapse at some rate, which no study of this scale has found.",
                remedy=Remedy("lr_peak", f"{studies.TYPICAL_RATE * setting.lr_pretrain:.2g}"),
            )
        )
    seen = setting.n_params * setting.ptpp
    if at["replay"] * at["tokens"] > seen:
        findings.append(
            Finding(
                "warning",
                "replay-beyond-base",
                f"the replay is {format_quantity(at['replay'] * at['tokens'], 3)} tokens, more than the "
                f"{format_quantity(seen, 3)} that the base model has seen.",
                "This much replay is further pre-training: weigh it against a larger or longer-trained base model.",
            )
        )
    return tuple(findings)


def _about_the_model(question: Asked, setting: Setting, listed: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Say where the model lies beyond those of the studies, or where few are of its size."""
    limits = (
        ("n_params", "parameters", question.n_params, "Size made no clear difference from 10M parameters on."),
        ("ptpp", "tokens per parameter", setting.ptpp, "What the budget does levels off after some hundred."),
    )
    for name, unit, value, advice in limits:
        largest = max(study[name][1] for study in listed)
        if value > 1.5 * largest:
            yield Finding(
                "warning",
                "extrapolation",
                f"your model has {format_quantity(value / largest, 2)} times the {unit} of the largest in these "
                f"studies ({format_quantity(largest, 3)}).",
                f"{advice} Take the interval as wide as it is.",
                data={"input": name, "asked": value, "largest": largest},
            )
    near = [study["study"] for study in listed if study["n_params"][1] >= question.n_params / 2]
    if len(near) <= 2:
        yield Finding(
            "info",
            "few-of-this-size",
            f"of {len(listed)} studies {len(near)} {'has' if len(near) == 1 else 'have'} a model of at least half "
            f"your size"
            f"{': ' + ', '.join(near) if near else ''}; size is extrapolated from the others.",
        )


def _hardly_moves(setting: Setting, at: Mapping[str, float], name: str) -> bool:
    """Say whether forgetting is nearly the same at twice an input."""
    frame = setting.points(at["replay"], at["tokens"])
    twice = frame.assign(**{name: 2.0 * frame[name]})
    one, two = (setting.source.outlook(each).quantile(0.5)[0] for each in (frame, twice))
    return bool(abs(two - one) < HARDLY * abs(one))


def _study_evidence() -> tuple[dict[str, Any], ...]:
    listed: list[dict[str, object]] = []
    for outcome in ("forgetting", "gain"):
        for study in studies.learned(outcome).studies:
            listed.append({"outcome": outcome, **study})
    return tuple(listed)
