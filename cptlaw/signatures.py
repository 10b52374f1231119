"""Options of a verb, spelled out where help and editors read them: in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter
from typing import ParamSpec, TypeAlias, TypeVar, get_type_hints

from cptlaw.errors import UsageError, refuse_others

Taken = ParamSpec("Taken")
Answered = TypeVar("Answered")
Declared: TypeAlias = type[Mapping[str, object]]  # a `TypedDict` of options: names, types, and which are needed


def options_checked(function: Callable[Taken, Answered]) -> Callable[Taken, Answered]:
    """Let a function refuse an option that it does not have by the nearest name, as the command line does.

    Where its first argument is given by name, those that are given by place are the next ones.
    """
    signature = inspect.signature(function)
    first, *_ = known = list(signature.parameters)

    @wraps(function)
    def checked(*arguments: Taken.args, **options: Taken.kwargs) -> Answered:
        refuse_others(options, known, function.__name__)
        places = (options.pop(first), *arguments) if arguments and first in options else arguments
        try:
            bound = signature.bind(*places, **options)
        except TypeError as error:
            raise UsageError(f"{function.__name__}: {error}. It takes {', '.join(known)}.") from None
        return function(*bound.args, **bound.kwargs)

    return checked


def spell_out(
    function: Callable[..., object], declared: Declared, defaults: Mapping[str, object] | None = None
) -> None:
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
            default=Parameter.empty if name in vars(declared)["__required_keys__"] else defaults.get(name),
            annotation=hint,
        )
        for name, hint in hints.items()
    ]
    result = inspect.signature(function)
    own = [one for one in result.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    vars(function)["__signature__"] = result.replace(parameters=[*own, *spelled])
