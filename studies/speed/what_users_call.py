"""CPU seconds of what users call: fits, answers, files, plans; beside fixed work, and beside another version.

    python -m studies what_users_call [--against REVISION] [--repeats 3] [--quick] [--write]

Each pass is a fresh process that does all of it in this order, as a session of a user would; passes of the two
versions take turns, and the least of each time counts, as others on the machine can only add to it. Modules are loaded
beforehand, from bytecode after the first pass. What a version does not know is "-". With --write the table goes into
studies/benchmarks.md, last version and this one side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
MODEL: dict[str, Any] = {"n_params": 124_672, "ptpp": 279}
README: dict[str, Any] = MODEL | {"tokens": "1M", "max_forgetting": "25%"}
POINT = "n_params=124672,tokens=1M,replay=25%,ptpp=279,lr_peak=3e-3"
LIMITS: dict[str, Any] = {"max_forgetting": "21%", "max_target_loss": 1.8, "base_source_loss": 1.7293}
QUICK = 4  # works of a quick pass
MEMORY = "peak memory of all of these, MB"
REFERENCE = "fixed work: 3,000 eigenvalue problems of 30 by 30"
PAGE = re.compile(r"(<!-- what users call -->\n).*?(<!-- end -->)", re.S)


def works(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what users do, each after those before it."""
    import numpy as np
    import pandas as pd

    import cptlaw as cl

    for name in ("fit", "load_fit", "answer", "compare"):
        getattr(cl, name)  # loads what is behind it
    matrices = np.random.default_rng(0).standard_normal((3000, 30, 30))
    yield REFERENCE, lambda: np.linalg.eigvalsh(matrices + matrices.transpose(0, 2, 1))
    runs = cl.examples.load("en-fr-pilot")
    on_rows: dict[str, Any] = {"where": ROWS, "starts": 16, "restraint": "none"}
    plain: list[Any] = []
    yield (
        "two fits of ptpp-floor, restraint none",
        lambda: plain.extend(cl.fit("ptpp-floor", runs, on=on, **on_rows) for on in ("target", "source")),
    )
    point: dict[str, Any] = {"interval": None}
    asked: dict[str, Any] = MODEL | LIMITS
    both = {name: value for name, value in asked.items() if name != "max_target_loss"}
    yield "plan min-tokens on these, point", lambda: cl.plan.min_tokens(*plain, **asked, **point)
    yield "the same with an interval", lambda: cl.plan.min_tokens(*plain, **asked)
    yield "the same at risk 0.9", lambda: cl.plan.min_tokens(*plain, **asked, **point, risk=0.9)
    yield (
        "plan trade-off on these at risk 0.9",
        lambda: cl.plan.trade_off(*plain, **both, **point, tokens="1M", risk=0.9),
    )
    front: dict[str, Any] = MODEL | {"base_source_loss": LIMITS["base_source_loss"], "budget": 1e12}
    yield "plan pareto on these", lambda: cl.plan.pareto(*plain, **front)
    yield "a law by name", lambda: cl.fit("ptpp-floor", runs, on="target")
    yield "the next law by name", lambda: cl.fit("dcpt-l3", runs, on="target")
    yield "README's answer", lambda: cl.answer(runs, **README)
    yield "a second question to the same table", lambda: cl.answer(runs, **README | {"max_forgetting": "30%"})
    files = [folder / f"{role}.json" for role in ("target", "source")]
    few = runs.where("n_params < 50000 and ptpp == 31 and replay in (0.1, 0.25, 0.5)")
    yield "an answer from few runs", lambda: cl.answer(few, **README)
    told: dict[str, Any] = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language"}
    yield "an answer without runs", lambda: cl.answer(**told)
    yield "check before a fit", lambda: cl.check(runs, on="target")
    yield "next runs for a forecast", lambda: cl.plan.suggest("ptpp-floor", runs, on="target", at=POINT, budget=1e13)
    yield "a report from an answer", lambda: cl.answer(runs, **README).report(folder / "answer.html")
    yield "both losses fitted and kept", lambda: [cl.fit(runs, on=one.stem).save(one) for one in files]
    yield "a forecast from files", lambda: [cl.load_fit(one).forecast(POINT) for one in files]
    yield "a plan from files", lambda: cl.plan.trade_off(*map(cl.load_fit, files), **README)
    copies = [runs.frame.assign(run=[f"{run}-{i}" for run in runs.frame["run"]]) for i in range(100_000 // len(runs))]
    many = pd.concat(copies, ignore_index=True)
    many["loss"] *= np.exp(0.01 * np.sin(np.arange(len(many))))
    yield "a law by name on 100,000 rows", lambda: cl.fit("ptpp-floor", many, on="target")
    yield (
        "compare --laws all on README's table",
        lambda: cl.compare("all", runs, on="target", fit_where="ptpp <= 62", test_where="ptpp > 62"),
    )


def measure(quick: bool) -> dict[str, float | None]:
    """Return the CPU seconds of each work, once."""
    found: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works(Path(folder)):
            before = time.process_time()
            try:
                work()
                found[name] = time.process_time() - before
            except Exception as error:  # noqa: BLE001  another version may not know it
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                found[name] = None
            if quick and len(found) == QUICK:
                break
    found[MEMORY] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def in_passes(
    checkouts: dict[str, Path], repeats: int, quick: bool, bytecode: str
) -> dict[str, dict[str, float | None]]:
    """Return the least of each number over passes, by checkout."""
    least: dict[str, dict[str, float | None]] = {name: {} for name in checkouts}
    settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(repeats):
        for name, checkout in checkouts.items():
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--json", *(["--quick"] * quick)],
                env={**os.environ, **settings, "PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": bytecode},
                stdout=subprocess.PIPE, text=True, check=True, cwd=checkout,
            )  # fmt: skip
            for work, spent in json.loads(ended.stdout).items():
                known = least[name].get(work)
                least[name][work] = spent if known is None or spent is None else min(spent, known)
    return least


def printed(least: dict[str, dict[str, float | None]]) -> str:
    """Return the table: each work in each version and, where there are two, how many times less it is now."""
    from studies.harness import machine, table

    def shown(work: str, value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}" if work == MEMORY else f"{value:.3g}"

    rows = []
    for work in least["now"]:
        values = [of.get(work) for of in least.values()]
        known = [value for value in values if value is not None]
        ratio = [f"{known[0] / known[1]:.2f}" if len(known) == 2 else "-"] if len(values) == 2 else []
        rows.append([work, *(shown(work, value) for value in values), *ratio])
    heads = ["CPU seconds", *least, *(["times"] if len(least) == 2 else [])]
    return f"{machine()}\n\n{table(heads, rows)}"


def main() -> None:
    """Time all works and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="a commit to time beside, such as the last version")
    parser.add_argument("--repeats", type=int, default=3, help="passes of each version [default: 3]")
    parser.add_argument("--quick", action="store_true", help=f"one pass of the first {QUICK}: to see that it runs")
    parser.add_argument("--write", action="store_true", help="into studies/benchmarks.md")
    parser.add_argument("--json", action="store_true", help="one pass, numbers only")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measure(asked.quick)))
        return
    from studies.harness import HOME, ROOT

    with tempfile.TemporaryDirectory() as folder:
        checkouts = {"now": ROOT}
        if asked.against:
            checkouts = {asked.against: Path(folder) / "before", **checkouts}
            add = ["git", "worktree", "add", "--quiet", "--detach", str(checkouts[asked.against]), asked.against]
            subprocess.run(add, cwd=ROOT, check=True)
        try:
            least = in_passes(checkouts, 1 if asked.quick else asked.repeats, asked.quick, f"{folder}/bytecode")
        finally:
            if asked.against:
                gone = ["git", "worktree", "remove", "--force", str(checkouts[asked.against])]
                subprocess.run(gone, cwd=ROOT, check=True)
    text = printed(least)
    print(text)
    if asked.write:
        page = HOME / "benchmarks.md"
        old = page.read_text(encoding="utf-8")
        page.write_text(PAGE.sub(lambda part: f"{part[1]}{text}\n{part[2]}", old), encoding="utf-8")


if __name__ == "__main__":
    main()
