"""The laws beside the papers': plain formulas, published numbers, and what they need to know."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.errors import DataError, UsageError

# laws.md 8.5: Pythia-70M, Pile to Python, 10k steps; Pile share, Pile loss, Python loss (Ye et al. 2024).
YE = {"replay": [0.125, 0.25, 0.375, 0.5], "source": [2.926166, 2.880493, 2.857072, 2.838757]}
YE |= {"target": [1.367859, 1.386261, 1.408447, 1.430862]}
YE_BASE = 2.873368
# laws.md 8.2: domain loss at R = 100, 75, 50, 33 % by size; the fit's loss at 25 % (T5, least squares).
GU = {
    "460M": ([1.4628, 1.4844, 1.5122, 1.5387], 1.5561),
    "940M": ([1.3723, 1.3910, 1.4155, 1.4385], 1.4538),
    "1.6B": ([1.3242, 1.3416, 1.3643, 1.3854], 1.3993),
    "3.1B": ([1.2585, 1.2750, 1.2965, 1.3170], 1.3306),
}


def rows_of(on, replay, loss):
    return pd.DataFrame(
        {"run": [f"r{i}" for i in range(len(loss))], "eval": on, "loss": loss, "replay": replay, "tokens": 1e10}
    )


def predicted(name, params, **row):
    return float(cl.law(name).predict(params, row)[0])


def test_two_stage_is_its_formula():
    params = {"E": 1.2, "A": 2.0, "alpha1": 0.1, "alpha2": 0.4, "alpha3": 0.02}
    first, second = 31 * 1.4, 20.0  # billions of tokens
    expected = 1.2 + 2.0 * first**-0.1 * second ** (-0.4 + 0.02 * np.log(first))
    assert predicted("two-stage", params, n_params="1.4B", ptpp=31, tokens="20B") == pytest.approx(expected, rel=1e-13)
    # Beyond ln D1 = alpha2 / alpha3 the loss would rise with tokens; the exponent is kept positive.
    far = [predicted("two-stage", params, n_params=1e18, ptpp=1e3, tokens=tokens) for tokens in (1e9, 1e12)]
    assert far[1] <= far[0]


def test_transfer_gives_the_effective_data_of_the_paper():
    params = {"E": 1.7, "A": 400.0, "B": 2000.0, "alpha": 0.34, "beta": 0.36, "k": 1.9e4, "a": 0.18, "b": 0.38}
    moved = 1.9e4 * 1e8**0.18 * 4e7**0.38
    expected = 1.7 + 400 / 4e7**0.34 + 2000 / (1e8 + moved) ** 0.36
    assert predicted("transfer", params, n_params=4e7, tokens=1e8) == pytest.approx(expected, rel=1e-13)


def test_forgetting_starts_at_the_base_model_and_rises():
    params = {"A": 0.05, "alpha": 0.3, "beta": 0.4, "B": 800.0}
    row = {"n_params": 1.27e9, "replay": "1%", "base_loss": 2.1}
    expected = 2.1 + 0.05 * 0.03**0.4 / ((1 + 800 * 0.01) * 1.27) ** 0.3
    assert predicted("forgetting", params, tokens=3e7, **row) == pytest.approx(expected, rel=1e-13)
    assert predicted("forgetting", params, tokens=0, **row) == 2.1


def test_forgetting_takes_base_losses_from_the_table():
    rng = np.random.default_rng(0)
    rows, truth = [], {"A": 0.4, "alpha": 0.3, "beta": 0.4, "B": 300.0}
    for size, base in ((4.1e7, 3.4), (3.3e8, 2.8), (1.27e9, 2.5)):
        rows.append({"run": f"base-{size:g}", "eval": "source", "loss": base, "n_params": size, "tokens": 0})
        for replay in (0.0, 0.001, 0.01, 0.05):
            for tokens in (3e6, 3e7, 3e8):
                rise = 0.4 * (tokens / 1e9) ** 0.4 / ((1 + 300 * replay) * size / 1e9) ** 0.3
                loss = (base + rise) * np.exp(1e-5 * rng.normal())
                row = {"run": f"{size:g}-{replay}", "eval": "source", "loss": loss, "n_params": size}
                rows.append(row | {"tokens": tokens, "replay": replay})
    table = pd.DataFrame(rows)
    fit = cl.fit("forgetting", table, on="source")
    assert {name: fit.params[name] for name in truth} == pytest.approx(truth, rel=0.02)
    asked = {"n_params": 1.27e9, "tokens": "100M", "replay": "1%"}
    expected = 2.5 + 0.4 * 0.1**0.4 / ((1 + 300 * 0.01) * 1.27) ** 0.3
    assert fit.forecast(asked)["loss"][0] == pytest.approx(expected, rel=1e-4)
    with pytest.raises(DataError, match=r"no loss of the base model at n_params 8\.1e\+09.*base_loss"):
        fit.forecast({**asked, "n_params": "8.1B"})
    assert fit.predict({**asked, "n_params": "8.1B", "base_loss": 2.0})[0] > 2.0
    with pytest.raises(DataError, match="tokens = 0"):
        cl.fit("forgetting", table[table["tokens"] > 0], on="source")
    with pytest.raises(UsageError, match="a plan needs a law of tokens"):
        cl.plan.min_tokens(
            cl.given_fit("chinchilla", {"E": 1.7, "A": 400, "B": 2000, "alpha": 0.34, "beta": 0.36}, "target"),
            fit,
            n_params=1.27e9,
            max_forgetting="2%",
        )


def test_the_mixing_law_finds_the_critical_share_of_ye():
    """T4 of laws.md 9.1: critical Pile share .2862 and 2.87361 at .28515625 with the paper's c; measured: 2.87207."""
    share, asked = np.linspace(0.25, 0.32, 7001), {"replay": [0.28515625]}
    source = rows_of("source", YE["replay"], YE["source"])
    as_published = cl.fit("mixing", source, on="source", fix={"c": 2.810341})
    critical = share[np.abs(as_published.predict({"replay": share}) - YE_BASE).argmin()]
    assert critical == pytest.approx(0.28619, abs=2e-4)
    assert as_published.predict(asked)[0] == pytest.approx(2.87361, abs=3e-4)
    # The paper takes c from a correlation; fitted with the rest it comes closer to the loss that was measured there.
    free = cl.fit("mixing", source, on="source")
    assert free.objective <= as_published.objective
    assert free.predict(asked)[0] == pytest.approx(2.87207, abs=1e-3)
    target = cl.fit("mixing", rows_of("target", YE["replay"], YE["target"]), on="target")
    assert target.predict(asked)[0] == pytest.approx(1.39326, abs=1e-3)
    assert predicted("mixing", {"c": 2.81, "k": 0.18, "t": -3.74}, replay=0.3) == pytest.approx(
        2.81 + 0.18 * np.exp(-1.122)
    )


@pytest.mark.parametrize("size", GU)
def test_cmr_repeats_the_domain_losses_of_gu(size):
    """T5 of laws.md 9.1, with 33 % read as 1/3."""
    losses, expected = GU[size]
    fit = cl.fit("cmr", rows_of("target", [0, 0.25, 0.5, 2 / 3], losses), on="target")
    assert fit.predict({"replay": [0.75]})[0] == pytest.approx(expected, abs=2e-4)


def test_cmr_rises_for_the_source_and_falls_for_the_target():
    params = {"beta": 1.2, "alpha": 0.4, "s": 0.5}
    share = 0.36  # of the target corpus
    source = predicted("cmr", params, replay=[0.64], eval="source")
    target = predicted("cmr", params, replay=[0.64], eval="target")
    assert source == pytest.approx(1.2 + 0.4 * share**0.5)
    assert target == pytest.approx(1.2 + 0.4 * (1 - share**0.5))
