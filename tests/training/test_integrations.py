"""cptlaw inside other trainers: each with a real training of a tiny model."""

import contextlib
import math
import sys

import numpy as np
import pytest
import torch
import transformers
from facts import refused

from cptlaw.errors import UsageError
from cptlaw.schedules import Phase, Schedule
from cptlaw_sweep.integrations import StopRule
from cptlaw_sweep.integrations.stopping import FIRST, doubt_of, falling_after, look_steps, schedule_of_rates
from studies.forecasts.stop_advice import conformal_margin, score_of

pytestmark = pytest.mark.filterwarnings("default")  # the libraries deprecate things of their own

STEPS = 200
PLAN = Schedule([Phase("cpt", STEPS, "constant", peak=1e-2, warmup=5)])


def decoder():
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(
        transformers.GPT2Config(
            n_embd=16, n_layer=1, n_head=2, vocab_size=64, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


def text(seed, rows=400):
    """Return rows of a language in which each word is followed by one of four."""
    draw = np.random.default_rng(seed)
    follow = draw.integers(0, 64, size=(64, 4))
    ids = np.empty((rows, 16), dtype=np.int64)
    ids[:, 0] = draw.integers(0, 64, rows)
    for place in range(1, 16):
        ids[:, place] = follow[ids[:, place - 1], draw.integers(0, 4, rows)]
    return [{"input_ids": row, "labels": row} for row in ids.tolist()]


def trained(tmp_path, callback, monkeypatch, model=None, optimizers=(None, None), also=(), free=1e9, **options):
    # The machine of a test may be slow, and its run is short: what forecasts cost is not the matter here.
    monkeypatch.setattr("cptlaw_sweep.integrations.huggingface.FREE_SECONDS", free)
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=STEPS, per_device_train_batch_size=8, per_device_eval_batch_size=64,
        learning_rate=1e-2, lr_scheduler_type="cosine", report_to=[], save_strategy="no", use_cpu=True,
        eval_on_start=True, logging_steps=1000, disable_tqdm=True, **{"warmup_steps": 5, **options},
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=model or decoder(), args=settings, train_dataset=text(1), callbacks=[callback, *also],
        optimizers=optimizers,
        eval_dataset={"source": text(2, 64), "target": text(1, 64)},
    )  # fmt: skip
    callback.attach(trainer)
    trainer.train()
    return trainer


def test_the_callback_measures_both_losses_and_forecasts_the_end(tmp_path, monkeypatch):
    from cptlaw_sweep.integrations import TrainerCallback

    callback = TrainerCallback(max_target_loss=50.0, max_forgetting="5000%", stop=True)
    trainer = trained(tmp_path, callback, monkeypatch)
    assert trainer.state.global_step == STEPS  # these limits are kept by far
    history = trainer.state.log_history
    ends = [entry for entry in history if "measured/target_loss" in entry]
    assert [entry["step"] for entry in ends] == [0, *look_steps(STEPS)]
    assert [entry["step"] for entry in history if "eval_target_loss" in entry] == [0]  # by eval_on_start
    told = [entry for entry in history if "forecast/target_loss" in entry]
    assert len(told) >= 4
    late = told[-1]
    assert late["forecast/target_lo"] < late["forecast/target_loss"] < late["forecast/target_hi"]
    assert late["forecast/target_loss"] == pytest.approx(ends[-1]["measured/target_loss"], rel=0.1)
    assert {"forecast/source_loss", "forecast/stop"} <= set(late)


def test_forecasts_come_after_the_warm_up_and_over_the_whole_run(tmp_path, monkeypatch, caplog):
    """Looks are dense at the beginning: their free seconds were spent there, on forecasts up to infinity."""
    from cptlaw_sweep.integrations import TrainerCallback, huggingface

    spent = iter(range(1000))
    monkeypatch.setattr(huggingface.time, "monotonic", lambda: 0.3 * next(spent))  # each look takes a part of a second
    monkeypatch.setattr("cptlaw_sweep.integrations.huggingface.COST", 0.0)
    monkeypatch.setattr("cptlaw_sweep.integrations.huggingface.MEASURING", math.inf)
    callback = TrainerCallback(max_target_loss=50.0)
    trainer = trained(tmp_path, callback, monkeypatch, free=3.0, warmup_steps=20)
    told = [entry for entry in trainer.state.log_history if "forecast/target_loss" in entry]
    assert told[0]["step"] > 20
    assert told[-1]["step"] > 0.5 * STEPS
    assert all(entry["forecast/target_hi"] < 2 * entry["forecast/target_loss"] for entry in told)
    assert "target loss at the end" in caplog.text
    assert "e+" not in caplog.text


def test_the_callback_stops_only_if_asked_what_will_miss_its_limit(tmp_path, monkeypatch):
    from cptlaw_sweep.integrations import TrainerCallback

    # Four words may follow each: nobody comes below log 4.
    asked = trained(tmp_path / "a", TrainerCallback(max_target_loss=0.5 * math.log(4), stop=True), monkeypatch)
    assert asked.state.global_step < 0.7 * STEPS
    callback = TrainerCallback(max_target_loss=0.5 * math.log(4))
    left = trained(tmp_path / "b", callback, monkeypatch)
    assert left.state.global_step == STEPS
    assert any(entry.get("forecast/stop") == 1.0 for entry in left.state.log_history)
    with pytest.raises(UsageError, match="needs a limit"):
        TrainerCallback(stop=True)
    with refused(UsageError, "target -1"):
        TrainerCallback(max_target_loss=-1)


def test_a_forecast_that_fails_does_not_end_the_training(tmp_path, monkeypatch, caplog):
    from cptlaw_sweep.integrations import TrainerCallback

    def fails(*args, **options):
        raise OverflowError("math range error")

    monkeypatch.setattr("cptlaw.forecast_run", fails)
    trainer = trained(tmp_path, TrainerCallback(max_target_loss=1.0, stop=True), monkeypatch)
    assert trainer.state.global_step == STEPS
    assert "no forecast at step" in caplog.text


SCHEDULERS = {
    "cosine": lambda given: torch.optim.lr_scheduler.CosineAnnealingLR(given, T_max=STEPS),
    "one-cycle": lambda given: torch.optim.lr_scheduler.OneCycleLR(given, max_lr=1e-2, total_steps=STEPS),
    "plateau": lambda given: torch.optim.lr_scheduler.ReduceLROnPlateau(given, factor=0.5, patience=0),
}


class Rates(transformers.TrainerCallback):
    """Notes the rate before each step, as the optimiser has it."""

    def __init__(self):
        self.found = []

    def on_step_begin(self, args, state, control, optimizer=None, **given):
        self.found.append(max(group["lr"] for group in optimizer.param_groups))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_any_scheduler_of_torch_trains_to_the_end(tmp_path, monkeypatch, caplog, name):
    """Those that follow the step are planned ahead; of the one that follows losses, the rates so far are taken."""
    from cptlaw_sweep.integrations import TrainerCallback
    from cptlaw_sweep.integrations.huggingface import planned_rates

    model = decoder()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = SCHEDULERS[name](optimiser)
    planned = planned_rates(scheduler, STEPS)
    assert scheduler.last_epoch == 0
    rates, callback = Rates(), TrainerCallback(max_target_loss=0.5 * math.log(4), stop=True)
    trainer = trained(
        tmp_path, callback, monkeypatch, model=model, optimizers=(optimiser, scheduler), also=[rates],
        eval_strategy="steps", eval_steps=20, metric_for_best_model="eval_target_loss",
    )  # fmt: skip
    assert [entry for entry in trainer.state.log_history if "forecast/target_loss" in entry]
    assert "no more forecasts" not in caplog.text
    if name == "plateau":
        assert planned is None
        assert trainer.state.global_step == STEPS  # nothing is stopped where the plan is not known
        assert caplog.text.count("ReduceLROnPlateau") == 1
        assert callback._rule.schedule.lr[STEPS] == pytest.approx(rates.found[-1])
    else:
        assert trainer.state.global_step < STEPS
        assert planned[: len(rates.found)] == pytest.approx(rates.found)


def test_a_warm_up_longer_than_the_run_and_a_fault_of_ours_end_no_training(tmp_path, monkeypatch, caplog):
    from cptlaw_sweep.integrations import TrainerCallback

    trainer = trained(tmp_path / "warm-up", TrainerCallback(max_target_loss=50.0), monkeypatch, warmup_steps=2 * STEPS)
    assert [entry for entry in trainer.state.log_history if "forecast/target_loss" in entry]
    assert "no more forecasts" not in caplog.text

    def fails(*args, **options):
        raise RuntimeError("a fault")

    for place in ("cptlaw_sweep.integrations.huggingface.planned_rates", "cptlaw.forecast_run"):
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(place, fails)
            trainer = trained(tmp_path / place, TrainerCallback(max_target_loss=1.0, stop=True), monkeypatch)
        assert trainer.state.global_step == STEPS
        assert caplog.text.count("a fault") == 1


def test_the_first_forecast_comes_within_300_steps_and_is_said(tmp_path, monkeypatch, caplog):
    from cptlaw_sweep.integrations import TrainerCallback

    assert look_steps(300)[3] < 10
    assert look_steps(200_000)[3] <= 300
    trained(tmp_path, TrainerCallback(), monkeypatch)
    said = [record.message for record in caplog.records if record.levelname == "WARNING" and "go on" in record.message]
    assert len(said) == 1


def test_a_trainer_built_on_that_of_hugging_face_takes_the_callback(tmp_path, monkeypatch):
    """TRL's SFTTrainer, which has its own data preparation, loss and logs."""
    trl = pytest.importorskip("trl", reason="TRL is not installed (make test-training installs it)")
    from datasets import Dataset
    from tokenizers import Tokenizer, models

    from cptlaw_sweep.integrations import TrainerCallback

    monkeypatch.setattr("cptlaw_sweep.integrations.huggingface.FREE_SECONDS", 1e9)
    words = {f"w{k}": k for k in range(63)} | {"<pad>": 63}
    named = {"unk_token": "<pad>", "pad_token": "<pad>", "eos_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<pad>")), **named
    )

    def rows(seed, n):
        return Dataset.from_list([{"input_ids": row["input_ids"]} for row in text(seed, n)])

    def tuned(folder, callback):
        settings = trl.SFTConfig(
            output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=8, per_device_eval_batch_size=64,
            learning_rate=1e-2, warmup_steps=5, lr_scheduler_type="cosine", report_to=[], save_strategy="no",
            use_cpu=True, bf16=False, max_length=16, eval_on_start=True,
            logging_steps=1000, disable_tqdm=True,
        )  # fmt: skip
        trainer = trl.SFTTrainer(
            model=decoder(), args=settings, train_dataset=rows(1, 400), processing_class=tokenizer,
            eval_dataset={"source": rows(2, 64), "target": rows(1, 64)}, callbacks=[callback],
        )  # fmt: skip
        callback.attach(trainer)
        trainer.train()
        return trainer

    kept = tuned(tmp_path / "a", TrainerCallback(max_target_loss=50.0, max_forgetting="5000%", stop=True))
    assert kept.state.global_step == STEPS
    measured = [entry for entry in kept.state.log_history if "measured/target_loss" in entry]
    told = [entry for entry in kept.state.log_history if "forecast/target_loss" in entry]
    assert measured[0]["step"] == 0
    assert told[-1]["forecast/target_lo"] < measured[-1]["measured/target_loss"] < told[-1]["forecast/target_hi"]
    assert {"forecast/source_loss", "forecast/stop"} <= set(told[-1])
    lost = tuned(tmp_path / "b", TrainerCallback(max_target_loss=0.5 * math.log(4), stop=True))
    assert lost.state.global_step < 0.7 * STEPS


def trial(rate, report):
    """Train a decoder at a rate; `report(step, loss)` may raise to end it."""
    model = decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    train, held = (torch.tensor([row["input_ids"] for row in text(1, n)]) for n in (400, 64))
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, step / 5)
        rows = train[(step * 8) % 392 :][:8]
        model(input_ids=rows, labels=rows).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            with torch.no_grad():
                loss = model(input_ids=held, labels=held).loss.item()
            report(step, loss)
    return loss


def test_the_pruner_of_optuna_prunes_what_cannot_win(caplog):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    from cptlaw_sweep.integrations import LawPruner

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rates = [1e-2, 1e-5, 8e-3, 3e-5]

    def objective(one):
        rate = one.suggest_float("rate", 1e-6, 1.0)

        def report(step, loss):
            one.report(loss, step)
            if one.should_prune():
                raise optuna.TrialPruned

        return trial(rate, report)

    study = optuna.create_study(pruner=LawPruner(PLAN), sampler=optuna.samplers.RandomSampler(seed=0))
    for rate in rates:
        study.enqueue_trial({"rate": rate})
    study.optimize(objective, n_trials=len(rates))
    states = [one.state.name for one in study.trials]
    assert states[0] == "COMPLETE"
    assert (states[1], states[3]) == ("PRUNED", "PRUNED")
    assert max(study.trials[1].intermediate_values) <= 0.7 * STEPS
    flipped = optuna.create_study(direction="maximize", pruner=LawPruner(PLAN, max_loss=1.0))
    for _ in range(3):
        assert not flipped.pruner.prune(flipped, study.trials[1])
    assert caplog.text.count("nothing is pruned") == 1


def test_a_pruner_that_fails_ends_no_study(monkeypatch, caplog):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    from cptlaw_sweep.integrations import LawPruner

    def fails(self):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(StopRule, "look", fails)
    study = optuna.create_study(pruner=LawPruner(PLAN, max_loss=1.0))

    def objective(one):
        one.report(2.0, 10)
        assert not one.should_prune()
        return 2.0

    study.optimize(objective, n_trials=3)
    assert [one.state.name for one in study.trials] == 3 * ["COMPLETE"]
    assert caplog.text.count("a fault") == 1
    for options in ({"max_loss": -1.0}, {"margin": math.nan}):
        with pytest.raises(UsageError):
            LawPruner(PLAN, **options)


def test_the_stopper_of_ray_stops_what_cannot_win(caplog):
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed")
    from ray.tune import Stopper

    from cptlaw_sweep.integrations import LawStopper

    stopper = LawStopper(PLAN, metric="eval_loss", step="training_step")
    assert isinstance(stopper, Stopper)

    class StoppedError(Exception):
        pass

    def run(name, rate):
        seen = []

        def report(step, loss):
            seen.append(step)
            if stopper(name, {"eval_loss": loss, "training_step": step}) and step < STEPS:
                raise StoppedError

        with contextlib.suppress(StoppedError):
            trial(rate, report)
        return seen[-1]

    assert run("good", 1e-2) == STEPS
    assert run("slow", 1e-5) <= 0.7 * STEPS
    assert not stopper.stop_all()
    for _ in range(2):
        assert not stopper("good", {"loss": 1.0})
        assert not stopper("good", {"eval_loss": 1.0, "training_step": math.nan})
    assert caplog.text.count("reports no 'eval_loss'") == caplog.text.count("NaN") == 1
    assert not stopper("good", {"eval_loss": 1.0, "training_step": 2 * STEPS})  # it trains on beyond its plan


def test_ray_tune_ends_a_trial_that_cannot_win(tmp_path, monkeypatch):
    """A real run of Ray Tune: the first trial sets what the second one cannot reach."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
    tune = pytest.importorskip("ray.tune", reason="Ray Tune is not installed")
    from cptlaw_sweep.integrations import LawStopper

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have the folder of the tests
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
    try:
        found = tune.Tuner(
            lambda given: trial(given["rate"], lambda step, loss: tune.report({"eval_loss": loss, "at": step})),
            param_space={"rate": tune.grid_search([1e-2, 1e-5])},
            tune_config=tune.TuneConfig(max_concurrent_trials=1),
            run_config=tune.RunConfig(
                stop=LawStopper(PLAN, metric="eval_loss", step="at"), storage_path=str(tmp_path), verbose=0
            ),
        ).fit()
    finally:
        ray.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert not found.errors
    last = {one.config["rate"]: one.metrics["at"] for one in found}
    assert last[1e-2] == STEPS
    assert last[1e-5] <= 0.7 * STEPS


def test_a_run_that_diverges_or_has_barely_begun_gets_no_advice():
    rule = StopRule(PLAN, {"target": 1.0})
    assert not rule.look().stop
    for step, loss in ((10, math.nan), (20, 3.0), (30, math.inf)):
        rule.measured("target", step, loss)
    advice = rule.look()
    assert not advice.stop
    assert advice.logs() == {}


def test_the_margin_holds_over_all_looks_and_limits():
    """Random walks that end at 0: of those that come, at most the promised share would ever have been stopped."""
    draw = np.random.default_rng(0)

    def curve():
        steps = draw.normal(size=12) / np.sqrt(12)
        forecasts = np.cumsum(steps[::-1])[::-1]  # what is still to come: the error of the forecast
        return forecasts, np.full(12, 0.3)

    done = np.ones(12)  # so that the doubt goes with the given one
    known = [score_of(loss, loss - doubt, done, 0.0) for loss, doubt in (curve() for _ in range(400))]
    margin = conformal_margin(known, 0.05)
    fresh = [curve() for _ in range(4000)]
    wrong = np.mean([(loss - margin * doubt_of(loss, loss - doubt, done) > 0).any() for loss, doubt in fresh])
    assert 0.02 < wrong < 0.08


def test_nothing_is_stopped_early_and_a_fall_ahead_is_doubted():
    decaying = Schedule([Phase("cpt", STEPS, "wsd", peak=1e-2, warmup=5, decay=50)]).lr
    assert (falling_after(decaying, 100), falling_after(decaying, STEPS)) == (1.0, 0.0)
    assert doubt_of(2.0, 1.9, 0.5, 1.0) > doubt_of(2.0, 1.9, 0.5)
    rule = StopRule(Schedule([Phase("cpt", 10_000, "constant", peak=1e-3, warmup=10)]), {"target": 1.0})
    for step in range(60, int(10_000 * FIRST), 60):
        rule.measured("target", step, 4.0 + step**-0.5)
    assert not rule.look().stop
    rule.measured("target", 600, 4.0 + 600**-0.5)
    assert rule.look().stop


def test_steps_count_from_the_training_at_hand():
    """A plan that has the pre-training too says the same of progress and of the rate that is still to fall."""
    decaying = Phase("cpt", 1000, "wsd", peak=1e-3, warmup=10, decay=400)
    whole = Schedule([Phase("pretrain", 5000, "constant", peak=2e-3, warmup=100), decaying])
    advice = {}
    for name, plan in {"alone": Schedule([decaying]), "whole": whole}.items():
        rule = StopRule(plan, {"target": 1.0})
        assert rule.n_steps == 1000
        for step in range(50, 500, 50):
            rule.measured("target", step, 2.0 + step**-0.5)
        advice[name] = rule.look()
    assert all(one.stop for one in advice.values())
    point = advice["whole"].points.iloc[0]
    expected = doubt_of(point["loss"], point["lo"], 0.45, falling_after(decaying_rates(decaying), 450))
    assert point["loss"] - point["bound"] == pytest.approx(StopRule(whole).margin * expected)
    finished = StopRule(whole, {"target": 1.0})
    for step in range(100, 1001, 100):
        finished.measured("target", step, 2.0)
    assert finished.look().points.empty


def decaying_rates(phase):
    return Schedule([phase]).lr


def test_a_limit_is_read_as_everywhere():
    from cptlaw_sweep.integrations import TrainerCallback

    assert StopRule(schedule_of_rates([1e-3, 1e-3]), max_forgetting="2%").max_forgetting == 0.02
    TrainerCallback(max_forgetting="2%", stop=True)
    # A rule is made anew for each training: a limit that was read stays the same.
    assert StopRule(schedule_of_rates([1e-3, 1e-3]), max_forgetting="500%").without_rows().max_forgetting == 5.0
    with refused(UsageError, "max_forgetting", "2%", "200%"):
        TrainerCallback(max_forgetting=2)
