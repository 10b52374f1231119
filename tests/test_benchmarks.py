"""The benchmarks run, in a size that says nothing about speed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT.parent / "shared" / "data"


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_starts_of_dcpt() -> None:
    printed = run("benchmarks.dcpt_starts", "--data-seeds", "1", "--starts", "2", "--quick")
    assert "| **cptlaw** | 2 (2 to 2) | 2 (2 to 2) |" in printed


def test_absent_data_is_said_in_one_line(tmp_path: Path) -> None:
    printed = run("benchmarks.chinchilla_fit", "--data", str(tmp_path))
    assert printed.startswith("skipped: chinchilla_epoch.csv")
    assert len(printed.splitlines()) == 1


def test_bootstrap(tmp_path: Path) -> None:
    printed = run("benchmarks.bootstrap", "--draws", "4", "--refits", "1", "--data", str(tmp_path))
    assert "| **cptlaw** | 4 |" in printed


def test_curve_fits(tmp_path: Path) -> None:
    printed = run("benchmarks.curve_fits", "--data", str(tmp_path))
    assert printed.startswith("skipped: mpl_lr_curves.csv")
    if PUBLIC.exists():
        assert "| multi-power, 25M |" in run("benchmarks.curve_fits", "--quick", "--data", str(PUBLIC))


def test_growth() -> None:
    printed = run("benchmarks.growth", "--quick")
    assert [line.split(" | ")[0].strip("| ") for line in printed.splitlines()[2:]] == [
        "rows", "runs", "curves", "cells", "jobs",
    ]  # fmt: skip


COLUMNS = ["curves", "seen", "others", "n", "ours", "last", "line", "held", "half-width"]


def back_test(*only: str) -> pd.DataFrame:
    """Return the table of the back-test of unfinished runs for four curves of each group."""
    lines = run("benchmarks.unfinished_runs", "--quick", "--only", *only).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:] if line.startswith("|")]
    return pd.DataFrame(cells, columns=COLUMNS).astype(dict.fromkeys(COLUMNS[3:], float))


def test_unfinished_runs_of_the_pilot() -> None:
    found = back_test("pilot, target")
    helped = found[found["others"] == "yes"]
    assert (helped["ours"] < 0.5 * helped["last"]).all()
    assert np.average(found["held"], weights=found["n"]) >= 75


@pytest.mark.skipif(not (PUBLIC / "mpl_lr_curves.csv").exists(), reason="mpl_lr_curves.csv is not in ../shared/data")
def test_unfinished_runs_of_public_curves() -> None:
    found = back_test("nine")
    helped = found[found["others"] == "yes"]
    assert list(helped["seen"]) == ["20%", "40%", "60%"]
    assert (helped["ours"] < helped["line"]).all()
    assert (helped["ours"] < helped["last"]).all()
    assert np.average(found["held"], weights=found["n"]) >= 75


def test_unfinished_runs_without_the_public_curves(tmp_path: Path) -> None:
    assert not run("benchmarks.unfinished_runs", "--only", "nine", "--data", str(tmp_path)).strip()
