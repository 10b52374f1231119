"""Hostile input for every door: no traceback, no hang, no stray file.

    python tests/fuzz.py --n 20000 --seed 0                 # all families in turn; ends with 1 if any case failed
    python tests/fuzz.py --family filters --n 2000
    python tests/fuzz.py --seed 0 --only 1234               # one case again, with its traceback

Every case is made from the seed and its number alone. A case may end well, with an error of the package's own, or, for
a command line, with one of the promised exit codes; anything else is a defect, and so is a file that nobody asked for.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cptlaw as cl
from cptlaw import examples
from cptlaw.errors import CptlawError

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_families import FAMILIES, ROWS
from fuzz_world import World

SECONDS = 30.0  # CPU of one case; the slowest sound ones take about one
LONGEST_MESSAGE = 12_000  # characters


class HangError(BaseException):
    """A case took too long."""


@dataclass(frozen=True)
class Defect:
    """A case that ended as none may."""

    number: int
    family: str
    what: str
    trace: str


def cases(n: int, seed: int, families: list[str] | None = None, only: int | None = None) -> Iterator[Defect | None]:
    """Run cases in turn and yield what is wrong with each, or ``None``.

    Parameters
    ----------
    n
        How many.
    seed
        With its number it makes a case.
    families
        Those to draw from; all where not given.
    only
        The number of the one case to run.
    """
    names = families or list(FAMILIES)
    runs = examples.load("en-fr-pilot")
    sound = tuple(cl.fit("ptpp-floor", runs, on=on, where=ROWS, restraint="none") for on in ("target", "source"))
    outside, before = Path(tempfile.mkdtemp(prefix="cptlaw-fuzz-")), Path.cwd()
    texts = tuple(fit.save(outside / "fit.json").read_text() for fit in sound)
    kept = tempfile.tempdir
    try:
        for number in range(n) if only is None else [only]:
            shutil.rmtree(outside)
            folder, scratch = outside / "case", outside / "scratch"
            folder.mkdir(parents=True)
            scratch.mkdir()
            tempfile.tempdir = str(scratch)
            os.chdir(folder)
            world = World(random.Random(f"{seed}-{number}"), folder, sound, texts)  # type: ignore[arg-type]
            yield _case(number, names[number % len(names)], world, outside)
    finally:
        tempfile.tempdir = kept
        os.chdir(before)
        shutil.rmtree(outside, ignore_errors=True)


def _case(number: int, name: str, world: World, outside: Path) -> Defect | None:
    def stop(*_: Any) -> None:
        raise HangError(f"more than {SECONDS:g} s of CPU")

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FAMILIES[name](world)
    except CptlawError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            return Defect(number, name, f"a message of {len(str(error))} characters", str(error)[:500])
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Defect(number, name, f"{type(error).__name__}: {error}"[:200], traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    stray = [str(path.relative_to(outside)) for path in outside.rglob("*") if _is_stray(path, outside)]
    return Defect(number, name, f"stray files: {stray[:5]}", "") if stray else None


def _is_stray(path: Path, outside: Path) -> bool:
    inside = path.relative_to(outside)
    if inside.parts == ("scratch",) or any(part.startswith("torchinductor_") for part in inside.parts):
        return False  # torch makes a folder when it is loaded
    return inside.parts[0] != "case" or path.name.endswith(".part")


def main() -> int:
    """Run the cases that the command line asks for; return 1 if any failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--family", action="append", choices=list(FAMILIES), help="only of this family; may be repeated"
    )
    parser.add_argument("--only", type=int, help="the number of one case, to see its traceback")
    given = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    defects: list[Defect] = []
    begun = time.process_time()
    for done, defect in enumerate(cases(given.n, given.seed, given.family, given.only), 1):
        if defect is not None:
            defects.append(defect)
            print(f"case {defect.number} ({defect.family}): {defect.what}", flush=True)
            if given.only is not None:
                print(defect.trace)
        if done % 1000 == 0:
            print(f"{done} cases, {len(defects)} defects, {time.process_time() - begun:.0f} s of CPU", file=sys.stderr)
    n = given.n if given.only is None else 1
    print(f"{n} cases, {len(defects)} defects, {time.process_time() - begun:.0f} s of CPU")
    return bool(defects)


if __name__ == "__main__":
    sys.exit(main())
