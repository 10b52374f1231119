"""What laws of a mix of k corpora share: which corpora they read, and that a row's shares add up to one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError
from cptlaw.laws.base import Context, Law, Option, Role, Shape
from cptlaw.laws.calculus import Letters, Value
from cptlaw.laws.parameters import some_of
from cptlaw.runs.schema import MIX, corpus_of, mix_columns

TWO = ("source", "target")  # the corpora of a table that gives replay
OFF = 5e-3  # by which shares may miss one
SCALES = ("n_params", "tokens")

# What a mix can change of a loss is of the order of a nat, and a share counts for somewhat less than in proportion.
OF_LOSS = 0.4  # of the mean loss, which makes about a nat
WORTH = Shape(1e-4, 1e4, start=(0.3, 30.0), usual=(1.0, 1.5, "log"))  # of a corpus
BENT = Shape(0.02, 5.0, start=(0.1, 1.0), usual=(0.7, 0.5, "log"))  # exponent of a share


def corpora_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Read the option ``corpora``: names, or text that joins them with +."""
    parts = given.split("+") if isinstance(given, str) else tuple(given or ())
    names = tuple(str(corpus_of(MIX + part.strip()) or "") for part in parts if part.strip())
    if "" in names or len(set(names)) != len(names) or len(names) == 1:
        raise ValueError(given)
    return names


CORPORA = Option(
    (),
    "two or more names joined by +, such as code+math+web",
    "The corpora of the mix, each with its share in a column mix_NAME. A fit takes those that its table has; where "
    "there are none, they are source and target, and replay gives their shares.",
    corpora_of,
)
OWN = Option(
    "",
    "the name of a corpus",
    "The corpus that the eval measures. A fit takes the one that is called as the eval is.",
    str,
)


class OfCorpora(Law):
    """A law that reads the shares of k corpora: the base of the laws of mixes. It has no name of its own."""

    choices = {"corpora": CORPORA}
    corpora: tuple[str, ...]

    def configure(self) -> None:
        """Read the shares of the corpora."""
        self.inputs = (*(name for name in self.inputs if not corpus_of(name)), *self.shares)

    @property
    def names(self) -> tuple[str, ...]:
        """The corpora."""
        return self.corpora or TWO

    @property
    def shares(self) -> tuple[str, ...]:
        """The columns of their shares."""
        return tuple(MIX + name for name in self.names)

    def per_corpus(self, prefix: str) -> tuple[str, ...]:
        """Return the names of a parameter that each corpus has, such as ``C_code``."""
        return tuple(f"{prefix}_{name}" for name in self.names)

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law of the corpora that these rows have."""
        result = tuple(str(corpus_of(name)) for name in mix_columns(frame.columns) if frame[name].notna().any())
        return self if self.corpora or not result else self.with_options(corpora=result)

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Give source and target their shares where the rows have replay, and no column of a mix."""
        if self.names != TWO or mix_columns(frame.columns) or "replay" not in frame.columns:
            return frame
        replay = frame["replay"].to_numpy(dtype=float)
        # Two corpora are the case k = 2, so that a table of replay can be given to any law of mixes.
        return frame.assign(mix_source=replay, mix_target=1.0 - replay)

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs; the shares of a row add up to one."""
        frame = self.inputs_of(frame, Context())
        x = super().bind(frame, role)
        total = frame[[*self.shares]].to_numpy(dtype=float).sum(axis=1)
        off = np.flatnonzero(np.abs(total - 1.0) > OFF)
        if len(off):
            raise DataError(
                f"law {self.name} needs the shares of {', '.join(self.names)} to add up to 1; in row "
                f"{frame.index[off[0]]} they add up to {total[off[0]]:.6g}. Give the share of every corpus."
            )
        return x

    def shares_of(self, x: Letters) -> list[Value]:
        """Return the shares, one input column per corpus."""
        return [getattr(x, name) for name in self.shares]


class OfScale(OfCorpora):
    """A law of a mix that also reads size and tokens, each where the rows have more than one level of it."""

    units = {"n_params": 1e9, "tokens": 1e9}
    choices = OfCorpora.choices | {
        "without": Option(
            (),
            "n_params, tokens, or both joined by +",
            "What is not read. A fit leaves out what its rows have in one level alone.",
            some_of(SCALES),
        )
    }
    without: tuple[str, ...]

    def configure(self) -> None:
        """Leave out what is not read."""
        super().configure()
        self.inputs = tuple(name for name in self.inputs if name not in self.without)
        for scale, amplitude, exponent in (("n_params", "A", "alpha"), ("tokens", "B", "beta")):
            if scale in self.without:
                self.amplitudes = tuple(name for name in self.amplitudes if name != amplitude)
                self.shapes = {name: shape for name, shape in self.shapes.items() if name != exponent}
        for name in ("decreasing", "diverges_at_zero"):
            setattr(self, name, tuple(one for one in getattr(self, name) if one not in self.without))
        self.vanishing = {name: gone for name, gone in self.vanishing.items() if name not in self.without}

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Self:
        """Return the law of the corpora that these rows have, without what they have in one level alone."""
        adapted = frame[frame["tokens"] != 0] if "tokens" in frame.columns else frame
        # A scale in one level is part of the constant; base models, at zero tokens, are no level of CPT.
        one = [name for name in SCALES if name not in adapted.columns or adapted[name].nunique() < 2]
        chosen = super().for_rows(frame, damage)
        return chosen.with_options(without=tuple(sorted({*chosen.without, *one})))


def own_corpus(law: OfCorpora, frame: pd.DataFrame) -> str:
    """Return the corpus that the eval of these rows measures: the one that is called as it is.

    Raises
    ------
    UsageError
        If there is none.
    """
    names = {name.lower(): name for name in law.names}
    asked = str(frame["eval"].iloc[0]) if "eval" in frame.columns and len(frame) else "target"
    result = names.get(str(corpus_of(MIX + asked) or "").lower())
    if result is None:
        raise UsageError(
            f"law {law.name} needs the share of the eval's own corpus, and no corpus is called {asked!r} as the eval "
            f"is; there are {', '.join(law.names)}. Say which it is: {law.name}:own=NAME."
        )
    return result
