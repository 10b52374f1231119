"""pass@k at a number of attempts that was not measured, ``humaneval:pass@50``, from those that were.

If the questions of a benchmark differ in the chance p of one attempt as a Beta distribution, then

    pass@k = 1 - E (1 - p)^k = 1 - B(a, b + k) / B(a, b)

(Schaeffer et al. 2025, arXiv:2502.17578; Kazdan et al. 2025, arXiv:2510.05197), which falls short of one as k^-a. Each
model has its own mean and its own a here. That the models of a benchmark share where a lies, and that the result counts
as a measurement with the noise it has, are ours: what carries pass@50 from small to large models is then what carries
any score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cptlaw.errors import DataError
from cptlaw.runs import Runs
from cptlaw_scores.joint import tasks_at
from cptlaw_scores.laws.score_law import Array
from cptlaw_scores.rows import appended

NAME = re.compile(r"(.+):pass@([1-9]\d*)")
METRIC = re.compile(r"pass@(\d+)")
FARTHEST = 10.0  # times beyond the measured attempts
MEANS = np.linspace(-12.0, 8.0, 161)  # of the chance of one attempt, in logits
SHAPES = np.log(np.geomspace(0.02, 20.0, 61))  # of the distribution near zero
ALIKE = 0.5  # standard deviation of log a over the models of a benchmark
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class BetaAttempts:
    """The chance of one attempt as a Beta distribution over questions, on a grid of its mean and shape.

    Parameters
    ----------
    likelihood
        Log likelihood of each model's scores, (models, means, shapes).
    centre
        Mean of the log shape over the models, by which their scores are most likely.
    """

    likelihood: Array
    centre: float

    @classmethod
    def of(cls, attempts: Array, scores: Array, items: Array) -> BetaAttempts:
        """Return what scores tell.

        Parameters
        ----------
        attempts
            k of each column, (columns,).
        scores, items
            Scores and their questions, (models, columns); nan and 0 where nothing was measured.
        """
        total = np.zeros((len(scores), len(MEANS), len(SHAPES)))
        for k, y, n in zip(attempts, scores.T, items.T, strict=True):
            q = np.clip(pass_at(float(k)), LEAST, 1.0 - LEAST)
            known = np.where(np.isfinite(y), y, 0.0)[:, None, None]
            n = np.where(np.isfinite(y), n, 0.0)[:, None, None]
            total += n * (known * np.log(q) + (1.0 - known) * np.log1p(-q))
        # A benchmark whose hard questions are out of reach has a small a whatever the model: its centre is that under
        # which all models together are most likely.
        evidence = [
            np.logaddexp.reduce((total + _log_prior(at)).reshape(len(total), -1), axis=1).sum() for at in SHAPES
        ]
        return cls(total, float(SHAPES[int(np.argmax(evidence))]))

    def at(self, attempts: float) -> tuple[Array, Array]:
        """Return pass@k of each model and its standard deviation, (models,) each."""
        q = pass_at(attempts)
        log = self.likelihood + _log_prior(self.centre)
        weight = np.exp(log - log.max(axis=(1, 2), keepdims=True))
        weight /= weight.sum(axis=(1, 2), keepdims=True)
        mean = (weight * q).sum(axis=(1, 2))
        spread = (weight * (q - mean[:, None, None]) ** 2).sum(axis=(1, 2))
        return mean, np.sqrt(spread)


def pass_at(attempts: float) -> Array:
    """Return pass@k over the grid, (means, shapes)."""
    from scipy.special import betaln  # heavy: loaded where it is needed

    a = np.exp(SHAPES)[None, :]
    b = a * np.exp(-MEANS)[:, None]  # the mean is a / (a + b)
    return np.asarray(-np.expm1(betaln(a, b + attempts) - betaln(a, b)), dtype=float)


def _log_prior(centre: float) -> Array:
    """Return the log density of a normal prior on the grid of shapes, up to a constant, (shapes,)."""
    values: Array = -0.5 * ((SHAPES - centre) / ALIKE) ** 2
    return values


def with_attempts(table: Runs, names: Iterable[str]) -> Runs:
    """Return a table with rows of pass@k at the numbers of attempts that are named; other names change nothing.

    Parameters
    ----------
    table
        The runs.
    names
        Evals; those such as ``humaneval:pass@50`` that were not measured are computed from other numbers of attempts.

    Raises
    ------
    DataError
        If fewer than two numbers of attempts were measured, or the one asked for lies far from them.
    """
    for name in dict.fromkeys(names):
        match = NAME.fullmatch(str(name))
        if match is not None and name not in table.evals:
            measured = _measured(table, match[1])
            if measured:  # else the message about unknown evals says what there is
                table = _with_one(table, str(name), int(match[2]), measured)
    return table


def _measured(table: Runs, benchmark: str) -> dict[int, str]:
    """Return the evals that hold a benchmark's pass@k, by k."""
    result = {}
    for name, metric in table.scores.items():
        attempts = METRIC.fullmatch(metric)
        if attempts is not None and name.partition(":pass@")[0] == benchmark:
            result[int(attempts[1])] = name
    return dict(sorted(result.items()))


def _with_one(table: Runs, name: str, attempts: int, measured: Mapping[int, str]) -> Runs:
    listed = ", ".join(f"pass@{k}" for k in measured)
    if len(measured) < 2:
        raise DataError(
            f"{name!r}: {table.label} has {listed} alone, which does not say how further attempts help. Expected two "
            f"numbers of attempts or more, such as pass@1 and pass@10."
        )
    if not min(measured) / FARTHEST <= attempts <= FARTHEST * max(measured):
        raise DataError(
            f"{name!r}: {attempts} attempts are more than {FARTHEST:g} times beyond those of {table.label}: {listed}. "
            f"Measure a number of attempts nearer to it."
        )
    rows, *values, _ = tasks_at(table, measured.values(), measured.values())
    share, counted = (one.T for one in values)
    # One number of attempts of a model says nothing of the others.
    enough = np.isfinite(share).sum(axis=1) >= 2
    rows, share, counted = rows[enough], share[enough], counted[enough]
    ks = np.array(list(measured), dtype=float)
    value, deviation = BetaAttempts.of(ks, share, counted).at(float(attempts))
    # As many questions as have that noise, and never more than were asked.
    most = np.nanmax(counted, axis=1)
    as_items = np.clip(value * (1.0 - value) / np.maximum(deviation**2, LEAST**2), 1.0, most)
    added = rows.assign(eval=name, metric=f"pass@{attempts}", loss=value, n_items=np.round(as_items), chance=0.0)
    return appended(table, added)
