"""What keeps the house small: short files, few parameters, imports that point one way, and a light start."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import cptlaw

PACKAGE, TESTS = Path(cptlaw.__file__).parent, Path(__file__).parent
LINES, PARAMETERS = 400, 7
HEAVY = ("scipy.signal", "scipy.stats", "scipy.optimize")

# What is still over the limit. A file or a function leaves these lists for good when it is brought below.
LONG_FILES: set[str] = set()
WIDE_FUNCTIONS = {
    "cptlaw.integrations.huggingface.TrainerCallback.__init__",
}
IMPORT_BY_NAME = {
    "cptlaw",
    "cptlaw.importing.reader",
    "cptlaw.integrations",
    "cptlaw.laws.registry",
    "cptlaw.planning",
    "cptlaw.reporting.figures",
    "cptlaw.result",
    "cptlaw.training.sweep",
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
    tests = ((path.as_posix(), path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py"))
    long = {name for name, text in (*sources(), *tests) if text.count("\n") > LINES}
    assert long <= LONG_FILES


def module_of(path):
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(node):
    """What is imported when the program runs, in functions too, and not what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports name the whole path, so that this test can follow them"
            yield from (f"{child.module}.{name.name}" for name in child.names)
        yield from imported(child)


def test_no_circle_of_imports_is_hidden_in_functions():
    """Whoever reads a module can read it with those below it, and never has to know one that imports it."""
    modules = {module_of(path): ast.parse(text) for path, text in sources()}
    below = {
        name: {known if known in modules else known.rpartition(".")[0] for known in imported(tree)} & modules.keys()
        for name, tree in modules.items()
    }
    for name in below:
        below[name] -= {name}
    graphlib.TopologicalSorter(below).prepare()  # raises CycleError, with the circle


def test_few_places_import_by_name():
    """What no reader of imports can follow: doors that load on first use, and folders whose every file counts."""
    by_name = {module_of(path) for path, text in sources() if "import_module(" in text}
    assert by_name <= IMPORT_BY_NAME


def test_functions_take_few_parameters():
    wide = set()
    for path, text in sources():
        wide |= {name for name, count in functions(ast.parse(text), module_of(path)) if count > PARAMETERS}
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
