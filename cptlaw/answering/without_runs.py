"""The answer without any run: what the studies of others say, the rule of thumb beside it, and three pilots.

What is expected is relative to the base model's losses, which differ between tokenizers and corpora: forgetting as a
share of its source loss, the gain as a share of its target loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.answering import studies
from cptlaw.answering.answered import Answer
from cptlaw.answering.question import RISK, Asked
from cptlaw.commands import command_line
from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.result import flops_of
from cptlaw.result import Table
from cptlaw.uncertainty.chances import likelihood
from cptlaw.units import format_percent, format_quantity, short_percent

REPLAYS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
RULE_OF_THUMB = 0.25  # of replay, as is recommended between 5 and 30 % (Ibrahim et al. 2024, Gu et al. 2024)
SHOWN = (0.0, 0.05, 0.1, 0.25, 0.5)  # every other one of them in the answer itself
PILOT_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)  # of the tokens that are asked about
PILOT_REPLAYS = (0.0, 0.05, 0.1, 0.25, 0.5)
PILOTS = 3
INTERVAL = 0.9
UNLIKE = "domain"  # a shift that is not near: the studies tell these two kinds apart
ASSUMED = Finding(
    "info",
    "shift-assumed",
    "no kind of shift was given: the new domain is taken as unlike the old one.",
    "Say --shift near (shift=) where it is like the old one; such models forget less.",
)


def from_studies(question: Asked, shift: str | None) -> Answer:
    """Answer a question from the studies alone; of a shift that is not told, that it is none of the near ones.

    Raises
    ------
    UsageError
        If the shift is unknown, or nothing says how many tokens there are.
    """
    assumed, shift = shift is None, shift or UNLIKE
    ptpp = _checked(question, shift)
    # A grid, for the answer of studies is no sharper: one replay more or less within a step cannot be told apart.
    mixes = [(replay, _tokens(question, replay)) for replay in REPLAYS]
    frame = studies.rows_of(shift, question.n_params, ptpp, mixes)
    forgetting, gain = studies.expected("forgetting", frame), studies.expected("gain", frame)
    best, feasible = _chosen(question, forgetting, gain, question.risk)
    plain, even = _chosen(question, forgetting, gain, 0.5)
    replay, tokens = mixes[best]
    shown = frame[frame["replay"].isin(SHOWN)]
    pilots = next_pilots(shown, shift)
    ends = _ends(forgetting)
    limit = question.max_forgetting
    probabilities = {} if limit is None else {"max-forgetting": float(forgetting.probability_below(limit)[best])}
    base = question.base_source_loss
    lost = dict(zip(("_lo", "", "_hi"), (float(end[best]) for end in ends), strict=True))
    expected: dict[str, Any] = {f"forgetting{end}": value for end, value in lost.items()}
    if base is not None:
        expected |= {f"source_loss{end}": base * (1.0 + value) for end, value in lost.items()}
    if feasible:
        expected |= {"replay": replay, "tokens": tokens, "atpp": tokens / question.n_params}
        expected |= {"flops": flops_of(question.n_params, tokens)}
        expected |= {"target_gain": tuple(float(end[best]) for end in _falls(gain))}
    else:
        # Nothing can be expected of a mix that does not keep the limit.
        expected = {"blocking": "max-forgetting"}
        tightest = float(forgetting.quantile(question.risk).min())
        expected |= {"best_reachable": {"target_loss": None, "forgetting": tightest}}
    return Answer(
        question=question.text,
        kind=question.kind,
        feasible=feasible,
        **expected,
        base_source_loss=base,
        probabilities=probabilities,
        risk=question.risk,
        without_risk={"feasible": even, "replay": mixes[plain][0] if even else None}
        | {"tokens": mixes[plain][1] if even else None},
        next_runs=tuple({str(key): value for key, value in cell.items()} for cell in pilots.to_dict("records")),
        options=_options(frame, forgetting, gain, limit),
        rule_of_thumb=_rule(frame, forgetting, gain, limit),
        findings=_findings(question, frame, pilots) + (ASSUMED,) * assumed,
        evidence=_evidence(),
        steps=(_pilots_command(question, shift),),
    )


def _checked(question: Asked, shift: str) -> float:
    """Refuse what cannot be answered without runs, and return the base model's tokens per parameter."""
    if shift not in studies.SHIFTS:
        raise UsageError(f"shift (--shift): {shift!r}. Expected {', '.join(studies.SHIFTS)}.")
    missing = []
    if question.ptpp is None:
        missing.append("the base model's tokens per parameter: --ptpp 1875")
    if question.kind == "min-tokens":
        missing.append(
            "what there is to spend: --target-tokens 20B (of the new domain), --tokens 20B (in all) or --budget 1e21 "
            "(FLOPs)"
        )
    if question.ptpp is None or missing:
        raise UsageError(f"answer without runs needs to know {'; and '.join(missing)}.")
    return question.ptpp


def next_pilots(asked: pd.DataFrame, shift: str) -> pd.DataFrame:
    """Return the three short runs of the base model that would narrow the forecast most per FLOP, in order.

    Parameters
    ----------
    asked
        The mixes among which the plan chooses.
    shift
        The kind of shift.

    Returns
    -------
    DataFrame
        n_params, ptpp, replay, tokens, flops, gain: by which share the spread of forgetting falls with this run and
        those above it, on average over the mixes.
    """
    row = asked.iloc[0]
    mixes = [(replay, share * row["tokens"]) for replay in PILOT_REPLAYS for share in PILOT_SHARES]
    cells = studies.rows_of(shift, row["n_params"], row["ptpp"], mixes)
    cells["flops"] = [flops_of(row["n_params"], tokens) for tokens in cells["tokens"]]
    before = float(studies.expected("forgetting", asked).spread.mean())
    taken: list[int] = []
    gains = []
    spread = before
    for _ in range(PILOTS):
        left = {
            place: float(studies.narrowed("forgetting", asked, cells.iloc[[*taken, place]]).mean())
            for place in range(len(cells))
            if place not in taken
        }
        # A run's worth is what it takes off the spread; what it costs counts by its square root, for a pilot costs
        # the attention of people too, and the cheapest would always win otherwise.
        best = max(left, key=lambda place: (spread - left[place]) / float(np.sqrt(cells["flops"].iloc[place])))
        taken.append(best)
        spread = left[best]
        gains.append(1.0 - spread / before)
    chosen = cells.iloc[taken].reset_index(drop=True)
    return chosen[["n_params", "ptpp", "replay", "tokens", "flops"]].assign(gain=gains)


def _pilots_command(question: Asked, shift: str) -> str:
    """Return the command that writes the pilots of this question."""
    words = ["cptlaw", "answer", "--n-params", format_quantity(question.n_params, 6), "--ptpp", f"{question.ptpp:g}"]
    for name in ("tokens", "target_tokens", "budget", "max_forgetting", "base_source_loss"):
        value = getattr(question, name)
        if value is not None:
            show = format_quantity if "tokens" in name else "{:.6g}".format
            words += [f"--{name.replace('_', '-')}", format_percent(value) if "forgetting" in name else show(value)]
    words += ["--risk", f"{question.risk:g}"] if question.risk != RISK else []
    return command_line([*words, "--shift", shift, "--pilots", "pilots"])


def _tokens(question: Asked, replay: float) -> float:
    if question.target_tokens is not None:
        return question.target_tokens / (1.0 - replay)
    return float(question.spendable or 0.0)


def _chosen(question: Asked, forgetting: studies.Outlook, gain: studies.Outlook, risk: float) -> tuple[int, bool]:
    """Return the place of the best mix among `REPLAYS`, and whether it keeps the limit.

    Under a limit it is the mix of the highest gain that keeps it; without one, the mix with the lowest sum of the two
    relative losses.
    """
    middle_gain = gain.fall(0.5)
    if question.max_forgetting is None:
        return int(np.argmax(middle_gain - forgetting.quantile(0.5))), True
    held = forgetting.probability_below(question.max_forgetting)
    kept = np.flatnonzero(held >= risk)
    if not len(kept):
        return int(np.argmax(held)), False
    return int(kept[np.argmax(middle_gain[kept])]), True


def _ends(said: studies.Outlook) -> tuple[Array, Array, Array]:
    return said.quantile(0.5 - INTERVAL / 2), said.quantile(0.5), said.quantile(0.5 + INTERVAL / 2)


def _falls(said: studies.Outlook) -> tuple[Array, Array, Array]:
    return said.fall(0.5 - INTERVAL / 2), said.fall(0.5), said.fall(0.5 + INTERVAL / 2)


def _options(frame: pd.DataFrame, forgetting: studies.Outlook, gain: studies.Outlook, limit: float | None) -> Table:
    held = None if limit is None else forgetting.probability_below(limit)
    lost, won = _ends(forgetting), _falls(gain)
    rows = []
    for place, replay in enumerate(frame["replay"]):
        if replay in SHOWN:
            cells = (format_percent(replay), _span(lost, place), _span(won, place))
            rows.append(cells if held is None else (*cells, likelihood(float(held[place]))))
    columns = ("replay", "forgetting (90 % interval)", "target loss falls by (90 % interval)")
    return Table(columns if held is None else (*columns, "limit holds"), tuple(rows), "What replay does")


def _span(ends: Sequence[Array], place: int) -> str:
    low, middle, high = (short_percent(float(end[place])) for end in ends)
    return f"{middle} ({low} to {high})"


def _rule(frame: pd.DataFrame, forgetting: studies.Outlook, gain: studies.Outlook, limit: float | None) -> str:
    place = REPLAYS.index(RULE_OF_THUMB)
    text = (
        f"{format_percent(RULE_OF_THUMB)} replay: forgetting {_span(_ends(forgetting), place)}, "
        f"target loss falls by {_span(_falls(gain), place)}"
    )
    if limit is not None:
        text += f"; that it keeps the limit is {likelihood(float(forgetting.probability_below(limit)[place]))}"
    return text


def _findings(question: Asked, frame: pd.DataFrame, pilots: pd.DataFrame) -> tuple[Finding, ...]:
    count = len(studies.learned("forgetting").studies)
    found = [
        Finding(
            "warning",
            "no-runs",
            f"nothing of your own was measured: {count} studies of others, with other corpora, tokenizers and rates, "
            "speak here, and they differ widely.",
            f"Three short runs narrow the interval of forgetting by {format_percent(pilots['gain'].iloc[-1], 2)}.",
        )
    ]
    if question.max_target_loss is not None:
        found.append(
            Finding(
                "warning",
                "limit-unread",
                "the limit on the target loss is not judged: studies tell by how much a target loss falls, not where "
                "yours begins.",
                "Compare it with your base model's target loss less the fall; three short runs tell it.",
            )
        )
    largest = max(study["n_params"][1] for study in studies.learned("forgetting").studies)
    if question.n_params > 1.5 * largest:
        found.append(
            Finding(
                "warning",
                "extrapolation",
                f"your model has {format_quantity(question.n_params / largest, 2)} times the parameters of the largest "
                f"one in these studies ({format_quantity(largest, 3)}).",
                "Larger models tend to forget less; take the interval as wide as it is.",
            )
        )
    budgets = [study["ptpp"][1] for study in studies.learned("forgetting").studies]
    if question.ptpp is not None and question.ptpp > 1.5 * max(budgets):
        found.append(
            Finding(
                "warning",
                "extrapolation",
                f"your base model saw {format_quantity(question.ptpp / max(budgets), 2)} times the tokens per "
                f"parameter of any in these studies.",
                "Over-trained models forget more.",
            )
        )
    return tuple(found)


def _evidence() -> tuple[dict[str, object], ...]:
    listed = []
    for outcome in ("forgetting", "gain"):
        for study in studies.learned(outcome).studies:
            listed.append({"outcome": outcome, **study})
    return tuple(listed)
