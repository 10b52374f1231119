"""Logs of other trainers, small ones in the true formats, sound and broken."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from log_files import cells, trainer_state, write

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import CptlawError, DataError
from cptlaw.importing import Reader, patterns, reader, readers
from cptlaw.importing.history import History, Record
from cptlaw.importing.names_of_losses import eval_of, is_eval_loss

# -- Hugging Face Trainer ------------------------------------------------------------------------------------------


@pytest.fixture
def outputs(tmp_path):
    for name, offset in (("124M-p31-r25", 0.0), ("1.4B-p31-r50", 0.1)):
        write(tmp_path / name / "checkpoint-200" / "trainer_state.json", trainer_state([100, 200], offset))
        write(tmp_path / name / "trainer_state.json", trainer_state([100, 200, 400], offset))
        write(tmp_path / name / "config.json", {"model_type": "gpt2", "n_layer": 12, "seed": 7})
    write(tmp_path / "124M-p31-r25" / "runs" / "x" / "events.out.tfevents.1700000000.host.1.0", "not read")
    return tmp_path


def test_trainer_states_become_runs(outputs):
    runs = cl.import_logs(
        outputs,
        pattern="{n_params}-p{ptpp}-r{replay%}",
        mapping={"loss:target": "eval_fr_loss", "loss:source": "eval_en_loss"},
        batch_tokens="64K",
        config={"seed": "seed"},
    )
    assert len(runs) == 12
    assert runs.evals == ("source", "target")
    assert set(runs.frame["n_params"]) == {124e6, 1.4e9}
    assert set(runs.frame["replay"]) == {0.25, 0.5}
    assert set(runs.frame["seed"]) == {7}
    assert set(runs.frame["lr"]) == {3e-4}
    target = runs.on("target").where("run == '124M-p31-r25'")
    assert cells(target, "step", "tokens", "loss") == [[100, 6.4e6, 2.9], [200, 12.8e6, 2.8], [400, 25.6e6, 2.6]]
    assert lacks(runs.notes[0], "4 files", "2 runs") == []
    assert any("not read: tensorboard" in note for note in runs.notes)


def test_losses_are_recognised_and_tokens_taken_from_the_log(outputs):
    runs = cl.import_logs(outputs / "124M-p31-r25" / "trainer_state.json", constants={"n_params": "124M"})
    assert runs.evals == ("en", "fr")
    assert set(runs.frame["run"]) == {"124M-p31-r25"}
    assert cells(runs.on("fr"), "tokens") == [[409600], [819200], [1638400]]
    assert any("eval_fr_loss as eval 'fr'" in note for note in runs.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"global_step": 10, "log_history": [{"step": 1', "truncated or not JSON"),
        ({"global_step": 10}, "no list 'log_history'"),
        ({"log_history": [{"eval_loss": 2.0}]}, "entry 0 of log_history has no step"),
        ({"log_history": [{"loss": 2.0, "step": 5}]}, "no loss of a validation set"),
        ("", "the file is empty"),
    ],
)
def test_broken_trainer_states(tmp_path, content, said):
    path = write(tmp_path / "run" / "trainer_state.json", content)
    with pytest.raises(DataError, match=said) as raised:
        cl.import_logs(tmp_path)
    assert str(path) in str(raised.value) or str(path.parent) in str(raised.value)


# -- tables --------------------------------------------------------------------------------------------------------


def test_wide_tables(tmp_path):
    write(
        tmp_path / "a.csv",
        "step,eval/fr_nll,eval/en_nll,opt/lr,seen,n_params\n0,3.1,2.0,,0,124M\n100,2.9,2.1,1e-3,1M,124M\n",
    )
    runs = cl.import_logs(
        tmp_path / "a.csv",
        mapping={"loss:target": "eval/fr_nll", "loss": "eval/en_nll", "tokens": "seen", "lr": "opt/lr"},
    )
    assert runs.evals == ("en", "target")
    assert cells(runs.on("target"), "run", "loss", "tokens", "n_params") == [
        ["a", 3.1, 0, 124e6],
        ["a", 2.9, 1e6, 124e6],
    ]
    assert cells(runs.on("target"), "lr")[1] == [1e-3]


def test_json_lines_of_several_runs(tmp_path):
    lines = [{"run": run, "step": 10, "metrics": {"val_loss": loss}} for run, loss in (("a", 2.5), ("b", 2.52))]
    write(tmp_path / "m.jsonl", "\n".join(map(json.dumps, lines)))
    assert cells(cl.import_logs(tmp_path), "run", "loss") == [["a", 2.5], ["b", 2.52]]
    write(tmp_path / "m.jsonl", '{"step": 1}\n[1]\n{"step": 2}')
    with refused(DataError, "row 2", "'[1]'"):
        cl.import_logs(tmp_path)


def test_a_runs_table_comes_back_as_it_is(tmp_path):
    pilot = cl.examples.load("en-fr-pilot").where("n_params == 45936 and lr_schedule == 'constant' and ptpp == 15")
    path = tmp_path / "runs.csv"
    pilot.frame.to_csv(path, index=False)
    again = cl.import_logs(path)
    key = ["run", "eval", "tokens"]
    shared = [*key, "loss", "n_params", "replay", "ptpp", "seed", "lr_schedule"]
    one, two = (runs.frame[shared].sort_values(key, ignore_index=True).astype(str) for runs in (pilot, again))
    pd.testing.assert_frame_equal(one, two)


# -- what holds for all --------------------------------------------------------------------------------------------


def test_nothing_recognised_tells_what_was_looked_for(tmp_path):
    write(tmp_path / "notes.txt", "nothing of interest")
    with refused(DataError, str(tmp_path)) as raised:
        cl.import_logs(tmp_path)
    for kind in readers():
        assert kind.looks_for in str(raised.value)
    assert "Traceback" not in str(raised.value)
    with refused(DataError, "absent"):
        cl.import_logs(tmp_path / "absent")
    with refused(DataError, "NeMo log"):
        cl.import_logs(tmp_path, log_format="nemo")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mapping": {"loss:x": "eval_de_loss"}}, "no metric 'eval_de_loss' in the logs. Did you mean 'eval_"),
        ({"mapping": {"n_param": "x"}}, "'n_param' is not a column of a runs table. Did you mean 'n_params'"),
        ({"constants": {"n_params": "many"}}, "'many' is not a number"),
        ({"constants": {"loss": "2"}}, "'loss' is not a column"),
        ({"pattern": "{n_params}-x{ptpp}"}, "does not fit --pattern"),
        ({"pattern": "no braces"}, "holds no column in braces"),
        ({"pattern": "{seed}-{seed}"}, "names a column twice"),
        ({"batch_tokens": "-1"}, "expected a number above 0"),
        ({"batch_tokens": "1M", "seq_length": "2K"}, "give --batch-tokens .* or --seq-length"),
        ({"log_format": "trainers"}, "no such format. Did you mean 'trainer'"),
        ({"output": "runs.xlsx"}, "expected a file ending in .csv"),
        ({"output": "absent/runs.csv"}, "the folder absent does not exist"),
    ],
)
def test_options_that_cannot_be_used(outputs, options, said):
    with pytest.raises(CptlawError, match=said):
        cl.import_logs(outputs, **options)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_what_is_written_reads_back(outputs, tmp_path, ending):
    path = tmp_path / f"table{ending}"
    runs = cl.import_logs(outputs, path, pattern="{n_params}-p{ptpp}-r{replay%}", batch_tokens="64K")
    again = cl.read_runs(path)
    assert again.fingerprint == runs.fingerprint
    assert runs.path == path
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~umask())
    assert [other.name for other in tmp_path.iterdir() if other.name.endswith(".part")] == []


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_import_leaves_the_old_table(outputs, tmp_path):
    old = "run,eval,loss\nold,target,2.5\n"
    path = write(tmp_path / "runs.csv", old)
    write(outputs / "124M-p31-r25" / "trainer_state.json", "{")
    with pytest.raises(DataError):
        cl.import_logs(outputs, path)
    assert path.read_text() == old


def test_the_command_line(outputs, tmp_path, capsys):
    table = tmp_path / "runs.csv"
    arguments = ["import", str(outputs), "-o", str(table), "--pattern", "{n_params}-p{ptpp}-r{replay%}"]
    arguments += ["--map", "loss:target=eval_fr_loss,loss:source=eval_en_loss", "--batch-tokens", "64K"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--set", "lr_schedule=cosine", "--json"])
    assert not ended.value.code
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["rows"], found["runs"], found["evals"]) == (12, 2, ["source", "target"])
    assert "Hugging Face Trainer" in printed.err
    with pytest.raises(SystemExit) as ended:
        main([*arguments[:-4], "--map", "loss"])
    assert ended.value.code == 2
    assert lacks(capsys.readouterr().err, "loss:EVAL=METRIC") == []
    fitted = cl.read_runs(table)
    assert np.isfinite(fitted.frame["loss"]).all()


def test_a_reader_registers_itself_and_is_held_against_sources_in_its_turn(tmp_path, monkeypatch, capsys):
    known = dict(reader._KINDS)
    monkeypatch.setattr(reader, "_KINDS", known)

    class Diary(Reader):
        name, title, looks_for, order = "diary", "diary", "*.diary", 65

        def find(self, source):
            return sorted(source.glob("*.diary"))

        def read(self, found, source):
            losses = {"eval_fr_loss": 2.5}
            return [History(path.stem, path, (Record(100.0, losses),)) for path in found]

    names = [kind.name for kind in readers()]
    assert names[names.index("tensorboard") :][:3] == ["tensorboard", "diary", "megatron"]
    write(tmp_path / "124M.diary", "dear diary")
    command = ["import", str(tmp_path), "-o", str(tmp_path / "runs.csv"), "--pattern", "{n_params}", "--batch-tokens"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "4K"])
    assert not ended.value.code
    assert "read as diary" in capsys.readouterr().err
    assert cl.read_runs(tmp_path / "runs.csv").frame["loss"].tolist() == [2.5]
    with pytest.raises(SystemExit) as ended:
        main([*command, "4K", "--format", "dairy"])
    assert lacks(capsys.readouterr().err, "'diary'") == []


@pytest.mark.parametrize(
    ("metric", "counts", "name"),
    [
        ("eval_loss", True, "validation"),
        ("eval/wikitext-fr/loss", True, "wikitext_fr"),
        ("validation_metrics/loss", True, "validation"),
        ("val_loss_dataloader_idx_1", True, "dataloader_idx_1"),
        ("lm loss validation vs samples", False, None),
        ("lm loss validation ppl", False, None),
        ("train_loss", False, None),
        ("loss", False, None),
        ("eval_load_balancing_loss", False, None),
    ],
)
def test_names_of_losses(metric, counts, name):
    assert is_eval_loss(metric) is counts
    if counts:
        assert eval_of(metric) == name


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["-", "", "a", "p"]), min_size=2, max_size=4),
    st.text("ap-/1", max_size=8),
    st.booleans(),
)
def test_names_are_cut_as_by_a_regular_expression(literals, name, is_any):
    names = [f"any{place}" if is_any and place % 2 else f"f{place}" for place in range(len(literals) - 1)]
    pattern = literals[0] + "".join(f"{{{field}}}{literal}" for field, literal in zip(names, literals[1:], strict=True))
    inner = [f"(?P<{field}>{'.*?' if field.startswith('any') else '[^/]+?'})" for field in names]
    expression = literals[0] + "".join(part + literal for part, literal in zip(inner, literals[1:], strict=True))
    expected = re.fullmatch(expression, name, re.DOTALL)
    assert patterns.match_pattern(pattern, name) == (expected and expected.groupdict())


def test_a_long_name_of_a_run_is_cut_at_once():
    pattern = "-".join(f"{{any{place}}}" for place in range(9)) + "x"
    assert patterns.match_pattern(pattern, "-" * 4000) is None


class TestOddSources:
    def test_an_empty_file_beside_logs_is_passed_over(self, tmp_path):
        write(tmp_path / "empty.log", "")
        write(tmp_path / "odd.txt", "x")
        write(tmp_path / "metrics.csv", "step,eval_loss\n1,2.5\n")
        assert len(cl.import_logs(tmp_path, constants={"n_params": "1M"})) == 1

    @pytest.mark.parametrize("content", ["", "x", "{", "[", "\n", "\0", "step", "1,2", "\xff"])
    @pytest.mark.parametrize(
        "name", ["a.csv", "a.jsonl", "a.log", "a", "trainer_state.json", "wandb-history.jsonl", "events.out.tfevents.1"]
    )
    def test_a_short_file_is_one_message(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        for source in (tmp_path / name, tmp_path):
            with pytest.raises(CptlawError):
                cl.import_logs(source, log_format=None)

    @pytest.mark.parametrize("value", ["9" * 400, "1e999", "-1", "NaN", "[[[]]]", '"x"', "{}", "9" * 5000])
    def test_odd_values_in_logs_are_left_out_or_told(self, tmp_path, value):
        write(tmp_path / "a.jsonl", f'{{"step": 1, "eval_loss": 2.5}}\n{{"step": {value}, "eval_loss": {value}}}\n')
        try:
            assert len(cl.import_logs(tmp_path)) in (1, 2)
        except CptlawError as error:
            assert len(str(error)) < 2000  # noqa: PT017  either is right

    def test_nested_logs_end(self, tmp_path):
        write(tmp_path / "a.jsonl", '{"step": 1, "eval_loss": 2.5, "x": ' + "[" * 5000 + "]" * 5000 + "}\n")
        with pytest.raises(DataError, match="nested more than"):
            cl.import_logs(tmp_path)

    def test_logs_with_endless_lines_are_read(self, tmp_path):
        for piece in ("validation loss at ", "| ", "a", "1", "global_step: ", "step: 1 loss: ", "x: 1", " on"):
            line = "validation loss at iteration 1 | lm loss value: 2.5E+00 | "
            write(tmp_path / "a.log", (piece * (200_000 // len(piece)) + "\n") * 3 + line + "\n")
            assert len(cl.import_logs(tmp_path)) == 1  # quadratic it would be minutes


def test_a_table_that_somebody_wrote_into_is_kept(outputs, tmp_path):
    place = tmp_path / "runs.csv"
    how = {
        "mapping": {"loss:target": "eval_fr_loss"},
        "batch_tokens": "64K",
        "pattern": "{n_params}-p{ptpp}-r{replay%}",
    }
    first = cl.import_logs(outputs / "124M-p31-r25", place, **how)
    assert cl.import_logs(outputs, place, **how).path == place  # the same logs and more
    text = place.read_text()
    header, row = text.split("\n")[:2]
    cells = dict(zip(header.split(","), row.split(","), strict=True)) | {"run": "by-hand"}
    by_hand = text + ",".join(cells.values()) + "\n"
    place.write_text(by_hand)
    runs = cl.import_logs(outputs, place, **how)
    assert runs.path == tmp_path / "runs-2.csv"
    assert place.read_text() == by_hand
    assert any(not lacks(note, str(place), "runs-2.csv") for note in runs.notes)
    assert cl.import_logs(outputs, place, force=True, **how).path == place
    assert len(first) < len(runs)


def test_settings_are_read_under_the_names_that_people_give_them(tmp_path):
    """As columns of tables are: dotted, prefixed, in percent; no seed of a place, and none of two alike."""
    from cptlaw.importing.history import History
    from cptlaw.importing.options import ImportOptions
    from cptlaw.importing.run_settings import Settings, keys_of

    config = {"model.n_params": "75072", "replay_pct": "25", "base.ptpp": 62, "data.seed": 3}
    config |= {"a.lr_peak": 1, "b.lr_peak": 2}
    history = History("a", tmp_path, (), config=config)
    assert set(keys_of(history)) == {"n_params", "replay", "ptpp"}
    assert Settings([history], ImportOptions()).of(history) == {"n_params": "75072", "replay": 0.25, "ptpp": 62}
    exact = History("a", tmp_path, (), config={**config, "n_params": 5, "seed": 1})
    read = Settings([exact], ImportOptions()).of(exact)
    assert read | {"n_params": 5, "seed": 1} == read
