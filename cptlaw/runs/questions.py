"""Columns that vary and are read as nothing: what each may be, tested against the rows, and how to say it.

An answer that ignores a setting is wrong, and sure of itself. So each such column is a question with the choices that
its values and the losses leave open, and the flag that answers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.commands import command_line
from cptlaw.errors import UsageError, quote
from cptlaw.findings import Finding
from cptlaw.runs.candidates import LARGE, SMALL, UNLIKELY, Numbers, Offer, best_together
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.derive import tokens_of_a_step
from cptlaw.runs.evidence import MOST_LEVELS, Effect, Evidence
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.loss_questions import SOMEWHAT_LESS, about_losses, about_roles, likely_roles
from cptlaw.runs.question import Question, UnreadColumnError, as_flag
from cptlaw.runs.run_names import IN_RUN, MIX_IN_RUN, with_parts
from cptlaw.runs.schema import COLUMNS, mix_columns
from cptlaw.runs.table import Runs
from cptlaw.runs.tracker_names import looks_like, role_of_name, words_of
from cptlaw.runs.where import parse
from cptlaw.runs.within import STEP
from cptlaw.units import format_percent

Floats = NDArray[np.float64]

# Words of columns that hold what came out of a run or what it ran on. They count only where a column has a value of
# its own in each row: whatever the name of one with few levels, it may be a setting.
NO_SETTING = frozenset(
    "loss ppl perplexity nll ce bpb acc accuracy score em f1 err error std sd se stderr sem ci lo hi lower upper grad "
    "norm time seconds secs sec minutes hours runtime duration timestamp date created updated started ended elapsed "
    "speed throughput mfu tflops memory mem gb host node user commit sha url path note notes comment index idx id "
    "unnamed row rank rows kl bleu rouge reward entropy train valid validation val eval test epoch last logged".split()
)
SCHEDULES = re.compile(r"cosine|linear|constant|wsd|decay|anneal", re.IGNORECASE)
RATE = frozenset(("lr", "learningrate", "rate"))
MOST_CHOICES = 6
APART = 6.0  # how well two counts of tokens fit, of old and new ones
MOST_ALONE = 12  # levels of a number, of which one may be kept alone


def questions(runs: Runs, where: str | None = None) -> tuple[Question, ...]:
    """Return a question for each column that may be a setting and is read as nothing; what explains losses first.

    Parameters
    ----------
    where
        Filter of the rows that are meant: a column that varies elsewhere alone does no harm.
    """
    key = ("questions", str(where), *runs.frame.columns)
    if key not in runs.memo:
        runs.memo[key] = _questions(runs, where)
    found: tuple[Question, ...] = runs.memo[key]
    return found


def _questions(runs: Runs, where: str | None) -> tuple[Question, ...]:
    rows = runs if where is None else runs.where(where)
    found, roles = _column_questions(rows, rows.frame.columns)
    if not found and "run" not in (*rows.assumed, *rows.accounted_for):
        # What no column tells the names of runs may; they are settings only where losses say so.
        named = with_parts(rows.frame, "run")
        parts = [name for name in named.columns if name not in rows.frame.columns and not _is_rate(name)]
        found, roles = _column_questions(replace(rows, frame=named), parts) if parts else (found, roles)
    found = [*about_losses(rows), *about_roles(rows, roles), *found]
    return tuple(sorted(found, key=lambda one: not one.explains))


def _column_questions(rows: Runs, columns: Iterable[object]) -> tuple[list[Question], dict[str, str]]:
    """Return questions about columns, and the eval that each role likely has."""
    ends = _ends(rows)
    names = [str(name) for name in columns if _is_open(rows, str(name), ends)]
    evidence = Evidence(rows, names)
    effects = {name: evidence.effects(name) for name in names}
    needed = {
        name: _is_mix_in_run(rows, name)
        or (IN_RUN not in name and _may_be_missing(rows, name))
        or ((IN_RUN not in name or _may_count_tokens(rows, name)) and _is_needed(rows, name))
        for name in names
    }
    asked = {name: some for name, some in effects.items() if needed[name] or any(one.explains for one in some)}
    counts = [some for name, some in effects.items() if _may_count_tokens(rows, name)]
    roles = likely_roles(rows, counts)
    choices = _choices(rows, asked, roles)
    # Rates come in sweeps, of which the best run of each cell counts; a law of them needs no answer here.
    found = [
        _question(rows, name, some, choices[name], needed[name] or not _is_rate(name)) for name, some in asked.items()
    ]
    return found, roles or likely_roles(rows, counts, SOMEWHAT_LESS)


def _is_mix_in_run(runs: Runs, name: str) -> bool:
    """Whether names of runs hold both parts of a mix that no column gives: losses of a few runs tell little of it."""
    return name == MIX_IN_RUN and "replay" in _missing(runs)


def _is_open(runs: Runs, name: str, ends: Sequence[Floats]) -> bool:
    """Whether a column varies, is read as nothing, and may be a setting by its values."""
    frame = runs.frame
    if name in COLUMNS or mix_columns([name]) or name in runs.accounted_for or name.startswith("unique_"):
        return False
    column = frame[name]
    levels = hashable(column).nunique(dropna=True)
    if levels < 2:
        return False
    values, unreadable = to_numbers(column)
    if _is_length(values, ends):
        return False
    n_runs = max(len(frame["run"].cat.categories), 1)
    if unreadable.any():
        return bool(levels <= min(MOST_LEVELS, max(2, n_runs // 3)))
    # A level that several rows of an eval share was set; what came out of a run seldom comes out twice.
    per_eval = len(frame) / max(len(frame["eval"].cat.categories), 1)
    return bool(levels <= max(2, per_eval / 2)) or not _is_outcome(name)


def _ends(runs: Runs) -> list[Floats]:
    """Return the last step and all tokens of the run of each row, where they are known, (n,) each."""
    by_run = runs.frame.groupby("run", observed=True)
    return [by_run[name].transform("max").to_numpy(dtype=float) for name in ("step", "tokens") if name in runs.frame]


def _is_length(values: Floats, ends: Sequence[Floats]) -> bool:
    """Whether numbers are those of the last step or of all tokens of runs, which the rows say already."""
    return any(end.max() > 0 and ((np.abs(values - end) < end / STEP) | (end == 0)).all() for end in ends)


def _is_outcome(name: str) -> bool:
    return bool(NO_SETTING & words_of(name))


def _is_rate(name: str) -> bool:
    return bool(RATE & words_of(name))


def _missing(runs: Runs) -> list[str]:
    """Return the inputs of laws that no column gives."""
    frame = runs.frame
    known = set(frame.columns)
    known |= {"replay"} if runs.corpora else set()
    known |= {"tokens"} if "samples" in known else set()
    known |= {"lr_peak"} if "lr" in known else set()
    return [name for name in ("replay", "tokens", "n_params", "ptpp", "lr_peak") if name not in known]


def _may_be_missing(runs: Runs, name: str) -> bool:
    """Whether a column sounds like an input of laws that no column gives; whether it is one the losses do not tell."""
    return looks_like(name) in _missing(runs) and _is_amount(runs, name)


def _is_needed(runs: Runs, name: str) -> bool:
    """Whether a column may count the tokens or parameters without which nothing can be fitted, and no other does.

    Sizes often come with lengths of their own, so that no rows are left that are alike in one and not in the other.
    """
    missing = _missing(runs)
    if not {"tokens", "n_params"} & set(missing) or not _is_amount(runs, name) or _is_outcome(name):
        return False
    values, _ = to_numbers(runs.frame[name])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if "n_params" in missing and low >= SMALL / 10 and high < LARGE and not _varies_within_runs(runs, name):
        return True
    return "tokens" in missing and "step" not in runs.frame.columns and low > 0 and high > 1.0


def _is_amount(runs: Runs, name: str) -> bool:
    values, unreadable = to_numbers(runs.frame[name])
    return not unreadable.any() and not (values < 0).any()


def _question(runs: Runs, name: str, effects: Sequence[Effect], choices: Sequence[str], explains: bool) -> Question:
    column = runs.frame[name]
    values, unreadable = to_numbers(column)
    is_text = bool(unreadable.any())
    ignored = f"{IGNORE}={name}"
    choices = list(dict.fromkeys([*choices[: MOST_CHOICES - 1], ignored]))
    known = values[np.isfinite(values)]
    levels = list(dict.fromkeys(str(value) for value in column.dropna()))
    sounds = None if is_text or not _may_be_missing(runs, name) else looks_like(name)
    varies = f"has {len(levels)} values ({', '.join(map(quote, levels[:3]))}{', ..' * (len(levels) > 3)})"
    if not is_text:
        varies = f"varies ({known.min():g} to {known.max():g})"
    meant = f"looks like {sounds} ({COLUMNS[sounds].meaning}), but its name is not known" if sounds else ""
    text = f"column {name!r} {varies} and {meant or 'is read as nothing'}.{_observed(effects, is_text)} What is it?"
    if is_text or (explains and len(levels) <= MOST_ALONE):
        first = repr(levels[0]) if is_text else f"{known[0]:.10g}"
        text += _alone(f"{name} == {first}")
    return Question(name, text, tuple(choices), as_flag(choices[0]), explains)


def _alone(query: str) -> str:
    """Say how rows of one value are kept, where a filter can name the column."""
    try:
        parse(query)
    except UsageError:
        return ""
    return f" One value alone is kept with {command_line(['--where', query])}."


def _observed(effects: Sequence[Effect], is_text: bool) -> str:
    """Return what the losses do with a column, in words."""
    told = sorted((effect for effect in effects if effect.explains), key=lambda effect: -effect.size)[:2]
    if not told:
        return ""
    if is_text or not all(effect.change for effect in told):
        parts = [f"that on {effect.eval!r} differs by {format_percent(effect.size, 2)}" for effect in told]
    else:
        parts = [
            f"that on {effect.eval!r} {'rises' if effect.change > 0 else 'falls'} by "
            f"{format_percent(abs(float(np.expm1(effect.change))), 2)}"
            for effect in told
        ]
    how = "" if is_text else " from its lowest to its highest value"
    return f" Among rows alike else losses differ with it:{how} {' and '.join(parts)}."


def _text_offers(runs: Runs, name: str) -> Iterator[Offer]:
    """Yield what a column of words can be."""
    # What names evals differs within a run.
    if "eval" in runs.assumed and ("run" in runs.assumed or _varies_within_runs(runs, name)):
        yield 2.0, f"eval={name}"
    scheduled = any(SCHEDULES.search(str(value)) for value in hashable(runs.frame[name].dropna()).unique())
    schedules = ["lr_schedule"] if scheduled and not _is_of_base(runs, name) else []
    for place, one in enumerate((*schedules, "method", "domain")):
        if one not in runs.frame.columns:
            yield 1.0 - 0.1 * place, f"{one}={name}"
    yield UNLIKELY, f"{IGNORE}={name}"


def _is_of_base(runs: Runs, name: str) -> bool:
    """Whether base models differ in a column, so that it is none of how they were adapted."""
    if "tokens" not in runs.frame.columns:
        return False
    return bool(hashable(runs.frame.loc[runs.frame["tokens"] == 0, name].dropna()).nunique() > 1)


def _choices(runs: Runs, asked: Mapping[str, Sequence[Effect]], roles: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what each column can be: by its range, by what is missing and by what the losses do with it."""
    texts = [name for name in asked if to_numbers(runs.frame[name])[1].any()]
    numbers = [_numbers(runs, name, some, roles) for name, some in asked.items() if name not in texts]
    sized = "n_params" in runs.frame.columns or any(one.is_size for one in numbers)
    offers: dict[str, list[Offer]] = {one.name: replace(one, sized=sized).offers() for one in numbers}
    for old, new in _counts_apart(runs, numbers):
        pair = f"replay={old}/({old}+{new}),tokens={old}+{new}"
        offers |= {name: [(APART, pair), *offers[name]] for name in (old, new)}
    offers = {name: [*_part_offers(runs, name), *some] for name, some in offers.items()}
    offers |= {name: list(_text_offers(runs, name)) for name in texts}
    return best_together(offers)


def _numbers(runs: Runs, name: str, effects: Sequence[Effect], roles: Mapping[str, str]) -> Numbers:
    frame, change = runs.frame, {effect.eval: effect.change for effect in effects}
    return Numbers.of(
        frame,
        name,
        within=_varies_within_runs(runs, name),
        source=change.get(roles.get("source", ""), 0.0),
        target=change.get(roles.get("target", ""), 0.0),
        missing=tuple(_missing(runs)),
        steps_count=None if "step" in frame else "batch_tokens" in frame or tokens_of_a_step(frame) is not None,
    )


def _may_count_tokens(runs: Runs, name: str) -> bool:
    values, unreadable = to_numbers(runs.frame[name])
    return not unreadable.any() and float(np.nanmax(values)) >= SMALL


def _counts_apart(runs: Runs, numbers: Sequence[Numbers]) -> Iterator[tuple[str, str]]:
    """Yield pairs of columns that count the old and the new tokens of the mix, as their names say."""
    counts = [one.name for one in numbers if one.high >= SMALL and "tok" in one.name.lower()]
    old, new = ([name for name in counts if role_of_name(name) == role] for role in ("source", "target"))
    if {"replay", "tokens"} <= set(_missing(runs)) and len(old) == len(new) == 1:
        yield old[0], new[0]


def _part_offers(runs: Runs, name: str) -> Iterator[Offer]:
    """Yield what a count of the old or of the new tokens tells beside the share of them, or beside all tokens."""
    role, missing = role_of_name(name), _missing(runs)
    if role is None or "tok" not in name.lower() or not _may_count_tokens(runs, name):
        return
    if "replay" in missing and "tokens" not in missing:
        yield APART, f"replay={name}/tokens" if role == "source" else f"replay=1-{name}/tokens"
    if "tokens" in missing and "replay" not in missing and role == "target":
        yield APART, f"tokens={name}/(1-replay)"


def _varies_within_runs(runs: Runs, name: str) -> bool:
    """Whether a column changes along a run, as tokens do and no setting does."""
    if "run" in runs.assumed:
        return False
    by_run = pd.Series(pd.factorize(hashable(runs.frame[name]))[0]).groupby(runs.frame["run"].cat.codes.to_numpy())
    return bool((by_run.nunique() > 1).any())


def refuse_unread(runs: Runs, where: str | None = None) -> None:
    """Refuse runs whose losses differ with a column that is read as nothing.

    Raises
    ------
    UnreadColumnError
        With every question that is open, and the flags that answer them.
    """
    asked = questions(runs, where)
    if any(one.explains for one in asked):
        raise UnreadColumnError(runs.label, asked)


def refuse_likely(runs: Runs) -> None:
    """Refuse runs in which a column sounds like an input of laws that no other column gives: none may be fitted.

    Raises
    ------
    UnreadColumnError
        With every question that is open.
    """
    names = [str(name) for name in runs.frame.columns if str(name) not in COLUMNS and looks_like(str(name))]
    ends = _ends(runs)
    if any(_may_be_missing(runs, name) and _is_open(runs, name, ends) and _is_amount(runs, name) for name in names):
        raise UnreadColumnError(runs.label, questions(runs))


def unread_findings(runs: Runs, where: str | None = None) -> list[Finding]:
    """Return a warning for each column that explains losses and is read as nothing."""
    return [
        Finding("warning", "unread-column", one.question, f"Say what it is: {one.flag}.")
        for one in questions(runs, where)
        if one.explains
    ]
