"""The laws by name, with options: ``law("dcpt-l3")``, ``law("dcpt-l3", monotone="soft")``, ``law("dcpt-l3:monotone=soft")``."""

from __future__ import annotations

import inspect
from typing import Any

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws import chinchilla, dcpt, ptpp
from cptlaw.laws.base import Law
from cptlaw.units import parse_quantity

LAWS: dict[str, type[Law]] = {
    cls.name: cls
    for cls in (
        chinchilla.Chinchilla,
        chinchilla.Kaplan,
        dcpt.DCPT1,
        dcpt.DCPT2,
        dcpt.DCPT3,
        dcpt.DCPT4,
        dcpt.DCPT5,
        dcpt.DCPT6,
        dcpt.DCPT7,
        ptpp.PTPPFloor,
        ptpp.PTPPGate,
        ptpp.PTPPGatedFloor,
        ptpp.PTPPBlind,
        ptpp.PTPPNearest,
        ptpp.PTPPOracle,
    )
}
SYNONYMS = {"dcpt": "dcpt-l3"}


def law(spec: str | Law, **options: Any) -> Law:
    """Return a law by name.

    Parameters
    ----------
    spec
        A name such as ``"ptpp-gated-floor"``, with options as ``"dcpt-l3:monotone=paper:min_tokens=0.5"`` if wanted.
        A law is returned as it is.
    **options
        Options of the law, such as ``monotone="soft"``.

    Raises
    ------
    UsageError
        If the name or an option is unknown.

    Examples
    --------
    >>> law("ptpp-gate").parameters
    ('E', 'A', 'B', 'C', 'alpha', 'beta', 'nu', 'gamma', 'lambda', 'zeta')
    """
    if isinstance(spec, Law):
        if options:
            raise UsageError("options belong with a law's name; a law that is already built takes none.")
        return spec
    name, *pairs = str(spec).split(":")
    name = SYNONYMS.get(name, name)
    if name not in LAWS:
        known = [*LAWS, *SYNONYMS]
        raise UsageError(
            f"there is no law {name!r}.{did_you_mean(name, known)} Known laws: {', '.join(known)}. "
            f"`cptlaw laws` describes them."
        )
    cls = LAWS[name]
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"law option {pair!r}: expected key=value, as in dcpt-l3:monotone=soft.")
        options[key] = _option(text)
    known_options = [key for key in inspect.signature(cls.__init__).parameters if key != "self"]
    for key in options:
        if key not in known_options:
            has = f"its options are {', '.join(known_options)}" if known_options else "it has no options"
            raise UsageError(f"law {name} has no option {key!r}; {has}.{did_you_mean(key, known_options)}")
    return cls(**options)


def _option(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return parse_quantity(text)
    except UsageError:
        return text
