"""What a plan must keep: upper limits on losses and on forgetting, certain or held with a probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.laws.calculus import Array
from cptlaw.planning.options import label
from cptlaw.planning.reference import Reference
from cptlaw.planning.scenario import Measure, options_of

# In log loss: a margin this wide is that of a loss that the data does not bound; no limit holds under it.
UNBOUNDED = 1.0
AnyLimit = TypeVar("AnyLimit")
NEAR = 0.2  # places nearer than this to a newer one are replaced by it


@dataclass(frozen=True)
class ForgettingScale:
    """How a source loss turns into forgetting.

    Parameters
    ----------
    reference
        The base model's source loss.
    measure
        ``"relative"``: (loss - base) / base, a fraction. ``"absolute"``: loss - base, nats per token.
    """

    reference: Reference
    measure: Measure

    def of(self, loss: Any) -> Any:
        """Return the forgetting of source losses."""
        return forgetting(loss, self.reference.loss, self.measure)

    def loss_at(self, value: float) -> float:
        """Return the source loss at which forgetting is `value`."""
        base = self.reference.loss
        return base * (1.0 + value) if self.measure == "relative" else base + value


def forgetting(loss: Any, base: Any, measure: Measure) -> Any:
    """Return the forgetting of source losses against a base model's."""
    return loss / base - 1.0 if measure == "relative" else loss - base


@dataclass(frozen=True, eq=False)
class Margin:
    """How far above its forecast a measured loss may lie, in logs, as a smooth function of where it is planned.

    It is learned at a few places. Through them goes a polynomial of as high a degree as they allow, up to the second,
    shifted so that it is exact at the newest place: where a plan settles, its margin is the one that the fit reports.

    Parameters
    ----------
    places
        Coordinates, (k, d), each on a scale of about 1.
    law, own
        Logs of the law's margin at each place, (k,), and the part that does not come from the law, in log loss.
    share
        Share of the law's doubt that is left, for what next runs would change.
    """

    places: Array
    law: Array
    own: float
    share: float = 1.0

    def at(self, place: Array) -> Array:
        """Return the margin in log loss at places, (n, d) to (n,)."""
        # No more terms than places: a parabola through as many places as it has terms would follow the rounding of
        # each.
        degree = 2 if len(self.places) > _terms(self.places[:1], 2).shape[1] else 1
        degree = degree if len(self.places) > self.places.shape[1] else 0
        newest = self.places[-1:]
        terms = _terms(self.places - newest, degree)
        # Nearer places count more: the surface is to be right where the plan is.
        near = 1.0 / (0.1 + np.linalg.norm(self.places - newest, axis=1))
        held = _terms(np.zeros_like(newest), degree)
        # Through the newest place exactly: a plan that settles there must keep the margin that the fit reports for it.
        slopes = np.linalg.lstsq((terms - held) * near[:, None], (self.law - self.law[-1]) * near, rcond=1e-6)[0]
        fitted = self.law[-1] + (_terms(place - newest, degree) - held) @ slopes
        # No farther than what was seen, and a factor of two beyond it.
        low, high = self.law.min() - math.log(2.0), self.law.max() + math.log(2.0)
        found: Array = np.hypot(self.share * np.exp(np.clip(fitted, low, high)), self.own)
        return found

    @property
    def bounded(self) -> bool:
        """Whether the data bounds the loss from above at the newest place."""
        return bool(self.law[-1] < math.log(UNBOUNDED) - 1e-9)

    def with_places(self, places: Array, law: Array, own: float) -> Margin:
        """Return the margin with more places, the last of them the newest.

        Places near a new one go: what differs between neighbours is the rounding of their margins, no slope.
        """
        far = np.linalg.norm(self.places[:, None] - places[None], axis=2).min(axis=1) > NEAR
        return Margin(np.concatenate([self.places[far], places]), np.concatenate([self.law[far], law]), own, self.share)


def _terms(places: Array, degree: int) -> Array:
    """Return the terms of a polynomial, (n, terms)."""
    columns = [np.ones(len(places))]
    if degree:
        columns += list(places.T)
    if degree > 1:
        size = places.shape[1]
        columns += [places[:, i] * places[:, j] for i in range(size) for j in range(i, size)]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Limit:
    """An upper limit on one quantity.

    Parameters
    ----------
    name
        As the option is called on the command line, such as ``"max-forgetting"``.
    quantity
        What is limited: ``"forgetting"``, ``"source_loss"`` or ``"target_loss"``.
    value
        The most that is allowed: nats per token, or a fraction for relative forgetting.
    loss
        The loss that it concerns; what kind of loss is up to the question.
    forgetting
        For limits on forgetting.
    risk
        Probability with which a measured loss must keep the limit; ``None`` for the forecast itself.
    margin
        What is known of the doubt; ``None`` as long as nothing is.
    """

    name: str
    quantity: str
    value: float
    loss: Any
    forgetting: ForgettingScale | None = None
    risk: float | None = None
    margin: Margin | None = None

    @property
    def threshold(self) -> float:
        """The highest loss that keeps the limit, nats per token."""
        return self.value if self.forgetting is None else self.forgetting.loss_at(self.value)

    @property
    def doubtful(self) -> bool:
        """Whether a probability above one half is asked for."""
        return self.risk is not None and self.risk > 0.5

    def upper(self, loss: Array, place: Array | None = None) -> Array:
        """Return the loss that must keep the limit where this loss is forecast, at the same places, (n, d)."""
        if self.margin is None or place is None:
            return loss
        return loss * np.exp(self.margin.at(place)).reshape(np.shape(loss))

    def reached(self, loss: Array, place: Array | None = None) -> Array:
        """Return the limited quantity where this loss is forecast: the value kept with the probability asked for."""
        upper = self.upper(loss, place)
        return np.asarray(upper if self.forgetting is None else self.forgetting.of(upper), dtype=float)

    def learned(self, place: Array, law: Array, measured: Array) -> Limit:
        """Return the limit with margins of its loss at places, (n, d) and (n,): the law's part, and all of it."""
        if not self.doubtful:
            return self
        law, measured = (
            # A loss without a bound gets a margin that no limit survives; infinity itself would leave the surface
            # without slopes.
            np.minimum(np.nan_to_num(part, nan=UNBOUNDED, posinf=UNBOUNDED), UNBOUNDED)
            for part in (law, measured)
        )
        # The part that the law does not explain hardly depends on the place; the least of it cannot overstate what next
        # runs leave.
        noise = float(np.sqrt(np.maximum(measured**2 - law**2, 0.0)).min())
        if self.forgetting is not None and self.risk is not None:
            # A reference that was not measured may itself lie elsewhere, and forgetting counts from it.
            noise = math.hypot(noise, self.forgetting.reference.half_width(2.0 * self.risk - 1.0))
        # In logs, since margins grow by factors with the distance from the data and may not become negative between
        # places.
        logs = np.log(np.maximum(law, 1e-12))
        if self.margin is None:
            return replace(self, margin=Margin(place, logs, noise))
        return replace(self, margin=self.margin.with_places(place, logs, noise))

    def certain(self) -> Limit:
        """Return the limit on the forecast itself."""
        return replace(self, risk=None, margin=None)


def build_limits(
    scenario: Any,
    given: Any,
    losses: Mapping[str, Any],
    how: Any,
    more: Iterable[AnyLimit],
    make: Callable[..., AnyLimit],
) -> list[AnyLimit]:
    """Return the limits that were given, in the order in which the scenario declares them.

    Parameters
    ----------
    scenario, given
        The scenario, and its values as `read_scenario` returns them.
    losses
        The losses by role.
    how
        How forgetting counts, where that is known beforehand.
    more
        Limits of other kinds, such as those in points.
    make
        Makes a limit of its name, what it is about, its value, the loss, how the loss turns into it, and the risk.

    Raises
    ------
    UsageError
        If a limit lacks its fit, if `risk` is given without a limit, or with a fit of fewer than three runs.
    """
    limits: list[AnyLimit] = []
    risk = getattr(given, "risk", None)
    for name, option in options_of(scenario).items():
        value = getattr(given, name)
        if not option.limit or value is None:
            continue
        # Forgetting is a limit on the source loss in other words.
        role = "target" if option.limit == "target_loss" else "source"
        if role not in losses:
            raise UsageError(
                f"{label(name)}: a limit on the {role} loss or on forgetting needs {role}= (--{role}), a fit of the "
                f"{role} loss."
            )
        scale = how if option.limit == "forgetting" else None
        limits.append(make(name.replace("_", "-"), option.limit, value, losses[role], scale, risk))
    limits += more
    check_risk(risk, limits)
    return limits


def check_risk(risk: float | None, limits: Sequence[Any]) -> None:
    """Refuse a probability without a limit, or with a loss whose fit cannot say how sure it is.

    Raises
    ------
    UsageError
        If no limit was given, or a fit has fewer than three runs.
    """
    if risk is None:
        return
    if not limits:
        raise UsageError("risk (--risk) is the probability with which limits hold, but no limit was given.")
    for limit in limits:
        if not limit.loss.knows_doubt:
            raise UsageError(
                f"risk (--risk): the {limit.loss.role} fit has {limit.loss.n_runs} runs, which cannot say how runs "
                f"differ. Fit on at least three, or let the forecasts themselves keep the limits: without it."
            )
