"""The joint law of learning dynamics: what its shift grows with, how annealing fades, and which rows it reads."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.laws import law
from cptlaw.laws.curve_rows import curve_rows
from cptlaw.schedules import Phase, Schedule

VARIANTS = [
    "cpt-dynamics-joint:normalised=true",
    "cpt-dynamics-joint:growth=rate+pretraining_rate+budget",
    "cpt-dynamics-joint:growth=rate+budget:fading=true",
    "cpt-dynamics-joint:open_base=true:growth=rate",
    "lr-annealing:fading=true",
    "lr-annealing:size=true",
]
TRUTH = {"L0": 2.0, "A": 0.5, "C1": 0.2, "C2": 0.2, "B": 0.4, "F": 0.8, "alpha": 0.5, "E": 8.0, "beta": 0.3}
TRUTH |= {"a1": 0.05, "a2": 3.0, "g3": 0.3}
ROW = pd.DataFrame({"s1_pretrain": 8.0, "s2_pretrain": 0.05, "s1_cpt": 2.0, "s2_cpt": 0.1}, index=[0])
ROW = ROW.assign(n_params=1e8, replay=0.1, peak_cpt=2e-4, peak_pretrain=4e-4, eval="source")


def shift(spec, params, row):
    chosen = law(spec)
    return float((chosen.predict(params, row) - chosen.predict({**params, "B": 0.0}, row))[0])


def test_the_shift_grows_with_rates_and_budget():
    plain = shift("cpt-dynamics-joint:normalised=true", TRUTH, ROW)
    grows = {**TRUTH, "h": 0.7, "w": -0.2, "b": 0.25}
    spec = "cpt-dynamics-joint:normalised=true:growth=rate+pretraining_rate+budget"
    factor = 0.2**0.7 * 0.4**-0.2 * (8.0 / 100) ** 0.25  # 100 million parameters
    assert shift(spec, grows, ROW) == pytest.approx(factor * plain, rel=1e-10)


def test_the_gain_of_annealing_fades_with_the_area_of_both_phases():
    params = {**TRUTH, "kappa": 0.1}
    chosen = law("cpt-dynamics-joint:fading=true")
    flat = ROW.assign(s2_pretrain=0.0, s2_cpt=0.0)
    gain = chosen.predict(params, flat) - chosen.predict(params, ROW)
    exact = (0.2 * 0.05 + 0.2 * 0.1 * np.exp(0.05 * 0.1)) * 10.0**-0.1
    assert gain[0] == pytest.approx(exact, rel=1e-9)


def runs(budgets=(20, 60, 180), peaks=(1e-3, 3e-3)):
    """CPT runs of a law whose damage grows with rate and budget, with their schedules and the base models' losses."""
    rows, schedules = [], {}
    for size in (2e6, 8e6):
        for budget in budgets:
            steps = int(budget * 10)
            before = Phase("pretrain", steps, "wsd", peak=4e-3, warmup=20, decay=steps // 6)
            base = f"base-{size:g}-{budget}"
            schedules[base] = Schedule([before])
            rows.append({"run": base, "step": 0, "n_params": size, "ptpp": budget, "tokens": 0.0, "lr_peak": np.nan})
            for peak in peaks:
                run = f"{size:g}-{budget}-{peak:g}"
                schedules[run] = Schedule([before, Phase("cpt", 400, "constant", peak=peak, warmup=20)])
                for step in (50, 100, 200, 300, 400):
                    known = {"run": run, "step": step, "n_params": size, "ptpp": budget, "tokens": step * 1e5}
                    rows.append({**known, "lr_peak": peak})
    frame = pd.DataFrame(rows).assign(replay=0.1, eval="source", phase="cpt")
    chosen = law("cpt-dynamics-joint:normalised=true:growth=rate+budget")
    params = {**TRUTH, "C1": 0.02, "C2": 0.02, "h": 0.6, "b": 0.2, "a1": 0.05}
    adapted = frame[frame["tokens"] > 0]
    loss = chosen.predict(params, chosen.attach(adapted, schedules))
    noise = np.exp(1e-3 * np.random.default_rng(1).standard_normal(len(adapted)))
    frame.loc[adapted.index, "loss"] = loss * noise
    return frame.assign(loss=frame["loss"].fillna(3.0)).drop(columns="phase"), schedules


def test_a_fit_finds_what_varies_and_forecasts_that_more_budget_forgets_more():
    frame, schedules = runs()
    fit = cl.fit(
        "cpt-dynamics-joint:normalised=true",
        frame,
        on="source",
        where="ptpp < 100",
        schedules=schedules,
        restraint="none",
    )
    assert fit.law.growth == ("rate", "budget")
    assert set(fit.options.restraint.priors) == {"h", "b"}
    asked = frame[(frame["ptpp"] == 180) & (frame["tokens"] > 0)]
    found = fit.with_schedules(schedules).predict(asked)
    assert np.mean(np.abs(found / asked["loss"] - 1)) < 0.01
    assert fit.params["b"] > 0.05
    assert not {"blind-to-budget", "blind-to-input"} & {
        one.code for notes in fit.with_schedules(schedules).forecast(asked.head(1))["findings"] for one in notes
    }


def test_what_does_not_vary_adds_no_parameter():
    frame, schedules = runs(budgets=(20,), peaks=(1e-3,))
    chosen = law("cpt-dynamics-joint")
    read, _, _ = curve_rows(chosen, frame, schedules, "runs")
    assert chosen.for_rows(read).growth == ("budget",)  # of two sizes, one area: tokens per parameter differ
    assert chosen.for_rows(read[read["n_params"] > 5e6]).exponents == ()
    again = law(chosen.for_rows(read).spec)
    assert again.parameters == chosen.for_rows(read).parameters


def test_a_base_model_under_its_pre_training_alone_is_on_no_curve():
    frame, schedules = runs()
    read, _, findings = curve_rows(law("cpt-dynamics-joint"), frame, schedules, "runs")
    assert (read["s1_cpt"] > 0).all()
    assert [one.code for one in findings] == ["base-rows"]
