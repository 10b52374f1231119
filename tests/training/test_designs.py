"""What seed studies vary: schedules of pre-training, mixes, pools, rates, batches, optimiser state, adapters."""

import json
from fractions import Fraction

import numpy as np
import pytest
import torch
import yaml
from facts import refused
from hypothesis import given
from hypothesis import strategies as st
from small_sweep import RECIPE, prepared, results, train_here, write_language
from test_given_models import given_recipe

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw_sweep import models
from cptlaw_sweep.given_models import content_of
from cptlaw_sweep.instructions import manifests
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.mix import DataMix, Part
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.sizes import count_lora
from cptlaw_sweep.store import Store
from cptlaw_sweep.table import jobs_table, runs_table, schedules_of
from cptlaw_sweep.tune_lr import tune, vertex

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own

ADAPT = RECIPE["adapt"]


def test_losses_along_trunk_and_decays_are_rows_of_their_phase(recipe, tmp_path):
    path = recipe(pretrain={**RECIPE["pretrain"], "points_per_doubling": 1, "end": [0, "50%"]})
    sweep, store = prepared(path, tmp_path / "out")
    assert not train_here(sweep, store).failures
    frame = runs_table(sweep, store)
    pretrain = frame[frame["phase"] == "pretrain"]
    trunk = pretrain[pretrain["run"] == "trunk-2k-s0"]
    assert (
        trunk["step"].is_monotonic_increasing
        or trunk.groupby("eval")["step"].apply(lambda step: step.is_monotonic_increasing).all()
    )
    assert trunk["step"].nunique() >= 4
    assert set(trunk["lr_schedule"]) == {"constant"}
    assert (pretrain["ptpp"] == pretrain["tokens"] / pretrain["n_params"]).all()
    decays = pretrain[pretrain["run"].str.startswith("base-")]
    # Each decay: three points on its way; its end is the base model's row, with tokens 0.
    assert set(decays.groupby("run")["step"].nunique()) == {3}
    bases = frame[frame["tokens"] == 0]
    assert set(bases["run"]) == {f"base-2k-p{p}-s0-e{e}" for p in (4, 8) for e in ("0", "0.5")}
    assert sorted(set(bases["pt_lr_end"])) == [0.0, 0.5]
    assert set(frame.loc[frame["tokens"] > 0, "phase"]) == {"pretrain", "cpt"}
    assert {"trunk-2k-s0", "base-2k-p8-s0-e0.5"} <= set(schedules_of(sweep))
    cl.read_runs(frame, n_params_kind="total")


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_falling_schedules_run_each_budget_by_itself_down_to_any_end(recipe, tmp_path, schedule):
    path = recipe(pretrain={**RECIPE["pretrain"], "schedule": schedule, "end": "10%"})
    sweep = load_sweep(path)
    bases = [job for job in sweep.jobs if job.kind == "base"]
    assert not [job for job in sweep.jobs if job.kind == "trunk"]
    assert [job.needs for job in bases] == [(), ()]
    for job in bases:
        (phase,) = job.definition["phases"]
        assert (phase["schedule"], phase["end"]) == (schedule, pytest.approx(1e-3))
        assert job.definition["steps"] == [0, phase["steps"]]
    with refused(DataError, "cosin", "wsd, constant, cosine, linear"):
        load_sweep(recipe(pretrain={**RECIPE["pretrain"], "schedule": "cosin"}))


def test_adaptation_has_its_own_batch_length_rates_and_optimiser_state(recipe, tmp_path):
    carried = {**ADAPT, "replay": 0, "optimizer_state": "carried"}
    fresh = {
        **ADAPT, "replay": 0, "context": 16, "batch": 2, "micro_batch": 1, "ptpp": 4, "tokens_per_param": 0.5,
        "schedules": {"schedule": "constant", "peak": [5e-3, 1e-2], "warmup": 5},
    }  # fmt: skip
    sweep, store = prepared(recipe(adapt=[carried, fresh, {**ADAPT, "replay": 0}]), tmp_path / "out")
    assert not train_here(sweep, store).failures
    frame = runs_table(sweep, store)
    after = frame[frame["tokens"] > 0]
    assert set(after["batch_tokens"]) == {32, 128}
    assert (after["tokens"] == after["step"] * after["batch_tokens"]).all()
    assert set(after.loc[after["batch_tokens"] == 32, "lr_peak"]) == {5e-3, 1e-2}
    with_state = after[after["optimizer_state"] == "carried"].set_index(["ptpp", "eval", "step"])["loss"]
    without = after[after["optimizer_state"].isna() & (after["batch_tokens"] == 128)]
    without = without.set_index(["ptpp", "eval", "step"])["loss"]
    assert len(with_state) == len(without)
    assert ((with_state - without).abs() > 1e-6).all()  # the moments of pre-training make another run
    # and yet they start from the same weights.
    starts = {}
    for job in (job for job in sweep.jobs if job.kind == "adapt" and job.definition["batch"] == 4):
        first = tuple(row["loss"] for row in store.get_result(job.id) if row["step"] == 0)
        starts.setdefault(job.columns["ptpp"], set()).add(first)
    assert [len(losses) for losses in starts.values()] == [1, 1]


@given(
    weights=st.lists(st.integers(1, 1000), min_size=3, max_size=6),
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 100_000_000),
)
def test_shares_of_many_corpora_are_kept_to_a_few_rows(weights, seed, rows):
    total = sum(weights)
    definition = {
        "texts": [str(i) for i in range(len(weights))],
        "weights": [str(Fraction(weight, total)) for weight in weights],
        "seed": seed,
    }
    counts = DataMix.of(definition, dict.fromkeys(definition["texts"], 50)).counts(rows)
    assert sum(counts) == rows
    assert all(abs(n - rows * w / total) < len(weights) - 1 for n, w in zip(counts, weights, strict=True))


def test_rows_of_many_corpora_agree_with_counts_wherever_reading_starts():
    definition = {"texts": ["a", "b", "c"], "weights": ["1/2", "3/10", "1/5"], "seed": 3}
    mix = DataMix.of(definition, {"a": 11, "b": 7, "c": 5})
    part, window = mix.rows(np.arange(500))
    assert np.bincount(part).tolist() == mix.counts(500)
    again = mix.rows(np.arange(137, 500))
    assert (again[0] == part[137:]).all()
    assert (again[1] == window[137:]).all()
    for index, size in enumerate((11, 7, 5)):
        epochs = window[part == index][: 2 * size].reshape(2, size)
        assert (np.sort(epochs, axis=1) == np.arange(size)).all()


def test_a_pool_is_the_same_part_of_a_corpus_in_every_run():
    seen = []
    for seed in (1, 2):
        mix = DataMix([Part("a", 100, 10)], [], seed)
        _, window = mix.rows(np.arange(40))
        assert (np.sort(window.reshape(4, 10), axis=1) == np.sort(window[:10])).all()
        seen.append(sorted(set(window.tolist())))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 10
    assert max(seen[0]) > 20  # drawn from all of it, not its beginning


def test_mixes_of_several_corpora_with_pools_end_in_columns(recipe, tmp_path):
    write_language(tmp_path / "third.jsonl", ["un", "deux", "trois", "quatre"], 3)
    text = {**RECIPE["text"], "third": {"files": "third.jsonl", "validation": "10%"}}
    adapt = {key: value for key, value in ADAPT.items() if key != "replay"}
    adapt |= {
        "mixes": [{"old": 0.25, "new": 0.5, "third": 0.25}, {"new": 1}],
        "pools": {"new": 512},
    }
    path = recipe(text=text, pretrain={**RECIPE["pretrain"], "ptpp": 4}, adapt=[adapt, ADAPT])
    sweep, store = prepared(path, tmp_path / "out")
    assert not train_here(sweep, store).failures
    frame = runs_table(sweep, store)
    mixed = frame[frame["mix_third"] > 0]
    assert set(mixed["eval"]) == {"source", "target", "third"}
    assert set(mixed["replay"]) == {0.25}
    assert set(mixed["mix_new"]) == {0.5}
    assert set(frame.loc[frame["mix_new"] == 0.75, "replay"]) == {0.25}
    jobs = jobs_table(sweep, store).set_index("job")
    name = mixed["run"].iloc[0]
    epochs = dict(part.rsplit(" ", 1) for part in jobs.loc[name, "epochs"].split(", "))
    tokens = mixed["tokens"].max()
    assert float(epochs["new"]) == pytest.approx(0.5 * tokens / 512, rel=0.05)
    assert float(epochs["third"]) < 1
    with refused(DataError, "0.9"):
        load_sweep(recipe(text=text, adapt={**adapt, "mixes": [{"old": 0.4, "new": 0.5}]}))
    with refused(DataError, "'old'", "pools"):
        load_sweep(recipe(text=text, adapt={**adapt, "mixes": [{"new": 1}], "pools": {"old": 5}}))


def test_a_closed_source_is_measured_by_a_proxy(recipe, tmp_path):
    adapt = {**ADAPT, "replay": 0}
    del adapt["source"]
    path = given_recipe(recipe, tmp_path, adapt={**adapt, "tokens": 1024, "tokens_per_param": None})
    value = yaml.safe_load(path.read_text())
    del value["adapt"]["tokens_per_param"]
    value["evals"] = {"source": {"text": "old", "whole": True}}
    path.write_text(yaml.safe_dump(value))
    sweep, store = prepared(path, tmp_path / "out")
    assert not train_here(sweep, store).failures
    assert set(runs_table(sweep, store)["eval"]) == {"source", "target"}
    value["adapt"]["replay"] = 0.1
    path.write_text(yaml.safe_dump(value))
    with refused(DataError, "'source'"):
        load_sweep(path)


def test_adapters_by_rank(recipe, tmp_path):
    base = {"pretrained": "models/base", "ptpp": 100, "lora": {"rank": [2, 4]}}
    path = given_recipe(recipe, tmp_path, models={"base": base})
    sweep, store = prepared(path, tmp_path / "out")
    assert not train_here(sweep, store).failures
    frame = runs_table(sweep, store)
    after = frame[frame["tokens"] > 0]
    assert set(after["lora_rank"]) == {2, 4}
    folder = tmp_path / "models" / "base"
    spec = {"kind": "pretrained", "content": content_of(folder), "lora": {"rank": 2, "alpha": 4}}
    model = models.build(spec, 0, str(folder))
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert set(after.loc[after["lora_rank"] == 2, "n_trainable"]) == {trainable}
    n = after["n_params"].iloc[0]
    row = after[after["lora_rank"] == 2].iloc[-1]
    assert row["flops"] == (4 * n + 2 * trainable) * row["tokens"]
    # One measurement of the base model serves both ranks, and training has moved away from it.
    assert len(frame[frame["tokens"] == 0]) >= 2
    starts, ends = frame[frame["tokens"] == 0], after[after["step"] == after["step"].max()]
    assert ends.loc[ends["eval"] == "target", "loss"].max() < starts.loc[starts["eval"] == "target", "loss"].min()


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_adapters_are_counted_without_torch(tmp_path, family):
    from tiny_model import save_tiny

    from cptlaw_sweep.given_models import read_config

    folder = save_tiny(tmp_path / "base", family=family, steps=1)
    spec = {"kind": "pretrained", "content": content_of(folder), "lora": {"rank": 3, "alpha": 6}}
    model = models.build(spec, 0, str(folder))
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert count_lora({"kind": "config", "config": read_config(folder)}, 3) == trainable


def test_rates_follow_a_rule_of_size(recipe):
    peak = {"at": 1e-2, "n_params": 2000, "power": -0.5}
    models_ = {"a": {"width": 12, "layers": 1, "heads": 2}, "b": {"width": 24, "layers": 1, "heads": 2}}
    sweep = load_sweep(recipe(models=models_, pretrain={**RECIPE["pretrain"], "peak": peak, "ptpp": 16}))
    rates = {job.columns["model"]: job.columns["lr_peak"] for job in sweep.jobs if job.kind == "base"}
    sizes = {job.columns["model"]: job.columns["n_params"] for job in sweep.jobs if job.kind == "base"}
    for name, rate in rates.items():
        assert rate == pytest.approx(1e-2 * (sizes[name] / 2000) ** -0.5, rel=1e-3)


def test_designs_of_one_recipe_are_distinct_runs_and_repeat_to_the_bit(recipe, tmp_path):
    adapt = {key: value for key, value in ADAPT.items() if key != "replay"} | {"mixes": [{"old": 0.5, "new": 0.5}]}
    path = recipe(pretrain={**RECIPE["pretrain"], "ptpp": 4}, adapt=[adapt, {**ADAPT, "replay": 0.5}])
    first, store = prepared(path, tmp_path / "out")
    second, again = prepared(path, tmp_path / "again")
    for sweep, place in ((first, store), (second, again)):
        torch.manual_seed(np.random.randint(1000))
        assert not train_here(sweep, place).failures
    assert results(first, store) == results(second, again)
    assert len({job.id for job in first.jobs}) == len(first.jobs)


def test_rates_are_tuned_on_a_small_ladder(recipe, tmp_path):
    models_ = {"a": {"width": 12, "layers": 1, "heads": 2}, "b": {"width": 16, "layers": 1, "heads": 2}}
    path = recipe(models=models_, pretrain={**RECIPE["pretrain"], "peak": 1e-2, "ptpp": 3})
    store = Store(tmp_path / "out")

    def run(sweep):
        prepare(sweep.texts, store, lambda text: None)
        train_here(sweep, store)
        return lambda job: next(row["loss"] for row in store.get_result(job.id) if row["eval"] == "source")

    found = tune(path, run)
    for name, best in found.best.items():
        mine = found.frame[found.frame["model"] == name]
        tried = mine.loc[mine["loss"].idxmin(), "lr"]
        assert 0.5 <= best / tried <= 2
        assert len(mine) >= 5
    assert found.title.startswith("peak: {at: ")
    # The rule goes into a recipe as it is printed.
    told = yaml.safe_load(found.title)["peak"]
    sweep = load_sweep(recipe(models=models_, pretrain={**RECIPE["pretrain"], "peak": told}))
    rates = {job.columns["model"]: job.columns["lr_peak"] for job in sweep.jobs if job.kind == "base"}
    assert rates == pytest.approx(found.best, rel=0.01)  # two sizes, two parameters


def test_a_parabola_finds_the_rate_between_those_tried():
    rates = 1e-3 * 2.0 ** np.arange(5)
    losses = 3 + 0.1 * (np.log2(rates / 2.6e-3)) ** 2
    assert vertex(rates, losses) == (pytest.approx(2.6e-3, rel=1e-3), 0)
    assert vertex(rates, -rates)[1] == 1
    assert vertex(rates, rates)[1] == -1
    assert vertex(rates, [3.0, 2.9, np.nan, np.nan, np.nan]) == (pytest.approx(2e-3), 0)
    with pytest.raises(DataError, match="all trials diverged"):
        vertex(rates, [np.nan] * 5)


def test_manifests_of_a_ladder_at_constant_rate_tell_no_rate_of_a_decay_that_is_none(recipe):
    sweep = load_sweep(recipe(pretrain={**RECIPE["pretrain"], "schedule": "constant"}))
    told = [json.loads(text) for text in manifests(sweep).values()]
    rates = {(one["kind"], one["steps"]["last"]): one["learning_rate"]["at_steps"] for one in told}
    assert [at for (kind, _), at in rates.items() if kind == "base"] == [[], []]
    assert all(at[-1][0] == last for (kind, last), at in rates.items() if kind == "trunk")
