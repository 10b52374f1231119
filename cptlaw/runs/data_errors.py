"""What a table of runs must satisfy before any law is fitted to it: slips of units, of columns, and of copying.

Each check is a line over columns. An error says that no answer can be right; a warning names what to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.runs.alike import furthest_alike
from cptlaw.runs.convert import row_codes
from cptlaw.runs.metrics import HIGHEST_LOSS
from cptlaw.runs.never_measured import (
    adapted_rows,
    base_losses,
    copies_of_bases,
    copies_of_evals,
    digits_of,
    in_first_half,
    settings_of,
)
from cptlaw.runs.outliers import (
    BITS,
    MOST_NAMED,
    LossSurface,
    bases_out_of_line,
    outlier_rows,
    outlier_runs,
    size_beside_budget,
    sizes_out_of_order,
    unexplained_losses,
)
from cptlaw.runs.sweeps import mistuned_runs
from cptlaw.runs.table import CLEAR, Runs
from cptlaw.runs.within import ONE_SEED, SEEDS, SEEDS_MOST, SETTINGS, correlation_with_replay
from cptlaw.units import counted, format_percent, format_quantity

Floats = npt.NDArray[np.float64]

HIGHEST_PTPP = 2e5  # tokens per parameter; the most that is public is about 130,000
COUNTS = (1e3, 1e6, 1e9)  # factors between tokens, thousands, millions and billions of them
# What names or measures a base model, and does not tell why two of them differ.
NAMES = ("run", "eval", "loss", "ptpp", "pt_tokens", "base", "base_model", "base_run", "n_params_non_embedding")
NOT_LEARNED = 2.0  # times as far seeds of base models differ on a corpus that they have not learned: .08 was measured
REPLAY_LEARNS = 0.5  # share of old data up to which training lowers the loss on the new corpus
RISEN, LEAST_RISING = 0.05, 3  # log loss above the base, at which no run ended; .003 was measured; runs that all rise
RISEN_BY_OLD = 0.2  # log loss on the old corpus above the base, where half or more is of it; .141 was measured at most


def data_errors(runs: Runs, on: str | None = None) -> tuple[Finding, ...]:
    """Say what is wrong with a table, whichever law is fitted to it; the worst comes first.

    Parameters
    ----------
    runs
        The rows that are to be fitted.
    on
        One eval to look at. Where it is left out: source and target where there are such roles, else all losses, and
        what they say together.
    """
    key = ("data errors", on)
    if key not in runs.memo:
        runs.memo[key] = _data_errors(runs, on)
    found: tuple[Finding, ...] = runs.memo[key]
    return found


def _data_errors(runs: Runs, on: str | None) -> tuple[Finding, ...]:
    losses = [name for name in runs.evals if name not in runs.scores]
    known = [name for name in losses if runs.role(name) != "other"] or losses
    chosen = known if on is None else [runs.on(on).evals[0]]
    tables = {name: runs.on(name).frame for name in chosen if name in losses}
    found = []
    for name, rows in tables.items():
        if (key := ("errors of eval", name)) not in runs.memo:
            runs.memo[key] = (*_made(_of_eval, runs, name, rows),)
        # Runs may have been trained until a target loss was reached; no plan ends at one source loss.
        stopped = "equal-losses" if len(tables) > 1 and runs.role(name) == "target" else ""
        found += [replace(one, severity="warning") if one.code == stopped else one for one in runs.memo[key]]
    unexplained = [one for one in found if one.code == "unexplained-losses"]
    if len(unexplained) < len(tables):  # chance would leave no eval explained
        found = [replace(one, severity="warning") if one in unexplained else one for one in found]
    if on is None and tables:
        found += [*_made(copies_of_evals, tables), *_made(_replay, runs, tables), *_made(_budgets, runs.frame)]
        found += _made(_same_settings, adapted_rows(runs.frame[runs.frame["eval"].isin([*tables])]))
    return by_severity(found)


def _made(check: Callable[..., Iterable[Finding]], *given: object) -> Iterator[Finding]:
    """Yield what a check finds; one that fails says so and stops nothing: no fit depends on it."""
    try:
        yield from check(*given)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        yield Finding(
            "warning",
            "check-failed",
            f"a check of the data could not be made ({check.__name__.strip('_')}: {type(error).__name__}: {error}), so "
            "that slips of its kind go unseen.",
            "Look at the numbers of this table for what no run can have had, and report this with the table.",
            data={"check": check.__name__},
        )


def one_run(runs: Runs) -> tuple[Finding, ...]:
    """Say that a table holds one run: enough to forecast its own curve, and not what another run would do."""
    adapted = adapted_rows(runs.frame)
    if adapted["run"].nunique() != 1:
        return ()
    # Where size and budget are known, other studies say what such a run tells of others.
    base_model = [name for name in ("n_params", "ptpp") if name in adapted.columns]
    known = len(base_model) == 2 and bool(adapted[base_model].notna().all(axis=None))
    return (
        Finding(
            "warning" if known else "error",
            "one-run",
            f"all rows of adapted models are of one run, {str(adapted['run'].iloc[0])!r}: nothing shows what another "
            "mix, size or number of tokens would do"
            + (" but studies of others, of which this run tells how far yours is from them." if known else "."),
            "Add two runs or more that differ in what you ask about; or ask without runs, from the studies of others.",
        ),
    )


def _of_eval(runs: Runs, name: str, rows: pd.DataFrame) -> Iterator[Finding]:
    """Look at the rows of one eval."""
    adapted = adapted_rows(rows)
    if len(adapted) < 2:
        return
    base, of_seed = (base_losses(rows, adapted, same_seed=same) for same in (False, True))
    yield from _made(_loss_units, name, adapted)
    yield from _made(_rounded, name, adapted)
    yield from _made(_token_units, adapted)
    yield from _made(_tokens_of_pre_training, adapted)
    copied = [*_made(_equal, name, rows, adapted)] or [*_made(copies_of_bases, name, adapted, base, of_seed)]
    if copied:
        yield from copied
        return
    if runs.role(name) == "target" and (rising := [*_made(_rising, name, adapted)]):
        yield from rising
        return
    yield from _made(_against_base, runs.role(name), name, adapted, base)
    surface = LossSurface(adapted)
    yield from _made(outlier_runs, surface)
    yield from _made(outlier_rows, surface, name, base)
    if worse := mistuned_runs(runs)[0]:  # which may have collapsed; laws are fitted to the best
        rows = rows[~rows["run"].isin(worse)]
        surface = LossSurface(adapted_rows(rows))
    by_size = [*_made(sizes_out_of_order, rows, surface, runs.role(name) == "target")]
    yield from by_size
    if "tokens" in rows.columns:
        bases = rows[(rows["tokens"] == 0).to_numpy()]
        if runs.role(name) != "target":  # which base models have not learned
            yield from _made(size_beside_budget, bases)
        if not by_size:
            yield from _made(bases_out_of_line, bases)
    yield from _made(unexplained_losses, surface)


def _loss_units(name: str, adapted: pd.DataFrame) -> Iterator[Finding]:
    middle = float(np.median(adapted["loss"]))
    if middle > HIGHEST_LOSS:
        yield Finding(
            "warning",
            "suspected-units",
            f"the median loss of {name!r} is {middle:.4g}: more than any guess over a vocabulary costs in nats. It "
            f"looks like a perplexity.",
            "Give losses in nats per token: the natural logarithm of the perplexity.",
        )


def _rounded(name: str, adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say that losses are rounded to steps as large as what two seeds differ by."""
    loss = adapted["loss"].to_numpy(dtype=float)
    digits = digits_of(loss)
    step = 10.0**-digits / float(np.median(loss))
    if np.ptp(loss) == 0 or step < SEEDS:
        return
    yield Finding(
        "warning",
        "rounded-losses",
        f"the losses of {name!r} have {digits} digits after the point: steps of "
        f"{step:.1%} of the loss, where two seeds differ by {SEEDS:.1%}.",
        "Give losses with all the digits that were logged.",
        data={"digits": digits},
    )


def _token_units(adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say which runs or rows have tokens that look as if counted in thousands, millions or billions."""
    if not {"tokens", "n_params"} <= set(adapted.columns):
        return
    rows = adapted[["run", "tokens", "n_params", *(["step"] if "step" in adapted else [])]].dropna()
    rows = rows[(rows["tokens"] > 0) & (rows["n_params"] > 0)]
    if len(rows) < 2:
        return
    run, names = pd.factorize(rows["run"])
    tokens = np.log10(rows["tokens"].to_numpy(dtype=float))
    if "step" in rows and (rows["step"] > 0).all():
        batch = tokens - np.log10(rows["step"].to_numpy(dtype=float))
        if (said := _in_other_units(batch, run, names, "tokens of a step")) is not None:
            yield said
            return
    highest = np.full(len(names), -np.inf)
    ratio = tokens - np.log10(rows["n_params"].to_numpy(dtype=float))
    np.maximum.at(highest, run, ratio)
    if len(names) < 3:
        return
    said = _in_other_units(highest, np.arange(len(names)), names, "tokens per parameter")
    if said is not None:
        yield said
        return
    order = np.lexsort((tokens, run))
    jumps = np.diff(tokens[order]) * (np.diff(run[order]) == 0)
    if len(jumps) and np.sum(jumps > 2.7) and np.median(jumps[np.diff(run[order]) == 0]) < 1.0:
        first = str(names[run[order][int(np.argmax(jumps))]])
        yield Finding(
            "warning",
            "suspected-units",
            f"tokens of run {first!r} grow {10.0 ** float(jumps.max()):,.0f} times from one row to the next, which no "
            "other rows do: they look as if given in units of their own.",
            "Write tokens as plain numbers, or with their unit, as in 8.1B.",
            data={"run": first},
        )


def _tokens_of_pre_training(adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say that tokens go on from those of pre-training: no row has fewer than its base model was trained on."""
    if not {"tokens", "n_params", "ptpp"} <= set(adapted.columns):
        return
    before = (adapted["n_params"] * adapted["ptpp"]).to_numpy(dtype=float)
    ratio = (adapted["tokens"].to_numpy(dtype=float) / before)[before > 0]
    if len(ratio) < 2 or not ratio.min() > 1.0:
        return
    yield Finding(
        "error" if adapted["ptpp"].nunique() > 1 else "warning",  # a base model alone may be trained on little
        "tokens-of-pre-training",
        f"every row has more tokens than its base model was pre-trained on (ptpp x n_params), {ratio.min():.3g} to "
        f"{ratio.max():.3g} times as many: tokens look as if they counted pre-training as well.",
        "tokens counts continued pre-training alone: take ptpp x n_params away from each row.",
        data={"least": float(ratio.min())},
    )


def _same_settings(adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say that runs of the same settings differ in loss: one is missing, and may be replay where that never varies."""
    if not {*SETTINGS, "tokens", "replay"} & set(adapted.columns) or (found := furthest_alike(adapted)) is None:
        return
    one_mix = "replay" in adapted.columns and adapted["replay"].nunique() == 1
    yield Finding(
        "error" if one_mix else "warning",
        "settings-missing",
        f"{counted(len(found.runs), 'run')}, {join_names(map(repr, found.runs), 3)}, have the same settings and differ "
        f"in loss: {found.low!r} has {found.lowest:.4g} of {found.eval!r} and {found.high!r} {found.highest:.4g}, more "
        "than seeds do. A setting is missing from the table"
        + (f"; replay is {format_percent(float(adapted['replay'].max()), 3)} in all rows." if one_mix else "."),
        "Add the column in which they differ, such as replay or the peak rate.",
        data={"runs": found.runs, "eval": found.eval},
    )


def _in_other_units(values: Floats, run: npt.NDArray[np.intp], names: pd.Index, what: str) -> Finding | None:
    """Say which part of log10 values is set apart from the rest by a factor of units, and among them without it."""
    order = np.sort(values)
    gaps = np.diff(order)
    if not len(gaps) or (widest := int(gaps.argmax())) is None or gaps[widest] < 1.0:
        return None
    low, high = order[: widest + 1], order[widest + 1 :]
    apart, rest = (high, low) if len(high) <= len(low) else (low, high)
    if len(apart) == len(rest) == 1:
        return None
    shift = float(np.median(apart) - np.median(rest))
    near = COUNTS[int(np.abs(np.log10(COUNTS) - abs(shift)).argmin())]
    moved = apart - math.copysign(math.log10(near), shift)
    reach = 0.3 + 0.5 * float(np.ptp(rest))
    # Far outside the others, and among them once the unit is put right.
    if moved.min() < rest.min() - reach or moved.max() > rest.max() + reach or abs(shift) < 2.0:
        return None
    if gaps[widest] < 2.0 and gaps[widest] < 3.0 * np.max(np.delete(gaps, widest), initial=0.0):
        return None
    first = str(names[run[int(np.flatnonzero(np.isin(values, apart))[0])]])
    count = len(np.unique(run[np.isin(values, apart)]))
    who = f"run {first!r} has" if count == 1 else f"{count} runs, such as {first!r}, have"
    return Finding(
        "warning",
        "suspected-units",
        f"{who} {10.0 ** float(np.median(apart)):.3g} {what}, {10.0**shift:.2g} times the median of all others: tokens "
        f"or n_params look as if given in units of {near:.0e}.",
        "Write both as plain numbers, or with their unit, as in 8.1B.",
        data={"run": first, "runs": count},
    )


def _equal(name: str, rows: pd.DataFrame, adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say that all losses are one."""
    measured = adapted if len(adapted) > 2 else rows  # two that agree may do so by chance
    loss = measured["loss"].to_numpy(dtype=float)
    if len(rows) < 3 or settings_of(adapted) < 2 or np.ptp(loss) > 1e-9 * loss.max():
        return
    yield Finding(
        "error",
        "equal-losses",
        f"all {len(loss)} losses of {name!r} are {loss[0]:.6g}, whatever size, tokens and mix are.",
        "Look which column holds the losses, and how they were joined; if runs were stopped at this loss, forecast "
        "the other eval alone.",
    )


def _against_base(role: str, name: str, adapted: pd.DataFrame, base: Floats) -> Iterator[Finding]:
    """Say that adapted models and base models have losses of different units."""
    change = np.log(adapted["loss"].to_numpy(dtype=float) / base)
    known = np.isfinite(change)
    mostly_old = change[known & (adapted["replay"] >= 0.5).to_numpy()] if "replay" in adapted else change[:0]
    change = change[known]
    if len(change) < 2:
        return
    low, high = float(np.quantile(change, 0.1)), float(np.quantile(change, 0.9))
    factor = math.log(BITS)
    # A target loss never rises by training on its corpus; a source loss by a third in every run is no plan's outcome.
    rises = low > (0.02 if role == "target" else factor - 0.05)
    rises |= role == "source" and len(mostly_old) > 1 and float(mostly_old.min()) > RISEN_BY_OLD
    falls = role == "source" and high < 0.05 - factor
    if not rises and not falls:
        yield from _risen(role, name, adapted, base)
        return
    sure = role == "target" or falls or bool("replay" in adapted and adapted["replay"].max() >= 0.2)
    yield Finding(
        "error" if sure else "warning",
        "base-in-other-units",
        f"the losses of {name!r} lie {abs(math.expm1(float(np.median(change)))):.0%} {'above' if rises else 'below'} "
        f"those of their base models in nearly all rows (tenths from {math.expm1(low):+.0%} to {math.expm1(high):+.0%})"
        f": as if one were in bits and the other in nats (a factor of {BITS:.3f}).",
        "Give all losses in nats per token: bits times 0.6931; and look whether base and adapted rows have one eval.",
        data={"change": float(np.median(change))},
    )


def _rising(name: str, adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say that a target loss ends above where it began in every run, though they were trained on its corpus."""
    if "tokens" not in adapted.columns:
        return
    learned = adapted["replay"].to_numpy(dtype=float) <= REPLAY_LEARNS if "replay" in adapted.columns else slice(None)
    by_run = adapted[learned].sort_values("tokens", kind="stable").groupby("run", observed=True)["loss"]
    rise = np.log((by_run.last() / by_run.first())[by_run.size() > 1].to_numpy(dtype=float))
    if len(rise) < LEAST_RISING or not (rise > 0).all():
        return
    yield Finding(
        "error",
        "rising-with-tokens",
        f"the losses of {name!r} rise from the first to the last row of each of {len(rise)} runs (by "
        f"{math.expm1(float(np.median(rise))):.1%} in the middle), though they were trained on its corpus.",
        "Look in which order rows and losses were joined, and whether source and target are exchanged.",
        data={"rise": float(np.median(rise))},
    )


def _risen(role: str, name: str, adapted: pd.DataFrame, base: Floats) -> Iterator[Finding]:
    """Say which runs end with a higher loss than their base models on the corpus that they were trained on most."""
    if role != "target" and (role != "source" or "replay" not in adapted.columns):
        return
    trained, most = np.isfinite(base) & ~in_first_half(adapted), RISEN if role == "target" else RISEN_BY_OLD
    if "replay" in adapted.columns:
        of_old = adapted["replay"].to_numpy(dtype=float)
        trained &= of_old <= REPLAY_LEARNS if role == "target" else of_old >= REPLAY_LEARNS
    change = pd.Series(np.log(adapted["loss"].to_numpy(dtype=float) / base))[trained]
    least = change.groupby(adapted["run"].astype(str).to_numpy()[trained]).min()
    # No run learned what it was trained on.
    most = 0.0 if role == "target" and len(least) > 1 and least.min() > 0 else most
    risen = least.index[least > most].tolist()
    if not risen:
        return
    mix = "its corpus" if role == "target" else f"{format_percent(REPLAY_LEARNS)} of its corpus or more"
    also = "" if role == "target" else "; whether replay is the share of the old corpus, and not of the new one"
    few = len(risen) <= MOST_NAMED and len(risen) < len(least)
    yield Finding(
        "warning",
        "above-base",
        f"{len(risen)} of {counted(len(least), 'run')}, {join_names(map(repr, risen), MOST_NAMED)}, have {name!r} "
        f"losses more than {math.expm1(most):.0%} above those of their base models, though trained on {mix}.",
        "They diverged, or their losses stand in other rows, or are of another eval: look at these runs, or leave them "
        f"out{also}.",
        data={"runs": risen, "of": len(least)},
        remedy=Remedy("where", " and ".join(f'run != "{run}"' for run in risen)) if few else None,
    )


def _replay(runs: Runs, tables: dict[str, pd.DataFrame]) -> Iterator[Finding]:
    """Say that replay looks like the share of the new corpus, or that source and target are exchanged."""
    if "replay" not in runs.frame.columns:
        return
    together: dict[str, float] = {
        str(runs.role(name)): value for name in tables if (value := correlation_with_replay(tables[name])) is not None
    }
    # The share of the new corpus makes the source loss rise and the target loss fall.
    as_new = {role: value if role == "source" else -value for role, value in together.items()}
    wrong = [role for role in ("source", "target") if as_new.get(role, 0.0) > CLEAR]
    if not wrong or min(as_new.values()) < -CLEAR:
        return
    said = {"source": "the source loss rises with replay", "target": "the target loss falls with replay"}
    yield Finding(
        "error" if len(wrong) == 2 else "warning",
        "replay-reversed",
        f"{' and '.join(said[role] for role in wrong)}, between runs that are alike else: replay looks like the share "
        "of the new corpus, or source and target are exchanged.",
        "replay is the share of the old (source) corpus in the mix: give 1 - share, or exchange the evals.",
        data={"correlation": {role: together[role] for role in wrong}},
    )


def _budgets(frame: pd.DataFrame) -> Iterator[Finding]:
    """Say that ptpp holds tokens, or one value beside base models that differ."""
    if "ptpp" not in frame.columns or frame["ptpp"].isna().all():
        return
    budgets = frame["ptpp"].dropna().to_numpy(dtype=float)
    in_tokens = float(np.median(budgets)) > HIGHEST_PTPP
    if "n_params" in frame.columns:
        rows = frame[["n_params", "ptpp"]].dropna().drop_duplicates()
        ratio = np.round(np.log(rows["ptpp"].to_numpy(dtype=float) / rows["n_params"].to_numpy(dtype=float)), 2)
        shared = len(np.unique(ratio)) < rows["ptpp"].nunique()
        in_tokens |= rows["n_params"].nunique() > 1 and shared and float(rows["ptpp"].max()) > 0.1 * HIGHEST_PTPP
    if in_tokens:
        yield Finding(
            "error",
            "ptpp-in-tokens",
            f"ptpp goes up to {format_quantity(float(budgets.max()))}: no model was pre-trained on so many tokens per "
            "parameter. It looks like the tokens of pre-training.",
            "Call the column pt_tokens, and ptpp is derived; or divide by n_params.",
            data={"ptpp": float(budgets.max())},
        )
        return
    if "tokens" not in frame.columns:
        return
    base = frame[(frame["tokens"] == 0).to_numpy()]
    told = [str(one) for one in base.columns if one not in NAMES and len({*row_codes(base[[one]])}) > 1]
    but_seeds = [one for one in told if one != "seed"]
    for columns, most in ((told, ONE_SEED), (but_seeds, NOT_LEARNED * SEEDS_MOST)):
        models = base.groupby(["eval", "ptpp", *columns], observed=True, dropna=False)
        apart = models["loss"].transform("max") / models["loss"].transform("min") - 1.0
        number, wide = models.ngroup().to_numpy(), (apart > most).to_numpy()
        if wide.any():
            rows = base[number == number[wide].min()]
            name, loss = str(rows["eval"].iloc[0]), np.sort(rows["loss"].to_numpy(dtype=float))
            yield Finding(
                "warning",
                "bases-not-told-apart",
                f"{len(loss)} base models of ptpp {format_quantity(float(rows['ptpp'].iloc[0]))} have {name!r} "
                f"losses from {loss[0]:.4g} to {loss[-1]:.4g} ({join_names([f'{each:.4g}' for each in loss], 4)}), and "
                f"no column{'' if columns == told else ' but seed, which never makes so much,'} tells them apart.",
                "Give each its own ptpp (pre-training tokens per parameter), and what else they differ in; look "
                "whether losses stand in the rows of their models.",
                data={"eval": name, "losses": loss.tolist()},
            )
            return
