"""A filled form as a command and as Python: what was asked here can be asked again anywhere."""

from __future__ import annotations

from collections.abc import Mapping

from cptlaw.cli import options
from cptlaw.commands import command_line
from cptlaw_app.question import (
    EXAMPLE,
    EXAMPLE_NAME,
    NO_RUNS,
    AnswerQueue,
    fields,
    filled_fields,
    parsed_options,
    words_of,
)


def repetition(queue: AnswerQueue, given: Mapping[str, str]) -> dict[str, str]:
    """Return the command and the lines of Python that ask what a form asks."""
    table, asked = given.get("table", NO_RUNS), filled_fields(given)
    with parsed_options(asked) as read:
        question = [f"{one.name}={read[one.name]!r}" for one in fields() if not one.of_table and one.name in asked]
        how = options.how_to_read({name: read[name] for name in options.READING})
    if table == NO_RUNS:
        words, load = [], ""
    elif table == EXAMPLE:
        # In quotes: the package may lie under a path with a space.
        words, load = [f'"$(cptlaw example {EXAMPLE_NAME})"'], f"cl.examples.load({EXAMPLE_NAME!r})"
    else:
        name = queue.name(table)
        reading = [f"{key}={value!r}" for key, value in how.items() if value]
        words, load = [command_line([name])], f"cl.read_runs({', '.join([repr(name), *reading])})"
    runs = [f"runs = {load}"] if load else []
    asking = ",\n    ".join(["runs", *question] if load else question)
    return {
        "command": " ".join(["cptlaw answer", *words, command_line(words_of(asked))]).rstrip(),
        "python": "\n".join(
            ["import cptlaw as cl", "", *runs, f"answer = cl.answer(\n    {asking},\n)", "print(answer)"]
        ),
    }
