"""From what a tracker wrote to an answer, in two commands. The stores are written by the real packages."""

import json

import pytest
from facts import lacks
from tracker_logs import written_by

import cptlaw as cl
from cptlaw.cli import main

QUESTION = ["--n-params", "75072", "--tokens", "2M", "--max-forgetting", "20%"]
ROLES = ["--source-eval", "en", "--target-eval", "fr"]

WANDB = """
import json, sys, wandb
runs, _ = map(json.loads, sys.argv[1:])
for name, (config, rows) in runs.items():
    run = wandb.init(project="p", name=name, config=config, dir=".")
    for step, (tokens, en, fr) in enumerate(rows):
        run.log({"train/tokens_seen": tokens, "eval/en/loss": en, "eval/fr/loss": fr}, step=100 * step)
    run.finish()
"""

MLFLOW = """
import json, sys, mlflow
runs, _ = map(json.loads, sys.argv[1:])
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("e")
for name, (config, rows) in runs.items():
    with mlflow.start_run(run_name=name):
        mlflow.log_params(config)
        for step, (tokens, en, fr) in enumerate(rows):
            values = {"tokens_seen": tokens, "eval_en_loss": en, "eval_fr_loss": fr}
            mlflow.log_metrics(values, step=100 * step)
"""


def logged():
    """Return the six runs of a base model as a trainer logs them: name -> settings and rows, the base model first."""
    frame = cl.examples.load("en-fr-pilot").where("n_params == 75072 and ptpp == 62").frame
    frame = frame[(frame["lr_schedule"] == "constant") | (frame["tokens"] == 0)]
    frame = frame.assign(replay=frame["replay"].fillna(-1.0))  # the base model's: older pandas drops an empty one
    wide = frame.pivot_table(index=["run", "replay", "tokens"], columns="eval", values="loss", dropna=False)
    wide = wide.dropna(subset=["source", "target"]).reset_index()
    base = wide[wide["tokens"] == 0].iloc[0]
    found = {}
    for (run, replay), rows in wide[wide["tokens"] > 0].groupby(["run", "replay"], observed=True):
        config = {"n_params": 75072, "ptpp": 62, "replay": replay, "seed": 0}
        points = [(0, base["source"], base["target"])]
        points += list(rows[["tokens", "source", "target"]].tail(3).itertuples(index=False, name=None))
        found[run] = (config, points)
    return found


@pytest.fixture(scope="module")
def runs():
    found = logged()
    assert len(found) == 6
    return found


@pytest.mark.dear("a real package writes, and an answer from what it wrote")
# What MLflow writes is read in tests/importing too.
@pytest.mark.parametrize(
    ("package", "script"), [("wandb", WANDB), pytest.param("mlflow", MLFLOW, marks=pytest.mark.nightly)]
)
def test_a_store_to_an_answer_in_two_commands(package, script, runs, tmp_path, monkeypatch, capsys):
    written_by(package, script, tmp_path, runs, {})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["import", ".", "-o", "runs.csv"])
    said = capsys.readouterr().err
    assert ended.value.code == 0, said
    assert lacks(said, "n_params, ptpp, replay, seed") == []
    with pytest.raises(SystemExit) as ended:
        main(["answer", "runs.csv", *ROLES, *QUESTION, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert answer["feasible"]
    assert answer["forgetting_lo"] < answer["forgetting"] < answer["forgetting_hi"] < 0.3
    assert answer["target_loss_lo"] < answer["target_loss"] < answer["target_loss_hi"]
    assert answer["probabilities"]["max-forgetting"] >= 0.78


@pytest.mark.nightly
def test_a_table_exported_by_wandb_to_an_answer_in_one_command(runs, tmp_path, capsys):
    """The page Runs of a project exports one row a run: Name, State, settings, and the last value of each metric."""
    lines = ["Name,State,Runtime,n_params,ptpp,replay,eval/en/loss,eval/fr/loss,train/tokens_seen"]
    for name, (config, rows) in runs.items():
        for row in rows[1:]:  # sweeps of several lengths: each run its own row
            model = f"{config['n_params']},{config['ptpp']},{config['replay']}"
            lines.append(f"{name}-{row[0]:.0f},finished,61,{model},{row[1]},{row[2]},{row[0]:.0f}")
    base = next(iter(runs.values()))[1][0]
    lines.append(f"base,finished,5,75072,62,,{base[1]},{base[2]},0")
    path = tmp_path / "wandb_export.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["answer", str(path), *ROLES, "--columns", "tokens=train/tokens_seen", *QUESTION, "--json"])
    captured = capsys.readouterr()
    assert ended.value.code == 0, captured.err
    answer = json.loads(captured.out)
    assert answer["feasible"]
    assert answer["forgetting_lo"] < answer["forgetting"] < answer["forgetting_hi"]
