"""What --columns says: names, values, and expressions by a small grammar that evaluates nothing as code."""

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given
from hypothesis import strategies as st

from cptlaw.errors import CptlawError, UsageError
from cptlaw.runs import read_runs
from cptlaw.runs.expressions import column_pairs, expression

TABLE = pd.DataFrame(
    {
        "run": ["a", "b", "c", "d"],
        "eval": "target",
        "loss": [2.0, 2.1, 1.9, 1.8],
        "params": ["1B", "1B", "2B", "2B"],
        "data.ja_frac": [0.9, 0.5, 0.75, 1.0],
        "mix": ["10", "50", "25", "0"],
        "btok": [1.0, 2.0, 3.0, 4.0],
        "PT/N": [20, 20, 300, 300],
        "compute": [6e18, 12e18, 12e18, 24e18],
    }
)


@pytest.mark.parametrize(
    ("column", "text", "values"),
    [
        ("replay", "1-data.ja_frac", [0.1, 0.5, 0.25, 0.0]),
        ("replay", "1 - `data.ja_frac`", [0.1, 0.5, 0.25, 0.0]),
        ("replay", "mix%", [0.1, 0.5, 0.25, 0.0]),
        ("replay", "1-mix%", [0.9, 0.5, 0.75, 1.0]),
        ("tokens", "btok:B", [1e9, 2e9, 3e9, 4e9]),
        ("tokens", "compute/(6*n_params)", [1e9, 2e9, 1e9, 2e9]),  # n_params stands in the column params
        ("tokens", "2 * btok * 1e6 + 512K", [2.512e6, 4.512e6, 6.512e6, 8.512e6]),
        ("ptpp", "PT/N", [20, 20, 300, 300]),  # the name of a column, before it is a quotient
        ("tokens", "PT/N*n_params", [20e9, 20e9, 600e9, 600e9]),
    ],
)
def test_a_column_follows_from_others(column, text, values):
    frame = read_runs(TABLE.drop(columns="mix") if "mix" not in text else TABLE, columns={column: text}).frame
    np.testing.assert_allclose(frame[column], values, rtol=1e-12)


def test_an_expression_reads_values_that_were_given():
    frame = read_runs(TABLE[["run", "loss", "compute"]], columns={"n_params": "1B", "tokens": "compute/6/n_params"})
    assert frame.frame["tokens"].tolist() == [1e9, 2e9, 2e9, 4e9]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-ja_frac", "Did you mean 'data.ja_frac'"),
        ("1-(data.ja_frac", "closing parenthesis"),
        ("1-data.ja_frac btok", "cannot be read from 'btok' on"),
        ("1-", "ends too early"),
        ("__import__('os').getcwd()", "no column"),
        ("(" * 50 + "btok" + ")" * 50, "parentheses within each other"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_columns_that_there_are(text, expected):
    with pytest.raises(UsageError, match=r"data\.ja_frac") as refused:
        read_runs(TABLE, columns={"replay": text})
    assert expected in str(refused.value)


def test_values_that_follow_are_checked_as_others_are():
    with pytest.raises(CptlawError, match="row 3, column 'replay'"):
        read_runs(TABLE, columns={"replay": "btok/3"})


def test_pairs_are_separated_by_commas():
    assert column_pairs(["replay=1-a, tokens=b:B", "run=x, y"]) == {"replay": "1-a", "tokens": "b:B", "run": "x, y"}
    with pytest.raises(UsageError, match="NAME=COLUMN"):
        column_pairs(["replay"])


def test_columns_that_are_no_setting_are_kept_and_named():
    runs = read_runs(TABLE, columns={"ignore": ["btok", "compute"]})
    assert {"btok", "compute"} <= set(runs.frame.columns)
    assert runs.accounted_for == {"btok", "compute"}
    assert runs.read_with == ("--columns", "ignore=btok", "--columns", "ignore=compute")
    with refused(UsageError, "'btok'"):
        read_runs(TABLE, columns={"ignore": "btoks"})


@given(st.text(alphabet="ab1.5-+*/%:BM()` e", max_size=30))
def test_any_text_is_a_column_an_expression_or_refused(text):
    try:
        found = expression(text, ["a", "b"])
    except UsageError:
        return
    if found is not None:
        assert set(found.names) <= {"a", "b"}
        assert found.values(lambda name: np.array([2.0, 3.0])).size in (1, 2)


@pytest.mark.parametrize("name", ["ptpp", "tpp", "base_tokens", "r", "lr_max", "replay", "fr_loss"])
def test_an_ignored_column_is_no_setting_whatever_its_name_is(name):
    """Names that are known were read all the same."""
    table = pd.DataFrame({"run": [*"abcd"], "n_params": 1e8, "tokens": [1e8, 2e8] * 2, "loss": [2.0, 1.9, 2.1, 1.8]})
    beside = table.assign(**{name: [3e9] * 4 if name == "base_tokens" else [0.1, 0.2, 0.3, 0.4]})
    if name != "fr_loss":
        assert {"ptpp", "replay", "lr_peak"} & set(read_runs(beside).frame.columns)
    for ignored in (name, [name]):
        runs = read_runs(beside, columns={"ignore": ignored})
        assert not {"ptpp", "pt_tokens", "replay", "lr_peak"} & set(runs.frame.columns)
    wide = table.rename(columns={"loss": "en_loss"}).assign(de_loss=2.0, fr_loss=1.0)
    assert read_runs(wide, columns={"ignore": "fr_loss"}).evals == ("de", "en")
