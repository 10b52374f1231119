"""Which rows of a table all candidates are fitted on, by stated rules; what is left out is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import UsageError, join_names
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.checking.cuts import trained
from cptlaw.laws.base import Role
from cptlaw.runs import Runs
from cptlaw.runs.kinds import kinds
from cptlaw.runs.order import in_order
from cptlaw.runs.schema import MIX, mix_columns
from cptlaw.runs.sweeps import mistuned, mistuned_runs
from cptlaw.units import counted

# Warm-up of the rate, and the jump of losses that it brings, are no part of any law without schedules. Where the rate
# of each point is known, points up to twice its warm-up are left out; where it is not, those in the first tenth of a
# run: a little less, for the first of ten points stays. Chosen by rollouts inside other tables (studies/bench.md).
WARM_UPS = 2.0
TRANSIENT = 0.095
AT_PEAK = 0.99  # share of a run's highest rate from which it counts as reached
CPT_COLUMNS = ("replay", "ptpp")
RATES = ("lr_peak", "lr_pretrain")
# Runs that read so few tokens per parameter, at so few sizes, begin from a model that has read more: a model from
# scratch would hardly have learned to spell, and its ladder would have more sizes.
FEW_TOKENS, FEW_SIZES, EACH_SIZE = 4.0, 3, 4
COLLAPSED = 2.0  # times the lowest loss of the same base model and mix at a lower rate
FINE_TUNING = Finding(
    "info",
    "fine-tuning",
    "the rows are read as fine-tuning of base models of several sizes: some have tokens 0, and none has replay or a "
    "budget of pre-training.",
    "For continual pre-training add the columns replay and ptpp; for models from scratch leave out rows with tokens 0.",
)
IN_ORDER = ("n_params", "ptpp", "replay", "lr_peak", "tokens", "step", "loss", "run")


@dataclass(frozen=True)
class Chosen:
    """The rows of one eval that are fitted.

    Attributes
    ----------
    runs
        The rows, those of the base models among them.
    is_cpt
        Whether they are of continual pre-training, and neither of models from scratch nor of fine-tuning.
    findings
        What was left out, and why.
    is_curves
        Whether they are loss curves of models from scratch, with their forward areas (`curve_tables`).
    pretraining
        The fewest tokens of pre-training of a base model that is not left out as under-trained.
    of_undertrained
        The rows of base models that are left out as under-trained.
    """

    runs: Runs
    is_cpt: bool
    findings: tuple[Finding, ...]
    is_curves: bool = False
    pretraining: float = 0.0
    of_undertrained: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a frame, as laws without options of their own read them."""
        return self.runs.frame

    def without(self, kept: NDArray[np.bool_], finding: Finding) -> Chosen:
        """Return the rows that are kept, (n,), and say of the others what is found."""
        return replace(self, runs=replace(self.runs, frame=self.frame[kept]), findings=(*self.findings, finding))

    @property
    def is_tuning(self) -> bool:
        """Whether they are of fine-tuning: base models were measured, and neither replay nor budgets are told."""
        frame = self.frame
        return not self.is_cpt and "n_params" in frame.columns and not trained(frame).all()

    @property
    def of_mixes(self) -> bool:
        """Whether several mixes of three or more corpora, or of two that are not source and target, are among them."""
        names = [name for name in mix_columns(self.frame.columns) if self.frame[name].notna().any()]
        plain = {MIX + "source", MIX + "target"} >= set(names)
        return bool(names) and not plain and len(self.frame[names].dropna().drop_duplicates()) > 1


def main_kind(table: Runs, where: str | None) -> tuple[Runs, tuple[Finding, ...]]:
    """Return the runs of one kind, that of most runs among the chosen rows, and say which were left out."""
    main, *others = kinds(table, where)
    if not others:
        return table.keep(main.mask), ()
    note = Finding(
        "warning",
        "main-kind",
        f"only the runs of {main} are fitted, which most are: no law here reads what tells them from those of "
        f"{join_names([str(kind) for kind in others], 3)}.",
        "`answer` compares methods; to fit another kind choose it.",
        remedy=Remedy("where", others[0].query),
    )
    return table.keep(main.mask), (note,)


def choose_rows(table: Runs, on: str, where: str | None, all_schedules: bool = False) -> Chosen:
    """Select the rows of one eval on which all candidates are fitted.

    Rows of base models (tokens = 0) stay. Of CPT runs, what lies within twice the warm-up of the rate is left out, or
    the first tenth where rates are not known; and where runs have several schedules, all but the one that most have,
    unless `all_schedules`: a law that knows schedules is among those that are fitted.
    """
    rows = table.on(on)
    rows = (rows if where is None else rows.where(where)).without_empty_columns()
    rows = replace(rows, frame=in_order(rows.frame, IN_ORDER))
    findings: list[Finding] = []
    frame = rows.frame
    if not all_schedules and not table.all_runs:
        worse_runs, tuned = mistuned_runs(table, where)
        worse = frame["run"].isin(worse_runs).to_numpy()
        if worse.any():
            findings.append(mistuned(rows, worse_runs, tuned))
            rows = replace(rows, frame=(frame := frame[~worse]))
    reason = why_cpt(table, frame)
    is_cpt = reason is not None
    if reason:
        advice = "Say what is known of the base models (pt_tokens or ptpp) and of the mix (replay)."
        findings.append(Finding("info", "read-as-cpt", f"read as continual pre-training: {reason}.", advice))
    merged = frame.get("merge_weight", pd.Series(1.0, frame.index)).fillna(1.0) < 1
    if (all_schedules or not is_cpt) and (merged := merged & (frame.get("tokens", 1) != 0)).any():
        rows_of = counted(int(merged.sum()), "row")
        message = f"left out: {rows_of} of merges with the base model, whose weight no law here reads."
        findings.append(Finding("info", "merges", message, "Hold them beside the answer's alternatives."))
        rows = replace(rows, frame=(frame := frame[~merged]))
    if not is_cpt or "tokens" not in frame.columns:
        chosen = Chosen(rows, False, tuple(findings))
        return replace(chosen, findings=(*findings, FINE_TUNING)) if chosen.is_tuning else chosen
    adapted = (frame["tokens"] > 0).to_numpy()
    kept = np.ones(len(frame), dtype=bool)
    if "phase" in frame.columns:
        kept &= ~((frame["phase"].astype(str) == "pretrain") & frame["tokens"].isna()).to_numpy()
        if not kept.all():
            findings.append(
                Finding(
                    "info",
                    "pretraining-rows",
                    f"{int((~kept).sum())} rows of the phase pretrain are left out: they have no tokens of adaptation.",
                    "Write tokens 0 where the base model was measured: forgetting then counts from its loss.",
                )
            )
            frame, kept, adapted = frame[kept], kept[kept], adapted[kept]
    if "lr_schedule" in frame.columns and not all_schedules:
        runs_of = frame[adapted].groupby("lr_schedule", observed=True)["run"].nunique().sort_values(kind="stable")
        if len(runs_of) > 1:
            main = runs_of.index[-1]
            kept &= ~adapted | (frame["lr_schedule"] == main).to_numpy()
            findings.append(
                Finding(
                    "info",
                    "main-schedule",
                    f"{int((~kept).sum())} rows under other schedules than {main!r}, which most runs have, are left "
                    "out: laws without schedules cannot tell them apart.",
                    "Choose others, or give the schedules of all: a file, or 'columns' where the table tells them.",
                    remedy=Remedy("schedules", "columns"),
                )
            )
    fallen = adapted & kept & frame["run"].isin(collapsed_runs(table.frame, set(frame["run"]))).to_numpy()
    if fallen.any():
        kept &= ~fallen
        names = frame.loc[fallen, "run"].astype(str).unique()
        lowest = float(frame.loc[fallen, "lr_peak"].min())
        findings.append(
            Finding(
                "warning",
                "collapsed",
                f"left out as collapsed: {len(names)} run{'s' * (len(names) > 1)} ({', '.join(names[:3])}"
                + ", .." * (len(names) > 3)
                + "), with losses over twice those of the same base model at a lower rate. Forecasts say nothing "
                f"of such rates, here {lowest:.2g} and more.",
                "Stay below these rates; the rate at which runs collapse falls with size and pre-training.",
                data={"runs": len(names), "lr_peak": lowest},
            )
        )
    for early, where_they_lie in _transients(frame, adapted & kept):
        if early.any():
            kept &= ~early
            findings.append(
                Finding(
                    "info",
                    "transient",
                    f"left out: {counted(int(early.sum()), 'point')} {where_they_lie}, where the rate is still warming "
                    "up, or the loss jumps from its raising.",
                    "To forecast so early a point, fit a law by name.",
                    remedy=Remedy("law"),
                )
            )
    return Chosen(replace(rows, frame=frame[kept]), True, tuple(findings))


def why_cpt(table: Runs, frame: pd.DataFrame) -> str | None:
    """Return what shows that rows of one eval are of continual pre-training, None where nothing does.

    A column of CPT needs no word, "". Without one it is told by what the rows are, and never of an eval whose role is
    not known.

    Parameters
    ----------
    table
        All evals.
    frame
        The rows of one, without empty columns.
    """
    if any(name in frame.columns for name in CPT_COLUMNS):
        return ""
    role = table.role(str(frame["eval"].iloc[0])) if len(frame) else "other"
    if role == "other" or "tokens" not in frame.columns:
        return None
    if all(name in frame.columns for name in RATES):
        return "runs have a peak rate of their own beside that of pre-training"
    if {"source", "target"} <= {table.role(name) for name in table.evals}:
        return "losses on the source and on the target corpus are measured"
    if "n_params" not in frame.columns or not trained(frame).all():
        return None  # rows of base models alone may be of fine-tuning
    most, sizes = float((frame["tokens"] / frame["n_params"]).max()), frame["n_params"].value_counts()
    if most < FEW_TOKENS and len(sizes) <= FEW_SIZES and sizes.min() >= EACH_SIZE:
        return (
            f"{len(frame)} runs at {len(sizes)} size{'s' * (len(sizes) > 1)} read at most {most:.2g} tokens a parameter"
        )
    return None


def collapsed_runs(frame: pd.DataFrame, among: set[str]) -> set[str]:
    """Return the runs that a high rate has broken, so that no law of rates holds them.

    Parameters
    ----------
    frame
        All rows of a table, every eval: a run has collapsed if one of its losses has.
    among
        The runs that are asked about, and compared with each other.
    """
    if "lr_peak" not in frame.columns:
        return set()
    losses = frame["metric"].isna() if "metric" in frame.columns else True  # of a score twice as much is better
    rows = frame[(frame["tokens"] > 0) & frame["run"].isin(among) & frame["lr_peak"].notna() & losses]
    rows = rows.reset_index(drop=True)  # the evals of one line of a wide table bear its number
    same = [name for name in ("eval", "n_params", "tokens", "replay") if name in rows.columns]
    best = rows.loc[rows.groupby(same, observed=True, dropna=False)["loss"].transform("idxmin")]
    far = rows["loss"].to_numpy() > COLLAPSED * best["loss"].to_numpy()
    return set(rows.loc[far & (rows["lr_peak"].to_numpy() > best["lr_peak"].to_numpy()), "run"])


def _transients(frame: pd.DataFrame, adapted: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield the points of the warm-up transient, (n,), and where they lie in words: by their rates, and by tokens."""
    run = frame["run"].astype(str)
    tokens = frame["tokens"].where(adapted)
    warm_up = _warm_up(frame["lr"].where(adapted), tokens, run) if "lr" in frame.columns else tokens * np.nan
    known = warm_up.notna().to_numpy()
    yield (tokens < WARM_UPS * warm_up).to_numpy(), "within twice the warm-up of their runs' rate"
    last = tokens.groupby(run).transform("max")
    yield ~known & (tokens < TRANSIENT * last).to_numpy(), "in the first tenth of their runs"


def _warm_up(rate: pd.Series[float], tokens: pd.Series[float], run: pd.Series[str]) -> pd.Series[float]:
    """Return the tokens after which the rate of each row's run has reached its peak; nan where it is not known.

    Warm-up is taken as linear from 0. A run without a point in it has that of the others, as far as its first point
    allows.
    """
    peak = rate.groupby(run).transform("max")
    reached = tokens.where(rate >= AT_PEAK * peak).groupby(run).transform("min")
    rising = (tokens < reached) & (rate > 0)
    length = (tokens * peak / rate).where(rising).groupby(run).transform("max")
    usual = length.max() if rising.any() else 0.0
    first = tokens.groupby(run).transform("min")
    return length.fillna(first.clip(upper=usual)).clip(upper=reached).where(peak.notna())


def without_lone_base_models(rows: Chosen, role: Role) -> Chosen:
    """Return the rows of a target loss without base models of sizes at which no model was adapted.

    On a corpus that they have not seen base models get better with size more slowly than adapted models do: next to
    those of other sizes alone they tell nothing of it, and laws would carry it over (studies/bench.md). Source losses
    of such base models are fitted.
    """
    frame = rows.frame
    if role != "target" or not rows.is_cpt or "n_params" not in frame.columns:
        return rows
    kept = frame["n_params"].isin(frame.loc[trained(frame), "n_params"]).to_numpy()
    if kept.all():
        return rows
    finding = Finding(
        "info",
        "base-rows",
        f"not fitted: {counted(int((~kept).sum()), 'row')} of base models of sizes without CPT, whose losses on the "
        "target corpus say little of adapted models.",
        "Nothing: their source losses are fitted.",
    )
    return rows.without(kept, finding)


def with_source_rows(table: Runs, rows: Chosen, where: str | None, all_schedules: bool = False) -> Runs:
    """Return the chosen rows together with those of the source eval, chosen in the same way."""
    own = str(rows.frame["eval"].iloc[0])
    kept = {own: rows.frame.index}  # by eval: the evals of one line of a wide table bear its number
    if table.role(own) == "target":
        source = next((one for one in table.evals if table.role(one) == "source"), None)
        if source is not None:
            with suppress(UsageError):  # the filter may name the eval, or leave none of its rows
                of_source = choose_rows(table, source, where, all_schedules).frame
                if rows.pretraining:
                    of_source = of_source[of_source["n_params"] * of_source["ptpp"] >= rows.pretraining]
                kept[source] = of_source.index
    of_evals = [(table.frame["eval"] == name) & table.frame.index.isin(index) for name, index in kept.items()]
    frame = table.frame[np.logical_or.reduce(of_evals)]
    together = replace(table, frame=frame.assign(eval=frame["eval"].cat.remove_unused_categories()))
    return together.without_empty_columns()


def levels(frame: pd.DataFrame, name: str) -> int:
    """Return how many levels a column has among adapted rows; 0 where it is not there."""
    if name not in frame.columns:
        return 0
    values = frame.loc[frame["tokens"] != 0, name] if "tokens" in frame.columns else frame[name]
    return int(values.nunique())
