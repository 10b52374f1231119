"""What a law declares of itself, in words and in names, and its card: what `cptlaw laws NAME` and the documents say."""

from __future__ import annotations

import html
import inspect
from collections.abc import Mapping
from textwrap import wrap
from typing import Any, ClassVar, Literal

from cptlaw.laws.inputs import Inputs
from cptlaw.laws.parameters import Amplitude, Option, Shape, option_text
from cptlaw.units import format_quantity

WORDS = ("name", "equation", "source", "status", "right", "wrong", "measured")
Status = Literal["published", "secondary source", "reconstructed"]


class Described(Inputs):
    """What every law declares; `cptlaw.laws.base.Law` says what the names below mean.

    Attributes
    ----------
    equation, source
        The formula in plain text; paper, equation number and arXiv id.
    status
        ``"published"``, ``"secondary source"`` or ``"reconstructed"``.
    right, wrong
        When to take this law, and when not to: one or two sentences each.
    measured
        On which data this project measured it, and what came out. A law that was not measured here says so.
    """

    equation: str = "not written out"
    source: ClassVar[str] = "not given"
    status: ClassVar[Status] = "published"
    right: ClassVar[str] = ""
    wrong: ClassVar[str] = ""
    measured: ClassVar[str] = "not measured here yet"

    order: ClassVar[int] = 1000
    amplitudes: tuple[str, ...] = ()
    shapes: dict[str, Shape] = {}
    constants: Mapping[str, float] = {}
    choices: ClassVar[Mapping[str, Option]] = {}
    delta: ClassVar[float] = 1e-3
    decreasing: tuple[str, ...] = ()
    vanishing: Mapping[str, tuple[str, ...]] = {}
    diverges_at_zero: tuple[str, ...] = ()

    @property
    def signed(self) -> tuple[str, ...]:
        """The amplitudes whose sign the eval's role decides."""
        return tuple(name for name in self.amplitudes if isinstance(name, Amplitude) and name.signed)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(card(self))}</pre>"


def describe(chosen: Described) -> dict[str, Any]:
    """Return what a law says of itself as plain values: equation, source, parameters, units, claims."""
    return {
        **{name: getattr(chosen, name) for name in WORDS},
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


def card(chosen: Described) -> str:
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
    return wrap(text, 92, initial_indent=f"  {label:<10}  ", subsequent_indent=" " * 14)


def _amplitudes(chosen: Described) -> str:
    text = f"{', '.join(chosen.amplitudes)} (0 or more)"
    signed = f"; {', '.join(chosen.signed)} with the sign of the eval's role" if chosen.signed else ""
    return text + signed


def _option(name: str, option: Option) -> list[str]:
    default = format_quantity(option.default, 6) if isinstance(option.default, float) else option_text(option.default)
    described = f"{option.description} " if option.description else ""
    return [
        f"    {name}={default}",
        *wrap(f"{described}Expected: {option.expected}.", 92, initial_indent=" " * 8, subsequent_indent=" " * 8),
    ]
