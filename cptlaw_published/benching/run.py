"""Run the bench: every law on every frozen split that its columns allow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, UsageError, did_you_mean
from cptlaw.findings import Finding
from cptlaw.fitting.base_models import KEYS, measured_bases
from cptlaw.fitting.fit import Fit
from cptlaw.forecasting.backtest.baselines import BASELINES
from cptlaw.forecasting.backtest.held_out import SHARE, HeldOut, guessed, held_out, scores
from cptlaw.forecasting.backtest.metrics import mean_of_known
from cptlaw.forecasting.verbs import fit
from cptlaw.laws.by_name import law
from cptlaw.result import Progress, Result, Table
from cptlaw.runs import Runs
from cptlaw.units import format_percent
from cptlaw_published.benching.splits import SPLITS, Split
from cptlaw_published.benching.tables import OWN, TABLES, load

MOST_POINTS = 12  # of a split whose intervals are computed, spread over its rows
STATIC_LAWS = ("chinchilla", "chinchilla:bend=2")
CPT_LAWS = ("shared-tokens", "ptpp-gated-floor", "ptpp-nearest")
COLUMNS = ("study", "split", "on", "law", "n_fit", "n_test", "mae_rel", "coverage_50", "coverage_90", "width_90",
           "base_rel", "shift_rel", "regret", "cpu_s")  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Bench(Result):
    """What laws forecast of rows that they were not fitted on.

    Attributes
    ----------
    frame
        One row per split and law, in the columns `COLUMNS`. Errors and regret are fractions of the loss; ``width_90``
        is half the median width of 90 % intervals, as a fraction, infinite where the median one has no end, which holds
        whatever is measured; ``base_rel`` is the part of ``mae_rel`` that lies in the base models' own losses, and
        ``shift_rel`` that in what CPT adds to them, each by itself, for one may hide the other (nan where no base
        model of the forecast runs was measured); ``cpu_s`` is fit and forecasts.
    findings
        Which studies are not there, which laws could not be fitted where.
    """

    frame: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """What was run."""
        losses = self.frame.groupby(["study", "split", "on"]).ngroups
        laws, studies = (self.frame[name].nunique() for name in ("law", "study"))
        count = "one study" if studies == 1 else f"{studies} studies"
        return f"{laws} laws and baselines on {losses} {'loss' if losses == 1 else 'losses'} of {count}"

    @property
    def tables(self) -> list[Table]:
        """Means over the losses of each split, and all splits of each law."""
        formats: dict[str, Callable[[float], str]] = {
            **dict.fromkeys(("mae_rel", "base_rel", "shift_rel", "regret"), lambda value: f"{100 * value:.2f}"),
            "width_90": lambda value: "open" if value == np.inf else f"{100 * value:.2f}",
            **dict.fromkeys(("coverage_50", "coverage_90"), format_percent),
            "cpu_s": lambda value: f"{value:.1f}",
            "losses": str,
        }
        shown = {name: (name, "mean") for name in COLUMNS[COLUMNS.index("mae_rel") :]}
        by_split = self.frame.groupby(["study", "split", "law"], sort=False).agg(losses=("on", "count"), **shown)
        note = (
            "mae_rel, its parts in base model and shift, width_90 (half the median 90% interval) and regret in percent "
            "of the loss; cpu_s in seconds."
        )
        return [Table.of(by_split.reset_index(), formats, "Means over the losses of a split", note)]

    def to_dict(self) -> dict[str, object]:
        """Return the promised JSON keys."""
        rows = self.frame.astype(object).where(self.frame.notna(), None)
        return {"rows": rows.to_dict("records"), "findings": [finding.to_dict() for finding in self.findings]}


def bench(
    data: str | Path | None = None,
    laws: str | Iterable[str] | None = None,
    splits: str | Iterable[str] | None = None,
    *,
    progress: Progress | None = None,
) -> Bench:
    """Run laws on frozen splits of real runs.

    Each study is judged with what was learned from the others alone (`cptlaw.fitting.learned.leaving_out`).

    Parameters
    ----------
    data
        Folder of public tables; without it the tables of this package alone.
    laws
        Names of laws, or one text with commas: law auto and those of the field where absent. A law of an installed
        package enters by its name. The baselines always run.
    splits
        Names of studies, or of splits as ``study/split``; all where absent.
    progress
        Called with a line of text after each split.

    Raises
    ------
    UsageError
        If a law, a split or the folder does not exist.
    """
    named = _names(laws)
    for name in named:
        if name != "auto":
            law(name)
    if data is not None and not Path(data).is_dir():
        raise UsageError(f"--data {str(data)!r}: there is no such folder. Give the one that holds the public tables.")
    chosen = _chosen(_split_names(splits))
    tables = {study: load(study, data) for study in dict.fromkeys(split.study for split in chosen)}
    findings = [_absent(study) for study, table in tables.items() if table is None]
    rows: list[dict[str, object]] = []
    for split in chosen:
        table = tables[split.study]
        if table is None:
            continue
        result, notes = _one_split(table, split, named)
        rows += result
        findings += notes
        if progress is not None:
            progress(f"{split.study}: {split.name}, {split.on}")
    return Bench(pd.DataFrame(rows, columns=list(COLUMNS)), tuple(findings))


def _absent(study: str) -> Finding:
    message = f"study {study} is left out: {TABLES[study].file} is not in the data folder (--data)."
    return Finding("info", "no-table", message, f"In public: {TABLES[study].where}.")


def _names(given: str | Iterable[str] | None) -> list[str]:
    items = given.split(",") if isinstance(given, str) else (given or ())
    return [item.strip() for item in items if item.strip()]


def _known_splits() -> list[str]:
    return [*OWN, *TABLES, *dict.fromkeys(f"{split.study}/{split.name}" for split in SPLITS)]


def _split_names(given: str | Iterable[str] | None) -> list[str]:
    """Return the names of splits; in one text commas part them, and stand in some of them."""
    if not isinstance(given, str):
        return _names(given)
    known = "|".join(re.escape(name) for name in sorted(_known_splits(), key=len, reverse=True))
    return [name.strip() for name in re.findall(rf"(?:{known})(?=\s*(?:,|$))|[^,\s][^,]*", given)]


def _chosen(names: list[str]) -> list[Split]:
    known = _known_splits()
    for name in names:
        if name not in known:
            raise UsageError(f"--splits {name!r}: there is no such study or split.{did_you_mean(name, known)}")
    return [one for one in SPLITS if not names or one.study in names or f"{one.study}/{one.name}" in names]


def _one_split(table: Runs, split: Split, named: list[str]) -> tuple[list[dict[str, object]], list[Finding]]:
    """Return the rows of all laws and baselines on one split, and which laws could not be fitted."""
    from cptlaw.fitting.learned import leaving_out, studies

    if split.role is not None:
        table = table.with_roles(**{f"{split.role}_eval": split.on})
    table = table if split.where is None else table.where(split.where)
    test, fitted = (table.on(split.on).where(query).frame for query in (split.test, split.fit))
    is_cpt, of_budgets = "replay" in test.columns or "ptpp" in test.columns, "ptpp" in test.columns
    laws = named or ["auto", *(CPT_LAWS if is_cpt else STATIC_LAWS)]
    shared = {"study": split.study, "split": split.name, "on": split.on}
    where = ", ".join(shared.values())
    rows, findings = [], []
    for name in (*laws, *(one for one in BASELINES if of_budgets or one != "nearest-budget")):
        started = time.process_time()
        try:
            with leaving_out(split.study) if split.study in studies() else nullcontext():
                guess = name in BASELINES
                result = scores([guessed(name, fitted, test)]) if guess else _of_law(table, split, test, name)
        except CptlawError as reason:
            findings.append(Finding("info", "not-fitted", f"{where}: {name} could not be fitted: {reason}"))
            continue
        rows.append({**shared, "law": name, **result, "cpu_s": time.process_time() - started})
        if result.get("width_90") == np.inf:
            message = (
                f"{where}: the rows do not bound what {name} forecasts, so that its intervals hold whatever is "
                f"measured."
            )
            findings.append(Finding("info", "unbounded", message, "Look at its error, not at its coverage."))
    return rows, findings


def _of_law(table: Runs, split: Split, test: pd.DataFrame, name: str) -> dict[str, float]:
    """Fit one law and score what it forecasts."""
    fitted = cast("Fit", fit(name, table, split.on, split.fit))
    held = held_out(fitted, test, (0.5, SHARE), MOST_POINTS)
    return scores([held], silent=1.0) | _parts(fitted, held)


def _parts(fitted: Fit, held: HeldOut) -> dict[str, float]:
    """Return what is missed of the measured base models of runs, and what of the shifts from them, as fractions."""
    test, own = held.rows, np.full(len(held.rows), np.nan)
    if {*KEYS, "tokens"} <= set(test.columns):
        known = test[list(KEYS)].merge(measured_bases(fitted.base), "left", list(KEYS))["loss"].to_numpy(dtype=float)
        with suppress(CptlawError), np.errstate(all="ignore"):  # a law that says nothing of base models
            own = np.log(fitted.predict(test.assign(tokens=0.0)) / known)
    base = np.where(np.isfinite(own), own, np.nan)
    shift = held.log_error.to_numpy() - base
    return {"base_rel": mean_of_known(np.abs(base)), "shift_rel": mean_of_known(np.abs(shift))}
