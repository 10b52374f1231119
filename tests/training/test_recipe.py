import json
import sys
from pathlib import Path

import pytest
import yaml
from small_sweep import RECIPE

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw_sweep import recipe as recipe_of_sweeps
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.model_spec import shape_of

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own

SWEEPS = Path(__file__).parents[2] / "studies" / "recipes"


def read_with_stand_ins(path, folder):
    """Read a recipe with some words in the place of its text."""
    value = yaml.safe_load(path.read_text())
    for name, text in value["text"].items():
        (folder / f"{name}.jsonl").write_text(json.dumps({"text": "some", "group": "a"}) + "\n")
        text["files"] = f"{name}.jsonl"
    (folder / "sweep.yaml").write_text(yaml.safe_dump(value))
    return value, load_sweep(folder / "sweep.yaml")


@pytest.mark.parametrize(
    ("example", "recipes"),
    [
        ("en-fr-ladder", ["en_fr_ladder", "en_fr_overtrained", "en_fr_stable"]),
        ("code-to-prose", ["code_to_prose"]),
        ("docs-to-manuals", ["docs_to_manuals"]),
        ("domains", ["domains"]),
    ],
)
def test_what_was_measured_is_part_of_its_recipes(example, recipes, tmp_path):
    names, bases = set(), set()
    for recipe in recipes:
        _, sweep = read_with_stand_ins(SWEEPS / f"{recipe}.yaml", tmp_path)
        names |= {job.name for job in sweep.jobs if job.kind == "adapt"}
        bases |= {str(job.columns["base"]) for job in sweep.jobs if job.kind == "adapt"}
    frame = cl.examples.load(example).frame
    base = frame["tokens"] == 0
    assert set(frame.loc[~base, "run"].astype(str)) <= names
    assert set(frame.loc[base, "base"].astype(str)) <= bases


@pytest.mark.parametrize("name", ["learning_rates_46k", "learning_rates_125k", "en_fr_large", "en_fr_617k"])
def test_the_other_recipes_can_be_read(name, tmp_path):
    assert read_with_stand_ins(SWEEPS / f"{name}.yaml", tmp_path)[1].tokens > 1e6


@pytest.mark.parametrize(
    "path", [SWEEPS / "docs_to_code.yaml", SWEEPS / "english_to_french.yaml"], ids=lambda path: path.stem
)
def test_the_published_designs_are_what_they_say(path, tmp_path):
    value, sweep = read_with_stand_ins(path, tmp_path)
    adapt = [job for job in sweep.jobs if job.kind == "adapt"]
    assert {job.columns["ptpp"] for job in adapt} == {15, 31, 62, 124, 279}
    assert {job.columns["replay"] for job in adapt} == {0, 0.05, 0.1, 0.25, 0.5, 1}
    assert len({job.columns["n_params"] for job in adapt}) >= 4
    assert {job.columns["lr_schedule"] for job in adapt} == {"constant", "wsd"}
    assert len({job.columns["lr_peak"] for job in adapt}) == 2
    assert all(job.tokens >= 16 * job.columns["n_params"] for job in adapt if job.columns["lr_schedule"] == "constant")
    small = {job.columns["seed"] for job in adapt if job.columns["model"] == "46k"}
    assert len(small) >= 2
    if value["name"] in cl.examples.EXAMPLES:
        measured = set(cl.examples.load(value["name"]).frame["run"].astype(str))
        assert measured == {f"base-{job.columns['base']}" for job in adapt} | {job.name for job in adapt}


def test_what_runs_share_is_made_once_whatever_their_number(tmp_path, monkeypatch):
    """A dry run of 60,000 jobs asked 60,000 times for the memory of one model and the points of one length."""
    asked = []
    monkeypatch.setattr(recipe_of_sweeps, "memory_of", lambda *model, **how: asked.append(model) or {"weights": 1})
    value = yaml.safe_load((SWEEPS / "scratch_46k.yaml").read_text())
    value["adapt"][0] |= {"replay": [round(0.02 * i, 2) for i in range(50)], "orders": [0, 1, 2]}
    path = tmp_path / "scratch.yaml"
    path.write_text(yaml.safe_dump(value))
    _, sweep = read_with_stand_ins(path, tmp_path)
    runs = [job for job in sweep.jobs if job.kind == "adapt"]
    assert len(runs) > 100
    assert len(asked) <= 2 * len({job.columns["model"] for job in sweep.jobs})
    for part in (
        lambda job: job.run,
        lambda job: job.definition["optimizer"],
        lambda job: job.definition["measure_at"],
    ):
        lengths = {(job.columns["model"], job.definition["steps"][1]) for job in runs}
        assert len({id(part(job)) for job in runs}) <= len(lengths) * len(value["adapt"])
    for part in (runs[0].definition, runs[0].columns):  # keys of a dict are held once, too
        assert sys.getsizeof(part) < 0.5 * sys.getsizeof(dict(part.items()))
    orders = {(job.columns["base"], job.columns["lr_peak"], *job.definition["steps"]) for job in runs}
    for part in ("steps", "phases"):
        assert len({id(job.definition[part]) for job in runs}) <= len(orders) * len(value["adapt"])
    mixes = {(job.columns["replay"], job.definition["mix"]["seed"]) for job in runs}
    assert len({id(job.definition["mix"]) for job in runs}) <= len(mixes) * len(value["adapt"])


def test_sizes_are_met():
    for asked in (46e3, 75e3, 125e3, 1e6, 10e6):
        shape = shape_of(asked, 256, 128)
        width, layers = shape["width"], shape["layers"]
        found = (256 + 128 + 2) * width + layers * (12 * width**2 + 13 * width)
        assert found == pytest.approx(asked, rel=0.06)
        assert width % shape["heads"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modles": {}}, "no field 'modles'. Did you mean 'models'"),
        ({"models": {"a": {"width": 12, "layers": 1, "heads": 5}}}, "width 12 is not a multiple of heads 5"),
        ({"pretrain": {**RECIPE["pretrain"], "text": "odl"}}, "no text 'odl'. Did you mean 'old'"),
        ({"pretrain": {**RECIPE["pretrain"], "ptpp": 0.2}}, "no room after step"),
        ({"adapt": {**RECIPE["adapt"], "replay": 2}}, "is 2 meant as 2%"),
        ({"adapt": {**RECIPE["adapt"], "schedules": {"schedule": "wsdd", "peak": 1e-3}}}, "'wsdd' is unknown"),
        ({"adapt": {**RECIPE["adapt"], "models": "3k"}}, "no model '3k'"),
        ({"merge": [0.5, 1]}, "merge[1]: found 1. Both ends are measured anyway"),
        ({"pretrain": {**RECIPE["pretrain"], "ptpp": 1e307}}, "optimiser steps. Expected 100,000,000 or fewer"),
        (
            {"models": {"a": {"n_params": "1M", "ptpp": 3}}},
            "models: a: there is no field 'ptpp'. Known here: seeds, lora",
        ),
        ({"resources": {"gpu": 1}}, "resources: there is no field 'gpu'. Did you mean 'gpus'"),
        ({"resources": {"gpus": 1.5}}, "resources: gpus 1.5: expected whole GPUs"),
        ({"text": {"old": {"file": "old.jsonl"}}}, "text: old: expected one of `files`"),
        ({"tokenizer": {"train_on": "old", "vocabulary": 9}}, "tokenizer: a vocabulary of 9 is too small"),
        ({"adapt": [RECIPE["adapt"], {**RECIPE["adapt"], "replay": "x"}]}, "adapt[1]: replay[0]: 'x' is not a number"),
        ({"adapt": {**RECIPE["adapt"], "tokens": 5}}, "adapt[0]: expected either `tokens` or `tokens_per_param`"),
        ({"optimizer": {"beta1": 2}}, "optimizer: beta1: is 2 meant as 2%"),
        ({"compile": "yes"}, "compile: found 'yes'. Expected true or false"),
        ({"adapt": "x"}, "adapt[0]: found 'x'. Expected a mapping"),
        ({"text": {"old": {"files": "nothing.jsonl"}}}, "Build the text first"),
    ],
)
def test_a_slip_in_a_recipe_is_named_with_its_place(recipe, change, message):
    with pytest.raises(DataError) as told:
        load_sweep(recipe(**change))
    assert message in str(told.value)
    assert "sweep.yaml" in str(told.value)
