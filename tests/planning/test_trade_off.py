"""Best replay at given tokens, with limited target data, and the crossing of measured losses."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused
from planning_fits import DCPT_SOURCE, DCPT_TARGET, FORM_1, FORM_3, MODEL, SOURCE_1, made_fit
from scipy.optimize import brentq

import cptlaw as cl
from cptlaw.cli import main

MONOTONE = DCPT_TARGET | {"C": 1.0}  # a loss that falls with the share of the own corpus


@pytest.fixture(scope="module")
def pair():
    return made_fit("dcpt-l3", MONOTONE, "target"), made_fit("dcpt-l3", MONOTONE | {"E": 1.4}, "source")


def loss(fit, replay, tokens):
    frame = pd.DataFrame({**MODEL, "replay": np.atleast_1d(replay), "tokens": tokens})
    return fit.law.predict(fit.params, frame, fit.role)


def trade(pair, **options):
    return cl.plan.trade_off(*pair, **{**MODEL, "tokens": "10B", "interval": None, **options})


def test_monotone_case_is_the_root(pair):
    base = float(loss(pair[1], 0.25, 10e9)[0]) / 1.03
    found = trade(pair, max_forgetting="3%", base_source_loss=base)
    root = brentq(lambda r: loss(pair[1], r, 10e9)[0] - base * 1.03, 0.1, 0.5, xtol=1e-14)
    assert found.replay == pytest.approx(root, abs=1e-6)
    assert found.forgetting == pytest.approx(0.03, abs=1e-6)
    assert found.forgetting <= 0.03
    assert found.binding == ("max-forgetting",)
    assert found.tokens == 10e9
    assert found.target_tokens == pytest.approx((1 - root) * 10e9)


def test_against_brute_force():
    # A target law that is not monotone in replay, and a limit that does not bind.
    target = made_fit("ptpp-gated-floor", FORM_3 | {"C": 0.3, "gamma": 0.8, "B": 0.5}, "target")
    source = made_fit("ptpp-floor", SOURCE_1, "source")
    shares = np.linspace(0.1, 0.5, 400_001)
    allowed = loss(source, shares, 10e9) <= 2.02
    expected = shares[allowed][np.argmin(loss(target, shares, 10e9)[allowed])]
    found = trade((target, source), max_source_loss=2.02)
    assert found.replay == pytest.approx(expected, abs=2e-6)
    assert found.source_loss <= 2.02 + 1e-12


def test_infeasible(pair):
    found = trade(pair, max_source_loss=1.0)
    assert not found.feasible
    assert found.blocking == "max-source-loss"
    lowest = loss(pair[1], np.linspace(0.1, 0.5, 10_001), 10e9).min()
    assert found.best_reachable["source_loss"] == pytest.approx(lowest, rel=1e-6)
    assert found.feasible_from == {"max-source-loss": found.best_reachable["source_loss"]}
    assert trade(pair, max_source_loss=lowest + 1e-6).feasible
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["feasible"] is False


def test_two_limits_out_of_reach(pair):
    found = trade(pair, max_source_loss=1.0, max_forgetting=-0.5, base_source_loss=2.0)
    assert found.blocking == "max-forgetting and max-source-loss"


def test_risk():
    target = made_fit("ptpp-gated-floor", FORM_3, "target")
    source = made_fit("ptpp-floor", SOURCE_1, "source", noise=0.002)
    source = cl.fit("ptpp-floor", source.data.assign(eval="source"), on="source", starts=8, restraint="none")
    point = trade((target, source), max_source_loss=2.0)
    found = [trade((target, source), max_source_loss=2.0, risk=risk) for risk in (0.5, 0.7, 0.9)]
    shares = [plan.replay for plan in found]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(point.replay, abs=1e-6)
    assert shares[-1] > shares[0] + 1e-3
    assert point.price_of_doubt is None
    assert found[0].price_of_doubt == pytest.approx(0.0, abs=1e-6)
    assert found[-1].price_of_doubt == pytest.approx(found[-1].target_loss - point.target_loss, abs=1e-6)
    assert found[-1].price_of_doubt > 0
    assert f"{found[-1].price_of_doubt:.2g} nats" in str(found[-1])
    frame = pd.DataFrame({**MODEL, "replay": [shares[-1]], "tokens": [10e9]})
    assert source.forecast(frame, interval=0.8)["hi"].iloc[0] == pytest.approx(2.0, rel=3e-4)


def test_few_tokens_warn(pair):
    found = trade(pair, tokens="1B", max_source_loss=4.0)
    assert ("warning", "below-fitted-tokens") in [(f.severity, f.code) for f in found.findings]


def test_bad_usage(pair):
    with pytest.raises(cl.UsageError, match="needs a limit"):
        trade(pair)
    with refused(cl.UsageError, "tokens ", " 0 "):
        trade(pair, tokens=0, max_source_loss=2)
    with pytest.raises(cl.UsageError, match="needs source="):
        cl.plan.trade_off(pair[0], None, **MODEL, tokens="10B", max_source_loss=2)


def test_published_table_5():
    """T6: the crossing of the measured general losses of Que et al. 2024, table 5."""
    shares = [0.90, 0.91, 0.92, 0.924, 0.93, 0.94, 1.0]
    general = [2.9052, 2.9193, 2.9376, 2.9445, 2.9644, 2.9848, 3.4667]
    assert cl.plan.crossing(shares, general, 2.8602 * 1.03) == pytest.approx(0.92445, abs=5e-6)
    assert cl.plan.crossing(shares[::-1], general[::-1], 2.8602 * 1.03) == pytest.approx(0.92445, abs=5e-6)
    replay = [1 - share for share in shares]
    assert cl.plan.crossing(replay, general, 2.8602 * 1.03) == pytest.approx(1 - 0.92445, abs=5e-6)


@pytest.mark.parametrize(
    ("shares", "losses", "limit", "message"),
    [
        ([0.1, 0.2], [1.0, 2.0], 3.0, "do not cross"),
        ([0.1, 0.2], [1.0, 2.0], 0.5, "do not cross"),
        ([0.1], [1.0], 0.5, "two or more"),
        ([0.1, 0.2], [1.0], 0.5, "in pairs"),
        ([0.1, 0.1], [1.0, 2.0], 1.5, "no share may occur twice"),
    ],
)
def test_crossing_refuses(shares, losses, limit, message):
    with pytest.raises(cl.DataError, match=message):
        cl.plan.crossing(shares, losses, limit)


# -- limited target data -----------------------------------------------------------------------------------------------


def limited(fit, **options):
    return cl.plan.limited_data(fit, **{**MODEL, "target_tokens": "5B", "interval": None, **options})


def dcpt_params(rng, constrained=None):
    p = {name: float(np.exp(rng.uniform(np.log(0.1), np.log(2.0)))) for name in ("E", "A", "B", "C", "alpha", "gamma")}
    p |= {"beta": rng.uniform(0.1, 1.0), "eta": rng.uniform(1.05, 3.0), "eps": rng.uniform(0.02, 0.5)}
    if constrained is not None:
        least = p["B"] * p["eta"] * (1 + p["eps"]) ** (p["gamma"] + 1) / (p["gamma"] * constrained ** p["beta"])
        p["C"] = least * float(np.exp(rng.exponential(0.3)))
    return p


def bound(p):
    """Target tokens, in billions, below which an interior optimum exists (section 4.7 of the specification)."""
    inner = p["B"] * (p["eta"] + p["beta"]) * (1 + p["eps"]) ** (p["gamma"] + 1) / (p["gamma"] * p["C"])
    return inner ** (1 / p["beta"])


def test_interior_optimum_exists_exactly_below_the_bound():
    rng = np.random.default_rng(11)
    for _ in range(12):
        p = dcpt_params(rng)
        edge = bound(p)
        if not 1e-3 < edge < 1e4:
            continue
        fit = made_fit("dcpt-l3", p, "target")
        below = limited(fit, target_tokens=edge * 0.9 * 1e9)
        above = limited(fit, target_tokens=edge * 1.1 * 1e9)
        assert below.replay > 0
        assert above.replay == 0
        assert "no-interior-optimum" in [finding.code for finding in above.findings]


def test_optimum_against_brute_force():
    p = DCPT_TARGET | {"C": 0.05, "eta": 1.3}
    fit = made_fit("dcpt-l3", p, "target")
    found = limited(fit)
    shares = np.linspace(0, 0.95, 400_001)
    values = loss(fit, shares, 5e9 / (1 - shares))
    assert found.target_loss <= values.min() * (1 + 1e-9)
    assert found.replay == pytest.approx(shares[np.argmin(values)], abs=1e-4)
    assert 0 < found.replay < 0.95
    assert found.target_tokens == pytest.approx(5e9)


def test_published_constraint_rules_out_the_published_optimum():
    """Under C >= C0(D_min) the bound never exceeds e D_min, 0.356 B, while the published case has 5 B (laws 4.7)."""
    rng = np.random.default_rng(4)
    draws = [bound(dcpt_params(rng, constrained=0.1311)) for _ in range(5000)]
    assert max(draws) < np.e * 0.1311
    params = dcpt_params(rng, constrained=0.1311)
    found = limited(made_fit("dcpt-l3:monotone=paper", params, "target"))
    assert found.replay == 0
    assert [(f.severity, f.code) for f in found.findings if f.code == "monotone-paper"] == [("error", "monotone-paper")]
    free = limited(made_fit("dcpt-l3", params, "target"))
    assert "monotone-paper" not in [finding.code for finding in free.findings]


def test_limited_data_with_a_limit_on_the_source():
    target = made_fit("dcpt-l3", MONOTONE, "target")
    source = made_fit("dcpt-l3", DCPT_SOURCE, "source", noise=0.002)
    free = limited(target, source=source)
    assert free.source_loss is not None
    bound_loss = free.source_loss * 0.95
    kept = limited(target, source=source, max_source_loss=bound_loss)
    assert kept.binding == ("max-source-loss",)
    assert kept.replay > free.replay
    sure = limited(target, source=source, max_source_loss=bound_loss, risk=0.9)
    assert sure.replay > kept.replay
    assert sure.price_of_doubt == pytest.approx(sure.target_loss - kept.target_loss, abs=1e-6)
    none = limited(target, source=source, max_source_loss=1.0)
    assert none.blocking == "max-source-loss"


def test_law_that_wants_replay_without_end():
    found = limited(made_fit("ptpp-floor", FORM_1 | {"nu": 0.01, "C": 0.3}, "target", replay=(0.1, 0.5)))
    assert found.replay == pytest.approx(0.95)
    assert "at-max-replay" in [finding.code for finding in found.findings]
    assert any("replay" in f.message for f in found.findings if f.code == "extrapolation")


def test_limited_data_bad_usage():
    fit = made_fit("dcpt-l3", DCPT_TARGET, "target")
    for options, message in (
        ({"target_tokens": "none"}, "not a number"),
        ({"max_replay": 1}, "at replay 1"),
        ({"max_source_loss": 2}, "needs source="),
        ({"risk": 0.9}, "no limit was given"),
    ):
        with pytest.raises(cl.UsageError, match=message):
            limited(fit, **options)
    chinchilla = made_fit("chinchilla", {"E": 1.7, "A": 400.0, "alpha": 0.34, "B": 400.0, "beta": 0.28}, "target")
    with pytest.raises(cl.UsageError, match="does not read"):
        limited(chinchilla)


def test_real_runs():
    runs = cl.examples.load("en-fr-pilot")
    where = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    target, source = (cl.fit("ptpp-floor", runs, on=on, where=where, restraint="none") for on in ("target", "source"))
    model = {"n_params": 124672, "ptpp": 279}
    found = cl.plan.trade_off(target, source, **model, tokens="500K", max_forgetting="20%")
    assert found.forgetting == pytest.approx(0.2, abs=1e-6)
    assert found.target_loss_lo < found.target_loss < found.target_loss_hi
    small = cl.plan.limited_data(target, **model, target_tokens="500K", source=source, max_forgetting="20%")
    assert small.feasible
    assert small.forgetting <= 0.2
    assert "<table>" in small._repr_html_()


def test_laws_of_the_mix_alone_have_one_root(tmp_path, capsys):
    # Public runs at one size and one token count (mixlaws_ct_pythia70m.csv): replay is all that varies.
    path = Path(__file__).parents[3] / "shared" / "data" / "mixlaws_ct_pythia70m.csv"
    if not path.exists():
        pytest.skip(f"needs {path.name} beside the project")
    rows = pd.read_csv(path).query("role != 'source_subdomain' and step in (0, 10000)")
    table = rows.rename(columns={"run_id": "run", "replay_ratio": "replay"}).assign(
        eval=rows["role"].where(rows["role"] == "target", "source"), tokens=rows["step"] * 2.0**20
    )
    table[["run", "eval", "loss", "n_params", "tokens", "replay"]].to_csv(tmp_path / "runs.csv", index=False)
    files = {on: str(tmp_path / f"{on}.json") for on in ("target", "source")}
    for on, file in files.items():
        cl.fit("mixing", str(tmp_path / "runs.csv"), on=on, restraint="none").save(file)
    asked = ["plan", "trade-off", "--target", files["target"], "--source", files["source"], "--n-params", "70426624"]
    with pytest.raises(SystemExit) as ended:
        main([*asked, "--tokens", "10B", "--max-forgetting", "0.5%", "--json"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    source = cl.load_fit(files["source"])
    base = rows.query("role != 'target' and step == 0")["loss"].item()
    params = source.params
    root = np.log((base * 1.005 - params["c"]) / params["k"]) / params["t"]  # of c + k exp(t r)
    assert found["replay"] == pytest.approx(root, abs=1e-6)
    assert found["binding"] == ["max-forgetting"]
    assert "tokens-unread" in [finding["code"] for finding in found["findings"]]
    # Measured neighbours of the root: replay 0.125 forgets more than half a percent, replay 0.25 less.
    assert 0.125 < found["replay"] < 0.25


def test_the_budget_of_the_fitted_rows_says_which_base_model_is_meant():
    """A law that does not read ptpp, fitted at one budget: the base models measured at others are none of its."""
    rows = "replay in (0.1, 0.25, 0.5) and ptpp == 279"
    source, target = (
        cl.fit("dcpt-l3", cl.examples.load("en-fr-pilot"), on=on, where=rows, starts=4, restraint="none")
        for on in ("source", "target")
    )
    limits = {"n_params": "124672", "tokens": "2M", "max_forgetting": "30%", "interval": None}
    said, silent = (cl.plan.trade_off(target, source, **limits, **more) for more in ({"ptpp": 279}, {}))
    assert silent.base_source_loss == said.base_source_loss
    assert silent.replay == said.replay
