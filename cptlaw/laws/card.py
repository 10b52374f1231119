"""What a law says of itself: as plain values, and as a documentation card."""

from __future__ import annotations

import inspect
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from cptlaw.laws.parameters import Option, option_text
from cptlaw.units import format_quantity

if TYPE_CHECKING:
    from cptlaw.laws.base import Law


def describe(chosen: Law) -> dict[str, Any]:
    """Return what a law says of itself as plain values: equation, source, parameters, units, claims."""
    return {
        "name": chosen.name,
        "equation": chosen.equation,
        "source": chosen.source,
        "status": chosen.status,
        "right": chosen.right,
        "wrong": chosen.wrong,
        "measured": chosen.measured,
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
        "options": list(chosen.choices),
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
        *(_sentences("right", said["right"]) + _sentences("wrong", said["wrong"])),
        *_sentences("measured", said["measured"]),
        *(["  options     with their defaults"] if said["options"] else []),
        *(line for name, option in chosen.choices.items() for line in _option(name, option)),
        "",
        inspect.getdoc(type(chosen)) or "",
    ]
    return "\n".join(lines)


def _sentences(label: str, text: str) -> list[str]:
    return wrap(text, 110, initial_indent=f"  {label:<10}  ", subsequent_indent=" " * 14)


def _amplitudes(chosen: Law) -> str:
    text = f"{', '.join(chosen.amplitudes)} (0 or more)"
    signed = f"; {', '.join(chosen.signed)} with the sign of the eval's role" if chosen.signed else ""
    return text + signed


def _option(name: str, option: Option) -> list[str]:
    default = format_quantity(option.default, 6) if isinstance(option.default, float) else option_text(option.default)
    described = f"{option.description} " if option.description else ""
    return [
        f"    {name}={default}",
        *wrap(f"{described}Expected: {option.expected}.", 110, initial_indent=" " * 8, subsequent_indent=" " * 8),
    ]
