"""Scores in a runs table: metrics and their names, percent, zero, several metrics of one task."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import read_runs
from cptlaw.runs.metrics import is_score, metric_name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("acc", "accuracy"),
        ("acc,none", "accuracy"),
        ("Accuracy", "accuracy"),
        ("acc_norm", "accuracy_norm"),
        ("exact_match,strict-match", "exact_match"),
        ("em", "exact_match"),
        ("pass@1", "pass@1"),
        ("pass_at_16,create_test", "pass@16"),
        ("bits_per_byte", "bpb"),
        ("nll", "loss"),
        ("eval_loss", "loss"),
        ("c4_en-validation/CrossEntropyLoss", "loss"),
        ("word_perplexity", "word_perplexity"),
    ],
)
def test_metrics_have_one_name(word, name):
    assert metric_name(word) == name
    assert metric_name(name) == name


def table(**columns):
    rows = {"run": list("abab"), "eval": ["gsm8k", "gsm8k", "target", "target"], "n_params": 1e9, "tokens": 1e9}
    return pd.DataFrame({**rows, "metric": ["exact_match", "exact_match", None, None], **columns})


def test_a_score_may_be_zero_and_a_loss_may_not():
    runs = read_runs(table(value=[0.0, 0.25, 2.5, 2.4], n_items=1319, chance=0))
    assert runs.scores == {"gsm8k": "exact_match"}
    assert runs.on("gsm8k").frame["loss"].tolist() == [0.0, 0.25]
    assert runs.on("gsm8k").frame["n_items"].tolist() == [1319.0, 1319.0]
    assert ("scores", "0% to 25%") in runs.lines
    with pytest.raises(DataError, match="row 2, column 'loss'"):
        read_runs(table(loss=[0.0, 0.25, 0.0, 2.4]))


def test_percent_is_understood_and_said():
    runs = read_runs(table(loss=[0.6, 12.5, 2.5, 2.4]))
    assert runs.on("gsm8k").frame["loss"].tolist() == [0.006, 0.125]
    assert any("percent" in note for note in runs.notes)
    signed = read_runs(table(loss=["0.6%", "12.5%", "2.5", "2.4"]))
    assert signed.on("gsm8k").frame["loss"].tolist() == [0.006, 0.125]
    with pytest.raises(DataError, match="0 to 100"):
        read_runs(table(loss=[101.0, 12.5, 2.5, 2.4]))


def test_a_unit_that_may_be_either_is_refused():
    rows = table(loss=[0.6, 12.5, 0.4, 0.2], metric="accuracy")
    with refused(DataError, "'gsm8k'", "0.6%", "0.006"):
        read_runs(rows)
    assert read_runs(rows.assign(loss=["0.6%", "12.5%", 0.4, 0.2])).frame["loss"].tolist() == [0.006, 0.125, 0.4, 0.2]


def test_several_metrics_of_a_task_are_evals_of_their_own():
    rows = table(loss=[0.1, 0.2, 1.2, 1.1]).assign(eval="gsm8k", metric=["em", "em", "bpb", "bpb"])
    runs = read_runs(rows)
    assert runs.evals == ("gsm8k", "gsm8k:bpb")
    assert runs.scores == {"gsm8k": "exact_match"}
    assert any("told apart" in note for note in runs.notes)


def test_tables_of_losses_are_as_they_were():
    losses = table(loss=[2.5, 2.4, 2.3, 2.2]).drop(columns="metric")
    assert read_runs(losses).fingerprint == read_runs(losses.assign(metric=None)).fingerprint
    assert read_runs(losses).scores == {}
    assert not is_score("loss")


def test_a_wide_table_with_scores():
    wide = pd.DataFrame({"run": ["a", "b"], "ce": [2.5, 2.4], "acc": [0.0, 0.4], "bpb_gsm": [1.2, 1.1]})
    runs = read_runs(wide, losses={"target": "ce", "gsm8k_bpb": "bpb_gsm"}, scores={"gsm8k": "acc"})
    assert runs.scores == {"gsm8k": "accuracy"}
    assert set(runs.on("gsm8k_bpb").frame["metric"]) == {"nats_per_byte"}
    assert runs.on("gsm8k_bpb").frame["loss"].tolist() == pytest.approx([1.2 * np.log(2), 1.1 * np.log(2)])
    assert len(runs) == 6
    with pytest.raises(UsageError, match="no column 'ac'"):
        read_runs(wide, scores={"gsm8k": "ac"})


@pytest.mark.parametrize("slip", [1.2, 55.0])
def test_one_score_above_one_does_not_turn_the_others_into_percent(slip):
    rows = {"run": list("abcdef"), "eval": "gsm8k", "metric": "accuracy", "n_params": 1e9, "tokens": 1e9}
    with refused(DataError, "'gsm8k'", "1 of 6", f"{slip:g}"):
        read_runs(pd.DataFrame({**rows, "value": [0.5, 0.55, 0.6, slip, 0.62, 0.7]}))
    percent = read_runs(pd.DataFrame({**rows, "value": [0.0, 0.9, 2.0, 3.0, 5.0, 8.0]}))
    assert percent.frame["loss"].tolist() == pytest.approx([0.0, 0.009, 0.02, 0.03, 0.05, 0.08])


def test_guessing_reaches_less_than_all_questions():
    with refused(DataError, "'chance'", "0.99"):
        read_runs(table(value=[0.0, 0.25, 2.5, 2.4], n_items=1319, chance=1.0))


def test_columns_of_losses_are_read_beside_named_scores():
    wide = pd.DataFrame({"run": list("abc"), "n_params": 1e9, "tokens": [1e9, 2e9, 3e9], "gsm": [0.1, 0.2, 0.3]})
    wide = wide.assign(source_loss=2.0, target_loss=[1.9, 1.8, 1.7])
    runs = read_runs(wide, scores={"gsm8k": "gsm"})
    assert set(runs.evals) == {"source", "target", "gsm8k"}
    assert runs.on("target").frame["loss"].tolist() == [1.9, 1.8, 1.7]


@pytest.mark.parametrize(
    ("metric", "advice"),
    [
        ("perplexity", "logarithm as a loss"),
        ("pass@k", "pass@10"),
        ("pass@0", "leave these rows out"),
        ("bleu", "pass@K"),
    ],
)
def test_a_metric_that_is_not_known_is_refused(metric, advice):
    with pytest.raises(DataError, match=f"2 rows: row 0 has '{metric}'.*exact_match") as caught:
        read_runs(table(loss=[0.1, 0.2, 2.5, 2.4], metric=[metric, metric, None, None]))
    assert advice in str(caught.value)


@pytest.mark.parametrize("items", [0, -3, 1319.5, "many"])
def test_items_are_whole_and_more_than_none(items):
    with pytest.raises(DataError, match="column 'n_items'"):
        read_runs(table(loss=[0.1, 0.2, 2.5, 2.4], n_items=items))


def test_a_chance_in_percent_is_refused_with_advice():
    with pytest.raises(DataError, match=r"write 25% or 0\.25"):
        read_runs(table(loss=[0.3, 0.4, 2.5, 2.4], chance=25))
    assert read_runs(table(loss=[0.3, 0.4, 2.5, 2.4], chance="25%")).on("gsm8k").frame["chance"].tolist() == [0.25] * 2


def test_scores_in_a_column_of_values_beside_the_losses():
    both = table(loss=[None, None, 2.5, 2.4], value=["10%", "20%", None, None])
    runs = read_runs(both)
    assert runs.on("gsm8k").frame["loss"].tolist() == [0.1, 0.2]
    assert runs.on("target").frame["loss"].tolist() == [2.5, 2.4]
    assert any("read from 'value'" in note for note in runs.notes)
    with pytest.raises(DataError, match="column 'loss'"):  # a loss that is missing stays missing
        read_runs(both.assign(loss=[None, None, 2.5, None]))
