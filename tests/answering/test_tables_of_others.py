"""Tables as others published or exported them: an answer in two tries, the second as the message of the first says.

Also one base model and six runs of it, which is what most people who ask have.
"""

from pathlib import Path

import pandas as pd
import pytest
from facts import lacks

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import UsageError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def table(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in ../shared/data")
    return path


def first_try(capsys, path, *words, expected="leaves open what an answer needs"):
    """Return what is said to a user who gives the question alone."""
    with pytest.raises(SystemExit) as ended:
        main(["answer", str(path), "--max-forgetting", "20%", *words])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert expected in said
    return said


def test_a_ladder_whose_evals_stand_in_the_column_domain(capsys):
    path = table("delphi_midtrain.csv")
    said = first_try(capsys, path, "--n-params", "1B", "--tokens", "5B")
    assert "'math_val_raw'" in said
    assert all(flag in said for flag in ("--target-eval", "--ptpp", "leave max_forgetting (--max-forgetting) out"))
    assert "math_val_raw" in cl.read_runs(path, target_eval="math_val_raw").evals


@pytest.mark.nightly
def test_such_a_ladder_has_an_answer():
    runs = cl.read_runs(table("delphi_midtrain.csv"), target_eval="math_val_raw")
    found = cl.answer(runs, n_params="1B", tokens="5B", ptpp=5)
    assert found.feasible
    assert found.target_loss_lo < found.target_loss < found.target_loss_hi
    assert found.commands[0].startswith("cptlaw fit ")
    assert lacks(found.following, "--target-eval", "math_val_raw") == []


def test_one_validation_loss_of_a_trainer_says_which_answer_it_has(capsys, tmp_path):
    rows = [(r, d, 3.0 + 0.3 * r - 0.1 * d) for r in (0.0, 0.2, 0.5) for d in (1, 2, 4, 8)]
    runs = pd.DataFrame(rows, columns=["replay", "tokens", "loss"]).assign(eval="validation", n_params=1e8, ptpp=20)
    path = tmp_path / "runs.csv"
    runs.assign(tokens=runs["tokens"] * 1e8, run=[f"run-{row}" for row in runs.index]).to_csv(path, index=False)
    said = first_try(capsys, path, "--n-params", "200M", "--ptpp", "20", "--tokens", "2B")
    assert "--target-eval validation, and no --max-forgetting" in said


def test_runs_that_count_steps_and_no_tokens(capsys):
    path = table("mixlaws_ct_pythia70m.csv")
    said = first_try(capsys, path, "--n-params", "70M", "--tokens", "20B")
    assert "--columns batch_tokens=2M" in said
    runs = cl.read_runs(path, columns={"batch_tokens": "2.1M"}, source_eval="PILE_weighted", target_eval="python")
    assert runs.frame["tokens"].max() == pytest.approx(10_000 * 2.1e6)
    assert runs.read_with == ("--columns", "batch_tokens=2.1M")


@pytest.mark.nightly
def test_runs_that_count_steps_have_an_answer():
    of_step = {"batch_tokens": "2.1M"}
    runs = cl.read_runs(
        table("mixlaws_ct_pythia70m.csv"), columns=of_step, source_eval="PILE_weighted", target_eval="python"
    )
    found = cl.answer(runs, n_params=70_426_624, tokens="20B", max_forgetting="10%")
    assert found.feasible  # of one base model, whose budget needs not be said
    assert found.forgetting_lo < found.forgetting < found.forgetting_hi
    assert "batch_tokens=2.1M" in found.following


@pytest.mark.nightly
def test_a_wide_table_of_mixes_is_answered_with_a_mix():
    runs = cl.read_runs(table("dmsl_slimpajama.csv"), target_eval="arxiv").where("tokens >= 8e9")
    found = cl.answer(runs, n_params="1B", tokens="10B")
    assert (found.kind, found.feasible) == ("mix", True)
    assert sum(found.mix.values()) == pytest.approx(1)
    assert found.mix["arxiv"] == pytest.approx(runs.frame["mix_arxiv"].max(), abs=1e-3)
    assert found.target_loss_lo < found.target_loss < found.target_loss_hi


def test_shares_that_stand_in_one_column(capsys):
    path = table("mixlaws_scratch_2_3mix.csv")
    said = first_try(capsys, path, "--n-params", "410M", "--tokens", "80B", expected="its runs mix 3 corpora")
    assert "--columns batch_tokens=2M" in said
    assert all(place in said for place in ("Github 1.", "Books3 2.", "Pile_CC 3."))
    runs = cl.read_runs(path, columns={"batch_tokens": "2.1M"})
    assert runs.frame["run"].nunique() == 51
    two = runs.frame[runs.frame["mix_set"] == "2Mix"].iloc[0]
    assert (two["ratios"], two["mix_Github"], two["mix_Pile_CC"], two["mix_Books3"]) == ("0.25-0.75", 0.25, 0.75, 0)


def test_a_column_for_each_amount_of_data():
    runs = cl.read_runs(table("sft_flan.csv"), columns={"batch_tokens": 512})
    assert (len(runs), runs.frame["run"].nunique()) == (450, 30)
    assert runs.frame["tokens"].max() == 1_638_400 * 512
    assert runs.frame["n_params"].min() == 60_506_624
    assert any("samples" in note for note in runs.notes)


def test_an_export_of_a_tracker_whose_names_are_paths(tmp_path, capsys):
    rows = cl.examples.load("en-fr-pilot").where("lr_schedule == 'constant' and seed == 0").frame
    wide = rows.pivot_table(
        index=["run", "n_params", "ptpp", "replay", "tokens"], columns="eval", values="loss", observed=True
    )
    wide = wide.reset_index().sort_values("tokens").groupby("run", observed=True).tail(1)
    names = {"run": "Name", "tokens": "train/tokens", "n_params": "model/num_params"}
    names |= {"source": "eval/en/loss", "target": "eval/fr/loss"}
    path = tmp_path / "wandb.csv"
    wide.rename(columns=names).assign(State="finished", **{"train/loss": 1.5}).to_csv(path, index=False)
    said = first_try(capsys, path, "--n-params", "46K", "--tokens", "1M")
    for words in ("tokens from 'train/tokens'", "n_params from 'model/num_params'", "Evals found: 'en', 'fr'"):
        assert words in said
    runs = cl.read_runs(path, source_eval="en", target_eval="fr")
    assert runs.evals == ("en", "fr")
    assert len(runs) == 2 * len(wide)


def test_one_value_for_all_rows(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("run,eval,loss,tokens,replay\na,target,2.5,1e6,0.1\nb,target,2.4,2e6,0.1\n")
    runs = cl.read_runs(path, columns={"n_params": "8B", "replay": "25%", "run": "run"})
    assert set(runs.frame["n_params"]) == {8e9}
    assert set(runs.frame["replay"]) == {0.25}
    assert lacks(runs.notes, "n_params", "8000000000") == []
    with pytest.raises(UsageError, match="no column 'wrong'"):
        cl.read_runs(path, columns={"n_params": "wrong"})
    displaced = cl.read_runs(path, columns={"n_params": "8B", "tokens": "1M", "run": "run"})
    assert lacks(displaced.notes, "1000000", "2 values", "'tokens'") == []


@pytest.fixture(scope="module")
def six_runs():
    """Six runs of one 447M base model: three shares of replay and, at one of them, four rates."""
    rows = pd.read_csv(table("delphi_midtrain.csv"))
    kept = (rows["n_params"] == 447e6) & (rows["domain"] == "math_val_raw") & (rows["series"] == "k0p20")
    rows = rows[kept]
    assert len(rows) == 6
    columns = {
        "run": "run_id",
        "n_params": "n_params",
        "tokens": "cpt_tokens",
        "replay": "replay_ratio",
        "ptpp": "ptpp",
    }
    found = pd.DataFrame({name: rows[place] for name, place in columns.items()} | {"loss": rows["loss"]})
    return found.assign(eval="target", lr_peak=rows["lr_factor"] * 1e-3)


def test_six_runs_of_one_base_model_give_a_plan_with_an_interval(six_runs):
    found = cl.answer(six_runs, n_params="447M", tokens="240M")
    assert found.feasible
    best = six_runs.loc[six_runs["loss"].idxmin()]
    # Rates at equal inputs are told apart: the plan takes the one that measured best.
    assert (found.lr_peak, found.replay) == (best["lr_peak"], best["replay"])
    assert found.target_loss_lo < best["loss"] < found.target_loss_hi
    assert found.target_loss_hi / found.target_loss_lo < 1.2
    assert "one-level" in {finding.code for finding in found.findings if finding.severity == "info"}


def test_six_runs_say_what_another_rate_would_do(six_runs):
    fitted = cl.fit(six_runs, on="target")
    at = six_runs[six_runs["replay"] == 0.33].sort_values("lr_peak")
    said = fitted.predict(at)
    assert (said[:-1] > said[1:]).all()
    assert said == pytest.approx(at["loss"], rel=0.02)


@pytest.fixture(scope="module")
def six_rates():
    """Six runs of one 60M base model at six peak rates, without replay, both losses measured."""
    rows = pd.read_csv(table("watts_musicpile_60m.csv")).query(
        "optimizer == 'adamw' and ptpp == 800 and cpt_peak_lr < 6.5e-4"
    )
    assert len(rows) == 6
    names = {"run_id": "run", "cpt_tokens": "tokens", "replay_ratio": "replay", "cpt_peak_lr": "lr_peak"}
    kept = rows.rename(columns=names)[["run", "n_params", "tokens", "replay", "ptpp", "lr_peak"]]
    return pd.concat([kept.assign(eval=role, loss=rows[f"{role}_loss"]) for role in ("source", "target")])


@pytest.mark.nightly
def test_a_limit_on_forgetting_chooses_among_six_rates(six_rates):
    base = 3.4466  # measured by the authors
    found = cl.answer(six_rates, n_params="60M", ptpp=800, tokens="20M", max_forgetting="26%", base_source_loss=base)
    assert found.feasible
    assert found.lr_peak in set(six_rates["lr_peak"])
    measured = six_rates[six_rates["lr_peak"] == found.lr_peak].set_index("eval")["loss"]
    assert measured["source"] / base - 1 <= 0.26
    assert found.forgetting_lo < measured["source"] / base - 1 < found.forgetting_hi
    assert found.target_loss_lo < measured["target"] < found.target_loss_hi
    assert found.probabilities["max-forgetting"] >= 0.78
    # A lower rate forgets less and learns less: the one that was chosen learns most of those that are sure enough.
    lower = six_rates[(six_rates["lr_peak"] < found.lr_peak) & (six_rates["eval"] == "target")]["loss"]
    assert (lower > measured["target"]).all()


def test_the_roles_that_losses_suggest_are_proposed():
    frame = cl.examples.load("en-fr-pilot").where("tokens > 0").frame.astype({"eval": object})
    frame["eval"] = frame["eval"].map({"source": "general", "target": "medical"})
    with pytest.raises(UsageError, match=r"--source-eval general --target-eval medical$"):
        cl.answer(frame, n_params="100K", tokens="1M", ptpp=62, max_forgetting="10%")
