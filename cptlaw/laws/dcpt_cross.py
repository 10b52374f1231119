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
averaged; ``probe_n_params`` and ``probe_replay`` narrow this down to the set-up of a probe.

A pooled fit, and a domain that it has never seen::

    chosen = law("dcpt-cross-k3", probe_n_params=0.5e9, probe_replay=0.5)
    fit = cl.fit(chosen, runs, on="target")                   # runs has a column domain
    coefficients = chosen.learnability(probe, on="target")    # one short run of the new domain, and its base loss
    fit.forecast(chosen.attach(points, coefficients))

Two cautions. E, F, mu and w2 are four parameters that only differences between domains can tell, so four domains
determine K3 just so and leave nothing to check it by. And the interval of a forecast takes the coefficients as exact:
the noise of the few losses that they are read from comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.laws.base import Role, Shape
from cptlaw.laws.calculus import Array, maximum
from cptlaw.laws.dcpt import DCPT3, PUBLISHED_MIN_TOKENS, Monotone
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.levels import same_level
from cptlaw.units import format_quantity

COEFFICIENTS = ("k1", "k2", "k3")

EARLY_TOKENS = 0.131072e9  # 1,000 steps of 131,072 tokens
FIRST_TOKENS = 0.65536e9  # 5,000 steps
SECOND_TOKENS = 1.31072e9  # 10,000 steps

MU = Shape(0.01, 10.0, start=(0.2, 4.0))
# Per unit of 1/k1, which is about 0.3 to 1.5; k2 and k3 are some tenths of a nat.
WEIGHT_OF_K2 = Shape(1e-4, 1e4, start=(0.1, 30.0))
WEIGHT_OF_K3 = Shape(1e-6, 1e2, start=(0.003, 1.0))

SMALLEST_SHARE = 0.01  # K4 is kept at or above this share of K3


class _Cross(DCPT3):
    """What the four forms of K share.

    K is only known up to a factor: (w1, w2, w3, F) and (s w1, s w2, s w3, s^mu F) give the same losses. The first
    weight of each form is therefore 1, which leaves F, mu, w2 and w3.

    Parameters
    ----------
    monotone, min_tokens
        As in the D-CPT law. The constraint does not involve F/K^mu, which does not vary with the ratio.
    k1
        ``"early"`` takes the loss after `k1_tokens` (the appendix, which is operational); ``"initial"`` the loss of
        the base model (the main text).
    k1_tokens, k2_tokens, k3_tokens
        Raw tokens at which the early losses are read: after 1,000, 5,000 and 10,000 published steps.
    probe_n_params, probe_replay
        Measure the coefficients only on runs of this size or this replay, the set-up in which new domains are going
        to be probed; on all sizes and mixes that the domains share where ``None``.
    """

    source = "Que et al. 2024, eq. 7, arXiv:2406.01375"
    amplitudes = ("E", "A", "B", "C", "F")
    coefficients: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        monotone: Monotone = "none",
        min_tokens: float = PUBLISHED_MIN_TOKENS,
        k1: Literal["early", "initial"] = "early",
        k1_tokens: float = EARLY_TOKENS,
        k2_tokens: float = FIRST_TOKENS,
        k3_tokens: float = SECOND_TOKENS,
        probe_n_params: float | None = None,
        probe_replay: float | None = None,
    ) -> None:
        super().__init__(monotone, min_tokens)
        if k1 not in ("early", "initial"):
            raise UsageError(f"k1={k1!r}: expected early or initial.{did_you_mean(str(k1), ('early', 'initial'))}")
        for name, value in (("k1_tokens", k1_tokens), ("k2_tokens", k2_tokens), ("k3_tokens", k3_tokens)):
            if not value > 0:
                raise UsageError(f"{name}={value}: expected a positive number of raw tokens, such as 0.655B.")
        if not k2_tokens < k3_tokens:
            raise UsageError(
                f"k2_tokens={k2_tokens:g} and k3_tokens={k3_tokens:g}: expected k3_tokens to be the larger."
            )
        if probe_n_params is not None and not probe_n_params > 0:
            raise UsageError(
                f"probe_n_params={probe_n_params}: expected a positive number of parameters, such as 0.5B."
            )
        if probe_replay is not None and not 0 <= probe_replay <= 1:
            raise UsageError(f"probe_replay={probe_replay}: expected a share from 0 to 1.")
        self.probe = Probe(
            early_tokens=float(k1_tokens),
            first_tokens=float(k2_tokens),
            second_tokens=float(k3_tokens),
            k1_is_initial=k1 == "initial",
            n_params=None if probe_n_params is None else float(probe_n_params),
            replay=None if probe_replay is None else float(probe_replay),
        )

    def options(self) -> dict[str, Any]:
        """Return the options that differ from the published set-up."""
        probe = self.probe
        given = {
            "k1": "initial" if probe.k1_is_initial else "early",
            "k1_tokens": probe.early_tokens,
            "k2_tokens": probe.first_tokens,
            "k3_tokens": probe.second_tokens,
            "probe_n_params": probe.n_params,
            "probe_replay": probe.replay,
        }
        defaults = ("early", EARLY_TOKENS, FIRST_TOKENS, SECOND_TOKENS, None, None)
        changed = {
            name: value for (name, value), default in zip(given.items(), defaults, strict=True) if value != default
        }
        return super().options() | changed

    def learnability_index(self, x: Any, p: Any) -> Any:
        """Return K, positive, of shape (n,) or (s, n)."""
        raise NotImplementedError

    def terms(self, x: Any, p: Any) -> Sequence[Any]:
        """Return the terms of the D-CPT law, then that of the domain, K^-mu."""
        return (*super().terms(x, p), self.learnability_index(x, p) ** -p.mu)

    def within_domain(self, params: Mapping[str, float], coefficients: Mapping[str, float]) -> dict[str, float]:
        """Return the parameters of dcpt-l3 that this law amounts to on one domain: E + F/K^mu in the place of E.

        Parameters
        ----------
        params
            All parameters of this law.
        coefficients
            k1, k2, k3 of the domain, as far as the law uses them.
        """
        checked = self.check_params(params)
        anywhere = {"n_params": 1e9, "tokens": 1e9, "replay": 0.5}
        x = self.bind(pd.DataFrame([anywhere | {name: coefficients[name] for name in self.coefficients}]), "target")
        index = float(np.ravel(self.learnability_index(x, SimpleNamespace(**checked)))[0])
        floor = checked["E"] + checked["F"] * index ** -checked["mu"]
        return {name: floor if name == "E" else checked[name] for name in DCPT3().parameters}

    def prepare(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the learnability coefficients, measured on the first rows of the runs of each domain.

        Parameters
        ----------
        frame
            Rows of one eval with run, domain, loss, n_params, tokens and replay; rows with tokens = 0 are the base
            models. Columns k1, k2, k3 that are already there are left as they are.

        Raises
        ------
        DataError
            If there is no column ``domain``, or a domain's runs do not cover the tokens needed.
        """
        lacking = [name for name in self.coefficients if name not in frame.columns]
        if not lacking:
            return frame
        measured = _measure(frame, self.probe, lacking, self.name).set_index("domain")
        domains = frame["domain"].astype(object)
        return frame.assign(**{name: domains.map(measured[name]).astype(float) for name in lacking})

    def learnability(self, runs: Any, on: str | None = None) -> pd.DataFrame:
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
            As `prepare`; or if the table has several evals and none is named.

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
        return _measure(table.on(on).frame, self.probe, self.coefficients, self.name)

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
        _require(coefficients, ("domain", *self.coefficients), f"law {self.name}: the table of coefficients")
        _require(frame, ("domain",), f"law {self.name}: the rows to forecast")
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

    def complete(self, frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
        """Give rows that name a fitted domain its coefficients, unless they bring their own."""
        told = "domain" in frame.columns and not set(self.coefficients) <= set(frame.columns)
        return self.attach(frame, fitted) if told else frame

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> SimpleNamespace:
        """Turn rows into the law's inputs; k3, which may be negative, becomes a magnitude and a sign."""
        x = super().bind(frame, role)
        if "k3" in self.coefficients:
            x.k3_sign = np.sign(frame["k3"].to_numpy(dtype=float))
        return x

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
        good = np.isfinite(values) & ((values != 0) if name == "k3" else (values > 0))
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            expected = "a finite number other than zero" if name == "k3" else "a positive number"
            raise DataError(
                f"law {self.name} needs {name} in every row, {expected}; row {frame.index[row]} has {values[row]}."
            )
        return np.asarray(np.abs(values), dtype=float)


class CrossK1(_Cross):
    """K = 1/k1: a domain whose loss is low early on is learnable. The weight w1 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k1"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = 1/k1"
    inputs = (*DCPT3.inputs, "k1")
    coefficients = ("k1",)
    shapes = {**DCPT3.shapes, "mu": MU}

    def learnability_index(self, x: Any, p: Any) -> Any:
        """Return 1/k1."""
        return 1.0 / x.k1


class CrossK2(_Cross):
    """K = k2: a domain whose loss falls far at first is learnable. The weight w2 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k2"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = k2"
    inputs = (*DCPT3.inputs, "k2")
    coefficients = ("k2",)
    decreasing = (*DCPT3.decreasing, "k2")
    shapes = {**DCPT3.shapes, "mu": MU}

    def learnability_index(self, x: Any, p: Any) -> Any:
        """Return k2."""
        return 1.0 * x.k2


class CrossK3(_Cross):
    """K = 1/k1 + w2 k2, the paper's choice. The weight w1 is 1, as F takes any factor of K."""

    name = "dcpt-cross-k3"
    equation = "L = E + A/N^alpha + B r^eta/D^beta + C/(r+eps)^gamma + F/K^mu, K = 1/k1 + w2 k2"
    inputs = (*DCPT3.inputs, "k1", "k2")
    coefficients = ("k1", "k2")
    decreasing = (*DCPT3.decreasing, "k2")
    shapes = {**DCPT3.shapes, "mu": MU, "w2": WEIGHT_OF_K2}

    def learnability_index(self, x: Any, p: Any) -> Any:
        """Return 1/k1 + w2 k2."""
        return 1.0 / x.k1 + p.w2 * x.k2


class CrossK4(_Cross):
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

    def learnability_index(self, x: Any, p: Any) -> Any:
        """Return 1/k1 + w2 k2 + w3/k3, at least `SMALLEST_SHARE` of its first two parts."""
        positive = 1.0 / x.k1 + p.w2 * x.k2
        return positive * maximum(1.0 + p.w3 * (x.k3_sign / x.k3) / positive, SMALLEST_SHARE)


# -- measuring the coefficients ------------------------------------------------------------------------------------

NEAR_ENOUGH = 0.01  # a curve that starts or ends within this share of the tokens needed counts as reaching them


@dataclass(frozen=True)
class Probe:
    """Where the learnability coefficients are read off: raw tokens, and the size and mix of the runs (None: all)."""

    early_tokens: float
    first_tokens: float
    second_tokens: float
    k1_is_initial: bool
    n_params: float | None
    replay: float | None

    def points(self, name: str) -> tuple[float, ...]:
        """Return the tokens at which a coefficient needs a loss."""
        return {
            "k1": (0.0 if self.k1_is_initial else self.early_tokens,),
            "k2": (0.0, self.first_tokens),
            "k3": (0.0, self.first_tokens, self.second_tokens),
        }[name]

    def covers(self, n_params: float, replay: float) -> bool:
        """Say whether a run is of the set-up."""
        wanted = ((self.n_params, n_params), (self.replay, replay))
        return all(level is None or bool(same_level(value, level)) for level, value in wanted)


# One row per run that was usable: domain, cell (what all domains must share), and the coefficients.
_Measured = dict[str, dict[tuple[float, ...], list[dict[str, float]]]]


def _measure(frame: pd.DataFrame, probe: Probe, names: Sequence[str], law_name: str) -> pd.DataFrame:
    """Return one row per domain: domain, the coefficients named, n_runs. See `_Cross.learnability`."""
    found = _measure_runs(frame, probe, names, law_name)
    shared = sorted(set.intersection(*(set(cells) for cells in found.values()))) if found else []
    if found and not shared:
        raise DataError(
            f"law {law_name}: there is no size and replay at which runs of all domains ({', '.join(sorted(found))}) "
            f"show {', '.join(names)}, so their coefficients would not compare. Probe every domain with a common run."
        )
    table = []
    for domain in sorted(found):
        runs = [found[domain][cell] for cell in shared]
        # Cells count alike, however many seeds each has: else domains with other seeds would not compare.
        row = {name: float(np.mean([np.mean([run[name] for run in cell]) for cell in runs])) for name in names}
        if row.get("k2", 1.0) <= 0:
            raise DataError(
                f"domain {domain!r}: k2 = {row['k2']:.4g}; law {law_name} needs k2 > 0, a loss that falls over the "
                f"first {format_quantity(probe.first_tokens)} tokens. Measure it on runs with a larger share of this "
                f"corpus (probe_replay=), or use dcpt-cross-k1."
            )
        table.append({"domain": domain, **row, "n_runs": sum(map(len, runs))})
    return pd.DataFrame(table, columns=["domain", *names, "n_runs"])


def _measure_runs(frame: pd.DataFrame, probe: Probe, names: Sequence[str], law_name: str) -> _Measured:
    """Measure every run that belongs to the probe's set-up and is long enough, by domain and by cell."""
    what = f"law {law_name} measures {', '.join(names)} on the first rows of each run: the table"
    _require(frame, ("run", "domain", "loss", "n_params", "tokens", "replay"), what)
    tokens = frame["tokens"].to_numpy(dtype=float)
    base, adapted = frame[tokens == 0], frame[tokens > 0]
    needed = sorted({point for name in names for point in probe.points(name)})
    found: _Measured = {}
    unusable: dict[str, list[str]] = {}
    for run, rows in adapted.groupby("run", observed=True, sort=False):
        domains = rows["domain"].unique()
        if len(domains) != 1 or pd.isna(domains[0]):
            named = "rows without a domain" if rows["domain"].isna().any() else "more than one domain"
            raise DataError(f"law {law_name} needs one domain per run; run {run!r} has {named}.")
        domain = str(domains[0])
        cells = found.setdefault(domain, {})
        cell = tuple(float(rows[name].iloc[0]) for name in ("n_params", "replay", "ptpp") if name in rows)
        losses = {point: _loss_at(rows, base, point) for point in needed}
        missing = [_missing(rows, point) for point, loss in losses.items() if loss is None]
        if not probe.covers(*cell[:2]):
            missing = ["is not of the set-up that probe_n_params and probe_replay ask for"]
        if missing:
            unusable.setdefault(domain, []).append(f"run {run!r} {' and '.join(missing)}")
            continue
        key = tuple(-1.0 if np.isnan(value) else float(f"{value:.9g}") for value in cell)  # equal up to rounding
        known = {point: loss for point, loss in losses.items() if loss is not None}
        cells.setdefault(key, []).append({name: _coefficient(probe, name, known) for name in names})
    for domain, cells in found.items():
        if not cells:
            raise DataError(
                f"domain {domain!r}: no run shows {', '.join(names)} for law {law_name}: "
                f"{'; '.join(unusable[domain][:3])}. Add the rows that are missing, or name other tokens with "
                f"k1_tokens, k2_tokens and k3_tokens (published: 131M, 655M and 1.31B)."
            )
    return found


def _coefficient(probe: Probe, name: str, losses: Mapping[float, float]) -> float:
    if name == "k1":
        return losses[probe.points("k1")[0]]
    fall = losses[0.0] - losses[probe.first_tokens]
    return fall if name == "k2" else fall - (losses[probe.first_tokens] - losses[probe.second_tokens])


def _loss_at(rows: pd.DataFrame, base: pd.DataFrame, point: float) -> float | None:
    """Return the loss of a run at some tokens, linear in log tokens between measurements, or None."""
    if point == 0.0:
        return _base_loss(rows.iloc[0], base)
    curve = rows.groupby("tokens")["loss"].mean()
    tokens = curve.index.to_numpy(dtype=float)
    if not tokens[0] * (1 - NEAR_ENOUGH) <= point <= tokens[-1] * (1 + NEAR_ENOUGH):
        return None
    return float(np.interp(np.log(point), np.log(tokens), curve.to_numpy(dtype=float)))


def _base_loss(row: pd.Series, base: pd.DataFrame) -> float | None:
    """Return L(0): the run's own row at tokens = 0, else the mean over those of its base model on this eval."""
    own = base[(base["run"] == row["run"]).to_numpy(dtype=bool)]
    if not len(own):
        same = same_level(base["n_params"], float(row["n_params"]))
        if "ptpp" in base.columns and not pd.isna(row["ptpp"]):
            ptpp = base["ptpp"].to_numpy(dtype=float)
            same &= np.isnan(ptpp) | same_level(ptpp, float(row["ptpp"]))
        domain = base["domain"].astype(object)
        # Pooled target evals differ by domain; a base loss without a domain holds for all of them.
        own = base[same & (domain == row["domain"]).to_numpy(dtype=bool)]
        own = own if len(own) else base[same & domain.isna().to_numpy(dtype=bool)]
    return float(own["loss"].mean()) if len(own) else None


def _missing(rows: pd.DataFrame, point: float) -> str:
    if point == 0.0:
        size = format_quantity(float(rows["n_params"].iloc[0]))
        return f"has no loss at tokens = 0, neither its own nor one of its {size} base model"
    low, high = (format_quantity(float(end), 4) for end in (rows["tokens"].min(), rows["tokens"].max()))
    return f"has no loss at {format_quantity(point, 4)} tokens (it has {low} to {high})"


def _require(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    for name in columns:
        if name not in frame.columns:
            raise DataError(f"{what} has no column {name!r}; it has {', '.join(map(str, frame.columns))}.")
