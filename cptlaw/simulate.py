"""Simulated runs tables with the designs of the published studies, whose measurements were never released.

A design says which runs there are and where their losses are measured; a `Truth` says which law the losses follow and
where they start; `measure` puts the two together and adds noise. `dcpt_runs` and `ptpp_runs` do all of it at once::

    runs = cl.read_runs(simulate.dcpt_runs(domains=("law", "music"), sampling=20, seed=1))

The designs are the papers' (Que et al. 2024, arXiv:2406.01375; Goffinet et al. 2025, arXiv:2510.23198). **The
coefficients are not**: neither paper printed any. `DCPT_TRUTHS` and `PTPP_TRUTHS` are plausible values chosen for this
package, set so that the few losses that D-CPT does print (tables 5 and 6: chemistry and music at 1.8B) come out within
about 0.01 nats. Results on simulated runs test methods; they say nothing about the papers' data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import signal

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws import law
from cptlaw.laws.calculus import Array
from cptlaw.laws.dcpt_cross import CrossK2, CrossK3
from cptlaw.units import format_quantity


@dataclass(frozen=True)
class Truth:
    """What the simulated losses of one eval follow.

    Parameters
    ----------
    law
        Name of the law that adapted models follow, with its options.
    params
        Its parameters, in its units.
    base
        The base model's loss E + A/N^alpha + F/P^eta, N in billions of parameters and P = ptpp: values of ``E``,
        ``A``, ``alpha`` and, where budgets vary, ``F`` and ``eta``. Laws of adaptation do not contain it.
    """

    law: str
    params: Mapping[str, float]
    base: Mapping[str, float] = field(default_factory=dict)

    def base_losses(self, rows: pd.DataFrame) -> Array:
        """Return the base models' losses, shape (n,), for rows with n_params and, if the base has F, ptpp."""
        unknown = set(self.base) - {"E", "A", "alpha", "F", "eta"}
        if unknown or "E" not in self.base:
            raise UsageError(f"base={dict(self.base)}: expected E and, if wanted, A with alpha and F with eta.")
        size = rows["n_params"].to_numpy(dtype=float) / 1e9
        loss = np.full(len(rows), float(self.base["E"]))
        if "A" in self.base:
            loss = loss + self.base["A"] * size ** -self.base["alpha"]
        if "F" in self.base:
            loss = loss + self.base["F"] * rows["ptpp"].to_numpy(dtype=float) ** -self.base["eta"]
        return loss


Truths = Mapping[str, Truth | Mapping[str, Truth]]
"""By eval: one truth, or one by domain."""


# -- the D-CPT study -----------------------------------------------------------------------------------------------

TOKENS_PER_STEP = 131_072
LAST_STEP, STEP_GRID = 200_000, 1_000
PROBE_STEPS = (1_000, 5_000, 10_000)  # where the cross-domain law reads its coefficients off
DCPT_SIZES = (0.5e9, 1.8e9, 4e9)
DCPT_REPLAY = (0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0)  # general corpus : domain = 0:10 .. 10:0

# Huber 0.0048 and 0.0157 of the paper's table 1, read as sums over 27 x 200 points at threshold 1e-3, imply these.
DCPT_NOISE = {"source": 0.0018, "target": 0.0042}


def _dcpt(base: tuple[float, float, float], **params: float) -> Truth:
    return Truth("dcpt-l3", params, dict(zip(("E", "A", "alpha"), base, strict=True)))


def _target(E: float, A: float, B: float, C: float, beta: float, eta: float, base: float) -> Truth:
    common = {"alpha": 0.3, "gamma": 0.5, "eps": 0.1}
    return _dcpt((base, A, 0.3), E=E, A=A, B=B, C=C, beta=beta, eta=eta, **common)


def _source(C: float, gamma: float) -> Truth:
    common = {"E": 2.18, "A": 0.7, "B": 0.06, "alpha": 0.3, "beta": 0.15, "eta": 1.1, "eps": 0.05}
    return _dcpt((2.2735, 0.7, 0.3), C=C, gamma=gamma, **common)


DCPT_TRUTHS: dict[str, dict[str, Truth]] = {
    # The domains differ most in how low their loss goes (E). Those that end low fall far, as in the paper, where k2
    # alone explains most of what differs between domains (table 7).
    "target": {
        "chemistry": _target(E=1.027, A=0.45, B=0.150, C=0.250, beta=0.25, eta=1.10, base=1.93),
        "code": _target(E=0.430, A=0.38, B=0.140, C=0.220, beta=0.26, eta=1.15, base=1.45),
        "law": _target(E=0.860, A=0.42, B=0.170, C=0.270, beta=0.24, eta=1.10, base=1.83),
        "math": _target(E=0.700, A=0.43, B=0.140, C=0.240, beta=0.25, eta=1.12, base=1.66),
        "medical": _target(E=1.350, A=0.50, B=0.180, C=0.280, beta=0.23, eta=1.05, base=2.25),
        "music": _target(E=0.210, A=0.30, B=0.120, C=0.200, beta=0.27, eta=1.20, base=1.36),
    },
    # One general corpus and one base model; the domains differ in how much of it they displace.
    "source": {
        "chemistry": _source(C=0.0078, gamma=1.5),
        "code": _source(C=0.0090, gamma=1.45),
        "law": _source(C=0.0070, gamma=1.5),
        "math": _source(C=0.0075, gamma=1.4),
        "medical": _source(C=0.0085, gamma=1.55),
        "music": _source(C=0.0095, gamma=1.5),
    },
}
DCPT_DOMAINS = tuple(DCPT_TRUTHS["target"])


def dcpt_steps(sampling: Literal["M1", "M2", "M3", "M4"] | int = "M1") -> NDArray[np.int_]:
    """Return the steps at which a run of the D-CPT study is measured.

    Parameters
    ----------
    sampling
        The paper's methods (appendix I): ``"M1"`` every 1,000 steps, 200 points; ``"M2"`` every 5,000; ``"M3"`` every
        4,000 over the first 60 % of the run, then every 8,000; ``"M4"`` 45 points with density exp(-0.02 x) in units
        of 1,000 steps, here at equal shares of that density, as the paper does not say how points are drawn from it.
        Or a number of points, spread evenly over log steps, among them steps 1,000, 5,000, 10,000 and the last.

    Examples
    --------
    >>> [len(dcpt_steps(method)) for method in ("M1", "M2", "M3", "M4")]
    [200, 40, 40, 45]
    >>> dcpt_steps(5).tolist()
    [1000, 5000, 10000, 45000, 200000]
    """
    grid = np.arange(STEP_GRID, LAST_STEP + 1, STEP_GRID)
    if sampling == "M1":
        return grid
    if sampling == "M2":
        return grid[4::5]
    if sampling == "M3":
        return np.concatenate([grid[3:120:4], grid[127::8]])
    if sampling == "M4":
        density = np.cumsum(np.exp(-0.02 * np.arange(len(grid))))
        shares = (np.arange(45) + 0.5) / 45
        return grid[np.searchsorted(density / density[-1], shares)]
    if not isinstance(sampling, int):
        raise UsageError(f"sampling={sampling!r}: expected M1, M2, M3, M4 or a number of points.")
    needed = (*PROBE_STEPS, LAST_STEP)
    if not len(needed) <= sampling <= len(grid):
        raise UsageError(f"sampling={sampling}: expected {len(needed)} to {len(grid)} points.")
    chosen = list(needed)
    while len(chosen) < sampling:  # always the step that is furthest, in log steps, from those already there
        apart = np.abs(np.log(grid[:, None] / np.array(chosen)[None, :])).min(axis=1)
        chosen.append(int(grid[np.argmax(apart)]))
    return np.array(sorted(chosen))


def dcpt_design(
    domains: Sequence[str] = DCPT_DOMAINS,
    n_params: Sequence[float] = DCPT_SIZES,
    replay: Sequence[float] = DCPT_REPLAY,
    sampling: Literal["M1", "M2", "M3", "M4"] | int = "M1",
) -> pd.DataFrame:
    """Return the points of the D-CPT study: three sizes x nine mixes of the general corpus x six domains, 200k steps.

    Returns
    -------
    DataFrame
        run, n_params, tokens, replay, domain, step; raw parameters and tokens.
    """
    steps = dcpt_steps(sampling)
    cells = [(domain, size, share) for domain in domains for size in n_params for share in replay]
    runs = pd.DataFrame(
        [(f"{domain}-{format_quantity(n)}-r{share:g}", n, share, domain) for domain, n, share in cells],
        columns=["run", "n_params", "replay", "domain"],
    )
    frame = runs.loc[runs.index.repeat(len(steps))].reset_index(drop=True)
    frame["step"] = np.tile(steps, len(runs))
    frame["tokens"] = frame["step"] * float(TOKENS_PER_STEP)
    return frame[["run", "n_params", "tokens", "replay", "domain", "step"]]


def dcpt_runs(
    domains: Sequence[str] = DCPT_DOMAINS,
    sampling: Literal["M1", "M2", "M3", "M4"] | int = "M1",
    *,
    truths: Truths = DCPT_TRUTHS,
    noise: float | Mapping[str, float] = DCPT_NOISE,
    correlation: float = 0.0,
    run_noise: float | Mapping[str, float] = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Return simulated runs of the D-CPT study, both losses, base models included.

    Parameters
    ----------
    domains, sampling
        As for `dcpt_design`.
    truths, noise, correlation, run_noise, seed
        As for `measure`.
    """
    return measure(dcpt_design(domains, sampling=sampling), truths, noise, correlation, run_noise, seed)


def cross_domain_truths(
    name: Literal["dcpt-cross-k2", "dcpt-cross-k3"],
    params: Mapping[str, float],
    learnability: Mapping[str, float],
    design: pd.DataFrame | None = None,
) -> dict[str, Truth]:
    """Return target truths by domain under which a cross-domain law holds exactly.

    A domain's loss is D-CPT's with E + F/K^mu in the place of E, and K must be what its own first rows give:
    K = 1/k1 + w2 k2. The adapted losses fix k1; the base model's loss is chosen so that k2 = L(0) - L(5,000 steps)
    comes out as needed. (With K = 1/k1 alone nothing is left to choose: all domains would have to be alike.)

    Parameters
    ----------
    name
        The law.
    params
        Its parameters.
    learnability
        K by domain.
    design
        The runs over which the coefficients are averaged; sizes and mixes of the D-CPT study where absent.

    Raises
    ------
    UsageError
        If a K is too small for a positive k2.
    """
    chosen = law(name)
    if not isinstance(chosen, CrossK2 | CrossK3):
        raise UsageError(f"cross_domain_truths: the base loss can be solved for dcpt-cross-k2 and -k3, not for {name}.")
    cells = (dcpt_design(("any",), sampling=4) if design is None else design).drop_duplicates(["n_params", "replay"])
    probe = chosen.probe
    plain = law("dcpt-l3")
    found: dict[str, Truth] = {}
    for domain, index in learnability.items():
        # F/K^mu as a constant: E at this K, without going through the coefficients that are still to be found.
        inner = {key: params[key] for key in plain.parameters} | {
            "E": params["E"] + params["F"] * index ** -params["mu"]
        }
        early = float(plain.predict(inner, cells.assign(tokens=probe.early_tokens)).mean())
        first = float(plain.predict(inner, cells.assign(tokens=probe.first_tokens)).mean())
        fall = index if isinstance(chosen, CrossK2) else (index - 1.0 / early) / params["w2"]
        if not fall > 0:
            raise UsageError(f"domain {domain!r}: K = {index:g} is below 1/k1 = {1 / early:.4g}; choose a larger K.")
        size = float(np.mean((cells["n_params"] / 1e9) ** -params["alpha"]))
        base = {"E": first + fall - params["A"] * size, "A": params["A"], "alpha": params["alpha"]}
        found[domain] = Truth("dcpt-l3", inner, base)
    return found


# -- the PTPP study ------------------------------------------------------------------------------------------------

PTPP_SIZES = (241e6, 517e6, 1.4e9, 8.1e9)
PTPP_BUDGETS = (15.0, 31.0, 279.0)
PTPP_REPLAY = (0.1, 0.25, 0.5)
PTPP_ATPP = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # the paper's grid of tokens is not given

PTPP_NOISE = {"target": 0.002, "source": 0.006}  # what the paper's oracle fits leave over

PTPP_TRUTHS: dict[str, Truth] = {
    "target": Truth(
        "ptpp-gated-floor",
        {"E": 1.0, "A": 0.5, "B": 0.6, "C": 0.02, "F": 0.8}
        | {"alpha": 0.3, "beta": 0.22, "nu": 0.15, "gamma": 0.1, "eta": 0.35, "lambda": 0.35, "zeta": 0.5},
        {"E": 2.2, "A": 0.6, "alpha": 0.25, "F": 0.5, "eta": 0.3},
    ),
    "source": Truth(
        "ptpp-gated-floor",
        {"E": 1.3, "A": 0.6, "B": 0.25, "C": 0.12, "F": 0.9}
        | {"alpha": 0.3, "beta": 0.15, "nu": 0.8, "gamma": 0.45, "eta": 0.4, "lambda": 0.3, "zeta": 0.5},
        {"E": 1.55, "A": 0.6, "alpha": 0.3, "F": 0.9, "eta": 0.4},
    ),
}


def ptpp_design(
    n_params: Sequence[float] = PTPP_SIZES,
    ptpp: Sequence[float] = PTPP_BUDGETS,
    replay: Sequence[float] = PTPP_REPLAY,
    atpp: Sequence[float] = PTPP_ATPP,
) -> pd.DataFrame:
    """Return the points of the PTPP study: four sizes x three pre-training budgets x three replay shares.

    Parameters
    ----------
    n_params, ptpp, replay
        The levels; the paper's where absent.
    atpp
        Adaptation tokens per parameter at which each run is measured. The paper does not print its grid.

    Returns
    -------
    DataFrame
        run, n_params, tokens, replay, ptpp; raw parameters and tokens.
    """
    rows = [
        (f"{format_quantity(n)}-p{budget:g}-r{share:g}", n, n * ratio, share, budget)
        for n in n_params
        for budget in ptpp
        for share in replay
        for ratio in sorted(atpp)
    ]
    return pd.DataFrame(rows, columns=["run", "n_params", "tokens", "replay", "ptpp"]).astype({"tokens": float})


def ptpp_runs(
    atpp: Sequence[float] = PTPP_ATPP,
    *,
    truths: Truths = PTPP_TRUTHS,
    noise: float | Mapping[str, float] = PTPP_NOISE,
    correlation: float = 0.0,
    run_noise: float | Mapping[str, float] = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Return simulated runs of the PTPP study, both losses, base models included.

    Parameters
    ----------
    atpp
        As for `ptpp_design`.
    truths, noise, correlation, run_noise, seed
        As for `measure`.
    """
    return measure(ptpp_design(atpp=atpp), truths, noise, correlation, run_noise, seed)


# -- measuring -----------------------------------------------------------------------------------------------------


def measure(
    design: pd.DataFrame,
    truths: Truths,
    noise: float | Mapping[str, float] = 0.0,
    correlation: float = 0.0,
    run_noise: float | Mapping[str, float] = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate the losses of a design.

    A measured loss is the law's loss times exp(e). The error e of a point is a run's own offset (standard deviation
    `run_noise`) plus a stationary first-order autoregression along the run (standard deviation `noise`, `correlation`
    between neighbouring points). The law's loss is thus the median, not the mean, of what is measured.

    Parameters
    ----------
    design
        Points with run and the inputs of the laws; with domain where truths differ by domain.
    truths
        By eval, one truth or one by domain. The eval's role is its name, ``source`` or ``target``.
    noise
        Standard deviation of log losses around their run, for all evals or by eval.
    correlation
        From 0 to below 1.
    run_noise
        Standard deviation of log losses between runs, for all evals or by eval.
    seed
        Seed of the noise; the same seed gives the same table.

    Returns
    -------
    DataFrame
        run, eval, loss, n_params, tokens, replay, ptpp, domain, step as far as the design has them; then one row with
        tokens = 0 for each base model and eval, where the truths say how it starts. Base losses carry `noise` too, and
        name a domain only where the base loss depends on it.

    Raises
    ------
    UsageError
        If a domain has no truth, or the noise is no size.
    """
    if not 0 <= correlation < 1:
        raise UsageError(f"correlation={correlation}: expected 0 or more, below 1.")
    if len(design) == 0:
        raise UsageError("the design has no points.")
    parts = []
    for place, (eval_name, given) in enumerate(truths.items()):
        rng = np.random.default_rng([seed, place])
        spread, between = _of_eval(noise, eval_name, "noise"), _of_eval(run_noise, eval_name, "run_noise")
        by_domain = _truth_by_domain(design, given)
        for truth, rows in by_domain:
            loss = law(truth.law).predict(truth.params, rows.assign(eval=eval_name))
            error = _errors(rows, rng, spread, correlation, between)
            parts.append(rows.assign(eval=eval_name, loss=loss * np.exp(error)))
        for truth, rows in _base_rows(by_domain):
            error = spread * rng.standard_normal(len(rows))
            parts.append(rows.assign(eval=eval_name, loss=truth.base_losses(rows) * np.exp(error)))
    table = pd.concat(parts, ignore_index=True)
    first = ["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "domain", "step"]
    return table[[*(name for name in first if name in table), *(name for name in table if name not in first)]]


def _truth_by_domain(design: pd.DataFrame, given: Truth | Mapping[str, Truth]) -> list[tuple[Truth, pd.DataFrame]]:
    if isinstance(given, Truth):
        return [(given, design)]
    if "domain" not in design:
        raise UsageError("truths by domain need a design with a column 'domain'.")
    found = []
    for domain, rows in design.groupby("domain", sort=False, observed=True):
        if domain not in given:
            raise UsageError(
                f"no truth for domain {domain!r}.{did_you_mean(str(domain), given)} Known: {', '.join(given)}."
            )
        found.append((given[str(domain)], rows))
    return found


def _base_rows(by_domain: Sequence[tuple[Truth, pd.DataFrame]]) -> list[tuple[Truth, pd.DataFrame]]:
    """Return one row per base model: shared by all domains where their truths start alike, else one per domain."""
    if not all(truth.base for truth, _ in by_domain):
        return []
    if all(truth.base == by_domain[0][0].base for truth, _ in by_domain):
        everything = pd.concat([rows for _, rows in by_domain])
        by_domain = [(by_domain[0][0], everything.drop(columns="domain", errors="ignore"))]
    keys = ("n_params", "ptpp", "domain")
    found = []
    for truth, rows in by_domain:
        base = rows[[name for name in keys if name in rows]].drop_duplicates().reset_index(drop=True)
        labels = [
            "-".join(
                [
                    f"base-{format_quantity(row['n_params'])}",
                    *([f"p{row['ptpp']:g}"] if "ptpp" in base else []),
                    *([str(row["domain"])] if "domain" in base else []),
                ]
            )
            for _, row in base.iterrows()
        ]
        base = base.assign(run=labels, tokens=0.0, **({"step": 0} if "step" in rows else {}))
        found.append((truth, base))
    return found


def _errors(rows: pd.DataFrame, rng: np.random.Generator, spread: float, correlation: float, between: float) -> Array:
    """Return log errors, shape (n,): an offset per run plus a stationary autoregression in the order of tokens."""
    errors = np.empty(len(rows))
    tokens = rows["tokens"].to_numpy(dtype=float)
    for positions in rows.groupby("run", sort=False, observed=True).indices.values():
        shocks = rng.standard_normal(len(positions))
        fresh = np.sqrt(1.0 - correlation**2)
        shocks[1:] *= fresh  # the first point is drawn from the stationary distribution itself
        along = signal.lfilter([1.0], [1.0, -correlation], shocks)
        errors[positions[np.argsort(tokens[positions], kind="stable")]] = spread * along
        errors[positions] += between * rng.standard_normal()
    return errors


def _of_eval(value: float | Mapping[str, float], eval_name: str, what: str) -> float:
    size = value.get(eval_name) if isinstance(value, Mapping) else value
    if size is None or not (np.isfinite(size) and size >= 0):
        raise UsageError(f"{what}={value!r}: expected zero or more for eval {eval_name!r}.")
    return float(size)
