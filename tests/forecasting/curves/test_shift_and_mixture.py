"""The shift alone, and losses of a third corpus as a combination of two."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError, UsageError
from cptlaw.laws import law
from cptlaw.schedules import Phase, Schedule

PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data"
PEAK = 2e-4
BASE = Phase("pretrain", 6000, "constant", peak=PEAK, warmup=300)
RUNS = {
    "on": Schedule([BASE, Phase("cpt", 3000, "constant", peak=PEAK, warmup=0)]),
    "new": Schedule([BASE, Phase("cpt", 3000, "constant", peak=PEAK, warmup=0)]),
    "cosine": Schedule([BASE, Phase("cpt", 3000, "cosine", peak=PEAK, warmup=0)]),
}
FIGURE_3 = {"L0": 3.057, "A": 0.490, "alpha": 0.497, "B": 0.366, "E": 28.0, "beta": 0.189, "C1": 0.299, "C2": 0.299}


def table():
    """Losses on the source corpus: run "on" keeps its corpus, the other two change it."""
    built, parts = law("cpt-dynamics"), []
    for run in RUNS:
        rows = pd.DataFrame({"run": run, "step": range(20, 3001, 20), "phase": "cpt", "eval": "source"})
        params = FIGURE_3 | ({"B": 0.0} if run == "on" else {})
        parts.append(rows.assign(loss=built.predict(params, built.attach(rows, RUNS), "source")))
    return pd.concat(parts, ignore_index=True)


def test_the_shift_by_difference_to_a_run_without_a_change():
    found = cl.shift_of_runs(table(), "source", "on", RUNS, where='run in ("on", "new")')
    assert found["run"].unique().tolist() == ["new"]
    area = found["s1_cpt"].to_numpy()
    assert area == pytest.approx(found["step"].to_numpy() * PEAK)
    assert found["shift"].to_numpy() == pytest.approx(0.366 * (1 - (1 + 28 * area) ** -0.189), abs=1e-12)
    power = cl.fit_shift(found)
    assert power.params == pytest.approx({"B": 0.366, "E": 28.0, "beta": 0.189}, rel=1e-4)
    assert power.r2 == pytest.approx(1.0)
    assert power.predict(area) == pytest.approx(found["shift"].to_numpy(), abs=1e-7)
    # Against steps of one constant rate only the unit of E differs (fig. 2: .008 per step is 40 per unit of area).
    steps = cl.fit_shift(found, against="step")
    assert steps.params["E"] == pytest.approx(28.0 * PEAK, rel=1e-4)
    exponential = cl.fit_shift(found, form="exponential")
    assert exponential.r2 < power.r2
    assert "1 - e^(-E x)" in str(exponential)


def test_the_shift_by_difference_to_a_fit_holds_for_any_schedule():
    without = cl.given_fit("lr-annealing", {"L0": 3.057, "A": 0.490, "alpha": 0.497, "C": 0.299}, "source")
    found = cl.shift_of_runs(table(), "source", without, RUNS)
    assert np.abs(found[found["run"] == "on"]["shift"]).max() < 1e-12
    changed = found[found["run"] != "on"]
    assert cl.fit_shift(changed).params == pytest.approx({"B": 0.366, "E": 28.0, "beta": 0.189}, rel=1e-4)
    by_step = cl.fit_shift(changed, against="step")
    assert by_step.r2 < 0.9999  # two schedules share the shift in S1, not in steps


def test_a_logarithm_is_said_to_be_one():
    x = np.linspace(0.01, 1.0, 50)
    found = cl.fit_shift(pd.DataFrame({"s1_cpt": x, "shift": 0.03 * np.log1p(100 * x)}))
    assert found.findings[0].code == "degenerate-shift"
    assert found.params["B"] * found.params["beta"] == pytest.approx(0.03, rel=0.05)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: cl.shift_of_runs(table(), "source", "onn", RUNS), "control='onn': no such run"),
        (lambda: cl.shift_of_runs(table(), "source", 3, RUNS), "Expected the id of a run"),
        (lambda: cl.shift_of_runs(table(), "source", "on", {"on": RUNS["on"]}), "no learning-rate schedule"),
        (
            lambda: cl.shift_of_runs(table(), "source", "on", RUNS, where='run != "on" or step < 2000'),
            "control run 'on' has losses from step 20 to 1980",
        ),
        (lambda: cl.fit_shift(pd.DataFrame({"s1_cpt": [1.0], "shift": [0.1]})), "expected more than 3"),
        (lambda: cl.fit_shift(pd.DataFrame({"step": [1.0]})), "no column 's1_cpt'"),
        (lambda: cl.fit_shift(pd.DataFrame(), form="powr"), "did you mean"),
    ],
)
def test_what_is_wrong_is_said(ask, says):
    with pytest.raises((DataError, UsageError), match=f"(?i){says}"):
        ask()


def three_losses(spread, noise=0.0):
    rng, parts = np.random.default_rng(0), []
    for k in range(4):
        step = np.arange(100, 3001, 100)
        source = 2.5 + spread * (0.2 + 0.1 * k) * np.log1p(step / 500)
        target = 2.4 - spread * 0.3 * np.log1p(step / 100)
        other = 0.385 * target + 0.622 * source + noise * rng.standard_normal(len(step))
        for name, loss in (("source", source), ("target", target), ("slimpajama", other)):
            parts.append(pd.DataFrame({"run": f"r{k}", "step": step, "eval": name, "loss": loss}))
    return pd.concat(parts, ignore_index=True)


def test_a_third_corpus_is_a_combination():
    found = cl.fit_out_of_domain(three_losses(1.0, noise=0.002), "slimpajama")
    assert found.target_share == pytest.approx(0.385, abs=4 * found.target_share_sd + 1e-3)
    assert found.source_share == pytest.approx(0.622, abs=4 * found.source_share_sd + 1e-3)
    assert found.predict([2.0], [3.0])[0] == pytest.approx(0.385 * 2 + 0.622 * 3, abs=0.01)
    assert (found.n_points, found.n_runs, found.findings) == (120, 4, ())


def test_losses_that_move_together_are_said_to_be_ill_conditioned():
    found = cl.fit_out_of_domain(three_losses(0.002, noise=0.01), "slimpajama")
    assert found.findings[0].code == "ill-conditioned"
    assert found.predict([2.4], [2.5])[0] == pytest.approx(0.385 * 2.4 + 0.622 * 2.5, abs=0.005)  # what is determined
    assert found.condition > 100
    with refused(UsageError, "on='target'"):
        cl.fit_out_of_domain(three_losses(1.0), "target")


@pytest.mark.skipif(not PUBLIC.exists(), reason=f"the public data are not at {PUBLIC}")
def test_real_evals_as_combinations():
    """Pythia-70M from the Pile to Python (replay 12.5 to 50 %): prose goes with the Pile, other code is its own."""
    names = {"run_id": "run", "domain": "eval", "replay_ratio": "replay"}
    rows = pd.read_csv(PUBLIC / "mixlaws_ct_pythia70m.csv").rename(columns=names)
    rows = cl.read_runs(rows[rows["step"] > 0], source_eval="PILE_weighted", target_eval="python")
    found = {name: cl.fit_out_of_domain(rows, name) for name in ("Github", "Wikipedia_en", "ArXiv")}
    assert found["Wikipedia_en"].r2 > 0.99
    assert found["Wikipedia_en"].left_out_rmse < 0.003
    assert found["ArXiv"].left_out_rmse < 0.004
    assert found["Github"].r2 < 0.9  # code of all languages is no combination of the two: the form is not universal
