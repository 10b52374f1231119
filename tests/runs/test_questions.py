"""What is asked of columns that are read as nothing, and that no choice is absurd."""

import importlib
import itertools

import numpy as np
import pandas as pd
import pytest
from facts import lacks

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.runs import Question, UnreadColumnError, evidence, questions, refuse_unread


def table(rows, **columns):
    return pd.DataFrame(rows, columns=["x", "y", "source_loss"]).assign(n_params=6e6, lr_peak=3e-4, **columns)


def choices(frame, **how):
    return {one.name: one.choices for one in cl.read(frame, **how).open}


def test_a_setting_that_no_law_reads_is_first_ignored_or_kept_at_one_value():
    """A weight that lowers the source loss is no number of tokens."""
    rows = [(x, y, 3.4 - 0.1 * x + 0.001 * y) for x in (0.01, 0.1, 1.0, 3.0) for y in range(3)]
    frame = table(rows).rename(columns={"x": "kl_coeff", "y": "seed"})
    (asked,) = cl.read(frame, losses={"source": "source_loss"}).open
    assert asked.choices[0] == "ignore=kl_coeff"
    assert "--where 'kl_coeff == 0.01'" in asked.question


def test_whole_numbers_from_0_along_a_run_may_be_steps():
    rows = [(n, m, 2.2 + 0.001 * n, 4.8 - 0.02 * n - m / 10) for n in range(0, 100, 4) for m in (0, 1)]
    frame = pd.DataFrame(rows, columns=["look", "m", "source_loss", "target_loss"])
    frame = frame.assign(method=frame.pop("m").map({0: "full", 1: "lora"}), n_params=2e8, lr_peak=1e-5)
    assert choices(frame)["look"][0] == "step=look"
    runs = cl.read_runs(frame, columns={"step": "look", "batch_tokens": "512K"})
    assert runs.frame["run"].nunique() == 2
    assert runs.frame["tokens"].max() == 96 * 512e3


@pytest.mark.parametrize("evals", [("source", "target"), ("source",), ("target",)])
@pytest.mark.parametrize("share", ["old", "new"])
def test_losses_tell_a_share_of_the_old_corpus_from_one_of_the_new(share, evals):
    """Replay keeps the source loss low, and the target loss pays for it: each loss tells, and both together."""
    cells = itertools.product((20e6, 60e6), (0.1, 0.2, 0.3, 0.4), (1e7, 2e7, 4e7))
    sign = 1.0 if share == "old" else -1.0
    rows = [
        (name, n, x, d, 3.0 - 0.02 * d / 1e7 + sign * x * {"source": -0.8, "target": 0.5}[name])
        for name, (n, x, d) in itertools.product(evals, cells)
    ]
    frame = pd.DataFrame(rows, columns=["eval", "n_params", "x", "tokens", "loss"]).assign(ptpp=20)
    assert choices(frame)["x"][:2] == (("replay=x", "replay=1-x") if share == "old" else ("replay=1-x", "replay=x"))


@pytest.mark.parametrize("name", ["total_steps", "by_name"])
def test_how_long_runs_are_is_told_by_their_rows(name):
    """It was proposed as ptpp: runs of another length have another schedule, and other losses at the same tokens."""
    cells = itertools.product((20e6, 60e6), (0.0, 0.2, 0.5), (400, 800, 1600), (0.25, 0.5, 1.0))
    rows = [(f"cpt-{n / 1e6:g}M-{r}-{d / 10:g}Mtok", n, r, d, int(part * d)) for n, r, d, part in cells]
    frame = pd.DataFrame(rows, columns=["run", "n_params", "replay", "total_steps", "step"]).assign(eval="target")
    frame["loss"] = 4.0 - 0.1 * (frame["step"] / 100) ** 0.5 + 0.1 * frame["replay"] + frame["total_steps"] / 1e4
    frame["tokens"] = 1e5 * frame["step"]
    if name == "by_name":
        frame = frame.drop(columns="total_steps")
    assert cl.read(frame).open == ()


def test_too_few_to_be_tokens_of_the_model_are_steps():
    frame = table([(x, y, 3.4 - y * 1e-6) for x, y in enumerate((3000, 9000, 30000, 200000) * 3)])
    frame = frame.assign(n_params=6e8).rename(columns={"x": "z"})
    assert choices(frame, losses={"target": "source_loss"})["y"] == ("step=y", "ignore=y")


def test_a_column_in_which_base_models_differ_is_no_schedule_of_cpt():
    cells = itertools.product((20e6, 60e6), ("cosine", "wsd"), (1e-4, 2e-4, 4e-4, 8e-4, 16e-4))
    rows = [
        (n, kind, rate, 3.6 + 100 * rate + 0.2 * (kind == "wsd"), 2.0 - 20 * rate, 3.5 + 0.2 * (kind == "wsd"))
        for n, kind, rate in cells
    ]
    names = ["n_params", "base_kind", "lr_peak", "source_loss", "target_loss", "base_source_loss"]
    frame = pd.DataFrame(rows, columns=names).assign(tokens=1e7, ptpp=200)
    assert choices(frame)["base_kind"] == ("method=base_kind", "domain=base_kind", "ignore=base_kind")


def test_of_two_columns_no_input_is_proposed_twice():
    cells = itertools.product((20e6, 60e6), ("a", "b"), ("x", "y"), (1e7, 2e7, 4e7))
    rows = [(n, one, two, d, 3 + 0.2 * (one == "a") + 0.1 * (two == "y") - d / 1e9) for n, one, two, d in cells]
    frame = pd.DataFrame(rows, columns=["n_params", "one", "two", "tokens", "loss"]).assign(eval="target")
    with pytest.raises(UnreadColumnError) as refused:
        refuse_unread(cl.read_runs(frame))
    assert lacks(str(refused.value), "--columns", "'method=one,domain=two'") == []


@pytest.mark.parametrize("state", ["crashed", "Failed", "running"])
def test_runs_that_did_not_finish_are_left_out_by_their_state(state):
    frame = pd.DataFrame({"run": list("abc"), "loss": [2.5, 2.4, 7.0], "State": ["finished", "finished", state]})
    runs = cl.read_runs(frame)
    assert len(runs) == 2
    assert any(not lacks(note, "1 rows", "'State'") for note in runs.notes)


def test_few_rows_without_a_loss_are_left_out_of_many_and_complained_of_among_few():
    frame = pd.DataFrame({"run": [f"r{n}" for n in range(40)], "loss": [None, *[2.5 - n / 100 for n in range(39)]]})
    runs = cl.read_runs(frame)
    assert len(runs) == 39
    assert lacks(runs.notes, "1 loss ", "'nothing'") == []
    with pytest.raises(cl.errors.DataError):
        cl.read_runs(frame.head(6))


def test_names_of_steps_batches_and_last_losses_are_known():
    frame = pd.DataFrame({"run": list("ab"), "iters": [100, 200], "tokens_per_step": 1e5, "final_val_loss": [2.5, 2.4]})
    runs = cl.read_runs(frame)
    assert runs.frame["tokens"].tolist() == [1e7, 2e7]
    assert runs.frame["loss"].tolist() == [2.5, 2.4]


def test_no_filter_is_proposed_that_cannot_be_read():
    rows = [(x, y, 3.4 - 0.1 * x + 0.001 * y) for x in (0.01, 0.1, 1.0, 3.0) for y in range(3)]
    frame = table(rows).rename(columns={"x": "weight %", "y": "seed"})
    (asked,) = cl.read(frame, losses={"source": "source_loss"}).open
    assert "--where" not in asked.question


def test_the_first_of_several_choices_for_an_input_is_proposed():
    tokens = Question("d", "What is d?", ("tokens=d:B", "tokens=d:M", "ignore=d"), "", True)
    share = Question("r", "What is r?", ("replay=r%", "replay=1-r%", "ignore=r"), "", True)
    last = str(UnreadColumnError("runs.csv", (tokens, share))).splitlines()[-1]
    assert last.endswith("--columns 'tokens=d:B,replay=r%'")


def test_a_table_is_asked_about_once_and_again_where_it_has_another_column(monkeypatch):
    runs, made = cl.examples.load("en-fr-pilot"), []
    questions = importlib.import_module("cptlaw.runs.questions")
    whole = questions._questions
    monkeypatch.setattr(questions, "_questions", lambda *asked: made.append(asked) or whole(*asked))
    for law in ("chinchilla", "ptpp-floor", "dcpt-l3"):
        cl.check(law, runs, on="target")
    cl.check("chinchilla", runs, on="target", where="replay > 0")
    assert [where for _, where in made] == [None, "replay > 0"]
    runs.frame["weight"] = runs.frame["replay"] * 2.0
    questions.questions(runs)
    assert len(made) == 3


def test_what_many_columns_say_is_compared_in_one_pass(monkeypatch):
    """An export of a tracker has hundreds; each beside each other took hours of ten thousand."""
    rng = np.random.default_rng(3)
    frame = cl.examples.load("en-fr-pilot").where("ptpp == 31 and tokens > 0").frame.astype({"run": str})
    decayed = frame.assign(run=frame["run"] + " decayed", loss=1.1 * frame["loss"])
    rows = pd.concat([frame.assign(decay=0.0), decayed.assign(decay=0.1)], ignore_index=True)
    many = {f"metric {place}": rng.integers(0, 4, len(rows)) for place in range(150)}
    runs = cl.read_runs(pd.concat([rows, pd.DataFrame(many)], axis=1))
    calls = []
    monkeypatch.setattr(evidence, "_both", lambda *codes, both=evidence._both: (calls.append(1), both(*codes))[1])
    assert [one.name for one in questions(runs) if one.explains] == ["decay"]
    assert 2 * len(many) < len(calls) < 4 * len(many)


@pytest.mark.parametrize("kept", ["columns: {loss: [loss]}", "columns: {los: [loss]}", "losses: {a: {b: c}}"])
def test_a_kept_reply_of_several_names_for_one_column_is_refused(tmp_path, kept):
    (tmp_path / "runs.csv").write_text("run,eval,loss\na,source,2.0\n")
    (tmp_path / "runs.csv.cptlaw.yaml").write_text(kept)
    with pytest.raises(DataError, match="Expected one name"):
        cl.read(tmp_path / "runs.csv")
