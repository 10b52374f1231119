"""A training is the same with the callback and without it: weights, steps, rates and logs, to the last digit."""

import copy
import random

import numpy as np
import pytest
import torch
import transformers
from test_integrations import Rates, text

from cptlaw.errors import UsageError
from cptlaw_sweep.integrations import TrainerCallback, huggingface
from cptlaw_sweep.integrations.measuring import HeldOutLosses
from cptlaw_sweep.integrations.stopping import look_steps

pytestmark = pytest.mark.filterwarnings("default")  # the libraries deprecate things of their own

STEPS = 48
EVALS = {"source": text(2, 40), "target": text(1, 40)}
OURS = ("forecast/", "measured/")


class FailsInEvaluation(transformers.GPT2LMHeadModel):
    """Runs out of memory in every evaluation."""

    def forward(self, input_ids=None, labels=None, **named):
        if not self.training:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return super().forward(input_ids=input_ids, labels=labels, **named)


def decoder(kind):
    torch.manual_seed(0)
    return kind(
        transformers.GPT2Config(  # with dropout: each draw of another hand would show
            n_embd=16, n_layer=1, n_head=2, vocab_size=64, n_positions=16, resid_pdrop=0.1, embd_pdrop=0.1,
            attn_pdrop=0.1, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


def trainer_of(folder, callbacks, case, with_callback):
    ours = ("early", "sets", "model", "scheduler", "resume")
    options = {
        "max_steps": STEPS, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 16, "learning_rate": 1e-2,
        "report_to": [], "save_strategy": "no", "use_cpu": True, "logging_steps": 4, "disable_tqdm": True,
        "warmup_steps": 3, "lr_scheduler_type": "cosine",
    } | {name: value for name, value in case.items() if name not in ours}  # fmt: skip
    model = decoder(case.get("model", transformers.GPT2LMHeadModel))
    rates, optimizers = Rates(), (None, None)
    if "scheduler" in case:
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        optimizers = (optimiser, case["scheduler"](optimiser))
    early = [transformers.EarlyStoppingCallback(early_stopping_patience=1)] if case.get("early") else []
    trainer = transformers.Trainer(
        model=model, args=transformers.TrainingArguments(output_dir=str(folder), **options), train_dataset=text(1, 300),
        eval_dataset=case.get("sets", EVALS), callbacks=[*callbacks, *early, rates], optimizers=optimizers,
    )  # fmt: skip
    if with_callback:
        callbacks[0].attach(trainer)
    return trainer, rates


def trained(folder, case, with_callback):
    """Return all that a training leaves: weights, steps, rates, logs, and the random numbers that come next."""
    callbacks = (
        [TrainerCallback(max_target_loss=50.0, max_forgetting="5000%", stop=True, looks=6)] if with_callback else []
    )
    trainer, rates = trainer_of(folder, callbacks, case, with_callback)
    trainer.train()
    found = list(rates.found)
    if case.get("resume"):
        callbacks = [TrainerCallback(max_target_loss=50.0, looks=6)] if with_callback else []
        trainer, rates = trainer_of(folder, callbacks, case, with_callback)
        trainer.train(resume_from_checkpoint=str(folder / "checkpoint-16"))
        found += rates.found
    timed = ("runtime", "per_second", "flos")
    logs = [
        {name: value for name, value in entry.items() if not any(word in name for word in timed)}
        for entry in trainer.state.log_history
        if not any(name.startswith(OURS) for name in entry)
    ]
    weights = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    drawn = (torch.rand(1).item(), float(np.random.rand()), random.random())
    ours = [entry for entry in trainer.state.log_history if any(name.startswith(OURS) for name in entry)]
    return {"weights": weights, "steps": trainer.state.global_step, "rates": found, "logs": logs, "drawn": drawn}, ours


EVERY = {"eval_strategy": "steps", "eval_steps": 4}
SAVED = {"save_strategy": "steps", "save_steps": 16}
BEST = EVERY | {"save_strategy": "steps", "save_steps": 4, "load_best_model_at_end": True}
ON_TARGET = {"metric_for_best_model": "eval_target_loss"}
PLATEAU = EVERY | ON_TARGET | {
    "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"patience": 0, "factor": 0.5}
}  # fmt: skip
LINEAR = {"lr_scheduler_type": "linear"}
TWICE, FAILS = {"gradient_accumulation_steps": 2}, {"model": FailsInEvaluation}


def one_cycle(optimiser):
    return torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-2, total_steps=STEPS)


CASES = {
    "cosine": {},
    "linear, accumulated": LINEAR | TWICE,
    "constant, evaluated": EVERY | {"lr_scheduler_type": "constant", "eval_on_start": True},
    "one-cycle": {"scheduler": one_cycle},
    "plateau": PLATEAU,
    "early stopping": BEST | ON_TARGET | {"early": True, "learning_rate": 3e-1},
    "plateau, early stopping, accumulated": BEST | PLATEAU | TWICE | {"early": True},
    "no eval set": {"sets": None},
    "no eval set, another schedule": {"sets": None, "lr_scheduler_type": "inverse_sqrt"},
    "other names": {"sets": {"old": EVALS["source"]}},
    "one set": {"sets": EVALS["target"]},
    "an empty set": {"sets": {"source": [], "target": EVALS["target"]}},
    "evaluation raises": FAILS,
    "evaluation raises, accumulated, linear": FAILS | TWICE | LINEAR,
    "resumed": SAVED | {"resume": True},
    "resumed, plateau": PLATEAU | SAVED | {"resume": True},
    "resumed, accumulated": SAVED | TWICE | {"resume": True},
}
UNMEASURED = ("no eval set", "other names", "an empty set", "evaluation raises")


@pytest.mark.parametrize("name", CASES)
def test_nothing_changes(tmp_path, monkeypatch, name):
    monkeypatch.setattr(huggingface, "FREE_SECONDS", 1e9)  # on a slow machine too all looks are made
    alone, none = trained(tmp_path / "alone", copy.copy(CASES[name]), with_callback=False)
    watched, ours = trained(tmp_path / "watched", copy.copy(CASES[name]), with_callback=True)
    assert not none
    assert bool(ours) is not name.startswith(UNMEASURED)
    for key, weights in alone.pop("weights").items():
        assert torch.equal(weights, watched["weights"][key]), key
    watched.pop("weights")
    assert watched == alone
    assert alone["steps"] == STEPS or CASES[name].get("early")


def test_losses_are_those_of_an_evaluation_of_the_trainer(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "FREE_SECONDS", 1e9)
    case = {"eval_strategy": "steps", "eval_steps": 1, "eval_on_start": True}
    callback = TrainerCallback(max_forgetting="5000%")
    trainer, _ = trainer_of(tmp_path, [callback], case, with_callback=True)
    trainer.train()
    history = trainer.state.log_history
    for name in EVALS:
        theirs = {entry["step"]: entry[f"eval_{name}_loss"] for entry in history if f"eval_{name}_loss" in entry}
        ours = {entry["step"]: entry[f"measured/{name}_loss"] for entry in history if f"measured/{name}_loss" in entry}
        assert set(ours) == {0, *look_steps(STEPS)}
        # transformers 5 divides by all 16 labels of a row, of which the first is not forecast: ours are per token.
        ratios = [ours[step] / theirs[step] for step in ours]
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-5)
        assert min(abs(ratios[0] - 1), abs(ratios[0] - 16 / 15)) < 1e-5


def test_a_resumed_run_knows_its_base_model_and_its_past(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "FREE_SECONDS", 1e9)
    case = {"save_strategy": "steps", "save_steps": 16}
    first, _ = trainer_of(tmp_path, [TrainerCallback(max_forgetting=0.5)], case, with_callback=True)
    first.train()
    callback = TrainerCallback(max_forgetting=0.5)
    again, _ = trainer_of(tmp_path, [callback], case, with_callback=True)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-16"))
    base = next(entry["measured/source_loss"] for entry in first.state.log_history if "measured/source_loss" in entry)
    assert callback._rule.all_limits()["source"] == pytest.approx(1.5 * base)
    steps = {row["step"] for row in callback._rule._rows}
    assert steps == {0, *look_steps(STEPS)}


def test_without_attach_the_evaluations_that_happen_anyhow_are_taken(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(huggingface, "FREE_SECONDS", 1e9)
    callback = TrainerCallback()
    trainer, _ = trainer_of(tmp_path / "a", [callback], dict(EVERY), with_callback=False)
    trainer.train()
    assert [entry["step"] for entry in trainer.state.log_history if "eval_target_loss" in entry] == [*range(4, 49, 4)]
    assert any("forecast/target_loss" in entry for entry in trainer.state.log_history)
    assert "attach" not in caplog.text
    trainer, _ = trainer_of(tmp_path / "b", [TrainerCallback()], {}, with_callback=False)
    trainer.train()
    assert caplog.text.count("attach(trainer) was not called") == 1


def test_measurements_keep_to_their_share_of_the_time(tmp_path, monkeypatch):
    """Each takes ten seconds of a clock on which a step takes one: 2 % of the time allow one after 500 steps."""
    clock = [0.0]
    monkeypatch.setattr(huggingface, "FREE_SECONDS", 0.0)
    monkeypatch.setattr(huggingface.time, "monotonic", lambda: clock[0])
    measured = []

    def slow(self, model, seconds=None):
        clock[0] += 10.0
        measured.append(clock[0])
        return {"source": 2.0, "target": 2.0}

    monkeypatch.setattr(HeldOutLosses, "measure", slow)

    class Ticks(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **given):
            clock[0] += 30.0

    callback = TrainerCallback()
    trainer, _ = trainer_of(tmp_path, [callback, Ticks()], {}, with_callback=True)
    trainer.train()
    inside = measured[1:]  # behind that of the base model
    assert 2 <= len(inside) < len(look_steps(STEPS))
    assert 10.0 * (len(inside) - 1) <= huggingface.MEASURING * inside[-1]


def test_rows_that_are_not_reached_in_time_are_never_measured():
    model = decoder(transformers.GPT2LMHeadModel)
    held = HeldOutLosses(EVALS, transformers.default_data_collator, batch_size=8, rows=32)
    whole = held.measure(model)
    held.measure(model, seconds=0.0)
    assert held.rows == 8
    part = held.measure(model)
    assert part == held.measure(model) != whole
    assert part["source"] == pytest.approx(whole["source"], rel=0.1)


def test_modes_of_frozen_parts_are_left():
    model = decoder(transformers.GPT2LMHeadModel).train()
    model.transformer.drop.eval()
    before = [module.training for module in model.modules()]
    HeldOutLosses(EVALS, transformers.default_data_collator, batch_size=8, rows=8).measure(model)
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize(
    "options",
    [{"looks": 0}, {"looks": 3}, {"looks": 2.5}, {"looks": True}, {"rows": 0}, {"source": "target"},
     {"source": "a", "target": "a"}, {"margin": float("nan")}, {"margin": -1.0}, {"max_forgetting": float("nan")},
     {"max_source_loss": float("inf")}, {"stop": True}],
)  # fmt: skip
def test_nonsense_is_refused_before_the_training(options):
    with pytest.raises(UsageError):
        TrainerCallback(**options)
