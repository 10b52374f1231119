"""What keeps the house small: files that can be read in one go, few parameters, and a start without heavy imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cptlaw

PACKAGE = Path(cptlaw.__file__).parent
LINES, PARAMETERS = 400, 7
HEAVY = ("scipy.signal", "scipy.stats", "scipy.optimize")

# What is still over the limit. A file or a function leaves these lists for good when it is brought below.
LONG_FILES: set[str] = set()
WIDE_FUNCTIONS = {
    "cptlaw.integrations.huggingface.TrainerCallback.__init__",
}


def functions(tree, prefix):
    """Public functions and methods with their number of named parameters; `self`, * and ** do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node, f"{prefix}.{node.name}")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            given = node.args
            names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            yield f"{prefix}.{node.name}", len([name for name in names if name not in ("self", "cls")])


def sources():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE.parent).as_posix(), path.read_text(encoding="utf-8")


def test_files_can_be_read_in_one_go():
    long = {name for name, text in sources() if text.count("\n") > LINES}
    assert long <= LONG_FILES


def test_functions_take_few_parameters():
    wide = set()
    for path, text in sources():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        wide |= {name for name, count in functions(ast.parse(text), module) if count > PARAMETERS}
    assert wide <= WIDE_FUNCTIONS


@pytest.mark.parametrize(
    "start",
    [
        "import cptlaw; cptlaw.fit",
        "import cptlaw; cptlaw.compare",
        "import cptlaw; cptlaw.forecast_run",
        "import cptlaw; cptlaw.plan; cptlaw.suggest",
        "from cptlaw.laws import LAWS; list(LAWS)",
        "import cptlaw.cli as c; c.main(['laws'])",
        "import cptlaw.cli as c; c.main(['--help'])",
    ],
)
def test_start_is_light(start):
    """In a fresh process nothing heavy is loaded before it is used."""
    program = f"import sys\ntry:\n    {start}\nexcept SystemExit:\n    pass\nfinally:\n    print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = ended.stdout.split()
    assert "cptlaw" in loaded
    assert [name for name in HEAVY if name in loaded] == []
