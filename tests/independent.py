"""The stated objective and scipy on the full problem: nothing here uses the package."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


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
