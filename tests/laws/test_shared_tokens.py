"""The law without schedules that is right at both ends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.laws import law

PARAMS = {"E": 1.6, "F": 0.3, "A": 0.5, "B": 0.4, "U": 0.02, "g": 0.3, "a": 0.3, "k": 1.0, "d0": 1.0, "beta": 0.3}
PARAMS |= {"a2": 4.0, "h": 0.6, "w": -0.2, "b": 0.1}


def points(**columns: object) -> pd.DataFrame:
    given = {"n_params": 1e9, "tokens": 1e10, "replay": 0.1, "ptpp": 100.0, "lr_peak": 1e-3, "lr_pretrain": 1e-3}
    length = max(np.size(value) for value in columns.values()) if columns else 1
    return pd.DataFrame({name: np.broadcast_to(value, length) for name, value in (given | columns).items()})


VARIANTS = [
    "shared-tokens:damage=true",
    "shared-tokens:damage=true:rate=progress",
    "shared-tokens:around=100M:damage=true:rate=progress",
    "shared-tokens:bend=3:without=base+lr_pretrain+ptpp",
    "shared-tokens:without=base+lr_peak+lr_pretrain+ptpp+replay",
    "shared-tokens:rate=progress:transfer=true",
    "shared-tokens:bend=2:damage=true:transfer=true",
    "shared-tokens:mix=rehearsal:transfer=true",
    "shared-tokens:around=100M:bend=1.5:damage=true:mix=rehearsal:rate=progress",
]


def test_at_zero_tokens_it_is_the_base_model() -> None:
    frame = points(tokens=0.0, replay=[0.0, 0.3, 1.0])
    base = PARAMS["E"] + PARAMS["F"] + PARAMS["A"] * 100.0**-0.3
    for role in ("source", "target"):
        assert law("shared-tokens").predict(PARAMS, frame, role) == pytest.approx([base] * 3, rel=1e-12)


def test_replay_alone_is_more_pre_training() -> None:
    frame = points(replay=1.0)
    bare = {**PARAMS, "U": 0.0}
    more = PARAMS["E"] + PARAMS["F"] + PARAMS["A"] * 110.0**-0.3
    for role in ("source", "target"):
        assert law("shared-tokens").predict(bare, frame, role) == pytest.approx([more], rel=1e-12)


def test_source_rises_then_falls_and_grows_with_rate_and_budget() -> None:
    chosen = law("shared-tokens")
    curve = chosen.predict(
        {**PARAMS, "d0": 1e-3, "beta": 2.0, "B": 0.05}, points(tokens=np.geomspace(1e6, 1e13, 60)), "source"
    )
    top = int(curve.argmax())
    assert 0 < top < 59
    assert np.all(np.diff(curve[:top]) > 0)
    assert np.all(np.diff(curve[top:]) < 0)
    only_shift = {**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0}
    by_budget = chosen.predict(only_shift, points(ptpp=[100.0, 200.0]), "source") - PARAMS["E"]
    assert by_budget[1] / by_budget[0] == pytest.approx(2**0.1)
    by_rate = chosen.predict(only_shift, points(lr_peak=[1e-3, 5e-4]), "source") - PARAMS["E"]
    assert by_rate[1] / by_rate[0] == pytest.approx(0.5**0.6)


def test_free_of_units() -> None:
    """A unit of tokens ten times as large leaves the family of losses as it is: only k P N + D and D / (d0 N) count."""
    chosen = law("shared-tokens")
    frame = points(tokens=[1e9, 1e10, 1e11], n_params=[1e8, 1e9, 1e9])
    scaled = frame.assign(tokens=frame["tokens"] * 10, n_params=frame["n_params"] * 10)
    moved = {**PARAMS, "F": PARAMS["F"] * 10**0.3, "A": PARAMS["A"] * 10**0.3}
    assert chosen.predict(moved, scaled, "source") == pytest.approx(chosen.predict(PARAMS, frame, "source"), rel=1e-12)


def test_the_shift_may_follow_tokens_and_replay_be_worth_more_to_larger_models() -> None:
    only_shift = {**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0, "E": 0.0, "m": 1.0, "s": 0.0}
    chosen = law("shared-tokens:around=1e8")
    sizes = points(n_params=[1e8, 1e9], ptpp=100.0)
    at_one = law("shared-tokens").predict({**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0, "E": 0.0}, sizes.iloc[:1], "source")
    # At the size that d0 is stated for nothing changes; with m = 1 the same tokens shift every model alike.
    assert chosen.predict(only_shift, sizes, "source") == pytest.approx([at_one[0]] * 2, rel=1e-12)
    larger = {**only_shift, "m": 0.0, "s": 0.3}
    some, none = (
        chosen.predict(larger, points(n_params=[1e8, 1e9], tokens=[1e9, 1e10], replay=replay), "source")
        for replay in (0.1, 0.0)
    )
    assert none[0] == pytest.approx(none[1])
    assert some[1] / none[1] < some[0] / none[0]


def test_a_fit_to_two_sizes_asks_how_the_shift_goes_with_size() -> None:
    runs = cl.examples.load("docs-to-code").where("ptpp in (62, 124) and lr_schedule == 'constant' or tokens == 0")
    four = cl.fit("shared-tokens", runs, on="source", starts=2, restraint="none")
    assert four.law.around == 75000
    assert {"m", "s"} <= set(four.params)
    one = cl.fit("shared-tokens", runs, on="source", where="n_params < 40000", starts=2, restraint="none")
    assert one.law.around is None
    assert not {"m", "s"} & set(one.params)
    assert four.law.largest == runs.frame["n_params"].max()


def test_above_the_largest_size_the_gain_follows_the_tokens() -> None:
    only_shift = {**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0}
    frame = points(n_params=[5e7, 1e8, 2e8, 1e9, 1e10], ptpp=100.0)
    gains = PARAMS["E"] - law("shared-tokens:largest=1e8").predict(only_shift, frame, "target")
    assert gains[0] > gains[1]
    assert gains[2:] == pytest.approx(gains[1:4], rel=1e-12)
    at_sizes = law("shared-tokens:largest=1e8:around=1e8")
    faster = PARAMS["E"] - at_sizes.predict({**only_shift, "m": 1.3, "s": 0.0}, frame, "target")
    assert (np.diff(faster) > 0).all()
    slower = PARAMS["E"] - at_sizes.predict({**only_shift, "m": 0.6, "s": 0.0}, frame, "target")
    assert slower[2:] == pytest.approx(slower[1:4], rel=1e-12)
    # A source that shifts less at larger sizes goes on doing so.
    plain, bound = (
        law(f"shared-tokens{option}").predict(only_shift, frame, "source") for option in ("", ":largest=1e8")
    )
    assert bound == pytest.approx(plain, rel=1e-12)


def test_what_size_and_tokens_are_worth_may_not_carry_over() -> None:
    chosen = law("shared-tokens:transfer=true")
    bare = {**PARAMS, "B": 0.0, "U": 0.0, "t": 0.25}
    quality = PARAMS["F"] + PARAMS["A"] * 100.0**-0.3
    base, far = points(tokens=0.0), points(tokens=1e30, replay=0.0)
    # A base model has on the target corpus a quarter of what it has on its own; going over turns this round.
    assert chosen.predict(bare, base, "source") == pytest.approx([PARAMS["E"] + quality])
    assert chosen.predict(bare, base, "target") == pytest.approx([PARAMS["E"] + 0.25 * quality])
    assert chosen.predict(bare, far, "target") == pytest.approx([PARAMS["E"] + PARAMS["F"]], rel=1e-4)
    assert chosen.predict(bare, far, "source") == pytest.approx([PARAMS["E"] + 0.25 * PARAMS["F"]], rel=1e-4)
    for role in ("source", "target"):
        same = chosen.predict({**PARAMS, "t": 1.0}, points(), role)
        assert same == pytest.approx(law("shared-tokens").predict(PARAMS, points(), role), rel=1e-12)


def test_rehearsal_holds_the_source_loss_at_a_level_that_falls_with_the_logarithm_of_replay() -> None:
    chosen = law("shared-tokens:mix=rehearsal")
    only_shift = {**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0, "E": 0.0, "beta": 0.01}

    def shift(tokens: float, *replay: float) -> np.ndarray:
        return chosen.predict(only_shift, points(tokens=tokens, replay=list(replay)), "source")

    # Without replay there is no factor: both readings of the mix are one; with replay alone nothing shifts.
    alike = points(replay=0.0)
    plain = law("shared-tokens").predict(only_shift, alike, "source")
    assert chosen.predict(only_shift, alike, "source") == pytest.approx(plain, rel=1e-12)
    assert shift(1e11, 1.0) == pytest.approx([0.0], abs=1e-12)
    # x = D/(d0 N) = 10 at replay .1: rho = .1 / (.1 + .9 * 2.3/4).
    rho = 0.1 / (0.1 + 0.9 * 2.3 / 4.0)
    assert shift(1e10, 0.1) == pytest.approx([0.4 * (1.0 - (11.0 / (1.0 + 10.0 * rho)) ** -0.01)], rel=1e-12)
    # After many tokens each halving of a small replay costs as much as the one before, and more tokens cost nothing.
    late = shift(1e16, 0.04, 0.02, 0.01, 0.005)
    steps = np.diff(late)
    assert steps == pytest.approx(steps[0], rel=0.05)
    assert shift(1e18, 0.04) == pytest.approx(late[:1], rel=1e-3)
    forever = shift(1e18, 0.0) / shift(1e16, 0.0)
    assert forever == pytest.approx((1.0 - 1e9**-0.01) / (1.0 - 1e7**-0.01), rel=1e-6)


def test_with_rehearsal_the_gain_is_a_power_of_the_new_text() -> None:
    held = law("shared-tokens:mix=rehearsal")
    shares = points(tokens=1e10, replay=[0.0, 0.33, 0.5, 0.9, 1.0])
    of_base = {**PARAMS, "B": 0.0}
    gain = held.predict(of_base, shares, "target") - held.predict(PARAMS, shares, "target")
    power = PARAMS["a2"] / np.expm1(PARAMS["a2"])  # the slope that the factor of the mix has at no replay
    assert gain[:4] / gain[0] == pytest.approx((1.0 - np.array([0.0, 0.33, 0.5, 0.9])) ** power, rel=1e-9)
    assert gain[4] == pytest.approx(0.0, abs=1e-6 * gain[0])
    # Where replay sets in, and without it, both readings of the mix say the same.
    few = points(tokens=1e10, replay=[0.0, 1e-4])
    assert held.predict(PARAMS, few, "target") == pytest.approx(
        law("shared-tokens").predict(PARAMS, few, "target"), rel=1e-7
    )


def test_rehearsal_is_of_the_source_loss_and_of_what_the_target_pays_for_it() -> None:
    held = law("shared-tokens:mix=rehearsal")
    paid = {**PARAMS, **held.shift_of_source(PARAMS), "K": 0.5}
    damage = law("shared-tokens:damage=true:mix=rehearsal").predict(paid, points(), "target")
    damage -= held.predict(PARAMS, points(), "target")
    own = held.predict({**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0, "E": 0.0}, points(), "source")
    assert damage == pytest.approx(0.5 * own**2, rel=1e-9)


def test_rehearsal_is_no_option_of_a_table_without_replay() -> None:
    rows = points(tokens=[1e9, 1e10]).drop(columns="replay")
    assert law("shared-tokens:mix=rehearsal").for_rows(rows).mix == "factor"


def test_no_size_is_said_by_leaving_sizes_out() -> None:
    with refused(cl.UsageError, "around=none", "without=sizes"):
        law("shared-tokens:around=none")


def test_the_target_pays_for_the_damage() -> None:
    chosen = law("shared-tokens:damage=true")
    of_source = law("shared-tokens").shift_of_source(PARAMS)
    frame = points(lr_peak=[1e-4, 1e-3], replay=0.0)
    without = chosen.predict({**PARAMS, **of_source, "K": 0.0}, frame, "target")
    paid = chosen.predict({**PARAMS, **of_source, "K": 0.5}, frame, "target") - without
    bare = {**PARAMS, "F": 0.0, "A": 0.0, "U": 0.0}
    damage = law("shared-tokens").predict(bare, frame, "source") - PARAMS["E"]
    assert paid == pytest.approx(0.5 * damage**2, rel=1e-9)


def test_a_fit_reads_what_the_table_has_and_the_base_models() -> None:
    runs = cl.examples.load("docs-to-code")
    rows = "ptpp in (31, 62, 124) and n_params < 50000 and lr_schedule == 'constant' and atpp >= 1.9 or tokens == 0"
    source = cl.fit("shared-tokens", runs, on="source", where=rows, starts=4, restraint="none")
    assert source.law.spec == "shared-tokens:without=lr_pretrain:around=46000:largest=45936:longest=124"
    assert (source.data["tokens"] == 0).any()
    target = cl.fit("shared-tokens", runs, on="target", where=rows, starts=4, restraint="none")
    assert target.law.spec == "shared-tokens:damage=true:without=lr_pretrain:around=46000:largest=45936:longest=124"
    # The shift comes over with its doubt, so that the target's rows may move it a little.
    prior = target.options.restraint.priors["b_source"]
    assert prior.mean == pytest.approx(source.params["b"])
    assert abs(target.params["b_source"] - prior.mean) < prior.sd
    assert target.options.restraint.fixed["d0_source"] == pytest.approx(source.params["d0"])
    again = cl.forecast(target, "n_params=45936,tokens=300K,replay=0,ptpp=279", interval=None)
    assert np.isfinite(again["loss"]).all()


def test_beyond_the_longest_budget_the_growth_of_the_shift_fades_the_sooner_the_steeper_it_is() -> None:
    only_shift = {**PARAMS, "A": 0.0, "F": 0.0, "U": 0.0, "E": 0.0}
    frame = points(ptpp=[50.0, 100.0, 1e3, 1e5, 1e9])

    def shift(b: float, option: str = ":longest=100") -> np.ndarray:
        return np.log(law(f"shared-tokens{option}").predict({**only_shift, "b": b}, frame, "source"))

    assert shift(0.4)[:2] == pytest.approx(shift(0.4, "")[:2], rel=1e-12)
    y = np.log(10.0)
    u = 0.4**2 * y / 0.2
    grown = shift(0.4) - shift(0.4)[1]
    assert grown[2] == pytest.approx(0.4 * y * (1 - np.exp(-u)) / u, rel=1e-6)
    assert grown[4] == pytest.approx(0.2 / 0.4, rel=1e-2)  # where it ends
    slight = shift(0.05) - shift(0.05)[1]
    assert slight[2] == pytest.approx(0.05 * y, rel=0.02)
    assert shift(0.0) == pytest.approx(shift(0.0, ""), rel=1e-12)
    assert shift(-0.4)[4] > shift(-0.4, "")[4]


def test_three_falling_losses_are_not_forecast_to_rise() -> None:
    """Such series flatten; a power of the budget fitted to them had the shift outgrow the base model's gain."""
    rows = pd.DataFrame({"run": list("abc"), "eval": "source", "loss": [4.16, 3.86, 3.73]})
    rows = rows.assign(n_params=5767168.0, tokens=1e8, ptpp=[10.0, 31.6, 100.0])
    fit = cl.fit("auto", rows)
    found = fit.predict(pd.DataFrame({"n_params": 5767168.0, "tokens": 1e8, "ptpp": [316.0, 1e3, 3.16e3, 1e4]}))
    assert (np.diff(found) < 0).all()
    assert found[0] < 3.71


@pytest.mark.parametrize(("option", "name"), [("largest=1e8", "n_params"), ("longest=50", "ptpp")])
def test_derivatives_beyond_the_fitted_rows_are_exact(option: str, name: str) -> None:
    chosen, step = law(f"shared-tokens:{option}"), 1e-5
    frame = points(n_params=3e8, ptpp=200.0)
    up, down = (chosen.predict(PARAMS, frame.assign(**{name: frame[name] * (1 + k)}), "target") for k in (step, -step))
    slope = chosen.partials(PARAMS, frame, [name], "target").slopes[0]
    assert slope == pytest.approx((up - down) / (2 * step * frame[name].to_numpy()), rel=1e-5)


def test_what_every_loss_pays_for_the_raised_rate_grows_with_it() -> None:
    chosen = law("shared-tokens:raised=true")
    frame = points(lr_peak=[2e-4, 1e-3, 4e-3], replay=0.0)
    for role in ("source", "target"):
        of = [chosen.predict({**PARAMS, "U": height, "u": 0.4}, frame, role) for height in (0.0, PARAMS["U"])]
        assert (of[1] - of[0])[[0, 2]] / (of[1] - of[0])[1] == pytest.approx([0.2**0.4, 4**0.4], rel=1e-9)
        flat = chosen.predict({**PARAMS, "u": 0.0}, frame, role)
        assert flat == pytest.approx(law("shared-tokens").predict(PARAMS, frame, role), rel=1e-12)
    rows = points(tokens=[0.0, 1e9], lr_peak=[np.nan, 1e-3])
    assert "u" in chosen.for_rows(rows).shapes
    assert not chosen.for_rows(rows[rows["tokens"] > 0]).raised  # no base model was measured
    assert not chosen.for_rows(rows.drop(columns="lr_peak")).raised
