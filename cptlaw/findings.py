"""Findings: what a check noticed, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


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
    """

    severity: Severity
    code: str
    message: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the finding as plain text fields, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        tail = f"\n    -> {self.advice}" if self.advice else ""
        return f"{self.severity}: [{self.code}] {self.message}{tail}"


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without repeats, the worst first, else in the order given."""
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: -SEVERITIES.index(finding.severity)))
