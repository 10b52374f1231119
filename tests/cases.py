"""What each law's own test in tests/laws says of it, collected for the tests that hold all laws alike.

A test module of a law may have `CASES`, the law once more as a plain formula with a plausible truth, and `VARIANTS`,
its options that are worth holding against the rules. Nothing else names a law.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cptlaw.laws import LAWS, law

LAW_TESTS = Path(__file__).parent / "laws"


@dataclass(frozen=True)
class Case:
    """One law as its paper writes it; nothing in it uses the package.

    Parameters
    ----------
    spec
        The law with its options.
    formula
        The loss: a function of parameters by name and N, D (in the law's units), its own ratio r, and P.
    truth
        A plausible truth, chosen here, not published.
    golden
        Parameters, row and loss with its source, computed elsewhere, where there is one.
    flat
        Whether its valleys are so flat that noise-free losses come back and parameters need not.
    """

    spec: str
    formula: Callable
    truth: dict
    golden: tuple[dict, dict, float] | None = None
    flat: bool = False

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
    return [*(name for name, cls in LAWS.items() if cls.__module__.startswith("cptlaw.")), *_of_tests("VARIANTS")]


def own_inputs(chosen, frame):
    """What a plain formula reads of rows of targets: N, D, r, P."""
    replay = frame.get("replay", pd.Series(0.5, index=frame.index)).to_numpy()
    return (
        frame["n_params"].to_numpy() / chosen.units["n_params"],
        frame["tokens"].to_numpy() / chosen.units["tokens"],
        1 - replay if chosen.ratio_of == "own" else replay,
        frame.get("ptpp", pd.Series(1.0, index=frame.index)).to_numpy(),
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
    grid = np.meshgrid(*levels.values(), indexing="ij")
    frame = pd.DataFrame({name: values.ravel() for name, values in zip(levels, grid, strict=True)})
    factors = [name for name in levels if name != "tokens"]
    frame.insert(0, "run", frame.groupby(factors).ngroup().map("run-{}".format))
    frame.insert(1, "eval", "target")
    frame["loss"] = chosen.predict(case.truth, frame)
    frame["loss"] *= np.exp(noise * np.random.default_rng(seed).standard_normal(len(frame)))
    return frame
