"""What each law's own test in tests/laws says of it, collected for the tests that hold all laws alike.

A test module of a law may have `CASES`, the law once more as a plain formula with a plausible truth, and `VARIANTS`,
its options that are worth holding against the rules. Nothing else names a law.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from cptlaw.laws import LAWS, law

LAW_TESTS = Path(__file__).parent / "laws"
BUILT_IN = tuple(name for name, cls in LAWS.items() if cls.__module__.startswith("cptlaw"))  # tests define others


@dataclass(frozen=True)
class Case:
    """One law as its paper writes it; nothing in it uses the package.

    Parameters
    ----------
    spec
        The law with its options.
    formula
        The loss: a function of parameters by name and N, D (in the law's units), its own ratio r, P, and then whatever
        else the law reads, in its order.
    truth
        A plausible truth, chosen here, not published.
    golden
        Parameters, row and loss with its source, computed elsewhere, where there is one.
    flat
        Whether its valleys are so flat that noise-free losses come back and parameters need not.
    levels
        Levels of what else the law reads, by column; several columns that belong together have tuples of values.
    """

    spec: str
    formula: Callable
    truth: dict
    golden: tuple[dict, dict, float] | None = None
    flat: bool = False
    levels: dict = field(default_factory=dict)

    def __str__(self):
        return self.spec


def _of_tests(name):
    if str(LAW_TESTS) not in sys.path:
        sys.path.insert(0, str(LAW_TESTS))
    modules = [importlib.import_module(path.stem) for path in sorted(LAW_TESTS.glob("test_*.py"))]
    return [item for module in modules for item in getattr(module, name, ())]


def cases():
    """All laws that are known as plain formulas."""
    return _of_tests("CASES")


def of_spec(spec):
    """The law of this spec."""
    return next(one for one in cases() if one.spec == spec)


def specs():
    """All laws, and their variants."""
    return [*BUILT_IN, *_of_tests("VARIANTS")]


def own_inputs(chosen, frame):
    """What a plain formula reads of rows of targets: N, D, r, P, and the law's further inputs."""
    standard = ("n_params", "tokens", "replay", "ptpp")

    def column(name, otherwise):
        return frame.get(name, pd.Series(otherwise, index=frame.index)).to_numpy()

    replay = column("replay", 0.5)
    return (
        column("n_params", 1e9) / chosen.units["n_params"],
        column("tokens", 1e9) / chosen.units["tokens"],
        1 - replay if chosen.ratio_of == "own" else replay,
        column("ptpp", 1.0),
        *(frame[name].to_numpy() for name in chosen.inputs if name not in standard),
    )


def design(case, noise=0.0, seed=0, sizes=(0.3e9, 1e9, 4e9), budgets=(15.0, 40.0, 110.0, 279.0)):
    """Simulated target runs of one law, a case or its spec: every input that it has, several levels each."""
    case = of_spec(case) if isinstance(case, str) else case
    chosen = law(case.spec)
    levels = {"n_params": sizes, "tokens": np.geomspace(0.3e9, 60e9, 7)}
    if "replay" in chosen.inputs:
        levels["replay"] = (0.1, 0.3, 0.5, 0.7, 0.9)
    if "ptpp" in chosen.inputs:
        levels["ptpp"] = budgets
    levels |= case.levels
    grid = np.meshgrid(*(range(len(values)) for values in levels.values()), indexing="ij")
    columns = {}
    for (name, values), place in zip(levels.items(), grid, strict=True):
        picked = np.asarray(values, dtype=float)[place.ravel()]
        columns |= dict(zip(name, picked.T, strict=True)) if isinstance(name, tuple) else {name: picked}
    frame = pd.DataFrame(columns)
    levels = columns
    factors = [name for name in levels if name != "tokens"]
    frame.insert(0, "run", frame.groupby(factors).ngroup().map("run-{}".format))
    frame.insert(1, "eval", "target")
    frame["loss"] = chosen.predict(case.truth, frame)
    frame["loss"] *= np.exp(noise * np.random.default_rng(seed).standard_normal(len(frame)))
    return frame
