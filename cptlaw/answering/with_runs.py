"""The answer from runs: laws found for both losses, the plan that keeps the limits, and what to buy next."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from cptlaw.answering.alternatives import alternatives, measured_base
from cptlaw.answering.answer_text import runs_text
from cptlaw.answering.choices import choices
from cptlaw.answering.next_runs import next_runs
from cptlaw.answering.planned import plan
from cptlaw.answering.question import Asked
from cptlaw.answering.refusals import nearest_mix
from cptlaw.answering.result import Answer
from cptlaw.answering.scores import fitted_scores
from cptlaw.answering.steps import answer_command, commands, how_fitted, to_sharpen
from cptlaw.answering.unsaid import most_useful_option
from cptlaw.answering.what_if import by_replay, measured_rates, other_sizes, point_of, what_if
from cptlaw.answering.words import in_answer
from cptlaw.commands import command_line
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy, by_severity, said_by
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.point_covariance import ONE_SD
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.fitting.uncertainty.intervals import MIN_RUNS
from cptlaw.forecasting.verbs import fit
from cptlaw.laws.shared_tokens import FULL_TRAINING
from cptlaw.planning import MixPlan
from cptlaw.planning.points import chances
from cptlaw.planning.report_scenario import ReportOfRuns
from cptlaw.runs import Runs, questions
from cptlaw.runs.schema import COLUMNS
from cptlaw.schedules import SchedulesLike
from cptlaw.schedules.valley import advised_by_runs
from cptlaw.units import counted, format_quantity

if TYPE_CHECKING:
    from cptlaw.reporting.page import Report
    from cptlaw_scores import ScoreFit

AUTO = "auto"
WITHOUT_RISK = ("feasible", "replay", "tokens", "flops", "lr_peak")
EXPECTED = ("target_loss", "source_loss", "forgetting")


def from_runs(
    runs: Runs,
    question: Asked,
    where: str | None = None,
    schedules: SchedulesLike | None = None,
    seed: int = 0,
    *,
    about: StudyPrior | None = None,
) -> Answer:
    """Answer a question from a runs table; see `cptlaw.answer`.

    Parameters
    ----------
    about
        What is known of the study beside its runs.
    """
    shift = None if about is None else about.shift
    fitted: dict[str, Any] = {
        role: fit(AUTO, runs, role, where, schedules=schedules, seed=seed, shift=shift)
        for role in _eval_roles(runs, question)
    }
    fits = {role: _with_study(one, about) for role, one in fitted.items()}
    # Scores are forecast from fits to all rows and of no kind of shift: where the plan's are such, none is made twice.
    loss_fits = {one.on: one for one in fitted.values()} if where is None and shift is None else None
    scores, of_scores = fitted_scores(runs, question, where, seed, schedules, loss_fits)
    asked, notes = _with_tokens(_with_budget(question, fits), fits)
    asked, few = with_known_doubt(asked, (*fits.values(), *scores.values()))
    # Twice: with the probability that was asked for, and by the forecasts alone; the difference is the price of doubt.
    planned, even = (plan(asked, fits, risk, scores) for risk in (asked.risk, None))
    reachable, nearest = (None, None) if planned.feasible else nearest_mix(asked, fits, planned, scores)
    of_fits = said_by((one.on, one.findings) for one in (*fits.values(), *scores.values()))
    findings = [*notes, *few, *of_scores, *map(in_answer, planned.findings), *of_fits]
    ends = [name + end for name in EXPECTED for end in ("", "_lo", "_hi")]
    # Where doubt leaves no mix, the runs that would lessen it are those for the mix of an even chance, or the nearest.
    known = next((one for one in (planned, even, nearest) if one is not None and one.feasible), planned)
    cells, trouble, spending = _next_runs(runs, asked, fits, known)
    options = by_replay(asked, planned, _base_target_loss(fits["target"].base, asked, planned))
    how = how_fitted(schedules, seed)
    words = {"to_train": runs_text(cells), "command": answer_command(runs, asked, where, how)}
    return Answer(
        question=asked.text,
        kind=asked.kind,
        feasible=planned.feasible,
        replay=planned.replay,
        tokens=planned.tokens if planned.feasible else None,
        atpp=planned.atpp,
        flops=planned.flops,
        **_rate_and_batch(asked, fits, planned),
        merge_weight=planned.merge_weight,
        lora_rank=planned.lora_rank,
        **{name: getattr(planned, name) for name in ends},
        base_source_loss=planned.base_source_loss,
        probabilities=chances(planned.limits, pd.DataFrame([point_of(asked, planned)])) if planned.feasible else {},
        scores=planned.scores,
        risk=asked.risk,
        laws=laws_in(fits, scores),
        without_risk={name: getattr(even, name, None) for name in (*WITHOUT_RISK, *EXPECTED)},
        what_if=what_if(asked, fits, planned),
        other_sizes=other_sizes(asked, fits, asked.risk, scores) if planned.feasible else (),
        options=options,
        alternatives=(
            *choices(asked, fits, planned, even, scores, options),
            *_merge_and_adapter_runs(asked, fits, planned),
        ),
        blocking=planned.blocking,
        best_reachable=reachable,
        reference=_reference_of_plan(asked, planned),
        next_runs=cells,
        most_useful_option=most_useful_option(planned, to_sharpen(asked, fits)),
        findings=by_severity(dict.fromkeys([*findings, *trouble])),
        evidence=evidence(runs, fits),
        commands=commands(runs, asked, where, fits, planned, scores=scores, how=how, spending=spending),
        _page=partial(_page, runs, asked, fits, planned, scores, **words),  # no lambda: an answer can be pickled
        _plan=planned,
    )


def _rate_and_batch(question: Asked, fits: Mapping[str, Fit], planned: MixPlan) -> dict[str, Any]:
    """Return the rate and the batch of the plan, what was run, and why they were taken."""
    tuned = advised_by_runs(fits["target"], question.n_params, planned.tokens if planned.feasible else None)
    if planned.lr_peak != tuned.get("lr_peak"):  # what a law reads was planned
        tuned = measured_rates(fits, planned, question.lr_peak) | {
            name: value for name, value in tuned.items() if name.startswith("batch")
        }
    return tuned | ({"batch_tokens": question.batch_tokens} if question.batch_tokens else {})


def _reference_of_plan(question: Asked, planned: MixPlan) -> Mapping[str, object] | None:
    """Return from which loss forgetting counts, and one standard deviation of the doubt about it, in nats."""
    if planned.fitted_mix.forgetting is None:
        return None
    reference = planned.fitted_mix.forgetting.reference
    measured = "measured" if reference.kind == "measured" else "estimated"
    return {
        "kind": measured if question.base_source_loss is None else "given",
        "loss": reference.loss,
        "sd": reference.loss * reference.half_width(ONE_SD),
    }


def _with_study(fitted: Fit, about: StudyPrior | None) -> Fit:
    """Return a fit to few runs with what else the question says of their study."""
    if about is None or not isinstance(fitted, Average) or fitted.study_prior is None:
        return fitted
    prior = replace(fitted.study_prior, lr_pretrain=about.lr_pretrain, unread=about.unread)
    return fitted if prior == fitted.study_prior else fitted.with_study_prior(prior)


def _merge_and_adapter_runs(question: Asked, fits: Mapping[str, Fit], plan: MixPlan) -> tuple[Mapping[str, Any], ...]:
    """Return what else would save the source, where the plan replays any of it."""
    if not plan.feasible or plan.replay is None or plan.tokens is None:
        return ()
    losses = {
        "base_target_loss": _base_target_loss(fits["target"].base, question, plan),
        "base_source_loss": plan.base_source_loss,
    }
    point = point_of(question, plan) | FULL_TRAINING
    result = alternatives(fits, point, **losses, forgetting=plan.forgetting)
    searched = {"merge": plan.merge_weight, "lora": plan.lora_rank}  # what the runs tell of was among the choices
    return tuple(one for one in result if searched[str(one["method"])] is None)


def _base_target_loss(base: pd.DataFrame, question: Asked, plan: MixPlan) -> float | None:
    """Return the target loss of the asked base model, given or measured, where a mix is planned."""
    if question.base_target_loss is not None:
        return float(question.base_target_loss)
    return measured_base(base, point_of(question, plan)) if plan.feasible else None


def _page(
    runs: Runs,
    question: Asked,
    fits: Mapping[str, Fit],
    plan: MixPlan,
    scores: Mapping[str, ScoreFit],
    *,
    to_train: str,
    command: str,
) -> Report:
    """Return the report of an answer with what to train and the command; what draws is loaded only then."""
    from cptlaw.reporting import report

    given = question.for_scenario(ReportOfRuns) | {"scores": scores or None}
    given["risk"] = question.risk if question.limited else None
    given |= {"at": point_of(question, plan) if plan.feasible else None, "title": question.text}
    page = report(runs, fits["target"], fits.get("source"), **given, plan=plan)
    return replace(page, to_train=to_train, commands=(command,))


def _eval_roles(runs: Runs, question: Asked) -> list[str]:
    """Return the roles that there are evals of, the target first, once nothing is missing for an answer.

    Raises
    ------
    UsageError
        With all that is missing, so that one more try will do.
    """
    roles = {runs.role(name) for name in runs.evals}
    missing = _missing_inputs(runs, question, roles)
    # What is missing of the source does no harm where nothing limits forgetting, but is said with the rest.
    needed = [text for text in missing if "source_eval" not in text or question.max_forgetting is not None]
    if needed:
        listed = "".join(f"\n  {text}" for text in missing)
        evals = f"\nEvals found: {', '.join(map(repr, runs.evals))}." if any("eval" in text for text in missing) else ""
        evals += "".join(f" By what losses do: {one.flag}" for one in questions(runs) if evals and not one.name)
        if evals and len(runs.evals) == 1 and not roles & {"source", "target"}:
            alone = command_line(["--target-eval", runs.evals[0]])
            evals += f" If it is the new domain's: {alone}, and no --max-forgetting, of which one loss says nothing."
        raise UsageError(f"{runs.label} leaves open what an answer needs. Say:{listed}{evals}")
    return [role for role in ("target", "source") if role in roles]


def _missing_inputs(runs: Runs, question: Asked, roles: Collection[str]) -> list[str]:
    """Return what the table leaves open, each with the option that says it."""
    frame = runs.frame
    missing = []
    if "target" not in roles:
        missing.append("which eval is the new domain's: target_eval= (--target-eval EVAL)")
    if "source" not in roles and (question.max_forgetting is not None or "target" not in roles):
        text = "which eval is the old domain's: source_eval= (--source-eval EVAL)"
        limited = question.max_forgetting is not None
        optional = ", or leave max_forgetting (--max-forgetting) out" if limited else ", where forgetting matters"
        missing.append(text + optional)
    if "tokens" not in frame.columns and (names := _unread_columns_with(frame, "token")):
        missing.append(f"which column counts the adaptation tokens: --columns tokens={names[0]}")
    elif "tokens" not in frame.columns and "step" in frame.columns:
        missing.append("how many tokens a step trains on: --columns batch_tokens=2M (columns= in the library)")
    budgets = sorted(set(frame["ptpp"].dropna())) if "ptpp" in frame.columns else []
    if question.ptpp is None and len(budgets) > 1:
        low, high = (format_quantity(float(end)) for end in (budgets[0], budgets[-1]))
        missing.append(f"your base model's pre-training tokens per parameter (the runs have {low} to {high}): --ptpp P")
    if missing and "n_params" not in frame.columns and (names := _unread_columns_with(frame, "param")):
        missing.append(f"which column counts the parameters, if sizes differ: --columns n_params={names[0]}")
    return missing


def _unread_columns_with(frame: pd.DataFrame, word: str) -> list[str]:
    """Return the columns that are not read as any, whose names hold a word; tokens per parameter are neither."""
    names = [str(name) for name in frame.columns if str(name) not in COLUMNS]
    return [name for name in names if word in name.lower() and "per" not in re.split(r"[\W_]+", name.lower())]


def with_known_doubt(question: Asked, fits: Iterable[Fit | ScoreFit]) -> tuple[Asked, list[Finding]]:
    """Return the question without a probability where too few runs say how runs differ."""
    fits = tuple(fits)
    runs = min(int(fit.n_runs) for fit in fits)
    told = all(fit.uses_studies for fit in fits)
    if runs >= MIN_RUNS or told or not question.limited:
        return question, []
    note = Finding(
        "warning",
        "few-runs",
        f"{counted(runs, 'run')} cannot say how runs differ: limits are kept by the forecasts "
        f"themselves, as likely as not.",
        f"Add runs: from {MIN_RUNS} on limits are kept with a probability.",
    )
    return question.replaced(risk=None), [note]


def _with_budget(question: Asked, fits: Mapping[str, Fit]) -> Asked:
    """Return the question with the pre-training budget of the runs, where it was not said and they have but one."""
    if question.ptpp is not None:
        return question
    frames = [fit.data for fit in fits.values() if "ptpp" in fit.data.columns]
    levels = sorted({float(level) for frame in frames for level in frame["ptpp"].dropna()})
    return question.replaced(ptpp=levels[0]) if len(levels) == 1 else question


def _with_tokens(question: Asked, fits: Mapping[str, Fit]) -> tuple[Asked, list[Finding]]:
    """Return the question with tokens where neither they, nor compute, nor a limit on the target says how many."""
    target = fits["target"]
    if question.target_tokens is not None and "replay" not in target.data.columns:
        # Models from scratch and fine-tuning train on nothing else.
        question = question.replaced(tokens=question.target_tokens, target_tokens=None)
    if question.kind != "min-tokens" or question.max_target_loss is not None or question.min_score:
        return question, _no_limit(question, fits)
    tokens, note = tokens_assumed(
        target.data, question, "Give --tokens, --target-tokens, --budget or --max-target-loss."
    )
    return question.replaced(tokens=tokens), [note, *_no_limit(question, fits)]


def tokens_assumed(data: pd.DataFrame, question: Asked, advice: str) -> tuple[float, Finding]:
    """Return the tokens to plan with where the question says none, and the finding that says so."""
    # As far as anything was measured: beyond it the answer would rest on the law alone.
    sizes = data["n_params"] if "n_params" in data.columns else question.n_params
    per_parameter = float((data["tokens"] / sizes).max())
    tokens = per_parameter * question.n_params
    return tokens, Finding(
        "info",
        "tokens-assumed",
        f"nothing says how many tokens may be spent: {format_quantity(tokens, 3)} are planned with, "
        f"{per_parameter:.3g} per parameter, the most that your runs have.",
        advice,
    )


def _no_limit(question: Asked, fits: Mapping[str, Fit]) -> list[Finding]:
    """Say that nothing limits forgetting, unless something is limited or models from scratch have nothing to forget."""
    if question.limited or "replay" not in fits["target"].data.columns:
        return []
    if "source" not in fits:
        text = (
            "no eval is the old domain's, so nothing is known of forgetting, and only the target loss is planned for."
        )
        return [
            Finding("warning", "no-limit", text, "Evaluate every run and the base model on a set of the old domain.")
        ]
    return [
        Finding(
            "info",
            "no-limit",
            "nothing limits the forgetting, so the replay with the lowest target loss is planned.",
            "Say how much forgetting is too much.",
            remedy=Remedy("max_forgetting", "2%"),
        )
    ]


def _next_runs(
    runs: Runs, question: Asked, fits: Mapping[str, Fit], plan: MixPlan
) -> tuple[tuple[Mapping[str, object], ...], list[Finding], float | None]:
    """Return the runs worth buying next, why there are none, and for what compute; see `next_runs`."""
    if not plan.feasible or plan.flops is None:
        return (), [], None
    row, role = pd.DataFrame([point_of(question, plan)]), to_sharpen(question, fits)
    above = plan.fitted_mix.forgetting if role == "source" else None
    return next_runs(runs, fits[role], row, plan.flops, question.n_active, above)


def laws_in(fits: Mapping[str, Fit], scores: Mapping[str, ScoreFit]) -> tuple[Mapping[str, object], ...]:
    """Return eval, law and weight of each law of the fitted losses and scores."""
    of_losses = [(one.on, part.fit.law.spec, part.weight) for one in fits.values() for part in one.members]
    of_scores = [(name, part.name, part.weight) for name, one in scores.items() for part in one.members]
    return tuple({"on": on, "law": law, "weight": weight} for on, law, weight in (*of_losses, *of_scores))


def evidence(runs: Runs, fits: Mapping[str, Fit]) -> tuple[Mapping[str, object], ...]:
    """Return which rows of one's own an answer rests on, by the name of each fitted loss."""
    return tuple(
        {
            "study": runs.label,
            "outcome": f"{role} loss",
            "source": "your runs",
            "rows": len(one.data),
            "runs": int(one.data["run"].nunique()),
            "fingerprint": runs.fingerprint,
        }
        for role, one in fits.items()
    )
