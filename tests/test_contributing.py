"""A stranger adds a law, reader, figure, option and kind of plan by CONTRIBUTING.md alone: its examples run."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# What is looked at in the house with the five additions, in a process of its own.
LOOK = """
import pathlib
import cptlaw as cl
from cptlaw.laws import law
from cptlaw.testing import check_law
check_law(law("transfer-example"))
assert law("transfer-example:budget=flops").budget == "flops"
folder = pathlib.Path("logs/run-1")
folder.mkdir(parents=True)
(folder / "diary.txt").write_text("100 2.5\\n200 2.25\\n")
from cptlaw.importing.diary import Diary
reader = Diary()
(history,) = reader.read(reader.find(pathlib.Path("logs")), pathlib.Path("logs"))
assert [record.step for record in history.records] == [100, 200]
runs = cl.examples.load("en-fr-pilot")
kept = dict(where="replay > 0", restraint="none", starts=2)
fits = [cl.fit("ptpp-floor", runs, on=on, **kept) for on in ("target", "source")]
figure = cl.figures.losses_by_size(fits[0])
assert len(figure.data) == fits[0].n_points and figure.drawing.data
plan = cl.plan.trade_off(*fits, n_params="125K", ptpp=279, tokens="1M", max_forgetting="30%", batch_tokens="4M")
assert plan.feasible
plan = cl.plan.least_replay(*fits, n_params="125K", ptpp=279, tokens="1M", max_forgetting="20%")
assert plan.feasible and abs(plan.forgetting - 0.2) < 1e-6
"""


def block(after: str, starts: str) -> str:
    """Return the example that begins with a line, from a section on."""
    text = PAGE[PAGE.index(after) :]
    lines = text[text.index(starts) :].split("\n")
    indent = len(starts) - len(starts.lstrip())
    kept = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) < indent:
            break
        kept.append(line)
    return textwrap.dedent("\n".join(kept)).strip() + "\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the house with what the page has a stranger write."""
    house = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "cptlaw", house / "cptlaw", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (house / "tests").mkdir()
    shutil.copytree(ROOT / "tests" / "laws", house / "tests" / "laws", ignore=shutil.ignore_patterns("__pycache__"))
    files = ("pyproject.toml", "conftest.py", *(f"tests/{name}.py" for name in ("conftest", "cpu", "cases", "facts")))
    for name in files:
        shutil.copy(ROOT / name, house / name)
    (house / "studies").symlink_to(ROOT / "studies")  # the suite asks which studies there are
    law = block("## How a law is added", "    from collections.abc import Sequence")
    (house / "cptlaw/laws/transfer_example.py").write_text(f'"""A law."""\n\n{law}')
    (house / "tests/laws/test_transfer_example.py").write_text(
        block("## How a law is added", "        from cases import")
    )
    reader = block("## How a reader of logs is added", "    from collections.abc import Iterator")
    (house / "cptlaw/importing/diary.py").write_text(f'"""A reader."""\n\n{reader}')
    figure = block("## How a figure is added", "    from cptlaw.fitting.fit import Fit")
    (house / "cptlaw/reporting/figures/losses_by_size.py").write_text(f'"""A figure."""\n\n{figure}')
    option = block("## How an option of a plan is added", "    class Mix(")
    head, entry = option.rsplit("\n\n", 1)
    scenario = house / "cptlaw/planning/scenario.py"
    text = scenario.read_text(encoding="utf-8")
    assert head in text
    scenario.write_text(text.replace(head, f"{head}\n\n{textwrap.indent(entry.strip(), '    ')}\n"), encoding="utf-8")
    kind = "## How a kind of plan is added"
    (house / "cptlaw/planning/mixes/least_replay.py").write_text(
        f'"""A plan."""\n\n{block(kind, "    from dataclasses import")}'
    )
    for file, before, starts in (
        ("planning/scenario.py", "class LimitedData(", "    class LeastReplay(Limited"),
        ("planning/__init__.py", '    "mixes.pareto"', '    "mixes.least_replay"'),
        ("cli/plan.py", '@subcommand("limited-data"', "    @subcommand("),
    ):
        _enter(house / "cptlaw" / file, before, block(kind, starts) + "\n\n")
    return house


def _enter(path: Path, before: str, entry: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, entry + before), encoding="utf-8")


def run(house, *words):
    environment = {**os.environ, "PYTHONPATH": str(house)}
    return subprocess.run(
        [sys.executable, *words], cwd=house, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.dear("four processes, each of which loads a copy of the package")
def test_what_the_page_has_one_write_is_found_and_works(house):
    ran = run(house, "-c", LOOK)
    assert ran.returncode == 0, ran.stderr
    ran = run(house, "-m", "cptlaw", "laws", "transfer-example")
    assert "L = E + A/N^alpha + B/D^beta + G/P^zeta" in ran.stdout
    ran = run(house, "-m", "cptlaw", "plan", "trade-off", "--help")
    assert re.search(r"--batch-tokens\s+D", ran.stdout)
    ran = run(house, "-m", "cptlaw", "plan", "least-replay", "--help")
    assert re.search(r"--tokens\s+D .*\n?.*\[required\]", ran.stdout)


@pytest.mark.dear("the suite of a law, in a process of its own")
def test_the_law_of_the_page_is_held_by_the_suite(house):
    ran = run(
        house,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/laws",
        "-k",
        "transfer-example or transfer_example",
    )
    assert ran.returncode == 0, ran.stdout[-3000:]  # it is 5 where no test is found
