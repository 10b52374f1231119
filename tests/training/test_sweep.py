"""A sweep end to end, in this process and through the command line."""

import json

import pandas as pd
import pytest
from facts import refused
from small_sweep import RECIPE, prepared, train_here, write_language

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import DataError
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.store import Store
from cptlaw_sweep.sweep import dry_run
from cptlaw_sweep.table import jobs_table, runs_table

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    write_language(folder / "old.jsonl", ["the", "old", "tongue", "is", "known", "to", "all"], 1)
    write_language(folder / "new.jsonl", ["neue", "Sprache", "lernt", "man", "nur", "langsam"], 2)
    (folder / "sweep.yaml").write_text(json.dumps(RECIPE))
    sweep, store = prepared(folder / "sweep.yaml", folder / "out")
    return sweep, store, train_here(sweep, store)


def test_a_ladder_is_one_trunk_with_short_decays(trained):
    sweep, _, progress = trained
    assert not progress.failures
    assert len(progress.done) == len(sweep.jobs) == 8
    trunks = [job for job in sweep.jobs if job.kind == "trunk"]
    bases = [job for job in sweep.jobs if job.kind == "base"]
    assert [job.definition["steps"][0] for job in trunks] == [0, trunks[0].definition["steps"][1]]
    n_params = bases[0].columns["n_params"]
    for trunk, base in zip(trunks, bases, strict=True):
        assert base.needs == (trunk.id,)
        assert base.definition["steps"][1] * 128 == pytest.approx(base.columns["ptpp"] * n_params, rel=0.01)
    # One ladder to 8 costs the trunk to 6.8, and two decays.
    assert sum(job.tokens for job in trunks + bases) == pytest.approx((8 + 0.15 * 4) * n_params, rel=0.02)


def test_the_table_is_what_every_verb_takes(trained):
    sweep, store, _ = trained
    frame = runs_table(sweep, store)
    runs = cl.read_runs(frame, n_params_kind="total")
    assert runs.evals == ("source", "target")
    base = frame[frame["tokens"] == 0]
    assert len(base) == 4  # two budgets, two evals, each once
    assert base["replay"].isna().all()
    after = frame[(frame["tokens"] > 0)]
    assert set(after["replay"]) == {0.0, 0.25}
    assert (after["tokens"] == after["step"] * 128).all()
    assert (after["flops"] == 6 * after["n_params"] * after["tokens"]).all()
    assert after.groupby("run")["tokens"].max().min() >= 2 * after["n_params"].iloc[0]
    # The learning rate of each row: 5 steps of warm-up, then constant.
    assert after.loc[after["step"] >= 5, "lr"].unique().tolist() == [5e-3]
    # It has learned something.
    ends = after.sort_values("step").groupby(["run", "eval"])["loss"].last().unstack()
    starts = base.groupby("eval")["loss"].max()
    assert (ends["target"] < starts["target"]).all()


def test_the_step_0_of_a_run_is_the_end_of_its_base_model_to_the_last_bit(trained):
    sweep, store, _ = trained
    jobs = {job.id: job for job in sweep.jobs}
    for job in (job for job in sweep.jobs if job.kind == "adapt"):
        (need,) = job.needs
        assert jobs[need].kind == "base"
        ended = {row["eval"]: row["loss"] for row in store.get_result(need)}
        started = {row["eval"]: row["loss"] for row in store.get_result(job.id) if row["step"] == 0}
        assert started == ended


def test_tokens_are_counted_by_text(trained):
    sweep, store, _ = trained
    names = {key: text["name"] for key, text in sweep.texts.items()}
    for job in (job for job in sweep.jobs if job.kind == "adapt"):
        by_text = {names[key]: n for key, n in store.get_report(job.id)["tokens_by_text"].items()}
        assert sum(by_text.values()) == job.tokens
        assert abs(by_text.get("old", 0) - job.columns["replay"] * job.tokens) < 32


def test_finished_jobs_are_not_trained_again_and_a_name_is_no_identity(trained):
    sweep, store, _ = trained
    before = {job.id: store.get_report(job.id) for job in sweep.jobs}
    progress = train_here(sweep, store)
    assert len(progress.done) == len(sweep.jobs)
    assert {job.id: store.get_report(job.id) for job in sweep.jobs} == before
    job = sweep.jobs[-1]
    renamed = Job.from_dict({**job.to_dict(), "name": "another"})
    assert renamed.id == job.id == Job.from_dict(json.loads(json.dumps(job.to_dict()))).id


def test_the_command_line_trains_and_goes_on(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    recipe(pretrain={"text": "old", "ptpp": 4, "peak": 1e-2, "warmup": 10})
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(["sweep", "sweep.yaml", "-o", "out", "--workers", "1", "--json"])
        assert not ended.value.code
        out = capsys.readouterr()
        found = json.loads(out.out)
        assert (found["finished"], found["failed"], found["jobs"]) == (4, 0, 4)
    assert "4 of 4 jobs" in out.err
    runs = cl.read_runs(tmp_path / "out" / "runs.csv")
    assert runs.n_params_kind == "total"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["finished"] == manifest["jobs"] == 4
    assert {"torch", "transformers", "cptlaw", "python"} <= set(manifest["versions"])
    assert {text["name"] for text in manifest["texts"].values()} == {"old", "new"}
    assert set(pd.read_csv(tmp_path / "out" / "jobs.csv")["status"]) == {"finished"}


def test_dry_run_says_what_it_would_cost_and_trains_nothing(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = recipe()
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "sweep.yaml", "--dry-run", "-o", "manifests"])
    assert not ended.value.code
    out = capsys.readouterr().out
    sweep = load_sweep(path)
    for job in sweep.jobs:
        assert job.name in out
        told = json.loads((tmp_path / "manifests" / f"{job.name}.json").read_text())
        assert told["id"] == job.id
        assert told["steps"]["tokens"] == job.tokens
    assert not (tmp_path / "sweep").exists()
    adapt = [json.loads(file.read_text()) for file in (tmp_path / "manifests").glob("2k-*r0.25*")]
    assert [part["share_of_tokens"] for part in adapt[0]["data"]["mix"]] == ["1/4", "3/4"]
    assert adapt[0]["start"]["from"].startswith("base-2k")
    with pytest.raises(SystemExit):
        main(["sweep", "sweep.yaml", "--dry-run", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["tokens"] == sweep.tokens
    assert found["total"]["seconds"] > 0


@pytest.mark.parametrize("name", ["runs.csv", "manifest.json", "jobs.csv"])
def test_a_folder_with_tables_of_its_own_is_no_place_for_results(recipe, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    recipe()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine\n")
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "sweep.yaml", "-o", "mine"])
    assert (ended.value.code, f"holds a file {name}" in capsys.readouterr().err) == (2, True)
    assert [path.read_text() for path in (tmp_path / "mine").iterdir()] == ["mine\n"]


def test_a_dry_run_writes_beside_manifests_that_somebody_changed(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = recipe()
    dry_run(path, "out")
    manifest = min((tmp_path / "out").glob("*.json"))
    before = manifest.read_text()
    dry_run(path, "out")
    assert manifest.read_text() == before
    manifest.write_text('{"run": "mine"}')
    assert "1 of them are NAME-2" in (dry_run(path, "out").written or "")
    assert manifest.with_stem(f"{manifest.stem}-2").read_text() == before
    assert manifest.read_text() == '{"run": "mine"}'
    with refused(DataError, "sweep.yaml", "folder"):
        dry_run(path, "sweep.yaml")
    with pytest.raises(DataError, match="cannot be written"):
        dry_run(path, "a" * 300)


def test_jobs_table_tells_what_is_waiting(recipe, tmp_path):
    sweep = load_sweep(recipe())
    table = jobs_table(sweep, Store(tmp_path / "nothing"))
    assert set(table["status"]) == {"waiting"}


def test_another_recipe_in_the_same_folder_keeps_the_rows_of_the_first(tmp_path):
    write_language(tmp_path / "old.jsonl", ["the", "old", "tongue", "is", "known"], 1)
    write_language(tmp_path / "new.jsonl", ["neue", "Sprache", "lernt", "man"], 2)
    first = {**RECIPE, "pretrain": {**RECIPE["pretrain"], "ptpp": [4]}}
    adapt = {**RECIPE["adapt"], "replay": [0.25, 0.5], "schedules": {"schedule": "constant", "peak": 2e-3, "warmup": 5}}
    for name, recipe in (("first", first), ("second", {**first, "adapt": adapt})):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(recipe))
    found = [cl.sweep(tmp_path / f"{name}.yaml", tmp_path / "out", workers=1) for name in ("first", "second", "first")]
    one, two, again = (sweep.frame for sweep in found)
    assert again["run"].nunique() == two["run"].nunique()
    columns = [name for name in one.columns if name != "run"]
    kept = two[two["recipe"] == "first"]  # the base model is that of both: its rows are the second's
    assert kept[columns].reset_index(drop=True).equals(one.loc[one["tokens"] > 0, columns].reset_index(drop=True))
    assert len(two) == 2 * len(one) - (one["tokens"] == 0).sum()
    # Runs of one name with other rates stay two runs, each with its schedule.
    assert two.groupby("run")["lr_peak"].nunique().max() == 1
    schedules = json.loads((tmp_path / "out" / "schedules.json").read_text())
    assert set(two.loc[two["tokens"] > 0, "run"]) <= set(schedules)
    jobs = pd.read_csv(tmp_path / "out" / "jobs.csv")
    assert set(jobs["status"]) == {"finished"}
    assert set(again["recipe"]) == {"first", "second"}
    assert sorted(again["loss"]) == sorted(two["loss"])
