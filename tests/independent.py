"""The laws once more, as plain formulas, and scipy on the full problem: nothing here uses the package.

N and D are in the units of each law, r is the law's own ratio, P is ptpp, K a learnability; `p` maps names to numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def chinchilla(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]


def kaplan(p, N, D, r, P):
    return ((p["N_c"] / N) ** (p["alpha_N"] / p["alpha_D"]) + p["D_c"] / D) ** p["alpha_D"]


def l1(p, N, D, r, P):
    return chinchilla(p, N, D, r, P) + p["C"] / (r + p["eps"]) ** p["gamma"]


def l2(p, N, D, r, P):
    inner = p["B"] / D ** p["beta"] + p["C"] / (r + p["eps"]) ** p["gamma"]
    return p["E"] + p["A"] / N ** p["alpha"] + inner ** p["eta"]


def l3(p, N, D, r, P):
    return (
        p["E"]
        + p["A"] / N ** p["alpha"]
        + p["B"] * r ** p["eta"] / D ** p["beta"]
        + p["C"] / (r + p["eps"]) ** p["gamma"]
    )


def l4(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] * p["b"] ** r / D ** p["beta"] + p["C"] / p["c"] ** r


def l5(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / (r * D + (1 - r) * p["sigma"]) ** p["beta"]


def l5_rate(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / (r * D + (1 - r) * p["sigma"] * D) ** p["beta"]


def l6(p, N, D, r, P):
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * np.exp(r) / D ** p["beta"] + p["C"] / (r + p["eps"]) ** p["gamma"]
    )


def l7(p, N, D, r, P):
    share = r + p["eps"]
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * share ** p["eta"] / D ** p["beta"] + p["C"] / share ** p["gamma"]
    )


def blind(p, N, D, r, P):
    return (
        p["E"] + p["A"] / N ** p["alpha"] + p["B"] * r ** p["nu"] / D ** p["beta"] + p["C"] / (r + 1e-5) ** p["gamma"]
    )


def floor(p, N, D, r, P):
    return blind(p, N, D, r, P) + p["F"] / P ** p["eta"]


def gate(p, N, D, r, P):
    g = P ** p["zeta"] / (1 + P ** p["zeta"])
    return blind({**p, "beta": p["beta"] * (1 - p["lambda"] * g)}, N, D, r, P)


def gated_floor(p, N, D, r, P):
    return gate(p, N, D, r, P) + p["F"] / P ** p["eta"]


FORMULAS = {
    "chinchilla": chinchilla,
    "kaplan": kaplan,
    "dcpt-l1": l1,
    "dcpt-l2": l2,
    "dcpt-l3": l3,
    "dcpt-l4": l4,
    "dcpt-l5": l5,
    "dcpt-l5:sigma=rate": l5_rate,
    "dcpt-l6": l6,
    "dcpt-l7": l7,
    "ptpp-blind": blind,
    "ptpp-floor": floor,
    "ptpp-gate": gate,
    "ptpp-gated-floor": gated_floor,
}

# One plausible truth for each law, by parameter name; chosen here, not published.
_CHINCHILLA = {"E": 1.7, "A": 400.0, "B": 1500.0, "alpha": 0.34, "beta": 0.35}
_DCPT = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.1, "gamma": 0.5, "eps": 0.1, "eta": 1.3}
_PTPP = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.05, "gamma": 0.4}
TRUTHS = {
    "chinchilla": _CHINCHILLA,
    "kaplan": {"alpha_N": 0.076, "alpha_D": 0.103, "N_c": 6.4e13, "D_c": 1.8e13},
    "dcpt-l1": {key: value for key, value in _DCPT.items() if key != "eta"},
    "dcpt-l2": _DCPT,
    "dcpt-l3": _DCPT,
    "dcpt-l4": {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.3, "beta": 0.3, "C": 0.3, "b": 2.0, "c": 3.0},
    "dcpt-l5": {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.5, "beta": 0.4, "sigma": 0.3},
    "dcpt-l5:sigma=rate": {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.5, "beta": 0.4, "sigma": 0.3},
    "dcpt-l6": {key: value for key, value in _DCPT.items() if key != "eta"} | {"B": 0.2, "C": 0.3},
    "dcpt-l7": _DCPT,
    "ptpp-blind": _PTPP,
    "ptpp-floor": _PTPP | {"F": 0.9, "eta": 0.5},
    "ptpp-gate": _PTPP | {"lambda": 0.6, "zeta": 0.7},
    "ptpp-gated-floor": _PTPP | {"F": 0.9, "eta": 0.5, "lambda": 0.6, "zeta": 0.7},
}


def summed_huber(residual, delta):
    size = np.abs(residual)
    return float(np.sum(np.where(size <= delta, residual**2 / 2, delta * (size - delta / 2))))


def scipy_fit(formula, start, bounds, inputs, loss, delta):
    """Minimise the stated objective over all parameters with L-BFGS-B in log space, restarted until it stalls.

    Parameters whose lower bound is not positive stay on their own axis.
    """
    names = list(start)
    logarithmic = np.array([bounds[name][0] > 0 or bounds[name] == (0.0, np.inf) for name in names])

    def read(u):
        return {n: float(np.exp(v)) if log else float(v) for n, v, log in zip(names, u, logarithmic, strict=True)}

    def objective(u):
        with np.errstate(all="ignore"):
            predicted = formula(read(u), *inputs)
            value = summed_huber(np.log(predicted) - np.log(loss), delta)
        return value * 1e3 if np.isfinite(value) else 1e9

    axis = [(np.log(max(bounds[n][0], 1e-12)), np.log(min(bounds[n][1], 1e35))) if log else bounds[n]
            for n, log in zip(names, logarithmic, strict=True)]  # fmt: skip
    u = np.array([np.log(max(start[n], 1e-12)) if log else start[n] for n, log in zip(names, logarithmic, strict=True)])
    u = np.clip(u, [low for low, _ in axis], [high for _, high in axis])
    best = np.inf
    for _ in range(8):
        found = minimize(objective, u, method="L-BFGS-B", bounds=axis, options={"maxiter": 4000, "maxfun": 200000,
                         "ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
        if found.fun >= best * (1 - 1e-9):
            break
        best, u = found.fun, found.x
    return read(u), best / 1e3
