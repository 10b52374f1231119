"""Logs as the packages of today write them, each made here by the package itself.

A package that is not installed is skipped. Last read: wandb 0.31.0, mlflow-skinny 3.17.2, tensorboard 2.21.0,
transformers 5.23.0, torchtitan 0.3.0, nemo-automodel 0.7.0, lm-eval 0.4.13. Megatron-LM and NeMo 2 write their logs
from training scripts that no wheel holds, and W&B writes its CSV on its server: their formats stand in
test_text_logs.py, test_trackers.py and runs/messy/.
"""

import pytest
from tracker_logs import written_by

import cptlaw as cl

TENSORBOARD = """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("124M-r25")
for step in (0, 10):
    writer.add_scalar("eval/fr_loss", 3.0 - step / 100, step)
    writer.add_scalar("train/loss", 2.0, step)
writer.close()
"""

TRAINER = """
import torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
transformers.set_seed(0)
shape = dict(vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 32, (8, 128))]
settings = TrainingArguments("124M-r25", max_steps=10, per_device_train_batch_size=1, eval_strategy="steps",
    eval_steps=10, eval_on_start=True, save_steps=10, report_to=[],
    use_cpu=True, include_num_input_tokens_seen="all", logging_steps=5)
model, evals = LlamaForCausalLM(LlamaConfig(**shape)), {"fr": rows, "en": rows}
Trainer(model, settings, train_dataset=rows, eval_dataset=evals).train()
"""

TITAN = """
import sys, types
from torchtitan.tools.logging import init_logger
from torchtitan.components.metrics import MetricsProcessor
sys.stdout = open("titan.log", "w")
init_logger()
peak = types.SimpleNamespace(max_active_gib=1.0, max_active_pct=1.0, max_reserved_gib=1.0, max_reserved_pct=1.0)
memory = types.SimpleNamespace(get_peak_stats=lambda: peak, reset_peak_stats=lambda: None)
from torchtitan.tools.utils import Color
one = types.SimpleNamespace(color=Color(), ntokens_since_last_log=0, time_last_log=0.0, device_memory_monitor=memory,
    logger=types.SimpleNamespace(log=lambda *what: None), parallel_dims=types.SimpleNamespace(non_data_parallel_size=1))
for step, loss in ((0, 3.0), (10, 2.9)):
    MetricsProcessor.log_validation(one, loss, step)
"""

AUTOMODEL = """
from nemo_automodel.components.loggers.metric_logger import MetricLogger, MetricsSample
for name, key in (("validation", "val_loss"), ("training", "loss")):
    log = MetricLogger(f"124M-r25/{name}.jsonl", buffer_size=1)
    for step in (0, 10):
        log.log(MetricsSample(step=step, epoch=0, metrics={key: 3.0 - step / 100, "lr": 1e-4}))
    log.close()
"""

LM_EVAL = """
import json, lm_eval
from lm_eval.loggers import EvaluationTracker
with open("rows.jsonl", "w") as file:
    for place in range(20):
        print(json.dumps({"question": f"{place}?", "choices": ["yes", "no"], "answer": place % 2}), file=file)
task = {"task": "yes_no", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "question", "doc_to_choice": "choices",
    "doc_to_target": "answer", "metric_list": [{"metric": "acc"}]}
found = lm_eval.simple_evaluate("dummy", model_args="pretrained=124M-r25", tasks=[task], log_samples=False)
EvaluationTracker(output_path="out").save_results_aggregated(results=found, samples=None)
"""


def points(runs, *columns):
    return runs.frame.sort_values(["eval", "step"])[list(columns)].to_numpy().tolist()


@pytest.mark.parametrize(
    ("package", "script", "eval"),
    [
        ("tensorboard", TENSORBOARD, "fr"),
        ("torchtitan", TITAN, "validation"),
        ("nemo_automodel", AUTOMODEL, "validation"),
    ],
)
def test_two_validations_of_a_run(package, script, eval, tmp_path):
    runs = cl.import_logs(written_by(package, script, tmp_path), batch_tokens=1000)
    assert points(runs, "eval", "step", "tokens") == [[eval, 0, 0], [eval, 10, 10_000]]
    assert runs.frame["loss"].tolist() == pytest.approx([3.0, 2.9])


def test_the_trainer_of_transformers(tmp_path):
    runs = cl.import_logs(written_by("transformers", TRAINER, tmp_path))
    assert points(runs, "eval", "step", "tokens") == [
        [name, step, 128 * step] for name in ("en", "fr") for step in (0, 10)
    ]
    assert runs.frame["loss"].between(3, 4).all()


def test_the_evaluation_harness(tmp_path):
    runs = cl.import_logs(written_by("lm_eval", LM_EVAL, tmp_path) / "out")
    (row,) = runs.frame.to_dict("records")
    assert (row["eval"], row["metric"], row["n_items"]) == ("yes_no", "accuracy", 20)
    assert 0 <= row["loss"] <= 1
