"""Tables as people have them, kept under messy/: each is read as the truth, or ends in one question.

They were made for these tests from one law with noise: `truth.csv` is the same 72 runs as a runs table should be.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused

from cptlaw.cli import main
from cptlaw.errors import DataError
from cptlaw.runs import read_runs
from cptlaw.runs.points import read_points

MESSY = Path(__file__).parent / "messy"
INPUTS = ["n_params", "tokens", "replay", "ptpp", "lr_peak"]


def read_as_truth(name, **how):
    """Assert that a table is read as the truth, and return its runs."""
    runs, truth = read_runs(MESSY / name, **how), read_runs(MESSY / "truth.csv")
    of_point = ["run", "eval"]
    found, expected = (
        one.frame[[*of_point, "loss", *INPUTS]].astype(dict.fromkeys(of_point, str)).sort_values(of_point)
        for one in (runs, truth)
    )
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-6)
    return runs


# One row a table: its file, what the reader says of it, and the flag that its message asks for where it cannot be sure.
TABLES = [
    ("wandb_runs.csv", "'config.data.replay_pct' in percent", None),  # config.model.num_params, tpp, config.lr
    ("mlflow_runs.csv", "replay from 'params.replay'", None),
    ("nested.jsonl", "ptpp: pt_tokens / n_params", None),
    ("semicolons.csv", "decimal commas", None),
    ("thousands.csv", "marks within numbers", None),
    ("which_mark.csv", "marks within numbers", None),  # losses such as 3,055: no thousands
    ("perplexity.csv", "'target_ppl' is a perplexity, converted to nats", None),
    ("bits_per_byte.csv", "in bits per byte, converted to nats per byte", None),
    ("units_in_header.csv", "'Tokens (B)' in units of 1e9", None),
    ("camel_case.csv", "separated by tabs", None),
    ("rehearsal.csv", "'rehearsal_p' varies (0 to 0.5) and looks like replay", "replay=rehearsal_p"),
    ("which_corpus.csv", "'mix_ratio' varies (0 to 0.5) and looks like replay", "replay=mix_ratio"),
    ("shares_called_percent.csv", "called a percentage and holds 0.5 at most", "replay=replay_pct"),
]


@pytest.mark.parametrize(("name", "said", "flag"), TABLES, ids=[name for name, *_ in TABLES])
def test_a_messy_table_is_read_as_the_truth_or_ends_in_one_question(capsys, name, said, flag):
    """In two commands at most: nothing is fitted before the question, and its flag reads the table as the truth."""
    if flag is None:
        runs = read_as_truth(name) if name != "which_mark.csv" else read_runs(MESSY / name)
        assert any(said in note for note in runs.notes)
        assert ("nats per byte" if name == "bits_per_byte.csv" else "nats per token") in dict(runs.lines)["loss"]
        assert runs.frame["loss"].between(1.5, 6).all()
        return
    for words in (["fit", "--law", "chinchilla", "--on", "target"], ["answer", "--n-params", "1B"], ["check"]):
        with pytest.raises(SystemExit) as ended:
            main([words[0], str(MESSY / name), *words[1:]])
        assert ended.value.code == 2
        err = capsys.readouterr().err
        assert said in err
        assert f"--columns '{flag}'" in err
    column, _, place = flag.partition("=")
    read_as_truth(name, columns={column: place})


def test_a_column_that_is_not_what_it_looks_like_is_answered_with_one_value():
    frame = read_runs(MESSY / "rehearsal.csv", columns={"replay": "0"}).frame
    assert set(frame["replay"]) == {0.0}
    assert frame["rehearsal_p"].nunique() == 4


@pytest.mark.nightly
def test_an_answer_from_a_tracker_is_that_from_the_runs_table(capsys):
    asked = ["--n-params", "500M", "--ptpp", "100", "--tokens", "2B", "--max-forgetting", "10%", "--json"]
    found = []
    for name in ("truth.csv", "wandb_runs.csv"):
        with pytest.raises(SystemExit):
            main(["answer", str(MESSY / name), *asked])
        found.append(json.loads(capsys.readouterr().out))
    truth, wandb = found
    assert truth["replay"] is not None
    for key in ("feasible", "replay", "tokens", "forgetting", "source_loss", "target_loss_lo"):
        assert wandb[key] == pytest.approx(truth[key]), key


def fine_tuned(counts, **columns):
    frame = pd.DataFrame({"run": [f"r{i}" for i in range(len(counts))], "eval": "target", "loss": 3.0, **columns})
    return frame.assign(n_params=124e6, tokens=counts)


def test_tokens_of_a_fine_tuning_set_may_be_few_and_are_samples():
    runs = read_runs(fine_tuned([0, 200, 800, 3200]))
    assert runs.frame["tokens"].tolist() == [0, 200, 800, 3200]
    assert any(not lacks(note, "answer", "samples") for note in runs.notes)


@pytest.mark.parametrize(
    ("counts", "columns"),
    [
        ([0, 20, 100, 200], {}),  # billions
        ([0, 200, 1e9, 2e9], {}),  # a slip
        ([200, 800, 3200, 6400], {}),  # no base model: a ladder from scratch
        ([0, 200, 800, 3200], {"replay": 0.1}),
        ([0, 200, 800, 3200], {"ptpp": 20.0}),
    ],
)
def test_elsewhere_few_tokens_are_asked_about(counts, columns):
    with pytest.raises(DataError, match="at least 1000"):
        read_runs(fine_tuned(counts, **columns))


def test_samples_stand_for_tokens_where_the_table_has_none(capsys):
    runs = read_runs(MESSY / "samples.csv")
    assert runs.frame["tokens"].tolist() == [0, 200, 800, 0, 200, 800]
    assert any(not lacks(note, "answer", "samples") for note in runs.notes)
    counted = read_runs(MESSY / "samples.csv", columns={"batch_tokens": "512"})
    assert counted.frame["tokens"].max() == 800 * 512


def test_tokens_per_parameter_of_adaptation_are_no_budget():
    frame = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 1.9], "n_params": [1e8, 1e8], "tokens": [1e9, 4e9]})
    runs = read_runs(frame.assign(tpp=[10.0, 40.0]))
    assert "ptpp" not in runs.frame.columns
    assert any("'tpp'" in note for note in runs.notes)
    assert read_runs(frame.assign(tpp=[20.0, 300.0])).frame["ptpp"].tolist() == [20.0, 300.0]


def test_a_rate_that_holds_for_each_run_is_its_peak_rate():
    frame = pd.DataFrame(
        {"run": list("aabbccdd"), "loss": 2.0, "step": [1, 2] * 4, "replay": 0.1, "lr": np.repeat([1e-4, 2e-4] * 2, 2)}
    )
    assert read_runs(frame).frame["lr_peak"].tolist() == frame["lr"].tolist()
    assert "lr_peak" not in read_runs(frame.assign(lr=np.linspace(1e-4, 2e-4, 8))).frame
    assert "lr_peak" not in read_runs(frame.drop(columns="replay")).frame  # no CPT: a rate of some step


@pytest.mark.parametrize("name", ["lr_factor", "eval/tokens", "tokens_per_second", "notes", "n_params_ratio_x"])
def test_columns_that_only_sound_like_inputs_ask_nothing(name):
    frame = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 1.9], name: [0.1, 0.2]})
    assert name in read_runs(frame).frame.columns


def test_two_columns_that_may_be_the_same_input_are_asked_about():
    frame = pd.DataFrame({"run": ["a"], "loss": [2.0], "config.data.replay": [0.1], "args.train.replay": [0.2]})
    with refused(DataError, "--columns", "'replay=config.data.replay'"):
        read_runs(frame)


def test_points_to_forecast_are_read_alike():
    points, _ = read_points(pd.DataFrame({"config.n_params": ["1B"], "replay_pct": [25], "Tokens (B)": [2]}))
    assert points.to_dict("records") == [{"n_params": 1e9, "replay": 0.25, "tokens": 2e9}]
