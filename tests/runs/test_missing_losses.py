"""A table whose columns have names that nobody has listed: everything that is open is asked in one message."""

import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError

TABLE = pd.DataFrame(
    {
        "name": list("abcdef"),
        "N": "1.5B",
        "D_cpt": ["1B", "2B", "4B"] * 2,
        "mix_old": [0.05] * 3 + [0.2] * 3,
        "val_old": [2.10, 2.13, 2.16, 2.04, 2.06, 2.08],
        "val_new": [1.80, 1.74, 1.68, 1.83, 1.77, 1.71],
    }
)


def test_everything_that_is_open_is_asked_at_once():
    reading = cl.read(TABLE)
    assert [one.choices[0] for one in reading.open] == [
        "--losses source=val_old,target=val_new",
        "replay=mix_old",
        "tokens=D_cpt",
    ]
    assert reading.open[1].choices == ("replay=mix_old", "replay=1-mix_old")
    assert not reading.understood


def test_the_first_choices_together_read_the_table():
    runs = cl.read_runs(
        TABLE,
        losses={"source": "val_old", "target": "val_new"},
        columns={"replay": "mix_old", "tokens": "D_cpt", "ignore": ["name"]},
    )
    assert runs.evals == ("source", "target")
    assert sorted(runs.frame["replay"].unique()) == [0.05, 0.2]
    assert runs.frame["tokens"].max() == 4e9
    assert cl.read(runs).understood


def test_the_share_of_one_corpus_is_asked_about_and_not_divided_by_itself():
    with refused(DataError, "'mix_old'") as raised:
        cl.read_runs(TABLE, losses={"source": "val_old", "target": "val_new"}, columns={"tokens": "D_cpt"})
    assert "replay=1-mix_old" in str(raised.value)


def test_large_numbers_are_no_differences_from_a_loss():
    with pytest.raises(DataError) as raised:
        cl.read_runs(TABLE)
    assert "2.9+" not in str(raised.value)


@pytest.mark.parametrize("name", ["lr", "seed", "epochs", "weight_decay"])
def test_settings_are_not_offered_as_losses(name):
    table = TABLE.rename(columns={"val_old": name})
    assert cl.read(table).open[0].choices[0] == "--losses target=val_new"
