"""Run a study by its name: ``python -m studies NAME``; without a name, list them."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def studies() -> dict[str, Path]:
    """Return what can be run: name -> file, those that end in a call of themselves."""
    files = sorted(path for path in FOLDER.glob("*/*.py") if "__main__" in path.read_text(encoding="utf-8"))
    return {path.stem: path for path in files}


def summary(path: Path) -> str:
    """Return the first line of a study's own words."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


def main(words: list[str]) -> int:
    """Run the study that the first word names, with the others as its arguments."""
    known = studies()
    if not words:
        for folder in dict.fromkeys(path.parent for path in known.values()):
            print(f"\n{folder.name}: {summary(folder / '__init__.py')}")
            for name, path in known.items():
                if path.parent == folder:
                    print(f"  {name:24} {summary(path)}")
        print("\nresults: which result files are out of date, and to make them anew")
        return 0
    name, *rest = words
    if name == "results":
        from studies.remake import main as results

        return results(rest)
    if name not in known:
        print(f"there is no study {name!r}; `python -m studies` lists them", file=sys.stderr)
        return 2
    module = f"studies.{known[name].parent.name}.{name}"
    if "--write" in rest:  # a result file says with which code and tables it was made
        from studies.provenance import code_at_start, watch

        watch()
        code_at_start(module)
    sys.argv = [str(known[name]), *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
