"""Settings that only the names of runs tell, as in ``cpt-410M-r10-4B``: columns that can be asked for by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from cptlaw.runs.convert import hashable
from cptlaw.runs.raw_table import RawTable
from cptlaw.runs.reshape import named_runs

IN_RUN = " in run"  # ends the name of such a column
MIX_IN_RUN = "mix ratio" + IN_RUN  # the first of two parts of a hundred
MOST_RUNS = 2000
LEAST_ALIKE = 0.8  # share of the runs that are named in one way
PART = re.compile(
    r"(?P<word>[A-Za-z]*)(?P<sign>[-_=]?)(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)(?P<unit>[KMBkmb]?)"
    r"(?=(?:(?P<counts>tok|step|it)[a-z]*)?(?![A-Za-z\d]|\.\d))"
)
_COUNTS_RUNS = frozenset("run exp id v job trial row try version seed s".split())


def parts_of_names(names: Iterable[object]) -> dict[str, dict[str, str]]:
    """Return the numbers in names of runs that differ between them: column -> name of a run -> its value.

    Examples
    --------
    >>> parts_of_names(["cpt-r0-1B", "cpt-r10-1B", "cpt-r10-2B", "cpt-r0-2B"])["r in run"]
    {'cpt-r0-1B': '0', 'cpt-r10-1B': '10', 'cpt-r10-2B': '10', 'cpt-r0-2B': '0'}
    """
    texts = list(dict.fromkeys(map(str, names)))[: MOST_RUNS + 1]
    form = {text: PART.sub(lambda match: f"{match['word']}{match['sign']}#", text) for text in texts}
    usual, count = Counter(form.values()).most_common(1)[0] if texts else ("", 0)
    if len(texts) > MOST_RUNS or count < max(3, LEAST_ALIKE * len(texts)):
        return {}
    alike = [text for text in texts if form[text] == usual]
    result: dict[str, dict[str, str]] = {}
    parts = list(zip(*(PART.finditer(text) for text in alike), strict=True))
    mixes = {place for place in range(1, len(parts)) if _adds_up(*parts[place - 1 : place + 1])}
    for place, matches in enumerate(parts, 1):
        values = {text: match["number"] + match["unit"] for text, match in zip(alike, matches, strict=True)}
        word, levels = matches[0]["word"].lower(), len({*values.values()})
        counts_runs = word in _COUNTS_RUNS or (levels == len(alike) and not matches[0]["unit"])
        if levels < 2 or place - 1 in mixes or (counts_runs and place not in mixes):
            continue
        label = MIX_IN_RUN if place in mixes else f"{matches[0]['word'] or f'part {place}'}{IN_RUN}"
        result[label if label not in result else f"part {place}{IN_RUN}"] = values
    return result


def _adds_up(first: Iterable[re.Match[str]], second: Iterable[re.Match[str]]) -> bool:
    """Whether two numbers of each name are the parts of a mix, as in ``run-90-10``."""
    return all(float(one["number"]) + float(other["number"]) == 100 for one, other in zip(first, second, strict=True))


def with_parts(frame: pd.DataFrame, run: str, names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a table with columns for the parts of the names of its runs: those that are named, else all."""
    texts = hashable(frame[run].astype(object)).map(str)
    parts = parts_of_names(texts.unique())
    chosen = parts if names is None else [name for name in parts if name in names]
    return frame.assign(**{name: texts.map(parts[name]) for name in chosen}) if chosen else frame


def named_parts(raw: RawTable, columns: Mapping[str, object] | None) -> RawTable:
    """Return a table with the parts of names of runs that `--columns` speaks of."""
    said = " ".join(map(str, (columns or {}).values()))
    if IN_RUN not in said:
        return raw
    run = (columns or {}).get("run") or named_runs(replace(raw, columns=None)).taken.get("run")
    if run not in raw.frame.columns:
        return raw
    parts = [name for name in parts_of_names(raw.frame[run]) if name in said]
    return raw.reshaped(with_parts(raw.frame, str(run), parts))
