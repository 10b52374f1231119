"""Runs the code on the pages, and holds what it prints against what stands there.

    python docs/run_pages.py docs/tutorial.md            says where a page differs from what its code does
    python docs/run_pages.py --write docs/tutorial.md    writes what the code prints into the page (and its notebook)
    python docs/run_pages.py --tables                    writes the tables of result files alone, and runs no code

A page is one session: its blocks run from top to bottom in one empty folder.

- ```` ```bash ````: commands of cptlaw, and ``NAME=$(cptlaw ..)``.
- ```` ```python ````: runs; the value of a last expression is shown, as in a notebook.
- ```` ```text ```` right below one of these: what it prints. Numbers may differ in their last digit; a line ``...``
  leaves out all lines up to the next one that begins like the line below it, or the rest.
- ```` ```csv title="runs.csv" ````: a file, written before the next block runs.
- ``<!-- shown: REASON -->`` above a block, or ``<!-- all shown: REASON -->`` anywhere on a page: not run. The verbs,
  flags, files and public names in it are still looked up, so that it cannot name what is not there.
- ``<!-- table: NAME/KEY -->`` to ``<!-- end -->``: a table of ``studies/results/NAME.json``, which the command in that
  file writes and the page names; the site says above a page which of its files are out of date. On a page with one, a
  number with decimals or a per cent sign stands in one of its files, to the digits shown, or is listed with its reason
  in ``<!-- given: NUMBERS: REASON -->``; a page whose tables stand elsewhere names the files of its numbers in
  ``<!-- held: NAME NAME -->``. What stands below
  ``<!-- diary -->`` was true on its day, and is held by nothing: pages of ``studies/`` alone may end in one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

import cptlaw
from cptlaw.cli import commands, main
from cptlaw.errors import CptlawError

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?")
SHOWN = re.compile(r"<!--\s*(all )?shown:\s*(.+?)\s*-->", re.S)
TABLE = re.compile(r"(<!-- table: (\w+)/([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)
GIVEN = re.compile(r"<!-- given: (.+?): .+? -->", re.S)
HELD = re.compile(r"<!-- held: ([\w ]+?) -->")
DIARY = "<!-- diary -->"
NOT_PROSE = re.compile(r"```.*?```|^    .*?$|`[^`]*`|\]\([^)]*\)|<!--.*?-->|arXiv:\S+", re.S | re.M)
MEASURED = re.compile(r"(?<![\w.,-])\d*\.\d+\b|(?<![\w.,-])\d[\d.]*(?= %)")
NUMERIC = re.compile(
    r"([-+]?[\d.,]+\S*( .{0,28})?|-|not measured|nan|inf)?"
)  # cells of a column that is set to the right
ANY_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+")
REST = "..."
CLOSE = 0.01  # relative difference of two numbers that counts as none: last digits belong to the machine


@dataclass
class Block:
    """A block of code of a page.

    Attributes
    ----------
    language, title
        What its fence says; the language is empty for indented blocks.
    code
        Its text.
    line
        Where it starts, counted from 1.
    shown
        Why it is not run; ``None`` where it is.
    output
        What stands below it as its output, with the lines of that block, from and to.
    """

    language: str
    title: str
    code: str
    line: int
    shown: str | None
    output: tuple[str, int, int] | None = None


class DiffersError(AssertionError):
    """What a page shows is not what its code does."""


def blocks(text: str) -> list[Block]:
    """Return the blocks of code of a page, in their order."""
    page = next((match[2] for match in SHOWN.finditer(text) if match[1]), None)
    found: list[Block] = []
    mark, after = None, -1
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "html_block":
            match = SHOWN.search(token.content)
            mark = match[2] if match and not match[1] else mark
            continue
        if token.type not in ("fence", "code_block") or token.map is None:
            if token.type in ("heading_open", "fence"):
                mark = None
            continue
        first, last = token.map
        words = token.info.split(maxsplit=1)
        language = words[0] if words else ""
        title = re.search(r'title="([^"]+)"', token.info)
        between = text.splitlines()[after:first] if after >= 0 else ["-"]
        below = bool(found) and not any(line.strip() for line in between) and found[-1].output is None
        if language == "text" and below and found[-1].language in ("bash", "python"):
            found[-1].output = (token.content, first + 1, last - 1)
            after = -1
            continue
        found.append(Block(language, title[1] if title else "", token.content, first + 1, mark or page))
        mark, after = None, last
    return found


@dataclass
class Session:
    """What the blocks of a page share: a folder, variables of the shell, and the names of Python."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    shown_as_html: int = 0  # values of last expressions that a notebook shows as a page, not as text

    def run(self, block: Block) -> str:
        """Run a block and return what it prints."""
        with contextlib.chdir(self.folder):
            if block.title:
                path = Path(block.title)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.code, encoding="utf-8")
                return ""
            if block.language == "bash":
                return "".join(self.shell(words) for words in command_lines(block.code))
            return self.python(block.code)

    def shell(self, line: str) -> str:
        """Run one command line."""
        assigned = re.fullmatch(r"(\w+)=\$\((.+)\)", line)
        if assigned:
            self.variables[assigned[1]] = self.shell(assigned[2]).strip()
            return ""
        words = [self._expanded(word) for word in shlex.split(line, comments=True)]
        if words[0] != "cptlaw":
            raise DiffersError(f"{line!r} is no command of cptlaw: mark the block with <!-- shown: reason -->")
        into = Path(words.pop()) if words[-2:-1] == [">"] else None  # `command > FILE`: what it prints goes there
        words = words[:-1] if into else words
        printed = io.StringIO()
        result = io.StringIO() if into else printed
        with contextlib.redirect_stdout(result), contextlib.redirect_stderr(printed):
            try:
                main(words[1:])
            except SystemExit as ended:
                code = ended.code
        text = printed.getvalue()
        if code not in (None, 0, 3):
            raise DiffersError(f"{line!r} ends with exit code {code}:\n{text}")
        if into:
            into.write_text(result.getvalue(), encoding="utf-8")
        return text

    def python(self, code: str) -> str:
        """Run statements, and return what they print and the value of a last expression."""
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "page", "exec"), self.names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "page", "eval"), self.names)
                self.shown_as_html += bool(getattr(value, "_repr_html_", str)())
                if value is not None and not hasattr(value, "to_plotly_json"):
                    print(value if isinstance(value, str) and "\n" in value else repr(value))
        return printed.getvalue()

    def _expanded(self, word: str) -> str:
        return re.sub(r"\$(\w+)", lambda match: self.variables[match[1]], word)

    def visible(self, text: str) -> str:
        """Return output without the folders of this machine; variables stand in quotes, for paths with a space."""
        for name, value in self.variables.items():
            text = text.replace(shlex.quote(value), f'"${name}"').replace(value, f'"${name}"')
        return text.replace(f"{self.folder}/", "")


def command_lines(code: str) -> Iterator[str]:
    """Yield the commands of a block, continued lines joined."""
    for line in re.sub(r"\\\n\s*", "", code).splitlines():
        if line.strip() and not line.strip().startswith("#"):
            yield line.strip()


def check_page(path: Path, write: bool = False) -> str:
    """Run a page, and return its text with what its code prints.

    Raises
    ------
    DiffersError
        If something else stands there, unless it is to be written.
    """
    text = path.read_text(encoding="utf-8")
    made = filled(text, path)
    if made != text and not write:
        raise DiffersError(
            f"{path.name}: its tables are not those of studies/results: python docs/run_pages.py --write"
        )
    text = made
    lines = text.splitlines()
    changes: list[tuple[int, int, list[str]]] = []
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        for block in blocks(text):
            if block.shown is not None:
                look_up(block, path)
                continue
            if not block.title and block.language not in ("bash", "python"):
                if block.language in ("", "console", "shell", "sh"):
                    raise DiffersError(
                        f"{path.name}, line {block.line}: neither run nor marked: <!-- shown: reason -->"
                    )
                continue
            try:
                printed = session.visible(session.run(block)).rstrip()
            except (DiffersError, CptlawError) as error:
                raise DiffersError(f"{path.name}, line {block.line}: {error}") from None
            if block.output is None:
                continue
            expected, first, last = block.output
            shown = cut(printed, expected)
            if write:
                changes.append((first, last, shown))
            else:
                compare(shown, expected.rstrip().splitlines(), f"{path.name}, line {first + 1}")
    for first, last, shown in reversed(changes):
        lines[first:last] = shown
    return "\n".join(lines) + "\n"


def cut(printed: str, expected: str) -> list[str]:
    """Return the lines of an output that a page shows, with a line ``...`` for each part that it leaves out."""
    lines = [line.rstrip() for line in printed.splitlines()]
    kept = expected.rstrip().splitlines()
    if not any(line.strip() == REST for line in kept):
        return lines
    shown, place = [], 0
    for line, below in zip(kept, [*kept[1:], ""], strict=True):
        if line.strip() == REST:
            shown.append(line)
            beginnings = [_beginning(one) for one in lines[place:]]
            place += beginnings.index(_beginning(below)) if below and _beginning(below) in beginnings else 0
        else:
            shown += lines[place : place + 1]
            place += 1
    return shown


def _beginning(line: str) -> str:
    """Return what a line is known by: its label, in columns that are two spaces apart."""
    return NUMBER.sub("#", re.split(r"\s{2,}", line.strip())[0])


def compare(found: list[str], expected: list[str], where: str) -> None:
    """Hold an output against what a page shows, numbers to their last digit.

    Raises
    ------
    DiffersError
        With both lines.
    """
    for new, old in zip(found, expected, strict=False):
        same_words = " ".join(NUMBER.sub("#", new).split()) == " ".join(NUMBER.sub("#", old).split())
        numbers = zip(NUMBER.findall(new), NUMBER.findall(old), strict=False)
        if not same_words or not all(_close(a, b) for a, b in numbers):
            raise DiffersError(f"{where}: the page shows\n  {old}\nand the code prints\n  {new}")
    if len(found) != len(expected):
        count = f"the page shows {len(expected)} lines, the code prints {len(found)}"
        raise DiffersError(f"{where}: {count}:\n" + "\n".join(found))


def _close(a: str, b: str) -> bool:
    x, y = (float(text.rstrip("%").replace(",", "")) for text in (a, b))
    digits = len(b.rstrip("%").partition("e")[0].partition(".")[2])
    rounded = "e" not in b and (digits > 0 or b.endswith("%"))  # not a count, which is right or wrong
    return abs(x - y) <= max(CLOSE * max(abs(x), abs(y)), 1.01 * 10.0**-digits if rounded else 0.0)


# -- numbers that studies found ----------------------------------------------------------------------------------------


def result(name: str) -> dict[str, Any]:
    """Return a result file: the command that wrote it, and its tables.

    Raises
    ------
    DiffersError
        If there is none.
    """
    file = ROOT / "studies" / "results" / f"{name}.json"
    _expect(file.exists(), f"there is no studies/results/{name}.json")
    held: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return held


def results_of(text: str) -> list[str]:
    """Return the names of the result files of a page."""
    held = [name for match in HELD.finditer(text) for name in match[1].split()]
    return list(dict.fromkeys([match[2] for match in TABLE.finditer(text)] + held))


def filled(text: str, path: Path) -> str:
    """Return a page with its tables as the result files hold them, its numbers held against these.

    Raises
    ------
    DiffersError
        If a file or table is not there, the page does not name the command that wrote it, or a number stands in none.
    """
    made = with_tables(text, path)
    used = {name: result(name) for name in results_of(text)}
    if used:
        _hold_prose(made, used, path)
    return made


def with_tables(text: str, path: Path) -> str:
    """Return a page with its tables as the result files hold them.

    Raises
    ------
    DiffersError
        If a file or table is not there, or the page does not name the command that wrote it.
    """
    used: dict[str, dict[str, Any]] = {match[2]: result(match[2]) for match in TABLE.finditer(text)}
    for name, held in used.items():
        _expect(held["command"] in text, f"{path.name}: does not name the command of {name}: {held['command']}")

    def table(match: re.Match[str]) -> str:
        tables = used[match[2]]["tables"]
        _expect(match[3] in tables, f"{path.name}: {match[2]} has no table {match[3]}, it has {', '.join(tables)}")
        return f"{match[1]}{markdown_table(**tables[match[3]])}\n{match[5]}"

    return TABLE.sub(table, text)


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown, columns of numbers to the right."""
    bare = [[cell.strip("*~<> ") for cell in column] for column in zip(*rows, strict=True)]
    right = [all(NUMERIC.fullmatch(cell) for cell in column) for column in bare]
    lines = [columns, ["---:" if number else "---" for number in right], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _hold_prose(text: str, used: dict[str, dict[str, Any]], path: Path) -> None:
    held = {
        float(found.replace(",", ""))
        for one in used.values()
        for found in ANY_NUMBER.findall(json.dumps(one["tables"]))
    }
    held |= {float(found) for match in GIVEN.finditer(text) for found in ANY_NUMBER.findall(match[1])}
    prose, *diary = text.split(DIARY)
    _expect(not diary or path.parent.name == "studies", f"{path.name}: a diary stands in studies/, not on the site")
    for line in NOT_PROSE.sub(" ", TABLE.sub(" ", prose)).splitlines():
        for found in MEASURED.findall(line):
            half = 0.501 * 10.0 ** -len(found.partition(".")[2])
            near = any(abs(float(found) - value) <= half for value in held)
            _expect(near, f"{path.name}: {found} stands in none of its result files: {line.strip()}")


# -- blocks that are shown ---------------------------------------------------------------------------------------------


def look_up(block: Block, path: Path) -> None:
    """Look up the verbs, flags, scripts, targets and public names that a block names.

    Raises
    ------
    DiffersError
        If one is not there.
    """
    for line in command_lines(block.code):
        where = f"{path.name}, near line {block.line}: {line!r}"
        words = re.split(r"\s+", line.removeprefix("$ "))
        if words[0] == "cptlaw" and len(words) > 1:
            _look_up_verb(words[1:], where)
        named = re.search(r"python -m studies (\w+)", line)
        if named:
            known = named[1] == "results" or any((ROOT / "studies").glob(f"*/{named[1]}.py"))
            _expect(known, f"{where}: there is no study {named[1]}")
        script = re.search(r"python (examples/\S+\.py)", line)
        if script:
            _expect((ROOT / script[1]).exists(), f"{where}: there is no {script[1]}")
        target = re.match(r"make ([\w-]+)", line)
        if target:
            known = (ROOT / "Makefile").read_text(encoding="utf-8")
            _expect(re.search(rf"^{target[1]}:", known, re.M) is not None, f"{where}: make has no target {target[1]}")
        for name in re.findall(r"\bcl\.(\w+(?:\.\w+)?)\(", line):
            _look_up_name(name, where)


def _look_up_verb(words: list[str], where: str) -> None:
    if words[0].startswith("-"):
        return
    known: Any = next((one for one in commands() if one.name == words[0]), None)
    _expect(known is not None, f"{where}: there is no verb {words[0]}")
    under = getattr(known, "commands", {})
    if under and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
        _expect(words[1] in under, f"{where}: {words[0]} has no {words[1]}")
        known = under[words[1]]
    flags = {flag for option in known.params for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    for word in words:
        flag = re.match(r"(--[a-z][a-z-]*|-[a-zA-Z])(?=$|[=\]|,)])", word.lstrip("[("))
        _expect(flag is None or flag[1] in flags, f"{where}: {known.name} has no {flag and flag[1]}")


def _look_up_name(name: str, where: str) -> None:
    value: Any = cptlaw
    for part in name.split("."):
        _expect(hasattr(value, part), f"{where}: there is no cl.{name}")
        value = getattr(value, part)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DiffersError(otherwise)


# -- the notebook ------------------------------------------------------------------------------------------------------


def notebook(text: str) -> str:
    """Return a page as a notebook: its Python as cells of code with their output, all else as text."""
    import nbformat

    cells, start, lines = [], 0, text.splitlines()
    for block in [one for one in blocks(text) if one.language == "python" and one.shown is None]:
        end = block.line + len(block.code.splitlines()) + 1
        cells += _prose(lines[start : block.line - 1])
        printed = [] if block.output is None else [nbformat.v4.new_output("stream", text=block.output[0])]
        cells.append(nbformat.v4.new_code_cell(block.code.rstrip(), outputs=printed))
        start = end if block.output is None else block.output[2] + 1
    cells += _prose(lines[start:])
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"  # random ones would make every writing a change
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.writes(book) + "\n"


def _prose(lines: list[str]) -> list[Any]:
    import nbformat

    text = re.sub(r"<!--.*?-->\n?", "", "\n".join(lines), flags=re.S).strip()
    return [nbformat.v4.new_markdown_cell(text)] if text else []


def pages() -> list[Path]:
    """Return the pages whose code is run or looked up."""
    top = [ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").glob("*.md"))]


def run() -> None:
    """Check the pages that are named, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path, help="all of them where none is named")
    parser.add_argument("--write", action="store_true", help="write what the code prints into the pages")
    parser.add_argument("--tables", action="store_true", help="write the tables of result files, and run no code")
    given = parser.parse_args()
    failed = False
    for path in given.pages or pages():
        try:
            if given.tables:
                text = path.read_text(encoding="utf-8")
                path.write_text(with_tables(text, path), encoding="utf-8")
                filled(text, path)
                continue
            text = check_page(path, given.write)
        except DiffersError as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        if given.write:
            path.write_text(text, encoding="utf-8")
            if path.with_suffix(".ipynb").exists():
                path.with_suffix(".ipynb").write_text(notebook(text), encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "110")
    run()
