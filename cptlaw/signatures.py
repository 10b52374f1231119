"""Options of a verb, spelled out where help and editors read them: in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, get_type_hints


def spell_out(function: Callable[..., Any], declared: Any, defaults: Mapping[str, Any] | None = None) -> None:
    """Show the options that a declaration names in place of the ``**options`` with which a function takes them.

    The function itself takes ``**options: Unpack[declared]``, which type checkers read, and refuses others by the
    nearest name.

    Parameters
    ----------
    function
        Its ``__signature__`` is set.
    declared
        A `TypedDict`: names, types, and which are needed.
    defaults
        Of options; `None` for those that it leaves out.
    """
    hints, defaults = get_type_hints(declared), defaults or {}
    spelled = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in declared.__required_keys__ else defaults.get(name),
            annotation=hint,
        )
        for name, hint in hints.items()
    ]
    result = inspect.signature(function)
    own = [one for one in result.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    vars(function)["__signature__"] = result.replace(parameters=[*own, *spelled])
