"""Time the loading and checking of one million rows: CPU and wall seconds per stage.

Run with ``python studies/speed/load_million_rows.py [ROWS]``. The files are made in a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from cptlaw.runs import read_runs
from cptlaw.runs.csv_file import read_csv
from cptlaw.runs.naming import name_columns
from cptlaw.runs.validate import check_table

Result = TypeVar("Result")
POINTS_PER_RUN = 200


def synthetic_runs(n_rows: int) -> pd.DataFrame:
    """Return a table of ``n_rows`` rows and 8 columns: runs of 100 steps on two evals each."""
    random = np.random.default_rng(0)
    row = np.arange(n_rows)
    run = row // POINTS_PER_RUN
    step = row % POINTS_PER_RUN // 2
    return pd.DataFrame(
        {
            "run": np.char.add("run-", run.astype(str)),
            "eval": np.where(row % 2, "source", "target"),
            "loss": random.uniform(1.0, 4.0, n_rows).round(6),
            "n_params": np.array([106_000_000, 594_000_000, 8_100_000_000])[run % 3],
            "tokens": step * 4_194_304,
            "replay": np.array([0.0, 0.1, 0.25, 0.34, 0.5])[run % 5],
            "ptpp": np.array([15.0, 31.0, 62.0, 279.0])[run % 4],
            "step": step,
        }
    )


def timed(stage: str, work: Callable[[], Result]) -> Result:
    """Do some work and print what it cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{stage:42} CPU {time.process_time() - cpu:6.2f} s   wall {time.perf_counter() - wall:6.2f} s")
    return result


def main() -> None:
    """Print the timings."""
    n_rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    table = synthetic_runs(n_rows)
    with tempfile.TemporaryDirectory() as folder:
        plain, quoted, parquet, lines = (
            Path(folder) / name for name in ("plain.csv", "quoted.csv", "runs.parquet", "runs.jsonl")
        )
        table.to_csv(plain, index=False)
        table.to_csv(quoted, index=False, quoting=2)
        table.to_json(lines, orient="records", lines=True)
        print(f"{n_rows:,} rows, {plain.stat().st_size / 1e6:.0f} MB of CSV")
        raw = timed(
            "parse the CSV, count its fields",
            lambda: read_csv(plain, "runs", lambda header: name_columns(header, None, "runs").text_columns),
        )
        timed("check the rows", lambda: check_table(raw))
        runs = timed("read_runs: CSV, all of it", lambda: read_runs(plain))
        timed("read_runs: CSV with quotes", lambda: read_runs(quoted))
        timed("read_runs: JSON Lines", lambda: read_runs(lines))
        timed("read_runs: DataFrame", lambda: read_runs(table))
        try:
            table.to_parquet(parquet, index=False)
        except ImportError:
            print("read_runs: Parquet                         skipped, pyarrow is not installed")
        else:
            timed("read_runs: Parquet", lambda: read_runs(parquet))
    timed("where", lambda: runs.where("ptpp <= 31 and replay in (0.1, 34%)"))
    timed("on, adapted", lambda: runs.on("target").adapted())
    timed("base_losses", lambda: runs.base_losses("target"))
    timed("fingerprint", lambda: runs.fingerprint)
    timed("repr", lambda: repr(runs))


if __name__ == "__main__":
    main()
