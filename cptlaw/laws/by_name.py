"""A law by its name and options: ``law("dcpt-l3", monotone="soft")`` or ``law("dcpt-l3:monotone=soft")``."""

from __future__ import annotations

from cptlaw.errors import UsageError, did_you_mean, require_type
from cptlaw.laws.base import LAWS, Law
from cptlaw.laws.registry import SYNONYMS


def law(spec: str | Law | type[Law], **options: object) -> Law:
    """Return a law by name.

    Parameters
    ----------
    spec
        A name such as ``"ptpp-gated-floor"``, with options as ``"dcpt-l3:monotone=paper:min_tokens=500M"`` if wanted;
        or the class of a law. A law is returned as it is.
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
    if isinstance(spec, type):
        return spec(**options)
    if not isinstance(spec, str):
        if options:
            raise UsageError("options belong with a law's name; a law that is already built takes none.")
        require_type(spec, Law, "law", "its name, such as 'ptpp-floor', or a Law")
        return spec
    name, *pairs = spec.split(":")
    name = SYNONYMS.get(name, name)
    if name == "auto":
        raise UsageError(
            "auto is no law but what the columns of a table allow, one law or several: `cptlaw check RUNS --on EVAL` "
            "lists which these are. Name one law here; `cptlaw laws` describes them."
        )
    if name not in LAWS:
        known = [*LAWS, *SYNONYMS]
        broken = "".join(f" The entry point {entry} cannot be loaded ({why})." for entry, why in LAWS.broken.items())
        raise UsageError(
            f"there is no law {name!r}.{did_you_mean(name, known)} Known laws: {', '.join(known)}. "
            f"`cptlaw laws` describes them.{broken}"
        )
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"law option {pair!r}: expected key=value, as in dcpt-l3:monotone=soft.")
        options[key] = text
    return LAWS[name](**options)
