"""Which column of a file is read as which column of a runs table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from cptlaw.errors import DataError, UsageError, did_you_mean, join_names, require_type
from cptlaw.runs.expressions import IGNORE, expression
from cptlaw.runs.question import ColumnNames, NotUnderstoodError, as_flag
from cptlaw.runs.schema import COLUMNS, LAST_RESORTS, canonical_name, column_of, corpus_of, normal_name
from cptlaw.runs.tracker_names import PLACES, VALIDATION, meaning_of_name
from cptlaw.units import NUMBER

# A column of losses is named with the eval before or after; what is beside a loss, such as its error, is no eval.
LOSS_LAST = re.compile(r"(.+?)(?:[-_]validation)?[-_/. ](?:cross_?entropy_?)?loss$", re.IGNORECASE)
UNIT_LAST = re.compile(r"(.+?)[-_/. ](?:ppl|perplexity|bpb|bits[-_]per[-_](?:byte|token))$", re.IGNORECASE)
UNIT_FIRST = re.compile(r"(?:ppl|perplexity|bpb)[-_/. ](.+)$", re.IGNORECASE)
IN_UNIT = re.compile(r"\s*[\[(](?:nats?|bits?)\b[^\])]*[\])]$", re.IGNORECASE)  # behind a loss
LOSS_FIRST = re.compile(
    r"loss[-_/. ](?!(?:lo|hi|se|sd|std|stderr|err|error|fn|type|name|kind|scale|mask|weight|ratio)\w{0,3}$)(.+)$",
    re.IGNORECASE,
)
# Words behind a loss that say when it was measured: of the base model, or at the end.
WHEN = re.compile(r"[-_/. (]+(?:(before|base|initial|init|start)|after|final|end|last)\)?$", re.IGNORECASE)
SCORE_LAST = re.compile(r"(.+?)[-_/. ](?:acc|accuracy|acc_norm|len_norm|exact_match|em|f1|pass@\d+)$", re.IGNORECASE)
SCORE_FIRST = re.compile(r"(?:acc|accuracy|score)[-_/. ](.+)$", re.IGNORECASE)

# Columns of which two that may be meant are asked about: a wrong one would answer wrongly.
MATTER = ("loss", "eval", "n_params", "tokens", "replay", "ptpp", "pt_tokens", "lr_peak")
EXAMPLES = {"n_params": "8B", "tokens": "2B", "ptpp": "300", "replay": "25%", "batch_tokens": "2M"}


@dataclass(frozen=True)
class Naming:
    """Which column of a file is read as which canonical column.

    Parameters
    ----------
    file_columns
        Canonical name -> name in the file.
    n_params_kind
        The kind of ``n_params`` where the name of its column in the file tells it, else ``None``.
    notes
        What the user should be told once.
    """

    file_columns: Mapping[str, str]
    n_params_kind: str | None
    notes: tuple[str, ...]

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns of the file that hold text, ids that look like numbers among them."""
        return frozenset(name for canonical, name in self.file_columns.items() if not column_of(canonical).numeric)


def name_columns(header: Iterable[str], columns: ColumnNames | None, label: str) -> Naming:
    """Decide which column of a file is read as which canonical column.

    A name that the user gave comes first, then the canonical name itself, then an alias. Columns that lose
    (an alias beside the canonical column) are kept under their own name.

    Parameters
    ----------
    header
        The columns of the file, in order.
    columns
        Canonical name -> name in the file, as the user gave it.

    Raises
    ------
    DataError
        If a column is there twice, or two aliases stand for one column.
    UsageError
        If ``columns`` names what does not exist.
    """
    names = list(header)
    _refuse_twice(names, label)
    # What the user says comes before what a name looks like; the rest is said in notes, so that a wrong guess is seen.
    given = _given_names(names, columns or {}, label)
    notes = [
        f"column {canonical!r} of the file is set aside: columns= reads {canonical!r} from {name!r}"
        for canonical, name in given.items()
        if name != canonical and canonical in names and canonical not in given.values()
    ]
    taken = _columns_taken(names, given, label)
    renamed = [
        f"{canonical} from {name!r}" for canonical, name in taken.items() if given.get(canonical, canonical) != name
    ]
    if renamed:
        notes.append(f"columns read under other names: {', '.join(renamed)}")
    return Naming(taken, _kind_from(taken.get("n_params", "")), tuple(notes))


def _columns_taken(names: list[str], given: Mapping[str, str], label: str) -> dict[str, str]:
    """Return canonical name -> name in the file: as given, of that very name, by an alias, and as a last resort."""
    # Whoever says which columns hold the shares means these and no others.
    has_shares = any(corpus_of(name) for name in given)
    of_mixes = [] if has_shares else [str(canonical_name(name)) for name in names if corpus_of(name)]
    known = [*COLUMNS, *dict.fromkeys(of_mixes)]
    taken = {name: name for name in known if name in names and name not in given and name not in given.values()}
    taken = {**given, **taken}
    for more in (_by_alias, _by_meaning, _last_resorts):
        taken |= more(
            [name for name in known if name not in taken], [name for name in names if name not in taken.values()], label
        )
    # A table that counts both has them under their full names; laws of loss follow the parameters without embeddings.
    if "n_params" not in taken and "n_params_non_embedding" in taken:
        taken["n_params"] = taken["n_params_non_embedding"]
    return taken


def _by_alias(wanted: list[str], free: list[str], label: str) -> dict[str, str]:
    """Return the columns that are called by another name in use: canonical name -> name in the file."""
    aliases: dict[str, list[str]] = {}
    for name in free:
        aliases.setdefault(canonical_name(name) or "", []).append(name)
    for canonical in wanted:
        if len(aliases.get(canonical, [])) > 1:
            alias_error(canonical, aliases[canonical], label)
    return {canonical: aliases[canonical][0] for canonical in wanted if canonical in aliases}


def _last_resorts(wanted: list[str], free: list[str], label: str) -> dict[str, str]:
    """Return the columns whose names mean something where nothing else does: canonical name -> name in the file."""
    return {LAST_RESORTS[name]: name for name in free if LAST_RESORTS.get(name) in wanted}


def _refuse_twice(names: list[str], label: str) -> None:
    counts = Counter(names)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise DataError(
            f"{label}: column {twice[0]!r} appears {counts[twice[0]]} times in the header. "
            "Expected each name once; rename or remove one of them."
        )


def alias_error(canonical: str, aliases: list[str], label: str) -> NoReturn:
    """Refuse columns of which any may be the canonical one."""
    listed = " and ".join(repr(alias) for alias in aliases)
    choices = [f"{canonical}={alias}" for alias in aliases]
    raise NotUnderstoodError(
        f"{label}: columns {listed} both stand for {canonical!r}. Expected one of them; rename the right one "
        f"to {canonical!r}, or say which with columns={{{canonical!r}: {aliases[0]!r}}} ({as_flag(choices[0])}).",
        choices,
    )


def _by_meaning(wanted: list[str], free: list[str], label: str) -> dict[str, str]:
    """Return the columns whose names tell more than an alias: canonical name -> name in the file."""
    result: dict[str, list[tuple[int, str]]] = {}
    for name in free:
        matched = meaning_of_name(name)
        if matched is not None and matched.column in wanted:
            result.setdefault(matched.column, []).append((matched.beyond, name))
    chosen = {}
    for canonical, several in result.items():
        nearest = [name for beyond, name in several if beyond == min(several)[0]]
        if len(nearest) == 1:
            chosen[canonical] = nearest[0]
        elif canonical in MATTER:
            alias_error(canonical, nearest, label)
    return chosen


def missing_column(column: str, header: Iterable[str], label: str) -> NotUnderstoodError:
    """Return the error for a column that is needed and not there, with the columns that are."""
    names = list(header)
    # What already means another column is no misspelling of this one: pt_tokens are not adaptation tokens.
    free = [name for name in names if normal_name(name) not in COLUMNS]
    alike = [name for name in free if column in normal_name(name)]
    hint = f" Did you mean {' or '.join(map(repr, alike[:3]))}?" if alike else did_you_mean(column, free)
    meaning = f" ({COLUMNS[column].meaning})" if column in COLUMNS else ""
    place = alike[0] if len(alike) == 1 else "NAME IN THE FILE"
    flag, more = as_flag(f"{column}={place}"), _one_value(column) if column != "loss" else ""
    if any(re.fullmatch(NUMBER, name) for name in names):  # for names of columns: a file without a header
        more += " The first line seems to hold data: a header line with the names of the columns is expected."
    return NotUnderstoodError(
        f"{label}: column {column!r}{meaning} is missing.{hint} Columns found: {quoted(names)}. "
        f"Rename the column, or say which one it is with columns={{{column!r}: {place!r}}} "
        f"({flag}).{more}",
        [f"{column}={place}"] if len(alike) == 1 else [],
        flag,
    )


def no_column(name: str, names: Iterable[object], where: str, to: str) -> UsageError:
    """Return the error for a column that was named and is not there, with those that are."""
    every = list(map(str, names))
    return UsageError(
        f"{where} has no column {name!r} {to}.{did_you_mean(str(name), every)} Columns found: {quoted(every)}."
    )


def quoted(names: Iterable[str]) -> str:
    """Return names in quotes, with commas between; of many the first ones and how many more there are."""
    return join_names(map(repr, names))


def _one_value(column: str) -> str:
    """Return how to give a number that is the same in all rows."""
    if column not in COLUMNS or not COLUMNS[column].numeric:
        return ""
    return f" If it is one number for all rows, say that: --columns {column}={EXAMPLES.get(column, 'NUMBER')}."


def loss_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the columns that look like the losses of one eval each: eval -> column.

    Examples
    --------
    >>> loss_columns(["fr_loss", "loss_en", "loss_std", "pile-validation/CrossEntropyLoss"])
    {'fr': 'fr_loss', 'en': 'loss_en', 'pile': 'pile-validation/CrossEntropyLoss'}
    """
    every = list(names)
    result: dict[str, str] = {}
    # Perplexities and bits count only where there are no losses, which they would repeat.
    for signs in ((LOSS_LAST, LOSS_FIRST), (UNIT_LAST, UNIT_FIRST)):
        for name in every if not result else ():
            bare = IN_UNIT.sub("", name.strip())
            when = WHEN.search(bare)
            forms = [WHEN.sub("", bare), bare] if when else [bare]
            matched = next((match for one in forms for sign in signs if (match := sign.match(one))), None)
            # Trackers put the eval behind a slash; what is named after training is no eval.
            if matched is not None and "train" not in matched[1].lower():
                of_base = f"_{when[1].lower()}" if when and when[1] and matched.string != bare else ""
                result[_eval_of(matched[1]) + of_base] = name
    return result


def _eval_of(name: str) -> str:
    """Return the eval that is left of a column's name: without the place where a tracker keeps it."""
    parts = (name.rpartition("/")[2] or name).split(".")
    while len(parts) > 1 and parts[0].lower() in PLACES | VALIDATION:
        parts = parts[1:]
    left = ".".join(parts).strip()
    left = left[1:-1] if left[:1] + left[-1:] in ("()", "[]") else left
    return left.removeprefix("eval_") if left != name else left


def score_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the columns that look like the scores of one benchmark each: eval -> column.

    Examples
    --------
    >>> score_columns(["acc_piqa", "gsm8k_exact_match", "accelerator", "mmlu_acc"])
    {'piqa': 'acc_piqa', 'gsm8k': 'gsm8k_exact_match', 'mmlu': 'mmlu_acc'}
    """
    matched = ((SCORE_LAST.match(name) or SCORE_FIRST.match(name), name) for name in names)
    return {(one[1].rpartition("/")[2] or one[1]): name for one, name in matched if one is not None}


def about_scores(names: Iterable[str]) -> str:
    """Return the option that would read the columns that look like scores, else nothing."""
    result = score_columns(names)
    if not result:
        return ""
    pairs = [f"{name}={column}" for name, column in result.items()]
    more = ",.." if len(pairs) > 2 else ""
    count = f"{len(pairs)} column{'s look' if len(pairs) > 1 else ' looks'}"
    return f"{count} like scores: --scores {','.join(pairs[:2])}{more}"


def _given_names(names: list[str], columns: ColumnNames, label: str) -> dict[str, str]:
    require_type(columns, Mapping, "columns=", "a mapping such as {'eval': 'domain'}")
    given: dict[str, str] = {}
    for key, place in columns.items():
        if key == IGNORE:
            continue
        canonical, name = canonical_name(str(key)), str(place)
        if canonical is None:
            swapped = " The two names seem to be the wrong way round." if name in COLUMNS and key in names else ""
            raise UsageError(
                f"columns=: {key!r} is not a column of a runs table.{swapped or did_you_mean(str(key), COLUMNS)} "
                f"Expected {{column of cptlaw: column of the file}}, with one of {', '.join(COLUMNS)} on the left."
            )
        if name not in names:
            if column_of(canonical).numeric and expression(str(name), [*names, *COLUMNS]) is not None:
                continue  # computed once the table has been read
            raise no_column(name, names, f"columns=: {label}", f"to read {canonical!r} from")
        given[canonical] = name
    return given


def _kind_from(name: str) -> str | None:
    word = normal_name(name)
    if any(part in word for part in ("non_emb", "nonemb", "noemb")):
        return "non_embedding"
    return "total" if "total" in word else None
