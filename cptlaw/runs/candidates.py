"""What a column that is read as nothing may be: the inputs of laws that its values, name and losses leave open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.runs.convert import to_numbers
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.tracker_names import looks_like, words_of
from cptlaw.units import POWERS, WORDS

Offer = tuple[float, str]  # how well a choice fits, and the choice

SMALL, LARGE = 1e5, 1e15  # counts of parameters and tokens lie between; beyond are FLOPs
FEWEST_PER_PARAM = 1e-3  # tokens per parameter at the end of the longest run; fewer teach nothing
MOST_PER_PARAM = 5e3  # tokens of adaptation per parameter; more are counted in another unit
UNLIKELY = 0.45  # how well a choice fits, below which a setting that no law reads is likelier
MOST_SHARES = 15  # levels of a share that was set; more are of something that grows
SOUNDS = 2.0  # what a name adds that sounds like an input
HINTS = 0.3  # what a part of a name adds
_PER_PARAM = re.compile(
    r"(?:per|pro|par|/)[\W_]*(?:n\b|p\b|param\w*|パラメータ|参数)|(?:^|[\W_])[tpa]?tpp?(?:$|[\W_])", re.IGNORECASE
)
# Parts of names that tell, in the languages of spreadsheets.
_PARTS = {
    "tokens": re.compile(r"tok|jeton|トークン|令牌|(?:^|[\W_])d(?:$|[\W_])", re.IGNORECASE),
    "n_params": re.compile(r"param|size|gr(?:ö|oe)(?:ß|ss)e|taille|tamaño|パラメータ|参数|サイズ", re.IGNORECASE),
    "ptpp": re.compile(r"(?:^|[\W_])(?:pt|pr[eé]\w*|base|vortrain\w*)(?:$|[\W_])|^P(?:$|[\W_])|事前|预训练"),
    "replay": re.compile(r"old|mix|share|frac|ratio|replay|alt|anteil|rejeu|part\b|リプレイ|回放|比例", re.IGNORECASE),
}


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, of 0 or more, that is read as nothing.

    Parameters
    ----------
    name
        In the file.
    low, high, levels
        Its range, and how many different values it has.
    whole
        Whether its numbers have no fractions.
    within
        Whether it changes along runs, as tokens do and no setting does.
    missing
        The inputs of laws that no column gives.
    params
        The median size; 0 where it is not known.
    steps_count
        Whether steps would give tokens, as the tokens of one are known.
    sized
        Whether parameters are known, or another column may count them.
    source, target
        By how much the log losses of these roles change from its lowest to its highest value; 0 where unknown.
    """

    name: str
    low: float
    high: float
    levels: int
    whole: bool
    within: bool
    missing: tuple[str, ...]
    params: float
    steps_count: bool | None
    sized: bool = False
    source: float = 0.0
    target: float = 0.0

    @classmethod
    def of(cls, frame: pd.DataFrame, name: str, **known: object) -> Numbers:
        """Return a column with what its values tell."""
        values = to_numbers(frame[name])[0]
        levels = np.unique(values[np.isfinite(values)])
        params = float(frame["n_params"].median()) if "n_params" in frame.columns else 0.0
        whole = bool(np.all(levels % 1 == 0))
        ends = float(levels[0]), float(levels[-1])
        return cls(name, *ends, len(levels), whole, params=params, **known)  # type: ignore[arg-type]

    @property
    def per_param(self) -> bool:
        """Whether its name says that it counts something for each parameter."""
        return _PER_PARAM.search(self.name) is not None

    @property
    def unit(self) -> str:
        """The unit that a word of its name tells, as ``B`` of "tokens (billion)"; else nothing."""
        powers = {WORDS.get(word.upper().removesuffix("S")) for word in words_of(self.name)}
        return next((letter for letter in "KMBT" if POWERS[letter] in powers), "")

    @property
    def is_size(self) -> bool:
        """Whether its plain numbers may count parameters."""
        return not self.within and not self.per_param and self.low >= SMALL / 10 and self.high < LARGE

    def offers(self) -> list[Offer]:
        """Return what it may be, each choice with how well it fits."""
        sounds = looks_like(self.name)
        result = [(UNLIKELY, f"{IGNORE}={self.name}")]
        for column in self.missing if self.low >= 0 else ():
            hint = column in _PARTS and _PARTS[column].search(self.name) is not None
            more = SOUNDS * (column == sounds) + HINTS * hint
            result += [(score + more, pair) for score, pair in OFFERS[column](self)]
        return result


def _as_replay(one: Numbers) -> Iterator[Offer]:
    if one.high > 100.0 or one.within or one.per_param or one.unit or (one.high > 1.0 and 0 < one.low < 1):
        return
    share = one.name if one.high <= 1.0 else f"{one.name}%"
    # Replay keeps the source loss low; the target loss pays for it, and tells less.
    toward = float(np.sign(3.0 * one.source if one.source else -one.target))
    fits = (2.0 if one.high <= 1.0 else 1.0) - (one.levels > MOST_SHARES)
    yield fits - 0.5 * toward, f"replay={share}"
    whole = 0.6 * (one.high in (1.0, 100.0) and one.low > 0)  # without replay all of the mix is new
    yield fits + 0.5 * toward + whole, f"replay=1-{share}"


def _as_tokens(one: Numbers) -> Iterator[Offer]:
    """Yield the ways in which a column can count tokens, or the steps that they follow from."""
    if "replay" in one.missing and one.high <= 1.0:
        return
    # More tokens of the new corpus lower its loss, and as a rule raise the old one's.
    fits = 1.0 + one.within + 0.5 * (one.target < 0)
    fits += 0.5 * float(np.sign(one.source)) * (one.target <= 0) * (1.0 if one.target == 0 else one.source > 0)
    steps = [(fits, f"step={one.name}")] if one.steps_count is not None and one.whole and one.high > 10 else []
    if one.high >= LARGE and one.low >= SMALL:
        yield from [(fits, f"tokens={one.name}/(6*n_params)")] if one.sized else []
    elif one.high >= SMALL:
        enough = not one.params or one.high >= FEWEST_PER_PARAM * one.params
        yield from [(fits + 0.5, f"tokens={one.name}")] if enough else steps
    else:
        yield from _as_tokens_in_units(one, fits)
        # What starts at 0 and grows along a run in whole numbers counts steps, or looks at the run.
        off = 0.0 if one.low == 0 or one.steps_count else 0.6
        yield from ((score - off, pair) for score, pair in steps if not one.per_param)


def _as_tokens_in_units(one: Numbers, fits: float) -> Iterator[Offer]:
    """Yield the units in which small numbers can count tokens: per parameter, millions or billions."""
    if one.unit:
        yield fits + 0.5, f"tokens={one.name}:{one.unit}"
        return
    if one.sized and one.low >= 1:
        yield fits - (0.4 if one.per_param else 0.6), f"tokens={one.name}*n_params"
    if not one.per_param:
        called = re.match(r"m[\W_]*tok", one.name, re.IGNORECASE) is not None
        millions = 1.0 if called else 0.65 * (0 < MOST_PER_PARAM * one.params < 1e9 * one.high)
        yield fits - 0.5, f"tokens={one.name}:B"
        yield fits - 1.0 + millions, f"tokens={one.name}:M"


def _as_size(one: Numbers) -> Iterator[Offer]:
    if not one.within and not one.per_param and one.high < LARGE:
        unit = f":{one.unit}" if one.unit else "" if one.low >= SMALL / 10 else ":M" if one.low >= 10 else ":B"
        yield 1.0 + _falls(one) + 0.4 * (not unit), f"n_params={one.name}{unit}"


def _as_budget(one: Numbers) -> Iterator[Offer]:
    if one.within:
        return
    if one.low >= 1e8:
        yield 0.8 + _falls(one), f"pt_tokens={one.name}"
    elif one.low >= 0.5 and 1.0 < one.high <= SMALL:
        yield 0.9 + _falls(one) - 0.5 * (one.source > 0), f"ptpp={one.name}"


def _as_rate(one: Numbers) -> Iterator[Offer]:
    if not one.within and one.low > 0 and one.high < 0.05:
        yield 1.2, f"lr_peak={one.name}"


def _falls(one: Numbers) -> float:
    return 0.5 * (one.target < 0) + 0.5 * (one.source < 0)


OFFERS: Mapping[str, Callable[[Numbers], Iterator[Offer]]] = {
    "replay": _as_replay,
    "tokens": _as_tokens,
    "n_params": _as_size,
    "ptpp": _as_budget,
    "lr_peak": _as_rate,
}


def best_together(offers: Mapping[str, Iterable[Offer]]) -> dict[str, list[str]]:
    """Return the choices of each column, the best first, where no two columns are taken for one input.

    Examples
    --------
    >>> best_together({"a": [(1.5, "replay=a"), (1.0, "ptpp=a")], "b": [(2.0, "replay=b"), (0.4, "ignore=b")]})
    {'a': ['ptpp=a', 'replay=a'], 'b': ['replay=b', 'ignore=b']}
    """
    ranked = {name: sorted(some, key=lambda one: -one[0]) for name, some in offers.items()}
    every = sorted(
        (-score, place, name, pair) for name, some in ranked.items() for place, (score, pair) in enumerate(some)
    )
    chosen: dict[str, str] = {}
    for _, _, name, pair in every:
        taken = {one.partition("=")[0] for one in chosen.values()} - {IGNORE}
        if name not in chosen and (pair in chosen.values() or pair.partition("=")[0] not in taken):
            chosen[name] = pair
    return {
        name: list(dict.fromkeys([*([chosen[name]] if name in chosen else []), *(pair for _, pair in some)]))
        for name, some in ranked.items()
    }
