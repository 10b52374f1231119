"""The design of the D-CPT study (Que et al. 2024, arXiv:2406.01375), and truths that are plausible for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import UsageError
from cptlaw.laws import law
from cptlaw.units import format_quantity
from cptlaw_published.dcpt_cross import CrossK2, CrossK3
from studies.simulate.measuring import Errors, Truth, Truths, measure

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
    # Whole numbers of this size overflow where they are 32 bits wide; as floats they are exact.
    frame["tokens"] = frame["step"] * float(TOKENS_PER_STEP)
    return frame[["run", "n_params", "tokens", "replay", "domain", "step"]]


def dcpt_runs(
    domains: Sequence[str] = DCPT_DOMAINS,
    sampling: Literal["M1", "M2", "M3", "M4"] | int = "M1",
    *,
    truths: Truths = DCPT_TRUTHS,
    **errors: Unpack[Errors],
) -> pd.DataFrame:
    """Return simulated runs of the D-CPT study, both losses, base models included.

    Parameters
    ----------
    domains, sampling
        As for `dcpt_design`.
    truths
        As for `measure`.
    **errors
        noise, correlation, run_noise, seed as for `measure`; by default the noise of the study.
    """
    usual: Errors = {"noise": DCPT_NOISE, **errors}
    return measure(dcpt_design(domains, sampling=sampling), truths, **usual)


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
