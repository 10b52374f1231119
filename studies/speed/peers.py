"""Run another package in a child process, under the interpreter that has it, and time it there.

The parent talks to the child over one line of JSON each way. Between blocks of work the child waits for a line, so that
the parent can time cptlaw under the same conditions. This file is also the child's program, so it imports nothing of
this repository and, at the top, nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

INTERPRETER_VARIABLE = "CPTLAW_BENCH_PEERS"

# The grid of the README of `chinchilla`: 5 values for each of 5 parameters, a and b being log A and log B.
CHINCHILLA_GRID = {"E": (1, 2, 5), "a": (1, 10, 5), "b": (1, 10, 5), "alpha": (0.1, 0.7, 5), "beta": (0.1, 0.7, 5)}


class MissingPackageError(Exception):
    """The package is not there, or not usable under this interpreter."""


# -- parent ------------------------------------------------------------------------------------------------------------


def run(interpreter: str | None, job: dict[str, Any], between: Callable[[], None]) -> dict[str, Any]:
    """Run a job in a child process and return its result.

    Parameters
    ----------
    interpreter
        Python that has the package; from CPTLAW_BENCH_PEERS, else this one, where absent.
    job
        What to do: ``package`` and the arguments of the function of that name below.
    between
        Called at the child's pauses, while the child waits.

    Raises
    ------
    MissingPackageError
        If the package cannot be used, with the reason in one line.
    """
    python = interpreter or os.environ.get(INTERPRETER_VARIABLE) or sys.executable
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    try:
        child = subprocess.Popen(
            [python, os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
    except OSError as error:
        raise MissingPackageError(f"the interpreter for other packages cannot be started ({error.strerror})") from None
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(job) + "\n")
        child.stdin.flush()
        for line in child.stdout:
            message = json.loads(line)
            if message["event"] == "pause":
                between()
                child.stdin.write("\n")
                child.stdin.flush()
            elif message["event"] == "missing":
                raise MissingPackageError(message["reason"])
            else:
                result: dict[str, Any] = message["result"]
                return result
    raise MissingPackageError(f"{job['package']} ended without a result (exit code {child.returncode})")


# -- child -------------------------------------------------------------------------------------------------------------


class Pauses:
    """Clocks of the child that stand still while the parent has its turn."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._waited = 0.0

    def pause(self) -> None:
        """Let the parent work."""
        began = time.perf_counter()
        self._send({"event": "pause"})
        sys.stdin.readline()
        self._waited += time.perf_counter() - began

    def now(self) -> tuple[float, float]:
        """Return CPU and wall seconds so far; waiting counts in neither."""
        return time.process_time(), time.perf_counter() - self._waited


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions."""
    from importlib.metadata import version

    return {
        "Python": ".".join(map(str, sys.version_info[:3])),
        **{name: version(name) for name in ("numpy", "scipy", *packages)},
    }


def chinchilla(
    clock: Pauses,
    n_params: list[float],
    tokens: list[float],
    loss: list[float],
    objective: str,
    share: float,
    seed: int,
) -> dict[str, Any]:
    """Fit with the package `chinchilla`, one process, timing each start.

    `objective` is ``shipped`` (its default, an asymmetric absolute error), ``log-huber`` (its own function of that name
    at the threshold of the paper, averaged as it averages every loss) or ``log-huber-sum``. With `share` < 1 only a
    random part of the grid is run.
    """
    import numpy as np
    import pandas as pd
    from chinchilla import Chinchilla, core
    from chinchilla._metrics import log_huber

    losses: dict[str, Callable[..., Any] | None] = {
        "shipped": None,
        "log-huber": lambda y, p: log_huber(y, p, delta=1e-3),
        "log-huber-sum": lambda y, p: len(y) * log_huber(y, p, delta=1e-3),  # it takes the mean of what comes back
    }
    chosen = losses[objective]
    grid = {name: np.linspace(*ends) for name, ends in CHINCHILLA_GRID.items()}
    n_starts = int(np.prod([len(values) for values in grid.values()]))
    chosen_starts = np.random.default_rng(seed).permutation(n_starts)[: max(1, round(share * n_starts))]
    order = set(chosen_starts.tolist())
    every = max(1, len(order) // 8)
    starts: list[tuple[float, float, list[float]]] = []
    counter = iter(range(n_starts))

    class Timed:
        """Stands in for scipy.optimize inside the package: the same call, with a clock around it."""

        @staticmethod
        def minimize(function: Any, x0: Any, **settings: Any) -> Any:
            if next(counter) not in order:
                return _Nothing
            before = time.process_time()
            result = optimise(function, x0, **settings)
            starts.append((time.process_time() - before, float(result.fun), np.asarray(result.x, float).tolist()))
            if len(starts) % every == 0:
                clock.pause()
            return result

    class _Nothing:
        x, fun = None, float("inf")

    optimise = core.sciop.minimize
    core.sciop = Timed
    with tempfile.TemporaryDirectory() as folder:
        table = pd.DataFrame({"N": n_params, "D": tokens, "loss": loss})
        table.insert(0, "C", 6.0 * table["N"] * table["D"])
        table.to_csv(os.path.join(folder, "df.csv"), index=False)
        model = Chinchilla(folder, param_grid=grid, log_level=50, **({} if chosen is None else {"loss_fn": chosen}))
        cpu, wall = clock.now()
        model.fit(parallel=False)
        cpu_after, wall_after = clock.now()
    scale = model._autoscale_range
    vectors = [np.asarray(x) * scale for _, _, x in starts]
    return {
        "cpu": cpu_after - cpu,
        "wall": wall_after - wall,
        "n_starts": n_starts,
        "n_run": len(starts),
        "start_cpu": [item[0] for item in starts],
        "start_params": [
            {"E": v[0], "A": np.exp(v[1]), "B": np.exp(v[2]), "alpha": v[3], "beta": v[4]} for v in vectors
        ],
        "params": model.params,
        "versions": versions("chinchilla"),
    }


def simple_scaling_laws(
    clock: Pauses, n_params: list[float], tokens: list[float], loss: list[float], draws: int, repeats: int
) -> dict[str, Any]:
    """Fit with the package `simple-scaling-laws`, with `draws` bootstrap refits; it has no fit without any."""
    import warnings

    import numpy as np
    import polars as pl
    from simple_scaling_laws import fit

    warnings.simplefilter("ignore")
    n = len(loss)
    size, data, target = "model_size__n_params", "dataset_size__n_tokens", "test_loss__ce"
    table = pl.DataFrame(
        {
            "training_run_id": [f"run{i}" for i in range(n)],
            "test_set_id": ["validation"] * n,
            size: n_params,
            data: tokens,
            target: loss,
        }
    )
    fit(table, law="separable-power", n_draws=1, seed=0)
    spent = []
    for repeat in range(repeats):
        cpu, wall = clock.now()
        model = fit(table, law="separable-power", n_draws=draws, seed=repeat)
        cpu_after, wall_after = clock.now()
        spent.append((cpu_after - cpu, wall_after - wall))
        clock.pause()
    reference = np.array([model.observed_domain[name]["reference"] for name in (size, data)])
    raw = model.law.raw_scale_params(model.fits[target].params, reference)
    return {
        "cpu": float(np.median([cpu for cpu, _ in spent])),
        "wall": float(np.median([wall for _, wall in spent])),
        "params": {name: float(raw[name]) for name in ("E", "A", "B", "alpha", "beta")},
        "versions": versions("simple-scaling-laws"),
    }


def main() -> None:
    """Read one job, do it, and write its result."""
    # What a package prints must not end up between our lines.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path[:] = sys.path[1:]  # this folder holds modules that a package might mistake for its own

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")

    job = json.loads(sys.stdin.readline())
    package = job.pop("package")
    work = {"chinchilla": chinchilla, "simple-scaling-laws": simple_scaling_laws}[package]
    with _reported(package, send):
        send({"event": "result", "result": work(Pauses(send), **job)})


@contextlib.contextmanager
def _reported(package: str, send: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        python = ".".join(map(str, sys.version_info[:2]))
        send({"event": "missing", "reason": f"{package} cannot be imported under Python {python} ({error})"})


if __name__ == "__main__":
    main()
