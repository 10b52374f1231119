"""The part of CONTRIBUTING.md that follows one forecast through the code: recorded, so that it stays true.

    python docs/followed.py           prints it
    python docs/followed.py --write   writes it into CONTRIBUTING.md

A fit and a forecast of the example runs are made by the command line, and each function that they enter is recorded.
`STEPS` says which of them a newcomer should read; one that is no longer entered, or not in this order, is an error.
"""

import argparse
import ast
import contextlib
import io
import itertools
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import cptlaw
from cptlaw.cli import main as command_line

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PART = re.compile(r"(<!-- followed -->\n)(.*?)(<!-- end followed -->)", re.S)

STEPS = {
    "fit": {
        "cli/fits.py fit": "The command line reads its options, calls one function of the library and prints.",
        "runs/read.py read_runs": "The table is read: what each column is, its units, what is open.",
        "runs/validate.py check_table": "Every row is checked. From here on it is a `Runs`.",
        "forecasting/verbs/fit_runs.py fit": "The verb, `cl.fit`: which eval, which law.",
        "laws/by_name.py law": "A law from its name and options.",
        "fitting/auto/fit_one.py fit_one": "One law on these rows, with its priors.",
        "fitting/solving/training_rows.py training_rows": "The rows and columns that the law reads.",
        "fitting/solving/varpro.py search": "Many starts; the amplitudes are solved for, the shapes are searched.",
        "fitting/solving/newton.py descend": "The best starts are polished.",
        "fitting/solving/identifiability.py rank": "How many parameters the rows determine.",
        "fitting/saved.py Saved.save": "The fit as a JSON file.",
        "fitting/uncertainty/inner_rollouts.py inner_rollouts": "Back-tests within the rows, kept in the file.",
    },
    "forecast": {
        "cli/forecasts.py forecast": "The second command.",
        "forecasting/verbs/forecast_points.py forecast": "The verb, `cl.forecast`.",
        "forecasting/verbs/load_file.py load_fit": "The file, checked and read back.",
        "laws/base.py Law.predict": "The law's equation at the asked points.",
        "fitting/checking/extrapolation.py extrapolations": "How far they lie from what was run.",
        "fitting/doubt.py half_widths": "The interval: parameters, noise, and distance from the rows.",
        "result.py as_text": "Answer, tables, findings, as the terminal shows them.",
    },
}


def recorded(words: list[str]) -> list[str]:
    """Return the functions of the package that a command enters, each once, in the order in which they are entered."""
    package, entered, known = Path(cptlaw.__file__).parent, dict[str, None](), dict[int, CodeType]()

    def record(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in known:
            return
        known[id(code)] = code  # kept, so that no other takes its place in memory
        path = Path(code.co_filename)
        if path.is_relative_to(package):
            entered[f"{path.relative_to(package).as_posix()} {code.co_qualname}"] = None

    sys.setprofile(record)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command_line(words)
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
    return list(entered)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the two commands that are followed."""
    fit, runs = str(folder / "target.json"), str(cptlaw.examples.path("en-fr-pilot"))
    return {
        "fit": ["fit", runs, "--law", "ptpp-floor", "--on", "target", "-o", fit],
        "forecast": ["forecast", fit, "--at", "n_params=125K,ptpp=279,tokens=2M,replay=10%"],
    }


def followed() -> str:
    """Return the drawing of the rooms and the two commands, step by step, as Markdown.

    Raises
    ------
    SystemExit
        With the step, where a function of `STEPS` was not entered or earlier than the step before it.
    """
    parts = [drawing(), ""]
    with tempfile.TemporaryDirectory() as folder:
        for verb, words in commands(Path(folder)).items():
            entered = recorded(words)
            at = {step: entered.index(step) if step in entered else -1 for step in STEPS[verb]}
            wrong = [step for step, place in at.items() if place < 0] or _out_of_order(at)
            if wrong:
                raise SystemExit(f"docs/followed.py: `cptlaw {verb}` no longer goes through {wrong[0]} at this step")
            parts += [f"`cptlaw {verb}`:", "", "| file | function | what happens |", "|---|---|---|"]
            for step, sentence in STEPS[verb].items():
                file, function = step.split()
                parts.append(f"| [cptlaw/{file}](cptlaw/{file}) | `{function}` | {sentence} |")
            parts.append("")
    return "\n".join(parts)


def _out_of_order(at: dict[str, int]) -> list[str]:
    steps = list(at)
    return [step for before, step in itertools.pairwise(steps) if at[step] < at[before]]


def drawing() -> str:
    """Return the rooms of the package from the user down to the table, as a Mermaid drawing with a sentence each."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = [
        [name.split(".")[1] for name in layer.split(" | ") if (ROOT / name.strip().replace(".", "/")).is_dir()]
        for layer in layers
    ]
    floors = [floor for floor in rooms if floor]
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'  {room}["<b>{room}</b><br>{_sentence(room)}"]' for floor in floors for room in floor]
    lines += [f"  {' & '.join(upper)} --> {' & '.join(lower)}" for upper, lower in itertools.pairwise(floors)]
    return "\n".join([*lines, "```"])


def _sentence(room: str) -> str:
    doc = ast.get_docstring(ast.parse((ROOT / "cptlaw" / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    first = re.split(r"(?<=\.)\s", doc)[0].replace("`", "").replace('"', "'")
    return first.partition(": ")[2] if first.lower().startswith(f"{room}: ") else first


def main() -> None:
    """Print the part, or write it into its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write it into CONTRIBUTING.md")
    made = followed()
    if not parser.parse_args().write:
        print(made)
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda match: f"{match[1]}{made}{match[3]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
