"""The laws by name, with options: ``law("dcpt-l3", monotone="soft")`` or ``law("dcpt-l3:monotone=soft")``."""

from __future__ import annotations

import inspect
from typing import Any

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws import (
    annealing,
    chinchilla,
    dcpt,
    dcpt_cross,
    dynamics,
    mixtures,
    multi_power,
    ptpp,
    shared_tokens,
    transfer,
)
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
        dcpt_cross.CrossK1,
        dcpt_cross.CrossK2,
        dcpt_cross.CrossK3,
        dcpt_cross.CrossK4,
        ptpp.PTPPFloor,
        ptpp.PTPPGate,
        ptpp.PTPPGatedFloor,
        ptpp.PTPPBlind,
        ptpp.PTPPNearest,
        ptpp.PTPPOracle,
        ptpp.PTPPBase,
        shared_tokens.SharedTokens,
        annealing.LRAnnealing,
        dynamics.CptDynamics,
        dynamics.CptDynamicsSize,
        dynamics.CptDynamicsReplay,
        dynamics.CptDynamicsWeighted,
        dynamics.CptDynamicsPower,
        dynamics.CptDynamicsJoint,
        multi_power.MultiPower,
        transfer.Forgetting,
        mixtures.CMR,
        transfer.Transfer,
        mixtures.Mixing,
        transfer.TwoStage,
    )
}
SYNONYMS = {"dcpt": "dcpt-l3"}


def law(spec: str | Law, **options: Any) -> Law:
    """Return a law by name.

    Parameters
    ----------
    spec
        A name such as ``"ptpp-gated-floor"``, with options as ``"dcpt-l3:monotone=paper:min_tokens=500M"`` if wanted.
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


def describe(chosen: Law) -> dict[str, Any]:
    """Return what a law says of itself as plain values: equation, source, parameters, units, claims."""
    return {
        "name": chosen.name,
        "equation": chosen.equation,
        "source": chosen.source,
        "status": chosen.status,
        "inputs": list(chosen.inputs),
        "ratio_of": chosen.ratio_of,
        "units": dict(chosen.units),
        "amplitudes": list(chosen.amplitudes),
        "shapes": {name: [shape.low, shape.high] for name, shape in chosen.shapes.items()},
        "constants": dict(chosen.constants),
        "delta": chosen.delta,
        "decreasing": list(chosen.decreasing),
        "vanishing": {name: list(terms) for name, terms in chosen.vanishing.items()},
        "diverges_at_zero": list(chosen.diverges_at_zero),
        "options": [key for key in inspect.signature(type(chosen).__init__).parameters if key != "self"],
    }


def card(chosen: Law) -> str:
    """Return a law's documentation card as text."""
    said = describe(chosen)
    share = {
        "source": "replay, the share of the source corpus, for both losses",
        "own": "the share of the eval's own corpus: replay for the source loss, 1 - replay for the target loss",
        "target": "the share of the target corpus, 1 - replay",
    }
    lines = [
        f"{said['name']}: {said['equation']}",
        f"  source      {said['source']} ({said['status']})",
        f"  inputs      {', '.join(said['inputs'])}",
        *(
            [f"  units       N per {said['units']['n_params']:g} parameters, D per {said['units']['tokens']:g} tokens"]
            if {"n_params", "tokens"} & set(said["inputs"])
            else []
        ),
        *([f"  ratio r     {share[said['ratio_of']]}"] if said["ratio_of"] else []),
        *([f"  amplitudes  {_amplitudes(chosen)}"] if said["amplitudes"] else []),
        f"  shapes      {', '.join(f'{name} in [{low:g}, {high:g}]' for name, (low, high) in said['shapes'].items())}",
        *(
            [f"  constants   {', '.join(f'{k} = {v:g}' for k, v in said['constants'].items())}"]
            if said["constants"]
            else []
        ),
        f"  delta       {said['delta']:g} (Huber threshold on log residuals)",
        *([f"  claims      never rises with {', '.join(said['decreasing'])}"] if said["decreasing"] else []),
        *[
            f"  limit       {name} -> infinity: the terms of {', '.join(t)} vanish"
            for name, t in said["vanishing"].items()
        ],
        *([f"  diverges    at {' = 0, '.join(said['diverges_at_zero'])} = 0"] if said["diverges_at_zero"] else []),
        *([f"  options     {', '.join(said['options'])}"] if said["options"] else []),
        "",
        inspect.getdoc(type(chosen)) or "",
    ]
    return "\n".join(lines)


def _amplitudes(chosen: Law) -> str:
    text = f"{', '.join(chosen.amplitudes)} (0 or more)"
    signed = f"; {', '.join(chosen.signed)} with the sign of the eval's role" if chosen.signed else ""
    return text + signed
