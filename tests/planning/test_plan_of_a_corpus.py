"""Plans, forecasts and reports for one corpus of a pooled fit: a corpus of the table, or a new one with a probe."""

import numpy as np
import pandas as pd
import pytest
from facts import refused
from thinned import thinned

import cptlaw as cl
from cptlaw.reporting import make_report

MODEL = {"n_params": 124_672, "tokens": 1e6}
POINT = "n_params=125K,tokens=1M,replay=20%"
PROBED = 45_000  # tokens of the probe of Python: under 1 % of those of its other runs


@pytest.fixture(scope="module")
def probed():
    """Runs on French and C, and of Python one short run."""
    frame = cl.examples.load("domains").where('not domain in ("german")').frame
    is_new = (frame["domain"] == "python") & (frame["tokens"] > 0)
    is_probe = (frame["n_params"] < 31_000) & (frame["replay"] == 0.5) & (frame["tokens"] < PROBED)
    assert frame[is_new & is_probe]["tokens"].max() < 0.01 * frame[is_new].groupby("run")["tokens"].max().sum()
    return cl.read_runs(frame[~is_new | is_probe])


@pytest.fixture(scope="module")
def fits(probed):
    return {
        "target": cl.fit("dcpt-cross-k3", probed, on="target", starts=4),
        "source": cl.fit("dcpt-cross-k1", probed, on="source", starts=4),
    }


def test_the_coefficients_are_read_where_the_probe_has_losses(fits, probed):
    law = fits["target"].law
    assert law.k3_tokens == 43_008  # the last row of the probe
    assert law.k3_tokens > law.k2_tokens >= law.k1_tokens == 21_504  # its first
    assert law.for_table(probed.on("source").frame).options() == law.options()
    measured = law.learnability(probed, on="target").set_index("domain")
    known = fits["target"].data.groupby("domain", observed=True)[["k1", "k2"]].first()
    assert measured[["k1", "k2"]].to_numpy() == pytest.approx(known.to_numpy())
    assert measured["n_runs"].tolist() == [1, 1, 1]  # the set-up of the probe, which all corpora have


def test_where_all_runs_are_long_the_published_tokens_stand():
    law = cl.law("dcpt-cross-k3")
    rows = pd.DataFrame({"run": "a", "domain": "law", "n_params": 5e8, "replay": 0.5, "tokens": [1e8, 2e9]})
    assert law.for_table(rows).options() == {}
    half = law.for_table(rows.assign(tokens=rows["tokens"] / 4))
    assert half.options() == pytest.approx({"k1_tokens": 5e7, "k2_tokens": 2.5e8, "k3_tokens": 5e8})
    given = cl.law("dcpt-cross-k3", k1_tokens=1e6)
    assert given.for_table(rows.assign(tokens=rows["tokens"] / 4)) is given


def test_a_forecast_for_a_corpus_is_that_of_rows_on_it(fits):
    target = fits["target"]
    losses = {}
    for name in ("c", "french", "python"):
        row = cl.forecast(target, POINT, domain=name).iloc[0]
        named = cl.forecast(target, f"{POINT},domain={name}").iloc[0]
        assert [row[end] for end in ("loss", "lo", "hi")] == pytest.approx([named["loss"], named["lo"], named["hi"]])
        losses[name] = row["loss"]
    assert len(set(losses.values())) == 3
    measured = cl.examples.load("domains").where('domain == "python" and eval == "target" and replay == 0.2').frame
    asked = measured[(measured["n_params"] > 1e5) & (measured["tokens"] > 5e5)]
    error = np.log(cl.forecast(target, asked[["n_params", "tokens", "replay"]], domain="python")["loss"].to_numpy())
    assert abs(np.mean(error - np.log(asked["loss"].to_numpy()))) < 0.15  # from a probe of 43K tokens


def test_plans_of_a_corpus_keep_its_losses(fits):
    target, source = fits["target"], fits["source"]
    french, python = (
        cl.plan.trade_off(target, source, **MODEL, max_forgetting="20%", domain=name) for name in ("french", "python")
    )
    assert french.replay != pytest.approx(python.replay, abs=1e-4)
    at = pd.DataFrame([{"n_params": 124_672.0, "tokens": 1e6, "replay": french.replay, "domain": "french"}])
    assert french.target_loss == pytest.approx(target.predict(at)[0], rel=1e-9)
    assert french.source_loss == pytest.approx(source.predict(at)[0], rel=1e-9)
    fewest = cl.plan.min_tokens(target, n_params=124_672, max_target_loss=1.8, domain="french", interval=None)
    again = cl.plan.min_tokens(target, n_params=124_672, max_target_loss=1.8, domain="python", interval=None)
    assert fewest.tokens != pytest.approx(again.tokens, rel=0.01)
    split = cl.plan.allocate(target, replay=0.2, budget=1e12, domain="french")
    assert split.target_loss != pytest.approx(cl.plan.allocate(target, replay=0.2, budget=1e12, domain="c").target_loss)


def test_a_corpus_that_is_not_named_or_not_there_is_refused(fits, probed):
    target, source = fits["target"], fits["source"]
    asked = {**MODEL, "max_forgetting": "20%"}
    for domain in (None, "frensh"):
        with pytest.raises(cl.UsageError, match="c, french, python"):
            cl.plan.trade_off(target, source, **asked, domain=domain)
    with pytest.raises(cl.UsageError, match="c, french, python"):
        cl.forecast(target, POINT, domain="frensh")
    with refused(cl.UsageError, "domain (--domain)", "points"):
        cl.forecast(target, f"{POINT},domain=c", domain="c")
    pooled = cl.fit("dcpt-l1", probed, on="target", starts=2)
    with refused(cl.UsageError, "domain (--domain)", "dcpt-l1", "--where"):
        cl.forecast(pooled, POINT, domain="french")


def test_a_fit_of_one_corpus_says_which(probed):
    where = 'domain == "french"'
    few = thinned(probed.where("n_params < 31000 and (replay in (0.2, 0.5) or tokens == 0)"))
    for law in ("dcpt-l1", "auto"):
        fit = cl.fit(law, few, on="target", where=where)
        assert len(cl.forecast(fit, f"{POINT},ptpp=62", domain="french")) == 1
        with pytest.raises(cl.UsageError, match=r"\(column domain\) are french\."):
            cl.forecast(fit, f"{POINT},ptpp=62", domain="python")


def test_the_command_line_and_the_report_take_a_corpus(call, tmp_path, fits, probed, monkeypatch):
    monkeypatch.setattr(make_report, "draw", lambda *_: [])
    files = {name: tmp_path / f"{name}.json" for name in fits}
    for name, fit in fits.items():
        fit.save(files[name])
    both = ["--target", str(files["target"]), "--source", str(files["source"])]
    limits = ["--n-params", "124672", "--max-target-loss", "1.7", "--max-forgetting", "30%", "--domain", "french"]
    code, out, _ = call("plan", "min-tokens", *both, *limits, "--json")
    assert code == 0
    plan = cl.plan.min_tokens(
        *fits.values(), n_params=124_672, max_target_loss=1.7, max_forgetting=0.3, domain="french"
    )
    assert f'"tokens": {plan.tokens!r}' in out
    code, out, _ = call("forecast", str(files["target"]), "--at", POINT, "--domain", "french", "--json")
    assert code == 0
    assert f'"loss": {cl.forecast(fits["target"], POINT, domain="french")["loss"].tolist()[0]!r}' in out
    page = cl.report(probed, *fits.values(), n_params=124_672, max_target_loss=1.7, max_forgetting=0.3, domain="french")
    assert page.plan.tokens == plan.tokens
    assert "--domain french" in page.commands[-1]
    shown = cl.report(probed, fits["target"], at=POINT, domain="french")
    assert shown.forecasts["loss"].iloc[0] == cl.forecast(fits["target"], POINT, domain="french")["loss"].iloc[0]


def test_a_plan_at_a_budget_at_which_the_corpus_was_never_run():
    """French at four budgets, Python at one: a plan for Python at 279, its losses as `forecast` says them."""
    domains = cl.examples.load("domains").where('domain in ("french", "python") and n_params < 80000').frame
    ladder = cl.examples.load("en-fr-ladder").where("ptpp in (15, 31, 124) and n_params < 80000 and seed == 0").frame
    rows = pd.concat([domains, ladder.assign(domain="french")], ignore_index=True).astype({"domain": object})
    rows = rows[(rows["tokens"] == 0) | (rows["lr_schedule"] == "constant")]
    fits = [
        cl.fit("dcpt-cross-k1:ptpp=floor", rows, on=on, where="tokens > 0", starts=3) for on in ("target", "source")
    ]
    model = {"n_params": 75_072, "tokens": 600_000, "ptpp": 279}
    base = {"base_source_loss": 1.7, "max_forgetting": "30%", "interval": None}
    plan = cl.plan.trade_off(*fits, **model, **base, domain="python")
    at = cl.forecast(fits[0], {**model, "replay": plan.replay}, domain="python")["loss"].iloc[0]
    assert plan.feasible
    assert plan.target_loss == pytest.approx(at, rel=1e-9)
    young = cl.plan.trade_off(*fits, **{**model, "ptpp": 31}, **base | {"base_source_loss": 2.1}, domain="python")
    assert young.target_loss > plan.target_loss + 0.05  # a younger base model ends higher
