"""Findings: what a check noticed, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
MOST_SHOWN = 3  # kinds of findings that an answer shows unless it is asked for all


@dataclass(frozen=True)
class Finding:
    """One observation about the data, a fit, a forecast or a plan.

    Parameters
    ----------
    severity
        ``"info"``, ``"warning"`` or ``"error"``; under ``--strict`` an error ends with exit code 4.
    code
        A short fixed word for programs, such as ``"two-stages"``.
    message
        What was found, with the numbers.
    advice
        What the user can do about it.
    degree
        How far it goes: of many of one kind the one that goes furthest is shown. No part of what is said.
    """

    severity: Severity
    code: str
    message: str
    advice: str = ""
    degree: float = field(default=0.0, compare=False, repr=False)

    def to_dict(self) -> dict[str, str]:
        """Return the finding as plain text fields, ready for JSON."""
        return {"severity": self.severity, "code": self.code, "message": self.message, "advice": self.advice}

    def __str__(self) -> str:
        tail = f"\n    -> {self.advice}" if self.advice else ""
        return f"{self.severity}: {self.message} [{self.code}]{tail}"


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without repeats, the worst first, else in the order given."""
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: -SEVERITIES.index(finding.severity)))


def group(findings: Iterable[Finding], by_code: bool = True) -> list[tuple[Finding, int]]:
    """Return the findings, each kind once with how often it came up, the worst first.

    Parameters
    ----------
    findings
        What was noticed; repeats count once.
    by_code
        Whether findings of one severity and code are of a kind, of which the one that goes furthest is returned.

    Examples
    --------
    >>> group([Finding("info", "far", "row 1"), Finding("info", "far", "row 2")])
    [(Finding(severity='info', code='far', message='row 1', advice=''), 2)]
    """
    kinds: dict[Any, list[Finding]] = {}
    for finding in by_severity(findings):
        kinds.setdefault((finding.severity, finding.code) if by_code else finding, []).append(finding)
    return [(max(found, key=lambda finding: finding.degree), len(found)) for found in kinds.values()]
