"""Sweeps of rate and batch: laws are fitted to the best run of each cell, and the rest is told and left out."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.runs.sweeps import mistuned_runs

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def sweep(names=("lr", "batch_seqs"), seeds=(0,)):
    """Return models from scratch at three rates and two batches, of which .001 and 256 are the best."""
    rows = []
    for n, d, rate, batch, seed in itertools.product(
        (1e8, 4e8, 1.6e9), (2e9, 8e9, 32e9), (5e-4, 1e-3, 2e-3), (64, 256), seeds
    ):
        loss = 1.8 + 400 / n**0.34 + 1200 / d**0.37
        off = 0.02 * np.log2(rate / 1e-3) ** 2 + 0.03 * (batch == 64) + 0.001 * seed
        rows.append((f"{n:g}-{d:g}-{rate:g}-{batch}-{seed}", n, d, rate, batch, seed, loss * (1 + off)))
    return pd.DataFrame(rows, columns=["run", "n_params", "tokens", *names, "seed", "loss"])


def test_the_best_of_each_cell_is_left():
    runs = cl.read_runs(sweep())
    worse, tuned = mistuned_runs(runs)
    kept = runs.frame[~runs.frame["run"].isin(worse)]
    assert len(kept) == 9
    assert set(kept["lr_peak"]) == {1e-3}
    assert set(kept["batch_seqs"]) == {256}
    assert set(tuned) == {"lr_peak", "batch_seqs"}


def test_seeds_of_one_setting_stay_together():
    worse, _ = mistuned_runs(cl.read_runs(sweep(seeds=(0, 1, 2))))
    assert len(sweep(seeds=(0, 1, 2))) - len(worse) == 27


def test_a_rate_that_a_law_reads_is_no_sweep():
    """Of continual pre-training the peak rate is an input."""
    frame = sweep(names=("lr_peak", "batch_seqs")).assign(replay=0.1, ptpp=100)
    worse, tuned = mistuned_runs(cl.read_runs(frame))
    assert tuned == ["batch_seqs"]
    assert len(worse) == len(frame) / 2


def test_a_wide_table_has_the_numbers_of_its_lines_twice():
    frame = sweep()
    wide = frame.assign(source_loss=frame["loss"] + 0.1, target_loss=frame.pop("loss"))
    runs = cl.read_runs(wide)
    assert len(mistuned_runs(runs, "n_params > 2e8")[0]) == 2 * 15
    assert len(mistuned_runs(runs)[0]) == 45


def test_a_fit_is_of_the_best_runs_unless_all_are_asked_for():
    best = cl.fit("auto", cl.read_runs(sweep()), on="target")
    assert best.n_points == 9
    (said,) = [one for one in best.findings if one.code == "mistuned-runs"]
    assert said.data["runs"] == 45
    assert cl.fit("auto", cl.read_runs(sweep(), all_runs=True), on="target").n_points == 54
    assert len(cl.read(sweep(), all_runs=True).runs) == 54


def test_answers_and_plans_take_rate_and_batch_from_the_valley_though_runs_collapsed(tmp_path):
    rows = []
    for n, d in itertools.product((1e8, 4e8, 1.6e9), (2e9, 8e9, 32e9)):
        best = 1e-3 * (n / 4e8) ** -0.4 * (d / 8e9) ** 0.1, 2**18 * (d / 8e9) ** 0.5
        for rate, batch in itertools.product(1e-3 * 2.0 ** np.arange(-3, 4), 2.0 ** np.arange(16, 22)):
            off = np.log([rate, batch]) - np.log(best)
            loss = (1.8 + 400 / n**0.34 + 1200 / d**0.37) * (1 + off**2 @ [0.006, 0.004])
            rows.append((n, d, rate, batch, 10.4 if off[0] > 1.9 else loss))
    frame = pd.DataFrame(rows, columns=["n_params", "tokens", "lr", "batch_tokens", "loss"])
    collapsed = int((frame["loss"] == 10.4).sum())
    answer = cl.answer(frame, n_params=3e9, tokens=64e9)
    assert answer.lr_peak == pytest.approx(1e-3 * 7.5**-0.4 * 8**0.1, rel=0.15)
    assert answer.batch_tokens == pytest.approx(2**18 * 8**0.5, rel=0.15)
    assert answer.target_loss == pytest.approx(1.8 + 400 / 3e9**0.34 + 1200 / 64e9**0.37, rel=0.005)
    assert "steps of 741K tokens" in repr(answer)
    told = {one.code: one.data for one in answer.findings}
    assert len(told["suspected-mix-up"]["runs"]) == collapsed
    assert told["mistuned-runs"]["runs"] == len(frame) - 9
    # A plan from the file of that fit says the same, and one from a file of before says nothing.
    fit = cl.fit("auto", frame)
    fit.save(tmp_path / "fit.json")
    plan = cl.plan.allocate(cl.load_fit(tmp_path / "fit.json"), budget=answer.flops)
    asked = cl.answer(frame, n_params=plan.n_params, tokens=plan.tokens)
    assert (plan.lr_peak, plan.batch_tokens) == (asked.lr_peak, asked.batch_tokens)
    document = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
    del document["provenance"]["tuning"]
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    old = cl.plan.allocate(tmp_path / "old.json", budget=answer.flops)
    assert (old.target_loss, old.lr_peak, old.batch_tokens) == (plan.target_loss, None, None)
    document["provenance"]["tuning"] = {"batches": 3}
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(cl.DataError, match="Fit again"):
        cl.plan.allocate(tmp_path / "old.json", budget=answer.flops)


def test_a_table_without_a_sweep_loses_nothing():
    frame = sweep()
    plain = frame[(frame["lr"] == 1e-3) & (frame["batch_seqs"] == 256)]
    assert mistuned_runs(cl.read_runs(plain)) == (frozenset(), [])


@pytest.mark.skipif(not (DATA / "openeuro_dense.csv").is_file(), reason="OpenEuroLLM's table is not here")
def test_a_real_sweep_forecasts_its_largest_size_from_the_best_of_each_cell():
    runs = cl.read_runs(DATA / "openeuro_dense.csv")
    fit = cl.fit("auto", runs, on="target", where="n_params < 4e8")
    large = runs.frame[runs.frame["n_params"] > 4e8]
    best = large.loc[large.groupby("tokens")["loss"].idxmin()]
    error = np.log(fit.forecast(best[["n_params", "tokens"]])["loss"].to_numpy() / best["loss"].to_numpy())
    assert np.abs(error).mean() < 0.004  # .0087 of all runs
    answer = cl.answer(runs, n_params=1.3e9, tokens=1e11)
    assert 4e-4 < answer.lr_peak < 1.2e-3
    assert 5e5 < answer.batch_tokens < 2e6
    assert "687 runs" in answer.lr_why
