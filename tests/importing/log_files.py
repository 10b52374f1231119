"""What the tests of importing write and look at."""

import json


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def cells(runs, *columns):
    return runs.frame[list(columns)].to_numpy().tolist()


def trainer_state(steps, offset=0.0):
    history = []
    for step in steps:
        history.append({"epoch": step / 1000, "grad_norm": 1.2, "learning_rate": 3e-4, "loss": 2.9, "step": step})
        evals = {"eval_fr_loss": 3.0 - step / 1000 + offset, "eval_fr_runtime": 1.5, "eval_fr_samples_per_second": 66.0}
        history.append({"epoch": step / 1000, **evals, "num_input_tokens_seen": step * 4096, "step": step})
        history.append({"epoch": step / 1000, "eval_en_loss": 2.0 + step / 1000, "step": step})
    history.append({"epoch": 1.0, "step": steps[-1], "total_flos": 1e15, "train_loss": 2.9, "train_runtime": 60.0})
    rest = {"best_metric": None, "epoch": 1.0, "is_world_process_zero": True, "max_steps": 400, "num_train_epochs": 1}
    return {**rest, "global_step": steps[-1], "log_history": history}
