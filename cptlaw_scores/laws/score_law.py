"""What a law of a benchmark score is: a share Q of the way from guessing to one, as a function of what it reads.

    score = chance' + (1 - chance') Q,   0 <= Q <= 1

chance' is the score that guessing reaches on this benchmark: the known chance, up to a factor near one. A law states Q
in complex numbers as well as in real ones, so that its exact derivatives follow from the same line (complex step).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws.base import LAWS
from cptlaw.laws.calculus import Letters, Value

Array = NDArray[np.float64]
Reads = Literal["size", "compute", "loss", "answers", "nothing"]

STEP = 1e-20  # of the complex step: no cancellation, so that it may be as small as it likes
LARGEST = 60.0  # of an exponent
LEAST = 1e-6  # of a score and of its distance to 1
OFFSET = "offset"  # log of chance' / chance: the worst and the luckiest guessers differ by a few tenths
LETTERS = {"n_params": "N", "tokens": "D", "flops": "C", "carrier": "L"}

# All laws of scores by name; a class with a name registers itself.
SCORE_LAWS: dict[str, type[ScoreLaw]] = {}


@dataclass(frozen=True)
class Axis:
    """One parameter of a law of scores, and what is known of it before any run.

    Parameters
    ----------
    mean, sd
        Of its value, or of its logarithm where it is positive.
    positive
        Whether its axis is its logarithm.
    pooled
        Whether the tasks of a table share it, each up to a deviation of its own.
    """

    mean: float
    sd: float
    positive: bool = True
    pooled: bool = True


class ScoreLaw:
    """Base of the laws of scores. A subclass is one equation, written in `share`.

    Attributes
    ----------
    name, equation, source, status
        As for `cptlaw.laws.base.Law`.
    reads
        What it is a law of: model and data size, compute, a loss, bits per byte of the task's own answers, or nothing.
    inputs
        Columns that `share` reads, under the letters N, D, C and L. Each is counted in a unit of its own, its
        geometric mean over the fitted rows, so that amplitudes are of the order of one.
    axes
        The parameters.
    """

    name: ClassVar[str]
    equation: ClassVar[str]
    source: ClassVar[str]
    status: ClassVar[str] = "published"
    reads: ClassVar[Reads]
    inputs: ClassVar[tuple[str, ...]]
    axes: ClassVar[Mapping[str, Axis]]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        if "name" in cls.__dict__:
            SCORE_LAWS[cls.name] = cls

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q: inputs (n,) or (s, n) under their letters, parameters (s, 1) by name."""
        raise NotImplementedError

    # -- what follows ----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        """The name, as ``--law`` takes it."""
        return self.name

    @property
    def all_axes(self) -> dict[str, Axis]:
        """The law's own parameters, and how far guessing lies from the known chance."""
        return {**self.axes, OFFSET: Axis(0.0, 0.1, positive=False, pooled=False)}

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameter names."""
        return tuple(self.all_axes)

    def natural(self, theta: Array) -> dict[str, Array]:
        """Return parameters by name, (s, 1) each, of coordinates (s, k)."""
        # Side by side in memory: NumPy before 2 may take another exponential for strided columns, call by call.
        across = np.ascontiguousarray(theta.T)[:, :, None]
        return {
            name: np.exp(across[i]) if axis.positive else across[i]
            for i, (name, axis) in enumerate(self.all_axes.items())
        }

    def score(self, theta: Any, x: Mapping[str, object], chance: Any) -> Any:
        """Return scores, (s, n).

        Parameters
        ----------
        theta
            Coordinates, (s, k).
        x
            Inputs by column in their units, (n,) or (s, n).
        chance
            Score of guessing, (s, 1).
        """
        named = self.natural(theta)
        floor = chance * np.exp(named.pop(OFFSET))
        letters = Letters(**{LETTERS[name]: x[name] for name in self.inputs})
        return floor + (1.0 - floor) * self.share(letters, Letters(**named))

    def score_and_slopes(self, theta: Array, x: Mapping[str, Any], chance: Value) -> tuple[Array, Array]:
        """Return scores, (s, n), kept off 0 and 1, and their derivatives by coordinate, (s, n, k)."""
        slopes = []
        value = None
        for i in range(theta.shape[1]):
            moved = theta.astype(complex)
            moved[:, i] += 1j * STEP
            result = self.score(moved, x, chance)
            slopes.append(result.imag / STEP)
            value = result.real if value is None else value
        assert value is not None
        shape = np.broadcast_shapes(value.shape, *(np.shape(one) for one in x.values()))
        kept: Array = np.clip(np.broadcast_to(value, shape), LEAST, 1.0 - LEAST)
        return kept, np.stack([np.broadcast_to(one, shape) for one in slopes], axis=-1)

    def params(self, theta: Array) -> dict[str, float]:
        """Return the parameters of one task by name, (k,)."""
        return {name: float(value[0, 0]) for name, value in self.natural(theta[None]).items()}

    def __repr__(self) -> str:
        return f"<law of scores {self.name}: {self.equation}>"


def exp(value: Value) -> Array:
    """Return the exponential, its argument kept within bounds."""
    given = np.asarray(value)
    large = np.abs(np.real(given)) > LARGEST
    result: Array = np.exp(np.where(large, np.sign(np.real(given)) * LARGEST, given))
    return result


def score_law(spec: str | ScoreLaw | type[ScoreLaw]) -> ScoreLaw:
    """Return a law of scores by name.

    Examples
    --------
    >>> score_law("score-compute").equation
    '-ln Q = A C^-alpha'
    """
    if isinstance(spec, ScoreLaw):
        return spec
    if isinstance(spec, type):
        return spec()
    if spec not in known_score_laws():
        raise UsageError(
            f"there is no law of scores {spec!r}.{did_you_mean(spec, SCORE_LAWS)} Known: {', '.join(SCORE_LAWS)}."
        )
    return SCORE_LAWS[spec]()


def known_score_laws() -> Sequence[str]:
    """Return the names of all laws of scores, the built-in ones loaded."""
    folder = Path(__file__).parent
    for module in pkgutil.iter_modules([str(folder)], "cptlaw_scores.laws."):
        importlib.import_module(module.name)
    len(LAWS)  # loads those of other packages
    return list(SCORE_LAWS)


def describe_score(law: ScoreLaw) -> dict[str, object]:
    """Return what a law of scores is, ready for JSON."""
    said = {name: getattr(law, name) for name in ("name", "equation", "source", "status", "reads")}
    return {**said, "parameters": list(law.parameters), "of": "scores"}


def score_card(law: ScoreLaw) -> str:
    """Return the documentation of a law of scores as text."""
    lines = (
        law.name,
        f"  {law.equation}",
        f"  source      {law.source} ({law.status})",
        "  score       chance' + (1 - chance') Q, Q from 0 (guessing) to 1",
        f"  reads       {law.reads}",
        f"  parameters  {', '.join(law.parameters)}",
    )
    return "\n".join(lines)
