"""Result files: whether they still hold, and to make anew those that do not, one after the other.

    python -m studies results                      each file, and by how much its probe moved (a minute after an edit)
    python -m studies results --remake             runs the commands of all that are out of date (hours)
    python -m studies results --remake --quick     only of those that take less than a minute each
    python -m studies results --remake NAME ..     only of these

A run that was stopped goes on where it was: what is done is up to date. Pages: `python docs/run_pages.py --tables`.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from typing import Any

from studies.provenance import QUICK, RESULTS, ROOT, differing, look, note, read, stamps


def state(name: str, held: dict[str, Any], stamp: dict[str, str]) -> str:
    """Return a line on a result file."""
    told = f"out of date: {stamp['moved']}" if "moved" in stamp else "holds"
    return f"{name:28}{held['seconds']:>5} s  {told}"


def remake(name: str, held: dict[str, Any]) -> bool:
    """Run the command of a result file, and say which of its numbers have changed; whether it ran."""
    print(f"running: {held['command']}", file=sys.stderr, flush=True)
    words = shlex.split(held["command"])
    ended = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    after = read(name)
    if ended.returncode or "moved" in stamps()[name]:
        print(f"{name}: not made anew (exit code {ended.returncode})", flush=True)
        return False
    cells = differing(held["tables"], after["tables"])
    print(f"{name}: made anew, {len(cells)} cells changed", *cells[:20], sep="\n  ", flush=True)
    return True


def main(words: list[str]) -> int:
    """List result files, or make anew those that are out of date; exit code 1 where one could not be made."""
    parser = argparse.ArgumentParser(prog="python -m studies results", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="result files; all where absent")
    parser.add_argument("--remake", action="store_true", help="run the commands of those that are out of date")
    parser.add_argument("--quick", action="store_true", help=f"leave out what takes more than {QUICK} seconds")
    asked = parser.parse_args(words)
    names = [path.stem for path in sorted(RESULTS.glob("*.json"))]
    unknown = set(asked.names) - set(names)
    if unknown:
        parser.error(f"there is no result file {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    found = {name: read(name) for name in names if not asked.names or name in asked.names}
    if asked.quick:
        found = {name: held for name, held in found.items() if held.get("seconds", QUICK + 1) <= QUICK}
    known = stamps()
    for name, held in found.items():
        now = look(held, known.get(name, {}))
        if now != known.get(name):
            known[name] = now
            note(**{name: now})  # at once: a look that is stopped goes on where it was
        print(state(name, held, now), flush=True)
    if not asked.remake:
        return 0
    order = sorted((name for name in found if "moved" in known[name]), key=lambda name: found[name]["seconds"])
    made = [remake(name, found[name]) for name in order]  # the cheap ones first
    return int(not all(made))
