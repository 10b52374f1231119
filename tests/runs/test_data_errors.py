"""What a table must satisfy before any law: spoilt tables are noticed, sound ones pass."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused
from pandas.core.groupby import DataFrameGroupBy
from spoilt import IN_PARTS, MISTAKES, cases

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import DataError
from cptlaw.runs.data_errors import _budgets, data_errors
from cptlaw.runs.never_measured import base_losses

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
AT_NIGHT = 100  # of the thousand of `make fuzz`
QUESTION = {"n_params": 124_672, "ptpp": 124, "tokens": 1_994_752, "max_forgetting": "25%"}


@pytest.fixture
def frame():
    rows = cl.examples.load("en-fr-pilot").where("ptpp in (31, 124) and (tokens == 0 or lr_schedule == 'constant')")
    return rows.frame.astype({"run": object, "eval": object})


def errors(runs):
    return {one.code for one in data_errors(runs) if one.severity == "error"}


@pytest.mark.nightly
def test_mistakes_are_noticed():
    found = [*cases(range(AT_NIGHT), 0)]
    assert [case for case in found if case.fails] == []
    assert {case.mistake for case in found} == {mistake.__name__ for mistake in MISTAKES}
    assert len([case for case in found if case.ended in ("error", "refused")]) > AT_NIGHT / 2


def test_most_mistakes_are_told_and_no_sound_table_is_refused():
    found = [*cases(range(0, len(MISTAKES), 3), 0, quick=True)]
    assert [case for case in found if case.clean_errors] == []
    assert len([case for case in found if case.ended in ("error", "refused")]) > len(found) / 2


@pytest.mark.nightly
def test_mistakes_in_a_part_of_the_rows_are_noticed():
    """A column that was never measured in one size, on one machine or after a restart: an error, whatever the rest."""
    found = [*cases(range(0, len(IN_PARTS), 2), 2, quick=True, mistakes=IN_PARTS)]  # all of them: `make fuzz`
    assert [case for case in found if case.fails] == []
    copied = [case for case in found if "base_" in case.mistake or "copy_" in case.mistake]
    assert {case.ended for case in copied} == {"error"}


def test_a_part_that_was_copied_is_named(frame):
    """Stuck at the base model in every second run it gave 7.5 % replay where 22.9 are needed, without a word."""
    adapted, source = frame["tokens"] > 0, frame["eval"] == "source"
    names = sorted(frame.loc[adapted, "run"].unique())[::2]
    at = adapted & source & frame["run"].isin(names)
    keys = ["n_params", "ptpp"]
    base = frame[~adapted & source].groupby(keys)["loss"].mean()
    stuck = frame.assign(loss=frame["loss"].where(~at, frame[keys].join(base, on=keys)["loss"]))
    with pytest.raises(DataError, match=r"\[still-loss\]"):
        cl.answer(stuck, **QUESTION)
    (found,) = [one for one in data_errors(cl.read_runs(stuck)) if one.code == "still-loss"]
    assert set(found.data["runs"]) <= set(names)
    assert len(found.data["runs"]) > 0.8 * len(names)


def test_a_last_evaluation_that_was_logged_twice_is_a_warning():
    """As in two public tables; the loss of the next checkpoint in each row ends so as well."""
    tokens = [1e6, 2e6, 3e6, 4e6]
    runs = {
        name: [level - 0.1234567 * k for k in range(3)]
        for name, level in zip("abcd", (3.1, 3.2, 3.3, 3.5), strict=True)
    }
    rows = [
        {
            "run": run,
            "eval": "target",
            "n_params": 1e6,
            "replay": 0.1,
            "tokens": at,
            "loss": loss,
            "lr_peak": 1e-3 * losses[0],
        }
        for run, losses in runs.items()
        for at, loss in zip(tokens, [*losses, losses[-1]], strict=True)
    ]
    table = pd.DataFrame(rows)
    found = {one.code: one.severity for one in data_errors(cl.read_runs(table))}
    assert found["still-loss"] == "warning"
    inside = table.assign(loss=table["loss"].where(table["tokens"] != 2e6, table["loss"].shift(1)))
    found = {one.code: one.severity for one in data_errors(cl.read_runs(inside))}
    assert found["still-loss"] == "error"


def backwards(frame):
    """Losses of each run from the last to the first."""
    rows = frame.sort_values(["eval", "run", "tokens"]).reset_index(drop=True)
    order = rows.groupby(["eval", "run"], sort=False)["loss"].transform(lambda one: one.to_numpy()[::-1])
    return rows.assign(loss=rows["loss"].where(rows["tokens"] == 0, order))


@pytest.mark.parametrize(
    ("code", "severity", "told", "spoilt"),
    [
        ("rounded-losses", "warning", {"digits": 1}, lambda one: one.assign(loss=one["loss"].round(1))),
        ("ptpp-in-tokens", "error", {"ptpp": 124672 * 124}, lambda one: one.assign(ptpp=one["ptpp"] * one["n_params"])),
        (
            "tokens-of-pre-training",
            "error",
            {},
            lambda one: one.assign(tokens=one["tokens"] + (one["tokens"] > 0) * one["ptpp"] * one["n_params"]),
        ),
        ("settings-missing", "error", {"eval": "target"}, lambda one: one.assign(replay=one["replay"] * 0 + 0.1)),
        ("settings-missing", "warning", {"eval": "target"}, lambda one: one.drop(columns="replay")),
        ("rising-with-tokens", "error", {}, backwards),
    ],
)
def test_what_stands_wrong_in_all_rows_is_told(frame, code, severity, told, spoilt):
    found = [one for one in data_errors(cl.read_runs(spoilt(frame))) if one.code == code]
    assert {one.severity for one in found} == {severity}
    assert found[0].data.items() >= told.items()


@pytest.mark.parametrize(
    ("seed", "number", "code"),
    [
        (44, 54, "replay-reversed"),  # shares of 0 and 5 % tell by the source loss alone
        (44, 60, "rising-with-size"),  # no adapted runs are alike else; base models are
        (1126, 64, "little-from-size"),  # of two sizes the larger is 30 % worse, and still better than the smaller
        (1126, 106, "little-from-size"),
        (1126, 116, "little-from-size"),
        (2711, 78, "little-from-size"),  # of two budgets
        (1126, 219, "outlier-rows"),  # of seven rows
        (5101, 8, "rising-with-size"),  # one run of the largest size; base models of an unlearned corpus rise
        (9307, 288, "rising-with-size"),  # among four sizes
        (5101, 143, "above-base"),  # random losses that inputs explain by chance
        (8123, 59, "bases-not-told-apart"),  # losses of seeds that differ by a third
        (8123, 118, "base-in-other-units"),  # runs of which half is old data forget 35 %
        (9307, 61, "size-out-of-line"),  # two sizes without a budget in common
        (8811, 891, "outlier-rows"),  # of three rows
        (8811, 621, "little-from-size"),  # base models alone are alike else: no error before the mistake
        (5101, 180, "replay-reversed"),  # the smallest size alone has 50 % of replay: no error before the mistake
        (8124, 155, "equal-losses"),  # of two runs and their base model
        (9411, 208, "above-base"),  # all shares of old data above 90 %, and the source loss rises by 20 %
        (9411, 649, "size-out-of-line"),  # of three sizes the smallest, so that the largest seems off
        (9411, 862, "little-from-size"),  # the larger of two sizes learns the new corpus no better
        (8124, 775, "size-out-of-line"),  # base models of an unlearned corpus are not held beside adapted models
        (9200, 129, "above-base"),  # three runs, none of which lowers the target loss
        (9411, 415, "outlier-rows"),  # larger base models alone are worse on a new corpus: no error before the mistake
    ],
)
def test_mistakes_that_few_rows_tell(seed, number, code):
    (case,) = [*cases([number], seed, quick=True)]
    assert code in case.codes
    assert case.clean_errors == ()


def test_base_losses_are_looked_up_once(monkeypatch):
    asked = []
    kept = lambda *rows, **how: asked.append(how) or base_losses(*rows, **how)  # noqa: E731
    for module in ("data_errors", "never_measured"):
        monkeypatch.setattr(f"cptlaw.runs.{module}.base_losses", kept)
    data_errors(cl.read_runs(cl.examples.load("en-fr-pilot").frame), "source")
    assert asked == [{"same_seed": False}, {"same_seed": True}]


@pytest.mark.parametrize("number", [77, 1403])
def test_runs_in_two_heaps_are_told_apart_by_no_column(number):
    """Half of the runs on another eval, of which neither size, mix nor budget tells anything."""
    (case,) = cases([number], 0, quick=True, mistakes=IN_PARTS)
    assert case.codes == ("suspected-mix-up",)
    assert case.clean_errors == ()


def tables():
    for name in cl.examples.EXAMPLES:
        yield pytest.param(name, id=name)
    if not DATA.exists():
        yield pytest.param(None, id="shared", marks=pytest.mark.skip(reason="no tables in ../shared/data"))
    for path in sorted(DATA.glob("*.csv")):
        yield pytest.param(path, id=path.name)


@pytest.mark.dear("every measured table, whole and in parts")
@pytest.mark.parametrize("table", [*tables()])
def test_measured_tables_have_no_errors(table):
    try:
        runs = cl.examples.load(table) if isinstance(table, str) else cl.read_runs(table)
    except DataError as error:
        pytest.skip(f"not a table of runs: {str(error)[:80]}")
    assert errors(runs) == set()
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert errors(runs.keep(rng.random(len(runs)) < 0.5)) == set()
        names = runs.frame["run"].cat.categories
        some = runs.frame["run"].isin(names[rng.random(len(names)) < 0.5]).to_numpy()
        assert not some.any() or errors(runs.keep(some)) == set()


@pytest.mark.dear("an answer from runs")
def test_an_error_stops_an_answer_and_anyway_goes_on(frame, tmp_path, capsys):
    source = frame["eval"] == "source"
    frame = frame.assign(loss=frame["loss"].where(~source, 2.2))
    with refused(DataError, "'source'", "2.2", "[equal-losses]"):
        cl.answer(frame, **QUESTION)
    path = tmp_path / "runs.csv"
    frame.to_csv(path, index=False)
    words = [word for name, value in QUESTION.items() for word in ("--" + name.replace("_", "-"), str(value))]
    with pytest.raises(SystemExit) as ended:
        main(["answer", str(path), *words])
    assert ended.value.code == 2
    assert "--anyway" in capsys.readouterr().err
    found = cl.answer(frame, **QUESTION, anyway=True)
    assert found.findings[0].code == "equal-losses"


def test_check_names_errors_first(frame):
    target = frame.loc[frame["eval"] == "target"].set_index(["run", "tokens"])["loss"]
    copied = target.reindex(frame.set_index(["run", "tokens"]).index).to_numpy()
    found = cl.check(frame.assign(loss=copied), on="source").findings
    assert (found[0].code, found[0].severity) == ("equal-evals", "error")


@pytest.mark.dear("a plan from a run")
def test_one_run_is_a_plan_where_studies_speak_of_others(frame):
    run = frame.loc[frame["tokens"] > 0, "run"].iloc[0]
    alone = frame[(frame["run"] == run) | (frame["tokens"] == 0)]
    # As without runs and with two: no run gave a plan and the next run, one neither; without size and budget none does.
    found = cl.answer(alone, **QUESTION)
    assert next(one for one in found.findings if one.code == "one-run").severity == "warning"
    assert "train on" in repr(found)
    assert found.next_runs[0]["narrows"]["by"] > 0.05
    without = alone.drop(columns="ptpp")
    with pytest.raises(DataError, match=r"\[one-run\]"):
        cl.answer(without, **QUESTION)
    found = cl.answer(without, **{name: value for name, value in QUESTION.items() if name != "ptpp"}, anyway=True)
    assert "train on" not in repr(found)
    assert found.next_runs == ()


def test_a_filter_takes_the_rows_with_an_error_away(frame):
    largest = frame["n_params"].max()
    frame = frame.assign(loss=frame["loss"].where(frame["n_params"] < largest, frame["loss"] / np.log(2)))
    with pytest.raises(DataError, match=r"\[size-out-of-line\]|\[rising-with-size\]"):
        cl.answer(frame, **QUESTION)
    kept = cl.read_runs(frame).where(f"n_params < {largest}")
    assert data_errors(kept) == ()


def test_runs_that_were_stopped_at_one_target_loss_are_no_error(frame):
    stopped = frame.assign(loss=frame["loss"].where((frame["eval"] == "source") | (frame["tokens"] == 0), 2.6))
    found = {one.code: one.severity for one in data_errors(cl.read_runs(stopped))}
    assert found["equal-losses"] == "warning"


def test_a_table_without_inputs_is_let_through():
    rows = pd.DataFrame({"run": ["a", "b", "c"], "eval": "target", "loss": [3.0123, 2.0456, 2.5789]})
    assert data_errors(cl.read_runs(rows)) == ()


def test_base_models_are_compared_in_one_pass_over_the_rows(monkeypatch):
    asked = []
    one_by_one = DataFrameGroupBy.__iter__
    monkeypatch.setattr(DataFrameGroupBy, "__iter__", lambda groups: asked.append(groups) or one_by_one(groups))
    base = pd.DataFrame(
        {"run": list("abcd"), "eval": "source", "tokens": 0.0, "n_params": 1e9, "ptpp": [20.0, 20.0, 50.0, 50.0]}
    )
    (found,) = _budgets(base.assign(loss=[2.0, 2.01, 2.1, 3.0]))
    assert (found.code, found.data["losses"], asked) == ("bases-not-told-apart", [2.1, 3.0], [])
