"""What keeps the house small: one budget of code, imports that point one way, open signatures, a light start."""

import ast
import collections
import graphlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cptlaw

ROOT = Path(cptlaw.__file__).parents[1]
PACKAGES = ("cptlaw", "cptlaw_app", "cptlaw_curves", "cptlaw_published", "cptlaw_scores", "cptlaw_sweep")
# What packages beside the core may import of it, and all that they may: `import cptlaw as cl`, and names of these.
PUBLIC = {
    "cptlaw",
    "cptlaw.cli",
    "cptlaw.cli.grouped",
    "cptlaw.cli.options",
    "cptlaw.cli.output",
    "cptlaw.commands",
    "cptlaw.errors",
    "cptlaw.examples",
    "cptlaw.findings",
    "cptlaw.reading",
    "cptlaw.result",
    "cptlaw.runs",
    "cptlaw.schedules",
    "cptlaw.units",
    "cptlaw.version",
    "cptlaw.writing",
}
HEAVY = ("scipy.signal", "scipy.stats", "scipy.optimize")

# Code lines without docstrings, comments, blanks and imports, of the core and of all packages. Both only go down:
# whoever makes the house smaller lowers them, and whoever adds a piece has SLACK before anything fails.
CORE, ALL, SLACK = 29000, 40150, 300
POSITIONAL = 6  # parameters that may be given by place; options are named
UNTYPED = 249  # annotations of arguments, results and variables that hold `Any`; it goes down with what is typed
SENTENCES = 48  # assertions on four plain words of a message or more: codes, numbers and options leave words free
WORD = re.compile(r"(?<!\S)[(\"'`]*[A-Za-z][a-z]*(?:[-'][a-z]+)*[)\"'`.,:;?!\\]*(?!\S)")
# Doors that load on first use, and folders whose every file counts; nobody names a room above its own.
IMPORT_BY_NAME = {
    "cptlaw_scores.laws.score_law",
    "cptlaw",
    "cptlaw.importing.reader",
    "cptlaw_sweep.integrations",
    "cptlaw.laws.registry",
    "cptlaw.planning",
    "cptlaw.reporting.figures",
    "cptlaw_sweep.sweep",
}


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def module_of(path):
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def code_lines(text):
    """How many lines of a module are code: no docstring, comment, blank or import."""
    skip = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skip |= set(range(node.lineno, node.end_lineno + 1))
        body = getattr(node, "body", None)
        defines = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (
            defines
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(getattr(body[0].value, "value", None), str)
        ):
            skip |= set(range(body[0].lineno, body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if n not in skip and line.strip() and not line.strip().startswith("#"))


def room_of(module):
    parts = module.split(".")
    if parts[0] != "cptlaw":
        return parts[0]  # a package beside the core
    folder = len(parts) > 1 and (ROOT / "cptlaw" / parts[1]).is_dir()
    return parts[1] if folder else "words, files, results"


def test_the_house_does_not_grow():
    lines = {path: code_lines(text) for path, text in sources()}
    core = sum(count for path, count in lines.items() if path.startswith("cptlaw/"))
    for what, now, most in (("the core", core, CORE), ("all packages", sum(lines.values()), ALL)):
        assert now <= most + SLACK, (
            f"{what}: {now} code lines, {now - most} more than is set here. Look for what your change replaces "
            "and remove it, or move what few need into a package beside the core (CONTRIBUTING.md, The house)."
        )


def test_what_counts_as_code():
    assert (
        code_lines('"""Words."""\nimport os\n\n\ndef f():\n    """More\n    words."""\n    # why\n    return os\n') == 2
    )


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


@pytest.fixture(scope="module")
def below():
    """Module -> modules that it imports, of this package."""
    modules = {module_of(path): ast.parse(text) for path, text in sources()}
    return {
        name: {known if known in modules else known.rpartition(".")[0] for known in imported(tree)}
        & modules.keys() - {name}
        for name, tree in modules.items()
    }


def test_no_circle_of_imports_is_hidden_in_functions(below):
    """Whoever reads a module can read it with those below it, and never has to know one that imports it."""
    graphlib.TopologicalSorter(below).prepare()  # raises CycleError, with the circle


def test_what_trains_and_what_shows_import_public_names_of_the_core_alone():
    """The rooms of laws beside the core (curves, scores, published laws) stand on its laws and fits themselves."""
    for path, text in sources():
        if path.startswith(("cptlaw_app/", "cptlaw_sweep/")):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "cptlaw":
                    assert node.module in PUBLIC or f"{node.module}.{node.names[0].name}" in PUBLIC, (path, node.lineno)
                    assert not [name.name for name in node.names if name.name.startswith("_")], (path, node.lineno)
                if isinstance(node, ast.Import):
                    assert {name.name for name in node.names if name.name.startswith("cptlaw.")} <= PUBLIC, path


def test_few_places_import_by_name():
    """What no reader of imports can follow stands in a few doors alone."""
    by_name = {module_of(path) for path, text in sources() if "import_module(" in text}
    assert by_name <= IMPORT_BY_NAME


def test_no_room_names_a_room_above_its_own(below):
    """A string such as ``"cptlaw.reporting.plots"`` is an import that no contract sees."""
    rooms = collections.defaultdict(set)
    for name, others in below.items():
        rooms[room_of(name)] |= {room_of(other) for other in others}

    def under(room, seen):
        for other in rooms[room] - seen:
            under(other, seen | {other})
            seen |= {other}
        return seen

    upward = []
    for path, text in sources():
        module = module_of(path)
        if module == "cptlaw":
            continue
        for node in ast.walk(ast.parse(text)):
            named = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if re.fullmatch(r"cptlaw(\.\w+)+", named) and named in below:
                room, other = room_of(module), room_of(named)
                if other != room and room in under(other, {other}):
                    upward.append((module, named))
    assert upward == []


def functions(tree, prefix):
    """Public functions and methods with what of them may be given by place; `self` does not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node, f"{prefix}.{node.name}")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
            yield f"{prefix}.{node.name}", len(names)


def test_functions_take_few_parameters_by_place():
    wide = set()
    for path, text in sources():
        wide |= {name for name, count in functions(ast.parse(text), module_of(path)) if count > POSITIONAL}
    assert wide == set()


def test_verbs_spell_out_their_options_and_say_what_they_return():
    verbs = {name: getattr(cptlaw, name) for name in cptlaw.__all__ if inspect.isfunction(getattr(cptlaw, name))}
    shapes = {name: inspect.signature(verb) for name, verb in verbs.items()}
    hidden = {name for name, shape in shapes.items() if any(p.kind is p.VAR_KEYWORD for p in shape.parameters.values())}
    assert hidden == {"law"}  # whose options are those of the law that is asked for
    assert {name for name, shape in shapes.items() if shape.return_annotation in ("Any", shape.empty)} == set()
    assert {"fix", "restraint", "seed"} <= set(shapes["fit"].parameters)


def test_what_is_typed_stays_typed():
    """An annotation that holds `Any` is read by nobody: neither an editor nor mypy says what may be given."""
    count = 0
    for _, text in sources():
        for node in ast.walk(ast.parse(text)):
            told = [getattr(node, name, None) for name in ("annotation", "returns")]
            count += sum("Any" in {getattr(one, "id", "") for one in ast.walk(each)} for each in told if each)
    assert count <= UNTYPED


def test_tests_assert_codes_and_numbers_and_few_sentences():
    """A message that many tests quote is never said better."""
    asserted = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_match = isinstance(node, ast.keyword) and node.arg == "match"
            told = node.value if is_match else node.test if isinstance(node, ast.Assert) else None
            texts = [getattr(one, "value", None) for one in ast.walk(told)] if told else []
            asserted += [text for text in texts if isinstance(text, str) and len(WORD.findall(text)) > 3]
    assert len(asserted) <= SENTENCES


@pytest.mark.parametrize(
    "start",
    [
        "import cptlaw; cptlaw.fit",
        "import cptlaw; cptlaw.answer",
        "import cptlaw; cptlaw.compare",
        "import cptlaw; cptlaw.forecast_run",
        "import cptlaw; cptlaw.plan; cptlaw.suggest",
        "from cptlaw.laws import LAWS; list(LAWS)",
        "import cptlaw as cl; cl.fit('ptpp-floor', cl.examples.load('en-fr-pilot'), on='target').forecast('"
        "n_params=124672,ptpp=279,tokens=4M,replay=25%')",
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
