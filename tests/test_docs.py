"""What the documents say is what the package does."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

import cptlaw
from cptlaw import examples
from cptlaw.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_in_the_readme_runs():
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 5
    assert failed == 0


def readme_commands():
    """Return the commands of README's walk-through, continuation lines joined."""
    block = README.split("## From a CSV to a plan")[1].split("## What you can ask")[0].replace("\\\n", " ")
    return [line.strip() for line in block.splitlines() if re.match(r"\s+cptlaw ", line)]


def test_commands_in_the_readme_run_and_print_the_plan_that_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = re.search(r'ROWS="(.*)"', README)[1]
    commands = readme_commands()
    assert len(commands) == 8
    for command in commands:
        words = [word.replace("$ROWS", rows) for word in shlex.split(command)]
        words = [word.replace("$RUNS", str(examples.path("en-fr-pilot"))) for word in words]
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert not ended.value.code
    printed = capsys.readouterr().out
    shown = README.split("Fewest tokens for")[1].split("The forecasts alone")[0]
    numbers = re.compile(r"-?\d+(?:\.\d+)?")
    lines = [" ".join(line.split()) for line in shown.strip().splitlines()[1:] if line.strip()]
    assert len(lines) == 7
    for line in lines:
        form = numbers.sub("#", line)
        like = next(
            " ".join(other.split())
            for other in printed.splitlines()
            if form in numbers.sub("#", " ".join(other.split()))
        )
        # The last digits of an interval belong to the machine.
        assert [float(x) for x in numbers.findall(line)] == pytest.approx(
            [float(x) for x in numbers.findall(like)], rel=2e-3
        )


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path
    house = README.split("## The house")[1].split("Imports point")[0]
    for name in re.findall(r"^ {6}(\S+) ", house, re.MULTILINE):
        assert (ROOT / "cptlaw" / name).exists(), name
    for name in re.findall(r"^ {4}(\S+/) ", house, re.MULTILINE):
        assert (ROOT / name).exists(), name


def test_gallery_shows_every_figure_and_its_pictures_exist():
    """`examples/gallery.py` makes the page; a new figure function belongs there too."""
    from cptlaw.reporting import figures

    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in set(figures.__all__) - {"Figure"}:
        assert f"cl.figures.{name}(" in page, name
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page)
    assert len(pictures) == len(figures.__all__) - 1
    for path in pictures:
        assert (ROOT / "docs" / path).exists(), path
    kept = list((ROOT / "docs" / "figures").iterdir())
    assert {path.name for path in kept} == {Path(path).name for path in pictures} | {"story.png"}
    assert sum(path.stat().st_size for path in kept) < 1.5e6


def test_public_names_are_the_promised_ones():
    """A change here is a change of the interface: say so in CHANGELOG.md."""
    names = """
        Answer
        Check
        CptlawError
        DataError
        Finding
        Fit
        FitError
        Law
        Report
        Runs
        Scores
        Seal
        UsageError
        answer
        app
        check
        compare
        examples
        figures
        fit
        fit_out_of_domain
        fit_shift
        forecast
        forecast_run
        given_fit
        import_logs
        law
        load_fit
        load_seal
        plan
        read_runs
        register
        report
        score
        shift_of_runs
        suggest
        write_pilots
    """
    assert set(cptlaw.__all__) == set(names.split())
    for name in cptlaw.__all__:
        assert getattr(cptlaw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cptlaw.nothing  # noqa: B018
