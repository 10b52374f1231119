"""Several laws fitted to the losses of one eval, and their average, which forecasts and plans like one fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.asked_rows import known_at
from cptlaw.fitting.base_models import KEYS, OF_TARGET, BaseErrors
from cptlaw.fitting.cached import Cache, cache_with, cached, cached_in
from cptlaw.fitting.doubt import LEAST_WEIGHT
from cptlaw.fitting.fit import Fit, HalfWidths
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.members import Member
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.rollouts import Rollout
from cptlaw.fitting.saved import CountedRows
from cptlaw.fitting.shared_error import SharedError, UndertrainedBase
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.open_rates import with_rates
from cptlaw.fitting.study_prior import ByStudies, StudyPrior, with_studies
from cptlaw.fitting.weights import RolloutScores
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import CombinedLaw
from cptlaw.laws.inputs import AnyRows, Columns, Points, as_rows
from cptlaw.laws.parameters import short_specs
from cptlaw.result import Line, Table
from cptlaw.runs.points import as_points
from cptlaw.schedules import Schedule, read_schedules
from cptlaw.units import counted

ONE_SEARCH = ("objective", "n_starts", "n_agree", "rank", "n_free")  # what the search of one law tells


@dataclass(frozen=True, repr=False, eq=False)
class Average(CountedRows, Fit):
    """Laws that were fitted on the same rows, averaged by what they forecast in common rollouts.

    Attributes
    ----------
    on, role
        The eval that was fitted and its role.
    members
        The laws, the heaviest first.
    scores
        How they did in the common rollouts, in the order of `members`.
    folds
        The common rollouts.
    data
        The common rows: run, inputs in raw units, loss; base models are not among them.
    base
        Measured losses of base models on this eval: n_params, ptpp, loss.
    findings
        What was left out and why, and what stands against the forecasts.
    provenance
        Where the data came from: file, fingerprint, filter, kind of parameter count.
    skipped
        Laws that could not be fitted, with the reason.
    undertrained
        Base models whose runs are left out as under-trained, with what the average misses of those runs.
    sources
        Of a target loss, the fits to the source loss of the same runs: their mean residual of a base model is partly
        shared by the target losses of its runs.
    study_prior
        Of few runs of CPT: the prior that other studies give, with what is known of this study.
    """

    on: str
    role: Role
    members: tuple[Member, ...]
    scores: RolloutScores
    folds: tuple[Rollout, ...]
    data: pd.DataFrame
    base: pd.DataFrame
    findings: tuple[Finding, ...]
    provenance: Provenance
    skipped: Mapping[str, str] = field(default_factory=dict)
    undertrained: tuple[UndertrainedBase, ...] = ()
    sources: tuple[LawFit, ...] = ()
    study_prior: StudyPrior | None = None
    _cache: Cache = field(default_factory=dict)

    def completed(self, frame: Points) -> pd.DataFrame:
        """Return rows with the rates that they leave open; what else laws compute every one completes itself."""
        return with_rates(self, as_rows(frame))

    @property
    def law(self) -> CombinedLaw:
        """Stand-in for a `Law` where several are averaged."""
        laws = [member.fit.law for member in self.members]
        return CombinedLaw(
            inputs=tuple(dict.fromkeys(name for law in laws for name in law.inputs)),
            needs_schedules=all(law.needs_schedules for law in laws),
            decreasing=tuple(name for name in laws[0].decreasing if all(name in law.decreasing for law in laws)),
            signed_inputs=tuple(dict.fromkeys(name for law in laws for name in law.signed_inputs)),
            equation=laws[0].equation if len(laws) == 1 else CombinedLaw.equation,
        )

    @property
    def n_blocks(self) -> int:
        """Groups of rows that err independently."""
        return self.leading.n_blocks

    @property
    def status(self) -> str:
        """Whether the searches of all laws with weight converged."""
        all_did = all(member.fit.status == "converged" for member in self.members if member.weight > LEAST_WEIGHT)
        return "converged" if all_did else "not converged"

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Learning-rate schedules of the fitted runs, for the laws that read them."""
        return {run: known for fit in self.fits for run, known in fit.schedules.items()}

    @property
    def fits(self) -> tuple[LawFit, ...]:
        """The fitted laws."""
        return cast("tuple[LawFit, ...]", super().fits)

    def with_schedules(self, schedules: Mapping[str, Schedule] | str | Path) -> Average:
        """Return the average with more learning-rate schedules, to forecast runs under them."""
        result = read_schedules(schedules)
        members = tuple(
            replace(member, fit=fit.with_schedules(result)) if fit.law.needs_schedules else member
            for member, fit in zip(self.members, self.fits, strict=True)
        )
        return replace(self, members=members, _cache={})

    def _known_weights(self, frame: Columns) -> Array:
        return self.scores.weights(self._outside(frame))

    def predict(self, frame: Points) -> Array:
        """Return the forecast loss of each row, (n,): the laws' weighted mean, less what they miss of base models."""
        rows = Columns.of(self.completed(frame))
        values: Array = self._without_bases(rows) * np.exp(self._by_studies(rows).added + self.bases().at(rows))
        return values

    def _by_studies(self, rows: Columns) -> ByStudies:
        """Return what studies make of the forecasts at rows; nothing, where they do not speak."""
        if self.study_prior is None or not {*KEYS, "tokens"} <= set(rows.columns):
            return ByStudies(np.zeros(len(rows)), *np.ones((4, len(rows))))
        read = partial(with_studies, self.of_runs_alone(), self.study_prior, rows)
        return cached_in(known_at(self, rows), "studies", read)

    @property
    def uses_studies(self) -> bool:
        """Whether studies of others say how sure it is."""
        return self.study_prior is not None

    def half_width_of_change(self, rows: pd.DataFrame, half_width: Array, coverage: float) -> Array | None:
        """Return the half-width of the log of a loss over its base model's, (n,), given that of the log loss."""
        if self.study_prior is None:
            return None
        said, scatter = self._by_studies(Columns.of(self.completed(rows))), self.scatter(coverage)
        of_loss = np.sqrt(np.maximum(half_width**2 - (said.noise * scatter) ** 2, 0.0))
        return np.asarray(np.hypot(said.of_change * of_loss, said.noise_of_change * scatter), dtype=float)

    @cached
    def of_runs_alone(self) -> Average:
        """Return the average without what studies of others add to it."""
        return replace(self, study_prior=None, _cache={})

    def with_study_prior(self, prior: StudyPrior) -> Average:
        """Return the average beside another prior of studies; what its runs alone say is not computed again."""
        return replace(self, study_prior=prior, _cache=cache_with(Average.of_runs_alone, self.of_runs_alone()))

    def _half_widths(self, frame: Columns, coverage: float, last: Cache) -> HalfWidths:
        *of_loss, noise = super()._half_widths(frame, coverage, last)
        said = self._by_studies(frame)
        forms, parameters, distance = (part * said.left for part in of_loss)
        return forms, parameters, distance, said.noise * noise

    @cached
    def bases(self) -> BaseErrors:
        """Return what the measured source losses of base models say of the runs that start from them."""
        if not self.sources:
            return BaseErrors(self, self._without_bases)
        return BaseErrors(self.sources[0], self._source_loss, OF_TARGET, annealed=0.0)

    def _source_loss(self, rows: AnyRows) -> Array:
        """Return the forecast source loss of each row, (n,): the mean of the fits to it."""
        return np.asarray(np.exp(np.mean([np.log(one.predict(rows)) for one in self.sources], axis=0)), dtype=float)

    def _without_bases(self, rows: AnyRows) -> Array:
        """Return the forecasts without what the measured losses of base models add to them."""
        rows = Columns.of(rows)
        share, centres, _ = self._centres(rows)
        log_loss = np.sum(share * centres, axis=1) - self._shared_error().at(rows)
        counted = share.sum(axis=1) > 0  # none, where every law is infinite
        return np.asarray(np.where(counted, np.exp(log_loss), np.nan), dtype=float)

    @cached
    def _shared_error(self) -> SharedError:
        return SharedError.of(self.data, self.residuals(), self.undertrained)

    def residuals(self) -> Array:
        """Return log(predicted) - log(observed) of the common rows, as the laws alone predict them, (n_points,)."""
        share, centres, _ = self._evaluate_laws(Columns.of(as_points(self.data)))
        values: Array = np.sum(share * centres, axis=1) - np.log(self.data["loss"].to_numpy(dtype=float))
        return values

    @property
    def title(self) -> str:
        """What was averaged."""
        laws = self.leading.law.name if len(self.members) == 1 else f"{len(self.members)} laws"
        return f"auto on {self.on}{'' if self.on == self.role else f' ({self.role})'}: {laws}"

    @property
    def lines(self) -> list[Line]:
        """Why the laws below have these weights, and on what."""
        residual = 100 * float(np.sqrt(np.mean(self.residuals() ** 2)))
        return [
            *([("weights", self.why)] if len(self.members) > 1 else []),
            (
                "data",
                f"{counted(self.n_points, 'point')} of {counted(self.n_runs, 'run')}, root mean square residual "
                f"{residual:.3g}%",
            ),
        ]

    @property
    def details(self) -> list[Line]:
        """The laws with every option that the table gave them."""
        return [("law", _spec_with_ties(member.fit)) for member in self.members]

    @property
    def why(self) -> str:
        """By which rollouts the laws are weighted, in words."""
        if not self.folds:
            return "as usual, for no rollout within these rows can be fitted"
        along = list(dict.fromkeys(fold.direction for fold in self.folds))
        return (
            f"by {len(self.folds)} rollouts along {', '.join(along)}, up to "
            f"{float(np.exp(np.abs(np.array([fold.reach for fold in self.folds])).max())):.2g}-fold beyond what they "
            f"fit; those in the direction of the forecast count more"
        )

    @property
    def tables(self) -> list[Table]:
        """All laws with their weights and what they err by in the common rollouts."""
        if len(self.members) < 2:
            return []
        names = short_specs([_spec_with_ties(member.fit) for member in self.members])
        rows = tuple(
            (name, f"{member.weight:.0%}", f"{member.error:.2%}" if np.isfinite(member.error) else "-")
            for name, member in zip(names, self.members, strict=True)
        )
        return [Table(("law", "weight", "error in rollouts"), rows)]

    def to_dict(self) -> dict[str, object]:
        """Return the promised JSON keys."""
        return {
            "law": "auto",
            "on": self.on,
            # Each member has its own: an average has no parameters and no search that they could stand for.
            **dict.fromkeys(("params", "units", *ONE_SEARCH)),
            "members": [_member_to_dict(member) for member in self.members],
            "rollouts": [{"direction": fold.direction, "label": fold.label} for fold in self.folds],
            "skipped": dict(self.skipped),
            **self.rests_on,
        }

    def content(self) -> dict[str, object]:
        """Return what its file holds beside rows: its JSON, the fits of all laws, and how the rollouts went."""
        document = self.to_dict()
        document["members"] = [
            {**_member_to_dict(member), "fit": fit.document()}
            for member, fit in zip(self.members, self.fits, strict=True)
        ]
        document["brief"] = [asdict(one) for one in self.undertrained]
        document["study_prior"] = None if self.study_prior is None else self.study_prior.to_dict()
        document["sources"] = [source.document() for source in self.sources]
        document["scores"] = {name: getattr(self.scores, name).tolist() for name in ("share", "error", "reach")}
        document["folds"] = [
            {"direction": fold.direction, "label": fold.label}
            | {name: getattr(fold, name).astype(int).tolist() for name in ("fit", "test")}
            for fold in self.folds
        ]
        return document


def _member_to_dict(member: Member) -> dict[str, object]:
    """Return the promised JSON keys of one law."""
    return {
        "law": member.fit.law.spec,
        "tied": [list(group) for group in member.fit.options.restraint.tied],
        "weight": member.weight,
        "error": member.error if np.isfinite(member.error) else None,
        "params": member.fit.params,
        "units": member.fit.units,
        **{name: getattr(member.fit, name) for name in ONE_SEARCH},
    }


def _spec_with_ties(fit: LawOnRows) -> str:
    """Return a law's spec with its ties."""
    ties = "".join(f", {'='.join(group)}" for group in fit.options.restraint.tied)
    return f"{fit.law.spec}{ties}"
