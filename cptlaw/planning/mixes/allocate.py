"""The best split of a compute budget between model size and tokens (Que et al. 2024, usage 3, arXiv:2406.01375)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.fitting.one_corpus import fit_of_corpus
from cptlaw.planning.limits import check_risk, limit_on
from cptlaw.planning.loss import FitLike, Loss, as_fit
from cptlaw.planning.options import positive
from cptlaw.planning.plan_fields import field_line
from cptlaw.planning.points import base_score, score_fields, score_limits, score_losses
from cptlaw.planning.result import (
    FLOPS_PER_PARAMETER_TOKEN,
    Plan,
    flops_of,
    number_text,
    quantity_text,
    score_text,
)
from cptlaw.planning.scenario import Allocate, documented, read_scenario
from cptlaw.planning.solve import Axis, Space, solve
from cptlaw.result import Line
from cptlaw.runs.metrics import USUAL_UNIT, unit_of
from cptlaw.schedules.valley import advised_by_runs
from cptlaw.units import format_percent, format_span


@dataclass(frozen=True)
class ComputeOptimal:
    """Closed-form allocation: N = G (C/6)^a and D = (C/6)^b / G, in the law's units.

    Attributes
    ----------
    a, b
        Exponents of parameters and of tokens in compute; a + b = 1.
    G
        Coefficient, in the law's units.
    n_params, tokens
        The optimum at the budget, raw.
    """

    a: float
    b: float
    G: float
    n_params: float
    tokens: float


@dataclass(frozen=True, repr=False)
class AllocatePlan(Plan):
    """Answer of `allocate`.

    Attributes
    ----------
    budget
        FLOPs, 6 n_params tokens.
    replay, ptpp, lr_peak
        Held fixed, the peak rate where it was not given the best of those that were fitted; ``None`` where the law does
        not read them, unless the runs have a valley of rate and batch.
    n_params, tokens, atpp, flops
        The optimum.
    batch_tokens
        Tokens of a step there: from the valley of rate and batch where runs vary both, else as it was run.
    target_loss
        Nats per token, with ``_lo`` and ``_hi``, between which a measured loss lies with probability `interval`.
    interval
        Coverage of the interval.
    findings
        The worst first.
    unit
        Of the losses.
    scores
        By eval, what to expect of fitted scores there: ``score`` (0 to 1), ``score_lo``, ``score_hi``.
    blocking
        Limits in points that are not kept there; the budget has one best split, so that no other would be the answer.
    """

    budget: float
    replay: float | None
    ptpp: float | None
    n_params: float
    tokens: float
    atpp: float
    flops: float
    target_loss: float
    target_loss_lo: float | None
    target_loss_hi: float | None
    interval: float | None
    findings: tuple[Finding, ...]
    unit: str = USUAL_UNIT
    lr_peak: float | None = None
    batch_tokens: float | None = None
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    blocking: tuple[str, ...] = ()
    _loss: Loss | None = field(default=None, compare=False)

    @property
    def feasible(self) -> bool:
        """Whether the limits in points are kept."""
        return not self.blocking

    @property
    def loss(self) -> Loss | None:
        """The loss that was planned with, for drawing; ``None`` of a plan read from a file."""
        return self._loss

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"Best size and tokens for {quantity_text(self.budget)} FLOP"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        lines = [
            ("n_params", quantity_text(self.n_params)),
            ("tokens", f"{quantity_text(self.tokens)} ({number_text(self.atpp, 3)} per parameter)"),
        ]
        if self.replay is not None:
            lines.append(("at replay", format_percent(self.replay)))
        if self.ptpp is not None:
            lines.append(("at ptpp", f"{self.ptpp:g}"))
        if self.lr_peak is not None:
            lines.append(("at peak rate", f"{self.lr_peak:.3g}"))
        if self.batch_tokens is not None:
            lines.append(field_line("batch_tokens", self.batch_tokens))
        loss = format_span(self.target_loss, self.target_loss_lo, self.target_loss_hi)
        lines.append(("target loss", f"{loss} {self.unit}"))
        lines += [(name, score_text(fields)) for name, fields in self.scores.items()]
        if self.blocking:
            lines.append(("not kept", ", ".join(self.blocking)))
        return lines


def compute_optimal(
    A: float,
    alpha: float,
    B: float,
    beta: float,
    budget: ArrayLike,
    units: Mapping[str, float] | None = None,
    *,
    gamma: float = 0.0,
) -> ComputeOptimal:
    """Return the best split of a budget for L = E + A/N^alpha + B/(D^beta N^gamma).

    Parameters
    ----------
    A, alpha, B, beta, gamma
        Coefficients in the law's units. ``gamma`` is 0 in Chinchilla's law (arXiv:2203.15556) and in D-CPT at a fixed
        ratio, where B stands for B r^eta (arXiv:2406.01375); Zheng et al. 2024 (arXiv:2407.02118) have it above 0.
    budget
        FLOPs, 6 N D.
    units
        Raw parameters and raw tokens per unit, ``{"n_params": 1e9, "tokens": 1e9}`` for billions; raw where absent.

    Raises
    ------
    UsageError
        If a coefficient is not positive, or beta is not above gamma, where no optimum exists.

    Examples
    --------
    >>> best = compute_optimal(A=406.4, alpha=0.34, B=410.7, beta=0.28, budget=5.76e23)
    >>> round(best.a, 3), round(best.n_params / 1e9)
    (0.452, 32)
    """
    for name, value in {"A": A, "alpha": alpha, "B": B, "beta": beta}.items():
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"compute_optimal: {name}={value}: expected a positive number.")
    if not 0 <= gamma < beta:
        raise UsageError(
            f"compute_optimal: gamma={gamma}, beta={beta}: expected 0 <= gamma < beta. Else tokens are worth no more "
            f"than parameters in their own term, and the larger model is always better."
        )
    size_unit, token_unit = (1.0, 1.0) if units is None else (units["n_params"], units["tokens"])
    flops = positive(budget, "budget", "5e19")
    total = math.log(flops / FLOPS_PER_PARAMETER_TOKEN / size_unit / token_unit)
    power = alpha + beta - gamma
    a = beta / power
    # At the optimum the gain per FLOP of a larger model and of more tokens is the same: alpha A/N^alpha = (beta -
    # gamma) B/(D^beta N^gamma), with N D = C/6.
    log_g = math.log(alpha * A / ((beta - gamma) * B)) / power
    return ComputeOptimal(
        a=a,
        b=1.0 - a,
        G=math.exp(log_g),
        n_params=size_unit * math.exp(log_g + a * total),
        tokens=token_unit * math.exp((1.0 - a) * total - log_g),
    )


def allocate(target: FitLike, **scenario: Unpack[Allocate]) -> AllocatePlan:
    """Find the model size and the tokens with the lowest target loss for a compute budget.

    Minimises L(N, D) subject to 6 N D = budget at fixed replay and ptpp, over log N; `compute_optimal` has the closed
    form for E + A/N^alpha + B/D^beta. The budget is spent whatever the losses turn out to be, so
    doubt means the interval of the loss. Limits in points move nothing, but whether they are kept is said.

    Parameters
    ----------
    target
        Fit of the target loss, or its file.
    **scenario
        The budget, and replay and ptpp where the law reads them; fits of scores and limits in points.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.

    Notes
    -----
    The optimum is where the law sees it, which may be far outside the fitted sizes and tokens; findings say how far.
    """
    given = read_scenario(Allocate, scenario, "allocate")
    known = given.law_inputs
    loss = _loss_of(fit_of_corpus(as_fit(target, "target"), given.domain), known | {"n_params": 1e9}, given.replay)
    share, flops = given.replay or 0.0, given.budget
    n_params = _search(loss, share, flops)
    known["n_params"] = n_params
    tokens = flops / FLOPS_PER_PARAMETER_TOKEN / n_params
    here, point = replace(loss, known=known), {"replay": np.array([share]), "tokens": np.array([tokens])}
    expected = here.forecast(point, given.interval)
    scores = score_losses(given.scores, known)
    if given.replay is None and any(one.reads("replay") for one in scores.values()):
        raise UsageError("allocate: the scores depend on replay. Give replay= (--replay), such as 50%.")
    limits = score_limits(given, scores, limit_on, base_score)
    check_risk(given.risk, limits)
    advised = advised_by_runs(loss.fit, n_params, tokens)
    rate = here.rate(point)
    return AllocatePlan(
        budget=flops,
        replay=given.replay if loss.reads("replay") else None,
        ptpp=given.ptpp if loss.reads("ptpp") else None,
        lr_peak=advised.get("lr_peak") if rate is None else rate,
        batch_tokens=advised.get("batch_tokens"),
        n_params=n_params,
        tokens=tokens,
        atpp=tokens / n_params,
        flops=flops_of(n_params, tokens),
        target_loss=float(here.at(share, tokens)[0]),
        target_loss_lo=expected.losses["_lo"][0],
        target_loss_hi=expected.losses["_hi"][0],
        interval=given.interval,
        findings=expected.findings,
        unit=unit_of(loss.fit),
        scores=score_fields(scores, limits, point, given.interval),
        blocking=tuple(limit.name for limit in limits if limit.excess(point)[0] > 0),
        _loss=loss,
        _fits=(loss.fit, *(one.fit for one in scores.values())),
    )


def _loss_of(target: FitLike, known: dict[str, float], replay: float | None) -> Loss:
    loss = Loss.build(target, "target", known)
    if loss.reads("replay") and replay is None:
        raise UsageError(
            f"allocate: law {loss.spec} reads replay. Give replay= (--replay), the share of the source corpus, "
            f"such as 50%."
        )
    # A law whose loss may rise with tokens at first has a best split all the same; the search says where it has none.
    if not (loss.reads("tokens") and loss.reads("n_params")):
        raise UsageError(
            f"allocate: law {loss.spec} does not read both sizes and tokens, so that no budget has a best split under "
            f"it. Fit one that does, such as chinchilla, dcpt-l3 or shared-tokens."
        )
    return loss


def _search(loss: Loss, share: float, flops: float) -> float:
    """Return the best size by a search over log N, from one parameter to one token."""
    product = flops / FLOPS_PER_PARAMETER_TOKEN
    space = Space(
        (Axis("n_params", 1.0, product, log=True),),
        lambda chosen: {
            **chosen,
            "tokens": product / chosen["n_params"],
            "replay": np.full(len(chosen["n_params"]), share),
        },
    )
    log_size = math.log(solve(space, lambda points: loss.upper(points, None)).point["n_params"])
    # A minimum at an end of the search is none: the loss goes on falling beyond any model that could be built.
    if not 1e-9 < log_size < math.log(product) - 1e-9:
        raise UsageError(
            f"allocate: law {loss.spec} has no best size at this budget: its loss keeps falling towards "
            f"{'one parameter' if log_size <= 1e-9 else 'one token'}. Its size or token term is absent (see the "
            f"findings of the fit) or, in a shifted law, larger base models bring more pre-training at the same ptpp."
        )
    return math.exp(log_size)


documented(allocate, Allocate)
