"""What the documents say is what the package does."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

import cptlaw
from cptlaw.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_in_the_readme_runs():
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 5
    assert failed == 0


def test_the_first_screen_of_the_readme_is_that_of_the_site(tmp_path, monkeypatch):
    """The site's first page is run by tests/test_pages.py; the README shows the same commands and their first lines."""
    monkeypatch.chdir(tmp_path)
    screen = README.split("## Your own table")[0]
    site = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^    (cptlaw .+?)(?: +#.*)?$", re.sub(r"\\\n\s*", "", screen))
    assert len(commands) == 4
    *run_there, without_runs = commands
    for command in run_there:
        assert re.search(rf"(?m)^{re.escape(command)} -q$", site), command
    assert "0.89 (0.87 to 0.91); measured: 0.874" in screen
    assert "0.89 nats per token, 90% interval of a measured loss 0.87 to 0.91" in site
    shown = screen.split("    How to continue")[1].split("The *target*")[0].strip().splitlines()
    like = site.split("How to continue")[1].splitlines()
    assert [line.strip() for line in shown] == [line.strip() for line in like[: len(shown)]]
    assert len(shown) == 10
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(without_runs)[1:])
    assert not ended.value.code


def test_the_readme_is_short():
    assert len(README.split()) <= 980  # a picture, real scale and times among them


def test_the_site_is_twenty_thousand_words():
    """What is longer is a laboratory's page, and stands in studies/; a word has a letter or a digit."""
    pages = (ROOT / "docs").rglob("*.md")
    assert sum(len(re.findall(r"[^\s|]*\w[^\s|]*", path.read_text(encoding="utf-8"))) for path in pages) <= 20_000


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path


def test_the_tree_in_the_readme_is_the_tree_on_disk():
    house = README.split("## The house")[1].split("Imports point")[0]
    named = set(re.findall(r"(\w+)/", re.sub(r"(?m)^(    \s*(?:\w+/ ?)+).*$", r"\1", house)))
    rooms = {path.parent.name for path in (ROOT / "cptlaw").glob("*/__init__.py")}
    assert rooms <= named
    assert {name for name in named if not (ROOT / "cptlaw" / name).is_dir() and not (ROOT / name).is_dir()} == set()


def test_gallery_shows_the_figures_of_its_example_and_its_pictures_exist():
    """`docs/gallery.py` makes the page: what it draws stands there, each with its picture."""
    from cptlaw.reporting import figures

    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"cl\.figures\.(\w+)\(", (ROOT / "docs" / "gallery.py").read_text(encoding="utf-8")))
    assert drawn <= set(figures.__all__)
    assert set(re.findall(r"cl\.figures\.(\w+)\(", page)) == drawn
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page)
    assert len(pictures) == len(drawn) >= 12
    for path in pictures:
        assert (ROOT / "docs" / path).exists(), path
    kept = list((ROOT / "docs" / "figures").iterdir())
    assert {path.name for path in kept} == {Path(path).name for path in pictures} | {"story.png", "real_scale.png"}
    assert sum(path.stat().st_size for path in kept) < 1.2e5 * len(kept)


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
        bases
        bench
        check
        bases
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
        plot
        read_runs
        register
        report
        score
        shift_of_runs
        suggest
        write_pilots
    """
    assert set(cptlaw.__all__) == set(names.split())
    assert {"app", "export", "sweep"} <= set(dir(cptlaw))  # which other packages join
    for name in dir(cptlaw):
        assert getattr(cptlaw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cptlaw.nothing  # noqa: B018
