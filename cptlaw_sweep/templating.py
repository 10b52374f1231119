"""What is written by a template of the folder `templates`: configurations of other trainers, cards of models."""

from __future__ import annotations

import json
import math
import shlex
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.errors import needed_for

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


def render(name: str, **values: object) -> str:
    """Return the text of a template, such as ``"megatron.sh"``."""
    return _environment().get_template(f"{name}.j2").render(values)


def _one_line(value: object) -> str:
    # A name must not end a comment, nor hold what neither YAML nor Python takes in one.
    return " ".join("".join(each if each.isprintable() else " " for each in str(value)).split())


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    with needed_for("the configuration of a trainer", "cptlaw[export]"):
        import jinja2
    import yaml

    def as_yaml(value: object) -> str:
        style = '"' if isinstance(value, str) else None
        text: str = yaml.safe_dump(value, default_flow_style=True, default_style=style, width=math.inf, sort_keys=False)
        return text.removesuffix("...\n").strip()

    # No HTML is written here; a value that a template lacks is a fault of the template.
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        autoescape=False, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"yaml": as_yaml, "python": repr, "shell": lambda value: shlex.quote(str(value))}
    made.filters |= {"line": _one_line}
    made.filters |= {"json_line": json.dumps}
    made.filters |= {"json": lambda value: json.dumps(value, indent=2)}
    return made
