"""Law auto on loss curves of models from scratch, under several schedules."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.fitting.rollouts import distinct_levels
from cptlaw.laws import law
from cptlaw.schedules import Phase, Schedule

TRUTH = {"L0": 2.6, "A": 0.45, "C": 0.4, "alpha": 0.5}


def curves(size: float = 1e8, floor: float = 0.0) -> tuple[pd.DataFrame, dict[str, Schedule]]:
    """Curves of one size under constant and annealed rates, one of them three times as long."""
    known = {
        f"{size:g}-constant": Phase("pretrain", 4000, "constant", peak=1e-3, warmup=200),
        f"{size:g}-cosine": Phase("pretrain", 4000, "cosine", peak=1e-3, warmup=200, end=0.0),
        f"{size:g}-short": Phase("pretrain", 2000, "cosine", peak=1e-3, warmup=200, end=0.0),
        f"{size:g}-long": Phase("pretrain", 12000, "wsd", peak=1e-3, warmup=200, decay=2400, end=0.0),
    }
    schedules = {run: Schedule([phase]) for run, phase in known.items()}
    frame = pd.concat(
        [pd.DataFrame({"run": run, "step": range(50, one.n_steps + 1, 50)}) for run, one in schedules.items()]
    ).assign(eval="c4", n_params=size)
    chosen = law("lr-annealing:warmup=actual")
    loss = chosen.predict(TRUTH, chosen.attach(frame, schedules)) + floor
    noise = np.exp(0.001 * np.random.default_rng(0).standard_normal(len(frame)))
    # While the rate warms up, losses are far above any law.
    return frame.assign(loss=loss * noise + np.where(frame["step"] < 200, 2.0, 0.0)).reset_index(drop=True), schedules


def test_curves_of_one_size_are_forecast_under_a_schedule_that_was_not_run() -> None:
    frame, schedules = curves()
    long = frame["run"].str.endswith("long")
    fit = cl.fit(frame[~long], "c4", schedules=schedules)
    assert {member.fit.law.needs_schedules for member in fit.members} == {True}
    assert {fold.direction for fold in fit.folds} == {"s1"}
    assert "transient" in {finding.code for finding in fit.findings}
    asked = frame[long & (frame["step"] > 4000)]
    found = fit.with_schedules(schedules).forecast(asked.iloc[::20])
    assert np.mean(np.abs(found["loss"] / asked["loss"].iloc[::20] - 1)) < 0.005
    assert np.mean((found["lo"] <= asked["loss"].iloc[::20]) & (asked["loss"].iloc[::20] <= found["hi"])) >= 0.8


def test_curves_of_several_sizes_have_a_size_term(tmp_path) -> None:
    parts = [curves(size, floor) for size, floor in ((2e7, 0.8), (6e7, 0.5), (2e8, 0.3))]
    frame = pd.concat([one for one, _ in parts], ignore_index=True)
    schedules = {run: one for _, known in parts for run, one in known.items()}
    kept = ~frame["run"].str.endswith("long")
    fit = cl.fit(frame[kept], "c4", schedules=schedules)
    assert all(member.fit.law.size for member in fit.members)
    again = cl.load_fit(fit.save(tmp_path / "auto.json")).with_schedules(schedules)
    asked = frame[~kept & (frame["step"] > 6000)].iloc[::40]
    assert np.mean(np.abs(again.predict(asked) / asked["loss"] - 1)) < 0.02


def test_points_of_a_curve_are_levels_of_their_own() -> None:
    dense = np.log(np.arange(1000, 4001, 10))
    kept = distinct_levels(dense)
    assert len(kept) == pytest.approx((dense[-1] - dense[0]) / 0.05, rel=0.2)
    assert np.all(np.diff(kept) > 0.05)


def test_curves_are_checked_as_they_are_fitted() -> None:
    frame, schedules = curves()
    checked = cl.check(frame, on="c4", schedules=schedules)
    fitted = cl.fit(frame, on="c4", schedules=schedules)
    assert {member.fit.law.spec for member in fitted.members} <= {one.law for one in checked.laws}
    assert checked.n_points == fitted.n_points
    with refused(cl.CptlawError, "--schedules"):
        cl.check(frame, on="c4")
