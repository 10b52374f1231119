"""An answer in words: a dozen short lines for everybody, and the rest for those who ask for it.

Labels and formats of a plan's fields are those of `cptlaw.planning.plan_fields`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cptlaw.answering.batches import MEASURED
from cptlaw.findings import Finding
from cptlaw.fitting.uncertainty.chances import likelihood
from cptlaw.planning.cost import Hardware
from cptlaw.planning.plan_fields import PLAN_FIELDS, PlanField, field_table
from cptlaw.planning.result import forgetting_text, score_text, weights_text
from cptlaw.result import Line, Table
from cptlaw.units import decimals, format_percent, format_quantity, format_span, short_percent

if TYPE_CHECKING:
    from cptlaw.answering.result import Answer

LEAST_SHOWN = 0.05  # weight of a law in an average
SAME = 5e-4  # relative difference that three digits do not show
MOST_EVALS = 3  # of which the laws are listed one by one
LEAST_SHARE = 0.001  # of a corpus in a mix
LEAST_HOURS = 0.1  # of a device, below which FLOPs say more
LIMITS = {
    "max-forgetting": "the limit on forgetting",
    "max-target-loss": "the limit on the target loss",
}
NAMED = {"cheaper": "cheaper", "safer": "safer", "no-replay": "without replay"}  # alternatives of the short table
EVEN_LABEL = "with 50% probability"  # the forecasts themselves: a limit holds as often as not
SHORT_SHARES = (0.0, 0.05, 0.1, 0.25, 0.5)  # of replay, where no limit chose one
ENDS = ("", "_lo", "_hi")


# -- the short answer ------------------------------------------------------------------------------------------------


def short_lines(answer: Answer) -> list[Line]:
    """Return the answer, the mix first, what to expect of it, and what to run next."""
    lines: list[Line] = [("beyond runs", far.message)] if (far := finding_out_of_reach(answer)) else []
    lines.append(("answer", headline(answer)))
    if answer.feasible:
        lines += expected_lines(answer)
    elif answer.feasible is False:
        lines += refused_lines(answer)
    elif answer.batch_tokens is not None and answer.lr_peak is not None:
        lines.append(("peak rate", f"{answer.lr_peak:.2g}, in steps of {format_quantity(answer.batch_tokens)} tokens"))
    lines += [("or", str(other["change"])) for other in answer.other_kinds]
    return [*lines, *next_step(answer)]


def finding_out_of_reach(answer: Answer) -> Finding | None:
    """Return the finding that the plan has more tokens than forecasts were ever held to runs at, if it has."""
    return next((one for one in answer.findings if one.code == "out-of-reach"), None) if answer.feasible else None


def short_tables(answer: Answer) -> list[Table]:
    """Return what else could be trained; without a limit what each share of replay comes to."""
    if answer.feasible is None:
        shown = tuple(row for row in answer.options if row["replay"] in SHORT_SHARES)
        return [replace(options_table(answer, shown), caption="", close=True)]
    rows = [
        {**each, "instead": _instead(each["name"], each["tokens"], answer.tokens)}
        for each in answer.alternatives
        if each.get("name") in NAMED
    ]
    if not rows:
        return []
    name = answer.hardware.get("name", "")
    spent = "cost" if answer.cost is not None else "gpu_hours"
    spent = spent if max(float(row.get("gpu_hours") or 0.0) for row in rows) >= LEAST_HOURS else "flops"
    limit, most = (answer.limits.get(name) for name in ("max-forgetting", "max-target-loss"))
    texts: dict[str, PlanField] = {
        "instead": PlanField("instead", str),
        "target_loss": PlanField("target loss", lambda value: format_span(value, None, None, most or value + 1.0)),
        "target_gain": PlanField("target loss", lambda value: short_percent(-value)),
        "forgetting": PlanField("forgetting", lambda value: short_percent(value, limit)),
        "gpu_hours": replace(PLAN_FIELDS["gpu_hours"], head=f"{name} hours"),
    }
    has_target = any(row.get("target_loss") is not None for row in rows)
    keys = ("instead", "tokens", "replay", "target_loss" if has_target else "target_gain")
    return [
        replace(field_table(rows, (*keys, "forgetting", "probability", spent), {**PLAN_FIELDS, **texts}), close=True)
    ]


def _instead(name: str, tokens: float, planned: float | None) -> str:
    """Return what an alternative is called; a safer run may be the cheapest of all, as less training forgets less."""
    text = PLAN_FIELDS["tokens"].text
    less = name == "safer" and planned is not None and tokens < planned and text(tokens) != text(planned)
    return NAMED[name] + ", training less" * less


def headline(answer: Answer) -> str:
    """Return what to train, or why nothing can be said to be the thing to train."""
    if answer.feasible is None:
        return "no limit was given: choose a share of replay whose forgetting you can bear"
    if not answer.feasible:
        return _blocking_limits_text(answer)
    codes = {finding.code for finding in answer.findings}
    alone = "one-run" in codes and "studies-as-prior" not in codes
    advice = "one run shows nothing of others; no more than a guess:" if alone else "train on"
    mix = f"{advice} {PLAN_FIELDS['tokens'].text(answer.tokens or 0)} tokens"
    if answer.mix:
        mix += f": {shares_text(answer.mix)}"
    elif answer.replay is not None:
        mix += f", {PLAN_FIELDS['replay'].text(answer.replay)} replay"
    mix += "" if answer.lr_peak is None else f", peak rate {answer.lr_peak:.{3 if answer.laws else 2}g}"
    if answer.laws and answer.batch_tokens and (answer.batch_tokens_hi or 0.0) > 1.5 * (answer.batch_tokens_lo or 0.0):
        mix += f", steps of {format_quantity(answer.batch_tokens, 3)} tokens"
    mix += f"; weights {weights}" if (weights := weights_text(answer)) else ""
    mix += "" if answer.method is None else f"; method {answer.method}"
    mix += "" if answer.vocab_added is None else f"; {answer.vocab_added:g} tokens added to the vocabulary"
    return f"{mix} ({_compute_text(answer)})"


def _blocking_limits_text(answer: Answer) -> str:
    """Return which limits nothing keeps."""
    shares = "mix" if answer.kind == "mix" else f"share of replay{_searched_range(answer)}"
    most = getattr(answer.plan, "max_tokens", None)
    named = LIMITS | ({} if most is None else {"max-tokens": f"the limits within {format_quantity(most)} tokens"})
    limits = " and ".join(named.get(name, name) for name in (answer.blocking or "").split(" and "))
    return f"no {shares} keeps {limits} with {format_percent(answer.risk or 0.5)} probability"


def _searched_range(answer: Answer) -> str:
    """Return the range of replay that was searched, in words, where the plan or the answer knows it."""
    replays = getattr(answer.plan, "mix", None)
    ends = answer.searched if replays is None else (replays.low, replays.high)
    return "" if ends is None else f" from {format_percent(ends[0])} to {format_percent(ends[1])}"


def _compute_text(answer: Answer) -> str:
    text = f"{PLAN_FIELDS['flops'].text(answer.flops)} FLOPs"
    if answer.hardware and (answer.gpu_hours or 0.0) >= LEAST_HOURS:
        text += f", {Hardware(**answer.hardware).cost_text(answer.flops or 0.0)}"
    return text


def expected_lines(answer: Answer) -> list[Line]:
    """Return both losses, forgetting and scores, each with the limit on it and how likely that holds."""
    lines: list[Line] = []
    said = set()

    def within(name: str) -> str:
        if name not in answer.probabilities:
            return ""
        said.add(name)
        limit = answer.limits.get(name)
        share = name == "max-forgetting"
        most = "its limit" if limit is None else format_percent(limit) if share else f"{limit:g}"
        return f"; within {most}: {likelihood(answer.probabilities[name])}"

    if answer.target_loss is not None:
        text = f"{_loss_span_text(answer, 'target_loss', answer.limits.get('max-target-loss'))} {answer.unit}"
        lines.append(("target loss", text + within("max-target-loss")))
    elif answer.target_gain is not None:
        low, middle, high = (short_percent(value) for value in answer.target_gain)
        text = f"{middle} ({low} to {high}) below the base model's"
        lines.append(("target loss", text + within("max-target-loss")))
    if answer.source_loss is not None:
        lines.append(("source loss", f"{_loss_span_text(answer, 'source_loss')}{reference_text(answer)}"))
    if answer.forgetting is not None:
        limit = answer.limits.get("max-forgetting")
        text = forgetting_text(answer.forgetting, answer.forgetting_lo, answer.forgetting_hi, limit=limit)
        lines.append(("forgetting", text + within("max-forgetting")))
    each = {
        name: format_span(result["loss"] or 0.0, result["loss_lo"], result["loss_hi"])
        for name, result in answer.losses.items()
    }
    if len(each) > MOST_EVALS:  # a line of each: twenty in one are read by nobody
        lines += [(name, f"{span} {answer.unit}") for name, span in each.items()]
    elif each:
        lines.append(("losses", f"{'; '.join(map(' '.join, each.items()))} {answer.unit}"))
    lines += [(name, score_text(fields)) for name, fields in answer.scores.items()]
    others = {name: value for name, value in answer.probabilities.items() if name not in said}
    return lines + [(f"{_limited_name(name)} within its limit", likelihood(value)) for name, value in others.items()]


def reference_text(answer: Answer) -> str:
    """Return the base model's source loss, and whether it was measured."""
    known = answer.reference or {}
    if known.get("loss") is None:
        return ""
    sd = known.get("sd") or 0.0
    doubt = f" +- {sd:.2g}" if known["kind"] == "estimated" and sd > 0 else ""
    return f"; the base model's {known['loss']:.4g}{doubt} ({known['kind']})"


def refused_lines(answer: Answer) -> list[Line]:
    """Return the mix that comes nearest, and the limit that it does keep."""
    best: Mapping[str, Any] = answer.best_reachable or {}
    lines: list[Line] = []
    if best.get("limit") is not None:
        sure = format_percent(answer.risk or 0.5)
        what = f"{_limited_name(_first_limit(answer))} at {_limit_text(answer, best['limit'])}"
        lines.append(("what holds", f"{what}, {sure} sure"))
    if best.get("tokens") is not None:
        parts = [f"{format_quantity(best['tokens'])} tokens"]
        parts += [] if best.get("replay") is None else [f"{PLAN_FIELDS['replay'].text(best['replay'])} replay"]
        for name in ("target_loss", "forgetting"):
            if best.get(name) is not None:
                parts.append(f"{PLAN_FIELDS[name].label} {PLAN_FIELDS[name].text(best[name])}")
        text = ", ".join(parts)
        chance = best.get("probability")
        lines.append(("nearest", text if chance is None else f"{text}; within the limit: {likelihood(chance)}"))
    if answer.without_risk is not None:
        lines.append((EVEN_LABEL, _even_odds_run_text(answer)))
    if answer.searched is not None:
        ends = " to ".join(map(format_percent, answer.searched))
        lines.append(("searched", f"{ends} replay: beyond it no study measured what the new text still gains"))
    return lines


def _first_limit(answer: Answer) -> str:
    return (answer.blocking or "").split(" and ")[0]


def _limit_text(answer: Answer, value: float) -> str:
    name = _first_limit(answer)
    if not ("forgetting" in name or " " in name):
        return f"{value:.4g} {answer.unit}"
    # A rise of more than the whole is easily read as a share that is left.
    many = name == "max-forgetting" and value >= 1.0
    return format_percent(value, 3) + (f", a source loss {1.0 + value:.2g} times the base model's" if many else "")


def next_step(answer: Answer) -> list[Line]:
    """Return the run to buy next, or that none is worth it, and what to say of the study where that narrows more."""
    none = next((one.message for one in answer.findings if one.code == "no-suggestion"), None)
    lines: list[Line] = [] if none is None else [("run next", none.partition(": ")[0])]
    if answer.next_runs:
        lines = [("run next", runs_text(answer.next_runs[:1], answer.mix))]
    option, first = answer.most_useful_option, [*answer.next_runs[:1]]
    # An evaluation of the base model that narrows more stands there already.
    if option is None or any(not one["tokens"] and one["narrows"]["by"] >= option.by for one in first):
        return lines
    text = f"{option.option} narrows {option.of} by up to {format_percent(option.by, 2)} ({option.said})"
    return [*lines, ("say more", text)]


# -- the rest --------------------------------------------------------------------------------------------------------


def detail_lines(answer: Answer) -> list[Line]:
    """Return what the run takes, what it rests on, and what else could be done."""
    lines: list[Line] = []
    if answer.feasible:
        lines += _compute_lines(answer)
        if answer.without_risk is not None and answer.probabilities:
            lines.append((EVEN_LABEL, _even_odds_run_text(answer)))
    if answer.what_if:
        lines.append(("what if", "; ".join(_change_of_mix(answer, mix) for mix in answer.what_if)))
    lines += [
        (f"{PLAN_FIELDS['replay'].text(row['replay'])} replay", _replay_text(answer, row)) for row in answer.options
    ]
    if answer.lr_why is not None:
        lines.append((PLAN_FIELDS["lr_peak"].label, _learning_rate_text(answer)))
    if answer.lr_options:
        lines.append(("other rates", _other_rates(answer)))
    if answer.batch_options:
        lines.append(("batch", _batch_size_text(answer)))
    lines += [("or no replay", _alternative_text(one)) for one in answer.alternatives if one.get("measured_on")]
    if answer.other_sizes:
        lines.append(("same compute", "; ".join(_change_of_mix(answer, mix) for mix in answer.other_sizes)))
    if answer.rule_of_thumb is not None:
        lines.append(("beside it", answer.rule_of_thumb))
    if answer.laws:
        lines.append(("from", _law_weights_text(answer)))
    elif answer.evidence:
        count = len({entry["study"] for entry in answer.evidence})
        lines.append(("from", f"{count} studies of others (--json lists them); no run of yours"))
    lines += [("then", runs_text([cell], answer.mix)) for cell in answer.next_runs[1:]]
    return lines


def _compute_lines(answer: Answer) -> list[Line]:
    """Return what the run takes beside its tokens: steps, passes over the new text, hours and money."""
    lines = [("tokens per parameter", PLAN_FIELDS["atpp"].text(answer.atpp))] if answer.atpp is not None else []
    if answer.steps is not None:
        batch = PLAN_FIELDS["batch_tokens"].text(answer.batch_tokens)
        lines.append((PLAN_FIELDS["steps"].label, f"{PLAN_FIELDS['steps'].text(answer.steps)} of {batch} tokens"))
    if answer.epochs is not None:
        worth = "" if answer.epochs <= 1.0 else f", worth {answer.epochs_worth:.3g} times as much fresh text"
        lines.append((PLAN_FIELDS["epochs"].label, f"{PLAN_FIELDS['epochs'].text(answer.epochs)}{worth}"))
    if answer.hardware:
        lines.append(("cost rests on", Hardware(**answer.hardware).assumed))
    return lines


def options_table(answer: Answer, rows: Iterable[Mapping[str, Any]] | None = None) -> Table:
    """Return what each share of replay costs and brings."""
    limited = bool(answer.options) and "probability" in answer.options[0]
    listed = []
    for row in answer.options if rows is None else rows:
        knee = " <- knee" if row["replay"] == answer.knee else ""
        listed.append(
            {
                **row,
                "forgetting": _interval_text(row, "forgetting"),
                "target_gain": _interval_text(row, "target_gain") + ("" if limited else knee),
            }
        )
    as_said = {name: PlanField(PLAN_FIELDS[name].label, str) for name in ("forgetting", "target_gain")}
    keys = ("replay", "tokens", "flops", "forgetting", "target_gain", "probability")
    table = field_table(listed, keys, {**PLAN_FIELDS, **as_said})
    return replace(table, caption="What replay does")


def _replay_text(answer: Answer, row: Mapping[str, Any]) -> str:
    """Return what a share of replay comes to."""
    if answer.knee is not None:
        lost, won = (_interval_text(row, name) for name in ("forgetting", "target_gain"))
        text = f"forgetting {lost}, target loss {won} lower; {format_quantity(row['tokens'], 3)} tokens, "
        return text + f"{row['flops']:.2g} FLOPs" + (" <- knee" if row["replay"] == answer.knee else "")
    parts = []
    for name in ("target_loss", "source_loss"):
        if row.get(name) is not None:
            span = format_span(row[name] or 0.0, row[f"{name}_lo"], row[f"{name}_hi"])
            parts.append(f"{PLAN_FIELDS[name].label} {span}")
    if (forgetting := row.get("forgetting")) is not None:
        parts.append(f"forgetting {short_percent(forgetting)}")
    return f"{'; '.join(parts)}; {format_quantity(row['tokens'] or 0, 3)} tokens"


def _loss_span_text(answer: Answer, name: str, limit: float | None = None) -> str:
    value, low, high = (getattr(answer, name + end) for end in ENDS)
    return format_span(value, low, high, limit)


def _learning_rate_text(answer: Answer) -> str:
    if not answer.lr_options:
        return f"{answer.lr_peak:.3g}, {answer.lr_why}"
    return f"{answer.lr_peak:.2g} ({answer.lr_peak_lo:.2g} to {answer.lr_peak_hi:.2g}); {answer.lr_why}"


def _other_rates(answer: Answer) -> str:
    half, _, twice = (
        f"forgetting {short_percent(each['forgetting'])}, target loss {short_percent(each['target_gain'])} lower"
        for each in answer.lr_options
    )
    share = format_percent((answer.knee if answer.replay is None else answer.replay) or 0.0, 3)
    return f"at {share} replay, half the rate: {half}; twice: {twice}"


def _batch_size_text(answer: Answer) -> str:
    """Return the batch, and what others cost."""
    low, middle, high = (format_quantity(getattr(answer, f"batch_tokens{end}"), 3) for end in ("_lo", "", "_hi"))
    beside = "; ".join(
        f"at {format_quantity(each['batch_tokens'], 3)} losses {format_percent(each['loss_rise'], 2)} higher, "
        f"{format_percent(each['loss_rise_at_it'], 2)} at {each['lr_factor']:.2g} times the rate"
        for each in answer.batch_options
        if each["loss_rise"] >= SAME
    )
    return f"{middle} tokens ({low} by this run's tokens alone, {high} with pre-training's); {beside}; {MEASURED}"


def _change_of_mix(answer: Answer, mix: Mapping[str, Any]) -> str:
    name = "mean loss" if answer.losses else "target loss"
    # As many decimals as the plan's own loss is shown with.
    ends = [end for end in (answer.target_loss_lo, answer.target_loss_hi) if end is not None]
    places = None if answer.target_loss is None else decimals(answer.target_loss, ends)
    loss = f"{mix['target_loss']:.4g}" if places is None else f"{mix['target_loss']:.{places}f}"
    text = f"{mix['change']}: {name} {loss}"
    return text if mix.get("forgetting") is None else f"{text}, forgetting {short_percent(mix['forgetting'])}"


def _alternative_text(other: Mapping[str, Any]) -> str:
    merged = other["method"] == "merge"
    kind = (
        f"merged back at {other['merge_weight']:g}"
        if merged
        else f"an adapter of rank {other['rank_over_width']:.2g} x width"
    )
    if other["target_loss"] is None:
        target = f"target loss {_interval_text(other, 'target_gain')} lower"
    else:
        target = f"target loss {format_span(*(other[f'target_loss{end}'] for end in ENDS))}"
    return f"{kind}: {target}, forgetting {_interval_text(other, 'forgetting')}; measured from {other['measured_on']}"


def _even_odds_run_text(answer: Answer) -> str:
    """Return the run whose limits would hold with 50 % probability."""
    other = answer.without_risk or {}
    if other.get("tokens") is None or other.get("feasible") is False:
        return "no mix either: the forecasts themselves allow none"
    if answer.feasible and _is_planned(answer, other):
        return "the same run"
    mix = f"{format_quantity(other['tokens'], 3)} tokens"
    if other.get("mix"):
        mix += f": {shares_text(other['mix'])}"
    if other.get("replay") is not None:
        mix += f", {format_percent(other['replay'], 3)} replay"
    if other.get("lr_peak") is not None and other["lr_peak"] != answer.lr_peak:
        mix += f", peak rate {other['lr_peak']:.3g}"
    return mix


def _is_planned(answer: Answer, other: Mapping[str, Any]) -> bool:
    """Say whether another run is the planned one, to the digits that are shown."""
    pairs = [(getattr(answer, name), other.get(name)) for name in ("tokens", "replay", "lr_peak") if name in other]
    pairs += [(share, (other.get("mix") or {}).get(name)) for name, share in answer.mix.items()]
    return all(one == two or (one and two and abs(two / one - 1.0) < SAME) for one, two in pairs)


def _law_weights_text(answer: Answer) -> str:
    weights: dict[str, dict[str, float]] = {}
    for entry in answer.laws:  # variants of a law are one law to its reader
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


def _interval_text(row: Mapping[str, float], name: str) -> str:
    middle, low, high = (short_percent(row[name + end]) for end in ENDS)
    return f"{middle} ({low} to {high})"


def shares_text(mix: Mapping[str, float]) -> str:
    """Return the shares of corpora in words, the largest first; those that are next to nothing are left out."""
    listed = sorted(mix.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {format_percent(share, 2)}" for name, share in listed if share >= LEAST_SHARE)


def runs_text(cells: Iterable[Mapping[str, object]], planned: Mapping[str, float] | None = None) -> str:
    """Return runs to train next in words: base model, tokens, replay or mix (beside the planned one), rate, cost, gain.

    Repeats of one cell are seeds: said once, with their number.
    """
    shown = [run_text(cell, planned) for cell in [*cells][:3]]
    seeds = {text: shown.count(text) for text in shown}
    return "; ".join(text if n == 1 else f"{text}, {n} seeds" for text, n in seeds.items())


def run_text(cell: Mapping[str, Any], planned: Mapping[str, float] | None = None) -> str:
    """Return a run to train next in words."""
    mix = f"{format_quantity(cell['tokens'], 3)} tokens"
    mix += "" if cell.get("replay") is None else f", {format_percent(cell['replay'], 3)} replay"
    if cell.get("mix"):
        mix += (
            " of this mix"
            if shares_text(cell["mix"]) == shares_text(planned or {})
            else f" of {shares_text(cell['mix'])}"
        )
    size, budget, rate = (cell.get(name) for name in ("n_params", "ptpp", "lr_peak"))
    model = cell.get("base") or (None if size is None else format_quantity(size, 3))
    if model is not None and budget is not None:
        model += f" ({PLAN_FIELDS['ptpp'].text(budget)} tokens each)"
    text = f"on {mix}" if model is None else f"{model} on {mix}"
    if not cell["tokens"]:
        text = f"one evaluation of the base model{'' if model is None else f', {model}'}"
    text += "" if rate is None else f", rate {rate:.2g}"
    text += f": {cell['flops']:.2g} FLOPs" if cell.get("flops") else ""
    text += " with its base, to be pre-trained first" if cell.get("base_flops") else ""
    narrows = cell.get("narrows")
    return text if not narrows else f"{text}, narrows {narrows['of']} by {format_percent(narrows['by'], 2)}"


def _limited_name(name: str) -> str:
    """Return what a limit is about: ``forgetting``, ``mmlu``."""
    kind, _, score = name.partition(" ")
    return score or kind.removeprefix("max-").replace("-", " ")
