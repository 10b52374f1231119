"""How learnable a corpus is, read off the first rows of its runs: the coefficients k1, k2, k3 of the cross-domain law.

See `cptlaw_published.dcpt_cross` for what they mean and who uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.runs.levels import same_level
from cptlaw.units import format_quantity

COEFFICIENTS = ("k1", "k2", "k3")

EARLY_TOKENS = 0.131072e9  # 1,000 steps of 131,072 tokens
FIRST_TOKENS = 0.65536e9  # 5,000 steps
SECOND_TOKENS = 1.31072e9  # 10,000 steps

NEAR_ENOUGH = 0.01  # a curve that starts or ends within this share of the tokens needed counts as reaching them


@dataclass(frozen=True)
class Probe:
    """Where the learnability coefficients are read off: raw tokens, and the size and mix of the runs (None: all)."""

    early_tokens: float
    first_tokens: float
    second_tokens: float
    k1_is_initial: bool
    n_params: float | None
    replay: float | None

    def points(self, name: str) -> tuple[float, ...]:
        """Return the tokens at which a coefficient needs a loss."""
        return {
            "k1": (0.0 if self.k1_is_initial else self.early_tokens,),
            "k2": (0.0, self.first_tokens),
            "k3": (0.0, self.first_tokens, self.second_tokens),
        }[name]

    def within(self, frame: pd.DataFrame) -> dict[str, float]:
        """Return the tokens of the coefficients as options, scaled down to what every domain has, the shortest probe.

        Nothing where all domains reach the tokens that stand here.
        """
        ends = _common_rows(frame, self)
        if ends is None or ends[1] * (1 + NEAR_ENOUGH) >= self.second_tokens:
            return {}
        first, last = ends
        scale = last / self.second_tokens
        # No loss is known before the first common measurement; between two, losses are interpolated.
        early, middle = (max(first, scale * point) for point in (self.early_tokens, self.first_tokens))
        return {"k1_tokens": early, "k2_tokens": middle, "k3_tokens": last if last > middle else 2.0 * middle}

    def covers(self, n_params: float, replay: float) -> bool:
        """Say whether a run is of the set-up."""
        wanted = ((self.n_params, n_params), (self.replay, replay))
        return all(level is None or bool(same_level(value, level)) for level, value in wanted)


# One row per run that was usable: domain, cell (what all domains must share), and the coefficients.
_Measured = dict[str, dict[tuple[float, ...], list[dict[str, float]]]]


def measure(frame: pd.DataFrame, probe: Probe, names: Sequence[str], law_name: str) -> pd.DataFrame:
    """Return one row per domain: domain, the coefficients named, n_runs."""
    result = _measure_runs(frame, probe, names, law_name)
    # Cells that every domain has: how far a loss falls depends on size and mix as much as on the corpus.
    shared = sorted(set.intersection(*(set(cells) for cells in result.values()))) if result else []
    if result and not shared:
        raise DataError(
            f"law {law_name}: there is no size and replay at which runs of all domains ({', '.join(sorted(result))}) "
            f"show {', '.join(names)}, so their coefficients would not compare. Probe every domain with a common run."
        )
    table = []
    for domain in sorted(result):
        runs = [result[domain][cell] for cell in shared]
        # Cells count alike, however many seeds each has: else domains with other seeds would not compare.
        row = {name: float(np.mean([np.mean([run[name] for run in cell]) for cell in runs])) for name in names}
        if row.get("k2", 1.0) <= 0:
            raise DataError(
                f"domain {domain!r}: k2 = {row['k2']:.4g}; law {law_name} needs k2 > 0, a loss that falls over the "
                f"first {format_quantity(probe.first_tokens)} tokens. Measure it on runs with a larger share of this "
                f"corpus (probe_replay=), or use dcpt-cross-k1."
            )
        table.append({"domain": domain, **row, "n_runs": sum(map(len, runs))})
    return pd.DataFrame(table, columns=["domain", *names, "n_runs"])


def _measure_runs(frame: pd.DataFrame, probe: Probe, names: Sequence[str], law_name: str) -> _Measured:
    """Measure every run that belongs to the probe's set-up and is long enough, by domain and by cell."""
    what = f"law {law_name} measures {', '.join(names)} on the first rows of each run: the table"
    require(frame, ("run", "domain", "loss", "n_params", "tokens", "replay"), what)
    tokens = frame["tokens"].to_numpy(dtype=float)
    base, adapted = frame[tokens == 0], frame[tokens > 0]
    needed = sorted({point for name in names for point in probe.points(name)})
    result: _Measured = {}
    unusable: dict[str, list[str]] = {}
    for run, rows in adapted.groupby("run", observed=True, sort=False):
        domain = _domain_of(rows, run, law_name)
        cells = result.setdefault(domain, {})
        cell = tuple(float(rows[name].iloc[0]) for name in ("n_params", "replay", "ptpp") if name in rows)
        losses = {point: _loss_at(rows, base, point) for point in needed}
        missing = [_missing(rows, point) for point, loss in losses.items() if loss is None]
        if not probe.covers(*cell[:2]):
            missing = ["is not of the set-up that probe_n_params and probe_replay ask for"]
        if missing:
            unusable.setdefault(domain, []).append(f"run {run!r} {' and '.join(missing)}")
            continue
        key = tuple(-1.0 if np.isnan(value) else float(f"{value:.9g}") for value in cell)  # equal up to rounding
        known = {point: loss for point, loss in losses.items() if loss is not None}
        cells.setdefault(key, []).append({name: _coefficient(probe, name, known) for name in names})
    silent = [domain for domain, cells in result.items() if not cells]
    if silent:
        raise DataError(
            f"domain {silent[0]!r}: no run shows {', '.join(names)} for law {law_name}: "
            f"{'; '.join(unusable[silent[0]][:3])}. Add the rows that are missing, or name other tokens with "
            f"k1_tokens, k2_tokens and k3_tokens (published: 131M, 655M and 1.31B)."
        )
    return result


def _common_rows(frame: pd.DataFrame, probe: Probe) -> tuple[float, float] | None:
    """Return from which to which tokens runs of all domains have losses, at the sizes and mixes that all share."""
    cell = [name for name in ("n_params", "replay", "ptpp") if name in frame.columns]
    if not {"run", "domain", "tokens", "n_params", "replay"} <= set(frame.columns):
        return None
    adapted = frame[(frame["tokens"] > 0) & frame["domain"].notna()]
    near = [probe.covers(size, replay) for size, replay in zip(adapted["n_params"], adapted["replay"], strict=True)]
    by_run = adapted[near].groupby(["domain", *cell, "run"], observed=True, dropna=False)["tokens"].agg(["min", "max"])
    if by_run.empty:
        return None
    # Of equal runs of one domain the longest counts.
    of_cell = by_run.groupby(["domain", *cell], observed=True, dropna=False).max()
    shared = of_cell.groupby(cell, dropna=False).agg({"min": "max", "max": ["min", "size"]})
    shared = shared[shared["max", "size"] == adapted["domain"].nunique()]
    return None if shared.empty else (float(shared["min", "max"].max()), float(shared["max", "min"].min()))


def _domain_of(rows: pd.DataFrame, run: object, law_name: str) -> str:
    """Return the domain of a run, which must have one."""
    domains = rows["domain"].unique()
    if len(domains) != 1 or pd.isna(domains[0]):
        named = "rows without a domain" if rows["domain"].isna().any() else "more than one domain"
        raise DataError(f"law {law_name} needs one domain per run; run {run!r} has {named}.")
    return str(domains[0])


def _coefficient(probe: Probe, name: str, losses: Mapping[float, float]) -> float:
    if name == "k1":
        return losses[probe.points("k1")[0]]
    fall = losses[0.0] - losses[probe.first_tokens]
    return fall if name == "k2" else fall - (losses[probe.first_tokens] - losses[probe.second_tokens])


def _loss_at(rows: pd.DataFrame, base: pd.DataFrame, point: float) -> float | None:
    """Return the loss of a run at some tokens, linear in log tokens between measurements, or None."""
    if point == 0.0:
        return _base_loss(rows.iloc[0], base)
    curve = rows.groupby("tokens", observed=True)["loss"].mean()
    tokens = curve.index.to_numpy(dtype=float)
    if not tokens[0] * (1 - NEAR_ENOUGH) <= point <= tokens[-1] * (1 + NEAR_ENOUGH):
        return None
    # In log tokens a loss early in a run is nearly straight; in tokens it bends between any two measurements.
    return float(np.interp(np.log(point), np.log(tokens), curve.to_numpy(dtype=float)))


def _base_loss(row: pd.Series, base: pd.DataFrame) -> float | None:
    """Return L(0): the run's own row at tokens = 0, else the mean over those of its base model on this eval."""
    own = base[(base["run"] == row["run"]).to_numpy(dtype=bool)]
    if not len(own):
        same = same_level(base["n_params"], float(row["n_params"]))
        if "ptpp" in base.columns and not pd.isna(row["ptpp"]):
            ptpp = base["ptpp"].to_numpy(dtype=float)
            # A base loss without a budget is taken for that of every budget, as in tables of one base model.
            same &= np.isnan(ptpp) | same_level(ptpp, float(row["ptpp"]))
        domain = base["domain"].astype(object)
        # Pooled target evals differ by domain; a base loss without a domain holds for all of them.
        own = base[same & (domain == row["domain"]).to_numpy(dtype=bool)]
        own = own if len(own) else base[same & domain.isna().to_numpy(dtype=bool)]
    return float(own["loss"].mean()) if len(own) else None


def _missing(rows: pd.DataFrame, point: float) -> str:
    if point == 0.0:
        size = format_quantity(float(rows["n_params"].iloc[0]))
        return f"has no loss at tokens = 0, neither its own nor one of its {size} base model"
    low, high = (format_quantity(float(end), 4) for end in (rows["tokens"].min(), rows["tokens"].max()))
    return f"has no loss at {format_quantity(point, 4)} tokens (it has {low} to {high})"


def require(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Say which column a table lacks.

    Raises
    ------
    DataError
        If it lacks one.
    """
    for name in columns:
        if name not in frame.columns:
            raise DataError(f"{what} has no column {name!r}; it has {', '.join(map(str, frame.columns))}.")
