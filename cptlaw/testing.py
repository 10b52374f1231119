"""The conformance suite that every law must pass, ours or a contributor's.

>>> from cptlaw.laws import law
>>> check_law(law("ptpp-floor"))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.laws import Amplitude, Context, Law, law
from cptlaw.laws.base import LETTERS
from cptlaw.laws.calculus import Array, Letters
from cptlaw.runs.schema import mix_columns
from cptlaw.schedules import Phase, Schedule

ROWS = 40
DRAWS = 25
CPT_STEPS = 400
RANGES = {"n_params": (1e8, 1e10), "tokens": (2e8, 1e11), "replay": (0.05, 0.95), "ptpp": (10.0, 500.0)}
RANGES |= dict.fromkeys(("lr_peak", "lr_pretrain"), (1e-4, 3e-3))
RANGES |= {"unique_tokens": (1e8, 1e11)} | dict.fromkeys(("bits_weights", "bits_activations", "bits_kv"), (3.0, 16.0))
RANGES |= {"bits_post": (2.0, 12.0), "from_loss": (2.0, 4.0)}
RANGES |= {"s1": (0.5, 20.0), "s1_pretrain": (0.5, 20.0), "s1_cpt": (0.01, 10.0)}
RANGES |= dict.fromkeys(("s2", "s2_pretrain", "s2_cpt"), (1e-4, 0.02))


class NonConformingLawError(AssertionError):
    """A law breaks a rule or a claim of its own."""


def check_law(candidate: Law, seed: int = 0) -> None:
    """Hold a law against the rules and against its own claims, on random rows and parameters.

    Parameters
    ----------
    candidate
        The law.
    seed
        Seed of rows and parameters.

    Raises
    ------
    NonConformingLawError
        Naming every rule that is broken: description, ranges, finite positive losses, exact derivatives, batching,
        declared monotonicity, limits and divergences, and that its name builds it again.
    """
    rng = np.random.default_rng(seed)
    frame = random_rows(candidate, rng)
    broken = []
    for rule in RULES:
        try:
            rule(candidate, frame, rng)
        except NonConformingLawError as error:
            broken.append(f"- {(rule.__doc__ or rule.__name__).splitlines()[0]} {error}")
    if broken:
        raise NonConformingLawError(f"law {candidate.spec} does not conform:\n" + "\n".join(broken))


def random_rows(candidate: Law, rng: np.random.Generator, count: int = ROWS) -> pd.DataFrame:
    """Return rows with the law's inputs over wide ranges, as targets."""
    frame = pd.DataFrame({"run": [f"run-{i}" for i in range(count)], "eval": "target"})
    for name in candidate.inputs:
        low, high = RANGES.get(name, RANGES["unique_tokens"] if name.startswith("unique_") else (0.5, 2.0))
        frame[name] = np.exp(rng.uniform(np.log(low), np.log(high), count))
    if shares := [*mix_columns(candidate.inputs)]:
        frame[shares] = rng.dirichlet(np.ones(len(shares)), count)
    if candidate.objects:
        schedules = {run: _random_schedule(rng) for run in frame["run"]}
        steps = rng.integers(1, CPT_STEPS, count, endpoint=True)
        attached = candidate.inputs_of(frame[["run"]].assign(step=steps), Context(schedules=schedules))
        frame = frame.assign(**{name: attached[name] for name in candidate.objects})
    return frame


def _random_schedule(rng: np.random.Generator) -> Schedule:
    peak, again = np.exp(rng.uniform(np.log(1e-4), np.log(1e-3), 2))
    before = Phase("pretrain", 800, "wsd", peak=float(peak), warmup=50, decay=200)
    return Schedule([before, Phase("cpt", CPT_STEPS, "cosine", peak=float(again), warmup=40)])


def random_params(candidate: Law, rng: np.random.Generator) -> dict[str, float]:
    """Return plausible published parameters: shapes from their start ranges, amplitudes from 0.05 to 2."""
    params = {}
    for name in candidate.amplitudes:
        low, high = (name if isinstance(name, Amplitude) else Amplitude(name)).plausible
        params[name] = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    for name, shape in candidate.shapes.items():
        low, high = (float(shape.to_axis(end)) for end in shape.start_range)
        params[name] = float(shape.from_axis(rng.uniform(low, high)))
    return {name: float(value) for name, value in candidate.published(params).items()}


def _expect(condition: ArrayLike, message: str) -> None:
    if not np.all(condition):
        raise NonConformingLawError(message)


def _described(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Say what it is."""
    for attribute in ("name", "equation", "source", "status", "inputs", "units", "amplitudes", "shapes"):
        _expect(hasattr(type(candidate), attribute) or hasattr(candidate, attribute), f"{attribute} is missing.")
    _expect(bool(candidate.__doc__), "the class has no docstring.")
    _expect(len(set(candidate.parameters)) == len(candidate.parameters), "a parameter name occurs twice.")
    _expect({"n_params", "tokens"} <= set(candidate.units), "units must give n_params and tokens.")
    if "replay" in candidate.inputs:
        _expect(candidate.ratio_of in ("source", "own", "target"), "ratio_of must say whose share the ratio is.")
    for name in (*candidate.vanishing, *candidate.diverges_at_zero):
        _expect(name in candidate.inputs, f"{name} is claimed about but is no input.")


def _ranges(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Its shape ranges are usable."""
    for name, shape in candidate.shapes.items():
        low, high = shape.start_range
        _expect(shape.low < shape.high, f"{name}: low must be below high.")
        _expect(shape.low <= low <= high <= shape.high, f"{name}: starts lie outside the bounds.")
        _expect(shape.scale == "linear" or shape.low > 0, f"{name}: a log scale needs a positive lower bound.")


def _finite(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Its losses are finite and positive inside the ranges, r = 0 and r = 1 included."""
    edge = frame.copy()
    if "replay" in candidate.inputs:
        edge.loc[edge.index[:2], "replay"] = [0.0, 1.0]
    for _ in range(DRAWS):
        loss = candidate.predict(random_params(candidate, rng), edge)
        _expect(loss.shape == (len(edge),), f"predict returned shape {loss.shape} for {len(edge)} rows.")
        _expect(np.isfinite(loss) & (loss > 0), "a loss is not finite and positive.")


def _batched(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Many parameter vectors at once give what they give one by one."""
    draws = [random_params(candidate, rng) for _ in range(3)]
    matrix = np.array([[params[name] for name in candidate.parameters] for params in draws])
    together = candidate.predict_many(matrix, frame)
    for row, params in zip(together, draws, strict=True):
        _expect(np.allclose(row, candidate.predict(params, frame), rtol=1e-12), "predict_many differs from predict.")


def _derivatives(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Its first and second derivatives by parameter agree with central differences."""
    problem = Problem(candidate, candidate.bind(frame), np.ones(len(frame)), Restraint())
    z = problem.starts(2, rng)
    amplitude = np.exp(rng.uniform(-2, 0.5, problem.k))

    def loss(at: Array) -> tuple[Array, Array, Array]:
        value, slopes = np.zeros((2, len(frame))), np.zeros((2, problem.size, len(frame)))
        curves = np.zeros((2, problem.size, problem.size, len(frame)))
        for weight, column in zip((*amplitude, 1.0), problem.columns(at, order=2), strict=True):
            value += weight * column.value
            slopes[:, column.slopes] += weight * column.moves
            for place, (i, j) in enumerate(column.slopes[column.curves], start=1 + len(column.slopes)):
                for one, other in {(i, j), (j, i)}:
                    curves[:, one, other] += weight * column.parts[:, place]
        return value, slopes[:, problem.k :], curves[:, problem.k :, problem.k :]

    (value, slopes, curves), step = loss(z), 1e-5
    size = np.max(np.abs(value))
    for m in range(problem.m):
        move = np.zeros(problem.m)
        move[m] = step
        rate, bend = ((up - down) / (2 * step) for up, down in zip(loss(z + move)[:2], loss(z - move)[:2], strict=True))
        name = problem.shape_groups[m][0]
        wrong = np.abs(rate - slopes[:, m]) - 1e-6 * np.abs(slopes[:, m])
        _expect(wrong <= 1e-6 * size, f"dL/d{name} is wrong.")
        wrong = np.abs(bend - curves[:, m]) - 1e-5 * np.abs(curves[:, m])
        _expect(wrong <= 1e-5 * size, f"a second derivative by {name} is wrong.")


def _monotone(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Its loss never rises with the inputs that it claims, nor with the ratio's share where it claims that."""
    for claim in candidate.decreasing:
        name = "replay" if claim == "share" else claim
        for _ in range(DRAWS):
            params = random_params(candidate, rng)
            low, high = RANGES.get(name, (0.5, 2.0))
            ladder, at = np.geomspace(low, high, 12), np.arange(0, len(frame), 8)
            rows = frame.iloc[np.repeat(at, len(ladder))].assign(**{name: np.tile(ladder, len(at))})
            shares = candidate.bind(rows).r.value if claim == "share" else rows[name].to_numpy()
            order = np.argsort(np.reshape(shares, (len(at), -1)), axis=1)
            loss = np.take_along_axis(candidate.predict(params, rows).reshape(order.shape), order, axis=1)
            _expect(np.diff(loss) <= 1e-12 * loss[:, :-1], f"the loss rises with {claim} at {params}.")


def _limits(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Terms that it says vanish do vanish."""
    for name, gone in candidate.vanishing.items():
        for _ in range(DRAWS):
            params = random_params(candidate, rng)
            x = candidate.bind(frame.assign(**{name: 1e250}))
            shape = Letters(**{key: params[key] for key in candidate.shapes})
            plain = getattr(candidate, "plain_terms", candidate.terms)  # limits are of the published terms
            names = getattr(candidate, "plain_amplitudes", candidate.amplitudes)
            for amplitude, term in zip(names, plain(x, shape), strict=False):
                if amplitude in gone:
                    _expect(np.asarray(term) < 1e-2, f"the term of {amplitude} does not vanish with {name}.")


def _divergences(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Losses that it says diverge do diverge."""
    for name in candidate.diverges_at_zero:
        params = random_params(candidate, rng)
        loss = candidate.predict(params, frame.assign(**{name: 1e-250}))
        _expect(loss > 1e3, f"the loss does not diverge at {name} = 0.")


def _rebuilt(candidate: Law, frame: pd.DataFrame, rng: np.random.Generator) -> None:
    """Its letters are free and, if it is registered, its name with its options builds it again."""
    for name in candidate.inputs:
        _expect(hasattr(candidate.bind(frame), LETTERS.get(name, name)), f"bind does not give {name}.")
    from cptlaw.laws.base import LAWS

    if LAWS.get(candidate.name) is type(candidate):
        again = law(candidate.spec)
        params = random_params(candidate, rng)
        _expect(
            np.array_equal(again.predict(params, frame), candidate.predict(params, frame)),
            f"{candidate.spec} builds another law.",
        )


RULES: tuple[Callable[[Law, pd.DataFrame, np.random.Generator], None], ...] = (
    _described,
    _ranges,
    _finite,
    _batched,
    _derivatives,
    _monotone,
    _limits,
    _divergences,
    _rebuilt,
)
