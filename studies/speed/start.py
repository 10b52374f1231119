"""CPU seconds until the first answer: `import cptlaw; cptlaw.fit`, the light verbs and every verb's help.

    python -m studies start [--before REVISION]

With a revision the same is timed in a checkout of it, in turns with this one: only times taken side by side can be
compared on a machine that others use. Each figure is the least of several runs, as others can only add to it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from studies.harness import ROOT, table

LIBRARY = ("import cptlaw; cptlaw.fit", "import cptlaw; cptlaw.compare", "import cptlaw; cptlaw.plan.min_tokens")
VERBS = (
    "laws", "laws chinchilla", "example", "--help", "answer --help", "check --help", "fit --help", "compare --help",
    "forecast --help", "plan --help", "suggest --help", "import --help", "sweep --help", "report --help", "app --help",
    "bench --help", "register --help", "score --help",
)  # fmt: skip
REPEATS = 3


def cpu_seconds(checkout: Path, program: str) -> float | None:
    """Return the CPU seconds of a fresh Python that runs a program; None where that checkout cannot."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": ""}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment, cwd=checkout, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent if ended.returncode == 0 else None


def main() -> None:
    """Time all starts and print them as a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", metavar="REVISION", help="a commit to time beside")
    before = parser.parse_args().before
    programs = {program: program for program in LIBRARY}
    programs |= {f"cptlaw {verb}": f"from cptlaw.cli import main; main({verb.split()!r})" for verb in VERBS}
    with tempfile.TemporaryDirectory() as folder:
        checkouts = {"now": ROOT}
        if before:
            checkouts = {"before": Path(folder) / "before", **checkouts}
            subprocess.run(["git", "worktree", "add", "--detach", checkouts["before"], before], cwd=ROOT, check=True)
        least: dict[tuple[str, str], float | None] = {}
        for _ in range(REPEATS):
            for label, program in programs.items():
                for name, checkout in checkouts.items():
                    spent, known = cpu_seconds(checkout, program), least.get((label, name))
                    least[label, name] = spent if known is None or spent is None else min(spent, known)
        if before:
            subprocess.run(["git", "worktree", "remove", "--force", checkouts["before"]], cwd=ROOT, check=True)
    rows = [
        [f"`{label}`", *("-" if (spent := least[label, name]) is None else f"{spent:.2f}" for name in checkouts)]
        for label in programs
    ]
    print(table(["start", *(f"{name}, CPU s" for name in checkouts)], rows))


if __name__ == "__main__":
    main()
