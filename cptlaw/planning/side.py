"""One fit at one model size and pre-training budget: its loss as a function of replay and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.fitting import Fit, load_fit
from cptlaw.laws.calculus import Array
from cptlaw.laws.token_curve import TokenCurve
from cptlaw.uncertainty.intervals import MIN_RUNS

KNOWN_INPUTS = ("n_params", "tokens", "replay", "ptpp")
GIVEN_ATPP = (1e-3, 1e4)  # tokens per parameter between which plans look where parameters were given, not fitted


@dataclass(frozen=True)
class Expected:
    """Losses at n points: under ``""`` the forecast, under ``"_lo"`` and ``"_hi"`` its interval where there is one."""

    losses: Mapping[str, list[float | None]]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Side:
    """The target or the source side of a plan.

    Parameters
    ----------
    fit
        The fitted law.
    role
        ``"target"`` or ``"source"``: as what the plan uses the fit.
    n_params
        Parameters of the model that is planned for.
    ptpp
        Its pre-training tokens per parameter; NaN where no law of the plan reads it.
    """

    fit: Fit
    role: Literal["source", "target"]
    n_params: float
    ptpp: float

    @classmethod
    def build(cls, fit: Any, role: Literal["source", "target"], n_params: float, ptpp: float | None) -> Side:
        """Check that a fit can serve in this role, and bring it to the planned size and budget.

        Parameters
        ----------
        fit
            A fit, or the path of one.
        role, n_params, ptpp
            As the attributes; ``None`` for an unknown budget.

        Raises
        ------
        UsageError
            If this is no fit, its eval has the other role, or its law reads what a plan does not have.
        """
        fit = as_fit(fit, role)
        if fit.role not in (role, "other"):
            raise UsageError(
                f"{role}: this fit is of the eval {fit.on!r}, whose role is {fit.role}. Expected a fit of the {role} "
                f"loss; are --target and --source exchanged?"
            )
        unknown = [name for name in fit.law.inputs if name not in KNOWN_INPUTS]
        if unknown or fit.law.on_base_models or "tokens" not in fit.law.inputs:
            reads = ", ".join(fit.law.inputs)
            raise UsageError(
                f"{role}: law {fit.law.name} reads {reads}; a plan needs a law of tokens and, at most, n_params, "
                f"replay and ptpp, such as ptpp-floor or dcpt-l3."
            )
        if "ptpp" in fit.law.inputs and ptpp is None:
            raise UsageError(
                f"{role}: law {fit.law.name} reads ptpp, the pre-training tokens per parameter of the base model. "
                f"Give ptpp= (--ptpp), such as 279."
            )
        return cls(fit, role, n_params, float("nan") if ptpp is None else ptpp)

    def must_fall_with_tokens(self) -> None:
        """Refuse laws that may rise with tokens, for which no fewest tokens exist.

        Raises
        ------
        UsageError
            If the law does not claim to fall.
        """
        if "tokens" not in self.fit.law.decreasing:
            raise UsageError(
                f"{self.role}: law {self.fit.law.name} may rise with tokens; this plan needs one that only falls, such "
                f"as ptpp-floor or dcpt-l3."
            )

    @property
    def reads_replay(self) -> bool:
        """Whether the law depends on replay."""
        return "replay" in self.fit.law.inputs

    @property
    def fitted_tokens(self) -> tuple[float, float]:
        """Smallest and largest fitted tokens, raw; for given parameters, whatever CPT may sensibly spend."""
        if self.fit.data.empty:
            return GIVEN_ATPP[0] * self.n_params, GIVEN_ATPP[1] * self.n_params
        values = self.fit.data["tokens"].to_numpy(dtype=float)
        return float(values.min()), float(values.max())

    @property
    def fitted_replay(self) -> Array:
        """The fitted levels of replay, sorted; empty where the law does not read it, all for given parameters."""
        if not self.reads_replay:
            return np.array([])
        return np.array([0.0, 1.0]) if self.fit.data.empty else np.unique(self.fit.data["replay"].to_numpy(dtype=float))

    @property
    def knows_doubt(self) -> bool:
        """Whether there are enough runs to say how runs differ."""
        return self.fit.n_runs >= MIN_RUNS

    def frame(self, replay: Any, tokens: Any) -> pd.DataFrame:
        """Return rows at this size and budget; replay and tokens are numbers or (n,)."""
        replay, tokens = np.broadcast_arrays(np.atleast_1d(replay), np.atleast_1d(tokens))
        columns = {"n_params": self.n_params, "tokens": tokens, "replay": replay, "ptpp": self.ptpp}
        return pd.DataFrame({name: np.broadcast_to(columns[name], replay.shape) for name in self.fit.law.inputs})

    def curve(self, replay: Any, laws: Array | None = None) -> TokenCurve:
        """Return the loss as a function of tokens, one curve per replay (n,), and per parameter vector of `laws`."""
        rows = self.frame(replay, self.fit.law.units["tokens"])
        return self.fit.law.token_curve(self.fit.params if laws is None else laws, rows, self.role)

    def losses(self, replay: Any, tokens: Any) -> Array:
        """Return losses at replay and tokens, (n,)."""
        return self.fit.law.predict(self.fit.params, self.frame(replay, tokens), self.role)

    def forecast(self, replay: Any, tokens: Any, interval: float | None) -> Expected:
        """Return losses with the fit's intervals, and findings about the points, each once.

        Parameters
        ----------
        replay, tokens
            Numbers, or (n,).
        interval
            Coverage of the intervals; ``None`` for none.
        """
        table = self.fit.forecast(self.frame(replay, tokens), interval)
        losses: dict[str, list[float | None]] = {}
        for column, end in (("loss", ""), ("lo", "_lo"), ("hi", "_hi")):
            values = table[column] if column in table else np.full(len(table), np.nan)
            losses[end] = [float(value) if np.isfinite(value) else None for value in values]
        found: list[Finding] = []
        for i, findings in enumerate(table["findings"]):
            # Of many points along a line, the ends say how far all of them lie outside the data.
            found += [item for item in findings if item.code != "extrapolation" or i in (0, len(table) - 1)]
        return Expected(losses, (*dict.fromkeys(found), *self._weakness()))

    def slope_in_replay(self, replay: float, tokens: float) -> float:
        """Return dL/dreplay, nats per unit of replay; 0 for laws without it."""
        if not self.reads_replay:
            return 0.0
        jet = self.fit.law.partials(self.fit.params, self.frame(replay, tokens), ["replay"], self.role)
        return float(np.ravel(jet.slopes.get(0, 0.0))[0])

    def _weakness(self) -> tuple[Finding, ...]:
        """Say where the fit itself cannot be trusted."""
        if self.fit.data.empty or (self.fit.status == "converged" and self.fit.rank == self.fit.n_free):
            return ()
        return (
            Finding(
                "warning",
                "weak-fit",
                f"the {self.role} fit ({self.fit.law.spec}): {self.fit.status}, rank {self.fit.rank} of "
                f"{self.fit.n_free}. This plan may rest on parameters that its data does not determine.",
                "See the findings of the fit; hold parameters with --fix or --prior, or choose a smaller law.",
            ),
        )


def as_fit(fit: Any, name: str) -> Fit:
    """Return a fit, read from its file where a path is given.

    Raises
    ------
    DataError
        If the file cannot be read.
    UsageError
        If this is neither.
    """
    if isinstance(fit, str | Path):
        return load_fit(fit)
    if not isinstance(fit, Fit):
        raise UsageError(f"{name}={fit!r}: expected a fit, as cl.fit(...) or cl.load_fit(...) returns, or its file.")
    return fit


def check_pair(target: Side | None, source: Side | None) -> None:
    """Refuse two fits that count parameters in different ways.

    Raises
    ------
    DataError
        If one counts all parameters and the other leaves out embeddings.
    """
    if target is None or source is None:
        return
    kinds = [side.fit.provenance.get("n_params_kind") for side in (target, source)]
    if None not in kinds and kinds[0] != kinds[1]:
        raise DataError(
            f"the target fit counts {kinds[0]} parameters and the source fit {kinds[1]} ones. Expected the same count "
            f"in both; fit both on the same table."
        )
