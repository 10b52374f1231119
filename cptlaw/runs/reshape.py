"""Tables in the shapes in which people publish them, brought to one row per measured loss before they are read."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, escape_hidden
from cptlaw.reading import flatten
from cptlaw.runs.convert import hashable, to_numbers
from cptlaw.runs.corpora import MAPPING, OFF, SHARES
from cptlaw.runs.naming import alias_error
from cptlaw.runs.pivot import texts_of
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.schema import MIX, canonical_name, corpus_of, mix_columns
from cptlaw.runs.tracker_names import words_of

LEAST_SIZE = 1e4  # parameters; a column of smaller numbers that is called size counts something else
JOINED = re.compile(r"\d*\.?\d+(?:\s*[-_/:;|,]\s*\d*\.?\d+)+")
VALUE = "value"  # where tables of losses and scores keep the scores
BETWEEN = re.compile(r"\s*[-_/:;|,]\s*")
# What names a run whose table counts steps and has no column for it.
SETTINGS = ("n_params", "replay", "ptpp", "pt_tokens", "lr_peak", "lr_schedule", "seed", "batch_tokens")
TEXTS = ("method", "domain")
SEEDS = frozenset("seed rep repeat repetition replicate rerun".split())
NAMES_OF_RUNS = frozenset("name run experiment exp trial job".split())


def unnested(raw: RawTable) -> RawTable:
    """Return a table whose objects within objects, as of a trainer's settings, are columns with their names joined."""
    frame = raw.frame
    if not frame.columns.is_unique:  # which is complained of when its columns are named
        return raw
    nested = [
        name
        for name in frame.columns
        if frame[name].dtype == object and name != MAPPING and any(isinstance(value, dict) for value in frame[name])
    ]
    if not nested:
        return raw
    columns: dict[str, pd.Series] = {}
    for name in frame.columns:
        cells = [flatten(value, str(name)) for value in frame[name]] if name in nested else []
        for inner in dict.fromkeys(key for cell in cells for key in cell) if name in nested else [name]:
            if inner in columns:
                raise DataError(f"{raw.label}: column {inner!r} is there nested and by itself. Rename one of them.")
            result = [cell.get(inner) for cell in cells]
            # As objects: pandas refuses half a character in a column of texts, and in a name.
            kind = object if any(isinstance(one, str) for one in result) else None
            columns[escape_hidden(inner)] = pd.Series(result, index=frame.index, dtype=kind) if cells else frame[name]
    return raw.reshaped(pd.DataFrame(columns, index=frame.index))


def parameters_in(raw: RawTable) -> RawTable:
    """Return a table whose parameters are the column called size, where that counts them and nothing else does."""
    if "n_params" not in raw.taken:
        for name in raw.free:
            if name.strip().lower() == "size":
                values, unreadable = to_numbers(raw.frame[name])
                if not unreadable.any() and len(values) and np.nanmin(values) >= LEAST_SIZE:
                    return raw.named({"n_params": name})
    return raw


def unnamed_mix(raw: RawTable) -> RawTable:
    """Return a table whose shares of a mix are named so, of one that plainly has them under other names.

    Plainly: two or more that are called alike, such as ``weight_code`` and ``weight_web``, and add up to one.
    """
    if mix_columns(raw.taken) or MAPPING in raw.frame.columns or "replay" in raw.taken:
        return raw
    for stated in SHARES:
        named = {MIX + match[1]: name for name in raw.free if (match := stated.match(name))}
        if len(named) < 2:
            continue
        shares = raw.frame[[*named.values()]].apply(pd.to_numeric, errors="coerce")
        known = shares.notna().any(axis=1)
        adds_up = bool(((shares.sum(axis=1) - 1.0).abs() <= OFF)[known].all())
        if known.any() and adds_up and bool(shares.min().min() >= 0):
            named = {str(canonical_name(name)): column for name, column in named.items()}
            read_as = ", ".join(f"{name} from {place!r}" for name, place in named.items())
            return raw.named(named, f"shares that add up to one are those of the mix: {read_as}")
    return raw


def evals_in_domain(raw: RawTable) -> RawTable:
    """Return a table whose column ``domain`` names the evals, where it has none and rows repeat each other else."""
    taken = raw.taken
    if "eval" in taken or "domain" not in taken:
        return raw
    domain = taken["domain"]
    point = [taken[name] for name in ("run", "step", "tokens") if name in taken]
    if "run" not in taken:  # all that tells rows apart
        point = [str(name) for name in raw.frame.columns if name not in (domain, taken.get("loss"))]
    # Only where rows of one run and step would otherwise repeat each other: a table with one eval keeps its domains.
    stated = raw.frame[[*point, domain]].apply(hashable)
    if not point or not stated.duplicated(point).any() or stated.duplicated().any():
        return raw
    note = f"column {domain!r} is read as the name of the eval: runs have several losses at a point otherwise"
    return raw.named({"eval": domain}, note)


def values_beside_losses(raw: RawTable) -> RawTable:
    """Return a table with its scores in the column of losses, of one that has them in a column ``value`` beside it."""
    taken = raw.taken
    if not {"loss", "metric"} <= set(taken) or VALUE not in raw.free:
        return raw
    loss, value = raw.frame[taken["loss"]], raw.frame[VALUE]
    stated = loss.isna() & value.notna() & raw.frame[taken["metric"]].notna()
    if not stated.any():
        return raw
    note = f"{int(stated.sum())} rows have no {taken['loss']!r} and a metric: theirs is read from {VALUE!r}"
    both = loss.astype(object).where(~stated, value)
    return raw.reshaped(raw.frame.assign(**{taken["loss"]: both}), note)


def joined_shares(raw: RawTable) -> RawTable:
    """Return a table with a column ``mix_NAME`` for each corpus, of one that joins the shares, as in ``0.25-0.75``.

    The shares have no names there. Where there are as many evals as shares, each share is that of the eval whose loss
    falls with it; else the table stays as it is, and its reader is told what to write.
    """
    frame = raw.frame
    if mix_columns(raw.taken) or MAPPING in frame.columns or "replay" in raw.taken:
        return raw
    for name in texts_of(frame[raw.free]):
        shares = _split(frame[name])
        if shares is None:
            continue
        columns = _named(raw, shares)
        if columns is None:
            return raw.named({}, f"column {name!r} holds shares without their corpora: give each a column mix_NAME")
        read = ", ".join(f"{corpus_of(column)} {place}." for place, column in enumerate(columns, 1))
        note = f"column {name!r} holds the shares of the mix, named after the eval whose loss falls with each: {read}"
        return raw.reshaped(frame.assign(**columns), note)
    return raw


def _split(column: pd.Series) -> list[tuple[float, ...]] | None:
    """Return the shares that each field joins, or ``None`` where a field is no mix."""
    by_text: dict[str, tuple[float, ...]] = {}
    texts = [str(value).strip() for value in column]
    for text in dict.fromkeys(texts):
        if JOINED.fullmatch(text) is None:
            return None
        by_text[text] = tuple(float(part) for part in BETWEEN.split(text))
        if abs(sum(by_text[text]) - 1.0) > OFF:
            return None
    return [by_text[text] for text in texts] or None


def _named(raw: RawTable, shares: list[tuple[float, ...]]) -> dict[str, np.ndarray] | None:
    """Return the shares by the names of their corpora, each group of mixes of as many corpora by itself."""
    frame, taken = raw.frame, raw.taken
    if not {"eval", "loss"} <= set(taken):
        return None
    evals, losses = np.array([str(name) for name in frame[taken["eval"]]]), to_numbers(frame[taken["loss"]])[0]
    # Sizes and lengths move the loss by more than mixes do: only rows alike in them are compared.
    scales = [taken[name] for name in ("n_params", "tokens", "step") if name in taken]
    counts = np.array([len(one) for one in shares])
    result: dict[str, np.ndarray] = {}
    for k in np.unique(counts)[::-1]:
        rows = counts == k
        table = np.array([one for one in shares if len(one) == k])
        order = _order(frame.loc[rows, scales], evals[rows], losses[rows], table)
        if order is None:
            return None
        for place, corpus in enumerate(order):
            column = result.setdefault(str(canonical_name(MIX + corpus)), np.full(len(frame), np.nan))
            column[rows] = table[:, place]
    return result


def _order(scales: pd.DataFrame, evals: np.ndarray, losses: np.ndarray, table: np.ndarray) -> list[str] | None:
    """Return the name of each share's corpus, or ``None`` where the losses do not tell."""
    names = list(dict.fromkeys(evals))
    if len(names) != table.shape[1]:
        return None
    keys = [scales[name].to_numpy() for name in scales.columns]
    slopes = np.zeros((len(names), table.shape[1]))
    for i, name in enumerate(names):
        own = evals == name
        groups = [key[own] for key in keys] or [np.zeros(own.sum())]
        alike = pd.DataFrame(table[own]).assign(loss=np.log(losses[own])).groupby(groups)
        within = alike.transform(lambda values: values - values.mean())
        spread = within.std().to_numpy() + 1e-12
        moved = within.drop(columns="loss").mul(within["loss"], axis=0).mean().to_numpy()
        slopes[i] = moved / spread[:-1] / spread[-1]
    from scipy.optimize import linear_sum_assignment  # few tables need it, and it takes long to load

    # All shares at once: a loss may fall with two of them, as that of books does with web text.
    of_eval, places = linear_sum_assignment(slopes)
    if slopes[of_eval, places].max() >= 0:
        return None
    by_place = dict(zip(places.tolist(), of_eval.tolist(), strict=True))
    return [names[by_place[place]] for place in range(len(names))]


def named_runs(raw: RawTable) -> RawTable:
    """Return a table with a column ``run`` where it has none: one that is called a name, and whose rows are points.

    Raises
    ------
    NotUnderstoodError
        If several such columns part the rows in different ways.
    """
    if "run" in raw.taken or raw.frame.empty:
        return raw
    texts = [name for name in texts_of(raw.frame[raw.free]) if words_of(name) & NAMES_OF_RUNS]
    found: dict[bytes, str] = {}
    for name in texts:
        if all(isinstance(text, str) for text in raw.frame[name]) and _may_name_runs(raw, name):
            found.setdefault(pd.factorize(raw.frame[name])[0].tobytes(), name)
    if len(found) > 1:
        names = sorted(found.values(), key=lambda name: raw.frame[name].nunique())
        alias_error("run", names, raw.label)
    return raw.named({"run": (name := next(iter(found.values())))}, f"runs are named by {name!r}") if found else raw


def _may_name_runs(raw: RawTable, name: str) -> bool:
    """Whether each row is another run, or the settings of a run are alike and each row of it another point."""
    taken, run = raw.taken, raw.frame[name]
    point = [taken[one] for one in ("eval", "step", "tokens") if one in taken]
    settings = [taken[one] for one in SETTINGS if one in taken and one != "lr_peak"]
    if run.is_unique or not {"step", "tokens"} & set(taken) or not settings:
        return run.is_unique
    stated = raw.frame[[name, *point, *settings]].apply(hashable)
    alike = bool((stated.groupby(name)[settings].nunique() == 1).all(axis=None))
    return alike and not stated.duplicated([name, *point]).any()


def runs_of_seeds(raw: RawTable) -> RawTable:
    """Return a table whose reruns have names of their own, of one that tells them apart by a column of seeds alone."""
    taken, frame = raw.taken, raw.frame
    point = [taken[one] for one in ("run", "eval", "step", "tokens") if one in taken]
    seeds = [name for name in frame.columns if words_of(str(name)) & SEEDS and str(name) not in point]
    if "run" not in taken or not seeds or not frame[point].apply(hashable).duplicated().any():
        return raw
    for seed in seeds:
        if not frame[[*point, seed]].apply(hashable).duplicated().any():
            names = [f"{run} ({seed} {value})" for run, value in zip(frame[taken["run"]], frame[seed], strict=True)]
            note = f"runs that {seed!r} tells apart have it in their names"
            return replace(
                raw.reshaped(frame.assign(**{taken["run"]: names}), note), accounted_for=raw.accounted_for | {str(seed)}
            )
    return raw


def runs_of_steps(raw: RawTable) -> RawTable:
    """Return a table of checkpoints with a column ``run`` where it has none: rows that differ in their steps alone.

    Without it every checkpoint would count as a run, and runs are what doubt is counted in.
    """
    taken, frame = raw.taken, raw.frame
    if "run" in taken or "step" not in taken or "eval" not in taken:
        return raw
    texts = texts_of(frame[raw.free])
    shares = () if texts else mix_columns(taken)  # a text beside them names the mix, or joins its shares
    settings = [*texts, *(taken[name] for name in (*SETTINGS, *TEXTS, *shares) if name in taken)]
    stated = frame[list(dict.fromkeys([*settings, taken["eval"], taken["step"]]))].apply(hashable)
    if not settings or stated.duplicated().any() or not stated.duplicated([*settings, taken["eval"]]).any():
        return raw
    varied = [name for name in settings if stated[name].nunique() > 1] or settings[:1]
    names = [escape_hidden(" ".join(str(part) for part in row)) for row in stated[varied].itertuples(index=False)]
    listed = ", ".join(map(repr, varied))
    note = f"no column 'run': rows alike in {listed} are one run"
    # Names that are made of columns tell nothing that these do not.
    return replace(raw.reshaped(frame.assign(run=names), note), accounted_for=raw.accounted_for | {"run"})
