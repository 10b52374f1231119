"""Runs as configurations of other trainers, held against the schema of each that is installed."""

import importlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
import yaml
from small_sweep import RECIPE
from test_given_models import given_recipe

from cptlaw.schedules import Phase, Schedule
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.trainers import TRAINERS, Corpus, Run, configurations, files

pytestmark = pytest.mark.filterwarnings("default")  # the libraries deprecate things of their own

STEPS, PEAK = 100, 1e-3
PHASES = [
    {"schedule": "wsd", "warmup": 10, "decay": 20, "end": 1e-4},
    {"schedule": "wsd-1-sqrt", "warmup": 10, "decay": 20},
    {"schedule": "cosine", "warmup": 10, "end": 1e-4},
    {"schedule": "cosine", "warmup": 10},
    {"schedule": "linear", "warmup": 10},
    {"schedule": "linear", "warmup": 10, "end": 1e-4},
    {"schedule": "constant", "warmup": 10},
    {"schedule": "constant", "warmup": 0},
    {"schedule": "inverse-sqrt", "warmup": 10},
]


def installed(module, name):
    """Return a module of a trainer; skip where that, or what it needs, is not there."""
    try:
        return importlib.import_module(module)
    except (ImportError, ValueError, RuntimeError, AttributeError) as error:  # of versions that do not fit each other
        pytest.skip(f"{name} is not installed with all that it needs: {error}")


def written(recipe, tmp_path, **changes):
    schedules = [
        {"schedule": "wsd", "peak": 5e-3, "warmup": 5, "decay": "25%", "end": "10%"},
        {"schedule": "cosine", "peak": 5e-3, "end": "10%"},
    ]
    adapt = {**RECIPE["adapt"], "replay": [0, 0.25], "tokens": 4096, "schedules": schedules}
    del adapt["tokens_per_param"]
    path = given_recipe(recipe, tmp_path, **{"adapt": adapt, "micro_batch": 2, **changes})
    for name, text in configurations(load_sweep(path)).items():
        place = tmp_path / "out" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "out"


@pytest.fixture
def whole(recipe, tmp_path):
    return written(recipe, tmp_path)


@pytest.fixture
def adapters(recipe, tmp_path):
    return written(recipe, tmp_path, models={"base": {"pretrained": "models/base", "lora": {"rank": 4}}})


@pytest.fixture(params=["whole", "adapters"])
def either(request):
    return request.getfixturevalue(request.param)


def test_training_arguments_are_taken_by_transformers(either):
    written = sorted((either / "huggingface").glob("*.yaml"))
    assert len(written) == 4
    for path in written:
        parser = transformers.HfArgumentParser(transformers.TrainingArguments)
        value = {**yaml.safe_load(path.read_text()), "use_cpu": True, "bf16": False}
        (arguments,) = parser.parse_dict(value)
        assert arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps == 4
        assert arguments.max_steps == 32
        assert arguments.learning_rate == 5e-3


def run_of(name="run", **changes):
    corpora = [
        Corpus("old", 0.25, {"files": [{"path": "old.jsonl"}]}),
        Corpus("new", 0.75, {"files": [{"path": "n.txt"}]}),
    ]
    usual = {"steps": STEPS, "peak": PEAK, "schedule": "constant", "warmup": 0, "decay": STEPS, "end": 0.0}
    usual |= {"context": 32, "batch": 4, "micro": 2, "accumulation": 2}
    return Run(**{**usual, "name": name, "model": "models/base", "corpora": corpora, **changes})


def told_of(trainer, phase):
    """Return a phase's rates, and what the file of a trainer says of a run that has it."""
    ours = Phase("cpt", STEPS, peak=PEAK, **phase)
    decay, end = phase.get("decay", STEPS - phase["warmup"]), phase.get("end", 0.0) / PEAK
    (text,) = files(trainer, [run_of(**{**phase, "decay": decay, "end": end})]).values()
    return Schedule([ours]).lr, yaml.safe_load(text)


@pytest.mark.parametrize("phase", PHASES)
def test_schedules_of_transformers_have_the_same_rates(phase):
    ours, told = told_of("huggingface", phase)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = transformers.get_scheduler(
        told["lr_scheduler_type"], optimizer, num_warmup_steps=told["warmup_steps"], num_training_steps=STEPS,
        scheduler_specific_kwargs=told.get("lr_scheduler_kwargs"),
    )  # fmt: skip
    rates = PEAK * np.array([scheduler.lr_lambdas[0](step) for step in range(STEPS + 1)])
    # Where wsd ends above 0, transformers begins its warm-up there too. Before the first step a rate says nothing.
    first = 10 if phase.get("end") and phase["schedule"] != "cosine" else int(not phase["warmup"])
    np.testing.assert_allclose(rates[first:], ours[first:], atol=1e-8)


@pytest.mark.parametrize("phase", PHASES)
def test_schedules_of_nemo_automodel_have_the_same_rates(phase):
    optim = installed("nemo_automodel.components.optim.scheduler", "NeMo Automodel")
    ours, told = told_of("automodel", phase)
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    scheduler = optim.OptimizerParamScheduler(
        torch.optim.SGD(parameters, lr=PEAK), **told["lr_scheduler"], start_wd=0.0, end_wd=0.0, wd_incr_steps=STEPS,
        wd_incr_style="constant",
    )  # fmt: skip
    rates = []
    for _ in range(STEPS + 1):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.step(1)
    first = int(not phase["warmup"])
    np.testing.assert_allclose(rates[first:], ours[first:], atol=1e-8)


def test_llama_factory_knows_each_field(either):
    parser = installed("llamafactory.hparams.parser", "LLaMA-Factory")
    written = list((either / "llamafactory").glob("*.yaml"))
    assert len(written) == 4
    for path in written:
        value = {**yaml.safe_load(path.read_text()), "use_cpu": True, "bf16": False}
        _, texts, training, finetuning, _ = parser._parse_train_args(value)
        assert (training.max_steps, texts.cutoff_len, finetuning.stage) == (32, 32, "pt")
        assert finetuning.finetuning_type in ("full", "lora")


def test_llama_factory_finds_the_texts(whole):
    data = installed("llamafactory.data.parser", "LLaMA-Factory")
    for path in (whole / "llamafactory").glob("*.yaml"):
        listed = data.get_dataset_list(yaml.safe_load(path.read_text())["dataset"].split(","), str(path.parent))
        assert {(one.load_from, one.prompt) for one in listed} == {("file", "text")}


def test_axolotl_takes_each_file(either):
    config = installed("axolotl.utils.schemas.config", "axolotl")
    written = list((either / "axolotl").glob("*.yaml"))
    assert len(written) == 4
    for path in written:
        value = yaml.safe_load(path.read_text())
        found = config.AxolotlInputConfig(**value)
        # Its schema lets names pass that it does not know.
        assert set(value) <= set(config.AxolotlInputConfig.model_fields)
        assert (found.max_steps, found.sequence_len) == (32, 32)


def test_torchtitan_takes_each_module(whole, monkeypatch):
    manager = installed("torchtitan.config.manager", "torchtitan")
    installed("torchtitan.experiments.transformers_modeling_backend.config_registry", "torchtitan")
    monkeypatch.syspath_prepend(str(whole / "torchtitan"))
    names = sorted(path.stem for path in (whole / "torchtitan").glob("*.py"))
    assert len(names) == 4
    for name in names:
        try:
            found = manager.ConfigManager().parse_args(["--module", name, "--config", "run"])
            datasets = sys.modules[name].DATASETS
            texts = {one.dataset: one.weight for one in found.dataloader.sources}
            assert sum(texts.values()) == 1
            for text in texts:
                rows = datasets[text].loader(datasets[text].path)
                assert datasets[text].sample_processor(rows[0])
        finally:
            sys.modules.pop(name, None)
        assert (found.training.steps, found.training.global_batch_size, found.training.seq_len) == (32, 4, 32)
        (group,) = found.optimizer.param_groups
        assert group.optimizer_kwargs["lr"] == 5e-3
        plan = [{"schedule": "wsd", "warmup": 5, "decay": 8, "end": 5e-4}, {"schedule": "cosine", "end": 5e-4}]
        ours = Schedule([Phase("cpt", 32, peak=5e-3, **plan["cosine" in name])]).lr
        optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=5e-3)]
        (scheduler,) = found.lr_scheduler.build(optimizers=optimizers, training_steps=32).schedulers
        rates = 5e-3 * np.array([scheduler.lr_lambdas[0](step) for step in range(32)])
        # A step of the warm-up has the rate of the sweep's; from its end on, that of the step before.
        warmup = found.lr_scheduler.warmup_steps
        first = int(not warmup)
        expected = np.where(np.arange(32) < warmup, ours[1:], ours[:-1])
        np.testing.assert_allclose(rates[first:], expected[first:], atol=1e-8)


def test_nemo_automodel_takes_each_file(either):
    loader = installed("nemo_automodel.components.config.loader", "NeMo Automodel")
    typed = installed("nemo_automodel.recipes._typed_config", "NeMo Automodel")
    distributed = installed("nemo_automodel.recipes._dist_utils", "NeMo Automodel")
    megatron = installed("nemo_automodel.components.datasets.llm.megatron.megatron_utils", "NeMo Automodel")
    installed("nemo_automodel.recipes.llm.train_ft", "NeMo Automodel")
    written = sorted((either / "automodel").glob("*.yaml"))
    assert len(written) == 4
    for path in written:
        found = typed.RecipeConfig(loader.load_yaml_config(path))
        assert (found.step_scheduler.max_steps, found.step_scheduler.global_batch_size) == (32, 4)
        assert found.lr_scheduler.lr_warmup_steps in (0, 5)
        assert found.loss_fn is not None
        assert found.checkpoint.enabled
        assert callable(found.get("model._target_"))
        assert distributed.parse_distributed_section(found.get("distributed").to_dict())
        paths = found.dataloader.dataset_config.paths["train"]
        prefixes, weights = megatron.get_blend_from_list(paths)
        assert sum(weights) == 100
        assert [prefix.split("/")[-1] for prefix in prefixes][-1] == "new_text_document"
        if found.get("peft", None) is not None:
            adapters = found.get("peft").instantiate()
            assert (adapters.dim, adapters.match_all_linear) == (4, True)


def test_mixes_and_what_is_missing_are_there(whole):
    mixed = [yaml.safe_load(path.read_text()) for path in (whole / "llamafactory").glob("*r0.25*.yaml")]
    assert {value["interleave_probs"] for value in mixed} == {"0.25,0.75"}
    assert set(json.loads((whole / "llamafactory" / "dataset_info.json").read_text())) == {"old", "new"}
    text = next((whole / "axolotl").glob("*r0.25*.yaml")).read_text()
    assert re.match("# .*0.25 old", text)
    assert len(yaml.safe_load(text)["datasets"]) == 2
    for path in [*(whole / "huggingface").iterdir(), *(whole / "torchtitan").iterdir()]:
        assert "is held out by the sweep and is in these files" in path.read_text()
        assert "measures both losses after steps" in path.read_text()


def test_adapters_are_told_and_torchtitan_has_none(adapters):
    values = [yaml.safe_load(path.read_text()) for path in (adapters / "llamafactory").glob("*.yaml")]
    assert {value["lora_rank"] for value in values} == {4}
    assert not (adapters / "torchtitan").exists()


def test_a_corpus_of_several_files_keeps_its_share(recipe, tmp_path):
    text = {"old": {"files": ["old.jsonl", "more.jsonl"]}, "new": {"files": "new.jsonl"}}
    (tmp_path / "more.jsonl").write_text('{"text": "more of it"}\n')
    folder = written(recipe, tmp_path, text=text)
    value = yaml.safe_load(next((folder / "llamafactory").glob("*r0.25*.yaml")).read_text())
    assert value["dataset"] == "old-1,old-2,new"
    parts = [float(part) for part in value["interleave_probs"].split(",")]
    assert sum(parts[:2]) == pytest.approx(0.25, abs=1e-5)
    listed = json.loads((folder / "llamafactory" / "dataset_info.json").read_text())
    assert [listed[name]["file_name"].split("/")[-1] for name in ("old-1", "old-2")] == ["more.jsonl", "old.jsonl"]


def test_names_of_modules_stay_apart():
    assert list(files("torchtitan", [run_of("a-r0.25"), run_of("a_r0_25")])) == ["a_r0_25.py", "a_r0_25_.py"]


def test_no_name_of_a_recipe_ends_a_comment_or_a_text():
    """What a recipe names goes into files that are run: as text, never as code."""
    odd = "a'\"\\n$(touch x)\nimport os  # {{ 7 * 7 }}"
    run = run_of(model=odd, corpora=[Corpus(odd, 1.0, {"files": [{"path": odd}]})])
    written = {trainer: next(iter(files(trainer, [run]).values())) for trainer in TRAINERS}
    for trainer in ("trl", "torchtitan"):
        assert "\nimport os" not in written[trainer]
        assert repr(odd) in written[trainer]
    for trainer, name in {"axolotl": "base_model", "llamafactory": "model_name_or_path"}.items():
        assert yaml.safe_load(written[trainer])[name] == odd
    assert yaml.safe_load(written["automodel"])["model"]["pretrained_model_name_or_path"] == odd
    assert yaml.safe_load(written["huggingface"])["max_steps"] == STEPS
    script = f"torchrun() {{ printf '%s\\0' \"$@\"; }}\n{written['megatron']}"
    words = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")
    assert words[words.index("--load") + 1] == odd


def test_megatron_and_trl_are_told_the_same(whole):
    for path in (whole / "megatron").glob("*.sh"):
        text = path.read_text()
        assert "--train-iters 32 --lr 0.005" in text
        assert ("--lr-decay-style WSD" in text) == ("wsd" in path.name)
        assert ("--data-path 0.25" in text) == ("r0.25" in path.name)
    (path, *_) = (whole / "trl").glob("*cosine*.py")
    assert "'max_steps': 32" in path.read_text()


def test_adapters_for_trl_and_none_for_megatron(adapters):
    assert not (adapters / "megatron").exists()
    assert all("peft_config" in path.read_text() for path in (adapters / "trl").glob("*.py"))
