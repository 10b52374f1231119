from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cptlaw_sweep.mix import DataMix, Part, shuffled_position


@given(size=st.integers(1, 3000), key=st.integers(0, 2**64 - 1))
def test_a_shuffle_visits_every_window_once(size, key):
    order = shuffled_position(np.arange(size), size, np.full(size, key, dtype=np.uint64))
    assert sorted(order.tolist()) == list(range(size))


def test_shuffles_of_other_keys_are_other_orders_and_far_from_sorted():
    a, b = (shuffled_position(np.arange(1000), 1000, np.full(1000, key, dtype=np.uint64)) for key in (1, 2))
    assert (a == b).mean() < 0.02
    assert abs(np.corrcoef(a, np.arange(1000))[0, 1]) < 0.1


shares = st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=1000)


@given(share=shares, seed=st.integers(0, 2**32), rows=st.integers(1, 10_000_000))
def test_the_share_of_the_source_is_kept_to_less_than_one_row(share, seed, rows):
    mix = DataMix([Part("a", 100), Part("b", 100)], [share], seed)
    source, target = mix.counts(rows)
    assert source + target == rows
    assert abs(source - share * rows) < 1


@given(share=shares, seed=st.integers(0, 2**32), start=st.integers(0, 5000), cut=st.integers(1, 199))
def test_rows_do_not_depend_on_where_reading_starts(share, seed, start, cut):
    mix = DataMix([Part("a", 37), Part("b", 53)], [share], seed)
    whole = np.array(mix.rows(np.arange(start, start + 200)))
    parts = [np.array(mix.rows(np.arange(*span))) for span in ((start, start + cut), (start + cut, start + 200))]
    assert (whole == np.concatenate(parts, axis=1)).all()


def test_rows_agree_with_counts_and_each_epoch_of_each_corpus_is_complete_and_in_its_own_order():
    mix = DataMix([Part("a", 37), Part("b", 53)], [Fraction(1, 4)], 7)
    part, window = mix.rows(np.arange(1000))
    assert [(part == 0).sum(), (part == 1).sum()] == mix.counts(1000)
    for index, size in ((0, 37), (1, 53)):
        epochs = window[part == index][: 4 * size].reshape(4, size)
        assert (np.sort(epochs, axis=1) == np.arange(size)).all()
        assert not (epochs[0] == epochs[1]).all()


@pytest.mark.parametrize("replay", [0.05, 0.1, 0.25, 1 / 3])
def test_long_runs_do_not_overflow(replay):
    mix = DataMix([Part("a", 10**9), Part("b", 10**9)], [Fraction(replay).limit_denominator(10**6)], 1)
    part, window = mix.rows(np.arange(10**12, 10**12 + 100))
    assert part.sum() > 0
    assert ((window >= 0) & (window < 10**9)).all()
