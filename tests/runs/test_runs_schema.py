"""Column names: aliases, what wins over what, and what the user is told."""

import pandas as pd
import pytest
from facts import lacks, refused

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import read_runs
from cptlaw.runs.naming import missing_column, name_columns
from cptlaw.runs.schema import COLUMNS, canonical_name


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("N", "n_params"),
        ("params", "n_params"),
        ("model_size", "n_params"),
        ("non_embedding", "n_params"),
        ("D", "tokens"),
        ("cpt_tokens", "tokens"),
        ("adaptation_tokens", "tokens"),
        ("r", "replay"),
        ("replay_ratio", "replay"),
        ("replay_share", "replay"),
        ("PTPP", "ptpp"),
        ("P", "ptpp"),
        ("val_loss", "loss"),
        ("Validation Loss", "loss"),
        ("eval-loss", "loss"),
        ("run_id", "run"),
        ("Run.Name", "run"),
        ("eval_name", "eval"),
        ("validation_set", "eval"),
        ("val_set", "eval"),
        ("learning_rate", "lr"),
        ("Loss", "loss"),
        (" tokens ", "tokens"),
        ("n", None),
        ("R", None),
        ("tokens_per_param", None),
        ("pt_tokens", "pt_tokens"),
        ("size", None),
    ],
)
def test_aliases(name, canonical):
    assert canonical_name(name) == canonical


def test_no_alias_stands_for_two_columns():
    aliases = [alias for column in COLUMNS.values() for alias in column.aliases.split()]
    assert len(set(aliases) | set(COLUMNS)) == len(aliases) + len(COLUMNS)


def test_aliases_that_are_taken_are_said_once():
    naming = name_columns(["run", "N", "D", "loss"], None, "f.csv")
    assert naming.file_columns == {"run": "run", "n_params": "N", "tokens": "D", "loss": "loss"}
    (note,) = naming.notes
    assert lacks(note, "n_params from 'N'", "tokens from 'D'") == []
    assert naming.text_columns == {"run"}


def test_the_canonical_column_wins_over_an_alias():
    naming = name_columns(["n_params", "N", "loss"], None, "f.csv")
    assert naming.file_columns["n_params"] == "n_params"
    assert naming.notes == ()


def test_two_aliases_for_one_column_are_an_error_that_tells_the_way_out():
    with refused(DataError, "'N'", "'params'", "columns={'n_params': 'N'}"):
        name_columns(["N", "params", "loss"], None, "f.csv")
    assert name_columns(["N", "params", "loss"], {"n_params": "params"}, "f.csv").file_columns["n_params"] == "params"


def test_a_column_twice_in_the_header_is_an_error():
    with pytest.raises(DataError, match="'loss' appears 2 times"):
        name_columns(["loss", "run", "loss"], None, "f.csv")


def test_given_names_come_first():
    naming = name_columns(
        ["n_params", "n_params_non_embedding", "domain", "loss"],
        {"n_params": "n_params_non_embedding", "eval": "domain"},
        "f",
    )
    assert naming.file_columns == {"n_params": "n_params_non_embedding", "eval": "domain", "loss": "loss"}
    assert naming.n_params_kind == "non_embedding"
    assert naming.notes == (
        "column 'n_params' of the file is set aside: columns= reads 'n_params' from 'n_params_non_embedding'",
    )


def test_one_column_may_be_read_as_two():
    naming = name_columns(["domain", "loss"], {"eval": "domain", "domain": "domain"}, "f")
    assert naming.file_columns == {"eval": "domain", "domain": "domain", "loss": "loss"}


def test_an_alias_may_stand_on_the_left_of_columns():
    assert name_columns(["weights", "loss"], {"N": "weights"}, "f").file_columns["n_params"] == "weights"


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (["n_params"], None),
        (["non_embedding"], "non_embedding"),
        (["n_params_noembed"], "non_embedding"),
        (["n_params_non_embedding"], "non_embedding"),
        (["total_params"], "total"),
        (["n_params", "n_params_non_embedding"], None),
        (["N"], None),
    ],
)
def test_the_name_tells_the_kind_of_size(found, kind):
    naming = name_columns([*found, "loss"], None, "f")
    assert naming.file_columns["n_params"] == found[0]
    assert naming.n_params_kind == kind


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"eval": "domian"}, "no column 'domian' to read 'eval' from. Did you mean 'domain'"),
        ({"evla": "domain"}, "'evla' is not a column of a runs table. Did you mean 'eval'"),
        ({"my_loss": "loss"}, "wrong way round"),
        ({"eval": 3}, "no column '3'"),
    ],
)
def test_unusable_columns_argument(columns, message):
    with pytest.raises(UsageError, match=message):
        name_columns(["domain", "loss", "my_loss"], columns, "f.csv")


def test_columns_that_are_no_mapping_are_refused():
    with refused(UsageError, "columns=", "['eval']", "mapping"):
        read_runs(pd.DataFrame({"domain": ["a"], "loss": [2.0]}), columns=["eval"])


def test_a_missing_column_lists_what_is_there_and_what_to_do():
    message = str(missing_column("loss", ["run", "final_val_loss"], "f.csv"))
    assert "f.csv: column 'loss'" in message
    assert lacks(message, "'final_val_loss'") == []
    assert lacks(message, "'run'", "'final_val_loss'") == []
    assert "columns={'loss':" in message
    assert lacks(str(missing_column("replay", ["run", "repaly"], "f.csv")), "'repaly'") == []
    assert "header line" in str(missing_column("loss", ["run-1", "3.1"], "f.csv"))


def test_every_column_says_what_it_expects():
    for column in COLUMNS.values():
        assert column.meaning in column.expected
