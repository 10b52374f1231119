"""The answer from runs that mix k corpora: the mix to train, by the planner of `cptlaw plan mix`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cptlaw import planning
from cptlaw.answering.next_runs import next_runs
from cptlaw.answering.question import IN_POINTS, RANGE, Asked
from cptlaw.answering.refusals import ROOM
from cptlaw.answering.result import Answer
from cptlaw.answering.scores import fitted_scores
from cptlaw.answering.steps import chosen_rows, how_fitted
from cptlaw.answering.takes import lowest_probability
from cptlaw.answering.with_runs import evidence, laws_in, tokens_assumed
from cptlaw.answering.words import in_answer
from cptlaw.commands import command_line
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy, by_severity, said_by
from cptlaw.fitting.fit import Fit
from cptlaw.forecasting.verbs import fit
from cptlaw.planning.corpora.result import CorporaPlan
from cptlaw.planning.points import chances
from cptlaw.planning.scenario import MixOfCorpora, Risk, as_words
from cptlaw.runs import Runs
from cptlaw.runs.schema import MIX
from cptlaw.schedules.valley import advised_by_runs
from cptlaw.units import Share
from cptlaw.writing import file_name

AUTO = "auto"
LIMITS = {"max-forgetting": "forgetting", "max-loss": "target_loss"}  # a limit of the plan, and what it is about


def from_mixes(runs: Runs, question: Asked, where: str | None = None, seed: int = 0) -> Answer:
    """Answer a question from a table of mixes of k corpora; see `cptlaw.answer`.

    The target eval's loss is minimised; where none is named, the mean over all evals.
    """
    roles = {str(runs.role(name)): name for name in runs.evals if runs.role(name) in ("target", "source")}
    _check(runs, question, roles)
    losses = [name for name in runs.evals if name not in runs.scores]
    goal = [roles["target"]] if "target" in roles else losses
    wanted = dict.fromkeys([*goal, *([roles["source"]] if "source" in roles else [])])
    fits: dict[str, Any] = {name: fit(AUTO, runs, on=name, where=where, seed=seed) for name in wanted}
    scores, about = fitted_scores(runs, question, where, seed, None)
    asked, notes = _with_tokens(question, fits[goal[0]].data)
    findings = [*notes, *about]
    if len(goal) > 1:
        findings.append(_mean_of(goal))
    given = _mix_scenario(asked, roles, goal, fits, scores)
    sure, plain = (planning.mix(fits, **given, **_risk_option(question, risk)) for risk in (question.risk, None))
    row = _planned_point(asked, sure if sure.feasible else plain)
    cells, trouble, kept = _at(row, runs, fits[goal[0]], sure, asked.n_active)
    of_fits = said_by((one.on, one.findings) for one in fits.values())
    blocking = None if sure.blocking is None else _answer_limit_names(sure.blocking)
    return Answer(
        question=asked.text,
        kind="mix",
        feasible=sure.feasible,
        **(_forecast_fields(sure, roles, goal) if sure.feasible else {}),
        base_source_loss=_base(sure, roles),
        probabilities={_answer_limit_name(name): chance for name, chance in kept.items()},
        scores=sure.scores,
        risk=question.risk,
        laws=laws_in(fits, scores),
        without_risk=_without_risk(plain, roles, goal),
        what_if=_what_if(asked, fits, roles, goal, sure),
        blocking=blocking,
        best_reachable=_nearest_reachable_mix(asked, fits, sure, roles, given),
        reference=_mix_reference(asked, sure, roles),
        **(
            {"batch_tokens": asked.batch_tokens}
            if asked.batch_tokens
            else advised_by_runs(fits[goal[0]], asked.n_params, None)
        ),
        next_runs=cells,
        findings=by_severity(dict.fromkeys([*findings, *map(in_answer, sure.findings), *of_fits, *trouble])),
        evidence=evidence(runs, fits),
        commands=_repeat_commands(
            question, [*chosen_rows(runs, where), *how_fitted(None, seed)], (*fits, *scores), given
        ),
        _plan=sure,
    )


def _at(
    row: pd.DataFrame | None, runs: Runs, fitted: object, plan: CorporaPlan, n_active: float | None
) -> tuple[tuple[Mapping[str, object], ...], list[Finding], dict[str, float]]:
    """Return the runs that would sharpen a forecast at the planned mix, what is wrong with it, and odds of limits."""
    if row is None:
        return (), [], {}
    cells, trouble, _ = next_runs(runs, fitted, row, float(plan.flops or 0), n_active)
    return cells, trouble, chances(plan.limits, row) if plan.feasible else {}


def _without_risk(plain: CorporaPlan, roles: Mapping[str, str], goal: list[str]) -> dict[str, object]:
    """Return the plan that an even chance would allow."""
    return {
        "feasible": plain.feasible,
        "mix": dict(plain.mix),
        "tokens": plain.tokens,
        "flops": plain.flops,
        **(_answer_losses(plain, roles, goal) if plain.feasible else {}),
    }


def _check(runs: Runs, question: Asked, roles: Mapping[str, str]) -> None:
    """Refuse what a mix of k corpora cannot answer, each with what can.

    Raises
    ------
    UsageError
        Naming all of it at once.
    """
    wrong = []
    for name in RANGE:
        if getattr(question, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            wrong.append(f"{flag} is about one replay: `cptlaw plan mix` has --min-share and --max-share, by corpus")
    if question.target_tokens is not None and roles.get("target") not in runs.corpora:
        wrong.append(
            "--target-tokens needs a target eval that is called like its corpus (--target-eval EVAL); give all tokens "
            "with --tokens, and pools with `cptlaw plan mix --unique NAME=D`"
        )
    if question.max_target_loss is not None and "target" not in roles:
        wrong.append("--max-target-loss: say which eval is the new domain's, --target-eval EVAL")
    if question.max_forgetting is not None and "source" not in roles:
        wrong.append("--max-forgetting: say which eval is the old domain's, --source-eval EVAL")
    if "tokens" not in runs.frame.columns and "step" in runs.frame.columns:
        wrong.append("say how many tokens a step trains on: --columns batch_tokens=2M (columns= in the library)")
    if wrong:
        listed = "".join(f"\n  {text}" for text in wrong)
        corpora, evals = ", ".join(runs.corpora), ", ".join(map(repr, runs.evals))
        raise UsageError(
            f"{runs.label}: its runs mix {len(runs.corpora)} corpora ({corpora}).{listed}\nEvals found: {evals}."
        )


def _with_tokens(question: Asked, data: pd.DataFrame) -> tuple[Asked, list[Finding]]:
    """Return the question with the tokens in all, and what was assumed where it does not say them."""
    if question.spendable is not None:
        return question.replaced(tokens=question.spendable, budget=None), []
    if "tokens" not in data.columns:
        raise UsageError("answer: say how many tokens there are to spend, --tokens D or --budget FLOPS.")
    tokens, note = tokens_assumed(data, question, "Give --tokens or --budget.")
    return question.replaced(tokens=tokens), [note]


def _mean_of(evals: list[str]) -> Finding:
    return Finding(
        "info",
        "mean-of-evals",
        f"no eval is named as the new domain's: the mean loss of all {len(evals)} is what is lowered.",
        "Name one.",
        data={"evals": list(evals)},
        remedy=Remedy("target_eval", str(evals[0])),
    )


def _mix_scenario(
    asked: Asked, roles: Mapping[str, str], goal: list[str], fits: Mapping[str, Fit], scores: Mapping[str, object]
) -> dict[str, Any]:
    """Return what the plan of the mix is given, apart from the risk.

    Raises
    ------
    UsageError
        If forgetting is limited and nothing says what it counts from.
    """
    source = roles.get("source")
    given: dict[str, object] = {
        **asked.law_inputs,
        "n_active": asked.n_active,
        "tokens": asked.tokens,
        "minimise": dict.fromkeys(goal, 1.0),
    }
    if scores:
        in_points = {name: getattr(asked, name) for name in IN_POINTS}
        given |= {"scores": scores} | {name: value for name, value in in_points.items() if value}
    if asked.max_target_loss is not None:
        given["max_loss"] = {goal[0]: asked.max_target_loss}
    if asked.target_tokens is not None:
        given["unique_tokens"] = {roles["target"]: asked.target_tokens}
    if source is not None and asked.base_source_loss is not None:
        given["base_loss"] = {source: asked.base_source_loss}
    if source is not None and asked.max_forgetting is not None:
        given["max_forgetting"] = {source: asked.max_forgetting}
        if asked.base_source_loss is None and fits[source].base.empty:
            raise UsageError(
                f"max_forgetting (--max-forgetting): no loss of a base model was measured on {source!r}. Give "
                "base_source_loss= (--base-source-loss L0), one evaluation of it, or add rows with tokens = 0."
            )
    return given


def _risk_option(question: Asked, risk: float | None) -> Risk:
    return {"risk": risk} if question.limited and risk is not None else {}


def _planned_point(asked: Asked, plan: CorporaPlan) -> pd.DataFrame | None:
    """Return the planned run as a row with the inputs of laws; nothing where there is no mix."""
    if not plan.mix:
        return None
    shares = {MIX + name: share for name, share in plan.mix.items()}
    return pd.DataFrame([{**asked.law_inputs, "tokens": plan.tokens, **shares}]).astype(float)


def _forecast_fields(plan: CorporaPlan, roles: Mapping[str, str], goal: list[str]) -> dict[str, Any]:
    """Return the fields of a mix that keeps the limits."""
    of_source = {"replay": plan.mix.get(roles["source"])} if "source" in roles else {}
    n_params = plan.n_params or 0.0
    return {
        **of_source,
        "mix": dict(plan.mix),
        "tokens": plan.tokens,
        "atpp": plan.tokens / n_params,
        "flops": plan.flops,
        "losses": {name: dict(result) for name, result in plan.losses.items()} if len(goal) > 1 else {},
        **_answer_losses(plan, roles, goal, ("", "_lo", "_hi")),
    }


def _answer_losses(
    plan: CorporaPlan, roles: Mapping[str, str], goal: list[str], ends: tuple[str, ...] = ("",)
) -> dict[str, object]:
    """Return the losses of a plan under the names that an answer has for them."""
    result: dict[str, object] = {}
    for end in ends:
        if len(goal) == 1:
            result[f"target_loss{end}"] = plan.losses[goal[0]].get(f"loss{end}")
        if "source" in roles:
            of_source = plan.losses[roles["source"]]
            result[f"source_loss{end}"] = of_source.get(f"loss{end}")
            result[f"forgetting{end}"] = of_source.get(f"forgetting{end}")
    return result


def _base(plan: CorporaPlan, roles: Mapping[str, str]) -> float | None:
    return plan.losses[roles["source"]].get("base_loss") if plan.feasible and "source" in roles else None


def _what_if(
    asked: Asked, fits: Mapping[str, Fit], roles: Mapping[str, str], goal: list[str], plan: CorporaPlan
) -> tuple[Mapping[str, object], ...]:
    """Return what twice the tokens would do, and the best of the mixes that were run."""
    row = _planned_point(asked, plan)
    if row is None:
        return ()
    changed = [("twice the tokens", row.assign(tokens=2.0 * row["tokens"]), dict(plan.mix))]
    if plan.best_measured_mix is not None:
        ran = {MIX + name: share for name, share in plan.best_measured_mix.items()}
        changed.append(("the best mix that was run", row.assign(**ran), dict(plan.best_measured_mix)))
    result = []
    for change, at, mix in changed:
        losses = {name: float(one.predict(at)[0]) for name, one in fits.items()}
        entry = {"change": change, "mix": mix, "tokens": float(at["tokens"].iloc[0])}
        entry["target_loss"] = sum(losses[name] for name in goal) / len(goal)
        base = _base(plan, roles)
        if base is not None:
            entry["forgetting"] = losses[roles["source"]] / base - 1.0
        result.append(entry)
    return tuple(result)


def _answer_limit_names(blocking: str) -> str:
    """Return limits of the plan, which name evals, as an answer calls them."""
    return " and ".join(_answer_limit_name(name) for name in blocking.split(" and "))


def _answer_limit_name(name: str) -> str:
    kind = name.partition(" ")[0]
    return {"max-loss": "max-target-loss", "max-forgetting": "max-forgetting"}.get(kind, name)


def _mix_reference(question: Asked, plan: CorporaPlan, roles: Mapping[str, str]) -> Mapping[str, object] | None:
    loss = _base(plan, roles)
    kind = "measured" if question.base_source_loss is None else "given"
    return None if loss is None else {"kind": kind, "loss": loss, "sd": 0.0}


def _nearest_reachable_mix(
    question: Asked, fits: Mapping[str, Fit], plan: CorporaPlan, roles: Mapping[str, str], given: Mapping[str, Any]
) -> dict[str, object] | None:
    """Return the mix that comes nearest to the limits, and the value of the first blocking one that it does keep."""
    if plan.best_reachable is None:
        return None
    empty = dict.fromkeys(("limit", "replay", "tokens", "target_loss", "forgetting", "probability"))
    # Those of scores are in points already.
    lowest = {LIMITS.get(name.partition(" ")[0], name): value for name, value in plan.best_reachable.items()}
    for name, value in (plan.feasible_from or {}).items():
        kind, _, on = name.partition(" ")
        option = {"max-forgetting": "max_forgetting", "max-loss": "max_loss"}.get(kind)
        if option is None:
            continue
        room = value + ROOM * max(abs(value), ROOM)
        room = Share(room) if option == "max_forgetting" else room
        found = planning.mix(
            fits, **{**given, option: {**given[option], on: room}}, **_risk_option(question, question.risk)
        )
        if found.feasible and (row := _planned_point(question, found)) is not None:
            kept = chances(plan.limits, row)
            goal = [name for name, weight in found.minimise.items() if weight > 0]
            fields = {**empty, "limit": value, "mix": dict(found.mix), "tokens": found.tokens}
            fields |= {"replay": found.mix.get(roles["source"])} if "source" in roles else {}
            return {**fields, **_answer_losses(found, roles, goal), "probability": lowest_probability(kept)}
    return {**empty, **lowest}


def _repeat_commands(
    question: Asked, rows: list[str], evals: tuple[str, ...], given: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the commands that repeat the answer: a fit for each eval, and the plan."""
    files = {name: f"{file_name(name)}.json" for name in evals}
    lines = [command_line(["cptlaw", "fit", *rows, "--on", name, "-o", file]) for name, file in files.items()]
    words = ["cptlaw", "plan", "mix", *(word for name in files for word in _with_file(name, files[name], given))]
    asked = {
        name: value for name, value in {**given, **_risk_option(question, question.risk)}.items() if name != "scores"
    }
    words += as_words(MixOfCorpora, asked)
    return (*lines, command_line(words))


def _with_file(name: str, file: str, given: Mapping[str, Any]) -> list[str]:
    return ["--score" if name in given.get("scores", {}) else "--fit", file]
