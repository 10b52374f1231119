"""Restraint on a fit: parameters pinned, tied, bounded or given a weak prior.

On real data a freer fit wins in sample and loses at unseen budgets; restraint is how a user says what is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from cptlaw.errors import UsageError, did_you_mean, require_type, wrong_type
from cptlaw.laws.base import Law, Role
from cptlaw.units import parse_pairs, parse_quantity

PRIOR_SCALES = ("value", "log", "share", "ratio")
PRIOR_FORM = "MEAN:SD, as in E=1.8:0.1"


class GivenRestraint(TypedDict, total=False):
    """Restraint by parameter name as users give it: mappings, or the command line's texts; see `Restraint.build`."""

    fix: Mapping[str, object] | Iterable[str] | None
    tie: Iterable[object] | None
    bound: Mapping[str, object] | Iterable[str] | None
    prior: Mapping[str, object] | Iterable[str] | None


@dataclass(frozen=True)
class Prior:
    """A normal prior on one parameter.

    Parameters
    ----------
    mean
        Of the parameter, in the law's units; with ``scale="share"`` the share of the mean loss that its term has.
    sd
        Standard deviation: of the parameter, or of the logarithm with the other scales.
    scale
        ``"value"``, ``"log"``, or for amplitudes ``"share"``, which is free of units; for parameters that follow from a
        ratio which is searched in their place (`Law.derived`) the logarithm of the ``"ratio"``.
    """

    mean: float
    sd: float
    scale: str = "value"

    @property
    def centre(self) -> float:
        """The mean on the scale on which the prior is normal."""
        return self.mean if self.scale == "value" else math.log(self.mean)

    def to_list(self) -> list[float | str]:
        """Return plain values for JSON."""
        return [self.mean, self.sd, *([self.scale] if self.scale != "value" else [])]


@dataclass(frozen=True)
class Restraint:
    """Pins, ties, bounds and priors by parameter name, in the law's units.

    Parameters
    ----------
    fixed
        Parameters held at a value.
    tied
        Groups of parameters that share one value.
    bounds
        Narrower ranges than the law's own, (low, high).
    priors
        Normal priors. A prior counts like one more observation of the parameter: its penalty is scaled by the
        variance of the log residuals, which is estimated from a fit without it and has a floor where residuals say
        nothing (`cptlaw.fitting.solving.huber.NOISE_FLOOR`).
    correlations
        Of two priors by their names, where they come from one fit; 0 elsewhere.
    along_tokens
        A prior on what the logarithm of the loss changes by per e-fold of tokens, on average over the rows of CPT.
    noise
        Standard deviation of the log loss around the law that is expected before residuals are seen; None for the
        floor.
    """

    fixed: Mapping[str, float] = field(default_factory=dict)
    tied: tuple[tuple[str, ...], ...] = ()
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    priors: Mapping[str, Prior] = field(default_factory=dict)
    correlations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    along_tokens: Prior | None = None
    noise: float | None = None

    @classmethod
    def build(
        cls,
        law: Law,
        fix: Mapping[str, object] | Iterable[str] | None = None,
        tie: Iterable[object] | None = None,
        bound: Mapping[str, object] | Iterable[str] | None = None,
        prior: Mapping[str, object] | Iterable[str] | None = None,
        *,
        correlation: Iterable[tuple[str, str, float]] | None = None,
        along_tokens: tuple[float, float] | None = None,
        noise: float | None = None,
    ) -> Restraint:
        """Read restraint from mappings or from the texts of the command line, and check it against the law.

        Parameters
        ----------
        law
            The law whose parameters are meant.
        fix
            ``{"alpha": 0.34}`` or ``["alpha=0.34"]``.
        tie
            ``[("alpha", "beta")]`` or ``["alpha,beta"]``.
        bound
            ``{"lambda": (0, 1)}`` or ``["lambda=0:1"]``.
        prior
            ``{"E": (1.8, 0.1)}`` or ``["E=1.8:0.1"]``: mean and standard deviation. ``["alpha=0.3:0.5:log"]``: the
            second is the standard deviation of the logarithm; ``["A=0.1:0.8:share"]``: of the logarithm of the share
            that the term has in the mean loss.
        correlation
            Of two priors: their names and its value.
        along_tokens
            Mean and standard deviation of the prior on the slope along tokens.
        noise
            That is expected before residuals are seen.

        Raises
        ------
        UsageError
            If a name is unknown, a value lies outside the law's range, or two restraints contradict each other.
        """
        correlations = {(str(one), str(other)): float(value) for one, other, value in correlation or ()}
        along = None if along_tokens is None else Prior(*along_tokens)
        known = cls.read(fix, tie, bound, prior)
        restraint = replace(known, correlations=correlations, along_tokens=along)
        restraint = restraint if noise is None else replace(restraint, noise=float(noise))
        restraint._check(law)
        return restraint

    @classmethod
    def read(
        cls,
        fix: Mapping[str, object] | Iterable[str] | None = None,
        tie: Iterable[object] | None = None,
        bound: Mapping[str, object] | Iterable[str] | None = None,
        prior: Mapping[str, object] | Iterable[str] | None = None,
    ) -> Restraint:
        """Read restraint as `build` does, before it is known of which form of a law the parameters are."""
        require_type(tie or (), Iterable, "--tie", "groups of names, as in alpha,beta")
        return cls(
            {
                name: parse_quantity(value, f"--fix {name}")
                for name, value in _pairs(fix, "--fix", "alpha=0.34").items()
            },
            tuple(tuple(_names(group)) for group in (tie or ())),
            {
                name: _two("--bound", name, value, "LOW:HIGH, as in beta=0.1:0.6")
                for name, value in _pairs(bound, "--bound", "beta=0.1:0.6").items()
            },
            {name: _prior(name, value) for name, value in _pairs(prior, "--prior", "E=1.8:0.1").items()},
        )

    @property
    def given(self) -> GivenRestraint:
        """The pins, ties, bounds and priors as `build` takes them, ``None`` where there are none."""
        return {
            "fix": self.fixed or None,
            "tie": self.tied or None,
            "bound": self.bounds or None,
            "prior": self.priors or None,
        }

    @property
    def named(self) -> set[str]:
        """The parameters of which something is said."""
        return {*self.fixed, *self.bounds, *self.priors, *(name for group in self.tied for name in group)}

    def with_known(self, law: Law, known: Restraint) -> Restraint:
        """Add pinned values and priors of the law's parameters; what is named here stays."""
        free = set(law.parameters) - self.named
        fixed = {name: value for name, value in known.fixed.items() if name in free}
        priors = {name: prior for name, prior in known.priors.items() if name in free}
        both = {pair: value for pair, value in known.correlations.items() if set(pair) <= set(priors)}
        return replace(
            self,
            fixed={**self.fixed, **fixed},
            priors={**self.priors, **priors},
            correlations={**self.correlations, **both},
        )

    def with_usual_priors(self, law: Law, role: Role, known: Restraint | None = None) -> Restraint:
        """Add what is known, and the law's usual priors where it is never fitted without; what is named here stays."""
        informed = self if known is None else self.with_known(law, known)
        usual = law.usual_of(role) if law.always_priors else {}
        never = usual if law.always_priors is True else law.always_priors or ()
        # Under a bend an amplitude is searched as a ratio to another one, of which its own prior says nothing.
        return informed.with_known(
            law, Restraint(priors={name: Prior(*usual[name]) for name in never if name not in law.derived})
        )

    def groups(self, law: Law) -> list[tuple[str, ...]]:
        """Return the free parameters of the law in order, tied ones together."""
        result: list[tuple[str, ...]] = []
        seen: set[str] = set()
        for name in law.parameters:
            if name in self.fixed or name in seen:
                continue
            group = next((tie for tie in self.tied if name in tie), (name,))
            # In the law's own order, so that a tie reads the same whichever way round it was written.
            group = tuple(member for member in law.parameters if member in group)
            seen.update(group)
            result.append(group)
        return result

    def range(self, law: Law, group: tuple[str, ...]) -> tuple[float, float]:
        """Return the range in which the parameters of a group may move."""
        low, high = 0.0, math.inf
        for name in group:
            if name in law.shapes:
                # The first of tied shapes sets the range, and the others may only narrow it: 0, where counting starts,
                # is no bound of a shape that may be negative.
                low = max(low, law.shapes[name].low) if name != group[0] else law.shapes[name].low
                high = min(high, law.shapes[name].high)
            if name in self.bounds:
                low, high = max(low, self.bounds[name][0]), min(high, self.bounds[name][1])
        return low, high

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, empty where there is no restraint."""
        parts = {
            "fix": dict(self.fixed),
            "tie": [list(group) for group in self.tied],
            "bound": {name: list(pair) for name, pair in self.bounds.items()},
            "prior": {name: prior.to_list() for name, prior in self.priors.items()},
            "correlation": [[*pair, value] for pair, value in self.correlations.items()],
            "along_tokens": [] if self.along_tokens is None else self.along_tokens.to_list(),
            "noise": self.noise,
        }
        return {name: part for name, part in parts.items() if part}

    def _check(self, law: Law) -> None:
        self._check_names(law)
        self._check_fixed(law)
        self._check_tied(law)
        self._check_priors(law)
        for group in self.groups(law):
            low, high = self.range(law, group)
            if not low < high:
                raise UsageError(
                    f"--bound {group[0]}: no value is left between {low:g} and {high:g}; use --fix to pin it."
                )

    def _check_names(self, law: Law) -> None:
        for flag, names in (
            ("--fix", self.fixed),
            ("--tie", [name for group in self.tied for name in group]),
            ("--bound", self.bounds),
            ("--prior", self.priors),
        ):
            for name in names:
                if name not in law.parameters:
                    raise UsageError(
                        f"{flag} {name}: law {law.name} has no such parameter; it has {', '.join(law.parameters)}."
                        f"{did_you_mean(name, law.parameters)}"
                    )
                if name in law.derived and not (name in self.priors and self.priors[name].scale == "ratio"):
                    raise UsageError(
                        f"{flag} {name}: in law {law.spec} {name} follows from other parameters and cannot be "
                        f"restrained. Restrain those, or use the law without this option."
                    )

    def _check_fixed(self, law: Law) -> None:
        for name, value in self.fixed.items():
            low, high = (law.shapes[name].low, law.shapes[name].high) if name in law.shapes else (0.0, math.inf)
            if not low <= value <= high:
                raise UsageError(f"--fix {name}={value:g}: law {law.name} allows {name} from {low:g} to {high:g}.")
            for flag, others in (("--bound", self.bounds), ("--prior", self.priors)):
                if name in others:
                    raise UsageError(f"{name} is held by --fix and also given to {flag}: keep one of the two.")

    def _check_tied(self, law: Law) -> None:
        for group in self.tied:
            if len(group) < 2 or len(set(group)) != len(group):
                raise UsageError(f"--tie {','.join(group)}: expected two or more different parameters.")
            if len({name in law.shapes for name in group}) > 1:
                raise UsageError(f"--tie {','.join(group)}: an amplitude and a shape parameter cannot share a value.")
            # One coordinate stands for all of a group, so that they must be searched on one axis.
            if len({law.shapes[name].scale for name in group if name in law.shapes}) > 1:
                raise UsageError(f"--tie {','.join(group)}: these parameters live on different scales.")
            if any(name in self.fixed for name in group):
                raise UsageError(f"--tie {','.join(group)}: one of these is held by --fix; hold the other one too.")
        names = [name for group in self.tied for name in group]
        if len(set(names)) != len(names):
            raise UsageError("--tie: a parameter stands in two groups; join them into one.")

    def _check_priors(self, law: Law) -> None:
        for pair, value in self.correlations.items():
            if not set(pair) <= set(self.priors) or len(set(pair)) < 2 or not -1.0 < value < 1.0:
                raise UsageError(
                    f"correlation {value:g} of {' and '.join(pair)}: expected two priors and a value between -1 and 1."
                )
        for name, prior in self.priors.items():
            if not prior.sd > 0:
                raise UsageError(
                    f"--prior {name}={prior.mean:g}:{prior.sd:g}: the standard deviation must be positive."
                )
            if prior.scale != "value" and not prior.mean > 0:
                raise UsageError(f"--prior {name}={prior.mean:g}: a prior on the logarithm needs a positive mean.")
            if prior.scale == "share" and name not in law.amplitudes:
                raise UsageError(
                    f"--prior {name}: {name} multiplies no term of {law.name}, so that it has no share of the loss; "
                    f"amplitudes are {', '.join(law.amplitudes)}."
                )
            if prior.scale == "ratio" and (name not in law.derived or name not in law.shapes):
                raise UsageError(f"--prior {name}: {name} is not searched as a ratio in law {law.spec}.")


def _pairs(given: Mapping[str, object] | Iterable[str] | None, flag: str, example: str) -> Mapping[str, object]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    expected = f"NAME=VALUE, as in {flag} {example}"
    require_type(given, Iterable, flag, expected)
    return parse_pairs([given] if isinstance(given, str) else given, flag, expected)


def _names(group: object) -> list[str]:
    if isinstance(group, str):
        return [name.strip() for name in group.split(",")]
    if not isinstance(group, Iterable):
        raise wrong_type(group, "--tie", "names, as in alpha,beta")
    return [str(name) for name in group]


def _prior(name: str, value: object) -> Prior:
    """Read MEAN:SD, with the scale after a second colon where it is not the parameter's own."""
    parts = value.split(":") if isinstance(value, str) else value
    if isinstance(value, Prior):
        return value
    scale, pair = "value", value
    if isinstance(parts, list | tuple) and len(parts) == 3:
        scale, pair = str(parts[2]).strip(), list(parts[:2])
        if scale not in PRIOR_SCALES:
            raise UsageError(
                f"--prior {name}={value}: scale {scale!r}. Expected {', '.join(PRIOR_SCALES)}."
                f"{did_you_mean(scale, PRIOR_SCALES)}"
            )
    return Prior(*_two("--prior", name, pair, PRIOR_FORM), scale)


def _two(flag: str, name: str, value: object, form: str) -> tuple[float, float]:
    parts = value.split(":") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if len(parts) != 2:
        raise UsageError(f"{flag} {name}={value}: expected {form}.")
    first, second = (parse_quantity(part, f"{flag} {name}") for part in parts)
    return first, second
