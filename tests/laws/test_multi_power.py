"""The multi-power law of loss curves: the sum over all changes of the rate, and the published metrics."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cptlaw.laws import law
from cptlaw.schedules import Phase, Schedule
from cptlaw_curves.laws.lr_drops import Drops, drops_of
from cptlaw_curves.laws.multi_power import effect

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not PUBLIC.exists(), reason=f"the public data are not at {PUBLIC}")


MULTI_POWER = {  # laws.md 5.6: L0, A, alpha, B, C, beta, gamma, then R2, MAE, RMSE, PredE, WorstE as printed
    25: "3.04045406 .52468604 .50786857 363.78751622 2.06560812 .58279013 .64142257 .9988 .00376 .00465 .00110 .00409",
    100: "2.6514477 .60115152 .45295811 437.9464276 2.13245612 .59785199 .65523644 .9983 .00435 .00592 .00142 .00583",
}


def plain_sum(lr, t, factor, bend, power):
    """The sum over all changes of the learning rate, one by one."""
    k, s = np.arange(1, t + 1), np.cumsum(lr)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = factor * lr[k] ** -power * (s[t] - s[k - 1])
    inner = np.nan_to_num(inner, nan=0.0, posinf=np.inf)  # a last step of rate zero has had no effect yet
    return float(np.sum(np.diff(lr)[:t] * (1 - (1 + inner) ** -bend)))


@pytest.mark.parametrize("shape", ["cosine", "wsd", "wsd-exp", "two-stage", "staircase", "noise"])
def test_few_nodes_sum_all_changes(shape):
    rng = np.random.default_rng(0)
    steps = 6000
    if shape == "staircase":
        lr = np.repeat(np.linspace(1e-3, 1e-4, 60), 100)
    elif shape == "noise":
        lr = 1e-3 * np.exp(0.1 * rng.standard_normal(600))
    else:
        extra = {} if shape == "cosine" else {"decay": 1500}
        end = 1e-4 if shape != "wsd" else 0.0
        lr = Schedule([Phase("pretrain", steps, shape, peak=1e-3, warmup=500, end=end, **extra)]).lr
    at = np.unique(np.linspace(1, len(lr) - 1, 25).astype(int))
    nodes = Drops.of_rows(drops_of(lr, at))
    exact = [plain_sum(lr, t, 2.0, 0.6, 0.65) for t in at]
    assert effect(nodes, 2.0, 0.6, 0.65) == pytest.approx(exact, abs=5e-8 * np.abs(np.diff(lr)).sum())
    if shape in ("cosine", "wsd", "wsd-exp"):
        assert len(nodes.weight) < 0.1 * len(lr) * len(at)


@needs_data
@pytest.mark.parametrize("size", [25, 100])
def test_published_multi_power_metrics_to_the_printed_digit(size):
    """Target T2: the published coefficients on the public curves give all five published metrics."""
    from studies.speed.mpl_curves import mpl_schedules

    table = pd.read_csv(PUBLIC / "mpl_lr_curves.csv").rename(columns={"run_id": "run"})
    table = table[(table["n_params"] == size * 1e6) & (table["split"] == "test")]
    values = list(map(float, MULTI_POWER[size].split()))
    params = dict(zip(("L0", "A", "alpha", "B", "C", "beta", "gamma"), values[:7], strict=True))
    chosen = law("multi-power")
    found = []
    for _, rows in table.groupby("run"):
        predicted = chosen.predict(params, chosen.attach(rows, mpl_schedules(table)))
        observed, error = rows["loss"].to_numpy(), np.abs(predicted - rows["loss"].to_numpy())
        r2 = 1 - np.sum(error**2) / np.sum((observed - observed.mean()) ** 2)
        relative = error / observed
        found.append([r2, error.mean(), np.sqrt(np.mean(error**2)), relative.mean(), relative.max()])
    mean = np.mean(found, axis=0)
    assert mean[0] == pytest.approx(values[7], abs=5.1e-5)
    assert mean[1:] == pytest.approx(values[8:], abs=5.1e-6)
