"""Tables of one mix, and points of base models among others."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl


def simulated(shares=(0.3,)):
    """Two losses of CPT of nine base models, whose source shifts less than its target gains."""
    rows = [
        {"n_params": size, "ptpp": budget, "replay": share, "tokens": ratio * size, "eval": name}
        for size in (1e8, 3e8, 1e9)
        for budget in (20, 60, 200)
        for share in (np.nan, *shares)
        for ratio in ((0.5, 1, 2, 4, 8, 16) if share == share else (0,))
        for name in ("source", "target")
    ]
    frame = pd.DataFrame(rows).assign(lr_peak=3e-4)
    frame["run"] = [f"{one.n_params:g}-{one.ptpp}-{one.replay:g}" for one in frame.itertuples()]
    noise = 0.004 * np.random.default_rng(0).standard_normal(len(frame))
    return frame.assign(loss=truth(frame) * np.exp(noise))


def truth(frame):
    size, tokens, share = frame["n_params"], frame["tokens"], frame["replay"].fillna(0.0)
    is_source = frame["eval"] == "source"
    common = np.where(is_source, 1.6 + 9 * size**-0.17, 1.4 + 9.9 * size**-0.17)
    common += 36 * (frame["ptpp"] * size + tokens) ** -0.2
    moved = 1 - (1 + tokens / (0.5 * size)) ** -0.5
    shift = 0.35 * 0.17 * (frame["ptpp"] / 100) ** 0.15 * moved * np.exp(-4 * share)
    gain = 0.9 * (1 - moved * (1 - np.exp(-4 * (1 - share))) / (1 - np.exp(-4)))
    return common + np.where(is_source, shift, gain)


def test_one_mix_at_one_rate_tells_no_damage_and_other_mixes_stay_in_reach():
    """What the target pays for the source's shift is one number more in its own: its factor came out as 1,700."""
    fitted = cl.fit(simulated(), on="target")
    assert not any("damage" in one.fit.law.spec for one in fitted.members)
    assert any("damage" in one.fit.law.spec for one in cl.fit(simulated((0.1, 0.5)), on="target").members)
    point = pd.DataFrame({"n_params": 1e9, "ptpp": 600.0, "tokens": 8e9, "replay": [0.0, 0.3], "lr_peak": 3e-4})
    found = fitted.forecast(point)
    measured = truth(point.assign(eval="target")).to_numpy()
    assert np.abs(found["loss"] / measured - 1).max() < 0.03
    assert ((found["lo"] < measured) & (measured < found["hi"])).all()
    assert found["findings"].iloc[0][0].code == "unseen-input"


def test_base_models_among_the_points_need_no_mix():
    fitted = cl.fit(simulated((0.1, 0.5)), on="source")
    point = {"n_params": 1e9, "ptpp": 200.0, "lr_peak": 3e-4}
    both = fitted.forecast(pd.DataFrame([{**point, "tokens": 8e9, "replay": 0.1}, {**point, "tokens": 0.0}]))
    alone = fitted.forecast(pd.DataFrame([{**point, "tokens": 0.0}]))
    assert both["loss"].iloc[1] == pytest.approx(alone["loss"].iloc[0])
    assert both["lo"].notna().all()


def test_what_sizes_tell_at_one_mix_is_not_read_along_replay():
    """Both enter a2 and s: where one mix was run, priors hold them, and other mixes stay near what studies say."""
    spreads = []
    for shares in ((0.3,), (0.1, 0.5)):
        fit = cl.fit(simulated(shares), on="target")
        spreads.append(fit.members[0].fit.options.restraint.priors)
    for name, share in (("a2", 0.5), ("s", 0.2)):
        assert spreads[0][name].sd == pytest.approx(share * spreads[1][name].sd)
        assert spreads[0][name].mean == pytest.approx(spreads[1][name].mean)
