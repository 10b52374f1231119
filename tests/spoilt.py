"""Tables that a user broke: each mistake must be refused, named by a finding, or leave the answer as it was.

    python tests/spoilt.py --n 1000 --seed 0        # ends with 1 if any mistake went unnoticed
    python tests/spoilt.py --seed 0 --only 123      # one table again
    python tests/spoilt.py --n 1000 --parts         # mistakes in one size, some runs, after a restart
    python tests/spoilt.py --n 1000 --quick         # answers nothing: what could leave it as it was is unnoticed

Every table is made from the seed and its number alone: a part of an example table, as a user's own may look (two sizes
or more, some budgets, shares of replay and points along the runs), and one mistake of `MISTAKES`, all in turn. The
table before the mistake must be free of errors; what is found there already does not count as named.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.runs.data_errors import data_errors

TABLES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
RUNS = (8, 40)
MODEL = ("n_params", "ptpp", "base", "seed", "lr_pretrain")
CLOSE = 0.01  # of a loss, and of the share of forgetting and replay, within which an answer is the same

Frame = pd.DataFrame
Rng = np.random.Generator
Mistake = Callable[[Frame, Rng], Frame | None]
Part = Callable[[Frame, Rng], Any]


@cache
def _table(name: str) -> Frame:
    frame = cl.examples.load(name).frame
    texts = [column for column in frame if isinstance(frame[column].dtype, pd.CategoricalDtype)]
    return frame.astype(dict.fromkeys(texts, object)).reset_index(drop=True)


def drawn(draw: random.Random) -> Frame:
    """Return a table as a user may have it: a part of an example."""
    frame = _table(draw.choice(TABLES))
    is_base = frame["tokens"] == 0
    frame = frame[is_base | (frame["lr_schedule"] == "constant")]
    for name, least in (("n_params", 2), ("ptpp", 1), ("replay", 2)):
        levels = sorted(frame[name].dropna().unique())
        kept = draw.sample(levels, draw.randint(min(least, len(levels)), len(levels)))
        frame = frame[frame[name].isin(kept) | frame[name].isna()]
    adapted = frame[frame["tokens"] > 0]
    names = sorted(adapted["run"].unique())
    chosen = draw.sample(names, min(draw.randint(*RUNS), len(names)))
    adapted = adapted[adapted["run"].isin(chosen)]
    if draw.random() < 0.5:  # the last point of each run alone
        adapted = adapted[adapted["tokens"] == adapted.groupby("run")["tokens"].transform("max")]
    else:
        adapted = adapted[adapted["tokens"] >= adapted["n_params"]]
    base = frame[frame["tokens"] == 0]
    models = adapted[["n_params", "ptpp"]].drop_duplicates()
    base = base.merge(models, on=["n_params", "ptpp"])
    return pd.concat([base, adapted], ignore_index=True).drop(columns="base", errors="ignore")


# -- mistakes: each returns the table with the mistake, or nothing where the table has no place for it ----------------


def source_is_that_of_the_base(frame: Frame, rng: Rng) -> Frame | None:
    """Evaluate the base model for every row of the source."""
    keys = [name for name in MODEL if name in frame]
    base = frame[(frame["tokens"] == 0) & (frame["eval"] == "source")].groupby(keys)["loss"].mean()
    at = frame["eval"].eq("source") & (frame["tokens"] > 0)
    losses = frame.loc[at, keys].join(base, on=keys)["loss"]
    return None if losses.isna().any() else frame.assign(loss=frame["loss"].where(~at, losses))


def every_loss_is_equal(frame: Frame, rng: Rng) -> Frame:
    """Fill one loss down the column."""
    return frame.assign(loss=float(frame["loss"].median()))


def source_is_a_copy_of_target(frame: Frame, rng: Rng) -> Frame:
    """Read both losses from one column."""
    target = frame[frame["eval"] == "target"].set_index(["run", "tokens"])["loss"]
    both = frame.set_index(["run", "tokens"]).index
    return frame.assign(loss=target.reindex(both).to_numpy()).dropna(subset="loss")


def losses_are_random(frame: Frame, rng: Rng) -> Frame:
    """Join losses to the wrong rows."""
    if rng.random() < 0.5:
        return frame.assign(loss=rng.uniform(1.5, 4.5, len(frame)))
    return frame.assign(loss=rng.permutation(frame["loss"].to_numpy()))


def losses_rise_with_size(frame: Frame, rng: Rng) -> Frame | None:
    """Name the sizes in reverse order, or measure ever worse."""
    sizes = sorted(frame["n_params"].unique())
    if len(sizes) < 2:
        return None
    if rng.random() < 0.5:
        return frame.assign(n_params=frame["n_params"].map(dict(zip(sizes, sizes[::-1], strict=True))))
    return frame.assign(loss=frame["loss"] * (frame["n_params"] / sizes[0]) ** rng.uniform(0.5, 0.8))


def one_size_is_in_bits(frame: Frame, rng: Rng) -> Frame | None:
    """Give the losses of one size in bits."""
    if frame["n_params"].nunique() < 2:
        return None
    return frame.assign(loss=frame["loss"].where(frame["n_params"] != rng.choice(frame["n_params"].unique()), _bits))


def adapted_rows_are_in_bits(frame: Frame, rng: Rng) -> Frame | None:
    """Give the losses of adapted models in bits and those of base models in nats."""
    return frame.assign(loss=frame["loss"].where(frame["tokens"] == 0, _bits)) if _has_bases(frame) else None


def tokens_of_one_budget_are_thousands(frame: Frame, rng: Rng) -> Frame | None:
    """Give the tokens of one pre-training budget, or of the longest runs, in another unit."""
    names = [name for name in ("ptpp", "tokens") if frame.loc[frame["tokens"] > 0, name].nunique() > 1]
    if not names:
        return None
    name = rng.choice(names)
    levels = frame.loc[frame["tokens"] > 0, name].unique()
    at = frame[name].eq(rng.choice(levels)) & (frame["tokens"] > 0)
    return frame.assign(tokens=frame["tokens"].where(~at, frame["tokens"] * 1000))


def the_largest_size_is_worse(frame: Frame, rng: Rng) -> Frame | None:
    """Train the largest size badly."""
    if frame["n_params"].nunique() < 2:
        return None
    return frame.assign(loss=frame["loss"].where(frame["n_params"] < frame["n_params"].max(), frame["loss"] * 1.3))


def one_row_is_eleven(frame: Frame, rng: Rng) -> Frame:
    """Log the loss of a model that was not loaded."""
    place = rng.choice(np.flatnonzero(frame["tokens"] > 0))
    return frame.assign(loss=np.where(np.arange(len(frame)) == place, 11.0, frame["loss"]))


def ptpp_holds_tokens(frame: Frame, rng: Rng) -> Frame:
    """Give the tokens of pre-training as ptpp."""
    return frame.assign(ptpp=frame["ptpp"] * frame["n_params"])


def ptpp_is_constant(frame: Frame, rng: Rng) -> Frame | None:
    """Give all base models one budget."""
    base = frame[(frame["tokens"] == 0) & (frame["eval"] == "source")]
    several = base.groupby("n_params")["ptpp"].nunique().max() if len(base) else 0
    return frame.assign(ptpp=20.0) if several > 1 else None


def replay_is_its_complement(frame: Frame, rng: Rng) -> Frame | None:
    """Give the share of the new corpus as replay."""
    keys = ["eval", "n_params", "ptpp", "tokens", "lr_peak"]
    alike = frame[frame["tokens"] > 0].groupby(keys)["replay"].nunique()
    return frame.assign(replay=1.0 - frame["replay"]) if alike.max() > 1 else None


def digits_are_rounded_away(frame: Frame, rng: Rng) -> Frame:
    """Give losses with few digits."""
    return frame.assign(loss=frame["loss"].round(int(rng.integers(0, 3))))


MISTAKES: tuple[Mistake, ...] = (
    source_is_that_of_the_base,
    every_loss_is_equal,
    source_is_a_copy_of_target,
    losses_are_random,
    losses_rise_with_size,
    one_size_is_in_bits,
    adapted_rows_are_in_bits,
    tokens_of_one_budget_are_thousands,
    the_largest_size_is_worse,
    one_row_is_eleven,
    ptpp_holds_tokens,
    ptpp_is_constant,
    replay_is_its_complement,
    digits_are_rounded_away,
)


# -- mistakes in a part of the rows: of one size, of some runs, of each run after a restart ---------------------------


def a_size(frame: Frame, rng: Rng) -> Any:
    return frame["n_params"] == rng.choice(frame["n_params"].unique())


def half_of_the_runs(frame: Frame, rng: Rng) -> Any:
    """As of one of two machines."""
    names = frame.loc[frame["tokens"] > 0, "run"].unique()
    return frame["run"].isin(rng.choice(names, len(names) // 2, replace=False))


def after_a_restart(frame: Frame, rng: Rng) -> Any:
    last = frame.groupby("run")["tokens"].transform("max")
    return frame["tokens"] > rng.uniform(0.3, 0.7) * last


def all_of_it(frame: Frame, rng: Rng) -> Any:
    return pd.Series(True, frame.index)


def _bases(frame: Frame, keys: list[str]) -> Any:
    base = frame[(frame["tokens"] == 0) & (frame["eval"] == "source")].groupby(keys)["loss"].mean()
    return frame[keys].join(base, on=keys)["loss"] if len(base) else pd.Series(np.nan, frame.index)


def base_of_the_same_seed(frame: Frame, rng: Rng) -> Any:
    return _bases(frame, [name for name in MODEL if name in frame])


def base_as_a_mean_over_seeds(frame: Frame, rng: Rng) -> Any:
    return _bases(frame, [name for name in MODEL if name in frame and name != "seed"])


def base_rounded(frame: Frame, rng: Rng) -> Any:
    return base_as_a_mean_over_seeds(frame, rng).round(3)


def base_with_noise(frame: Frame, rng: Rng) -> Any:
    return base_as_a_mean_over_seeds(frame, rng) * (1.0 + 6e-4 * rng.normal(size=len(frame)))


def copy_of_target(frame: Frame, rng: Rng) -> Any:
    target = frame[frame["eval"] == "target"].set_index(["run", "tokens"])["loss"]
    both = pd.MultiIndex.from_frame(frame[["run", "tokens"]])
    return pd.Series(target.reindex(both).to_numpy(), frame.index)


PARTS = (a_size, half_of_the_runs, after_a_restart, all_of_it)
COPIES = (base_of_the_same_seed, base_as_a_mean_over_seeds, base_rounded, base_with_noise, copy_of_target)


def copied(part: Part, whose: Part) -> Mistake:
    """Return the mistake that the source losses of a part of the rows are copied from elsewhere."""

    def mistake(frame: Frame, rng: Rng) -> Frame | None:
        losses = whose(frame, rng)
        at = frame["eval"].eq("source") & (frame["tokens"] > 0) & part(frame, rng)
        several = len(frame.loc[at, ["run", "tokens"]].drop_duplicates()) > 2 and frame.loc[at, "run"].nunique() > 1
        return frame.assign(loss=frame["loss"].where(~at, losses)) if several and losses[at].notna().all() else None

    mistake.__name__ = f"{part.__name__}_{whose.__name__}"
    return mistake


# -- mistakes that leave each column as it may well be ----------------------------------------------------------------


def replay_is_nought(frame: Frame, rng: Rng) -> Frame | None:
    """Fill the column of replay with noughts."""
    keys = ["eval", "n_params", "ptpp", "tokens", "lr_peak", *(["seed"] if "seed" in frame else [])]
    alike = frame[frame["tokens"] > 0].groupby(keys)["replay"].nunique()
    return frame.assign(replay=frame["replay"].where(frame["replay"].isna(), 0.0)) if (alike > 1).sum() > 3 else None


def tokens_count_pre_training(frame: Frame, rng: Rng) -> Frame:
    """Go on counting tokens where pre-training ended."""
    seen = frame["ptpp"] * frame["n_params"]
    return frame.assign(tokens=frame["tokens"].where(frame["tokens"] == 0, frame["tokens"] + seen))


def target_rises_in_every_run(frame: Frame, rng: Rng) -> Frame | None:
    """Log the losses of each run from its end to its start."""
    at = frame["eval"].eq("target") & (frame["tokens"] > 0)
    rows = frame[at].sort_values("tokens")
    if rows.groupby("run").size().min() < 2:
        return None
    turned = rows.groupby("run")["loss"].transform(lambda losses: losses.to_numpy()[::-1])
    return frame.assign(loss=turned.reindex(frame.index).fillna(frame["loss"]))


def losses_of_the_next_checkpoint(frame: Frame, rng: Rng) -> Frame | None:
    """Join each loss to the row before its own."""
    rows = frame[frame["tokens"] > 0].sort_values("tokens")
    groups = rows.groupby(["run", "eval"])
    if groups.size().min() < 3:
        return None
    later = groups["loss"].shift(-1).fillna(rows["loss"])
    return frame.assign(loss=later.reindex(frame.index).fillna(frame["loss"]))


def one_run_diverged(frame: Frame, rng: Rng) -> Frame | None:
    """Keep a run that never came back."""
    names = frame.loc[frame["tokens"] > 0, "run"].unique()
    at = frame["run"].eq(rng.choice(names)) & (frame["tokens"] > 0)
    return frame.assign(loss=frame["loss"].where(~at, frame["loss"] * rng.uniform(1.4, 2.5)))


def half_of_the_runs_on_another_eval(frame: Frame, rng: Rng) -> Frame:
    """Measure the source of some runs on another text."""
    at = half_of_the_runs(frame, rng) & frame["eval"].eq("source") & (frame["tokens"] > 0)
    return frame.assign(loss=frame["loss"].where(~at, rng.uniform(1.15, 1.4) * frame["loss"] - 0.05))


IN_PARTS: tuple[Mistake, ...] = (
    *(copied(part, whose) for part in PARTS for whose in COPIES),
    replay_is_nought,
    tokens_count_pre_training,
    target_rises_in_every_run,
    losses_of_the_next_checkpoint,
    one_run_diverged,
    half_of_the_runs_on_another_eval,
)


@dataclass(frozen=True)
class Case:
    """One table and one mistake.

    Parameters
    ----------
    ended
        ``"refused"``, ``"error"``, ``"warning"``, ``"unchanged"``, or ``"unnoticed"``, which fails.
    codes
        Of the findings that the mistake added.
    clean_errors
        Codes of errors that were found before the mistake: false alarms, which fail too.
    """

    number: int
    mistake: str
    ended: str
    codes: tuple[str, ...] = ()
    clean_errors: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the mistake went unnoticed, or a sound table was not let through."""
        return self.ended == "unnoticed" or bool(self.clean_errors)


def cases(
    numbers: Iterable[int], seed: int, quick: bool = False, mistakes: Sequence[Mistake] = MISTAKES
) -> Iterator[Case]:
    """Yield how each case ended; quickly without the answers that a mistake may leave as they were."""
    for number in numbers:
        mistake = mistakes[number % len(mistakes)]
        draw, rng, spoilt = random.Random(f"{seed}-{number}"), np.random.default_rng([seed, number]), None
        while spoilt is None:  # until the table has a place for the mistake
            frame = drawn(draw)
            spoilt = mistake(frame, rng)
        yield _judged(number, mistake.__name__, frame, spoilt, quick)


def _judged(number: int, name: str, frame: Frame, spoilt: Frame, quick: bool) -> Case:
    before = data_errors(cl.read_runs(frame))
    wrong = tuple(one.code for one in before if one.severity == "error")
    try:
        after = data_errors(cl.read_runs(spoilt))
    except CptlawError:
        return Case(number, name, "refused", (), wrong)
    known = {(one.code, one.severity) for one in before}
    new = [one for one in after if (one.code, one.severity) not in known]
    if new:
        codes = tuple(dict.fromkeys(one.code for one in new))
        return Case(number, name, new[0].severity, codes, wrong)
    return Case(number, name, "unchanged" if not quick and _same_answer(frame, spoilt) else "unnoticed", (), wrong)


def _same_answer(frame: Frame, spoilt: Frame) -> bool:
    """Say whether an answer is the same before and after, within `CLOSE`."""
    adapted = frame[frame["tokens"] > 0]
    question: dict[str, Any] = {name: float(adapted[name].max()) for name in ("n_params", "ptpp", "tokens")}
    before, after = (cl.answer(rows, **question, max_forgetting="25%") for rows in (frame, spoilt))
    if not before.feasible or not after.feasible:
        return before.feasible == after.feasible and before.blocking == after.blocking
    assert before.target_loss is not None
    assert after.target_loss is not None
    apart = [after.target_loss / before.target_loss - 1.0, (after.replay or 0.0) - (before.replay or 0.0)]
    apart += [(after.forgetting or 0.0) - (before.forgetting or 0.0)]
    return bool(np.abs(apart).max() < CLOSE)


def _has_bases(frame: Frame) -> bool:
    return bool((frame["tokens"] == 0).any())


def _bits(losses: Any) -> Any:
    return losses / np.log(2.0)


def main() -> int:
    """Run the cases that the command line asks for; return 1 if any failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one table")
    parser.add_argument("--parts", action="store_true", help="mistakes in a part of the rows")
    parser.add_argument("--quick", action="store_true", help="answer nothing")
    given = parser.parse_args()
    begun, ended = time.process_time(), Counter[tuple[str, str]]()
    failed = alarms = 0
    numbers, mistakes = range(given.n) if given.only is None else [given.only], IN_PARTS if given.parts else MISTAKES
    for case in cases(numbers, given.seed, given.quick, mistakes):
        ended[case.mistake, case.ended] += 1
        failed, alarms = failed + (case.ended == "unnoticed"), alarms + bool(case.clean_errors)
        if case.fails or given.only is not None:
            print(case, flush=True)
    for (name, how), count in sorted(ended.items()):
        print(f"{name:36} {how:10} {count}")
    print(f"{failed} unnoticed, {alarms} false alarms, {time.process_time() - begun:.0f} s of CPU", file=sys.stderr)
    return bool(failed or alarms)


if __name__ == "__main__":
    sys.exit(main())
