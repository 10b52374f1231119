"""What tells runs apart: settings that vary, runs that crashed or collapsed, runs that nothing tells apart."""

import json
import math
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from facts import lacks, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_files import cells, write

import cptlaw as cl
from cptlaw.errors import DataError, UsageError
from cptlaw.importing.alike import pattern_of, require_differences
from cptlaw.importing.assemble import assemble
from cptlaw.importing.history import History, Record
from cptlaw.importing.options import ImportOptions

FIRST = "Step 00000 | Validation bpb: 1.2\n"


def logs(folder, **curves):
    for run, losses in curves.items():
        rows = [{"step": place * 10, "eval_loss": loss} for place, loss in enumerate(losses)]
        write(folder / f"{run}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_runs_that_nothing_tells_apart_are_an_error(tmp_path):
    logs(tmp_path, a=[3.0, 2.5], b=[3.0, 2.8])
    with refused(DataError, "'validation'", "'a'", "2.5", "'b'", "2.8", "--settings"):
        cl.import_logs(tmp_path)
    logs(tmp_path, b=[3.0, 2.52])  # as another seed
    assert len(cl.import_logs(tmp_path)) == 4


def test_runs_of_another_length_are_told_apart_by_it(tmp_path):
    logs(tmp_path, short=[3.0, 2.5], long=[3.0, 2.8, 2.7, 2.6, 2.4])
    assert len(cl.import_logs(tmp_path)) == 7


def test_a_folder_is_searched_for_weights_once_for_all_its_runs(tmp_path):
    logs(tmp_path, a=[3.0, 2.5], b=[3.0, 2.52], c=[3.0, 2.51])
    with mock.patch("cptlaw.importing.run_settings.parameters_beside", return_value=None) as looked:
        assert len(cl.import_logs(tmp_path)) == 6
    assert looked.call_count == 1


def test_a_length_without_end_is_none():
    rows = pd.DataFrame({"run": ["a", "b"], "eval": "target", "loss": 2.5, "step": 10, "tokens": float("inf")})
    require_differences(rows, [], [])  # no OverflowError


def test_names_that_look_like_a_pattern_are_proposed(tmp_path):
    logs(tmp_path, **{"124M-p31-r25": [3.0, 2.5], "124M-p31-r50": [3.0, 2.8]})
    with refused(DataError, "--pattern", "'{n_params}-p{ptpp}-r{replay%}'"):
        cl.import_logs(tmp_path)
    assert len(cl.import_logs(tmp_path, pattern="{n_params}-p{ptpp}-r{replay%}")) == 4


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["run1", "run2"], None),
        (["lr1e-4_s0", "lr3e-4_s1"], "lr{lr_peak}_s{seed}"),
        (["cpt-1.4B-replay=0.25", "cpt-1.4B-replay=0.5"], "cpt-{n_params}-replay={replay}"),
        (["60M-en0-40Mtok", "60M-en10-1080Mtok"], "{n_params}-en{any1}-{any2}tok"),  # no number is cut in two
    ],
)
def test_patterns_of_names(names, pattern):
    assert pattern_of(names) == pattern


def test_a_table_of_settings_says_what_no_log_says(tmp_path):
    folder = logs(tmp_path / "logs", a=[3.0, 2.5], b=[3.0, 2.8])
    table = write(tmp_path / "settings.csv", "run,replay,n_params,data\na,10%,124M,x\nb,30%,124M,y\n")
    runs = cl.import_logs(folder, settings=table)
    assert cells(runs, "run", "replay", "n_params", "data")[::2] == [["a", 0.1, 124e6, "x"], ["b", 0.3, 124e6, "y"]]
    with refused(UsageError, "--settings", "'b'"):
        cl.import_logs(folder, settings=write(tmp_path / "one.csv", "run,replay\na,10%\n"))
    with refused(DataError, "row 3", "'a'"):
        cl.import_logs(folder, settings=write(tmp_path / "twice.csv", "run,replay\na,10%\na,20%\n"))


def test_settings_that_vary_are_kept_and_those_that_name_runs_are_listed(tmp_path):
    for run, share, loss in (("a", 0.1, 2.5), ("b", 0.3, 2.7), ("c", 0.5, 2.9)):
        rows = [{"step": 10, "eval_loss": loss}]
        history = {"global_step": 10, "log_history": rows}
        write(tmp_path / run / "trainer_state.json", history)
        write(tmp_path / run / "args.json", {"p_old": share, "learning_rate": 1e-4, "output_dir": f"out/{run}"})
    runs = cl.import_logs(tmp_path)
    assert cells(runs, "run", "p_old", "lr_peak") == [["a", 0.1, 1e-4], ["b", 0.3, 1e-4], ["c", 0.5, 1e-4]]
    assert "output_dir" not in runs.frame.columns
    said = " ".join(runs.notes)
    assert "'p_old' (0.1 to 0.5)" in said
    assert lacks(said, "'output_dir'") == []


@pytest.mark.parametrize("ends", [math.nan, 8.0])
def test_runs_that_end_without_a_number_or_collapse_are_left_out(tmp_path, ends):
    folder = logs(tmp_path, good=[3.0, 2.8, 2.7], lost=[3.0, 2.6, ends])
    runs = cl.import_logs(folder)
    assert set(runs.frame["run"]) == {"good"}
    assert any(not lacks(note, "1 of 2 runs", "'lost'") for note in runs.notes)
    kept = cl.import_logs(folder, all_runs=True, mapping={"loss:target": "eval_loss"}, pattern="{domain}")
    assert set(kept.frame["run"]) == {"good", "lost"}
    with refused(DataError, "lost"):
        cl.import_logs(folder / "lost.jsonl")


def test_forgetting_is_no_collapse(tmp_path):
    rows = [{"step": place, "eval_en_loss": 2.0 + place, "eval_fr_loss": 3.0 - place / 10} for place in range(3)]
    write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert len(cl.import_logs(tmp_path)) == 6


def test_one_run_that_goes_on_is_read_and_said(tmp_path):
    write(tmp_path / "export.csv", "Name,State,tokens,eval/fr_loss\na,running,1e6,2.5\n")
    runs = cl.import_logs(tmp_path / "export.csv")
    assert len(runs) == 1
    assert any(not lacks(note, "'a'", "running") for note in runs.notes)


def test_a_run_that_stops_early_is_said(tmp_path):
    history = {"global_step": 10, "max_steps": 100, "log_history": [{"step": 10, "eval_loss": 2.5}]}
    write(tmp_path / "a" / "trainer_state.json", history)
    assert any("10 of 100" in note for note in cl.import_logs(tmp_path).notes)


class TestTrainingLossesAlone:
    LOG = "".join(f"step:{step}/400 train_loss:{3.0 - step / 400 + (-1) ** step * 0.1:.4f}\n" for step in range(400))

    def test_what_to_switch_on_and_what_they_can_tell(self, tmp_path):
        write(tmp_path / "124M.log", self.LOG)
        with refused(DataError, "val_loss_every", "'loss:target=train loss'"):
            cl.import_logs(tmp_path)

    @pytest.mark.parametrize(
        ("file", "rows", "told"),
        [
            (
                "trainer_log.jsonl",
                [{"current_steps": k, "total_steps": 9, "loss": 3.0 - k / 9} for k in range(9)],
                "eval_on_each_dataset",
            ),
            (
                "logging.jsonl",
                [{"loss": 3.0 - k / 9, "global_step/max_steps": f"{k}/9"} for k in range(9)],
                "--val_dataset",
            ),
            ("tracker_metrics.jsonl", [{"summary": {"train/loss": 2.3, "_step": 10}, "config": {}}], "steps_per_eval"),
            ("trainer_state.json", [{"log_history": [{"step": 1, "loss": 3.0}], "global_step": 1}], "eval_dataset="),
        ],
        ids=["llamafactory", "ms-swift", "levanter", "trainer"],
    )
    def test_the_switch_is_that_of_the_trainer(self, tmp_path, file, rows, told):
        (tmp_path / file).write_text("\n".join(map(json.dumps, rows)))
        with pytest.raises(DataError) as raised:
            cl.import_logs(tmp_path)
        assert told in str(raised.value)

    def test_they_are_averaged_where_they_are_asked_for(self, tmp_path):
        write(tmp_path / "124M.log", self.LOG)
        runs = cl.import_logs(tmp_path, mapping={"loss:target": "train loss"}, batch_tokens=1000, pattern="{n_params}")
        assert len(runs) == 20
        expected = 3.0 - runs.frame["step"] / 400
        assert (runs.frame["loss"] - expected).abs().max() < 0.005  # of batches .1 up and down
        assert any("20 logged values" in note for note in runs.notes)


def test_bits_per_byte_count_where_no_loss_is_there(tmp_path):
    write(tmp_path / "a.log", FIRST + "Step 00250 | Validation bpb: 1.1\n")
    runs = cl.import_logs(tmp_path)
    assert cells(runs, "step", "loss", "metric") == [[0, 1.2, "bpb"], [250, 1.1, "bpb"]]
    assert "bits per byte" in str(runs)


def test_tokens_between_counts_lie_on_their_line(tmp_path):
    rows = [{"step": 10, "tokens_seen": 1000}, {"step": 15, "eval_loss": 2.5}, {"step": 20, "tokens_seen": 3000}]
    write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert cells(cl.import_logs(tmp_path), "step", "tokens") == [[15, 2000]]


def test_without_a_place_it_prints_what_was_understood(tmp_path, call):
    folder = logs(tmp_path, a=[3.0, 2.5])
    code, out, err = call("import", str(folder), "--set", "n_params=124M", "--batch-tokens", "64K")
    assert code == 0
    assert "124M" in out
    assert "tokens" in out
    assert "-o runs.csv" in err
    code, out, _ = call("import", str(folder), "--json")
    assert json.loads(out)["path"] is None


KEYS = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), min_size=1, max_size=12).map(str.strip)
DRAWN = st.sampled_from(
    ["rr", "alpha", "old_ratio", "data.en_frac", "p_old", "tok_per_param", "PT/N", "D_cpt", "budget", "r"]
)
ODD = st.sampled_from(
    ["metric", "loss", "mix_en", "N", "tokens", "phase", "Name", "eval", "value", "n_items", "replay"]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(KEYS, DRAWN, ODD).filter(bool), st.lists(st.floats(0.01, 1000), min_size=2, max_size=2, unique=True))
def test_no_setting_that_varies_is_dropped(key, values):
    """Whatever it is called: it is a column, under its name or as what it means, or a note lists it."""
    runs = [
        History(f"run{place}", Path("logs"), (Record(1.0, {"eval_loss": 2.0 + place}),), {key: value})
        for place, value in enumerate(values)
    ]
    try:
        frame, notes = assemble(runs, ImportOptions())
        read = cl.read_runs(frame).frame
    except DataError as error:
        assert repr(key)[1:-1] in str(error)  # noqa: PT017  refused, and told of
        return
    held = [name for name in frame.columns if frame[name].astype(str).nunique() == 2]
    assert set(held) - {"run", "loss"} or any(key in note for note in notes)
    assert len(read) == 2


def test_settings_whose_names_mean_something_else_in_a_row_are_set_apart(tmp_path):
    for run, rank, loss in (("a", 8, 2.5), ("b", 16, 2.7)):
        write(
            tmp_path / run / "trainer_state.json", {"global_step": 1, "log_history": [{"step": 1, "eval_loss": loss}]}
        )
        write(tmp_path / run / "args.json", {"r": rank, "mix_en": rank / 100})
    assert cells(cl.import_logs(tmp_path), "setting_r", "setting_mix_en") == [[8, 0.08], [16, 0.16]]
