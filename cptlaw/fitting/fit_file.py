"""The fit of one law read back from its file: every value is checked, nothing is unpickled or evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, DataError, escape_hidden, quote
from cptlaw.findings import SEVERITIES, Finding
from cptlaw.fitting.law_fit import SEARCH, LawFit
from cptlaw.fitting.saved import FORMAT_VERSION
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.uncertainty.inner_rollouts import ERRORS
from cptlaw.laws import LAWS, Context, law
from cptlaw.laws.calculus import Array
from cptlaw.laws.curve_rows import schedules_from_json
from cptlaw.runs.schema import COLUMNS

RESTRAINT = ("fix", "tie", "bound", "prior", "correlation", "along_tokens", "noise")
# Names of the document and of its settings, what their values are, and the same in words.
KINDS: tuple[tuple[tuple[str, ...], type | UnionType, str], ...] = (
    (("law", "on", "role", "status"), str, "text"),
    (("findings",), list, "list"),
    (("params", "restraint", "provenance"), Mapping, "mapping"),
    (("n_points", "n_runs", "n_starts", "n_agree", "rank", "n_free", "starts", "seed"), int, "whole number"),
    (("delta",), int | float, "number above 0"),
)
FARTHEST = math.log(1e3)  # of the median fitted loss from the measured one: no search ends there


def fit_from(document: Mapping[str, Any], label: str) -> LawFit:
    """Return the fit that a file's document holds.

    Raises
    ------
    DataError
        If the document is damaged, or its law is not known.
    """
    path = Path(label)
    _known_law(document, path)
    try:
        _check(document)
        chosen = law(document["law"])
        settings = document["settings"]
        restraint = settings["restraint"]
        fit = LawFit(
            law=chosen,
            **common_of(document),
            params=_finite(chosen.check_params(document["params"])),
            **{key: document[key] for key in SEARCH},
            options=Options(
                settings["delta"],
                settings["starts"],
                settings["seed"],
                Restraint.build(chosen, **{key: restraint.get(key) for key in RESTRAINT}),
            ),
            optima=np.array(document["optima"], dtype=float),
            schedules=schedules_from_json(document.get("schedules", {})),
            prior_weight=float(document.get("prior_weight", 0.0)),
            learned=tuple(map(str, document.get("learned", ()))),
        )
        if document.get("law_version") == chosen.version:
            fit._cache[ERRORS] = _finite_errors(document.get("inner_errors", ()))
        else:
            # Searched in other coordinates: where it ended can be said in these, what fitted as well cannot.
            fit = replace(fit, optima=np.concatenate(fit.problem().coordinates(fit.params))[None])
        if chosen.objects:
            # Arrays by row are left out of files; they follow from the schedules that are kept.
            columns = chosen.inputs_of(fit.data, Context(schedules=fit.schedules))
            fit = replace(fit, data=fit.data.assign(**{name: columns[name] for name in chosen.objects}))
        _rows_of(fit.optima, fit.n_free)  # coordinates of the free parameters
        fit.data["run"].astype(str)
        for name in ("loss", *(name for name in chosen.inputs if name in fit.data)):
            fit.data[name].to_numpy(dtype=float)
        with np.errstate(all="ignore"):  # parameters that were given come without rows
            losses = fit.data["loss"].to_numpy(dtype=float)
            off = np.abs(np.log(fit.predict(fit.data) / losses)) if len(losses) else losses
        if len(off) and not np.median(off) < FARTHEST:
            raise ValueError("its parameters are far from every loss that it was fitted to")
    except (CptlawError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(path, error) from None
    return fit


def damaged(path: Path, error: Exception) -> DataError:
    """Return the error of a file whose content no fit can have."""
    what = f"{error!r:.300}" if not isinstance(error, CptlawError) else str(error)
    return DataError(f"{path}: the fit is damaged: {what} Write it again with `cptlaw fit`.")


def _check(document: Mapping[str, Any]) -> None:
    """Refuse values of kinds that no fit holds, which would otherwise surface far from the file."""
    if document.get("format_version") != FORMAT_VERSION:
        raise ValueError(f"format_version is {quote(document.get('format_version'))}, not {FORMAT_VERSION}")
    settings = document["settings"]
    for names, kind, wanted in KINDS:
        for name in names:
            value = settings[name] if name in settings else document[name]
            if not isinstance(value, kind):
                raise ValueError(f"{name} is {quote(value)}, no {wanted}")
    delta = settings["delta"]
    if isinstance(delta, bool) or not 0 < delta < math.inf:
        raise ValueError(f"settings: delta is {quote(delta)}, no number above 0")
    for item in document["findings"]:
        if item["severity"] not in SEVERITIES or not all(
            isinstance(item[name], str) for name in ("code", "message", "advice")
        ):
            raise ValueError(f"findings hold {quote(item)}")


def _finite(params: dict[str, float]) -> dict[str, float]:
    for name, value in params.items():
        if not math.isfinite(value):
            raise ValueError(f"the parameter {name} is {value}")
    return params


def _finite_errors(values: object) -> Array:
    """Return the errors of the rollouts inside the fitted rows; none in files of earlier versions."""
    errors = np.array(values, dtype=float)
    if errors.ndim != 1 or not np.isfinite(errors).all():
        raise ValueError("inner_errors are no list of numbers")
    return errors


def _rows_of(values: object, width: int) -> object:
    rows = np.array(values, dtype=float)
    if rows.size and (rows.ndim != 2 or rows.shape[1] != width):
        raise ValueError(f"rows of {width} parameters are expected, found the shape {rows.shape}")
    return rows


def _known_law(document: Mapping[str, object], path: Path) -> None:
    """Say where the law of a file is to be had. What the file says of its home is told, never imported: it is anyone's.

    Raises
    ------
    DataError
        If the law is not defined here, and is none of this package's.
    """
    name = str(document.get("law")).partition(":")[0]
    home = document.get("law_home")
    if name in LAWS or not isinstance(home, dict):
        return
    module, cls = (escape_hidden(str(home.get(key)))[:200] for key in ("module", "class"))
    where = (
        "Run the notebook's cell or the script that defines it"
        if home.get("module") == "__main__"
        else f"Import {module} (install its package first where it is missing)"
    )
    raise DataError(
        f"{path}: law {quote(name)} is not defined here. It is the class {cls} of {module}, no law of cptlaw. {where}, "
        f"then load the fit again. The command line knows it where an installed package names it as an entry point of "
        f"the group cptlaw.laws (CONTRIBUTING.md)."
    )


def _numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return fitted rows whose columns of numbers hold numbers, or raise a ValueError or TypeError."""
    for name in rows.columns:
        if name in COLUMNS and COLUMNS[name].numeric:
            rows[name].to_numpy(dtype=float)
    return rows


def common_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that all kinds of fits keep alike."""
    return {
        "on": str(document["on"]),
        "role": document["role"],
        "data": _numbers(pd.DataFrame(document["data"])),
        "base": _numbers(pd.DataFrame(document["base"])),
        "findings": tuple(Finding(**item) for item in document["findings"]),
        "provenance": document["provenance"],
    }
