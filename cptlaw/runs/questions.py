"""Columns that vary and are read as nothing: what each may be, tested against the rows, and how to say it.

An answer that ignores a setting is wrong, and sure of itself. So each such column is a question with the choices that
its values and the losses leave open, and the flag that answers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.commands import command_line
from cptlaw.errors import DataError, UsageError, shown
from cptlaw.findings import Finding
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.evidence import FEW, MOST_LEVELS, Effect, Evidence
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.schema import COLUMNS, mix_columns
from cptlaw.runs.table import Runs
from cptlaw.runs.tracker_names import looks_like
from cptlaw.runs.where import parse
from cptlaw.runs.within import correlation_within
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
OLD = re.compile(
    r"(?:^|[\W_])(?:en|eng|english|pile|c4|web|fineweb|dclm|general|old|base|pretrain|orig|source|wiki|pajama|slimpajama)"
    r"(?:$|[\W_])",
    re.IGNORECASE,
)
RATE = frozenset(("lr", "learningrate", "rate"))
SMALL, LARGE = 1e5, 1e15  # counts of parameters and tokens lie between; beyond are FLOPs
HIGHEST_LOSS = 13.0  # nats per token: a uniform guess over half a million words
TOGETHER = 0.6  # correlation with log tokens, from which a value rises as a model learns
FEWEST_PER_PARAM = 1e-3  # tokens per parameter at the end of the longest run; fewer teach nothing
UNLIKELY = 0.45  # how well a choice fits, below which a setting that no law reads is likelier
MOST_CHOICES = 6
MOST_SHARES = 15  # levels of a share that was set; more are of something that grows
MOST_ALONE = 12  # levels of a number, of which one may be kept alone


@dataclass(frozen=True)
class Question:
    """A column that varies and is read as nothing.

    Parameters
    ----------
    name
        The column of the file.
    question
        What is known of it, and what is asked.
    choices
        What it can be, as `--columns` takes it, the likeliest first.
    flag
        The option with the likeliest choice.
    explains
        Whether losses differ with it among rows alike else, so that an answer without it would be wrong.
    """

    name: str
    question: str
    choices: tuple[str, ...]
    flag: str
    explains: bool


def questions(runs: Runs, where: str | None = None) -> tuple[Question, ...]:
    """Return a question for each column that may be a setting and is read as nothing; what explains losses first.

    Parameters
    ----------
    where
        Filter of the rows that are meant: a column that varies elsewhere alone does no harm.
    """
    rows = runs if where is None else runs.where(where)
    names = [str(name) for name in rows.frame.columns if _is_open(rows, str(name))]
    found = list(_of_losses(rows))
    if not names:
        return tuple(found)
    evidence = Evidence(rows, names)
    for name in names:
        effects = evidence.effects(name)
        explains = any(effect.explains for effect in effects)
        needed = _is_needed(rows, name)
        if explains or needed or _may_be_missing(rows, name):
            # Rates come in sweeps, of which the best run of each cell counts; a law of them needs no answer here.
            harms = needed or (explains and not _of_rate(name))
            found.append(_question(rows, name, effects, harms))
    return tuple(sorted(found, key=lambda one: not one.explains))


def _of_losses(runs: Runs) -> Iterator[Question]:
    """Ask about losses that can be none: perplexities, and scores that rise as a model learns."""
    if "metric" in runs.frame.columns:
        return
    for name in runs.evals:
        rows = runs.on(name).frame
        adapted = rows[rows["tokens"] > 0] if "tokens" in rows.columns else rows
        loss = adapted["loss"].to_numpy(dtype=float)
        if not len(loss):
            continue
        if float(np.median(loss)) > HIGHEST_LOSS:
            text = (
                f"the losses of {name!r} are {loss.min():.4g} to {loss.max():.4g}: more than guessing costs in nats. "
                f"Are they perplexities? In a table with a column for each eval, --losses '{name}=log(COLUMN)'."
            )
            yield Question(name, text, ("loss=log(loss)", "metric=loss"), as_flag("loss=log(loss)"), True)
        elif runs.role(name) == "target" and loss.max() <= 1.0 and len(loss) >= FEW and _rises_with_tokens(adapted):
            text = (
                f"the values of {name!r} lie between 0 and 1 and rise with tokens, as a score does and the loss on the "
                f"corpus that is learned does not. What are they? In a table with a column for each eval, --scores "
                f"'{name}=COLUMN'."
            )
            yield Question(name, text, ("metric=accuracy", "metric=loss"), as_flag("metric=accuracy"), True)


def _rises_with_tokens(rows: pd.DataFrame) -> bool:
    """Whether values rise with tokens between rows alike else."""
    if "tokens" not in rows.columns:
        return False
    alike = [rows[name].fillna(-1.0).to_numpy() for name in ("n_params", "ptpp", "replay") if name in rows.columns]
    tokens, values = (rows[name].to_numpy(dtype=float) for name in ("tokens", "loss"))
    return (correlation_within(np.log(tokens), values, alike) or 0.0) > TOGETHER


def _is_open(runs: Runs, name: str) -> bool:
    """Whether a column varies, is read as nothing, and may be a setting by its values."""
    frame = runs.frame
    if name in COLUMNS or name in mix_columns(frame.columns) or name in runs.settled or name.startswith("unique_"):
        return False
    column = frame[name]
    levels = hashable(column).nunique(dropna=True)
    if levels < 2:
        return False
    _, unreadable = to_numbers(column)
    n_runs = max(len(frame["run"].cat.categories), 1)
    if unreadable.any():
        return bool(levels <= min(MOST_LEVELS, max(2, n_runs // 3)))
    # A level that several rows of an eval share was set; what came out of a run seldom comes out twice.
    per_eval = len(frame) / max(len(frame["eval"].cat.categories), 1)
    return bool(levels <= max(2, per_eval / 2)) or not _is_outcome(name)


def _is_outcome(name: str) -> bool:
    return bool(NO_SETTING & _words(name))


def _of_rate(name: str) -> bool:
    return bool(RATE & _words(name))


def _words(name: str) -> set[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return {word.lower() for word in re.findall(r"[^\W_]+", apart)}


def _missing(runs: Runs) -> list[str]:
    """Return the inputs of laws that no column gives."""
    frame = runs.frame
    known = set(frame.columns)
    known |= {"replay"} if mix_columns(frame.columns) or "mix" in known else set()
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


def _question(runs: Runs, name: str, effects: Sequence[Effect], explains: bool) -> Question:
    column = runs.frame[name]
    values, unreadable = to_numbers(column)
    is_text = bool(unreadable.any())
    choices = _of_text(runs, name) if is_text else _of_numbers(runs, name, values, effects)
    ignored = f"{IGNORE}={name}"
    choices = list(dict.fromkeys([*choices[: MOST_CHOICES - 1], ignored]))
    known = values[np.isfinite(values)]
    levels = list(dict.fromkeys(str(value) for value in column.dropna()))
    sounds = None if is_text or not _may_be_missing(runs, name) else looks_like(name)
    varies = f"has {len(levels)} values ({', '.join(map(shown, levels[:3]))}{', ..' * (len(levels) > 3)})"
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


def _of_text(runs: Runs, name: str) -> list[str]:
    """Return what a column of words can be."""
    # What names evals differs within a run.
    known = ["eval"] if "eval" in runs.assumed and ("run" in runs.assumed or _varies_within_runs(runs, name)) else []
    scheduled = any(SCHEDULES.search(str(value)) for value in hashable(runs.frame[name].dropna()).unique())
    scheduled &= not _is_of_base(runs, name)
    known += ["lr_schedule"] if scheduled else []
    return [f"{one}={name}" for one in (*known, "method", "domain") if one == "eval" or one not in runs.frame.columns]


def _is_of_base(runs: Runs, name: str) -> bool:
    """Whether base models differ in a column, so that it is none of how they were adapted."""
    if "tokens" not in runs.frame.columns:
        return False
    return bool(hashable(runs.frame.loc[runs.frame["tokens"] == 0, name].dropna()).nunique() > 1)


def _of_numbers(runs: Runs, name: str, values: Floats, effects: Sequence[Effect]) -> list[str]:
    """Return what a column of numbers can be, by its range, by what is missing and by what the losses do with it."""
    known = values[np.isfinite(values)]
    low, high = float(known.min()), float(known.max())
    missing, sounds = _missing(runs), looks_like(name)
    changes = _by_role(runs, effects)
    scored = [
        (score, pair) for column in missing for score, pair in _as_input(runs, column, name, (low, high), changes)
    ]
    # What its name sounds like comes first where the values allow it.
    scored = [(score + 2.0 * (pair.partition("=")[0] == sounds), pair) for score, pair in scored]
    scored = sorted([*scored, (UNLIKELY, f"{IGNORE}={name}")], key=lambda one: -one[0])
    return [pair for _, pair in scored]


def _as_input(
    runs: Runs, column: str, name: str, span: tuple[float, float], changes: dict[str, float]
) -> list[tuple[float, str]]:
    """Return the ways in which a column can give an input that is missing, each with how well it fits."""
    low, high = span
    source, target = changes.get("source", 0.0), changes.get("target", 0.0)
    within = _varies_within_runs(runs, name)
    if low < 0:
        return []
    if column == "replay" and high <= 100.0:
        if within or (high > 1.0 and low > 0 and low < 1):
            return []
        share = name if high <= 1.0 else f"{name}%"
        # Replay keeps the source loss low; the target loss pays for it, and tells less.
        toward = 3.0 * source if source else -target
        fits = (2.0 if high <= 1.0 else 1.0) - (hashable(runs.frame[name]).nunique() > MOST_SHARES)
        pairs = [(fits - np.sign(toward) * 0.5, f"replay={share}"), (fits + np.sign(toward) * 0.5, f"replay=1-{share}")]
        return [(float(score), pair) for score, pair in pairs]
    if column == "tokens" and ("replay" not in _missing(runs) or high > 1.0):
        # More tokens of the new corpus lower its loss, and as a rule raise the old one's.
        return _as_tokens(runs, name, span, 1.0 + 0.5 * (target < 0) + 0.5 * np.sign(source) * (target == 0) + within)
    if within or column == "tokens":
        return []
    falls = 0.5 * (target < 0) + 0.5 * (source < 0)
    if column == "n_params":
        if high >= LARGE:
            return []
        unit = "" if low >= SMALL / 10 else ":M" if low >= 10 else ":B"
        return [(1.0 + falls + 0.4 * (not unit), f"n_params={name}{unit}")]
    if column == "ptpp":
        if low >= 1e8:
            return [(0.8 + falls, f"pt_tokens={name}")]
        return [(0.9 + falls, f"ptpp={name}")] if low >= 0.5 and 1.0 < high <= SMALL else []
    return [(1.2, f"lr_peak={name}")] if low > 0 and high < 0.05 else []


def _as_tokens(runs: Runs, name: str, span: tuple[float, float], fits: float) -> list[tuple[float, str]]:
    """Return the ways in which a column can count tokens, or the steps that they follow from."""
    low, high = span
    sized = "n_params" in runs.frame.columns
    values = to_numbers(runs.frame[name])[0]
    steps = [(fits, f"step={name}")] if np.all(values[np.isfinite(values)] % 1 == 0) and high > 10 else []
    steps = [] if "step" in runs.frame.columns else steps
    if high >= LARGE and low >= SMALL:
        return [(fits, f"tokens={name}/(6*n_params)")] if sized else []
    if high >= SMALL:
        enough = not sized or high >= FEWEST_PER_PARAM * float(runs.frame["n_params"].median())
        return [(fits + 0.5, f"tokens={name}")] if enough else steps
    per = [(fits - 0.4, f"tokens={name}*n_params")] if sized and low >= 1 else []
    # What starts at 0 and grows along a run in whole numbers counts steps, or looks at the run.
    steps = [(score - (0.0 if low == 0 else 0.6), pair) for score, pair in steps]
    return [*per, (fits - 0.5, f"tokens={name}:B"), *steps, (fits - 1.0, f"tokens={name}:M")]


def _varies_within_runs(runs: Runs, name: str) -> bool:
    """Whether a column changes along a run, as tokens do and no setting does."""
    if "run" in runs.assumed:
        return False
    by_run = pd.Series(pd.factorize(hashable(runs.frame[name]))[0]).groupby(runs.frame["run"].cat.codes.to_numpy())
    return bool((by_run.nunique() > 1).any())


def _by_role(runs: Runs, effects: Sequence[Effect]) -> dict[str, float]:
    """Return by how much the losses of source and target change from a column's lowest to its highest value.

    Of two evals without roles, one of which is called as old domains are, that one is taken for the source.
    """
    result: dict[str, float] = {
        runs.role(effect.eval): effect.change for effect in effects if runs.role(effect.eval) != "other"
    }
    if not result and len(effects) == 2:
        old = [OLD.search(effect.eval) is not None for effect in effects]
        if sum(old) == 1:
            result = {
                "source" if is_old else "target": effect.change for is_old, effect in zip(old, effects, strict=True)
            }
    return result


def as_flag(choice: str) -> str:
    """Return a choice as the option that a shell takes.

    Examples
    --------
    >>> print(as_flag("replay=1-ja_frac"))
    --columns 'replay=1-ja_frac'
    """
    if choice.startswith("--"):
        return choice  # of another option
    return f"--columns '{choice}'" if "'" not in choice else command_line(["--columns", choice])


class UnreadColumnError(DataError):
    """A table that may not be answered from: a setting may be among the columns that are read as nothing.

    Parameters
    ----------
    label
        The table.
    asked
        All that is open; the message has the flags that answer it.
    """

    def __init__(self, label: str, asked: Sequence[Question]) -> None:
        self.asked = tuple(asked)
        several = len(self.asked) > 1
        lines = [
            f"{label}: {len(self.asked)} column{'s are' if several else ' is'} not understood, and an answer that "
            f"leaves out a setting would be wrong."
        ]
        for number, one in enumerate(self.asked, 1):
            lines += [f"  {number}. {one.question}", *(f"       {as_flag(choice)}" for choice in one.choices)]
        first = dict[str, str]()  # each input from one column
        for one in self.asked if several else ():
            pairs = dict[str, str]()
            for pair in one.choices:  # the likeliest first
                pairs.setdefault(pair if pair.startswith(IGNORE) else pair.partition("=")[0], pair)
            first |= dict([next(pair for pair in pairs.items() if pair[0] not in first)] if one.explains else [])
        if len(first) > 1:
            lines.append(f"If the first of each is right: {as_flag(','.join(first.values()))}")
        super().__init__("\n".join(lines))


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
    if any(_may_be_missing(runs, name) and _is_open(runs, name) and _is_amount(runs, name) for name in names):
        raise UnreadColumnError(runs.label, questions(runs))


def unread_findings(runs: Runs, where: str | None = None) -> list[Finding]:
    """Return a warning for each column that explains losses and is read as nothing."""
    return [
        Finding("warning", "unread-column", one.question, f"Say what it is: {one.flag}.")
        for one in questions(runs, where)
        if one.explains
    ]
