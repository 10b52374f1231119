"""`answer`: one question, from runs where there are some, from the studies of others where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from cptlaw.answering.base_models import BaseModel
from cptlaw.answering.base_models import base as named
from cptlaw.answering.by_kind import best_kind
from cptlaw.answering.of_corpora import from_mixes
from cptlaw.answering.one_corpus import rows_of_corpus
from cptlaw.answering.question import RANGE, Asked
from cptlaw.answering.result import Answer
from cptlaw.answering.takes import add_costs, devices_of
from cptlaw.answering.with_runs import from_runs
from cptlaw.answering.without_runs import from_studies
from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.learned.forgetting_and_gain import check_shift
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.laws.shared_tokens import FULL_TRAINING
from cptlaw.planning.options import label
from cptlaw.planning.scenario import AnswerQuestion, documented
from cptlaw.runs import Runs, read_runs, refuse_unread
from cptlaw.runs.data_errors import data_errors, one_run
from cptlaw.runs.kinds import KINDS
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import SchedulesLike

TEXT_NOT_PUBLIC = Finding(
    "info",
    "text-not-public",
    "what this base model was pre-trained on is not public, and replay is taken to be of it.",
    "Say so where you replay other text, which the model then learns besides.",
    remedy=Remedy("replay_of", "other"),
)


def answer(
    runs: RunsLike | None = None,
    *,
    shift: str | None = None,
    base: str | None = None,
    domain: str | None = None,
    where: str | None = None,
    schedules: SchedulesLike | None = None,
    seed: int = 0,
    anyway: bool = False,
    **asked: Unpack[AnswerQuestion],
) -> Answer:
    """Say what to train, what to expect of both losses, how sure that is, and what to run next.

    Parameters
    ----------
    runs
        A runs table: `Runs`, a DataFrame or a path. Without one the studies of others speak.
    shift
        What kind of new domain it is, ``"language"``, ``"domain"``, ``"code"`` or ``"near"``. Without runs one unlike
        the old where it is not said; the fewer runs there are, the more it counts.
    base
        Name of a known open base model (`bases`), its id on Hugging Face, or the path of a config.json: says
        ``n_params``, ``ptpp`` and, without runs, ``lr_pretrain`` where they are not given.
    domain
        With runs on several corpora (column ``domain``): the one that is asked about; the others give priors.
    where
        Filter of rows.
    schedules
        Learning-rate schedules by run, or a schedules file; laws that read them then join.
    seed
        Of the searches.
    anyway
        Whether to answer from a table with errors too, such as a loss that never moves, or one run alone.
    **asked
        The question: the model, what may be spent (one of tokens, target_tokens and budget), and limits. Numbers, or
        texts such as ``"8B"`` and ``"2%"``.

    Returns
    -------
    Answer
        ``feasible`` is False where no mix keeps the limits.

    Raises
    ------
    UsageError, DataError
        If an argument or a row is unusable.

    Examples
    --------
    >>> import cptlaw as cl
    >>> answer = cl.answer(n_params="8B", ptpp=1875, target_tokens="20B", max_forgetting="30%", shift="language")
    >>> answer.feasible, answer.kind
    (True, 'limited-data')
    """
    given: dict[str, object] = dict(asked)
    model = None if base is None else named(base, given, needs_tokens=runs is None)
    if model is not None:
        published = {name: one for name, one in model.known.items() if runs is None or name != "lr_pretrain"}
        given |= {name: value for name, value in published.items() if given.get(name) is None}
    question = Asked.read(given)
    devices_of(question)  # a wrong one is said before minutes of work
    if runs is None and question.benchmarks:
        raise UsageError("limits in points (--min, --max-drop) need RUNS with scores: the studies of others have none.")
    if runs is None:
        _refuse_choices_among_runs(question, {"domain": domain, "where": where, "schedules": schedules})
        result = add_costs(from_studies(question, shift), question)
        return result if base is None or model is None else _about_base(result, base, model, question)
    known = StudyPrior(check_shift(shift), question.lr_pretrain, unread=question.replay_of == "other")
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    chosen = rows_of_corpus(table, domain, where)

    def checked() -> tuple[Finding, ...]:
        refuse_unread(table, where)
        return _about_data(table if chosen is None else table.where(chosen), anyway)

    about = FITS.fitted(checked, table, "checked", where, chosen, anyway)

    def ask(rows: str | None) -> Answer:
        if table.corpora and "replay" not in table.frame.columns:
            return from_mixes(table, question, rows, seed)
        return from_runs(table, question, rows, schedules, seed, about=known)

    result = add_costs(best_kind(table, question, chosen, ask), question)
    of_model, loaded_as = ((), None) if model is None else (model.findings, model.loaded_as)
    return replace(result, base=loaded_as, findings=by_severity([*about, *result.findings, *of_model]))


def _refuse_choices_among_runs(question: Asked, more: dict[str, object]) -> None:
    """Refuse what chooses among runs, where there are none."""
    of_runs = {name: getattr(question, name) for name in (*RANGE, *KINDS, *FULL_TRAINING)}
    for name, value in (of_runs | more).items():
        if value is not None:
            instead = " What merges and adapters come to: -v, or `alternatives`." if name in FULL_TRAINING else ""
            raise UsageError(f"{label(name)} chooses among runs, and no runs were given.{instead}")


def _about_base(answer: Answer, base: str, model: BaseModel, question: Asked) -> Answer:
    """Return an answer without runs for a base model that was named: its next runs and findings speak of it."""
    notes = [*model.findings, *([TEXT_NOT_PUBLIC] if model.text_is_secret and question.replay_of is None else [])]
    named_runs = tuple({"base": base, **cell} for cell in answer.next_runs)
    findings = by_severity([*notes, *answer.findings])
    return replace(answer, base=model.loaded_as, next_runs=named_runs, findings=findings)


def _about_data(rows: Runs, anyway: bool) -> tuple[Finding, ...]:
    """Return what is wrong with the rows that an answer is to come from.

    Raises
    ------
    DataError
        If it is an error, and nobody asked to go on.
    """
    about = (*one_run(rows), *data_errors(rows))
    errors = [f"\n  {one.message} [{one.code}]\n    -> {one.advice}" for one in about if one.severity == "error"]
    if errors and not anyway:
        raise DataError(
            f"{rows.label}: no answer from these rows can be right.{''.join(errors)}\n"
            "Correct the table, or go on in spite of it: anyway=True (--anyway)."
        )
    return about


documented(answer, AnswerQuestion)
