"""The page of findings names every code that the package can give, and no other."""

import ast
import re
from pathlib import Path

from cptlaw.planning.scenario import REFERENCES

ROOT = Path(__file__).parents[1]


def codes_in_the_source():
    found = set()
    for path in ROOT.glob("cptlaw*/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_finding = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
            if is_finding and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
                found.add(node.args[1].value)
    return found


def test_every_code_is_explained():
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    explained = {
        code
        for row in page.splitlines()
        if row.startswith("| `")
        for code in re.findall(r"`([a-z-]+)`", row.split("|")[1])
    }
    codes = codes_in_the_source()
    assert len(codes) > 50
    assert codes - explained == set()
    assert explained - codes <= {f"reference-{kind}" for kind in REFERENCES}  # these are put together


def test_findings_name_no_option():
    """An option belongs into the remedy, which each surface writes in its own way."""
    named = []
    for path in (ROOT / "cptlaw").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                said = ast.get_source_segment(text, node)
                named += [f"{path.name}:{node.lineno}"] if re.search(r"(?<![\w-])--[a-z]|\b[a-z_]+= \(", said) else []
    assert named == []
