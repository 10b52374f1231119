"""Names that trackers and people give columns: where a setting is kept before it, its unit behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from cptlaw.runs.schema import canonical_name, column_of
from cptlaw.units import POWERS, WORDS

# Words before a name that say where it is kept, and not what it is.
SETTINGS = frozenset(
    "config cfg conf hparams hparam hp params param args arguments settings hyperparameters hyperparams".split()
)
PLACES = SETTINGS | frozenset(
    "summary meta metrics model data dataset train training run runs exp experiment cpt user attributes job sweep "
    "value mix x".split()
)
VALIDATION = frozenset(("eval", "evaluation", "val", "valid", "validation"))
# With one of these before it the same word means something else: eval/tokens, teacher.n_params, base.tokens.
OTHERS = VALIDATION | frozenset(
    "test dev pretrain pretraining pretrained pt base source target teacher student tokenizer draft ref reference best "
    "min max mean avg std per lora".split()
)
# What a base model's own words may stand before: ptpp is a property of the base model alone.
OF_BASE = frozenset("base pretrain pretraining pretrained pt".split())
# Words before a name that change nothing: ptpp is of base models alone; one loss that is kept is that of the end.
NO_MATTER = {"ptpp": OF_BASE, "loss": frozenset(("final", "last"))}
PERCENT = ("pct", "percent", "percentage", "perc")
AMOUNTS = {word.lower(): 10.0 ** POWERS[word] for word in "KMBT"} | {
    word.lower(): 10.0 ** WORDS[word] for word in WORDS
}


@dataclass(frozen=True)
class Meaning:
    """What the name of a column tells: the canonical column, the unit of its numbers, and how far the name goes.

    Parameters
    ----------
    column
        The canonical column.
    scale
        What its plain numbers are multiplied by.
    beyond
        Words of the name that are no part of the column's own name: the fewer the surer.
    """

    column: str
    scale: float
    beyond: int


@cache  # a folder of logs repeats its names in every run
def meaning_of_name(name: str) -> Meaning | None:
    """Return what a name tells beyond its being an alias: a dotted, prefixed or suffixed one.

    Examples
    --------
    >>> meaning_of_name("config.model.num_params"), meaning_of_name("config.replay_pct")
    (Meaning(column='n_params', scale=1.0, beyond=2), Meaning(column='replay', scale=0.01, beyond=2))
    >>> meaning_of_name("config.lr").column, meaning_of_name("tokens (B)").scale, meaning_of_name("eval/tokens")
    ('lr_peak', 1000000000.0, None)
    >>> meaning_of_name("config.base.tpp").column, meaning_of_name("base_tpp").column, meaning_of_name("base.tokens")
    ('ptpp', 'ptpp', None)
    """
    parts = [part for part in re.split(r"[./:]|__", name.strip()) if part]
    words = [word.lower() for part in parts for word in re.findall(r"[^\W_]+|%", _snake(part))]
    within = sum(len(re.findall(r"[^\W_]+|%", _snake(part))) for part in parts[:-1])  # words of the dotted places
    stem, scale, dropped = _without_unit(words)
    for start in range(len(stem)):
        column = canonical_name("_".join(stem[start:])) if len("_".join(stem[start:])) > 1 else None
        if column is None:
            continue
        before = [word for word in stem[:start] if word not in NO_MATTER.get(column, ())]
        if _names_something_else(column, set(before)):
            return None
        # A dotted place may be called anything; of a name in one piece only known words are no part of its meaning.
        if not all(word in PLACES or place < within for place, word in enumerate(before)):
            continue
        if column == "loss" and not set(before) <= (PLACES | VALIDATION) - {"train", "training"}:
            return None
        if column == "lr" and set(before) & SETTINGS:
            column = "lr_peak"  # a setting holds for the whole run
        return Meaning(column, scale, start + dropped) if scale == 1.0 or _takes(column, scale) else None
    return None


def _names_something_else(column: str, before: set[str]) -> bool:
    """Whether the words before a name make it that of something else; a loss is one of validation."""
    return bool(before & OTHERS) and not (column == "loss" and before <= PLACES | VALIDATION)


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text)


def _without_unit(words: list[str]) -> tuple[list[str], float, int]:
    last = words[-1] if len(words) > 1 else ""
    if last in PERCENT or last == "%":
        return words[:-1], 0.01, 1
    return (words[:-1], AMOUNTS[last], 1) if last in AMOUNTS else (words, 1.0, 0)


def _takes(column: str, scale: float) -> bool:
    known = column_of(column)
    return known.highest <= 1.0 if scale < 1.0 else known.raw_count or column in ("batch_tokens", "samples")


# Words that make a name look like an input, and what else may stand beside them.
BESIDE = frozenset(
    "peak max base cpt initial init value ratio share fraction frac pct percent percentage weight prob probability "
    "proportion prop level amount total number num n count new of in the for data corpus source general old".split()
)
LOOKS = {
    "n_params": frozenset(("params", "parameters", "nparams")),
    "tokens": frozenset(("tokens", "toks")),
    "replay": frozenset(("replay", "replayed", "rehearsal", "rehearse")),
    "ptpp": frozenset(("tpp", "ptpp", "ptp")),
    "lr_peak": frozenset(("lr", "learningrate")),
}
MIXES = frozenset(("ratio", "mix_ratio", "mixture", "mix_prob", "data_ratio", "mixing_ratio", "general_ratio"))


def looks_like(name: str) -> str | None:
    """Return the input that a column looks like by its words, though its name is not known.

    Examples
    --------
    >>> looks_like("rehearsal_p_of_old_data"), looks_like("lr_factor"), looks_like("data.mix_ratio"), looks_like("note")
    ('replay', None, 'replay', None)
    """
    words = [word.lower() for word in re.findall(r"[^\W_]+", _snake(name))]
    if set(words) & (OTHERS - {"source", "base", "max"}):
        return None
    rest = [word for word in words if word not in PLACES]
    if "_".join(rest) in MIXES or "_".join(words[-2:]) in MIXES:
        return "replay"
    for column, those in LOOKS.items():
        sure = column in ("replay", "ptpp")  # nothing else is called so
        if set(rest) & those and (sure or all(word in those or word in BESIDE for word in rest)):
            return column
    return None


# Words of what was there before, and of what is new: of evals, of columns of losses, of counts of tokens.
OLD_WORDS = frozenset(
    "old source src general base pretrain orig en eng english pile c4 web fineweb dclm wiki pajama slimpajama".split()
)
NEW_WORDS = frozenset("new target tgt domain".split())


def words_of(name: str) -> set[str]:
    """Return the words of a name, in lower case.

    Examples
    --------
    >>> sorted(words_of("evalLoss/old_2"))
    ['2', 'eval', 'loss', 'old']
    """
    return {word.lower() for word in re.findall(r"[^\W_]+", _snake(name))}


def role_of_name(name: str) -> str | None:
    """Return the role that the words of a name tell, ``"source"`` or ``"target"``; ``None`` where none or both do.

    Examples
    --------
    >>> role_of_name("val_old"), role_of_name("loss on domain"), role_of_name("fr")
    ('source', 'target', None)
    """
    words = words_of(name)
    old, new = bool(words & OLD_WORDS), bool(words & NEW_WORDS)
    return None if old == new else "source" if old else "target"
