"""What is known of benchmarks: the chance of guessing by name, and the number of items that the values tell."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Score of guessing: one over the number of choices; 0 where the answer is written.
BY_CHANCE = {
    0.5: "boolq piqa winogrande winograd copa wic rte wsc qnli mrpc sst2",
    0.25: "hellaswag arc_easy arc_challenge arc mmlu openbookqa openbook_qa obqa race sciq gpqa logiqa logi_qa medmcqa "
    "cmmlu ceval m_mmlu",
    1 / 3: "social_iqa socialiqa siqa cb",
    0.2: "commonsense_qa commonsenseqa csqa math_qa mathqa aqua",
    0.1: "mmlu_pro",
    0.0: "gsm8k gsm math math500 math_500 minerva_math humaneval mbpp triviaqa nq_open naturalqs drop squad coqa "
    "lambada jeopardy ifeval aime bbh",
}
CHANCE = {name: chance for chance, names in BY_CHANCE.items() for name in names.split()}
WRITTEN = ("exact_match", "f1")
MOST_ITEMS = 20_000
LEAST_ITEMS = 8
ROUNDING = 3e-7  # of values kept in half the usual digits
DEFAULT_ITEMS = 1000.0


def chance_of(name: str, metric: str) -> float | None:
    """Return the chance of guessing on a benchmark by its name, None where it is not known.

    Examples
    --------
    >>> chance_of("hellaswag_10shot", "accuracy"), chance_of("gsm8k_cot", "exact_match"), chance_of("ours", "accuracy")
    (0.25, 0.0, None)
    """
    if metric in WRITTEN or metric.startswith("pass@"):
        return 0.0
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    known = [one for one in CHANCE if re.search(rf"(^|_){one}(_|$)", words)]
    return CHANCE[max(known, key=len)] if known else None


def items_of_values(values: Array) -> float | None:
    """Return the number of items of which all scores are whole shares, None where no number below 20,000 is.

    Scores are k / n; a few of them with enough digits leave one n. Means over subtasks have none.

    Parameters
    ----------
    values
        Scores from 0 to 1, (n,).

    Examples
    --------
    >>> items_of_values(np.array([0.022, 0.106, 0.17, 0.098])), items_of_values(np.array([0.5, 0.25]))
    (500.0, None)
    """
    distinct = np.unique(values[np.isfinite(values) & (values > 0) & (values < 1)])
    if len(distinct) < 3:
        return None
    counts = np.arange(LEAST_ITEMS, MOST_ITEMS, dtype=float)
    product = distinct[:, None] * counts
    whole = np.abs(product - np.round(product)) <= ROUNDING * counts + 1e-9
    fits = np.flatnonzero(whole.all(axis=0))
    if not len(fits):
        return None
    smallest = float(counts[fits[0]])
    # By accident a number fits with a probability of twice the tolerance for each value.
    tolerance = 2.0 * (ROUNDING * smallest + 1e-9)
    return smallest if tolerance ** len(distinct) * smallest < 1e-3 else None
