"""No table stops a check of the data, no check stops a fit, and no table is so wide that reading it takes minutes."""

import warnings

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.errors import DataError, FitError
from cptlaw.runs import data_errors, read_runs


def runs(sizes=(1e8, 3e8, 9e8)):
    """Two budgets, three mixes and two numbers of tokens at each size."""
    rng = np.random.default_rng(0)
    rows = []
    for size in sizes:
        for ptpp in (20.0, 100.0):
            rows.append(
                (f"base-{size}-{ptpp}", "source", size, ptpp, 0.0, np.nan, 2.0 + (1e8 / size) ** 0.3 - ptpp / 1e3)
            )
            for replay in (0.1, 0.25, 0.5):
                for tokens in (2e9, 1e10):
                    loss = 2.1 + (1e8 / size) ** 0.3 - ptpp / 1e3 - 0.1 * replay + 0.002 * rng.normal()
                    rows.append((f"{size}-{ptpp}-{replay}", "source", size, ptpp, tokens, replay, loss))
    return pd.DataFrame(rows, columns=["run", "eval", "n_params", "ptpp", "tokens", "replay", "loss"])


@pytest.mark.parametrize("sizes", [(1e8, 1e8 * (1 + 4e-6), 9e8), (1e8, 1e8 * (1 + 4e-6), 1e8 * (1 + 8e-6), 9e8)])
def test_sizes_that_print_alike_are_one(sizes):
    found = data_errors.data_errors(read_runs(runs(sizes)))
    assert {one.code for one in found} & {"check-failed", "size-out-of-line", "rising-with-size"} == set()


def test_a_check_that_fails_is_named_and_the_others_are_made(monkeypatch):
    def overflowing(*_):
        raise OverflowError("math range error")
        yield

    monkeypatch.setattr(data_errors, "outlier_runs", overflowing)
    table = runs()
    table.loc[5, "loss"] *= 3
    found = {one.code: one for one in data_errors.data_errors(read_runs(table))}
    assert found.keys() >= {"check-failed", "outlier-rows"}
    assert lacks(found["check-failed"].message, "overflowing", "OverflowError") == []


def test_base_models_alone_are_refused_by_check_as_by_fit():
    table = runs().query("tokens == 0")
    for verb in (cl.check, cl.fit):
        with refused(FitError, "'source'", "tokens"):
            verb(table)


@pytest.mark.parametrize("name", ["loss", "tokens", "n_params", "replay", "ptpp"])
def test_a_column_of_categories_holds_what_its_values_are(name):
    table = runs()
    categories = read_runs(table.astype({name: "category"}))
    assert categories.frame["loss"].tolist() == read_runs(table).frame["loss"].tolist()


def test_a_table_has_as_many_columns_as_are_read_in_seconds(tmp_path):
    wide = pd.DataFrame(np.ones((2, 5001)), columns=[f"c{i}" for i in range(5001)])
    wide.to_csv(tmp_path / "wide.csv", index=False)
    for source in (wide, tmp_path / "wide.csv"):
        with refused(DataError, "5,001", "5,000"):
            read_runs(source)


def test_what_is_given_to_a_law_is_tried_before_it_is_kept(tmp_path):
    kaplan = {"N_c": 8.8e13, "alpha_N": 0.076, "alpha_D": 0.095, "D_c": 5.4e13}
    assert cl.given_fit("kaplan", kaplan, "source").predict("n_params=1B,tokens=10B")[0] > 0
    for name, value in (("alpha_D", 0.0), ("alpha_N", -900.0), ("N_c", -1.0)):
        with warnings.catch_warnings(), refused(cl.errors.UsageError, *([name] if name != "N_c" else []), "kaplan"):
            warnings.simplefilter("error")
            cl.given_fit("kaplan", kaplan | {name: value}, "source")
