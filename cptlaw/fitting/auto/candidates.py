"""The laws that the columns at hand allow, each with its restraint and what it counts before any rollout is seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from cptlaw.fitting.auto.rows import Chosen, levels
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.learned.priors import learned_priors
from cptlaw.fitting.solving.restraint import Prior, Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.laws import LAWS, Law, law
from cptlaw.laws.base import Role

# What forms count before rollouts are seen, chosen by leaving whole studies out (studies/bench.md). Ladders of end
# points are forecast by ties and by an exponent of over-training; points along few runs by untied exponents too.
UNTIED, KAPLAN = 1.0, 0.05
PLAUSIBLE = 0.2  # share of the learned priors on exponents that weighs a form: a tie carries one exponent to the other
BENDS = {1: 1.0, 1.5: 1.0, 2: 0.5}  # by the bend
MIDDLE = 1.5  # neither end of the bends decides
RATES = 3  # peak rates of CPT from which a table can tell how the rate acts; see studies/bench.md
SCHEDULED = 1.0
# One form a loss of CPT. Of two that were averaged, target losses need the bend alone and source losses what size and
# tokens are worth on the other corpus: as good or better on our tables and on those of others, at half the cost
# (studies/bench.md).
OF_CPT: dict[Role, dict[str, object]] = {"source": {"transfer": True}, "target": {"bend": MIDDLE}}
# lambda of annealing: as published, for runs of many thousand steps, and a memory of 50 steps for runs of hundreds.
MEMORIES = (0.999, 0.98)
FLOOR, SHARE, EXPONENT = Prior(0.65, 0.3, "share"), Prior(0.1, 1.2, "share"), Prior(0.3, 0.5, "log")
# By how much priors of laws of models from scratch are narrowed. The rows of a ladder err together, however many they
# are, and the learned spread of the floor is wider than studies differ by (studies/bench.md).
INDEPENDENT, MOST_ALIKE = 10, 16  # rows that count as independent, and how many there may be of each
FLOOR_SPREAD = 0.5  # of the learned spread of the irreducible loss
# What the logarithm of a target loss changes by per e-fold of tokens, on average over rows of CPT: -.02 to -.10 on nine
# corpora. A table of one level of tokens does not tell it, and what it tells of sizes must not stand for it.
ALONG_TOKENS = Prior(-0.05, 0.05)
# Of the spread of what is known of replay, where one mix was run: what sizes and rates tell of these parameters, which
# they enter beside replay, would else be read along replay (studies/bench.md).
ONE_MIX = {"a2": 0.5, "s": 0.2}
EXPONENTS = ("alpha", "beta", "eta", "gamma", "g3", "alpha_N", "alpha_D")


@dataclass(frozen=True)
class Candidate:
    """A law with its restraint.

    Parameters
    ----------
    tied
        Parameters that share a value.
    share
        What it counts before rollouts are seen, beside the other candidates.
    judged
        Parameters whose fitted values tell how plausible it is, by what was learned of them from other studies.
    tight_priors
        Whether its priors are narrowed with the number of rows, as ladders from scratch need (`tighten_priors`).
    """

    law: Law
    tied: tuple[tuple[str, ...], ...] = ()
    share: float = 1.0
    judged: tuple[str, ...] = ()
    tight_priors: bool = False

    def restraint(self, training: TrainingRows, known: Restraint | None = None) -> Restraint:
        """Return the restraint of a fit: ties, what the fit to the source loss gives, and weak priors on the rest."""
        reading = training.law
        followers = {name for group in self.tied for name in group[1:]}
        priors = {
            name: prior
            for name, prior in all_priors(reading, training.role, training.frame).items()
            if name not in followers
        }
        if self.tight_priors:
            priors = tighten_priors(priors, len(training.frame))
        informed = Restraint() if known is None else Restraint().with_known(reading, known)
        weak = {name: prior for name, prior in priors.items() if name not in informed.named}
        along = ALONG_TOKENS if training.role == "target" and reading.reads_base_rows else None
        return replace(informed, tied=self.tied, priors={**informed.priors, **weak}, along_tokens=along)

    def share_of(self, fit: LawFit) -> float:
        """Return what the law counts before rollouts are seen, its fitted exponents once known.

        The prior of a parameter that is tied to another has no part in the fit, and counts here.
        """
        # The level of the loss does not matter here: only exponents are judged.
        priors = learned_priors(fit.law, 1.0, fit.role)
        away = [math.log(fit.params[name] / priors[name].mean) / priors[name].sd for name in self.judged]
        return self.share * math.exp(-0.5 * PLAUSIBLE * sum(one**2 for one in away))


def all_priors(chosen: Law, role: Role, frame: pd.DataFrame) -> dict[str, Prior]:
    """Return a prior for every parameter of which something is known: learned from other studies, else a weak one.

    Parameters
    ----------
    chosen, role
        The law and the role of the eval.
    frame
        The rows that are fitted; their lowest loss is the unit of the floor.
    """
    # What is known of a derived parameter says nothing of the ratio as which it is searched.
    usual = chosen.usual_of(role, frame)
    result = {name: Prior(*moments) for name, moments in usual.items() if name not in chosen.derived}
    _add_weak_priors(chosen, result)
    learned = learned_priors(chosen, float(frame["loss"].min()), role)
    if "E" in learned and chosen.reads_base_rows and role == "target":
        learned["E"] = replace(learned["E"], mean=learned["E"].mean + _gained(frame))
    # No study varies the rate of pre-training alone, so that its usual prior, by role, stays.
    result |= {name: prior for name, prior in learned.items() if name != "w"}
    if chosen.reads_base_rows and levels(frame, "replay") == 1:
        result |= {name: replace(result[name], sd=k * result[name].sd) for name, k in ONE_MIX.items() if name in result}
    return result


def _add_weak_priors(chosen: Law, priors: dict[str, Prior]) -> None:
    """Add what holds of the parameters of any law with a floor, and priors as wide as the starts of the others."""
    if "E" in chosen.amplitudes:
        priors.setdefault("E", FLOOR)
        for name in (name for name in chosen.amplitudes if name not in chosen.derived):
            priors.setdefault(str(name), SHARE)
        for name in EXPONENTS:
            if name in chosen.shapes:
                priors.setdefault(name, EXPONENT)
    for name, shape in chosen.shapes.items():
        # Where rows do not see a parameter at all, every rollout would else begin wherever the search had left it.
        low, high = shape.start_range
        if shape.scale == "log":
            scale = "ratio" if name in chosen.derived else "log"
            priors.setdefault(name, Prior(math.sqrt(low * high), 0.5 * math.log(high / low), scale))
        else:
            priors.setdefault(name, Prior(0.5 * (low + high), 0.5 * (high - low)))


def _gained(frame: pd.DataFrame) -> float:
    """Return what CPT is seen to gain, nats: the best base model's highest loss over the lowest loss of all.

    Floors are learned from models of one corpus. A law that holds the base model's loss too has its floor there, above
    what CPT gains: read as the size term, that gain made larger models 5 to 16 % too good where one size was fitted
    (studies/bench.md).
    """
    base_model = [name for name in ("n_params", "ptpp") if name in frame.columns]
    of_base = frame.groupby(base_model, dropna=False)["loss"].max() if base_model else frame["loss"]
    return float(of_base.min() - frame["loss"].min())


def tighten_priors(priors: Mapping[str, Prior], count: int) -> dict[str, Prior]:
    """Scale prior widths by the number of rows."""
    alike = min(max(count / INDEPENDENT, 1.0), MOST_ALIKE)
    spread = {name: FLOOR_SPREAD if name == "E" else 1.0 for name in priors}
    return {
        name: prior if prior.scale == "ratio" else replace(prior, sd=prior.sd * spread[name] / math.sqrt(alike))
        for name, prior in priors.items()
    }


def candidates(rows: Chosen, role: Role, has_schedules: bool) -> Iterator[Candidate]:
    """Yield the candidates for these rows, the one to prefer first."""
    frame = rows.frame
    # Laws of mixes know neither replay nor budgets: where a table varies these, its questions are about them.
    if rows.of_mixes and levels(frame, "replay") < 2 and levels(frame, "ptpp") < 2:
        yield from _mix_candidates(frame)
        return
    sizes = levels(frame, "n_params")
    if rows.is_curves:
        yield from _curve_candidates(sizes)
        if sizes < 2 or "tokens" not in frame.columns:
            return
    if rows.is_cpt:
        yield from _cpt_candidates(frame, role, has_schedules)
    else:
        yield from _tuning_candidates() if rows.is_tuning else _pretraining_candidates(frame)


def _mix_candidates(frame: pd.DataFrame) -> Iterator[Candidate]:
    yield Candidate(law("mix-additive"))
    yield Candidate(law("mix-joint"))
    # It knows shares alone: with several scales in the table it would take their differences for those of mixes.
    if levels(frame, "n_params") < 2 and levels(frame, "tokens") < 2:
        yield Candidate(law("mix-exponential"))


def _curve_candidates(sizes: int) -> Iterator[Candidate]:
    if "lr-annealing" not in LAWS:  # they stand in a package of their own
        return
    # Both readings of the warm-up are offered, for the papers differ: the reference code of the annealing law counts it
    # at the peak, that of the multi-power law as it ran.
    for warmup in ("actual", "peak"):
        # Its gain fades by the learned prior: ahead on curves longer than the fitted ones (studies/bench.md).
        yield Candidate(law("lr-annealing", warmup=warmup, size=sizes > 1, fading=True))
    if sizes < 2:
        yield Candidate(law("multi-power"))


def _pretraining_candidates(frame: pd.DataFrame) -> Iterator[Candidate]:
    tied = (("alpha", "beta"),)
    for bend, share in BENDS.items():
        yield Candidate(law("chinchilla", bend=bend), tied, share, tied[0], tight_priors=True)
    if frame.groupby("run")["loss"].size().max() > 1:
        yield Candidate(law("chinchilla", bend=MIDDLE), (), UNTIED, tied[0], tight_priors=True)
        yield Candidate(law("kaplan"), (), KAPLAN, tight_priors=True)
    else:
        yield Candidate(law("over-training"), tight_priors=True)


def _tuning_candidates() -> Iterator[Candidate]:
    yield Candidate(law("transfer"))
    yield Candidate(law("rectified"), tight_priors=True)


def middle_of_pre_training() -> Candidate:
    """Return the candidate in the middle of those for models from scratch."""
    return Candidate(law("chinchilla", bend=MIDDLE), (("alpha", "beta"),))


def _rate(frame: pd.DataFrame) -> str:
    """Return where the rate of CPT acts (`cptlaw.laws.shared_tokens`), as far as a table can tell."""
    return "progress" if levels(frame, "lr_peak") >= RATES else "amplitude"


def middle_of_cpt(frame: pd.DataFrame) -> Candidate:
    """Return the candidate by which rows of CPT are judged: quick, and of either loss."""
    return Candidate(law("shared-tokens", rate=_rate(frame), transfer=True))


def of_cpt(frame: pd.DataFrame, role: Role) -> Candidate:
    """Return the one law of the losses of CPT that needs no schedules."""
    if role == "other":  # whose share of the mix it is in is not known
        return Candidate(law("ptpp-blind"))
    # On tables of one mix what the rate costs every loss goes astray (studies/bench.md).
    raised = _rate(frame) == "progress" and levels(frame, "replay") > 1
    return Candidate(law("shared-tokens", rate=_rate(frame), raised=raised, mix="rehearsal", **OF_CPT[role]))


def _cpt_candidates(frame: pd.DataFrame, role: Role, has_schedules: bool) -> Iterator[Candidate]:
    yield of_cpt(frame, role)
    if has_schedules and role != "other" and "cpt-dynamics-joint" in LAWS:
        name = "cpt-dynamics-joint" if levels(frame, "n_params") > 1 else "cpt-dynamics-replay"
        for decay in MEMORIES:
            yield Candidate(law(name, normalised=True, one_gain=True, decay=decay), (), SCHEDULED / len(MEMORIES))
