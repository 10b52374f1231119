"""What the documents say is what the package does."""

import doctest
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import cptlaw
from cptlaw import plugins
from cptlaw.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_in_the_readme_runs():
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 5
    assert failed == 0


def test_the_commands_of_the_readme_are_those_of_the_site(tmp_path, monkeypatch):
    """The site's first page is run by tests/test_pages.py; the README shows the same commands and their first lines."""
    monkeypatch.chdir(tmp_path)
    screen = README.split("## What you can ask")[0]
    site = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^    (cptlaw .+?)(?: +#.*)?$", re.sub(r"\\\n\s*", "", screen))
    assert len(commands) == 4
    without_runs, *run_there = commands
    for command in run_there:
        assert re.search(rf"(?m)^{re.escape(command)} -q$", site), command
    assert "0.89 (0.87 to 0.91); measured: 0.874" in screen
    assert "0.89 nats per token, 90% interval of a measured loss 0.87 to 0.91" in site
    shown = screen.split("    How to continue")[1].split("**At real scale**")[0].strip().splitlines()
    like = site.split("How to continue")[1].splitlines()
    assert [line.strip() for line in shown] == [line.strip() for line in like[: len(shown)]]
    assert shown[-1].strip().startswith("without replay")  # all choices, and not the first lines alone
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(without_runs)[1:])
    assert not ended.value.code


def test_the_first_screen_says_what_it_is_shows_it_and_has_the_two_commands():
    first = README.split("**What goes in**")[0]
    assert len(first.split()) <= 140
    assert [
        first.index(one) for one in ("docs/figures/real_scale.png", "make demo", "make test", "pip install")
    ] == sorted(first.index(one) for one in ("docs/figures/real_scale.png", "make demo", "make test", "pip install"))
    assert README.index("| run | eval | loss |") < README.index("    cptlaw answer")


def test_the_address_of_the_repository_stands_in_one_place():
    """Set in pyproject.toml it is in README and CITATION.cff too; until then the README installs from the clone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.get("repository-code", "") == address
    assert (f"pip install git+{address}" if address else "from this clone") in README
    (bibtex,) = re.findall(r"version = \{([^}]+)\}", README)
    assert bibtex == citation["version"]


def test_the_readme_is_short():
    assert len(README.split()) <= 1000  # a picture, a table, real scale, times and BibTeX among them


def test_the_site_is_twenty_six_thousand_words():
    """What is longer is a laboratory's page, and stands in studies/; a word has a letter or a digit.

    Nine of its pages are for one trainer each, of which a reader opens one.
    """
    pages = (ROOT / "docs").rglob("*.md")
    assert sum(len(re.findall(r"[^\s|]*\w[^\s|]*", path.read_text(encoding="utf-8"))) for path in pages) <= 26_000


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path


def test_what_programs_are_pointed_to_exists_and_every_trainer_has_its_page():
    """llms.txt and the skill name each page of a trainer, and commands that there are (`docs/run_pages.py`)."""
    skill = (ROOT / "skills" / "cptlaw" / "SKILL.md").read_text(encoding="utf-8")
    listed = (ROOT / "llms.txt").read_text(encoding="utf-8")
    front = yaml.safe_load(skill.split("---")[1])
    assert front["name"] == "cptlaw"
    assert len(front["description"]) <= 1024
    named = {"llms.txt": re.findall(r"\]\(([^)]+)\)", listed), "skill": re.findall(r"`(\S+\.md)`", skill)}
    trainers = {f"docs/trainers/{path.name}" for path in (ROOT / "docs" / "trainers").glob("*.md")}
    for where, paths in named.items():
        assert [path for path in paths if not (ROOT / path).exists()] == [], where
        assert trainers - {"docs/trainers/index.md"} <= set(paths), where


@pytest.mark.dear("a fit and a forecast are recorded call by call")
def test_contributing_draws_every_room_and_follows_the_code_that_runs():
    ran = subprocess.run([sys.executable, "docs/followed.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert page.split("<!-- followed -->\n")[1].split("<!-- end followed -->")[0] == ran.stdout.removesuffix("\n")
    rooms = {path.parent.name for path in (ROOT / "cptlaw").glob("*/__init__.py")}
    assert rooms == set(re.findall(r"<b>(\w+)</b>", page))


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
    others = {
        "none_to_many.png",
        "story.png",
        "real_scale.png",
        "real_scale_narrow.png",
        "tutorial-fit.png",
        "tutorial-plan.png",
    }
    assert {path.name for path in kept} == {Path(path).name for path in pictures} | others
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
        Reading
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
        read
        read_runs
        register
        report
        score
        shift_of_runs
        suggest
        write_pilots
    """
    beside = {
        name
        for name, entry in plugins.plugin_entries(plugins.FUNCTIONS).items()
        if entry.value.startswith(("cptlaw_curves", "cptlaw_published"))
    }
    assert {*cptlaw.__all__, *beside} == set(names.split())
    assert {"app", "export", "sweep"} <= set(dir(cptlaw))  # which other packages join
    for name in dir(cptlaw):
        assert getattr(cptlaw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cptlaw.nothing  # noqa: B018
