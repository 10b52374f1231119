"""What the plans of a mix have in common: the losses at the model, how forgetting counts, and the range of replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.base_models import LOSS
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.one_corpus import fit_of_corpus
from cptlaw.fitting.solving.open_rates import at_size
from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import AboveBase, LossLimit, build_limits, limit_on
from cptlaw.planning.loss import FitLike, Loss, as_fit, check_pair, measured_levels, tokens_in_reach
from cptlaw.planning.points import base_score, score_limits, score_losses
from cptlaw.planning.reference import find_reference
from cptlaw.planning.scenario import PlanQuestion
from cptlaw.planning.solve import Axis, Points, RelaxedBounds, Space
from cptlaw.runs.metrics import unit_of
from cptlaw.units import format_percent

CHOSEN = ("lr_peak", "merge_weight", "lora_rank")  # of the measured levels the best, where laws read them
SMALLEST, LARGEST = "smallest-fitted-replay", "largest-fitted-replay"  # bounds of a plan that nobody gave
MOST = 0.99  # replay beyond which a mix holds hardly anything of the target
PRINTED = (3, 4, 5, 6)  # digits to which sizes and budgets are printed anywhere


@dataclass(frozen=True, eq=False)
class FittedMix:
    """A scenario of a mix, its fits brought to the planned model.

    Attributes
    ----------
    target, source
        The losses.
    forgetting
        How forgetting counts; ``None`` where there is no source fit or no reference.
    low, high
        Range of replay to search.
    fitted_low, fitted_high
        Range of replay that the fits have seen, apart from runs on the source corpus alone.
    given
        Everything that was asked, as `read_scenario` returns it.
    limits
        The limits that were given.
    findings
        What is to be said whatever the answer.
    scores
        Fitted scores as error rates, by eval.
    """

    target: Loss
    source: Loss | None
    forgetting: AboveBase | None
    low: float
    high: float
    fitted_low: float
    fitted_high: float
    given: PlanQuestion
    limits: tuple[LossLimit, ...]
    findings: tuple[Finding, ...]
    scores: Mapping[str, Loss] = field(default_factory=dict)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses that there are, the target first."""
        return (self.target,) if self.source is None else (self.target, self.source)

    @property
    def unit(self) -> str:
        """The unit of the losses, as the tables of the fits have them."""
        return unit_of(*(loss.fit for loss in self.losses))

    @property
    def n_params(self) -> float:
        """Parameters of the model."""
        return self.target.n_params

    @property
    def ptpp(self) -> float | None:
        """Its pre-training tokens per parameter, where given."""
        return self.target.known.get("ptpp")

    @property
    def reads_replay(self) -> bool:
        """Whether any of the laws depends on replay."""
        return any(loss.reads("replay") for loss in self.losses)

    @property
    def smallest_fitted_tokens(self) -> float:
        """Tokens below which one of the fits has seen nothing."""
        return max((loss.fitted_tokens[0] for loss in self.losses if loss.reads("tokens")), default=0.0)

    @property
    def largest_fitted_tokens(self) -> float:
        """Tokens beyond which none of the fits has seen anything."""
        return max((loss.fitted_tokens[1] for loss in self.losses if loss.reads("tokens")), default=np.inf)

    @property
    def tokens_in_reach(self) -> float:
        """Tokens up to which forecasts of longer runs were held to runs."""
        return tokens_in_reach((loss.fit for loss in self.losses if loss.reads("tokens")), self.n_params)

    # -- what there is to choose -----------------------------------------------------------------------------------

    def target_loss(self, points: Points) -> Array:
        """Return the forecast target loss at points, (n,)."""
        return self.target.upper(points, None)

    def axis(self) -> Axis:
        """Return the range of replay; laws that do not read it leave nothing to choose."""
        return Axis("replay", self.low, self.high if self.reads_replay else self.low)

    def relaxed_bounds(self, space: Space) -> RelaxedBounds:
        """Return what the space is without each end of the range of replay, given or fitted: see `certificate`."""
        result: dict[str, tuple[Space, Callable[[Points], Array]]] = {}
        if not self.reads_replay:
            return result
        given = self.given.given
        least, name = (self.fitted_low, "min-replay") if "min_replay" in given else (0.0, SMALLEST)
        if least < self.low:
            result[name] = space.widened(replay=(least, self.high)), lambda points: -points["replay"]
        most, name = (self.fitted_high, "max-replay") if "max_replay" in given else (MOST, LARGEST)
        if most > self.high:
            result[name] = space.widened(replay=(self.low, most)), lambda points: points["replay"]
        return result


def build_mixes(
    given: PlanQuestion, target: FitLike, source: FitLike | None, known: Mapping[str, float] | None = None
) -> list[FittedMix]:
    """Return the mixes that a question allows: one, or one for each measured level of `CHOSEN` that is not given.

    What is `known` of the runs is taken as given.

    Raises
    ------
    UsageError, DataError
        If fits cannot serve together, or the reference that a limit needs cannot be had.
    """
    fits = {"target": fit_of_corpus(as_fit(target, "target"), given.domain)}
    if source is not None:
        fits["source"] = fit_of_corpus(as_fit(source, "source"), given.domain)
    known = {name: _measured(value, name, fits.values()) for name, value in given.law_inputs.items()} | dict(
        known or {}
    )
    known |= pretraining_rate(fits.values(), known.get("n_params"))
    settings = [known]
    for name in CHOSEN:
        levels: list[float] | Array = (
            [] if name in known else levels_to_choose(fits.values(), name, known.get("n_params"))
        )
        settings = [each | {name: float(level)} for each in settings for level in levels] or settings
    return [_build(given, fits, each) for each in settings]


def pretraining_rate(fits: Iterable[Forecaster], n_params: float | None) -> dict[str, float]:
    """Return the peak rate of pre-training of the fitted runs nearest in size, of all without one, where laws read it.

    A plan is for a base model that exists: its rate is no choice, and is taken to be what such models were given.
    """
    for fit in fits:
        if "lr_pretrain" in fit.data.columns:
            (nearest,) = at_size(fit.data, "lr_pretrain", np.array([n_params], dtype=float))
            if len(nearest):
                return {"lr_pretrain": float(np.median(nearest))}
    return {}


def _build(given: PlanQuestion, fits: dict[str, Forecaster], known: dict[str, float]) -> FittedMix:
    losses = {role: Loss.build(fit, role, known) for role, fit in fits.items()}
    check_pair(losses.values())
    source = losses.get("source")
    how, findings = _forgetting(given, source)
    base = given.base_source_loss
    if base is None and how is not None and source is not None and source.fit.of_changes:
        base = how.reference.loss
    if source is not None and base is not None:
        # A loss that no run measured tells the forecast what the fit's own base models would; a law of the target loss
        # that reads a base model's loss means that of its own eval.
        for role, one in losses.items():
            if role == "source" or not one.reads(LOSS):
                losses[role] = replace(one, known={**one.known, LOSS: base})
        source = losses["source"]
    fitted = _fitted_replay(list(losses.values()), {"min_replay", "max_replay"} <= given.given)
    low = fitted[0] if given.min_replay is None else given.min_replay
    high = fitted[1] if given.max_replay is None else given.max_replay
    if low > high:
        raise UsageError(
            f"replay from {format_percent(low)} to {format_percent(high)}: nothing lies between. The fits have seen "
            f"{format_percent(fitted[0])} to {format_percent(fitted[1])}; give min_replay= and max_replay= in order."
        )
    scores = score_losses(given.scores, known)
    in_points = score_limits(given, scores, limit_on, base_score)
    limits = build_limits(given, losses, how, in_points, limit_on)
    return FittedMix(
        losses["target"], losses.get("source"), how, low, high, *fitted, given, tuple(limits), tuple(findings), scores
    )


def _forgetting(given: PlanQuestion, source: Loss | None) -> tuple[AboveBase | None, list[Finding]]:
    """Return how forgetting counts, where that can be said or must be, and what is to be said of it."""
    asked = {"max_forgetting", "base_source_loss", "base_law"} & given.given or given.reference != "measured"
    if source is None:
        if asked:
            raise UsageError("forgetting needs source= (--source), a fit of the source loss.")
        return None, []
    try:
        reference = find_reference(source, given.reference, given.base_source_loss, given.base_law)
    except UsageError as error:
        if asked:
            raise
        # Nobody asked for forgetting: the plan stands without it, and says so.
        return None, [Finding("info", "no-reference", f"forgetting is not reported: {error}")]
    shared = source if reference.of_the_laws else None
    return AboveBase(reference, given.forgetting, shared), list(reference.findings)


def levels_to_choose(fits: Iterable[Forecaster], name: str, n_params: float | None) -> Array:
    """Return the measured levels of an input to choose from: those that all fits which read it have seen at this size.

    Of a size that was not run, those of the nearest one, as forecasts take them: see `open_rates`.
    """
    levels: list[Array] = []
    for fit in fits:
        if any(name in law.inputs for law in fit.laws) and name in fit.data.columns:
            if name == "lr_peak":
                (seen,) = at_size(fit.data, name, np.array([n_params], dtype=float))
            else:
                seen = fit.data[name].dropna().to_numpy(dtype=float)
            levels.append(np.unique(seen[seen > 0]))  # at weight 0 of a merge nothing was trained
    if not levels:
        return np.array([])
    shared = levels[0]
    for other in levels[1:]:
        shared = np.intersect1d(shared, other)
    return shared if len(shared) else levels[0]


def _measured(value: float, name: str, fits: Iterable[Forecaster]) -> float:
    """Return the measured level that a value stands for: 70.43M is how 70,426,624 is printed.

    A value that is no rounding of exactly one level stays as it is.
    """
    if name not in ("n_params", "ptpp"):
        return value
    levels = measured_levels(fits, name)
    if np.any(np.isclose(levels, value, rtol=1e-9, atol=0)):
        return value
    stands_for = [level for level in levels if any(float(f"{level:.{digits}g}") == value for digits in PRINTED)]
    return float(stands_for[0]) if len(stands_for) == 1 else value


def _fitted_replay(losses: Sequence[Loss], given: bool) -> tuple[float, float]:
    """Return the range of replay that all fits have seen, without runs on the source corpus alone."""
    ranges = []
    for loss in losses:
        levels = loss.fitted_replay
        if len(levels):
            mixed = levels[levels < 1] if np.any(levels < 1) and not loss.fit.data.empty else levels
            ranges.append((float(mixed[0]), float(mixed[-1])))
    if not ranges:
        return 0.0, 0.0
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    if low > high and not given:
        shown = " and ".join(f"{format_percent(least)} to {format_percent(most)}" for least, most in ranges)
        raise UsageError(
            f"the target fit and the source fit share no replay ({shown}). Give min_replay= and max_replay=, or fit "
            f"both on the same runs."
        )
    return low, high
