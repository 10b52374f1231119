"""The only parser and printer of quantities: ``8.1B``, ``517M``, ``34%``, ``1e20``."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from decimal import Decimal

from cptlaw.errors import UsageError, quote, require_type

POWERS = {"": 0, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12, "%": -2}  # of ten
# Powers of ten with their words, as tables have them. A German Billion is a trillion: its plural alone would tell.
_TEN = {3: "THOUSAND TSD", 4: "万", 6: "MILLION MN MIO", 8: "億 亿", 9: "BILLION BN MRD MILLIARD", 12: "TRILLION TN 兆"}
WORDS = {word: power for power, words in _TEN.items() for word in words.split()}
SUFFIXES = {suffix: Decimal(10) ** power for suffix, power in {**POWERS, **WORDS}.items()}

# A number without a unit. Its repetitions never give back what they took: text that is none is refused at once.
NUMBER = r"[+-]?(?:[0-9]++(?:_[0-9]++)*+(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"

UNIT = "[KkMmGgBbTt%]"

# Sizes of numbers in tables and questions, apart from 0: powers and products of a few of them stay finite.
SMALLEST, LARGEST = 1e-50, 1e50

# Of a run: the usual tokens of a row, and the steps of one row below which nothing is answered or exported.
ROW, FEWEST_STEPS = 4096, 10

# Characters of a quantity; a float64 in full has up to 26, in a spreadsheet's digits perhaps 50.
LONGEST_QUANTITY = 200

# What may stand behind a number: a unit, and what is counted.
IN_UNITS = rf"\s*+(?:(?P<word>{'|'.join(WORDS)})s?\.?|(?P<suffix>{UNIT}))?(?:\s*+(?:tok(?:en)?|param(?:eter)?)s?)?"
_QUANTITY = re.compile(rf"\s*+[~≈]?+(?P<number>{NUMBER}){IN_UNITS}\s*+", re.IGNORECASE)


def parse_quantity(text: object, what: str = "value") -> float:
    """Read a number that may carry a unit.

    Parameters
    ----------
    text
        A number, or text such as ``"8.1B"``, ``"517M"``, ``"26e9"``, ``"34%"``, ``"1_000"`` or ``"2 billion tokens"``.
        K, M, B (or G) and T stand for 1e3, 1e6, 1e9 and 1e12 in either case; ``%`` for 0.01.
    what
        The name of the quantity, for the error message.

    Returns
    -------
    float
        The plain number.

    Raises
    ------
    UsageError
        If the text is not a finite number with one of those units.

    Examples
    --------
    >>> parse_quantity("8.1B")
    8100000000.0
    >>> parse_quantity("34%"), parse_quantity("360 Mio."), parse_quantity("2 billion tokens")
    (0.34, 360000000.0, 2000000000.0)
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST_QUANTITY else None
    if match is None and (isinstance(text, str | bool) or not isinstance(text, numbers.Real)):
        raise UsageError(f"{what}: {quote(text)} is not a number. Expected a number such as 26e9, 8.1B, 517M or 34%.")
    try:
        # Decimal keeps 8.1B equal to 8.1e9 and 34% equal to 0.34 to the last bit.
        unit = (match["word"] or match["suffix"] or "").upper() if match else ""
        value = float(Decimal(match["number"].replace("_", "")) * SUFFIXES[unit] if match else text)  # type: ignore[arg-type]
    except ArithmeticError:  # an exponent beyond all bounds
        value = math.inf
    if not math.isfinite(value):
        raise UsageError(f"{what}: {quote(text)} is not a finite number.")
    return value


class Share(float):
    """A share that was read: whoever reads it again does not ask once more whether it lacks a percent sign."""


def parse_share(text: object, what: str = "share", low: float = 0.0, high: float = 1.0, limit: bool = False) -> Share:
    """Read a share or a relative change, such as ``0.05`` or ``"5%"``.

    A plain number above 1 may be a percentage that lost its sign, and is refused: a guess would be wrong a hundredfold.

    Parameters
    ----------
    text
        A number, or text that may end in a percent sign.
    what
        The name of the quantity, for the error message.
    low, high
        The range of the share, both ends in it.
    limit
        Whether it is a limit on what may be lost: a plain 1 is then as doubtful, since nothing limits it to all.

    Raises
    ------
    UsageError
        If the value is no number, lies outside the range, or is above 1 without a percent sign.

    Examples
    --------
    >>> parse_share("5%"), parse_share("500%", high=math.inf)
    (0.05, 5.0)
    """
    value = parse_quantity(text, what)
    is_signed = isinstance(text, Share) or (isinstance(text, str) and "%" in text)
    if not is_signed and (abs(value) > 1 or (limit and abs(value) == 1)):
        meant = " or ".join(f"{number:g}%" for number in (value, 100 * value) if low <= number / 100 <= high)
        if meant:
            raise UsageError(f"{what}: is {quote(text)} meant as {meant}? Write {meant}.")
    if not low <= value <= high:
        most = " or more" if high == math.inf else f" to {high:g}, or {100 * low:g}% to {100 * high:g}%"
        raise UsageError(f"{what}: {quote(text)} is not a share. Expected {low:g}{most}.")
    return Share(value)


def parse_probability(text: object, what: str = "probability") -> Share:
    """Read a probability strictly between 0 and 1, such as ``0.9`` or ``"90%"``.

    Raises
    ------
    UsageError
        If the value is no number, or lies outside.

    Examples
    --------
    >>> parse_probability("90%")
    0.9
    """
    value = parse_share(text, what)
    if not 0 < value < 1:
        raise UsageError(f"{what}: {quote(text)} is no probability between 0 and 1, such as 0.9 or 90%.")
    return value


def parse_pairs(texts: Iterable[str], option: str, expected: str, between: str | None = ",") -> dict[str, str]:
    """Read texts such as ``K=V`` or ``K=V,L=W``.

    Parameters
    ----------
    texts
        As they were typed.
    option, expected
        The option and the form of a pair, for the error message.
    between
        What separates pairs; ``None`` where each text is one.

    Raises
    ------
    UsageError
        If a pair lacks its name, its value, or what stands between them.

    Examples
    --------
    >>> parse_pairs(["alpha=0.34, E=1.8"], "--fix", "NAME=VALUE")
    {'alpha': '0.34', 'E': '1.8'}
    """
    result: dict[str, str] = {}
    for text in texts:
        require_type(text, str, option, expected)
    for pair in (pair for text in texts for pair in (text.split(between) if between else [text])):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"{option} {pair!r}: expected {expected}.")
        result[name] = value
    return result


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "run"), counted(2, "run"), counted(2, "loss", "losses")
    ('1 run', '2 runs', '2 losses')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def format_quantity(value: float, digits: int = 3) -> str:
    """Print a count of parameters, tokens or FLOPs the way people say it.

    Examples
    --------
    >>> format_quantity(8.1e9)
    '8.1B'
    >>> format_quantity(3.5e21)
    '3.5e+21'
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    # Rounding comes first: 999,999 is 1M, not 1000K.
    rounded = float(f"{value:.{digits}g}")
    for suffix, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if scale <= abs(rounded) < 1e15:
            return f"{rounded / scale:.{digits}g}{suffix}"
    return f"{rounded:.{digits}g}"


READABLE = 1e4  # share from which a percentage is printed with an exponent, not with all its digits


def format_percent(fraction: float, digits: int = 3) -> str:
    """Print a share or a relative change, ``0.0213`` as ``'2.13%'``.

    Examples
    --------
    >>> format_percent(0.0213), format_percent(0.997, 2), format_percent(12.345)
    ('2.13%', '100%', '1234%')
    """
    if not math.isfinite(fraction):
        return str(fraction)
    text = f"{100 * fraction + 0.0:.{digits}g}"  # never -0%
    # More digits before the point than were asked for are no reason for an exponent.
    whole = "e+" in text and abs(fraction) < READABLE
    return f"{100 * fraction:.0f}%" if whole else f"{text}%"


def short_percent(fraction: float, limit: float | None = None) -> str:
    """Print a share as a percentage of two digits, whole ones from ten on; no finer than a tenth of a percent.

    Parameters
    ----------
    limit
        What the share is compared with: it then has as many digits as tell on which side of that it lies.

    Examples
    --------
    >>> short_percent(0.0312), short_percent(1.784), short_percent(-0.002), short_percent(-2.2e-5)
    ('3.1%', '178%', '-0.2%', '0%')
    >>> short_percent(0.2452, limit=0.25), short_percent(0.0196, limit=0.02)
    ('24.5%', '1.96%')
    """
    whole = abs(fraction) >= 0.0995
    if limit is not None and (places := _decimals_for_gap(100 * (fraction - limit))) > (0 if whole else 1):
        return f"{round(100 * fraction, places) + 0.0:.{places}f}%"  # never -0%
    return f"{100 * fraction:.0f}%" if whole else format_percent(round(fraction, 3), 2)


def _decimals_for_gap(gap: float) -> int:
    """Return the decimals by which two numbers with this gap print differently; 0 where the gap is below 1e-3."""
    return 0 if abs(gap) < 1e-3 else max(0, math.ceil(-math.log10(abs(gap))))


def format_span(value: float, low: float | None, high: float | None, limit: float | None = None) -> str:
    """Print a loss with its interval, to no more digits than the interval leaves it; an end may be open.

    Parameters
    ----------
    limit
        What the loss is compared with: it then has two decimals at least, and as many as tell it from that.

    Examples
    --------
    >>> format_span(1.5975, 1.5358, 1.6616), format_span(2.1244, 2.12, 2.13), format_span(2.1, None, None)
    ('1.60 (1.54 to 1.66)', '2.124 (2.120 to 2.130)', '2.1')
    >>> format_span(2.1, 2.0, None), format_span(1.3382, 0.9, 1.8, limit=1.4)
    ('2.10 (2.00 or more)', '1.34 (0.90 to 1.80)')
    """
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    places = decimals(value, ends)
    if limit is not None:
        places = max(2, _decimals_for_gap(value - limit), places or 0)
    if places is None:
        return f"{value:.4g}"
    middle, *shown = (f"{number:.{places}f}" for number in (value, *ends))
    if not shown:
        return middle
    if len(shown) == 2:
        return f"{middle} ({shown[0]} to {shown[1]})"
    return f"{middle} ({shown[0]} or more)" if ends[0] == low else f"{middle} (up to {shown[0]})"


def decimals(value: float, ends: Iterable[float]) -> int | None:
    """Return how many decimals of a number the finite ends of its interval leave; None where they say nothing.

    Below ten there is one at least: 3.6 as 4 would lie on the other side of a measured 3.7.

    Examples
    --------
    >>> decimals(1.5975, [1.5358, 1.6616]), decimals(2.1, []), decimals(3.6, [1.9, 6.9])
    (2, None, 1)
    """
    half = max((abs(end - value) for end in ends), default=0.0)
    return max(int(abs(value) < 10), -math.floor(math.log10(half / 2))) if half else None


# What a column of a runs table is, in words.
INPUT_WORDS = {
    "n_params": "model size",
    "tokens": "adaptation tokens",
    "replay": "replay",
    "ptpp": "pre-training tokens per parameter",
    "lr_peak": "peak learning rate",
    "step": "optimiser step",
}


def input_text(name: str, value: float) -> str:
    """Print a value of an input the way people say it.

    Examples
    --------
    >>> input_text("replay", 0.25), input_text("n_params", 8.1e9)
    ('25%', '8.1B')
    """
    return format_percent(value) if name == "replay" else format_quantity(float(value))
