"""The study of rate and replay finds what was put into runs."""

import numpy as np
import pandas as pd
import pytest

RATES, REPLAYS, LENGTHS = (3e-4, 1e-3, 3e-3), (0.0, 0.02, 0.1, 0.3), (1, 2, 4, 8, 16)


def made(rate=0.7, mix=-0.5, tokens=0.3, cross=0.0):
    """Return runs whose rise of the source loss is a product of powers, and the gain of the target loss too."""
    rows = [("base", "source", None, 0, None, None, 2.0), ("base:french", "target", "french", 0, None, None, 3.0)]
    for lr in RATES:
        for replay in REPLAYS:
            for per in LENGTHS:
                name, x, r = f"run-{lr:g}-{replay:g}", np.log(lr / 1e-3), np.log(max(replay, 0.005) / 0.1)
                rise = 0.1 * np.exp(rate * x + mix * r + cross * x * r) * (per / 8) ** tokens
                gain = 0.4 * np.exp(0.2 * x) * (1 - replay) ** 0.5 * (per / 8) ** 0.25
                rows.append((name, "source", "french", 1e5 * per, replay, lr, 2.0 + rise))
                rows.append((name, "target", "french", 1e5 * per, replay, lr, 3.0 - gain))
    frame = pd.DataFrame(rows, columns=["run", "eval", "domain", "tokens", "replay", "lr_peak", "loss"])
    return frame.assign(n_params=1e5, ptpp=31.0, lr_pretrain=6e-3, base="base")


def test_slopes_are_those_of_the_runs(named_study):
    script = named_study("rate_and_replay")
    found = script.outcomes(made(cross=0.05))
    assert len(found) == len(RATES) * len(REPLAYS) * len(LENGTHS)
    rows = found[found["replay"] > 0]
    assert script.slopes(rows, "rise") == pytest.approx([0.7, -0.5, 0.3, 0.05, 0.0], abs=1e-9)
    assert script.slopes(found, "gain")[:3] == pytest.approx([0.2, 0.5, 0.25], abs=1e-9)


def test_a_bootstrap_over_runs_holds_what_all_runs_agree_on(named_study):
    script = named_study("rate_and_replay")
    found = script.outcomes(made())
    value, low, high = script.over_runs(found[found["replay"] > 0], lambda rows: script.slopes(rows, "rise")[:3])
    assert low == pytest.approx(value, abs=1e-6)
    assert high == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_the_weight_of_the_rate_beside_replay_is_found(named_study, weight):
    script = named_study("rate_and_replay")
    found = script.outcomes(made())
    rows = found[(found["replay"] > 0) & (found["per"] >= 2)]
    index = np.log(rows["replay"]) - weight * np.log(rows["rate"])
    rows = rows.assign(source=2.0 - 0.1 * index + 0.01 * index**2 + 0.01 * rows["per"])
    assert script.best_kappa(rows)[0] == pytest.approx(weight)
    fitted, other = script.misfits(rows, np.array([weight, 1.5]))
    assert fitted == pytest.approx(0.0, abs=1e-12)
    assert other > 0.01


def test_a_rate_that_forgets_as_much_undoes_what_replay_does(named_study):
    script = named_study("rate_and_replay")
    line = script.pairs(script.outcomes(made(rate=0.7, mix=-0.5))).set_index("replay").loc["0.1 -> 0.3"]
    assert float(line["rate times"]) == pytest.approx(3 ** (0.5 / 0.7), abs=0.01)
    assert float(line["weight of the log rate"]) == pytest.approx(0.7 / 0.5, abs=0.01)
    before, after = map(float, line["gain"].split(" -> "))
    lowest = 0.4 * 0.3**0.2 * 0.5**0.25  # at four tokens per parameter
    assert before == pytest.approx(lowest * 0.9**0.5, abs=0.001)
    assert after == pytest.approx(lowest * float(line["rate times"]) ** 0.2 * 0.7**0.5, rel=0.02)


def test_rules_hold_where_their_assumption_does(named_study):
    law = named_study("rate_and_replay_law")
    frame = made()
    (shift, rows), *others = law.tables_of(frame)
    assert (shift, others) == ("french", [])
    assert rows.loc[rows["tokens"] > 0, "tokens"].min() == 2e5
    named = rows.assign(domain="french")
    rules = law.by_rules(named, "source")
    assert len(rules) == 2 * 3 * 4  # low and high rate, three other replays, four lengths
    truth = frame[frame["eval"] == "source"].set_index(["run", "tokens"])["loss"]
    measured = truth.reindex(pd.MultiIndex.from_frame(rules[["run", "tokens"]])).to_numpy()
    assert rules["product"].to_numpy() == pytest.approx(measured, rel=1e-9)
    assert np.abs(rules["sum"] / measured - 1).max() > 0.001
