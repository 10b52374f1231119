"""Laws of loss curves: published coefficients, published metrics, and what each option changes."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

from cptlaw.errors import DataError, UsageError
from cptlaw.laws import Context, card, law
from cptlaw.schedules import Phase, Schedule, areas
from cptlaw_curves.laws.curve_law import DECAY

VARIANTS = [
    "lr-annealing:decay=fit",
    "cpt-dynamics:decay=fit",
    "cpt-dynamics:open_base=true",
    "cpt-dynamics-replay:replay_form=as_printed",
    "cpt-dynamics-replay:normalised=true",
    "cpt-dynamics-weighted:lr_power=0.2",
    "cpt-dynamics-power:decay=fit",
    "cpt-dynamics-power:open_base=true",
]

ROW = pd.DataFrame({"s1_pretrain": [8.0], "s2_pretrain": [0.05], "s1_cpt": [2.0], "s2_cpt": [0.15]})
FIGURE_3 = {
    "source": {"L0": 3.057, "A": 0.490, "alpha": 0.497, "B": 0.366, "E": 28, "beta": 0.189, "C1": 0.299, "C2": 0.298},
    "target": {
        "L0": 3.024,
        "A": 0.412,
        "alpha": 0.677,
        "B": -0.666,
        "E": 5662,
        "beta": 0.146,
        "C1": 0.278,
        "C2": 0.324,
    },
}
FIGURE_3["target"]["C2"] = 0.324
GOLDEN = {"source": 3.34891636404, "target": 2.55262082269}  # laws.md 6.4


def shift(given, area):
    """The shift as the paper prints it."""
    return given["B"] * (1 - (1 + given["E"] * area) ** -given["beta"])


@pytest.mark.parametrize("role", ["source", "target"])
def test_golden_values_of_figure_3(role):
    chosen = law("cpt-dynamics")
    assert chosen.predict(FIGURE_3[role], ROW)[0] == pytest.approx(GOLDEN[role], rel=3e-12)
    assert chosen.predict(FIGURE_3[role], ROW.assign(eval=role))[0] == pytest.approx(GOLDEN[role], rel=3e-12)
    unsigned = {**FIGURE_3[role], "B": abs(FIGURE_3[role]["B"])}
    assert chosen.predict(unsigned, ROW, role)[0] == pytest.approx(GOLDEN[role], rel=3e-12)
    without = {**FIGURE_3[role], "B": 0.0}
    alone = chosen.predict(FIGURE_3[role], ROW)[0] - chosen.predict(without, ROW)[0]
    assert alone == pytest.approx(0.195540685472 if role == "source" else shift(FIGURE_3["target"], 2.0), rel=1e-11)


def test_without_shift_and_with_one_annealing_coefficient_it_is_the_law_of_one_run():
    base = Schedule([Phase("pretrain", 900, "wsd", peak=2e-3, warmup=50, decay=300)])
    run = Schedule([*base.phases, Phase("cpt", 600, "cosine", peak=1e-3, warmup=60)])
    rows = pd.DataFrame({"run": "a", "step": range(1, 601), "eval": "source"})
    split, whole = law("cpt-dynamics"), law("lr-annealing")
    one = {"L0": 2.0, "A": 0.4, "alpha": 0.5}
    curve = split.predict(one | {"C1": 0.3, "C2": 0.3, "B": 0.0, "E": 9.0, "beta": 0.2}, split.attach(rows, {"a": run}))
    assert curve == pytest.approx(whole.predict(one | {"C": 0.3}, whole.attach(rows, {"a": run})), rel=1e-12)


def test_the_shift_is_exact_down_to_the_logarithm():
    chosen = law("cpt-dynamics")
    params = FIGURE_3["source"] | {"E": 100.0}
    rise = []
    for beta in (1e-4, 1e-8, 1e-12):
        found = params | {"beta": beta, "B": 0.029121 / beta}  # published: B = 29.121, beta = 0.001
        rise.append(chosen.predict(found, ROW)[0] - chosen.predict(found | {"B": 0.0}, ROW)[0])
    assert rise[2] == pytest.approx(0.029121 * np.log1p(200.0), rel=1e-11)
    assert rise[0] == pytest.approx(rise[2], rel=1e-3)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("source", lambda r: np.expm1(3.238 * r) / np.expm1(3.238)),
        ("target", lambda r: np.expm1(-5.696 * r) / np.expm1(-5.696)),
    ],
)
def test_replay_scales_the_shift_as_the_fits_at_single_ratios_do(role, expected):
    """laws.md 6.6: the corrected factors match figure 12 relative to figure 3; the printed ones do not."""
    params = FIGURE_3[role] | {"a1": 0.05, "a2": 3.238 if role == "source" else 5.696}
    data = {"source": [0.305, 0.19, 0.105], "target": [0.94, 0.90, 0.845]}[role]  # at r_cpt = .67, .5, .33
    share = np.array([1.0, 0.67, 0.5, 0.33, 0.0])
    rows = pd.concat([ROW] * 5, ignore_index=True).assign(replay=1 - share, eval=role)
    rise = {}
    for spec in (
        "cpt-dynamics-replay",
        "cpt-dynamics-replay:replay_form=as_printed",
        "cpt-dynamics-replay:normalised=1",
    ):
        chosen = law(spec)
        found = chosen.predict(params, rows) - chosen.predict(params | {"B": 0.0}, rows)
        rise[spec] = found / found[0]
        assert found[-1] == pytest.approx(0, abs=1e-15)
        if chosen.normalised:
            assert found[0] == pytest.approx(shift(FIGURE_3[role], 2.0), rel=1e-12)
    assert rise["cpt-dynamics-replay"] == pytest.approx(expected(share), rel=1e-12)
    assert rise["cpt-dynamics-replay"][1:4] == pytest.approx(data, abs=0.06)
    printed = rise["cpt-dynamics-replay:replay_form=as_printed"][1:4]
    assert np.abs(printed - data).max() > 0.5


def test_as_printed_the_target_loss_falls_by_156_nats():
    params = {"L0": 2.992, "A": 0.456, "alpha": 0.510, "C1": 0.285, "C2": 0.279, "B": 0.526, "E": 100.34, "beta": 1e3}
    chosen = law("cpt-dynamics-replay:replay_form=as_printed")
    rows = ROW.assign(replay=0.0, eval="target")
    params |= {"a1": 0.037, "a2": 5.696}
    fall = chosen.predict(params, rows)[0] - chosen.predict(params | {"B": 0.0}, rows)[0]
    assert fall == pytest.approx(-156, abs=0.5)


def test_rows_of_pretraining_need_no_replay():
    chosen = law("cpt-dynamics-replay")
    rows = ROW.assign(s1_cpt=0.0, s2_cpt=0.0, replay=np.nan, eval="source")
    assert np.isfinite(chosen.predict(FIGURE_3["source"] | {"a1": 0.05, "a2": 3.0}, rows)[0])
    with refused(DataError, "replay", "row"):
        chosen.predict(FIGURE_3["source"] | {"a1": 0.05, "a2": 3.0}, ROW.assign(replay=np.nan, eval="source"))


def test_size_law_in_millions():
    """laws.md 6.4, fig. 15: at 106M the floor 3.072 N^-.195 + 1.829 is the L0 of the fit at that size, 3.066."""
    params = {"L0": 1.829, "A": 0.504, "alpha": 0.537, "B": 0.278, "E": 12, "beta": 0.359, "C1": 0.090, "C2": 0.103}
    params |= {"F": 3.072, "g1": 0.235, "g2": 0.199, "g3": 0.195}
    loss = law("cpt-dynamics-size").predict(params, ROW.assign(n_params=106e6))[0]
    floor = 3.072 * 106**-0.195 + 1.829
    assert floor == pytest.approx(3.066, abs=5e-4)
    expected = floor + 0.504 * 10**-0.537 + shift(params, 2.0)
    expected -= 0.090 * 0.05 * 106**0.235 + 0.103 * 0.15 * 106**0.199
    assert loss == pytest.approx(expected, rel=1e-12)


def test_powers_of_annealing_areas_keep_their_sign():
    params = FIGURE_3["source"] | {"zeta1": 0.906, "zeta2": 0.901, "C1": 0.249, "C2": 0.240}
    chosen = law("cpt-dynamics-power")
    loss = chosen.predict(params, pd.concat([ROW, ROW.assign(s2_cpt=-0.15)]))
    assert loss[1] - loss[0] == pytest.approx(2 * 0.240 * 0.15**0.901, rel=1e-12)


def test_weighted_areas_stop_growing_where_the_rate_is_zero():
    run = Schedule.from_lr([0, 3000], [0, 0], before=Schedule([Phase("pretrain", 500, "linear", peak=2e-4)]))
    rows = pd.DataFrame({"run": "a", "step": [1, 3000]})
    plain = law("cpt-dynamics").attach(rows, {"a": run})["s2_pretrain"]
    weighted = law("cpt-dynamics-weighted").attach(rows, {"a": run})["s2_pretrain"]
    assert plain[1] > plain[0] * 1.5
    assert weighted[1] == weighted[0]


def test_an_open_base_model_has_an_area_of_its_own():
    chosen = law("cpt-dynamics:open_base=true")
    assert chosen.parameters == ("L0", "A", "C2", "B", "alpha", "E", "beta", "S1pt")
    given = {
        "L0": 2.101,
        "A": 0.326,
        "alpha": 0.241,
        "S1pt": 0.102,
        "B": -0.932,
        "E": 12.0,
        "beta": 12.195,
        "C2": 0.099,
    }
    rows = pd.DataFrame({"s1_cpt": [0.8], "s2_cpt": [-0.05], "eval": "target"})
    expected = 2.101 + 0.326 * 0.902**-0.241 + 0.099 * 0.05 - 0.932 * (1 - (1 + 12 * 0.8) ** -12.195)
    assert chosen.predict(given, rows)[0] == pytest.approx(expected, rel=1e-12)
    # The last learning rate of the base model counts as 0: the first step of CPT is a rise by the whole rate.
    run = Schedule([Phase("cpt", 100, "constant", peak=2e-5)])
    assert chosen.attach(pd.DataFrame({"run": ["a"], "step": [1]}), {"a": run})["s2_cpt"][0] == pytest.approx(-2e-5)


@pytest.mark.parametrize("decay", [0.5001, 0.9, 0.9801, 0.99, 0.9985, 0.9999])
def test_lambda_is_interpolated_to_rounding(decay):
    before = Phase("pretrain", 3000, "wsd", peak=2e-3, warmup=100, decay=800)
    run = Schedule([before, Phase("cpt", 5000, "cosine", peak=1e-3, warmup=60)])
    chosen = law("cpt-dynamics:decay=fit")
    frame = chosen.attach(pd.DataFrame({"run": "a", "step": range(0, 5001, 250), "eval": "source"}), {"a": run})
    exact = areas(run, decay).at(3000 + frame["step"].to_numpy())
    fixed = law("cpt-dynamics", decay=decay)
    given = FIGURE_3["source"] | {"C1": 1.0, "C2": 1.0}
    rows = frame[["step", "eval"]].assign(
        **{name: getattr(exact, name) for name in ("s1_pretrain", "s1_cpt", "s2_pretrain", "s2_cpt")}
    )
    assert DECAY.low < decay <= DECAY.high
    assert chosen.predict(given | {"lambda": decay}, frame) == pytest.approx(fixed.predict(given, rows), abs=1e-8)


def test_lambda_per_token_where_batches_differ():
    phases = [Phase("pretrain", 2000, "linear", peak=2e-4, tokens_per_step=4e6)]
    run = Schedule([*phases, Phase("cpt", 500, "constant", peak=2e-4, tokens_per_step=8e6)])
    rows = pd.DataFrame({"run": ["a"], "step": [500]})
    step, tokens = (law("cpt-dynamics", decay_unit=unit).attach(rows, {"a": run}) for unit in ("step", "tokens"))
    # Twice the tokens per step: the momentum of pre-training is used up in half the steps.
    assert tokens["s2_pretrain"][0] < step["s2_pretrain"][0]
    assert law(law("cpt-dynamics", decay_unit="tokens").spec).area_options["decay_unit"] == "tokens"


def test_steps_that_are_skipped_are_those_of_the_whole_schedule():
    run = Schedule([Phase("pretrain", 900, "constant", peak=1e-3), Phase("cpt", 600, "constant", peak=1e-3)])
    rows = pd.DataFrame({"run": "a", "step": [100, 800, 5, 600], "phase": ["pretrain", "pretrain", "cpt", "cpt"]})
    assert law("cpt-dynamics", skip_steps=500).rows(rows, Context(schedules={"a": run}))["step"].tolist() == [
        800,
        5,
        600,
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: law("cpt-dynamics:boundary=never"), "boundary='never'"),
        (lambda: law("lr-annealing:decay=2"), "decay=2"),
        (lambda: law("lr-annealing:skip_steps=-1"), "skip_steps=-1"),
        (lambda: law("cpt-dynamics-replay:replay_form=right"), "expected corrected or as_printed"),
        (lambda: law("cpt-dynamics").predict(FIGURE_3["source"], ROW, "other"), "--source-eval"),
        (lambda: law("cpt-dynamics-weighted:lr_power=0"), "published are 0.1 and 0.2"),
    ],
)
def test_unusable_options_are_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"run": ["b"], "step": [1]}, "run 'b' has no learning-rate schedule"),
        ({"run": ["a"], "step": [9]}, "step 9 of phase cpt lies outside"),
        ({"run": ["a"], "step": [0.5]}, "whole number of optimiser steps"),
        ({"run": ["a"], "step": [1], "phase": ["sft"]}, "expected pretrain or cpt"),
        ({"step": [1]}, "lacks 'run'"),
    ],
)
def test_rows_that_no_schedule_covers_are_named(rows, message):
    run = Schedule([Phase("cpt", 8, "constant", peak=1e-3)])
    with pytest.raises(DataError, match=message):
        law("cpt-dynamics").attach(pd.DataFrame(rows), {"a": run})


def test_card_says_whose_sign_b_has():
    assert "B with the sign of the eval's role" in card(law("cpt-dynamics"))
