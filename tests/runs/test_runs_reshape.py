"""Tables as people have them: wide ones, exports of trackers, budgets in tokens, tokens in steps."""

import pandas as pd
import pytest
from facts import lacks, refused

from cptlaw.errors import DataError, UsageError
from cptlaw.runs import layouts, read_runs, validate


def test_budget_follows_from_the_tokens_of_pretraining():
    table = pd.DataFrame(
        {"run": ["a", "b"], "N": ["1B", "2B"], "pretraining_tokens": ["20B", "20B"], "loss": [2.0, 1.9]}
    )
    runs = read_runs(table)
    assert runs.frame["ptpp"].tolist() == [20.0, 10.0]
    assert lacks(runs.notes, "pt_tokens", "n_params") == []


def test_a_budget_that_is_given_stays():
    table = pd.DataFrame(
        {"run": ["a", "b"], "N": [1e9, 1e9], "pt_tokens": [2e10, 2e10], "ptpp": [31.0, None], "loss": [2.0, 1.9]}
    )
    assert read_runs(table).frame["ptpp"].tolist() == [31.0, 20.0]


@pytest.mark.parametrize(
    "batch", [{"batch_tokens": [1e6, 1e6]}, {"global_batch_size": ["500", "500"], "seq_length": [2000, 2000]}]
)
def test_tokens_follow_from_steps(batch):
    runs = read_runs(pd.DataFrame({"run": ["a", "a"], "step": [0, 100], "loss": [2.0, 1.9], **batch}))
    assert runs.frame["tokens"].tolist() == [0.0, 1e8]


def test_tokens_that_nothing_tells_stay_unknown():
    both = {"batch_size": [8, 8], "global_batch_size": [64, 64], "seq_len": [1024, 1024]}
    assert (
        "tokens" not in read_runs(pd.DataFrame({"run": ["a", "a"], "step": [1, 2], "loss": [2.0, 1.9], **both})).frame
    )


def wide() -> pd.DataFrame:
    return pd.DataFrame(
        {"Name": ["a", "b"], "replay": [0.1, 0.5], "eval/en_loss": [2.0, 1.9], "eval/fr_loss": ["1.5", ""]}
    )


def test_wide_table_has_a_row_per_measured_loss():
    runs = read_runs(wide(), losses={"source": "eval/en_loss", "target": "eval/fr_loss"})
    rows = runs.frame[["run", "eval", "loss", "replay"]].astype(object).to_numpy().tolist()
    assert rows == [["a", "source", 2.0, 0.1], ["a", "target", 1.5, 0.1], ["b", "source", 1.9, 0.5]]
    assert runs.frame.index.tolist() == [0, 0, 1]  # messages name the row of the file


def test_wide_table_from_a_file_names_file_row_and_column(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("run,en,fr\na,2.0,many\n")
    with refused(DataError, "row 2", "'fr'", "'many'"):
        read_runs(path, losses={"source": "en", "target": "fr"})


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ({"x": "eval/em_loss"}, "no column 'eval/em_loss'.*Did you mean 'eval/en_loss'"),
        ({}, "expected a mapping"),
    ],
)
def test_wide_table_refuses(losses, message):
    with pytest.raises(UsageError, match=message):
        read_runs(wide(), losses=losses)


def test_a_long_table_is_not_wide():
    table = pd.DataFrame({"run": ["a"], "eval": ["target"], "loss": [2.0], "other": [1.0]})
    with refused(UsageError, "'eval'"):
        read_runs(table, losses={"x": "other"})


def test_a_wide_table_is_read_as_one_where_it_plainly_is():
    runs = read_runs(wide())
    assert runs.evals == ("en", "fr")
    assert any(not lacks(note, "en, fr", "--losses") for note in runs.notes)
    with refused(DataError, "--losses", "en=eval/en_loss"):  # one column may be anything
        read_runs(wide().drop(columns="eval/fr_loss"))


def test_name_is_a_run_only_where_nothing_else_is():
    table = pd.DataFrame({"Name": ["x"], "run": ["a"], "loss": [2.0]})
    assert read_runs(table).frame["run"].tolist() == ["a"]


def test_tokens_of_training_are_those_of_cpt():
    table = pd.DataFrame({"run": ["a", "a"], "train_tokens": ["0.2B", "1B"], "loss": [2.0, 1.9]})
    assert read_runs(table).frame["tokens"].tolist() == [2e8, 1e9]


def test_a_wide_table_may_name_its_evals_behind_the_word_loss():
    table = pd.DataFrame({"run": ["a"], "loss_en": [2.0], "loss_fr": [1.5], "loss_std": [0.1], "acc_mmlu": [0.4]})
    runs = read_runs(table)
    assert runs.evals == ("en", "fr")
    assert any("--scores mmlu=acc_mmlu" in note for note in runs.notes)
    olmo = pd.DataFrame(
        {"run": ["a"], "c4-validation/CrossEntropyLoss": [2.0], "pile-validation/CrossEntropyLoss": 1.9}
    )
    assert read_runs(olmo).evals == ("c4", "pile")


def test_a_missing_loss_names_the_one_column_that_it_may_be_and_not_a_hundred():
    one = pd.DataFrame({"run": ["a"], "paloma_loss_best": [2.0], "n_params": [1e8]})
    with refused(DataError, "--columns", "'loss=paloma_loss_best'"):
        read_runs(one)
    with pytest.raises(DataError, match="'c15' and 86 more") as said:
        read_runs(pd.DataFrame({f"c{i}": [1.0] for i in range(102)}))
    assert len(str(said.value)) < 700
    amounts = pd.DataFrame({"model": ["a"], "200000": [4.2], "400000": [4.1], "800000": [4.0], "size": ["1B"]})
    runs = read_runs(amounts)
    assert runs.frame["tokens"].tolist() == [2e5, 4e5, 8e5]
    assert (runs.frame["run"].unique().tolist(), set(runs.frame["n_params"])) == (["a"], {1e9})


def test_amounts_too_small_for_tokens_are_samples():
    table = pd.DataFrame({"model": ["a", "b"], "0": [4.9, 4.8], "200": [4.2, 4.1], "400": [4.1, None]})
    runs = read_runs(table)
    assert runs.frame["samples"].tolist() == runs.frame["tokens"].tolist() == [0, 200, 400, 0, 200]
    assert any("in samples" in note for note in runs.notes)
    assert read_runs(table, columns={"batch_tokens": "512"}).frame["tokens"].max() == 400 * 512


def test_shares_joined_in_one_column_are_named_after_the_evals_that_they_serve():
    rows = []
    for web in (0.25, 0.5, 0.75):
        for step in (1000, 2000):
            losses = {"code": 2 + 0.2 * web - step * 1e-4, "web": 3 - 0.3 * web - step * 1e-4}
            rows += [{"mix": f"{1 - web}/{web}", "step": step, "domain": name, "loss": losses[name]} for name in losses]
    table = pd.DataFrame(rows).rename(columns={"mix": "data"})
    runs = read_runs(table, columns={"batch_tokens": "1M"})
    assert runs.corpora == ("code", "web")
    assert runs.frame["run"].nunique() == 3
    half = runs.frame[runs.frame["data"] == "0.75/0.25"]
    assert set(half["mix_code"]) == {0.75}
    # Losses that move with no share by its name tell nothing: nothing is guessed then.
    blind = read_runs(table.assign(loss=[3 + 0.1 * i for i in range(len(table))]))
    assert blind.corpora == ()
    assert any("mix_NAME" in note for note in blind.notes)


def test_checkpoints_without_a_run_are_those_of_the_runs_that_their_settings_name():
    table = pd.DataFrame(
        {"model": ["a", "a", "b", "b"], "eval": "target", "step": [1, 2, 1, 2], "loss": [3.0, 2.9, 2.8, 2.7]}
    )
    runs = read_runs(table)
    assert runs.frame["run"].tolist() == ["a", "a", "b", "b"]
    assert lacks(runs.notes, "'run'", "'model'") == []


@pytest.mark.parametrize("name", ["weight_{}", "{}_share", "ratio/{}"])
def test_shares_that_add_up_to_one_are_those_of_the_mix(name):
    table = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 1.9], "tokens": [1e9, 1e9]})
    shares = {name.format("code"): [0.3, 0.5], name.format("web"): [0.7, 0.5]}
    runs = read_runs(table.assign(**shares))
    assert runs.corpora == ("code", "web")
    assert runs.frame["mix_code"].tolist() == [0.3, 0.5]
    assert any("mix_code from" in note for note in runs.notes)
    others = {column: [0.3, 0.4] for column in shares}  # weights of something else
    assert read_runs(table.assign(**others)).corpora == ()


def test_domains_name_evals_where_rows_have_no_run_too():
    table = pd.DataFrame({"n_params": [1e8] * 4, "tokens": [1e9, 1e9, 2e9, 2e9], "domain": ["en", "fr"] * 2})
    assert read_runs(table.assign(loss=[2.0, 1.5, 1.9, 1.4])).evals == ("en", "fr")
    pooled = table.assign(tokens=[1e9, 2e9, 3e9, 4e9], loss=[2.0, 1.5, 1.9, 1.4])
    assert read_runs(pooled).evals == ("target",)


def test_steps_of_cpt_count_from_where_it_began():
    rows = [("a", "pretrain", 1000, 3.0), ("a", "pretrain", 2000, 2.9), ("a", "cpt", 2000, 3.4)]
    rows += [("a", "cpt", 2500, 2.8), ("b", "cpt", 100, 2.9)]
    table = pd.DataFrame(rows, columns=["run", "phase", "step", "loss"]).assign(batch_tokens=1e6)
    runs = read_runs(table)
    assert runs.frame["tokens"].fillna(-1).tolist() == [-1, -1, 0, 5e8, 1e8]
    assert any("phase cpt" in note for note in runs.notes)


def test_no_eval_is_named_by_half_a_character():
    frame = pd.DataFrame({"run": ["a", "b"], "tokens": [1e9, 2e9], "here": [2.0, 1.9]})
    with pytest.raises(UsageError, match="half a character"):
        read_runs(frame, losses={"\ud800": "here"})


def test_braces_in_names_are_names(tmp_path):
    """They were read as places to fill: a traceback."""
    (tmp_path / "r{x}.csv").write_text("run,tokens,a,b\nr,1,2.5,2.4\n")
    for how in ({"losses": {"target": "{y}"}}, {"losses": {"{}": "c"}}, {"columns": {"ignore": "{z}"}}):
        with pytest.raises(UsageError, match=r"r\{x\}.csv has no column"):
            read_runs(tmp_path / "r{x}.csv", **how)


@pytest.mark.parametrize("name", ["base_tokens", "config.base_tokens", "tokens_base"])
def test_tokens_of_the_base_model_give_its_budget(name):
    """One base model for all runs: its column never varies, so that nothing would ask what it is."""
    table = pd.DataFrame({"run": [*"abcd"], "n_params": 1e8, "tokens": [1e8, 2e8] * 2, "loss": [2.0, 1.9, 2.1, 1.8]})
    runs = read_runs(table.assign(**{name: "3B"}))
    assert runs.frame["ptpp"].tolist() == [30.0] * 4
    assert any(repr(name) in note for note in runs.notes)
    # Fewer than the run saw: the old part of the mix, or in another unit.
    assert "ptpp" not in read_runs(table.assign(**{name: 3.0})).frame
    part = read_runs(table.assign(**{name: table["tokens"] / 4}))
    assert "ptpp" not in part.frame
    # What the table says itself stays.
    assert read_runs(table.assign(**{name: 3e9, "ptpp": 20.0})).frame["ptpp"].tolist() == [20.0] * 4


def test_runs_of_different_halves_of_a_character_stay_apart(tmp_path):
    """A trainer cut their names in the middle of a character: both became one run."""
    (tmp_path / "log.jsonl").write_text(
        '{"run": "x\\ud83d", "tokens": "1B", "loss": 2}\n{"run": "x\\ud83e", "tokens": "2B", "loss": 3}\n'
    )
    assert read_runs(tmp_path / "log.jsonl").frame["run"].tolist() == ["x\\ud83d", "x\\ud83e"]


def test_columns_of_many_cells_are_gone_through_by_their_different_texts(monkeypatch):
    asked = []
    monkeypatch.setattr(layouts, "_is_missing", lambda cell: asked.append(cell) or cell is None or cell != cell)
    monkeypatch.setattr(validate, "to_text", lambda cells, made=validate.to_text: asked.extend(cells) or made(cells))
    frame = pd.DataFrame({"run": [f"r{i}" for i in range(200)], "eval": "target", "loss": "2.5 ± 0.1", "tokens": 1e6})
    frame = frame.assign(replay=[i / 200 for i in range(200)], **{f"note {i}": ["a", None] * 100 for i in range(30)})
    runs = read_runs(frame)
    assert (runs.frame["loss"] == 2.5).all()
    assert len(asked) < 3 * len(frame)  # names of runs and evals, each once; no cell of the notes
    assert not [cell for cell in asked if str(cell).startswith("row-")]
