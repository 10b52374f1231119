"""Runs as configurations of other trainers, held against the schema of each that is installed."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import transformers
import yaml
from small_sweep import RECIPE
from test_given import given_recipe

from cptlaw.schedules import Phase, Schedule
from cptlaw.training.foreign import _scheduler, write_foreign
from cptlaw.training.recipe import load_sweep

pytestmark = pytest.mark.filterwarnings("default")  # the libraries deprecate things of their own


@pytest.fixture
def written(recipe, tmp_path):
    schedules = [
        {"schedule": "wsd", "peak": 5e-3, "warmup": 5, "decay": "25%", "end": "10%"},
        {"schedule": "cosine", "peak": 5e-3, "end": "10%"},
    ]
    adapt = {**RECIPE["adapt"], "replay": [0, 0.25], "tokens": 4096, "schedules": schedules}
    del adapt["tokens_per_param"]
    base = {"pretrained": "models/base", "lora": {"rank": 4}}
    sweep = load_sweep(given_recipe(recipe, tmp_path, models={"base": base}, adapt=adapt, micro_batch=2))
    write_foreign(sweep, tmp_path / "out")
    return sweep, tmp_path / "out"


def test_training_arguments_are_taken_by_transformers(written):
    sweep, folder = written
    files = sorted((folder / "huggingface").glob("*.json"))
    assert len(files) == len([job for job in sweep.jobs if job.kind == "adapt"]) == 4
    for path in files:
        parser = transformers.HfArgumentParser(transformers.TrainingArguments)
        value = {**json.loads(path.read_text()), "use_cpu": True, "bf16": False}
        (arguments,) = parser.parse_dict(value)
        assert arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps == 4
        assert arguments.max_steps == 32
        assert arguments.learning_rate == 5e-3


@pytest.mark.parametrize(
    "phase",
    [
        {"schedule": "wsd", "warmup": 10, "decay": 20, "end": 1e-4},
        {"schedule": "cosine", "warmup": 10, "end": 1e-4},
        {"schedule": "cosine", "warmup": 10},
        {"schedule": "linear", "warmup": 10},
        {"schedule": "linear", "warmup": 10, "end": 1e-4},
        {"schedule": "constant", "warmup": 10},
    ],
)
def test_schedules_of_transformers_have_the_same_rates(phase):
    ours = Phase("cpt", 100, peak=1e-3, **phase)
    told = _scheduler(ours.to_dict())
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    scheduler = transformers.get_scheduler(
        told["lr_scheduler_type"], optimizer, num_warmup_steps=10, num_training_steps=100,
        scheduler_specific_kwargs=told.get("lr_scheduler_kwargs"),
    )  # fmt: skip
    rates = 1e-3 * np.array([scheduler.lr_lambdas[0](step) for step in range(101)])
    # Where wsd ends above 0, transformers begins its warm-up there too.
    first = 10 if phase.get("end") and phase["schedule"] != "cosine" else 0
    np.testing.assert_allclose(rates[first:], Schedule([ours]).lr[first:], atol=1e-8)


def test_llama_factory_knows_each_field(written):
    hparams = pytest.importorskip("llamafactory.hparams", reason="LLaMA-Factory is not installed")
    known = {field.name for kind in vars(hparams).values() if dataclasses.is_dataclass(kind) for field in
             dataclasses.fields(kind)}  # fmt: skip
    for path in (written[1] / "llama-factory").glob("*.yaml"):
        assert set(yaml.safe_load(path.read_text())) <= known


def test_axolotl_takes_each_file(written):
    config = pytest.importorskip("axolotl.utils.schemas.config", reason="axolotl is not installed")
    for path in (written[1] / "axolotl").glob("*.yaml"):
        config.AxolotlInputConfig(**yaml.safe_load(path.read_text()))


def test_mixes_and_adapters_are_there(written):
    _, folder = written
    mixed = [yaml.safe_load(path.read_text()) for path in (folder / "llama-factory").glob("*r0.25*.yaml")]
    assert {value["interleave_probs"] for value in mixed} == {"0.25,0.75"}
    assert {value["lora_rank"] for value in mixed} == {4}
    assert set(json.loads((folder / "llama-factory" / "dataset_info.json").read_text())) == {"old", "new"}
    text = next((folder / "axolotl").glob("*r0.25*.yaml")).read_text()
    assert text.startswith("# axolotl mixes corpora by their sizes")
    assert len(yaml.safe_load(text)["datasets"]) == 2
