"""The laws of the mix alone: published numbers."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl

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


def test_the_mixing_law_finds_the_critical_share_of_ye():
    """T4 of laws.md 9.1: critical Pile share .2862 and 2.87361 at .28515625 with the paper's c; measured: 2.87207."""
    share, asked = np.linspace(0.25, 0.32, 7001), {"replay": [0.28515625]}
    source = rows_of("source", YE["replay"], YE["source"])
    as_published = cl.fit("mixing", source, on="source", fix={"c": 2.810341}, restraint="none")
    critical = share[np.abs(as_published.predict({"replay": share}) - YE_BASE).argmin()]
    assert critical == pytest.approx(0.28619, abs=2e-4)
    assert as_published.predict(asked)[0] == pytest.approx(2.87361, abs=3e-4)
    # The paper takes c from a correlation; fitted with the rest it comes closer to the loss that was measured there.
    free = cl.fit("mixing", source, on="source", restraint="none")
    assert free.objective <= as_published.objective
    assert free.predict(asked)[0] == pytest.approx(2.87207, abs=1e-3)
    target = cl.fit("mixing", rows_of("target", YE["replay"], YE["target"]), on="target", restraint="none")
    assert target.predict(asked)[0] == pytest.approx(1.39326, abs=1e-3)
    assert predicted("mixing", {"c": 2.81, "k": 0.18, "t": -3.74}, replay=0.3) == pytest.approx(
        2.81 + 0.18 * np.exp(-1.122)
    )


@pytest.mark.parametrize("size", GU)
def test_cmr_repeats_the_domain_losses_of_gu(size):
    """T5 of laws.md 9.1, with 33 % read as 1/3."""
    losses, expected = GU[size]
    fit = cl.fit("cmr", rows_of("target", [0, 0.25, 0.5, 2 / 3], losses), on="target", restraint="none")
    assert fit.predict({"replay": [0.75]})[0] == pytest.approx(expected, abs=2e-4)


def test_cmr_rises_for_the_source_and_falls_for_the_target():
    params = {"beta": 1.2, "alpha": 0.4, "s": 0.5}
    share = 0.36  # of the target corpus
    source = predicted("cmr", params, replay=[0.64], eval="source")
    target = predicted("cmr", params, replay=[0.64], eval="target")
    assert source == pytest.approx(1.2 + 0.4 * share**0.5)
    assert target == pytest.approx(1.2 + 0.4 * (1 - share**0.5))
