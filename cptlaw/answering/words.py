"""Probabilities in words, so that a coin toss never reads like advice."""

from __future__ import annotations

from dataclasses import replace

from cptlaw.findings import Finding
from cptlaw.planning.reference import ANOTHER
from cptlaw.units import format_percent

# Upper end of each range, and what is said of probabilities in it.
SCALE = (
    (0.05, "almost certainly not"),
    (0.25, "unlikely"),
    (0.4, "less likely than not"),
    (0.6, "a coin toss"),
    (0.75, "more likely than not"),
    (0.9, "likely"),
    (0.975, "very likely"),
    (1.0, "almost certain"),
)


def percent(value: float) -> str:
    """Return a share as a percentage of two digits, whole ones from ten on; no finer than a tenth of a percent.

    Examples
    --------
    >>> percent(0.0312), percent(1.784), percent(-0.002), percent(2.2e-5)
    ('3.1%', '178%', '-0.2%', '0%')
    """
    return f"{100 * value:.0f}%" if abs(value) >= 0.0995 else format_percent(round(value, 3), 2)


def likelihood(probability: float) -> str:
    """Return a probability in words, with the number behind them; the words are those of the number that is shown.

    Examples
    --------
    >>> likelihood(0.5), likelihood(0.8), likelihood(0.999)
    ('a coin toss (50%)', 'likely (80%)', 'almost certain (above 99%)')
    >>> likelihood(0.9000001), likelihood(0.906)
    ('likely (90%)', 'very likely (91%)')
    """
    shown = round(probability, 2)
    words = next(words for top, words in SCALE if shown <= top)
    if probability > 0.99:
        return f"{words} (above 99%)"
    return f"{words} ({'below 1%' if probability < 0.01 else format_percent(shown)})"


def in_answer(finding: Finding) -> Finding:
    """Return a finding of a plan with advice that `cptlaw.answer` takes: it chooses the reference, and names tokens."""
    return replace(finding, message=as_answer(finding.message), advice=as_answer(finding.advice))


def as_answer(text: str) -> str:
    """Return a message of a plan without the options that `cptlaw.answer` does not take.

    Examples
    --------
    >>> as_answer("Give the tokens with max_tokens= (--max-tokens).")
    'Give the tokens with tokens= (--tokens).'
    """
    return text.replace(ANOTHER, "").replace("max_tokens= (--max-tokens)", "tokens= (--tokens)")
