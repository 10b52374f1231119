"""Base models that stand beside their runs are rows at tokens 0, and forgetting counts from them."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.runs.base_rows import base_columns


def beside(**columns):
    """Return four runs from two base models, with the base models' source losses beside them."""
    table = pd.DataFrame(
        {
            "N": 2 * ["20M"] + 2 * ["60M"],
            "pt_tokens": 2 * [4e9] + 2 * [12e9],
            "tokens": 1e7,
            "lr_peak": [1e-4, 1e-3, 1e-4, 1e-3],
            "optimizer": ["adam", "adam", "adam", "sam"],
            "source_loss": [3.9, 4.0, 3.4, 3.5],
            "target_loss": [1.9, 1.8, 1.7, 1.6],
            "base_source_loss": [3.8, 3.8, 3.3, 3.3],
        }
    )
    return table.assign(**columns)


def test_a_base_loss_beside_losses_is_a_row_at_tokens_0_of_each_base_model():
    runs = cl.read_runs(beside())
    assert runs.evals == ("source", "target")
    base = runs.frame[runs.frame["tokens"] == 0]
    assert base[["n_params", "ptpp", "loss"]].to_numpy().tolist() == [[2e7, 200.0, 3.8], [6e7, 200.0, 3.3]]
    assert base["eval"].astype(str).tolist() == ["source", "source"]
    assert base["lr_peak"].isna().all()
    # What all runs of a base model have alike is its own too, so that a filter keeps it.
    assert base["optimizer"].astype(object).where(base["optimizer"].notna(), None).tolist() == ["adam", None]
    assert len(runs.adapted().on("target")) == 4


def test_it_is_shown_as_what_it_is():
    meanings = {one.name: one.meaning for one in cl.read(beside()).columns}
    assert meanings["base_source_loss"] == "loss of source, base model"


@pytest.mark.parametrize("name", ["base_loss", "loss_before", "initial loss"])
def test_of_a_long_table_too(name):
    table = beside().drop(columns=["target_loss", "base_source_loss"]).rename(columns={"source_loss": "loss"})
    runs = cl.read_runs(table.assign(**{name: [3.8, 3.8, 3.3, 3.3], "eval": "source"}))
    assert runs.base_losses("source")["loss"].tolist() == [3.8, 3.3]


def test_rows_at_tokens_0_that_are_there_count_alone():
    table = beside(tokens=[0, 1e7, 0, 1e7])
    assert len(cl.read_runs(table)) == 8


def test_a_base_models_loss_on_each_corpus_keeps_it():
    table = beside(domain=["law", "code", "law", "code"], base_target_loss=[2.9, 3.1, 2.7, 3.0])
    base = cl.read_runs(table).base_losses("target")
    assert base[["domain", "loss"]].astype({"domain": str}).to_numpy().tolist() == [
        ["code", 3.1], ["law", 2.9], ["code", 3.0], ["law", 2.7]
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [object, "category"])
def test_base_models_by_name_in_whatever_column_names_are(kind):
    # A column of categories takes no other name: a traceback.
    names, tokens = ["base", "a", "base", "b"], [np.nan, 1e7, np.nan, 1e7]
    table = pd.DataFrame({"run": pd.Series(names, dtype=kind), "tokens": tokens, "n_params": 1e6, "eval": "source"})
    runs = cl.read_runs(table.assign(loss=[3.8, 3.5, 3.3, 3.2]))
    assert runs.frame.loc[runs.frame["tokens"] == 0, "loss"].tolist() == [3.8, 3.3]
    assert runs.frame["run"].nunique() == 4


def test_names_of_other_columns_are_none():
    assert base_columns(["base_model", "base_lr", "loss_base_std"], ["loss"]) == {}


def test_the_reference_is_measured_whether_or_not_the_table_has_a_budget():
    """Of the bundled pilot, with its budgets, and one budget of it without the column."""
    frame = cl.examples.load("en-fr-pilot").frame
    one = frame[(frame["ptpp"] == 279) & (frame["n_params"] == frame["n_params"].max())].reset_index(drop=True)
    measured = one.loc[(one["tokens"] == 0) & (one["eval"] == "source"), "loss"].mean()
    size = float(one["n_params"].iloc[0])
    for table in (one, one.drop(columns="ptpp")):
        source = cl.fit("shared-tokens" if "ptpp" in table else "dcpt", cl.read_runs(table), on="source")
        target = cl.fit("shared-tokens" if "ptpp" in table else "dcpt", cl.read_runs(table), on="target")
        plan = cl.plan.trade_off(target, source, n_params=size, ptpp=279, tokens=1e6, max_forgetting=0.5)
        assert plan.base_source_loss == pytest.approx(measured, rel=1e-9)
        assert plan.reference == "measured"
    assert np.isfinite(measured)
