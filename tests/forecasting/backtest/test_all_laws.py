"""compare --laws all: every law that the columns allow, and no other."""

import numpy as np
import pandas as pd
import pytest
from cases import design

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.forecasting.backtest.all_laws import with_all
from cptlaw.runs import read_runs


def test_all_are_those_that_the_columns_allow():
    found = with_all(["all"], read_runs(design("ptpp-floor")), "target", None, None)
    assert {"auto", "ptpp-floor", "dcpt-l3", "chinchilla", "shared-tokens", "mix-additive"} <= set(found)
    assert not {"ptpp-base", "ptpp-oracle", "repeated", "precision", "loss-to-loss", "cpt-dynamics"} & set(found)
    few = with_all(["all", "ptpp-floor:shifted=true"], read_runs(design("ptpp-floor")), "target", None, None)
    assert few[:2] == ["ptpp-floor:shifted=true", "auto"]
    assert "ptpp-floor" not in few


@pytest.mark.dear("all laws are fitted")
def test_all_laws_are_compared():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"run": [f"r{i}" for i in range(40)], "n_params": rng.choice([1e8, 3e8, 1e9, 3e9], 40)})
    rows["tokens"] = rng.choice([2e9, 8e9, 3e10], 40)
    rows["loss"] = 1.7 + 400 / rows["n_params"] ** 0.34 + 1500 / rows["tokens"] ** 0.36
    rows["loss"] *= np.exp(2e-3 * rng.normal(size=40))
    table = cl.compare("all", rows, on="target", fit_where="n_params < 2B", test_where="n_params > 2B")
    assert {"chinchilla", "kaplan", "farseer", "auto"} <= set(table["law"])
    assert "dcpt-l3" not in set(table["law"])


def test_a_table_that_allows_none_says_so():
    with pytest.raises(UsageError, match="allow no law"):
        with_all(["all"], read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 2.1]})), "target", None, None)
