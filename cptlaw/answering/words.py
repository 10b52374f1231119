"""What plans say, in the words of an answer."""

from __future__ import annotations

from dataclasses import replace

from cptlaw.findings import Finding
from cptlaw.planning.reference import ANOTHER


def in_answer(finding: Finding) -> Finding:
    """Return a finding of a plan with the remedy that `cptlaw.answer` takes: the tokens are not a limit there."""
    if finding.remedy is None or finding.remedy.option != "max_tokens":
        return finding
    return replace(finding, remedy=replace(finding.remedy, option="tokens"))


def as_answer(text: str) -> str:
    """Return a message of a plan without the options that `cptlaw.answer` does not take.

    Examples
    --------
    >>> as_answer("Give the tokens with max_tokens= (--max-tokens).")
    'Give the tokens with tokens= (--tokens).'
    """
    return text.replace(ANOTHER, "").replace("max_tokens= (--max-tokens)", "tokens= (--tokens)")
