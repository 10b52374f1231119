"""The core works with each of the packages beside it absent, and says what it lacks where that is asked for."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from facts import lacks

import cptlaw as cl

ROOT = Path(cl.__file__).parents[1]
BESIDE = sorted(path.name for path in ROOT.glob("cptlaw_*") if (path / "__init__.py").exists())
ABSENT = """
import sys
for name in {absent!r}:
    sys.modules[name] = None  # as if it were not there
import cptlaw as cl
"""
# An answer without runs, the laws, and the command line.
FIRST = """
from cptlaw.cli import main
assert cl.answer(n_params="8B", ptpp=1875, target_tokens="20B", shift="language").options
main(["laws"])
"""
# A law by name, law auto, a plan.
MORE = """
runs = cl.examples.load("en-fr-pilot").where("n_params < 80000 and ptpp < 40 and replay > 0")
fits = [cl.fit("ptpp-floor", runs, on=on, starts=2) for on in ("target", "source")]
asked = dict(n_params=45936, tokens="400K", ptpp=31, max_forgetting="40%", base_source_loss=2)
assert cl.plan.trade_off(*fits, **asked).feasible
assert cl.fit(runs, on="target").members
"""


def run(absent, program):
    words = [sys.executable, "-W", "error", "-c", ABSENT.format(absent=absent) + program]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_these_are_all_that_stand_beside():
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["packages"]
    assert sorted(set(found) - {"cptlaw"}) == BESIDE


@pytest.mark.parametrize("absent", BESIDE)
def test_the_core_works_without_it(absent):
    done = run([absent], FIRST)
    assert done.returncode == 0, done.stderr
    assert "chinchilla" in done.stdout


@pytest.mark.dear("a process of its own, with fits")
def test_the_core_works_alone():
    done = run(BESIDE, MORE + FIRST)
    assert done.returncode == 0, done.stderr
    assert "shared-tokens" in done.stdout


@pytest.mark.parametrize(
    ("absent", "asked", "facts"),
    [
        ("cptlaw_curves", "cl.forecast_run", ["cptlaw.forecast_run", "cptlaw_curves"]),
        ("cptlaw_curves", "cl.plan.schedule", ["cptlaw.plan.schedule", "cptlaw_curves"]),
        ("cptlaw_curves", "cl.law('cpt-dynamics')", ["cpt-dynamics", "cptlaw_curves"]),
        ("cptlaw_published", "cl.law('dcpt-cross-k3')", ["dcpt-cross-k3", "cptlaw_published"]),
        ("cptlaw_sweep", "cl.sweep", ["cptlaw.sweep", "cptlaw_sweep"]),
    ],
)
def test_what_is_lacking_is_named(absent, asked, facts):
    said = run([absent], asked).stderr.strip().splitlines()[-1]
    assert lacks(said, *facts) == []
