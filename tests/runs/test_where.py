"""The filter language: against a direct evaluation in pandas, and where it points when it cannot read."""

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from cptlaw.errors import UsageError
from cptlaw.runs.where import DEEPEST_NESTING, parse

TABLE = pd.DataFrame(
    {
        "run": ["a", "b", "it's", "46k-p15"],
        "ptpp": [15.0, 31.0, 62.0, np.nan],
        "replay": [0.1, 0.1 + 0.2, np.nan, 0.34],
        "n_params": [1e6, 8.1e9, 8.1e9, 5e8],
        "tokens": [0.0, 1e9, 1.62e11, 1e9],
        "clean": [True, False, True, False],
        "note": [None, "x", "y", None],
        "val loss": [1, 2, 3, 4],
        "empty": [np.nan] * 4,
    }
)


def rows(query, table=TABLE):
    return np.flatnonzero(parse(query).mask(table)).tolist()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ptpp <= 31", [0, 1]),
        ("ptpp < 31", [0]),
        ("ptpp >= 31", [1, 2]),
        ("ptpp > 31", [2]),
        ("ptpp == 31", [1]),
        ("ptpp != 31", [0, 2]),
        ("ptpp in (15, 62)", [0, 2]),
        ("ptpp in (15, 62,)", [0, 2]),
        ("ptpp not in (15, 62)", [1]),
        ("ptpp NOT IN (15) And not ptpp == 31", [2]),
        ('run == "a"', [0]),
        ("run == 'a' or run == \"it's\"", [0, 2]),
        ('run != "a"', [1, 2, 3]),
        ("run in ('a', '46k-p15')", [0, 3]),
        ('not run == "a" and ptpp <= 31', [1]),
        ('not (run == "a" or ptpp <= 31)', [2, 3]),
        ("not not ptpp == 15", [0]),
        ("ptpp == 15 or ptpp == 31 and replay > 0.5", [0]),
        ("(ptpp == 15 or ptpp == 31) and replay > 0.2", [1]),
        ("n_params == 8.1B", [1, 2]),
        ("n_params==8.1B and tokens>1B", [2]),
        ("replay == 34%", [3]),
        ("replay == 0.3", [1]),
        ("replay in (0.3, 0.34)", [1, 3]),
        ("replay != 0.3", [0, 3]),
        ("replay <= 0.3", [0, 1]),
        ("replay < 0.3", [0]),
        ("replay > 0.3", [3]),
        ("replay >= 0.3", [1, 3]),
        ("N == 8_100_000_000 and D >= 1e9", [1, 2]),
        ("r < .2", [0]),
        ("atpp >= 20", [2]),
        ("flops == 4.86e19", [1]),
        ("clean == 'True'", [0, 2]),
        ("note == 'x'", [1]),
        ("note != 'x'", [2]),
        ("`val loss` >= 3", [2, 3]),
        ("tokens > -1", [0, 1, 2, 3]),
        ("tokens == 0", [0]),
        ("empty == 0", []),
        ("empty == 'x' or ptpp == 15", [0]),
    ],
)
def test_picks_rows(query, expected):
    assert rows(query) == expected


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
def test_a_missing_value_answers_no_comparison(operator):
    value = "(0.1, 5)" if operator.endswith("in") else "5"
    assert 2 not in rows(f"replay {operator} {value}")
    assert 2 in rows(f"not replay {operator} {value}")


def test_each_row_answers_a_query_or_its_complement():
    query = "ptpp > 20 and replay != 0.1"
    assert sorted(rows(query) + rows(f"not ({query})")) == [0, 1, 2, 3]


def test_columns_are_named_canonically_and_once():
    condition = parse('N > 1M and (r == 0.1 or not ptpp == 3 or n_params < 2B) and other == "x"')
    assert condition.columns == ("n_params", "replay", "ptpp", "other")


def test_a_column_of_that_very_name_comes_before_the_alias():
    table = pd.DataFrame({"N": [1.0, 2.0], "n_params": [5e6, 6e6]})
    assert rows("N == 1", table) == [0]
    assert rows("n_params == 6M", table) == [1]


def test_a_column_of_the_table_comes_before_the_computed_one():
    table = TABLE.assign(flops=[1.0, 2.0, 3.0, 4.0])
    assert rows("flops <= 2", table) == [0, 1]


@pytest.mark.parametrize("dtype", ["Int64", "float32", "int8", "Float64"])
def test_number_types(dtype):
    table = pd.DataFrame({"seed": pd.array([0, 1, 2], dtype=dtype)})
    assert rows("seed in (0, 2)", table) == [0, 2]


@pytest.mark.parametrize("dtype", ["category", "object", "string"])
def test_text_types(dtype):
    table = pd.DataFrame({"run": pd.Series(["a", None, "b"], dtype=dtype)})
    assert rows('run == "a"', table) == [0]
    assert rows('run != "a"', table) == [2]


def test_infinite_values_compare():
    table = pd.DataFrame({"loss": [1.0, np.inf, -np.inf]})
    assert rows("loss > 5", table) == [1]
    assert rows("loss == 5", table) == []
    assert rows("loss <= 1", table) == [0, 2]


@pytest.mark.parametrize(
    ("query", "pointed_at", "message"),
    [
        ("ptpp <= and replay == 1", "and", "expected a number or text in quotes, found and"),
        ("ptpp <=", "", "found the end"),
        ("ptpp 31", "31", "expected one of =="),
        ("ptpp = 31", "= 31", "Write =="),
        ("ptpp == 31 & replay == 1", "&", "Write 'and'"),
        ("ptpp == 31 | replay == 1", "|", "Write 'or'"),
        ("! ptpp == 31", "!", "Write 'not'"),
        ("ptpp in [1]", "[", "round parentheses"),
        ("ptpp in 1", "1", "expected '('"),
        ("ptpp in ()", ")", "expected a number or text"),
        ("ptpp in (1 2)", "2)", "expected ',' or ')'"),
        ("ptpp not 3", "3", "after 'ptpp'"),
        ("(ptpp == 3", "", "expected ')', found the end"),
        ("ptpp == 3)", ")", "expected 'and' or 'or'"),
        ("ptpp == 3 replay == 2", "replay", "expected 'and' or 'or'"),
        ("15 <= ptpp", "15", "Write the column first"),
        ("ptpp >= 15 <= 31", "<=", "two comparisons joined by 'and'"),
        ("(ptpp >= 15 <= 31)", "<=", "two comparisons joined by 'and'"),
        ("run == base-46k-p15", "base", 'Write "base-46k-p15"'),
        ("run == a", "a", "unquoted a"),
        ("run == 'a", "'a", "not closed"),
        ("ptpp == 8Bx", "8Bx", "cannot be read"),
        ("ptpp == 3.4.5", "3.4.5", "cannot be read"),
        ("ptpp == 1e400", "1e400", "not a finite number"),
        ("ptpp == 1e99999999999999999999", "1e9", "not a finite number"),
        ("ptp <= 31", "ptp", "Did you mean 'ptpp'"),
        ("run == 'a' and ptpp == '31'", "ptpp", "without quotes"),
        ("ptpp in (15, '31')", "ptpp", "without quotes"),
        ("run == 3", "run", "in quotes"),
        ("run < 'b'", "run", "no order"),
        ("clean == 1", "clean", "holds text"),
        ("__import__('os').system('true')", "(", "after '__import__'"),
        ("ptpp == 1; drop", ";", "unexpected ';'"),
    ],
)
def test_an_error_points_at_the_place(query, pointed_at, message):
    with pytest.raises(UsageError) as caught:
        rows(query)
    first, shown, caret = str(caught.value).split("\n")
    assert message in first
    assert shown.strip() == query
    assert shown[caret.index("^") :].startswith(pointed_at)


def test_an_unknown_column_lists_those_that_are_there():
    with refused(UsageError, "'whatever'", "run, ptpp, replay"):
        rows("whatever == 1")


@pytest.mark.parametrize("query", ["", "   ", "\n", None, 3])
def test_an_empty_filter_is_refused(query):
    with pytest.raises(UsageError, match="empty"):
        parse(query)


@pytest.mark.parametrize("query", ["(" * 5000 + "ptpp == 1" + ")" * 5000, "not " * 5000 + "ptpp == 1"])
def test_deep_nesting_is_refused_and_not_a_crash(query):
    with pytest.raises(UsageError, match="within each other"):
        parse(query)


def test_deep_but_sane_nesting_and_long_chains_are_read():
    deep = (DEEPEST_NESTING - 1) // 2
    assert rows("(" * deep + "ptpp == 15" + ")" * deep) == [0]
    assert rows(" or ".join(["ptpp == 15"] * 3000)) == [0]


def test_a_line_break_does_not_shift_the_caret():
    with pytest.raises(UsageError) as caught:
        parse("ptpp == 3\nand\tptpp = 4")
    _, shown, caret = str(caught.value).split("\n")
    assert shown[caret.index("^")] == "="


# A random tree of conditions, with the same tree evaluated by plain Python on every row.

NUMBERS = st.sampled_from([0.0, 0.1, 0.25, 15.0, 31.0, 8.1e9])
WORDS = st.sampled_from(["a", "b", "c d"])
OPERATORS = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


@st.composite
def comparisons(draw):
    is_text = draw(st.booleans())
    column = draw(st.sampled_from(["run", "eval"] if is_text else ["ptpp", "replay"]))
    values = WORDS if is_text else NUMBERS
    spell = (lambda value: f'"{value}"') if is_text else (lambda value: f"{value!r}")
    if draw(st.booleans()):
        listed = draw(st.lists(values, min_size=1, max_size=3))
        negated = draw(st.booleans())
        text = f"{column} {'not ' * negated}in ({', '.join(map(spell, listed))})"
        return text, lambda row: row[column] is not None and ((row[column] in listed) != negated)
    operator = draw(st.sampled_from(["==", "!="] if is_text else sorted(OPERATORS)))
    value = draw(values)
    return (
        f"{column} {operator} {spell(value)}",
        lambda row: row[column] is not None and OPERATORS[operator](row[column], value),
    )


def joined(children):
    return st.one_of(
        children.map(lambda one: (f"not ({one[0]})", lambda row: not one[1](row))),
        st.tuples(children, children).map(
            lambda two: (f"({two[0][0]}) and ({two[1][0]})", lambda row: two[0][1](row) and two[1][1](row))
        ),
        st.tuples(children, children).map(
            lambda two: (f"({two[0][0]}) or ({two[1][0]})", lambda row: two[0][1](row) or two[1][1](row))
        ),
    )


ROWS = st.lists(
    st.fixed_dictionaries(
        {"run": st.none() | WORDS, "eval": WORDS, "ptpp": st.none() | NUMBERS, "replay": st.none() | NUMBERS}
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(st.recursive(comparisons(), joined, max_leaves=6), ROWS)
def test_agrees_with_a_direct_evaluation(condition, records):
    query, holds = condition
    table = pd.DataFrame(records).astype({"run": object, "eval": "category", "ptpp": float, "replay": float})
    assert parse(query).mask(table).tolist() == [bool(holds(record)) for record in records]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.lists(st.integers(-50, 50), min_size=1),
    st.integers(-50, 50),
)
def test_agrees_with_pandas_on_numbers(operator, values, value):
    table = pd.DataFrame({"seed": values})
    assert parse(f"seed {operator} {value}").mask(table).tolist() == table.eval(f"seed {operator} {value}").tolist()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ptrun =!<>()'\",.0123456789%Bandortinx`&|", max_size=30) | st.text(max_size=20))
def test_any_text_is_read_or_refused(query):
    try:
        mask = parse(query).mask(TABLE)
    except UsageError:
        return
    assert mask.dtype == np.bool_
    assert mask.shape == (len(TABLE),)
