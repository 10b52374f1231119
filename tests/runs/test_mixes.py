"""Shares of k corpora in a table: columns, mappings, sums, and what they are called."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.runs.points import as_points, point

BASE = {"run": ["a", "b"], "loss": [2.0, 3.0]}


def test_a_column_for_each_corpus():
    runs = cl.read_runs(pd.DataFrame(BASE | {"mix_code": ["30%", 0.2], "mix_Pile-CC": [0.7, 0.8]}))
    assert runs.corpora == ("code", "Pile_CC")
    assert runs.frame["mix_code"].tolist() == pytest.approx([0.3, 0.2])
    assert ("mix", "2 mixes of 2 corpora: code, Pile_CC") in runs.lines


def test_a_column_of_mappings_is_the_same():
    shares = ['{"code": 0.3, "web": "70%"}', {"code": 0.2, "web": 0.8}]
    runs = cl.read_runs(pd.DataFrame(BASE | {"mix": shares}))
    columns = cl.read_runs(pd.DataFrame(BASE | {"mix_code": [0.3, 0.2], "mix_web": [0.7, 0.8]}))
    pd.testing.assert_frame_equal(runs.frame[["mix_code", "mix_web"]], columns.frame[["mix_code", "mix_web"]])
    assert runs.fingerprint == columns.fingerprint


def test_other_names_are_given_and_names_of_mixes_are_no_shares():
    frame = pd.DataFrame(BASE | {"w_a": [0.5, 0.1], "w_b": [0.5, 0.9], "mix_id": [7, 8]})
    runs = cl.read_runs(frame, columns={"mix_a": "w_a", "mix_b": "w_b"})
    assert runs.corpora == ("a", "b")
    assert cl.read_runs(frame).corpora == ()
    assert runs.fingerprint != cl.read_runs(frame).fingerprint


def test_an_empty_share_beside_others_is_zero_and_a_row_without_any_stays_so():
    runs = cl.read_runs(pd.DataFrame(BASE | {"mix_a": [1.0, np.nan], "mix_b": [np.nan, np.nan]}))
    assert runs.frame["mix_b"].tolist()[0] == 0.0
    assert runs.frame[["mix_a", "mix_b"]].iloc[1].isna().all()


def test_rounded_shares_are_divided_by_their_sum():
    runs = cl.read_runs(pd.DataFrame(BASE | {"mix_a": [0.333, 0.5], "mix_b": [0.333, 0.25], "mix_c": [0.333, 0.25]}))
    assert runs.frame[["mix_a", "mix_b", "mix_c"]].sum(axis=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-15)
    assert any("sum" in note for note in runs.notes)


def test_a_mix_of_source_and_target_gives_replay():
    runs = cl.read_runs(pd.DataFrame(BASE | {"mix_source": [0.3, 0.2], "mix_target": [0.7, 0.8]}))
    assert runs.frame["replay"].tolist() == pytest.approx([0.3, 0.2])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"mix_a": [0.5, 0.2], "mix_b": [0.5, 0.3]}, r"row 1, the shares of a, b: found a sum of 0\.5"),
        ({"mix_a": [50, 20], "mix_b": [50, 80]}, r"number from 0 to 1 \(share of the corpus a in the mix\)"),
        ({"mix": ["code 30", '{"a": 1}']}, "a mapping from corpora to shares"),
    ],
)
def test_what_is_wrong_with_shares(columns, words):
    with pytest.raises(DataError, match=words):
        cl.read_runs(pd.DataFrame(BASE | columns))


def test_points_of_a_mix():
    asked = as_points({"mix_a": "30%", "mix_b": [0.7]})
    assert asked.iloc[0].to_dict() == {"mix_a": 0.3, "mix_b": 0.7}
    assert point("mix_a=40%,mix_b=0.6,n_params=1B")["mix_a"][0] == 0.4
    with pytest.raises(DataError, match=r"a sum of 0\.9"):
        point("mix_a=40%,mix_b=0.5")


@pytest.mark.parametrize("cell", ['{"a":' * 100_000, "[" * 100_000, '{"a": 1' + "0" * 5000 + "}", '{"a": [1]}', '"x"'])
def test_a_mix_that_is_no_mapping_is_refused_in_one_short_message(cell):
    frame = pd.DataFrame({"run": ["a"], "eval": ["target"], "loss": [2.0], "n_params": [1e6], "tokens": [1e7]})
    with pytest.raises(DataError, match="mix") as caught:
        cl.read_runs(frame.assign(mix=[cell]))
    assert len(str(caught.value)) < 500
