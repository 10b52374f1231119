"""Findings: what a check noticed, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
MOST_SHOWN = 3  # kinds of findings that an answer shows unless it is asked for all


@dataclass(frozen=True)
class Remedy:
    """The option that mends what was found, by its name in the library; each surface has its own words for it.

    Parameters
    ----------
    option
        Name of an argument, such as ``"max_forgetting"``.
    value
        What to give; ``None`` where that is for the user to say.
    """

    option: str
    value: object = None


Wording: TypeAlias = Callable[[Remedy], str]
"""How a surface writes an option and its value; an empty text where it has no such option."""


def in_python(remedy: Remedy) -> str:
    """Return a remedy as an argument of the library.

    Examples
    --------
    >>> in_python(Remedy("max_forgetting", "2%")), in_python(Remedy("where"))
    ("max_forgetting='2%'", 'where=..')
    """
    return f"{remedy.option}={'..' if remedy.value is None else repr(remedy.value)}"


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
        What the user can do about it, in words that hold on every surface: without the name of an option.
    degree
        How serious it is among findings of its code: of several the one with the highest degree is shown.
    data
        The numbers and names of the message, for programs.
    remedy
        The option that does what `advice` says, where there is one.
    """

    severity: Severity
    code: str
    message: str
    advice: str = ""
    degree: float = field(default=0.0, compare=False, repr=False)
    data: Mapping[str, object] = field(default_factory=dict, compare=False)
    remedy: Remedy | None = None

    def __post_init__(self) -> None:
        if isinstance(self.remedy, Mapping):  # as files hold it
            object.__setattr__(self, "remedy", Remedy(**self.remedy))
        held = (self.code, self.message, self.advice, self.degree, self.data, self.remedy)
        kinds = (str, str, str, int | float, Mapping, Remedy | None)
        if self.severity not in SEVERITIES or not all(map(isinstance, held, kinds)):
            raise ValueError(f"no finding: {self.severity!r}, {held!r}")

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain fields, ready for JSON."""
        values = {"severity": self.severity, "code": self.code, "message": self.message, "advice": self.advice}
        return {**values, "data": dict(self.data), "remedy": None if self.remedy is None else asdict(self.remedy)}

    def advice_text(self, words: Wording = in_python) -> str:
        """Return the advice with the remedy behind it, written as a surface writes options."""
        how = "" if self.remedy is None else words(self.remedy)
        if not how:
            return self.advice
        return f"{self.advice.removesuffix('.')} ({how})." if self.advice else f"Try {how}."

    def text(self, words: Wording = in_python) -> str:
        """Return the finding as people read it: what was found, and what to do on a line of its own."""
        advice = self.advice_text(words)
        return f"{self.severity}: {self.message} [{self.code}]" + (f"\n    -> {advice}" if advice else "")

    def __str__(self) -> str:
        return self.text()


def said_by(fits: Iterable[tuple[str, Iterable[Finding]]]) -> Iterator[Finding]:
    """Yield what fits found about themselves under the names of their evals, what several found once.

    Examples
    --------
    >>> far = Finding("info", "far", "row 1 lies far out.")
    >>> [finding.message for finding in said_by([("target", [far]), ("source", [far])])]
    ['target and source fits: row 1 lies far out.']
    """
    names: dict[Finding, list[str]] = {}
    for name, findings in fits:
        for finding in findings:
            names.setdefault(finding, []).append(name)
    for finding, of in names.items():
        who = f"{' and '.join(dict.fromkeys(of))} fit{'s' if len(set(of)) > 1 else ''}"
        yield replace(finding, message=f"{who}: {finding.message}")


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without repeats, the worst first, else in the order given."""
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: -SEVERITIES.index(finding.severity)))


def has_error(findings: Iterable[Finding]) -> bool:
    """Say whether one of the findings is an error: nothing beside it is stated as likely."""
    return any(finding.severity == "error" for finding in findings)


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
    >>> [(finding, times)] = group([Finding("info", "far", "row 1"), Finding("info", "far", "row 2")])
    >>> finding.message, times
    ('row 1', 2)
    """
    kinds: dict[object, list[Finding]] = {}
    for finding in by_severity(findings):
        kinds.setdefault((finding.severity, finding.code) if by_code else finding, []).append(finding)
    return [(max(value, key=lambda finding: finding.degree), len(value)) for value in kinds.values()]
