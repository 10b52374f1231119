"""What the package says of itself in one place agrees with what it says in the others."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))


def recipe():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^\{%.*%\}$", "", text, flags=re.M)
    return yaml.safe_load(re.sub(r"\{\{\s*(\w+)\s*\}\}", r"\1", text))


def spelled(requirement):
    return re.sub(r"\s", "", requirement)


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for():
    found = recipe()
    needs = {spelled(item) for item in found["requirements"]["run"]}
    assert needs == {spelled(item) for item in PROJECT["project"]["dependencies"]} | {
        f"python{PROJECT['project']['requires-python']}"
    }
    host = {spelled(item) for item in found["requirements"]["host"]}
    assert {spelled(item) for item in PROJECT["build-system"]["requires"]} <= host
    entry = PROJECT["project"]["scripts"]["cptlaw"]
    assert found["build"]["entry_points"] == [f"cptlaw = {entry}"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_valid_and_runs_what_is_there(path):
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for job in found.get("jobs", {}).values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert "uses" in step or "run" in step
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert target in targets
            for script in re.findall(r"\bbash (\S+)", step.get("run", "")):
                assert (ROOT / script).exists()


def test_continuous_integration_runs_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    asked = re.findall(r"^(?:plain .*?)?make ([^.].*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    named = {word for line in asked for word in line.split("#")[0].split() if not word.startswith("-")}
    assert named >= {"lint", "types", "docs", "demo", "test"}
    assert named <= targets


def test_the_extras_that_messages_name_exist():
    extras = set(PROJECT["project"]["optional-dependencies"])
    for path in ROOT.glob("cptlaw*/**/*.py"):
        for name in re.findall(r"cptlaw\[([\w,]+)\]", path.read_text(encoding="utf-8")):
            assert set(name.split(",")) <= extras, f"{path}: {name}"


def test_the_wheel_holds_the_cards_of_the_example_tables():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["cptlaw"]
    for path in (ROOT / "cptlaw" / "examples").iterdir():
        if path.suffix in (".csv", ".md", ".json"):
            assert any(path.relative_to(ROOT / "cptlaw").match(pattern) for pattern in patterns)
