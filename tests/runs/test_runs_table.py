"""Picking from runs: filters, evals, roles, base losses, fingerprints and summaries."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.levels import distinct_levels


def table():
    rows = []
    for seed in (0, 1):
        for ptpp in (15.0, 279.0):
            for eval_name, loss in (("en", 2.0), ("fr", 3.0), ("code", 1.5)):
                rows.append((f"base-{ptpp:g}-{seed}", eval_name, loss + 0.1 * seed, 1e6, 0.0, np.nan, ptpp, seed))
                rows.extend(
                    (f"cpt-{ptpp:g}-{seed}-{replay}", eval_name, loss - 0.1, 1e6, 2e7, replay, ptpp, seed)
                    for replay in (0.1, 0.25)
                )
    return pd.DataFrame(rows, columns=["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "seed"])


@pytest.fixture
def runs():
    return read_runs(table(), source_eval="en", target_eval="fr")


def test_is_frozen(runs):
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs.path = None
    assert len(runs) == 36


def test_roles(runs):
    assert runs.evals == ("code", "en", "fr")
    assert [runs.role(name) for name in runs.evals] == ["other", "source", "target"]
    assert runs.role("source") == "source"
    assert runs.role("unknown") == "other"


def two_seeds():
    """Return the table with losses of which no two seeds have the same."""
    return table().assign(loss=lambda rows: rows["loss"] + 1e-4 * rows["seed"])


def test_runs_that_repeat_others_in_every_digit_count_once():
    plain, _ = (once := read_runs(two_seeds())).without_copies()
    assert plain is once
    again = two_seeds().assign(run=lambda rows: rows["run"] + "-again").sample(frac=1, random_state=0)
    kept, [finding] = read_runs(pd.concat([two_seeds(), again], ignore_index=True)).without_copies()
    assert finding.code == "copied-runs"
    assert "12 runs repeat others" in finding.message
    pd.testing.assert_frame_equal(kept.frame, once.frame, check_categorical=False)
    # Half a character, as fuzzed tables hold it.
    half = two_seeds().assign(note=pd.Series(["\ud800"] + ["a"] * (len(two_seeds()) - 1), dtype=object))
    assert read_runs(half).without_copies()[1] == []
    # A name and a seed are labels, and the first to come stays; a rerun has another loss.
    relabelled = again.assign(run=lambda rows: "0-" + rows["run"], seed=lambda rows: rows["seed"] + 2)
    kept, _ = read_runs(pd.concat([two_seeds(), relabelled], ignore_index=True)).without_copies()
    pd.testing.assert_frame_equal(kept.frame, once.frame, check_categorical=False)
    assert read_runs(pd.concat([two_seeds(), again.assign(loss=again["loss"] + 2)])).without_copies()[1] == []


def test_a_name_that_is_a_role_is_the_role():
    runs = read_runs(table().replace({"eval": {"en": "source", "fr": "target"}}))
    assert runs.role("source") == "source"
    assert runs.on("target").evals == ("target",)
    assert read_runs(runs, source_eval="source").roles == {}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"source_eval": "english"}, r"source_eval: no eval 'english'.* Evals found: 'code', 'en', 'fr'"),
        ({"target_eval": "frr"}, "Did you mean 'fr'"),
        ({"source_eval": "en", "target_eval": "en"}, "both 'en'"),
    ],
)
def test_roles_that_cannot_be(names, message):
    with pytest.raises(UsageError, match=message):
        read_runs(table(), **names)


def test_a_role_cannot_go_to_two_evals():
    runs = read_runs(table().replace({"eval": {"en": "source"}}))
    with refused(UsageError, "'source'"):
        runs.with_roles(source_eval="fr")
    with refused(UsageError, "'source'"):
        runs.with_roles(target_eval="source")


def test_a_new_role_replaces_the_old_one(runs):
    again = runs.with_roles(source_eval="code")
    assert (again.role("code"), again.role("en"), again.role("fr")) == ("source", "other", "target")


def test_on(runs):
    assert runs.on("fr").evals == ("fr",)
    assert len(runs.on("fr")) == 12
    assert runs.on("target").fingerprint == runs.on("fr").fingerprint
    assert runs.on("source").evals == ("en",)
    assert runs.on("target").on("fr") is not None


def test_on_what_is_not_there(runs):
    with refused(DataError, "'frr'", "'fr'", "'code'", "'en'"):
        runs.on("frr")
    with refused(DataError, "'source'", "source_eval"):
        read_runs(table()).on("source")


def test_where(runs):
    few = runs.where("ptpp <= 31 and replay in (0.1, 0.25)")
    assert len(few) == 12
    assert set(few.frame["ptpp"]) == {15.0}
    assert few.roles == runs.roles
    assert len(runs) == 36
    assert all("279" not in name for name in few.frame["run"].cat.categories)
    assert runs.where("tokens >= 0") is runs


def test_where_nothing_is_left_tells_the_levels(runs):
    with pytest.raises(UsageError) as caught:
        runs.where('ptpp > 300 and eval == "fr" or atpp > 21')
    for part in ("no row answers", "ptpp: 15, 279", "eval: code, en, fr", "atpp: 0, 20"):
        assert part in str(caught.value)


def test_where_keeps_the_rows_of_the_file(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("run,loss,lr\na,2,\nb,3,\nc,4,1e-3\n", encoding="utf-8")
    with refused(DataError, "row 3", "'lr'"):
        read_runs(file).where("loss == 3").require(["lr"])


def test_base_losses_average_seeds(runs):
    base = runs.base_losses("target")
    assert list(base.columns) == ["n_params", "ptpp", "loss"]
    assert base["ptpp"].tolist() == [15.0, 279.0]
    assert base["loss"].tolist() == pytest.approx([3.05, 3.05])


def test_base_losses_without_base_rows_or_columns(runs):
    assert runs.adapted().base_losses("fr").empty
    bare = read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 4.0], "tokens": [0, 0]}))
    base = bare.base_losses("target")
    assert base["loss"].tolist() == [3.0]
    assert base["ptpp"].isna().all()
    assert read_runs(pd.DataFrame({"run": ["a"], "loss": [2.0]})).base_losses("target").empty
    with pytest.raises(DataError, match="no eval"):
        runs.base_losses("german")


def test_base_losses_tell_domains_apart():
    frame = pd.DataFrame(
        {"run": ["a", "b"], "loss": [2.0, 4.0], "tokens": 0, "domain": ["law", "code"], "n_params": 1e6}
    )
    base = read_runs(frame).base_losses("target")
    assert base[["domain", "loss"]].to_numpy().tolist() == [["code", 4.0], ["law", 2.0]]


def test_adapted(runs):
    assert len(runs.adapted()) == 24
    no_tokens = read_runs(pd.DataFrame({"run": ["a"], "loss": [2.0]}))
    assert no_tokens.adapted() is no_tokens
    with refused(DataError, "12 rows"):
        runs.where("tokens == 0").adapted()


def test_adapted_keeps_missing_tokens_for_require():
    runs = read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 3.0], "tokens": [0.0, None]}))
    with refused(DataError, "row 1", "'tokens'"):
        runs.adapted().require(["tokens"])


def test_require(runs):
    runs.require(["run", "loss", "tokens", "seed"])
    runs.require(["replay"], skip_base=True)
    with refused(DataError, "'replay'", "12 rows", "row 0"):
        runs.require(["replay"])
    with pytest.raises(DataError, match=r"column 'lr'.* is missing.*Columns found"):
        runs.require(["lr"])


def test_require_names_all_columns_at_once():
    runs = read_runs(
        pd.DataFrame({"run": ["a", "b"], "loss": 2.0, "ptpp": [15, None], "lr": [None, 0.1], "note": ["x", None]})
    )
    with pytest.raises(DataError) as caught:
        runs.require(["ptpp", "lr", "note"])
    for part in ("3 problems", "row 1, column 'ptpp'", "row 0, column 'lr'", "row 1, column 'note'"):
        assert part in str(caught.value)


def test_summary(runs):
    summary = runs.summary()
    assert summary.index.tolist() == ["loss", "n_params", "tokens", "replay", "ptpp", "seed"]
    assert summary.columns.tolist() == ["levels", "min", "max", "missing"]
    assert summary.loc["replay"].tolist() == [2, 0.1, 0.25, 12]
    assert summary.loc["ptpp"].tolist() == [2, 15, 279, 0]


def test_repr(runs):
    text = repr(runs.with_roles(n_params_kind="total"))
    for part in (
        "36 rows",
        "12 runs",
        "en (source)",
        "fr (target)",
        "code",
        "n_params (total)",
        "1M",
        "15, 279",
        "0.1, 0.25 (12 missing)",
    ):
        assert part in text
    assert len(text.splitlines()) == 8


def test_repr_of_many_levels():
    runs = read_runs(
        pd.DataFrame(
            {
                "run": [f"r{k}" for k in range(20)],
                "loss": 2.0,
                "tokens": np.arange(20) * 1e9,
                "lr_schedule": [f"s{k:02}" for k in range(20)],
            }
        )
    )
    assert "20 levels from 0 to 19B" in repr(runs)
    assert "s00, s01, s02, s03, s04, s05, s06, s07, and 12 more" in repr(runs)


def test_html_is_escaped():
    runs = read_runs(pd.DataFrame({"run": ["a"], "eval": ["<script>alert('x')</script>"], "loss": [2.0]}))
    page = runs._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == page.count("</tr>") == 2


def test_the_fingerprint_follows_the_measurements_alone(runs, tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.sample(frac=1, random_state=0).assign(note="x").rename(columns={"n_params": "N"})[
        ["note", "seed", "ptpp", "replay", "tokens", "N", "loss", "eval", "run"]
    ].to_csv(tmp_path / "b.csv", index=False)
    assert read_runs(tmp_path / "a.csv").fingerprint == read_runs(tmp_path / "b.csv").fingerprint == runs.fingerprint
    assert len(runs.fingerprint) == 64
    assert runs.where("ptpp == 15").fingerprint != runs.fingerprint
    assert read_runs(frame.assign(lr=np.nan)).fingerprint == runs.fingerprint


def test_the_fingerprint_is_the_same_on_every_machine():
    frame = pd.DataFrame({"run": ["a", "b"], "eval": "target", "loss": [2.5, 3.0], "tokens": [0.0, 1e9]})
    assert read_runs(frame).fingerprint == "d9f9ab315fbefb0cae0f969c93531e3a1779e863c3cfc27c0ba9f396199b76a4"


@pytest.mark.parametrize("column", ["run", "eval", "loss", "tokens", "replay", "seed"])
def test_any_change_shows_in_the_fingerprint(column, runs):
    frame = table()
    row = frame.index[frame["tokens"] > 0][0]
    frame.loc[row, column] = (
        "other" if column in ("run", "eval") else frame.loc[row, column] * (1 + 2**-50) + (column == "seed")
    )
    assert read_runs(frame).fingerprint != runs.fingerprint


def test_swapped_values_show_in_the_fingerprint():
    one = read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 3.0], "ptpp": [15.0, 31.0]}))
    two = read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 3.0], "ptpp": [31.0, 15.0]}))
    three = read_runs(pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 3.0], "lr": [15.0, 31.0]}))
    assert len({one.fingerprint, two.fingerprint, three.fingerprint}) == 3


def test_made_up_run_names_do_not_count_in_the_fingerprint():
    frame = pd.DataFrame({"loss": [2.0, 3.0, 4.0], "n_params": [1e6, 2e6, 3e6]})
    assert read_runs(frame).fingerprint == read_runs(frame[::-1]).fingerprint


def test_a_zero_has_no_sign_in_the_fingerprint():
    frame = pd.DataFrame({"run": ["a"], "loss": [2.0], "tokens": [0.0]})
    assert read_runs(frame).fingerprint == read_runs(frame * pd.Series({"run": 1, "loss": 1, "tokens": -1})).fingerprint


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["source", "target"]),
        st.floats(0.1, 10),
        st.none() | st.just(0.0) | st.floats(1e-6, 1),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.randoms())
def test_the_order_of_rows_never_counts(rows, random):
    shuffled = rows.copy()
    random.shuffle(shuffled)
    names = ["run", "eval", "loss", "replay"]
    one, two = read_runs(pd.DataFrame(rows, columns=names)), read_runs(pd.DataFrame(shuffled, columns=names))
    assert one.fingerprint == two.fingerprint
    assert one.evals == two.evals
    assert repr(one) == repr(two)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_filters_split_the_rows(rows):
    runs = read_runs(pd.DataFrame(rows, columns=["run", "eval", "loss", "replay"]))
    kept = 0
    for query in ("replay < 0.5", "not replay < 0.5"):
        try:
            kept += len(runs.where(query))
        except UsageError:
            continue
    assert kept == len(runs)
    assert sum(len(runs.on(name)) for name in runs.evals) == len(runs)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)))
def test_levels_are_sorted_and_apart(values):
    levels = distinct_levels(values)
    finite = levels[np.isfinite(levels)]
    assert (np.diff(levels) > 0).all() if np.isfinite(levels).all() and np.abs(finite).max(initial=0) < 1e300 else True
    assert set(levels) <= set(np.asarray(values, dtype=float))
    assert distinct_levels(levels).tolist() == levels.tolist()


def test_rounding_makes_no_new_level():
    assert distinct_levels([0.3, 0.1 + 0.2, 1e20, 1e20 * (1 + 1e-15), 0.0]).size == 3


def test_runs_can_be_made_of_a_checked_frame(runs):
    assert Runs(runs.frame).evals == runs.evals
    assert read_runs(runs.frame).fingerprint == runs.fingerprint
