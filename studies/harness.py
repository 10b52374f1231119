"""What the benchmarks share: data, clocks, the objective, optimisation with scipy as users write it, and tables."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

import cptlaw as cl
from studies.provenance import RESULTS, code_at_start, fingerprint, note, study_of

Array = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "studies"
MEASURED = HOME / "measured"  # tables that were trained for one question
SWEEPS = HOME / "recipes"
DATA_VARIABLE = "CPTLAW_BENCH_DATA"
RESULTS_VARIABLE = "CPTLAW_RESULTS"  # another folder for result files, to compare them with the committed ones
TIGHT = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 200_000}  # scipy's defaults stop too early


@dataclass
class Clock:
    """CPU and wall seconds, summed over every block that ran under it."""

    cpu: float = 0.0
    wall: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Add what the block costs."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.cpu += time.process_time() - cpu
            self.wall += time.perf_counter() - wall


@dataclass
class Beside:
    """The method under test, timed again and again between the blocks of another one.

    A ratio of two times means something on a shared machine only if both were taken at the same time.
    """

    work: Callable[[], Any]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def sample(self, repeats: int = 5) -> None:
        """Time the work some more."""
        for _ in range(repeats):
            clock = Clock()
            with clock.running():
                self.work()
            self.cpu.append(clock.cpu)
            self.wall.append(clock.wall)

    @property
    def median(self) -> Clock:
        """The median of all samples."""
        return Clock(statistics.median(self.cpu), statistics.median(self.wall))


def skip(reason: str) -> NoReturn:
    """Say in one line why a benchmark cannot run, and end without failing."""
    print(f"skipped: {reason}")
    sys.exit(0)


def progress(what: str) -> None:
    """Say on stderr what runs now, so that stdout holds nothing but the tables."""
    print(f"running: {what}", file=sys.stderr, flush=True)


def find_data(name: str, folder: str | None) -> Path | None:
    """Return a file of real measurements, which are not part of this repository, or ``None`` where it is absent."""
    chosen = Path(folder or os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data")
    return chosen / name if (chosen / name).is_file() else None


def data_file(name: str, folder: str | None) -> Path:
    """Return a file of real measurements, or skip the benchmark."""
    found = find_data(name, folder)
    if found is None:
        skip(f"{name} is not in the data folder; give the folder by --data or {DATA_VARIABLE}.")
    return found


def chinchilla_points(folder: str | None) -> pd.DataFrame:
    """Return the 240 points of Besiroglu et al. 2024 (arXiv:2404.10102): all but the five fewest tokens/parameter."""
    table = pd.read_csv(data_file("chinchilla_epoch.csv", folder)).rename(columns={"run_id": "run"})
    return table.iloc[(table["tokens"] / table["n_params"]).argsort().to_numpy()[5:]].reset_index(drop=True)


def huber_sum(residual: Array, delta: float, weights: Array | float = 1.0) -> float:
    """Return the sum of Huber(delta) of log residuals: the one objective by which every method is judged."""
    size = np.abs(residual)
    return float(np.sum(weights * np.where(size <= delta, 0.5 * residual**2, delta * (size - 0.5 * delta))))


@dataclass(frozen=True)
class PowerSum:
    """A law with positive terms in log-sum-exp form, as papers fit it: log L = logsumexp of the log terms.

    Parameters
    ----------
    log_terms
        Log terms (terms, n) and their derivatives: of a vector v, the pair ``(t, [(parameter, term, dt), ..])``.
    log_loss
        Observed log losses, (n,).
    delta
        Huber threshold.
    """

    log_terms: Callable[[Array], tuple[Array, list[tuple[int, int, Any]]]]
    log_loss: Array
    delta: float
    weights: Array | float = 1.0

    def value(self, v: Array) -> float:
        """Return the objective."""
        terms, _ = self.log_terms(v)
        largest = terms.max(axis=0)
        residual = largest + np.log(np.exp(terms - largest).sum(axis=0)) - self.log_loss
        return huber_sum(residual, self.delta, self.weights)

    def mean(self, v: Array) -> float:
        """Return the objective as a mean over points, as many scripts have it."""
        return self.value(v) / len(self.log_loss)

    def value_and_gradient(self, v: Array) -> tuple[float, Array]:
        """Return the objective and its exact gradient."""
        terms, slopes = self.log_terms(v)
        largest = terms.max(axis=0)
        share = np.exp(terms - largest)
        total = share.sum(axis=0)
        residual = largest + np.log(total) - self.log_loss
        pull = share * (np.clip(residual, -self.delta, self.delta) * self.weights / total)
        gradient = np.zeros(len(v))
        for parameter, term, slope in slopes:
            gradient[parameter] += float(np.sum(pull[term] * slope))
        return huber_sum(residual, self.delta, self.weights), gradient


@dataclass(frozen=True)
class Recipe:
    """One way in which users call scipy's L-BFGS-B: sum or mean, exact or finite-difference gradient, tolerances."""

    label: str
    mean: bool = False
    exact: bool = False
    tight: bool = False

    def minimise(self, problem: PowerSum, start: Array, bounds: Any = None) -> Any:
        """Run scipy from one start."""
        from scipy.optimize import minimize

        function = problem.value_and_gradient if self.exact else problem.mean if self.mean else problem.value
        options = TIGHT if self.tight else {}
        return minimize(function, start, jac=self.exact or None, method="L-BFGS-B", bounds=bounds, options=options)


RECIPES = (
    Recipe("mean loss, finite differences, default tolerances", mean=True),
    Recipe("summed loss, finite differences, default tolerances"),
    Recipe("summed loss, finite differences, tight tolerances", tight=True),
    Recipe("summed loss, exact gradient, default tolerances", exact=True),
    Recipe("summed loss, exact gradient, tight tolerances", exact=True, tight=True),
)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; all columns but the first are aligned right."""
    lines = ["| " + " | ".join(headers) + " |", "|---|" + "---:|" * (len(headers) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def held(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, list[Any]]]:
    """Return tables as a result file holds them: columns and rows of text."""
    return {
        key: {"columns": list(map(str, frame.columns)), "rows": [list(map(str, row)) for row in frame.to_numpy()]}
        for key, frame in tables.items()
    }


def write_result(name: str, tables: Mapping[str, pd.DataFrame], command: str | None = None) -> Path:
    """Write the tables of a study as ``studies/results/NAME.json``, cells as the page shows them, with a fingerprint.

    Parameters
    ----------
    name
        File name, without its ending.
    tables
        What pages show, by a short name: ``<!-- table: NAME/KEY -->`` on a page asks for one.
    command
        What writes the file; ``python -m studies NAME --write`` where absent.
    """
    command = command or f"python -m studies {name} --write"
    path = Path(os.environ.get(RESULTS_VARIABLE) or RESULTS) / f"{name}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    made = {"command": command, **fingerprint(command, before), "tables": held(tables)}
    path.write_text(as_text(made), encoding="utf-8")
    if path.parent == RESULTS:
        note(**{name: code_at_start(study_of(command))})
    return path


def as_text(made: Mapping[str, Any]) -> str:
    """Return a result file's text: a line for each cell of its tables, one for its probe."""
    text = json.dumps(made, indent=1)
    return re.sub(r'"probe": \[[^]]*\]', lambda found: " ".join(found[0].split()), text) + "\n"


def spread(values: pd.Series, digits: int = 2) -> str:
    """Print a mean, with the range of several seeds."""
    mean, *ends = (f"{each:.{digits}f}" for each in (values.mean(), values.min(), values.max()))
    return f"{mean} ({' to '.join(ends)})" if len(values) > 1 else mean


def show(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return tables as Markdown, each under its short name."""
    return "\n\n".join(f"## {key}\n\n{table(list(frame), frame.to_numpy())}" for key, frame in tables.items())


def seconds(value: float) -> str:
    """Print a duration with two or three digits."""
    if not np.isfinite(value):
        return "never"
    if value < 1.0:
        return f"{1e3 * value:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def times(value: float) -> str:
    """Print a ratio with two digits: noise of the machine is not worth more."""
    if not np.isfinite(value):
        return "-"
    digits = max(0, 1 - int(np.floor(np.log10(value)))) if value > 0 else 0
    return f"{value:.{digits}f}" if value < 100 else f"{round(value, 1 - int(np.floor(np.log10(value)))):,.0f}"


def above(objective: float, best: float) -> str:
    """Print how far an objective lies above the best one."""
    share = objective / best - 1.0
    return "best" if share <= 1e-9 else f"{100 * share:.1e} %" if share < 1e-4 else f"{100 * share:.3g} %"


def first_hit(hits: NDArray[np.bool_], cpu: Array) -> float:
    """Return the CPU that starts taken in random order need, on average, until one of them hits; inf for never."""
    n, k = len(hits), int(hits.sum())
    return float(np.mean(cpu)) * (n + 1) / (k + 1) if k else float("inf")


def machine(extra: Mapping[str, str] | None = None) -> str:
    """Describe the machine and the versions in one line."""
    family = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text()
        family = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = {
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "pandas": pd.__version__,
        "cptlaw": cl.__version__,
        **(extra or {}),
    }
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{family}, {os.cpu_count()} cores (shared), one thread; {listed}."
