"""What plans say, in the words of an answer."""

from __future__ import annotations

from dataclasses import replace

from cptlaw.findings import Finding
from cptlaw.planning.reference import ANOTHER

WIDER = "`cptlaw plan mix` with --min-share or --max-share"


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
    of_mixes = text.replace("widen the range with min_share= or max_share=", f"widen the range ({WIDER})")
    return of_mixes.replace(ANOTHER, "").replace("max_tokens= (--max-tokens)", "tokens= (--tokens)")
