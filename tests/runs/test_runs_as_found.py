"""Tables as people have them: wide ones, exports of trackers, budgets in tokens, tokens in steps."""

import pandas as pd
import pytest

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import read_runs


def test_budget_follows_from_the_tokens_of_pretraining():
    table = pd.DataFrame(
        {"run": ["a", "b"], "N": ["1B", "2B"], "pretraining_tokens": ["20B", "20B"], "loss": [2.0, 1.9]}
    )
    runs = read_runs(table)
    assert runs.frame["ptpp"].tolist() == [20.0, 10.0]
    assert "ptpp: pt_tokens / n_params" in runs.notes


def test_a_budget_that_is_given_stays():
    table = pd.DataFrame(
        {"run": ["a", "b"], "N": [1e9, 1e9], "pt_tokens": [2e10, 2e10], "ptpp": [31.0, None], "loss": [2.0, 1.9]}
    )
    assert read_runs(table).frame["ptpp"].tolist() == [31.0, 20.0]


@pytest.mark.parametrize(
    "batch", [{"batch_tokens": [1e6, 1e6]}, {"global_batch_size": ["500", "500"], "seq_length": [2000, 2000]}]
)
def test_tokens_follow_from_steps(batch):
    runs = read_runs(pd.DataFrame({"run": ["a", "a"], "step": [0, 100], "loss": [2.0, 1.9], **batch}))
    assert runs.frame["tokens"].tolist() == [0.0, 1e8]


def test_tokens_that_nothing_tells_stay_unknown():
    both = {"batch_size": [8, 8], "global_batch_size": [64, 64], "seq_len": [1024, 1024]}
    assert (
        "tokens" not in read_runs(pd.DataFrame({"run": ["a", "a"], "step": [1, 2], "loss": [2.0, 1.9], **both})).frame
    )


def wide() -> pd.DataFrame:
    return pd.DataFrame(
        {"Name": ["a", "b"], "replay": [0.1, 0.5], "eval/en_loss": [2.0, 1.9], "eval/fr_loss": ["1.5", ""]}
    )


def test_wide_table_has_a_row_per_measured_loss():
    runs = read_runs(wide(), losses={"source": "eval/en_loss", "target": "eval/fr_loss"})
    rows = runs.frame[["run", "eval", "loss", "replay"]].astype(object).to_numpy().tolist()
    assert rows == [["a", "source", 2.0, 0.1], ["a", "target", 1.5, 0.1], ["b", "source", 1.9, 0.5]]
    assert runs.frame.index.tolist() == [0, 0, 1]  # messages name the row of the file


def test_wide_table_from_a_file_names_file_row_and_column(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("run,en,fr\na,2.0,many\n")
    with pytest.raises(DataError, match=r"wide\.csv, row 2, .*'fr' in the file.*'many'"):
        read_runs(path, losses={"source": "en", "target": "fr"})


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ({"x": "eval/em_loss"}, "no column 'eval/em_loss'.*Did you mean 'eval/en_loss'"),
        ({}, "expected a mapping"),
    ],
)
def test_wide_table_refuses(losses, message):
    with pytest.raises(UsageError, match=message):
        read_runs(wide(), losses=losses)


def test_a_long_table_is_not_wide():
    table = pd.DataFrame({"run": ["a"], "eval": ["target"], "loss": [2.0], "other": [1.0]})
    with pytest.raises(UsageError, match="'eval' for eval already"):
        read_runs(table, losses={"x": "other"})


def test_a_wide_table_is_read_as_one_where_it_plainly_is():
    runs = read_runs(wide())
    assert runs.evals == ("en", "fr")
    assert any("read as evals en, fr (--losses" in note for note in runs.notes)
    with pytest.raises(DataError, match="--losses en=eval/en_loss"):  # one column may be anything
        read_runs(wide().drop(columns="eval/fr_loss"))


def test_name_is_a_run_only_where_nothing_else_is():
    table = pd.DataFrame({"Name": ["x"], "run": ["a"], "loss": [2.0]})
    assert read_runs(table).frame["run"].tolist() == ["a"]


def test_tokens_of_training_are_those_of_cpt():
    table = pd.DataFrame({"run": ["a", "a"], "train_tokens": ["0.2B", "1B"], "loss": [2.0, 1.9]})
    assert read_runs(table).frame["tokens"].tolist() == [2e8, 1e9]
