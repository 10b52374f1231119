"""The cross-domain D-CPT law (Que et al. 2024, eq. 7, arXiv:2406.01375): one fit for runs of several target corpora.

A domain enters through K, how learnable it is, which the first rows of a run tell:

- k1, the loss early in a run (after 1,000 steps; ``k1="initial"`` takes the base model's loss, as the main text does);
- k2 = L(0) - L(5,000 steps), how far the loss falls at first;
- k3 = [L(0) - L(5,000)] - [L(5,000) - L(10,000)] = L(0) - 2 L(5,000) + L(10,000), how fast that fall slows down. (The
  paper goes on to simplify this to L(0) - L(10,000), which does not follow.)

The paper counts steps of 131,072 tokens; here they are tokens, so that other set-ups can say their own.

Each coefficient is one number per domain, the mean over that domain's runs: K stands for the corpus, must be the same
for every run on it, and must be had for a new corpus from a single short run, the probe. How far a loss falls depends
on size and mix as much as on the corpus, so only runs at sizes and mixes that *all* domains of the table share are
averaged. A new domain is one whose only run is short, its probe: it is then the set-up of the probe that all share, and
the tokens at which the coefficients are read are those published, scaled down to the probe's. Fit, and ask for it::

    fit = cl.fit("dcpt-cross-k3", runs, on="target")          # runs has a column domain, and the probe's rows
    fit.forecast(points.assign(domain="law"))                 # the new one, or another of the table
    cl.plan.trade_off(fit, source, domain="law", ..)

With ``ptpp=floor``, ``gate`` or ``gated-floor`` the law reads the pre-training budget P as well, as Forms 1 to 3 of the
PTPP paper do (Goffinet et al. 2025, arXiv:2510.23198): one law of domains and budgets, which neither paper has::

    L = E + A/N^alpha + B r^eta/D^(beta (1 - lambda g(P))) + C/(r+eps)^gamma + F/K^mu + G/P^theta

A domain that was run at one budget is then asked for at another, where a second domain was run at several.

A domain that a fit has never seen takes ``fit.law.learnability(probe)`` and ``fit.law.attach(points, coefficients)``.

Two cautions. E, F, mu and w2 are four parameters that only differences between domains can tell, so four domains
determine K3 just so and leave nothing to check it by. And the interval of a forecast takes the coefficients as exact:
the noise of the few losses that they are read from comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.laws.base import EXPONENT, Context, Option, Role, Shape
from cptlaw.laws.calculus import Array, Letters, Positive, Value, maximum
from cptlaw.laws.dcpt import DCPT3
from cptlaw.laws.parameters import UsualPrior, or_none, positive, share
from cptlaw.laws.ptpp import ZETA, gated_exponent
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.table import RunsLike
from cptlaw_published.learnability import (
    COEFFICIENTS,
    EARLY_TOKENS,
    FIRST_TOKENS,
    SECOND_TOKENS,
    Probe,
    measure,
    require,
)

MU = Shape(0.01, 10.0, start=(0.2, 4.0))
# Per unit of 1/k1, which is about 0.3 to 1.5; k2 and k3 are some tenths of a nat.
WEIGHT_OF_K2 = Shape(1e-4, 1e4, start=(0.1, 30.0))
WEIGHT_OF_K3 = Shape(1e-6, 1e2, start=(0.003, 1.0))

SPREAD_OF_WEIGHTS = 2.5  # of the logarithm: a part of K may count a twelfth of another, or twelve times it
SMALLEST_SHARE = 0.01  # K4 is kept at or above this share of K3


def _tokens(default: float, description: str) -> Option:
    return Option(default, "a positive number of raw tokens, such as 0.655B", description, positive)


class AcrossDomains(DCPT3):
    """What the four forms of K share.

    K is only known up to a factor: (w1, w2, w3, F) and (s w1, s w2, s w3, s^mu F) give the same losses. The first
    weight of each form is therefore 1, which leaves F, mu, w2 and w3.
    """

    source = "Que et al. 2024, eq. 7, arXiv:2406.01375"
    right = "Several domains in one table, and a cheap probe of a new one."
    wrong = "Few domains: from four, the shared parameters F, mu and w2 are not determined."
    measured = (
        "Four domains, one held out at a time with a probe of 0.3 % of its tokens: errors of 7.4 % with K1, "
        "7.3 % with K3; two of four held out: 10 % with K1, K2 to K4 not determined (studies/measured_tables.md)."
    )
    amplitudes: tuple[str, ...] = ("E", "A", "B", "C", "F")
    order = 30
    coefficients: ClassVar[tuple[str, ...]]
    ptpp: Literal["none", "floor", "gate", "gated-floor"]
    k1: Literal["early", "initial"]
    k1_tokens: float
    k2_tokens: float
    k3_tokens: float
    probe_n_params: float | None
    probe_replay: float | None

    corpus: Mapping[str, float] = {}  # the coefficients of the one corpus that is asked about: see `of_corpus`
    bend = 1
    choices = {name: option for name, option in DCPT3.choices.items() if name != "bend"} | {
        "ptpp": Option(
            "none",
            ("none", "floor", "gate", "gated-floor"),
            "How the pre-training budget acts: none as published; as in Forms 1 to 3 of the PTPP paper floor adds "
            "G/P^theta, gate lets P slow adaptation, gated-floor does both.",
        ),
        "k1": Option(
            "early",
            ("early", "initial"),
            "early takes the loss after k1_tokens (the appendix, which is operational); initial the loss of the base "
            "model (the main text).",
        ),
        "k1_tokens": _tokens(EARLY_TOKENS, "Raw tokens at which k1 is read: 1,000 published steps."),
        "k2_tokens": _tokens(FIRST_TOKENS, "Raw tokens at which k2 is read: 5,000 published steps."),
        "k3_tokens": _tokens(SECOND_TOKENS, "Raw tokens at which k3 is read too: 10,000 published steps."),
        "probe_n_params": Option(
            None,
            "a positive number of parameters, such as 0.5B",
            "Measure the coefficients only on runs of this size, in which new domains are going to be probed; on all "
            "sizes that the domains share where none.",
            or_none(positive),
        ),
        "probe_replay": Option(
            None,
            "a share from 0 to 1",
            "The same for replay.",
            or_none(share),
        ),
    }

    def configure(self) -> None:
        """Say where the coefficients are read off, and give the law what a budget does."""
        super().configure()
        self._with_budget()
        if not self.k2_tokens < self.k3_tokens:
            raise UsageError(
                f"k2_tokens={self.k2_tokens:g} and k3_tokens={self.k3_tokens:g}: expected k3_tokens to be the larger."
            )
        self.probe = Probe(
            early_tokens=self.k1_tokens,
            first_tokens=self.k2_tokens,
            second_tokens=self.k3_tokens,
            k1_is_initial=self.k1 == "initial",
            n_params=self.probe_n_params,
            replay=self.probe_replay,
        )

    def _with_budget(self) -> None:
        self.has_floor, self.is_gated = self.ptpp in ("floor", "gated-floor"), self.ptpp in ("gate", "gated-floor")
        if self.ptpp == "none":
            return
        self.inputs = (*self.inputs, "ptpp")
        if self.has_floor:
            self._add_floor()
        if self.is_gated:
            self._add_gate()
        else:  # a gate raises the loss, as a floor lowers it
            self.decreasing = (*self.decreasing, "ptpp")
            self.vanishing = self.vanishing | {"ptpp": ("G",)}

    def _add_floor(self) -> None:
        self.equation = self.equation.replace(" + F/K^mu", " + F/K^mu + G/P^theta")
        self.amplitudes = (*self.amplitudes, "G")
        self.shapes = self.shapes | {"theta": EXPONENT}

    def _add_gate(self) -> None:
        if self.monotone == "paper":
            raise UsageError(
                f"law {self.name}: monotone=paper is proved for one exponent of D, and ptpp={self.ptpp} lets it "
                f"vary with the budget. Take monotone=soft, or ptpp=floor."
            )
        gate = "B r^eta/D^(beta (1 - lambda g(P)))"
        self.equation = self.equation.replace("B r^eta/D^beta", gate) + ",  g = P^zeta/(1+P^zeta)"
        self.shapes = self.shapes | {"lambda": Shape(0.0, 1.0, start=(0.1, 0.9), scale="linear"), "zeta": ZETA}

    def for_table(self, frame: pd.DataFrame) -> Self:
        """Return the law that reads its coefficients where all domains have losses: at the table's shortest probe."""
        if {"k1_tokens", "k2_tokens", "k3_tokens"} & self.options().keys() or {*self.coefficients} <= {*frame.columns}:
            return self
        return self.with_options(**self.probe.within(frame))

    def of_corpus(self, domain: str, fitted: pd.DataFrame) -> Self:
        """Return the law of one corpus of the fitted rows, which reads no coefficients: it has them."""
        known = self.attach(pd.DataFrame({"domain": [domain]}), fitted).iloc[0]
        chosen = self.with_options()
        chosen.corpus = {name: float(known[name]) for name in self.coefficients}
        chosen.inputs = tuple(name for name in self.inputs if name not in self.coefficients)
        return chosen

    def learnability_index(self, x: Letters, p: Letters) -> Value:
        """Return K, positive, of shape (n,) or (s, n)."""
        raise NotImplementedError

    def plain_terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the four terms of the D-CPT law, that of tokens slowed by the budget where the law is gated."""
        one, size, data, barrier = super().plain_terms(x, p)
        if self.is_gated:
            data = x.r**p.eta * x.D ** -gated_exponent(p.beta, getattr(p, "lambda"), p.zeta, x.P)
        return one, size, data, barrier

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms of the D-CPT law, then that of the domain, K^-mu, then that of the budget."""
        terms = (*super().terms(x, p), self.learnability_index(x, p) ** -p.mu)
        return (*terms, x.P**-p.theta) if self.has_floor else terms

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Add the learnability coefficients: measured on the first rows of the runs of each domain, or as fitted.

        Parameters
        ----------
        frame
            Rows with a domain. Columns k1, k2, k3 that are already there are left as they are.
        context
            In a fit, all rows of one eval on which to measure, with run, domain, loss, n_params, tokens and replay;
            rows with tokens = 0 are the base models. In a forecast, the fitted rows.

        Raises
        ------
        DataError
            If there is no column ``domain``, or a domain's runs do not cover the tokens needed.
        """
        lacking = [name for name in self.coefficients if name not in frame.columns]
        if not lacking:
            return frame
        # A forecast has no losses of its own to measure by, so that a domain is taken as the fit knew it.
        if context.rows is None:
            if context.fitted is None or "domain" not in frame.columns:
                return frame
            return self.attach(frame, context.fitted)
        measured = measure(context.rows, self.probe, lacking, self.name).set_index("domain")
        domains = frame["domain"].astype(object)
        return frame.assign(**{name: domains.map(measured[name]).astype(float) for name in lacking})

    def learnability(self, runs: RunsLike, on: str | None = None) -> pd.DataFrame:
        """Measure the coefficients that this law uses, for every domain of a table.

        Parameters
        ----------
        runs
            A runs table: `Runs`, a DataFrame or a path. One short run of each domain is enough, together with the loss
            of its base model (a row with tokens = 0).
        on
            The eval; may be left out where the table has only one.

        Returns
        -------
        DataFrame
            One row per domain: domain, the law's coefficients out of k1, k2, k3, and ``n_runs``, how many runs were
            averaged.

        Raises
        ------
        DataError, UsageError
            As `inputs_of`; or if the table has several evals and none is named.

        Examples
        --------
        >>> from cptlaw.laws import law
        >>> probe = pd.DataFrame({"run": "p", "domain": "law", "n_params": 5e8, "replay": 0.5,
        ...     "tokens": [0, 131_072_000, 655_360_000], "loss": [2.5, 2.25, 2.0]})
        >>> law("dcpt-cross-k3").learnability(probe)
          domain    k1   k2  n_runs
        0    law  2.25  0.5       1
        """
        table = runs if isinstance(runs, Runs) else read_runs(runs)
        if on is None:
            if len(table.evals) > 1:
                raise UsageError(f"learnability: say which eval with on=. Evals found: {', '.join(table.evals)}.")
            on = table.evals[0]
        return measure(table.on(on).frame, self.probe, self.coefficients, self.name)

    def attach(self, frame: pd.DataFrame, coefficients: pd.DataFrame) -> pd.DataFrame:
        """Give rows the coefficients of their domain, which makes them forecastable.

        Parameters
        ----------
        frame
            Rows with the column ``domain``.
        coefficients
            Rows with ``domain`` and the law's coefficients: what `learnability` returns, or the ``data`` of a fit.

        Returns
        -------
        DataFrame
            A copy of `frame` with the coefficients as columns.

        Raises
        ------
        DataError
            If a domain has no coefficients, or several that differ.
        """
        require(coefficients, ("domain", *self.coefficients), f"law {self.name}: the table of coefficients")
        require(frame, ("domain",), f"law {self.name}: the rows to forecast")
        known = coefficients[["domain", *self.coefficients]].astype({"domain": object}).drop_duplicates()
        twice = known["domain"][known["domain"].duplicated()]
        if len(twice):
            raise DataError(f"domain {twice.iloc[0]!r} has several sets of coefficients; keep one row of it.")
        known = known.set_index("domain")
        domains = frame["domain"].astype(object)
        for domain in domains.unique():
            if domain not in known.index:
                names = [str(name) for name in known.index]
                raise DataError(
                    f"no learnability coefficients for domain {domain!r}.{did_you_mean(str(domain), names)} Known: "
                    f"{', '.join(names)}. Measure those of a new domain with law.learnability(probe_run)."
                )
        return frame.assign(**{name: domains.map(known[name]).astype(float) for name in self.coefficients})

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs; k3, which may be negative, becomes a magnitude and a sign."""
        x = super().bind(frame, role)
        for name, value in self.corpus.items():  # fitted rows keep those of their own corpora
            known = self._column(frame, name, role) if name in frame.columns else np.full(len(frame), abs(value))
            setattr(x, name, Positive(known))
        if "k3" in self.coefficients:
            x.k3_sign = np.sign(frame["k3"].to_numpy(dtype=float) if "k3" in frame.columns else self.corpus["k3"])
        return x

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors; those of weights make a part of K as large as 1/k1, in any unit of the loss."""
        known = super().usual_of(role, frame)
        if frame is None or not set(self.coefficients) <= set(frame.columns):
            return known
        size = {name: float(np.exp(np.log(frame[name].abs()).mean())) for name in self.coefficients}
        if "w2" in self.shapes:
            known["w2"] = (1.0 / (size["k1"] * size["k2"]), SPREAD_OF_WEIGHTS, "log")
        if "w3" in self.shapes:
            known["w3"] = (size["k3"] / size["k1"], SPREAD_OF_WEIGHTS, "log")
        return known

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name not in COEFFICIENTS:
            return super()._column(frame, name, role)
        if name not in frame.columns:
            raise DataError(
                f"law {self.name} needs the column {name!r}, a learnability coefficient of the row's domain. Rows that "
                f"have a domain get it by law.attach(rows, fit.data), those of a new domain by law.attach(rows, "
                f"law.learnability(probe_run))."
            )
        values = frame[name].to_numpy(dtype=float)
        # K is raised to a power, which asks for a positive number; k3 alone may be negative, and stands in the
        # denominator.
        good = np.isfinite(values) & ((values != 0) if name == "k3" else (values > 0))
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            expected = "a finite number other than zero" if name == "k3" else "a positive number"
            raise DataError(
                f"law {self.name} needs {name} in every row, {expected}; row {frame.index[row]} has {values[row]}."
            )
        # Input columns keep their logarithm, which a negative k3 has not; `bind` puts its sign beside it.
        return np.asarray(np.abs(values), dtype=float)


class CrossK1(AcrossDomains):
    """K = 1/k1: a domain whose loss is low early on is learnable. The weight w1 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k1"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = 1/k1"
    inputs = (*DCPT3.inputs, "k1")
    coefficients = ("k1",)
    shapes = {**DCPT3.shapes, "mu": MU}

    def learnability_index(self, x: Letters, p: Letters) -> Value:
        """Return 1/k1."""
        return 1.0 / x.k1


class CrossK2(AcrossDomains):
    """K = k2: a domain whose loss falls far at first is learnable. The weight w2 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k2"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = k2"
    inputs = (*DCPT3.inputs, "k2")
    coefficients = ("k2",)
    decreasing = (*DCPT3.decreasing, "k2")
    shapes = {**DCPT3.shapes, "mu": MU}

    def learnability_index(self, x: Letters, p: Letters) -> Value:
        """Return k2."""
        return 1.0 * x.k2


class CrossK3(AcrossDomains):
    """K = 1/k1 + w2 k2, the paper's choice. The weight w1 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k3"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = 1/k1 + w2 k2"
    inputs = (*DCPT3.inputs, "k1", "k2")
    coefficients = ("k1", "k2")
    decreasing = (*DCPT3.decreasing, "k2")
    shapes = {**DCPT3.shapes, "mu": MU, "w2": WEIGHT_OF_K2}

    def learnability_index(self, x: Letters, p: Letters) -> Value:
        """Return 1/k1 + w2 k2."""
        return 1.0 / x.k1 + p.w2 * x.k2


class CrossK4(AcrossDomains):
    """K = 1/k1 + w2 k2 + w3/k3. The weight w1 is 1, as F takes any factor of K.

    Where k3 < 0 (the loss falls faster and faster) the last part is negative, and the published K can reach zero, where
    the law is infinite. K is therefore kept at or above 1 % of 1/k1 + w2 k2. At the other side, 1/k3 grows without
    bound as k3 passes through zero: a k3 that is small next to its noise makes any K.
    """

    name = "dcpt-cross-k4"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = 1/k1 + w2 k2 + w3/k3"
    inputs = (*DCPT3.inputs, "k1", "k2", "k3")
    coefficients = ("k1", "k2", "k3")
    decreasing = (*DCPT3.decreasing, "k2")
    shapes = {**DCPT3.shapes, "mu": MU, "w2": WEIGHT_OF_K2, "w3": WEIGHT_OF_K3}

    def learnability_index(self, x: Letters, p: Letters) -> Value:
        """Return 1/k1 + w2 k2 + w3/k3, at least `SMALLEST_SHARE` of its first two parts."""
        positive = 1.0 / x.k1 + p.w2 * x.k2
        return positive * maximum(1.0 + p.w3 * (x.k3_sign / x.k3) / positive, SMALLEST_SHARE)
