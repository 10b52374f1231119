"""Quantities: what is read, what is refused, and that print and parse agree."""

import math
import re

import pytest
from facts import refused
from hypothesis import given
from hypothesis import strategies as st

from cptlaw.errors import UsageError
from cptlaw.units import SUFFIXES, format_percent, format_quantity, parse_quantity, short_percent

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SIZES = st.floats(min_value=1e-6, max_value=1e24)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8.1B", 8.1e9),
        ("517M", 517e6),
        ("26e9", 26e9),
        ("1e20", 1e20),
        ("34%", 0.34),
        ("2.5k", 2500.0),
        ("3g", 3e9),
        ("1.2T", 1.2e12),
        ("1_000", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+7", 7.0),
        ("-2M", -2e6),
        (" 8 B ", 8e9),
        ("1e3K", 1e6),
        (12, 12.0),
        (0.1, 0.1),
    ],
)
def test_reads(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "many",
        "8.1X",
        "8.1BB",
        "B",
        "1,000",
        "0x10",
        "1e",
        "--1",
        "nan",
        "inf",
        "1 2",
        "1e400",
        "__import__('os')",
    ],
)
def test_refuses_and_names_what_it_was_for(text):
    with pytest.raises(UsageError, match="n_params") as caught:
        parse_quantity(text, "n_params")
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_refuses_numbers_that_are_not_finite(value):
    with refused(UsageError, repr(value)):
        parse_quantity(value)


@given(FINITE)
def test_plain_numbers_come_back_to_the_last_bit(value):
    assert parse_quantity(repr(value)) == value
    assert parse_quantity(value) == value


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))
def test_a_unit_scales_without_rounding(whole, thousandths, suffix):
    exact = (whole * 1000 + thousandths) * int(SUFFIXES[suffix] * 100) / 100_000
    assert parse_quantity(f"{whole}.{thousandths:03d}{suffix}") == pytest.approx(exact, rel=4e-16)
    assert parse_quantity(f"{whole}.{thousandths:03d}{suffix.lower()}") == parse_quantity(
        f"{whole}.{thousandths:03d}{suffix}"
    )


@given(SIZES, st.integers(1, 15))
def test_a_printed_quantity_reads_back_to_its_digits(value, digits):
    assert parse_quantity(format_quantity(value, digits)) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))
    assert format_quantity(-value, digits) == "-" + format_quantity(value, digits)


@given(st.floats(min_value=1e-6, max_value=1e3))
def test_a_printed_percentage_reads_back(fraction):
    assert parse_quantity(format_percent(fraction, 6)) == pytest.approx(fraction, rel=1e-5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.1e9, "8.1B"),
        (517e6, "517M"),
        (45936, "45.9K"),
        (0, "0"),
        (0.25, "0.25"),
        (3.5e21, "3.5e+21"),
        (math.inf, "inf"),
    ],
)
def test_prints_the_way_people_say_it(value, text):
    assert format_quantity(value) == text


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        value = parse_quantity(text)
    except UsageError:
        return
    assert math.isfinite(value)


@given(
    st.floats(-2.0, 2.0, allow_nan=False),
    st.one_of(st.none(), st.floats(-0.5, 0.5, allow_nan=False)),
)
def test_a_share_is_never_shown_as_minus_nothing(share, limit):
    for text in (short_percent(share, limit), format_percent(share), format_percent(share, 2)):
        assert not re.fullmatch(r"-0(\.0*)?%", text)
    for small in (-1e-9, -4e-4, -1e-300):
        assert not re.search(r"-0(\.0*)?%", short_percent(small, -0.001) + short_percent(small, limit))
