"""Law auto on tables with learning-rate schedules: laws with and without them on common rows and rollouts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cptlaw as cl

KEPT = "ptpp in (31, 62, 124)"


@pytest.fixture(scope="module", params=["docs-to-code", pytest.param("en-fr-ladder", marks=pytest.mark.nightly)])
def study(request):
    runs, schedules = cl.examples.load(request.param), cl.examples.schedules(request.param)
    return runs, schedules, {on: cl.fit(runs, on, KEPT, schedules=schedules) for on in ("target", "source")}


def test_laws_with_and_without_schedules_share_rollouts_and_weights(study) -> None:
    _, _, fits = study
    for fit in fits.values():
        read = {member.fit.law.needs_schedules: member for member in fit.members}
        assert set(read) == {True, False}
        assert read[True].weight > 0.02
        assert fit.scores.error.shape == (len(fit.members), len(fit.folds))
        assert np.isfinite(fit.scores.error).all()


def test_an_unseen_budget_is_forecast_with_the_schedules_and_without(study) -> None:
    runs, schedules, fits = study
    for on, fit in fits.items():
        test = runs.on(on).where("ptpp == 279 and lr_schedule == 'constant' and atpp >= 1.9 and tokens > 0").frame
        loss = test["loss"]
        known = fit.with_schedules(schedules)
        found = known.forecast(test.iloc[:: max(1, len(test) // 12)])
        assert np.mean((found["lo"] <= found["loss"]) & (found["loss"] <= found["hi"])) == 1
        with_them, without = known.predict(test), fit.predict(test.drop(columns=["run", "step"]))
        for predicted in (with_them, without):
            assert np.mean(np.abs(predicted / loss - 1)) < 0.06
        assert np.mean(np.abs(with_them / loss - 1)) < np.mean(np.abs(without / loss - 1)) + 0.005


def test_the_command_line_forecasts_a_run_and_a_point_of_it(study, tmp_path: Path, call) -> None:
    runs, schedules, fits = study
    path = fits["target"].save(tmp_path / "t.json")
    row = runs.on("target").where(f"{KEPT} and tokens > 0 and atpp >= 8").frame.iloc[-1]
    point = f"n_params={row['n_params']:.0f},tokens={row['tokens']:.0f},replay={row['replay']},ptpp={row['ptpp']:g}"
    point += f",lr_peak={row['lr_peak']}"
    for at in (point, f"{point},run={row['run']},step={row['step']:.0f}"):
        code, out, err = call("forecast", str(path), "--at", at, "--json")
        assert code == 0, err
        found = json.loads(out)["points"][0]
        assert found["lo"] < row["loss"] < found["hi"]
    assert cl.load_fit(path).with_schedules(schedules).law.spec == "auto"


def test_fit_reads_the_schedules_of_the_command_line(tmp_path: Path, call) -> None:
    table, schedules = cl.examples.path("en-fr-ladder"), cl.examples.schedules("en-fr-ladder")
    command = ["fit", str(table), "--on", "source", "--law", "auto", "--schedules", str(schedules), "--where", KEPT]
    code, out, err = call(*command, "-o", str(tmp_path / "s.json"), "--json")
    assert code == 0, err
    members = json.loads(out)["members"]
    assert any("peak" in member["law"] or "growth" in member["law"] for member in members)
