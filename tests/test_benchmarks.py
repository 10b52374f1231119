"""The benchmarks run, in a size that says nothing about speed."""

import subprocess
import sys
from pathlib import Path

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


def test_unfinished_runs() -> None:
    printed = run("benchmarks.unfinished_runs", "--quick", "--only", "pilot")
    assert "| pilot, target loss | 60% | yes |" in printed


def test_curve_fits(tmp_path: Path) -> None:
    printed = run("benchmarks.curve_fits", "--data", str(tmp_path))
    assert printed.startswith("skipped: mpl_lr_curves.csv")
    if PUBLIC.exists():
        assert "| multi-power, 25M |" in run("benchmarks.curve_fits", "--quick", "--data", str(PUBLIC))
