"""How results reach the terminal: text or one JSON object on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cptlaw.findings import Finding

if TYPE_CHECKING:
    import pandas as pd

FOUND_ERRORS = 4
INFEASIBLE = 3


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold: findings to objects, numbers without a value to null."""
    if isinstance(value, Finding):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # a NumPy number
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def show_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def show_next(text: str) -> None:
    """Name the next command on stderr."""
    click.echo(f"next: {text}", err=True)


def show_findings(findings: Iterable[Finding]) -> None:
    """Print findings on stdout, each once."""
    for finding in dict.fromkeys(findings):
        click.echo(f"  {finding}")


def table_text(frame: pd.DataFrame, formats: Mapping[str, Any] | None = None) -> str:
    """Print a table with one number format per column."""
    return str(frame.to_string(index=False, formatters=dict(formats or {}), na_rep="-"))


def stop_on_errors(findings: Iterable[Finding], strict: bool) -> None:
    """Under --strict, end with exit code 4 if a finding is an error."""
    if strict and any(finding.severity == "error" for finding in findings):
        sys.exit(FOUND_ERRORS)


@contextmanager
def progress(label: str, length: int) -> Iterator[Any]:
    """Show a bar on a terminal, nothing in a pipe; yield a function that advances it by one."""
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=hidden) as bar:
        yield lambda *_: bar.update(1)
