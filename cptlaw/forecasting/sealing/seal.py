"""Seal a forecast: its inputs, intervals, laws and the data behind it, with a date and a SHA-256 of all of them.

A seal shows that nothing in the file was changed by accident or in passing. Whoever writes a file can write it anew:
that a forecast is older than its measurement is shown by what keeps the SHA-256 elsewhere, a commit or a message.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeGuard

from cptlaw.errors import DataError, quote
from cptlaw.findings import Finding
from cptlaw.reading import plain_json
from cptlaw.result import Line, Result
from cptlaw.runs.points import PointsLike
from cptlaw.runs.schema import canonical_name, column_of
from cptlaw.units import format_percent
from cptlaw.version import version
from cptlaw.writing import SEALED, check_output, write_text

FORMAT = "cptlaw-sealed-forecast"
FORMAT_VERSION = 1
PROVES = (
    "that nothing in the file has changed since, not when it was written: keep the sha256 where you cannot change it "
    "(a pushed commit, a message, a time-stamping service)"
)
HOW = "A forecast is written by `cptlaw forecast FIT.json .. --at .. --json > FORECAST.json`."
WIDEST = 1000.0  # times the loss, beyond which an interval says nothing
# All else of a point is an input, by which the measured run is found.
NOT_INPUTS = frozenset({"loss", "lo", "hi", "law", "on", "findings", "metric", "score"})


@dataclass(frozen=True, repr=False)
class Seal(Result):
    """A forecast that was written down before its measurement.

    Attributes
    ----------
    points
        One mapping per forecast: ``on`` (the eval), ``law``, ``loss``, ``lo``, ``hi`` in nats, and the inputs. Of a
        score, which has a ``metric``, loss, lo and hi are shares from 0 to 1.
    interval
        The probability that a measured loss was to lie between lo and hi, or ``None``.
    laws
        One mapping per fit: ``law``, ``on``, and of the rows behind it ``fingerprint``, ``where``, ``n_points``,
        ``n_runs`` and ``fitted_runs`` (digests of the names of the runs), as far as the forecast says them.
    sealed
        When, in UTC, as ISO 8601 writes it.
    sha256
        Of all the rest.
    path
        The file, if there is one.
    commit
        The git commit that held the runs table when it was sealed, if that was asked for.
    findings
        None: what was to be said of a forecast was said when it was made.
    """

    points: tuple[Mapping[str, Any], ...]
    interval: float | None
    laws: tuple[Mapping[str, object], ...]
    sealed: str
    cptlaw_version: str
    sha256: str
    path: Path | None = None
    commit: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def label(self) -> str:
        """What stands for the seal in messages."""
        return self.sha256[:12] if self.path is None else str(self.path)

    def to_dict(self) -> dict[str, object]:
        """Return what the file holds."""
        return {**self._content(), "sha256": self.sha256}

    def _content(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "cptlaw_version": self.cptlaw_version,
            "sealed": self.sealed,
            "interval": self.interval,
            "laws": [dict(item) for item in self.laws],
            **({"git_commit": self.commit} if self.commit else {}),
            "points": [dict(item) for item in self.points],
        }

    @property
    def title(self) -> str:
        """What was sealed, and when."""
        evals = dict.fromkeys(str(point["on"]) for point in self.points)
        interval = "without intervals" if self.interval is None else f"{format_percent(self.interval)} intervals"
        scores = sum(is_score(point) for point in self.points)
        counts = ((len(self.points) - scores, "loss", "losses"), (scores, "score", "scores"))
        what = " and ".join(f"{n} forecast {one if n == 1 else many}" for n, one, many in counts if n)
        return f"sealed {self.sealed}: {what} on {', '.join(evals)}, {interval}"

    @property
    def lines(self) -> list[Line]:
        """The number to keep elsewhere, and what the seal proves."""
        return [("sha256", self.sha256), *([("commit", self.commit)] if self.commit else []), ("proves", PROVES)]


def register(
    forecast: Mapping[str, object] | str | Path,
    output: str | Path | None = None,
    *,
    git: str | Path | None = None,
    timestamp: str | Path | None = None,
) -> Seal:
    """Seal a forecast, before the runs that it is about are trained.

    Parameters
    ----------
    forecast
        What ``cptlaw forecast --json`` printed, or a file with it.
    output
        Where to write the seal; never over a file that is there.
    git
        The runs table: the last git commit that holds it, unchanged since, is written into the seal.

    timestamp
        A new file for the SHA-256 of the seal as a line of ``sha256sum``, to be stamped by an outside service, such as
        ``openssl ts -query -data FILE -sha256`` (RFC 3161) or OpenTimestamps.

    Raises
    ------
    DataError
        If it is not a forecast, holds no point, `output` exists, or the table differs from the last commit.
    """
    label, document = _read(forecast)
    points, interval, laws = _checked(label, document, "intervals")
    for number, point in enumerate(points, 1):
        if is_empty(point):
            raise DataError(
                f"{label}: point {number}: the interval ends at {point['hi']:g}, so far above the loss that whatever "
                f"is measured lies in it. Expected null where the data do not bound a loss."
            )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    commit = None if git is None else _commit_of(Path(git))
    seal = Seal(points, interval, laws, now, version(), "", commit=commit)
    # The hash is of the content as the file has it, so that anyone can compute it again without this package.
    seal = replace(seal, sha256=_sha256(seal._content()))
    if output is None:
        return seal
    path = check_output(output, SEALED)
    # With --force a forecast could be replaced after its run; a new name costs nothing.
    taken = DataError(f"{path}: exists, and a sealed forecast is never written over. Give -o another name.")
    if path.exists():
        raise taken
    if timestamp is not None:
        if os.path.realpath(timestamp) == os.path.realpath(path):
            raise DataError(f"{timestamp}: the seal goes there (-o). Give --timestamp another name.")
        if check_output(timestamp, SEALED).exists():
            raise DataError(f"{timestamp}: exists, and is not written over. Give --timestamp another name.")
    text = json.dumps(seal.to_dict(), indent=1, allow_nan=False) + "\n"
    try:
        write_text(path, text, SEALED, new=True)
    except FileExistsError:  # sealed by another in the meantime
        raise taken from None
    if timestamp is not None:
        whole = hashlib.sha256(text.encode()).hexdigest()
        write_text(timestamp, f"{whole}  {path.name}\n", SEALED)
    return replace(seal, path=path)


def _commit_of(table: Path) -> str:
    """Return the commit that holds a table as it is now."""

    def answer(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(table.parent), *words], capture_output=True, text=True, check=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError) as error:
            reply = str(getattr(error, "stderr", "") or error).strip().splitlines()[:1]
            raise DataError(
                f"{table}: git does not answer ({' '.join(reply)}). Commit the table, or leave --git out."
            ) from None
        return done.stdout.strip()

    if not table.is_file():
        raise DataError(f"{table}: no such file. --git takes the runs table that the forecast was made from.")
    if not answer("ls-files", "--", table.name) or answer("status", "--porcelain", "--", table.name):
        raise DataError(
            f"{table}: is not committed as it is now. Commit it first: the seal names the commit that holds it."
        )
    return answer("log", "-1", "--format=%H", "--", table.name)


def load_seal(path: str | Path) -> Seal:
    """Read a sealed forecast, and check that nothing in it was changed.

    Raises
    ------
    DataError
        If the file is missing, of another kind, of a newer format, or not what was sealed.
    """
    label, document = _read(path)
    if document.get("format") != FORMAT:
        raise DataError(
            f"{label}: not a sealed forecast. One is written by `cptlaw register FORECAST.json -o SEALED.json`."
        )
    version = document.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"{label}: `format_version` is {quote(version)}. Take the file as it was sealed.")
    if version > FORMAT_VERSION:
        raise DataError(f"{label}: sealed by cptlaw {document.get('cptlaw_version')} in a newer format; update cptlaw.")
    kept = document.pop("sha256", None)
    if _sha256(document) != kept:
        raise DataError(
            f"{label}: was changed after it was sealed: its SHA-256 is {_sha256(document)[:12]}.., "
            f"and {str(kept)[:12]}.. is written in it. Take the file as it was sealed, as from a commit."
        )
    # Whoever changes a file can compute its SHA-256 anew: the values are checked as those of a forecast are.
    points, interval, laws = _checked(label, document, "laws")
    _check_date(label, document.get("sealed"))
    written = str(document.get("sealed")), str(document.get("cptlaw_version"))
    commit = document.get("git_commit")
    return Seal(points, interval, laws, *written, str(kept), Path(path), None if commit is None else str(commit))


def _read(source: Mapping[str, object] | str | Path) -> tuple[str, dict[str, object]]:
    label = "forecast" if isinstance(source, Mapping) else str(source)
    try:
        text = json.dumps(source) if isinstance(source, Mapping) else Path(source).read_text(encoding="utf-8-sig")
        document = _strict_json(text)
    except FileNotFoundError:
        raise DataError(f"{label}: no such file. {HOW}") from None
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{label}: not readable JSON ({error}). {HOW}") from None
    if not isinstance(document, dict):
        raise DataError(f"{label}: holds no JSON object. {HOW}")
    return label, document


def _strict_json(text: str) -> object:
    document = plain_json(text)
    as_written = json.loads(text, object_pairs_hook=_once)  # with halves of characters, if there are any
    try:
        json.dumps([document, as_written], allow_nan=False, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a text holds half of a character (\\ud800 to \\udfff)") from None
    except ValueError:
        raise ValueError("NaN, Infinity and numbers beyond 1e308 are no numbers of JSON") from None
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose keys are there once: of two values readers take the first or the last, as they like."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"the key {quote(twice)} is there twice")
    return dict(pairs)


def _check_date(label: str, text: object) -> None:
    """Refuse a seal whose date is none, or lies ahead: it was not written by `register`."""
    try:
        when = datetime.fromisoformat(str(text))
    except ValueError:
        raise DataError(f"{label}: `sealed` is {quote(text)}, no date. Take the file as it was sealed.") from None
    if when.tzinfo is None or when > datetime.now(UTC) + timedelta(days=1):
        raise DataError(
            f"{label}: `sealed` is {quote(text)}, which lies ahead or names no time zone: no seal is written so. Take "
            f"the file as it was sealed."
        )


Checked = tuple[tuple[Mapping[str, Any], ...], float | None, tuple[Mapping[str, Any], ...]]


def _checked(label: str, document: Mapping[str, object], laws_key: str) -> Checked:
    """Return the points, the interval and the laws of a forecast or a seal, each checked."""
    points = _points(label, document)
    interval = document.get("interval")
    if interval is not None and not (_is_number(interval) and 0 < interval < 1):
        raise DataError(f"{label}: `interval` is {quote(interval)}. Expected a probability between 0 and 1, or null.")
    laws = document.get(laws_key, [])
    if not isinstance(laws, list) or not all(isinstance(item, Mapping) and _is_flat(item) for item in laws):
        raise DataError(f"{label}: `{laws_key}` is not a list of laws, each with plain values. {HOW}")
    return points, interval, tuple(laws)


def _points(label: str, document: Mapping[str, object]) -> tuple[Mapping[str, Any], ...]:
    """Return the forecast losses without their findings, each checked."""
    if document.get("format") == "cptlaw-fit":
        raise DataError(f"{label}: this is a fit, not yet a forecast. {HOW}")
    # Sealing a seal would give old forecasts a new date.
    if document.get("format") == FORMAT and "sha256" in document:
        raise DataError(f"{label}: is sealed already. Score it with `cptlaw score {label} --runs RUNS`.")
    points = document.get("points")
    if not isinstance(points, list) or not points:
        raise DataError(f"{label}: holds no `points` with forecast losses. {HOW}")
    checked: list[dict[str, object]] = []
    seen: dict[str, int] = {}
    for number, point in enumerate(points, 1):
        _check_point(f"{label}: point {number}", point)
        kept = {key: value for key, value in point.items() if key != "findings" and not key.startswith("doubt_")}
        asked = {key: value for key, value in kept.items() if key not in NOT_INPUTS or key in ("law", "on")}
        if (before := seen.setdefault(json.dumps(asked, sort_keys=True), number)) != number:
            raise DataError(
                f"{label}: point {number} forecasts what point {before} does, of the same law. Expected each point "
                f"once, or its measurement would count twice. Leave one out."
            )
        checked.append(kept)
    return tuple(checked)


def _check_point(where: str, point: PointsLike) -> None:
    """Refuse a point that no measurement could be held against later."""
    if not isinstance(point, Mapping) or not isinstance(point.get("on"), str):
        raise DataError(f"{where}: expected an object with `on`, the eval that is forecast. {HOW}")
    _check_forecast(where, point)
    _check_inputs(where, point)


def _check_forecast(where: str, point: Mapping[str, Any]) -> None:
    """Refuse a loss or score, or an interval of one, that nothing measured could be like."""
    share = is_score(point)
    expected = "a score from 0 to 1" if share else "a loss in nats, above zero"
    for name, or_null in (("loss", ""), ("lo", ", or null"), ("hi", ", or null")):
        value = point.get(name)
        good = _is_number(value) and (0 <= value <= 1 if share else value > 0)
        if not good and not (or_null and value is None):
            raise DataError(f"{where}: `{name}` is {quote(value)}. Expected {expected}{or_null}.")
    loss, low, high = (point.get(name) for name in ("loss", "lo", "hi"))
    if low is not None and high is not None and not low <= loss <= high:
        raise DataError(
            f"{where}: the {'score' if share else 'loss'} {loss:g} lies outside its interval, {low:g} to {high:g}."
        )


def _check_inputs(where: str, point: Mapping[str, object]) -> None:
    """Refuse inputs by which the run of a point could not be found."""
    inputs = {name: value for name, value in point.items() if name not in NOT_INPUTS}
    if not _is_flat({**inputs, "law": point.get("law")}):
        raise DataError(f"{where}: an input is a list or an object. Expected plain numbers and texts. {HOW}")
    for name, value in inputs.items():
        column = column_of(name)
        known = canonical_name(name) == name and column.numeric and value is not None
        # What no table holds in this column finds no run, and nobody would know before the runs are trained.
        if known and not (_is_number(value) and column.lowest <= value <= column.highest):
            raise DataError(f"{where}: `{name}` is {quote(value)}. Expected {column.expected}.")
    if not inputs:
        raise DataError(f"{where}: has no inputs, such as n_params and tokens, to know the run by. {HOW}")


def is_empty(point: Mapping[str, Any]) -> bool:
    """Whether the interval of a loss is so wide that whatever is measured lies in it; early seals hold such."""
    return not is_score(point) and point.get("hi") is not None and point["hi"] > WIDEST * float(point["loss"])


def is_score(point: Mapping[str, object]) -> bool:
    """Whether a forecast is of a score, from 0 to 1, and not of a loss."""
    return isinstance(point.get("metric"), str)


def _is_flat(values: Mapping[str, object]) -> bool:
    return not any(isinstance(value, list | Mapping) for value in values.values())


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _sha256(document: Mapping[str, object]) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys and the layout of its file."""
    # Sorted keys, no spaces, ASCII alone: one text for one content, whatever wrote the file.
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
