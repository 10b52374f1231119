"""How the fields of a recipe are read: pydantic's types with quantities as people write them, and our messages.

Every message names the place in the file, what was found and what was expected; a name that is not known, the nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar

from cptlaw.errors import CptlawError, DataError, did_you_mean, name_hint, needed_for, quote
from cptlaw.units import parse_quantity, parse_share

with needed_for("reading a recipe", "cptlaw[training]"):
    from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError, model_validator
    from pydantic_core import PydanticCustomError

T = TypeVar("T")
B = TypeVar("B", bound="Block")
Plain = dict[str, Any]  # what a file of a recipe holds, and what defines a job


def problem(text: object) -> PydanticCustomError:
    """Return what a validator raises, to be told with its place."""
    return PydanticCustomError("recipe", "{text}", {"text": str(text)})


class Block(BaseModel):
    """A mapping of the file with the fields of its class, and no others."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: object) -> object:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise problem(f"found {quote(value)}. Expected a mapping, as in `name: value`, one per line.")
        for name in value:
            if name not in cls.model_fields:
                near, known = did_you_mean(str(name), cls.model_fields), ", ".join(cls.model_fields)
                raise problem(f"there is no field {quote(name)}.{near} Known here: {known}.")
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in value:
                near = did_you_mean(name, [str(other) for other in value])
                raise problem(f"{name!r} is missing.{near} docs/sweep.md lists the fields.")
        return dict(value)


def read_block(kind: type[B], value: object, where: str) -> B:
    """Return a block of the file.

    Raises
    ------
    DataError
        Naming the place below `where`.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # Tags of a choice between kinds of blocks stand in <>, and in no file.
        parts = [f"[{part}]" if isinstance(part, int) else f": {part}" for part in first["loc"] if "<" not in str(part)]
        raise DataError(f"{where}{''.join(parts)}: {first['msg']}") from None


def reader(convert: Callable[[object], object]) -> PlainValidator:
    """Return a validator that reads a value by a function, whose errors are the messages."""

    def read(value: object) -> object:
        try:
            return convert(value)
        except CptlawError as error:
            raise problem(str(error).removeprefix("value: ")) from None

    return PlainValidator(read)


def expect(is_right: Callable[[float], bool], expected: str) -> Callable[[object], float]:
    """Return a reader of numbers such as 6e-3, 2M or 15% that must be of a kind."""

    def read(value: object) -> float:
        result = parse_quantity(value)
        if not is_right(result):
            raise DataError(f"found {quote(value)}. {expected}")
        return result

    return read


def choice(*known: str) -> PlainValidator:
    """Return a reader of one of several words."""

    def read(value: object) -> str:
        if value not in known:
            raise DataError(f"found {quote(value)}.{name_hint(value, known)}")
        return str(value)

    return reader(read)


def _of_kind(kind: type[T], expected: str) -> PlainValidator:
    def read(value: object) -> object:
        if not isinstance(value, kind) or value == "":
            raise DataError(f"found {quote(value)}. Expected {expected}.")
        return value

    return reader(read)


def _listed(value: object) -> list[object]:
    if value == []:
        raise problem("the list is empty.")
    return value if isinstance(value, list) else [value]


def _names(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not value:
        raise problem(f"found {quote(value)}. Expected names with their values, one per line.")
    return {str(name): item for name, item in value.items()}


_whole = expect(lambda x: x >= 0 and x == int(x), "Expected a whole number, 0 or more.")
_inner = expect(lambda x: 0 < x < 1, "Both ends are measured anyway: expected a weight between 0 and 1.")

Number = Annotated[float, reader(parse_quantity)]
Count = Annotated[int, reader(lambda value: int(_whole(value)))]
Positive = Annotated[float, reader(expect(lambda x: x > 0, "Expected a number above 0."))]
Share = Annotated[float, reader(lambda value: float(parse_share(value, "value")))]
Between = Annotated[float, reader(_inner)]
Text = Annotated[str, _of_kind(str, "a text")]
Flag = Annotated[bool, _of_kind(bool, "true or false")]
Many = Annotated[list[T], BeforeValidator(_listed)]  # one value or a list of values
Named = Annotated[dict[str, T], BeforeValidator(_names)]


@lru_cache(maxsize=4096)  # the same few shares stand in every run of a recipe
def exact_share(value: float) -> str:
    """Return a share as an exact fraction, ``0.1`` as ``'1/10'``, so that rows are counted without rounding."""
    return str(Fraction(repr(value)).limit_denominator(1_000_000))


def with_shared_keys(values: Plain) -> Plain:
    """Return a dict that takes less than half the memory where there are many with the same keys in the same order."""
    # Python keeps the names of attributes once for all instances of a class.
    holder = _holder_of(tuple(values))()
    for name, value in values.items():
        setattr(holder, name, value)
    result: Plain = vars(holder)
    return result


@cache
def _holder_of(names: tuple[str, ...]) -> type:
    """Return a class for dicts of these keys."""
    return type("Values", (), {})
