"""Time plans of the example runs: point answer, interval, risk, front, and an average of laws.

    python -m studies plan_speed [--against CHECKOUT] [--repeats 5] [--quick]

Each plan is warm: the fits are loaded and every module is imported. With another checkout, such as one of a version
before, its numbers stand beside ours; the same script runs in both, one after the other, and reports CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
MODEL = {"n_params": 124_672, "ptpp": 279}
LIMITS = {"max_forgetting": "21%", "max_target_loss": 1.8}
PLANS = ("min-tokens, point", "min-tokens, interval", "min-tokens, risk 0.9", "trade-off, point", "pareto")


def measure(repeats: int, plans: Sequence[str] = PLANS) -> dict[str, float]:
    """Return CPU milliseconds of each plan, the median of repeats; plans with doubt ask at a new point each time."""
    import cptlaw as cl

    runs = cl.examples.load("en-fr-pilot")
    fits = [cl.fit("ptpp-floor", runs, on=on, where=ROWS, starts=16, restraint="none") for on in ("target", "source")]
    point: dict[str, Any] = {"interval": None}
    questions: dict[str, Callable[[float], Any]] = {
        PLANS[0]: lambda ptpp: cl.plan.min_tokens(*fits, **MODEL | {"ptpp": ptpp}, **LIMITS, **BASE, **point),
        PLANS[1]: lambda ptpp: cl.plan.min_tokens(*fits, **MODEL | {"ptpp": ptpp}, **LIMITS, **BASE),
        PLANS[2]: lambda ptpp: cl.plan.min_tokens(*fits, **MODEL | {"ptpp": ptpp}, **LIMITS, **BASE, risk=0.9, **point),
        PLANS[3]: lambda ptpp: cl.plan.trade_off(
            *fits, **MODEL | {"ptpp": ptpp}, max_forgetting="21%", tokens="1M", **BASE, **point
        ),
        PLANS[4]: lambda ptpp: cl.plan.pareto(*fits, **MODEL | {"ptpp": ptpp}, budget=1e12, **BASE),
    }
    found = {}
    for name in plans:
        ask = questions[name]
        ask(200.0)
        times = []
        for i in range(repeats):
            before = time.process_time()
            ask(260.0 + i)
            times.append(1e3 * (time.process_time() - before))
        found[name] = sorted(times)[len(times) // 2]
    return found


BASE = {"base_source_loss": 1.7293}


def elsewhere(checkout: Path, repeats: int) -> dict[str, float]:
    """Return the same of another checkout, in a process of its own."""
    script = Path(__file__).resolve()
    done = subprocess.run(
        [sys.executable, str(script), "--json", "--repeats", str(repeats)],
        env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of the package")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each plan [default: 5]")
    parser.add_argument("--quick", action="store_true", help="the first two, once: to see that it runs")
    parser.add_argument("--json", action="store_true", help="print numbers only")
    given = parser.parse_args(arguments)
    before = {} if given.against is None else elsewhere(given.against, given.repeats)
    plans = PLANS[:2] if given.quick else PLANS
    here = measure(1 if given.quick else given.repeats, plans)
    if given.json:
        print(json.dumps(here))
        return
    from studies.harness import machine, table

    print(machine())
    print()
    rows = [
        [name, *([f"{before[name]:.0f} ms"] if before else []), f"{here[name]:.0f} ms",
         *([f"{before[name] / here[name]:.1f}"] if before else [])]
        for name in plans
    ]  # fmt: skip
    print(table(["plan", *(["before"] if before else []), "now", *(["times"] if before else [])], rows))


if __name__ == "__main__":
    main()
