"""What is read of fitted rows once, and kept while they live."""

import gc

import numpy as np
import pandas as pd

from cptlaw.fitting import cached
from cptlaw.fitting.checking.distance import DIRECTIONS, outside, reach


def rows(tokens):
    return pd.DataFrame({"n_params": 1e8, "tokens": tokens})


def test_facts_are_read_once_and_die_with_their_rows():
    gc.collect()  # rows that other tests let go
    before = len(cached._STATS)
    fitted, read = rows([1e9, 4e9]), []
    for _ in range(3):
        assert cached.cached_stat(fitted, "asked", lambda: read.append(1) or 7) == 7
    assert read == [1]
    assert len(cached._STATS) == before + 1
    del fitted
    gc.collect()
    assert len(cached._STATS) == before


def test_other_rows_have_other_facts():
    tokens = next(one for one in DIRECTIONS if one.name == "tokens")
    for high in (4e9, 8e9):
        np.testing.assert_allclose(reach(rows([1e9, high]), tokens), np.log([1e9, high]))


def test_columns_of_numbers_lie_where_rows_do():
    fitted, asked = rows([1e9, 4e9]), rows([0.5e9, 2e9, 16e9])
    columns = {name: asked[name].to_numpy() for name in asked}
    found = outside(fitted, columns, DIRECTIONS[:4])
    np.testing.assert_array_equal(found, outside(fitted, asked, DIRECTIONS[:4]))
    np.testing.assert_allclose(found[:, 1], [-np.log(2), 0.0, np.log(4)])
