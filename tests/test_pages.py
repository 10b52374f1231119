"""Every block of code of every page runs and prints what stands under it, or is marked as shown."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from facts import refused

ROOT = Path(__file__).parents[1]


def load(name):
    """Import a script of the folder docs."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run_pages = load("run_pages")
Session = run_pages.Session


@pytest.mark.dear("a page runs all that it shows")
@pytest.mark.parametrize("page", run_pages.pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_shows_what_its_code_does(page):
    """`python docs/run_pages.py --write PAGE` writes what the code prints; read it before you keep it."""
    sessions = []

    def session(folder):
        sessions.append(Session(folder))
        return sessions[-1]

    with pytest.MonkeyPatch.context() as patched:  # of its own: fits that pages have in common are made once
        patched.setenv("COLUMNS", "110")
        patched.setattr(run_pages, "Session", session)
        run_pages.check_page(page)
    if page.with_suffix(".ipynb").exists():  # its cells are the page's (next test): their answers show themselves there
        assert sessions[0].shown_as_html >= 4


def test_the_notebook_is_the_tutorial():
    """One source: `python docs/run_pages.py --write docs/tutorial.md` writes both."""
    written = (ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8")
    made = run_pages.notebook((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert json.loads(written) == json.loads(made)


def page(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\n1 + 1\n```\n\n```text\n3\n```\n", "the code prints\n  2"),
        ("```bash\ncptlaw laws chinchilla\n```\n\n```text\nkaplan\n```\n", "the page shows"),
        ("```bash\nls\n```\n", "no command of cptlaw"),
        ("    cptlaw laws\n", "neither run nor marked"),
        ("<!-- shown: a reason -->\n\n    cptlaw fit runs.csv --lawn x\n", "has no --lawn"),
        ("<!-- all shown: a reason -->\n\n    cptlaw plan no-plan\n", "has no no-plan"),
        ("<!-- shown: a reason -->\n\n    cptlaw guess\n", "no verb guess"),
        ("<!-- shown: a reason -->\n\n    python -m studies nothing\n", "no study nothing"),
        ("<!-- shown: a reason -->\n\n    make nothing\n", "no target nothing"),
        ("<!-- shown: a reason -->\n\n    cl.nothing(runs)\n", "no cl.nothing"),
    ],
)
def test_a_page_that_shows_something_else_is_refused(tmp_path, text, message):
    with pytest.raises(run_pages.DiffersError, match=re.escape(message)):
        run_pages.check_page(page(tmp_path, text))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of its own with one result file."""
    folder = tmp_path / "studies" / "results"
    folder.mkdir(parents=True)
    table = {"columns": ["law", "error"], "rows": [["a", "1.27 %"], ["b", "-"]]}
    held = {"command": "python -m studies guess --write", "tables": {"all": table}}
    (folder / "guess.json").write_text(json.dumps(held), encoding="utf-8")
    monkeypatch.setattr(run_pages, "ROOT", tmp_path)
    return "`python -m studies guess --write`\n\n<!-- table: guess/all -->\n{}<!-- end -->\n"


def test_a_table_of_a_study_is_filled_in_and_held(tmp_path, results):
    shown = results.format("| law | error |\n| --- | ---: |\n| a | 1.27 % |\n| b | - |\n") + "\nIt errs by 1.3 %.\n"
    empty = page(tmp_path, shown.replace("| a | 1.27 % |", "| a | 1.28 % |"))
    with pytest.raises(run_pages.DiffersError, match="not those of studies/results"):
        run_pages.check_page(empty)
    assert run_pages.check_page(empty, write=True) == shown
    assert run_pages.check_page(page(tmp_path, shown)) == shown


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("It errs by 1.4 %.", "1.4 stands in none"),
        ("It errs by 12 %.", "12 stands in none"),
        ("<!-- diary -->", "a diary stands in studies/"),
        ("<!-- table: guess/none -->\n<!-- end -->", "has no table none"),
        ("<!-- table: nothing/all -->\n<!-- end -->", "there is no studies/results/nothing.json"),
    ],
)
def test_a_number_that_no_result_file_holds_is_refused(tmp_path, results, added, message):
    with pytest.raises(run_pages.DiffersError, match=re.escape(message)):
        run_pages.check_page(page(tmp_path, f"{results.format('')}\n{added}\n"), write=True)
    given = "<!-- given: 1.4, 12: the paper says so -->\nThe paper has 1.4 and 12 %, in `x = 9.9`.\n"
    run_pages.check_page(page(tmp_path, f"{results.format('')}\n{given}"), write=True)
    with refused(run_pages.DiffersError, "command"):
        run_pages.check_page(page(tmp_path, results.format("").replace("python -m studies", "")), write=True)


def test_what_a_page_may_leave_open(tmp_path):
    """Last digits, what follows three dots, and blocks that hold no code."""
    text = """
```python
print(1.2345)
print("more")
```

```text
1.2346
...
```

```csv title="a.csv"
x
1
```

```python
from pathlib import Path

Path("a.csv").read_text().split()
```

```text
['x', '1']
```
"""
    assert run_pages.check_page(page(tmp_path, text)) == text


def test_writing_a_page_gives_what_its_code_prints(tmp_path):
    text = "```python\n1 + 1\n```\n\n```text\n```\n"
    assert run_pages.check_page(page(tmp_path, text), write=True) == text.replace("```text\n", "```text\n2\n")
