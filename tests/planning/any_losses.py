"""Fitted losses that are no law of ours: any function of replay and tokens, and averages, as plans may meet them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from cptlaw.fitting.forecaster import Forecaster

TOKENS = (2e9, 200e9)
REPLAY = (0.1, 0.25, 0.5)


class AnyLoss(Forecaster):
    """A loss by its formula, with what a plan asks of a fitted loss."""

    def __init__(self, role, formula, falls=False, spread=0.01, base=None):
        self.role = self.on = role
        self.formula, self.spread = formula, spread
        self.law = SimpleNamespace(
            name="any", spec="any", inputs=("tokens", "replay"), decreasing=("tokens",) if falls else (),
            needs_schedules=False, on_base_models=False, diverges_at_zero=("tokens",), units={"tokens": 1.0},
        )  # fmt: skip
        if falls:  # a single law that falls is asked for its inverse: an average is not
            self.members = (SimpleNamespace(fit=SimpleNamespace(law=self.law)),) * 2
        rows = [(r, d) for r in REPLAY for d in np.geomspace(*TOKENS, 4)]
        self.data = pd.DataFrame(rows, columns=["replay", "tokens"])
        self.data["run"] = [f"run-{i // 4}" for i in range(len(rows))]
        self.data["loss"] = self.predict(self.data)
        self.base = pd.DataFrame(columns=["n_params", "ptpp", "loss"]) if base is None else base
        self.findings, self.provenance = (), {}

    members = ()

    @property
    def laws(self):
        return tuple(member.fit.law for member in self.members) or (self.law,)

    def predict(self, frame):
        return self.formula(frame["replay"].to_numpy(dtype=float), frame["tokens"].to_numpy(dtype=float))

    def log_quantiles(self, frame, probabilities, measured=True):
        from scipy.special import ndtri

        spread = self.spread * (1 + 0.3 * np.abs(np.log(frame["tokens"].to_numpy(dtype=float) / 2e10)))
        half = np.hypot(spread, 0.003) if measured else spread
        return np.log(self.predict(frame)) + half * ndtri(np.asarray(probabilities))[:, None]

    def forecast(self, frame, interval=0.9):
        found = frame.assign(loss=self.predict(frame), findings=[()] * len(frame))
        if interval is not None:
            ends = np.exp(self.log_quantiles(frame, [0.5 - interval / 2, 0.5 + interval / 2]))
            found["lo"], found["hi"] = ends
        return found


def average(role, fits, weights):
    """Return the weighted mean of log losses of several fits of one eval."""
    members = tuple(SimpleNamespace(fit=fit, weight=weight) for fit, weight in zip(fits, weights, strict=True))

    def formula(replay, tokens):
        frame = pd.DataFrame({"n_params": 8.1e9, "ptpp": 279.0, "replay": replay, "tokens": tokens})
        return np.exp(sum(member.weight * np.log(member.fit.predict(frame)) for member in members))

    found = AnyLoss(role, formula)
    found.members = members
    return found


def draw(rng, kind):
    """Return a target and a source loss of a kind: falling, one that rises and then falls, or one that swings."""
    e, f, g, h = rng.uniform(1.2, 1.6), rng.uniform(0.3, 0.6), rng.uniform(0.15, 0.4), rng.uniform(0.1, 0.8)
    a, b, c = rng.uniform(1.6, 1.9), rng.uniform(0.1, 0.4), rng.uniform(1.0, 4.0)
    peak, width, swing, beat = rng.uniform(22, 25), rng.uniform(0.6, 1.5), rng.uniform(0.01, 0.05), rng.uniform(1.5, 4)
    slope = rng.uniform(0.1, 0.3)

    def target(r, d):
        loss = e + f * (1 + h * r) * (d / 1e9) ** -g
        return loss * (1 + swing * np.cos(beat * np.log(d))) if kind == "swings" else loss

    def source(r, d):
        if kind == "falls":
            return a + b * np.exp(-c * r) * (d / 1e9) ** -slope
        bump = np.exp(-0.5 * ((np.log(d) - peak) / width) ** 2)
        loss = a + b * np.exp(-c * r) * bump + 0.2 * (d / 1e9) ** -slope
        return loss * (1 + swing * np.sin(beat * np.log(d) + 3 * r)) if kind == "swings" else loss

    falls = kind == "falls"
    return AnyLoss("target", target, falls), AnyLoss("source", source, falls)
