"""What plans say, in the words of an answer."""

from __future__ import annotations

from dataclasses import replace

from cptlaw.findings import Finding
from cptlaw.planning.reference import ANOTHER


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
