"""What pre-training is worth to a new corpus, and what that costs: plain formulas, and base losses from the table."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError, UsageError


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


def test_rectified_hardly_moves_at_first_and_is_a_power_later_on():
    params = {"E": 1.1, "B": 2.0, "alpha": 0.3, "beta": 0.6, "D_0": 5e6}
    expected = 1.1 + 2.0 * 0.124**-0.3 / (1.0 + (3e6 / 5e6) ** 0.6)
    assert predicted("rectified", params, n_params=1.24e8, tokens=3e6) == pytest.approx(expected, rel=1e-13)
    few, far = (
        np.diff([np.log(predicted("rectified", {**params, "E": 0.0}, n_params=1e8, tokens=d * k)) for k in (1, 2)])
        for d in (1e3, 1e14)
    )
    assert far[0] == pytest.approx(-0.6 * np.log(2), rel=1e-3)
    assert abs(few[0]) < 0.02


def test_rectified_is_the_same_law_in_samples_and_in_tokens():
    rows = [
        {
            "run": f"{n:g}",
            "eval": "target",
            "n_params": n,
            "tokens": d,
            "loss": 1.2 + 2 * (n / 1e9) ** -0.2 / (1 + d**0.3),
        }
        for n in (1e8, 4e8, 1e9)
        for d in (0, 200, 800, 3200, 12800, 51200)
    ]
    samples = pd.DataFrame(rows)
    tokens = samples.assign(tokens=100 * samples["tokens"])
    asked = pd.DataFrame({"n_params": [4e8, 4e9], "tokens": [4e5, 5e4]})
    one, other = (cl.fit("rectified", table, "target") for table in (samples, tokens))
    assert other.predict(asked.assign(tokens=100 * asked["tokens"])) == pytest.approx(one.predict(asked), rel=1e-6)


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
    fit = cl.fit("forgetting", table, on="source", restraint="none")
    assert {name: fit.params[name] for name in truth} == pytest.approx(truth, rel=0.02)
    asked = {"n_params": 1.27e9, "tokens": "100M", "replay": "1%"}
    expected = 2.5 + 0.4 * 0.1**0.4 / ((1 + 300 * 0.01) * 1.27) ** 0.3
    assert fit.forecast(asked)["loss"][0] == pytest.approx(expected, rel=1e-4)
    with refused(DataError, "n_params", "8.1e+09", "base_loss"):
        fit.forecast({**asked, "n_params": "8.1B"})
    assert fit.predict({**asked, "n_params": "8.1B", "base_loss": 2.0})[0] > 2.0
    with pytest.raises(DataError, match="tokens = 0"):
        cl.fit("forgetting", table[table["tokens"] > 0], on="source", restraint="none")
    with refused(UsageError, "base_loss"):
        cl.plan.min_tokens(
            cl.given_fit("chinchilla", {"E": 1.7, "A": 400, "B": 2000, "alpha": 0.34, "beta": 0.36}, "target"),
            fit,
            n_params=1.27e9,
            max_forgetting="2%",
        )
