"""Continual pre-training without schedules: both phases share one token term, and the corpora shift apart.

A model that has read P N tokens of the source corpus and D tokens of a mix is a model of k P N + D tokens; on top of
that, what moves is how far it has gone over from the one corpus to the other. The shift saturates, so that a loss may
rise at first and fall later on; how large it is depends on the rate of CPT and on the budget, and more pre-training may
make forgetting worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError
from cptlaw.laws.base import Amplitude, Context, Given, Option, RatioOf, Role, Shape
from cptlaw.laws.bend import Bent
from cptlaw.laws.calculus import (
    Array,
    Computed,
    Letters,
    Number,
    Positive,
    Value,
    exp,
    expm1,
    log,
    log1p,
    maximum,
    saturation,
)
from cptlaw.laws.parameters import UsualPrior, positive, some_of
from cptlaw.units import input_text

RATE, BUDGET = 1e-3, 100.0  # peak rates and tokens per parameter at which B is stated
USUAL = {"lr_peak": RATE, "lr_pretrain": RATE, "ptpp": BUDGET, "replay": 0.0}  # where a frame lacks the column
# The parameters that only an optional column determines.
PARAMETERS_READING = {"lr_peak": ("h",), "lr_pretrain": ("w",), "ptpp": ("b",), "replay": ("a2",)}
SHIFT = ("d0", "beta", "a2", "h", "w", "b", "m", "s")  # the shapes of the shift
OTHER_OMISSIONS = ("base", "sizes")  # words of option `without` that are no columns: the term U; the powers m and s
FULL_TRAINING = {"merge_weight": 1.0, "lora_rank": 1e6}  # a model that is not merged, and trained without adapters
# The steeper a shift grows with the budget the sooner its growth ends: b fades at b^2/FADE per e-fold of more budget.
FADE = 0.2
LEAST_SIZES = 2  # model sizes in a table from which m and s are parameters; below, d0 and a2 are the same at all sizes

TOKEN_EXPONENT = Shape(0.02, 2.5, start=(0.15, 0.6), usual=(0.3, 0.47, "log"))
EXCHANGE = Shape(1e-3, 1e2, start=(0.3, 3.0), usual=(1.0, 0.69, "log"))
BEND_POINT = Shape(1e-5, 1e4, start=(0.02, 5.0), usual=(0.25, 0.7, "log"))
SATURATION = Shape(1e-3, 20.0, start=(0.05, 1.0), usual=(0.3, 1.0, "log"))
SHIFT_OF_MIX = Shape(1e-2, 100.0, start=(0.5, 7.0), usual=(3.0, 0.8, "log"))
OF_RATE = Shape(-0.5, 3.0, start=(0.2, 1.0), scale="linear", usual=(0.6, 0.3))
OF_PRETRAINING_RATE = Shape(-2.0, 1.0, start=(-0.4, 0.0), scale="linear", usual=(-0.2, 0.2))
OF_BUDGET = Shape(-1.0, 1.5, start=(-0.1, 0.3), scale="linear", usual=(0.1, 0.1))
OF_PROGRESS = (0.75, 0.3)  # rate times steps, a little less than in proportion
# A larger model has taken more steps at as many tokens per parameter, and keeps two corpora apart with less replay.
OF_SIZE = Shape(-1.0, 3.0, start=(-0.1, 1.2), scale="linear", usual=(0.15, 0.2))
SIZE_OF_MIX = Shape(-1.0, 1.5, start=(-0.1, 0.3), scale="linear", usual=(0.1, 0.15))
# What every loss pays for the raised rate: .3 to .6 on seven corpora of two teams (studies/bench.md).
OF_RAISING = Shape(0.0, 3.0, start=(0.2, 1.0), scale="linear", usual=(0.4, 0.3))
TRANSFER = Shape(0.02, 1.0, start=(0.2, 0.9), scale="linear", usual=(0.6, 0.3))
# What the target loss gains grows with the rate of CPT alone, and bends almost anywhere. How much sooner a larger model
# adapts at as many tokens a parameter: m is .9 to 3.0 on five tables of tiny models, 1.7 to 2.9 on eight of larger.
OF_TARGET: dict[str, UsualPrior] = {"h": (0.4, 0.3), "w": (0.0, 0.1), "b": (0.0, 0.1), "m": (2.0, 0.5)}
OF_TARGET |= {"d0": (0.3, 3.0, "log")}
# Slopes of what a merge leaves of a change, at the base model and at the adapted one (studies/training/merge_law.py).
AT_BASE = Shape(-3.0, 4.0, start=(-0.5, 1.0), scale="linear", usual=(-0.1, 0.3))
AT_ADAPTED = Shape(-3.0, 5.0, start=(-0.5, 2.5), scale="linear", usual=(2.3, 0.5))
OF_TARGET |= {"v0": (0.9, 0.5), "v1": (-0.3, 0.5)}
HALF_RANK = Shape(1e-3, 1e3, start=(0.5, 20.0), usual=(4.0, 1.0, "log"))
OF_RANK = Shape(0.02, 3.0, start=(0.1, 1.0), usual=(0.3, 0.7, "log"))
# What replay undoes is told by the exponent a2 of the factor of the mix: fitted apart, c a2 is 1.4 to 3.5 on five
# tables, so that what other studies say of the one holds for the other.
REHEARSED = 2.3
TINY = 1e-9  # beside 1: what is divided by is not 0
NO_SHARE = 1e-300  # of a corpus: stands for none, whose logarithm is not finite
DAMAGE = 0.044  # K times the mean loss, as it came out on seven shifts: 0.02 nats per squared nat
SHIFT_AMPLITUDE = Shape(1e-9, 1e9, start=(0.05, 2.0))


def _positive_or_none(given: object) -> float | None:
    return None if given is None else positive(given)


def _shift_differs_by_run(frame: pd.DataFrame) -> bool:
    """Say whether the shift of the source loss differs from run to run: by mix or by rate.

    At one mix and one rate the damage is a constant in the target loss, which its own shift has too: a fit could not
    tell the two apart, and forecasts at other rates would explode.
    """
    return any(len(_levels(frame, name)) > 1 for name in ("replay", "lr_peak"))


class SharedTokens(Bent):
    """The shift between two corpora over the loss of all tokens read so far.

    With x = D / (d0 N), r_cpt = 1 - replay and the peak rates lr of CPT and lr' of pre-training:

        loss   L = E + F/N^g + A/(k P N + D)^a +/- S + U (1 - (1 + x)^-beta)          + S: source loss, - S: target loss
        shift  S = B (lr/1e-3)^h (lr'/1e-3)^w (P/100)^b (1 - (1 + x)^-beta) f(r_cpt)
        mix    f = (e^(a2 r_cpt) - 1) / (e^a2 - 1) (source),  (1 - e^(-a2 r_cpt)) / (1 - e^-a2) (target)

    At D = 0 it is the base model's loss, whose measured rows are fitted with the others; replay 0 and 1 are finite. U
    is what every loss gains when the rate is raised again after pre-training had annealed it; with raised=true it grows
    as (lr/1e-3)^u. k is what a token of
    pre-training is worth in tokens of CPT; d0 the tokens per parameter by which the shift bends; h, w and b how it
    grows with the rates and with the budget: b above 0 says that over-trained models forget more. With rate=progress
    the rate of CPT says how fast the shift is run through, x = (D/(d0 N)) (lr/1e-3)^h, and no longer how large it gets.

    From two sizes on a fit states d0 and a2 `around` the one in their middle, N0: x is (N/N0)^m times as large, and
    a2 stands for a2 (N/N0)^s. With m = 1 the shift follows the tokens, as in Wang et al., and not the tokens per
    parameter; s above 0 says that replay is worth more to larger models, which forget more without it. Above the
    `largest` fitted size the gain of the target follows the tokens at least, so that at equal tokens a larger model is
    never forecast to gain less.

    Beyond the `longest` fitted budget P1 the growth with the budget fades, the sooner the steeper it is: of y =
    ln(P/P1) counts y (1 - e^-u)/u, u = b^2 y/0.2.

    B is the shift without replay after many tokens, at rates of 1e-3 and 100 tokens of pre-training per parameter. A
    fit leaves out what its table has no column for.

    With mix=rehearsal replay undoes what has shifted of the source loss: (1 - (1 + x)^-beta) f becomes

        1 - ((1 + x) / (1 + rho x))^-beta,    rho = r / (r + c r_cpt),  c = 2.3 / a2,  r the replay

    and f of the target loss becomes r_cpt^c with the same slope at no replay, c = a2/(e^a2 - 1); so that the source
    loss without replay rises on, and with it stays at a level that falls with the logarithm of replay: the
    first per cents save the most, and the more, the longer the run.

    What size and tokens are worth on the one corpus may be worth less on the other: with ``transfer=true`` their terms
    count 1 - (1 - t) s for the source loss and t + (1 - t) s for the target loss, s = (1 - (1 + x)^-beta) f. The better
    base model then has more to forget and more to gain, and one that has never seen the target corpus hardly gets
    better on it. t = 1 is the law as it stands above.

    A merge with the base model and an adapter leave a part of the change that CPT makes to each term. At weight w it is
    w^2 (3 - 2 w) + v0 w (1 - w)^2 - v1 w^2 (1 - w), slopes v0 and v1 at its ends; of rank R it is (1 + r0/R)^-q. A fit
    reads what varies in its rows: ``left=merge_weight+lora_rank``.
    """

    takes_columns = True
    name = "shared-tokens"
    right = (
        "Base models of several pre-training lengths, any replay from 0 to 1, source losses that first rise and "
        "then fall. The first law to try."
    )
    wrong = (
        "One size and budgets far beyond the measured ones; a first budget of a few hundred steps, which is not on "
        "the curve of the others."
    )
    measured = (
        "Five example tables: 0.8 to 1.6 % from three budgets, 1.8 to 7.8 % from two early ones; sealed forecasts of "
        "larger models: the target within 2.2 %, the source within 7.2 (studies/measured_tables.md). Over-trained "
        "models at several rates, with rate=progress: 0.2 to 0.8 % (studies/bench.md)."
    )
    order = 45
    equation = (
        "L = E + F/N^g + A/(k P N + D)^a +/- B (lr/1e-3)^h (lr'/1e-3)^w (P/100)^b (1 - (1 + D/(d0 N))^-beta) "
        "f(a2, r_cpt) + U (1 - (1 + D/(d0 N))^-beta),  f as in cpt-dynamics-replay, 1 without replay; "
        "from two sizes on d0 goes as N^-m and a2 as N^s; with transfer=true F and A count 1 - (1 - t) s, "
        "t + (1 - t) s for the target, s = (1 - (1 + D/(d0 N))^-beta) f; with mix=rehearsal (1 - (1 + x)^-beta) f is "
        "1 - ((1 + x)/(1 + rho x))^-beta for the source loss, x = D/(d0 N), rho = r/(r + 2.3 r_cpt/a2)"
    )
    source = "this project; the shift and its factor of the mix are those of Wang et al. 2025, eq. 8, arXiv:2505.07796"
    status = "reconstructed"
    inputs: tuple[str, ...] = ("n_params", "tokens", "replay", "ptpp", "lr_peak", "lr_pretrain")
    ratio_of: RatioOf | None = "own"
    units = {"n_params": 1e9, "tokens": 1e9}
    delta = 0.02
    starts = 16
    amplitudes: tuple[str, ...] = (
        Amplitude("E", plausible=(1.5, 3.0), usual=(0.65, 0.3, "share")),
        Amplitude("F", usual=(0.15, 1.0, "share")),
        Amplitude("A", usual=(0.1, 1.0, "share")),
        Amplitude("B", plausible=(0.005, 0.05), usual=(0.05, 1.0, "share")),
        Amplitude("U", usual=(0.01, 1.0, "share")),
    )
    joined = ("F", "A")
    shapes = {
        "g": TOKEN_EXPONENT,
        "a": TOKEN_EXPONENT,
        "k": EXCHANGE,
        "d0": BEND_POINT,
        "beta": SATURATION,
        "a2": SHIFT_OF_MIX,
        "h": OF_RATE,
        "w": OF_PRETRAINING_RATE,
        "b": OF_BUDGET,
        "m": OF_SIZE,
        "s": SIZE_OF_MIX,
    }
    diverges_at_zero = ("n_params",)
    reads_base_rows = True
    always_priors: bool | tuple[str, ...] = True
    in_doubt = ("B_source", "h_source", "w_source", "b_source")
    learned: Mapping[str, str] = {}

    choices = Bent.choices | {
        "damage": Option(
            False,
            "true or false",
            "For the target loss: what CPT breaks of the source it pays for too, K S_source^2, with the shift of the "
            "source loss (parameters ending in _source). A fit sets it where both are measured: it fits the source "
            "loss first, and takes the shift over with its doubt, as a prior on how large it is.",
        ),
        "rate": Option(
            "amplitude",
            ("amplitude", "progress"),
            "Where the peak rate of CPT acts: on how large the shift gets, or on how fast it is run through, for rate "
            "times steps is how far weights can go. Law auto takes progress from three rates on.",
        ),
        "raised": Option(
            False,
            "true or false",
            "Whether what every loss pays for the raised rate grows with it, U (lr/1e-3)^u. Law auto takes it where "
            "three rates and several mixes were run from measured base models.",
        ),
        "without": Option(
            (),
            f"some of {', '.join((*USUAL, *OTHER_OMISSIONS))}, joined by +",
            "Optional columns that are not read; base where no base model was measured, which leaves out U; and sizes "
            "for a shift that is the same at all of them, which leaves out m and s.",
            some_of((*USUAL, *OTHER_OMISSIONS)),
        ),
        "around": Option(
            None,
            "a number of parameters; for a shift that is the same at all sizes write without=sizes",
            "The model size at which d0 and a2 are stated, and from which they change with size. A fit to several "
            "sizes sets it to the one in their middle.",
            _positive_or_none,
        ),
        "largest": Option(
            None,
            "a number of parameters",
            "The largest fitted size, which a fit sets: above it the gain of the target follows the tokens, or goes on "
            "as it was fitted where it grows faster than they do.",
            _positive_or_none,
        ),
        "longest": Option(
            None,
            "tokens per parameter",
            "The longest fitted budget, which a fit sets: beyond it the growth of the shift with the budget fades.",
            _positive_or_none,
        ),
        "left": Option(
            (),
            f"some of {', '.join(FULL_TRAINING)}, joined by +",
            "Columns that say how much of the change is left: the weight of a merge with the base model, the rank of "
            "adapters. A fit sets those that vary in its rows.",
            some_of(FULL_TRAINING),
        ),
        "mix": Option(
            "factor",
            ("factor", "rehearsal"),
            "How replay holds the source loss: by the factor f of its shift, or by undoing what has shifted, which "
            "then ends at 1 - rho^beta in place of f. Law auto takes rehearsal.",
        ),
        "transfer": Option(
            False,
            "true or false",
            "Whether the shift also moves what size and tokens are worth: all of it on the corpus that the model is "
            "trained on, and the share t of it on the other.",
        ),
    }
    damage: bool
    rate: Literal["amplitude", "progress"]
    raised: bool
    without: tuple[str, ...]
    around: float | None
    largest: float | None
    longest: float | None
    transfer: bool
    mix: Literal["factor", "rehearsal"]
    left: tuple[str, ...]

    def configure(self) -> None:
        """Leave out the parameters of what is not read; add those of the damage."""
        omitted = {name for part in self.without for name in PARAMETERS_READING.get(part, ())}
        omitted |= {"m", "s"} if self.around is None else {"s"} if "replay" in self.without else set()
        self.inputs = (*(name for name in self.inputs if name not in self.without), *self.left)
        self.amplitudes = tuple(name for name in self.amplitudes if name != "U" or "base" not in self.without)
        kept = {name: shape for name, shape in self.shapes.items() if name not in omitted}
        self.shapes = kept | self._optional_shapes()
        if "replay" in self.without:
            self.ratio_of = None
        if self.rate == "progress" and "h" in self.shapes:
            self.shapes |= {"h": replace(OF_RATE, usual=OF_PROGRESS)}
            self.learned = {"h": "shared_progress"}
        if self.damage:
            self._add_damage()
        super().configure()

    def _optional_shapes(self) -> dict[str, Shape]:
        """Return the parameters that options add: of transfer, merges, adapters and a raised rate."""
        result: dict[str, Shape] = {}
        if self.transfer:
            result |= {"t": TRANSFER}
        if "merge_weight" in self.left:
            result |= {"v0": AT_BASE, "v1": AT_ADAPTED}
        if "lora_rank" in self.left:
            result |= {"r0": HALF_RANK, "q": OF_RANK}
        if self.raised and {"base", "lr_peak"}.isdisjoint(self.without):
            result |= {"u": OF_RAISING}
        return result

    def _add_damage(self) -> None:
        """Add what the target loss pays for the shift of the source loss."""
        # Per squared shift: a share of the loss would let a table without much damage make K as large as it likes, and
        # forecasts at higher rates explode.
        self.amplitudes = (*self.amplitudes, Amplitude("K", usual=(0.02, 1.2, "log")))
        self.shapes = self.shapes | {"B_source": SHIFT_AMPLITUDE}
        # The shift of the source loss comes from its own fit, never from the usual values.
        of_source = {f"{name}_source": self.shapes[name] for name in SHIFT if name in self.shapes}
        self.shapes |= {name: replace(shape, usual=None) for name, shape in of_source.items()}
        self.from_source = ("B_source", *of_source)

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors; those of the target loss let its gain grow with the rate of CPT alone."""
        known = super().usual_of(role, frame)
        if "K" in known and frame is not None:
            known["K"] = (DAMAGE / float(frame["loss"].mean()), *known["K"][1:])
        of_target = {name: one for name, one in OF_TARGET.items() if name != "h" or self.rate == "amplitude"}
        return known if role != "target" else {name: of_target.get(name, known[name]) for name in known}

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> SharedTokens:
        """Return the law that reads what these rows have: the optional columns, base models, and the source's shift."""
        # A column that is missing or empty carries no information: the parameters that read it are left out, not
        # guessed.
        missing = [name for name in USUAL if name not in frame.columns or frame[name].isna().all()]
        if "tokens" not in frame.columns or not (frame["tokens"] == 0).any():
            missing.append("base")
        damage = self.damage if damage is None else damage and _shift_differs_by_run(frame)
        around = None if "sizes" in self.without else self.around or middle_size(frame)
        largest = self.largest or _largest_level(frame, "n_params")
        longest = None if "ptpp" in missing else self.longest or _largest_level(frame, "ptpp")
        known = {name: frame[name].fillna(full) for name, full in FULL_TRAINING.items() if name in frame.columns}
        left = {name for name, column in known.items() if column.nunique() > 1}
        without = {*self.without, *missing}
        mix = "factor" if "replay" in without else self.mix
        raised = self.raised and {"base", "lr_peak"}.isdisjoint(without)
        ends = {"largest": largest, "longest": longest}
        return self.with_options(
            damage=damage, without=without, around=around, left={*self.left, *left}, mix=mix, raised=raised, **ends
        )

    def shift_of_source(self, params: Mapping[str, Given]) -> dict[str, Given]:
        """Return the values of the parameters ending in ``_source``, given a fit of this law to the source loss."""
        return {f"{name}_source": params[name] for name in ("B", *SHIFT) if name in params}

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Fill what a row does not name.

        In a fit, the base models' rows have neither mix nor rate and get those of the other rows: they have no shift.
        In a forecast, a mix or budget that a point does not name is the only one that was fitted.
        """
        filled: dict[str, pd.Series | Array | float] = {
            name: _filled(frame[name], usual) if name in frame.columns else usual
            for name, usual in FULL_TRAINING.items()
            if name in frame.columns or name in self.left
        }
        if context.rows is not None and "tokens" in frame.columns:
            base = frame["tokens"] == 0
            for name in ("replay", "lr_peak", "lr_pretrain"):
                if name in frame.columns:
                    # Any value will do, for a base model has no shift that it could move; the median keeps the column's
                    # levels as they are.
                    filled[name] = frame[name].where(~base | frame[name].notna(), frame[name].median())
        elif context.fitted is not None:
            for name in ("replay", "ptpp"):
                if name in self.inputs and name not in self.without and name not in frame.columns:
                    filled |= self._only_level(name, frame, context.fitted)
        return frame.assign(**filled) if filled else frame

    def _only_level(self, name: str, frame: pd.DataFrame, fitted: pd.DataFrame) -> dict[str, float]:
        """Return the one level that the fitted rows have of an input that the points to forecast do not name."""
        trains = "tokens" not in frame.columns or bool((frame["tokens"] != 0).any())
        levels = fitted[name].dropna().unique() if name in fitted.columns else np.zeros(0)
        if name == "replay" and not trains:
            return {}  # a base model has no mix
        if len(levels) > 1:
            # A mix or budget taken in silence would be a confident answer to another question.
            ends = levels.min(), levels.max(), fitted[name].median()
            low, high, usual = (input_text(name, float(end)) for end in ends)
            raise DataError(
                f"law {self.name} needs the column {name!r} in what is to be forecast: the fitted rows have {low} to "
                f"{high}. Say which, as in {name}={usual}."
            )
        return {name: float(levels[0])} if len(levels) else {}

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name in USUAL and name not in frame.columns:
            frame = frame.assign(**{name: USUAL[name]})
        open_ = name in ("replay", "lr_peak", "lr_pretrain") and "tokens" in frame.columns
        if open_ and np.isnan(values := np.asarray(frame[name], dtype=float)).any():
            of_base = np.asarray(frame["tokens"]) == 0
            frame = frame.assign(**{name: np.where(of_base, _filled(values, USUAL[name]), values)})
        return super()._column(frame, name, role)

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs, with the role of each row; what is not read counts as usual."""
        x = super().bind(frame, role)
        # Without replay the law has no ratio, and still needs to know which of the two losses a row is.
        x.of_source = self._is_source(frame, role).astype(float)
        for name, letter in (("ptpp", "P"), ("lr_peak", "lr_peak"), ("lr_pretrain", "lr_pretrain")):
            if name in self.without:
                setattr(x, letter, Positive(np.full(len(frame), USUAL[name])))
        if "replay" in self.without:
            x.r = Positive(1.0 - x.of_source)  # the share of the eval's own corpus
        return x

    def _log_relative_size(self, x: Letters) -> Value:
        """Return the log of the size over that at which d0 and a2 are stated."""
        return log(x.N) - math.log((self.around or 1.0) / self.units["n_params"])

    # -- the terms, one by one -------------------------------------------------------------------------------------

    def progress(self, x: Letters, p: Letters, of_source: Array) -> Computed:
        """Return x = D/(d0 N), times powers of the size and, with rate=progress, of the rate."""
        ratio = (x.D * 1.0) * (x.N**-1.0) / p.d0
        if self.around is not None:
            ratio = ratio * exp(p.m * self._log_relative_size(x))
        if self.largest is not None:
            # A shift in tokens per parameter would have ever larger models gain nothing from as many tokens.
            beyond = maximum(log(x.N) - math.log(self.largest / self.units["n_params"]), 0.0) * (1.0 - of_source)
            if _any_beyond(beyond):  # no fitted row is
                ratio = ratio * exp(beyond * (1.0 if self.around is None else maximum(1.0 - p.m, 0.0)))
        if self.rate == "progress" and "h" in self.shapes:
            ratio = ratio * exp(p.h * (log(x.lr_peak) - math.log(RATE)))
        return ratio

    def shift_fraction(self, x: Letters, p: Letters, of_source: Array, log_progress: Value) -> Value:
        """Return how far the shift has gone: 1 - (1 + x)^-beta without replay, 0 with replay alone.

        `log_progress` is log(1 + x), x being `progress`.
        """

        def of_source_loss() -> Value:
            new = _target_share(x)
            rho = (1.0 - new) / (1.0 - new + REHEARSED * new / self._a2_at_size(x, p))
            return saturation(p.beta * (log_progress - log1p(rho * expm1(log_progress))))

        def of_target_loss() -> Value:
            # (1 - r)^c with the slope that the factor of the mix has where replay sets in: public ladders keep .950 of
            # the gain from replay .33 to .50 at every scale and rate, which the factor bends away from.
            a2 = self._a2_at_size(x, p)
            power = exp(a2 / expm1(a2) * log(maximum(_target_share(x), NO_SHARE)))
            return saturation(p.beta * log_progress) * power

        if self.mix == "rehearsal":
            return _by_role(of_source, of_source_loss, of_target_loss)
        return saturation(p.beta * log_progress) * self.mix_factor(x, p, of_source)

    def _a2_at_size(self, x: Letters, p: Letters) -> Value:
        """Return a2 at the size of each row."""
        return p.a2 if self.around is None else p.a2 * exp(p.s * self._log_relative_size(x))

    def mix_factor(self, x: Letters, p: Letters, of_source: Array) -> Value:
        """Return f: 1 without replay, 0 with replay alone; convex for the source loss, concave for the target loss."""
        if "replay" in self.without:
            return 1.0
        r_cpt = _target_share(x)
        # Convex for the source: a little replay saves much of it. Concave for the target: a little replay costs it
        # little. Both are one without replay, so that B is the shift there and hardly correlates with a2.
        a2 = self._a2_at_size(x, p)
        concave = expm1(-a2 * r_cpt) / expm1(-a2)
        # (e^(a2 r) - 1) / (e^a2 - 1), which would overflow
        return _by_role(of_source, lambda: concave * exp(a2 * (r_cpt - 1.0)), lambda: concave)

    def growth(self, x: Letters, p: Letters) -> Value:
        """Return how the shift grows with both rates and the budget."""
        exponent: Value = 0.0
        factors = (("h", x.lr_peak, RATE), ("w", x.lr_pretrain, RATE), ("b", x.P, BUDGET))
        # With rate=progress h has been spent on how fast the shift is run through.
        for name, column, usual in factors[self.rate == "progress" :]:
            if name in self.shapes:
                exponent = exponent + getattr(p, name) * (log(column) - math.log(usual))
        return exp(exponent - self._fade_of_budget(x, p))

    def _fade_of_budget(self, x: Letters, p: Letters) -> Value:
        """Return by how much the log of the shift grows less beyond the longest budget than its power says."""
        if self.longest is None or "b" not in self.shapes:
            return 0.0
        beyond = maximum(log(x.P) - math.log(self.longest), 0.0)
        if not _any_beyond(beyond):  # no fitted row is
            return 0.0
        ended = p.b * p.b * beyond / FADE + TINY
        return p.b * beyond * (1.0 + expm1(-ended) / ended)

    def transfer_factor(self, x: Letters, p: Letters, shift_fraction: Value) -> Value:
        """Transfer factor of the size and token terms (1 on the eval's own corpus)."""
        if not self.transfer:
            return 1.0
        away = _by_role(x.of_source, lambda: shift_fraction, lambda: 1.0 - shift_fraction)
        return 1.0 - (1.0 - p.t) * away

    def retained_change(self, x: Letters, p: Letters) -> Value:
        """Return which part of what CPT changed a merge with the base model, or an adapter, leaves."""
        part: Value = 1.0
        if "merge_weight" in self.left:
            w = x.merge_weight * 1.0
            part = w**2 * (3.0 - 2.0 * w) + p.v0 * (w * (1.0 - w) ** 2) - p.v1 * (w**2 * (1.0 - w))
        return part * exp(-p.q * log1p(p.r0 * x.lora_rank**-1.0)) if "lora_rank" in self.left else part

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of the adapted model or, where only a part of its change is left, those between."""
        adapted = self._adapted(x, p)
        if not self.left:
            return adapted
        base = self._adapted(Letters(**{**vars(x), "D": Positive(np.zeros_like(x.of_source))}), p)
        part = self.retained_change(x, p)
        return [start + part * (end - start) for start, end in zip(base, adapted, strict=True)]

    def _adapted(self, x: Letters, p: Letters) -> list[Value]:
        """Return the constant, the size term, the shared token term, the shift, the raised rate, the damage."""
        # One curve for both phases: D counts as it is, and a token of pre-training as k of them, so that a longer base
        # model is farther along the same curve.
        tokens_read = p.k * ((x.P * 1.0) * (x.N * 1.0)) + x.D
        sign: Number = 2.0 * x.of_source - 1.0
        log_progress = log1p(self.progress(x, p, x.of_source))
        shift_fraction = self.shift_fraction(x, p, x.of_source, log_progress)
        factor = self.transfer_factor(x, p, shift_fraction)
        # The sign goes to the growth, which fewer parameters move: less to turn round.
        shift = shift_fraction * (self.growth(x, p) * sign)
        terms = [1.0, x.N**-p.g * factor, tokens_read**-p.a * factor, shift]
        if "base" not in self.without:
            raised = saturation(p.beta * log_progress)
            terms.append(raised * exp(p.u * (log(x.lr_peak) - math.log(RATE))) if "u" in self.shapes else raised)
        if self.damage:
            names = [name for name in SHIFT if name in self.shapes]
            source = Letters(**{name: getattr(p, f"{name}_source") for name in names})
            all_source = np.ones_like(x.of_source)
            log_progress = log1p(self.progress(x, source, all_source))
            damage = p.B_source * (self.shift_fraction(x, source, all_source, log_progress) * self.growth(x, source))
            terms.append(damage * damage)  # no power: the damage of a base model is 0, and has no logarithm
        return terms


def _filled(column: ArrayLike, usual: float) -> Array:
    """Return a column with a value where there is none, (n,)."""
    values = np.asarray(column, dtype=float)
    return np.where(np.isnan(values), usual, values)


def _target_share(x: Letters) -> Value:
    """Return the share of the target corpus in the mix, 1 - replay; x.r is the share of the eval's own corpus."""
    return _by_role(x.of_source, lambda: 1.0 - x.r * 1.0, lambda: x.r * 1.0)


def _by_role(of_source: Array, source: Callable[[], Value], target: Callable[[], Value]) -> Value:
    """Return for each row the value for its role. Each is computed only where some row has that role."""
    if of_source.all():
        return source()
    return source() * of_source + target() * (1.0 - of_source) if of_source.any() else target()


def _any_beyond(beyond: object) -> bool:
    """Return whether any row of an array, or of a Jet, lies beyond the fitted range."""
    return bool(np.any(np.asarray(getattr(beyond, "value", beyond))))


def middle_size(frame: pd.DataFrame) -> float | None:
    """Return the median of the measured model sizes, to two digits; None where there is one size."""
    sizes = _levels(frame, "n_params")
    return float(f"{sizes[len(sizes) // 2]:.2g}") if len(sizes) >= LEAST_SIZES else None


def _largest_level(frame: pd.DataFrame, name: str) -> float | None:
    values = _levels(frame, name)
    return float(values[-1]) if len(values) else None


def _levels(frame: pd.DataFrame, name: str) -> Array:
    if name not in frame.columns:
        return np.array([])
    values = frame.loc[frame["tokens"] > 0, name] if "tokens" in frame.columns else frame[name]
    return np.unique(values.dropna().to_numpy(dtype=float))
