"""Real measurements: the shipped pilot, and public tables where they are at hand."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.runs import read_runs
from cptlaw.schedules import read_schedules

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "data"


def public(name: str) -> Path:
    path = PUBLIC / name
    if not path.exists():
        pytest.skip(f"the public measurements are not shipped: {path} is not here")
    return path


@pytest.fixture(scope="module")
def pilot():
    with resources.as_file(resources.files("cptlaw.examples") / "en_fr_pilot.csv") as path:
        return read_runs(path, n_params_kind="total")


def test_docs_to_code():
    runs = cl.examples.load("docs-to-code")
    frame, base = runs.frame, runs.frame["tokens"] == 0
    assert len(runs) == 4140
    assert (frame[~base]["run"].nunique(), frame[base]["run"].nunique()) == (204, 30)
    levels = runs.summary()["levels"]
    assert (levels["n_params"], levels["ptpp"], levels["replay"]) == (4, 5, 6)
    schedules = read_schedules(cl.examples.schedules("docs-to-code"))
    assert schedules.keys() == set(frame["run"].astype(str))
    last = frame[~base].groupby("run", observed=True)["step"].max()
    assert all(schedules[str(run)].n_cpt == step for run, step in last.items())
    for run, rows in frame[~base].groupby("run", observed=True):
        rates = schedules[str(run)].lr[schedules[str(run)].n_pretrain :][rows["step"].astype(int)]
        assert rates == pytest.approx(rows["lr"], rel=1e-5, abs=1e-9)


def test_what_the_card_of_docs_to_code_says():
    frame = cl.examples.load("docs-to-code").frame.assign(eval=lambda rows: rows["eval"].astype(str))
    run, base = frame[frame["tokens"] > 0], frame[frame["tokens"] == 0]
    cell = ["n_params", "ptpp", "seed", "replay", "eval"]
    plain = run[(run["lr_schedule"] == "constant") & (run["lr_peak"] == 0.003)].set_index([*cell, "tokens"])["loss"]
    ends = plain.groupby(level=cell).last()
    start = base.set_index(["n_params", "ptpp", "seed", "eval"])["loss"]
    source = ends.xs("source", level="eval").unstack("replay")
    forgetting = 100 * (source.div(start.xs("source", level="eval"), axis=0) - 1)
    small, large = forgetting.loc[(30352, 15, 0)], forgetting.loc[(124672, 279, 0)]
    assert (round(small[0]), round(large[0]), round(small[0.25]), round(large[0.25])) == (8, 34, 3, 20)
    assert (forgetting[0] - forgetting[0.05]).agg(["min", "max"]).round().tolist() == [2, 6]
    assert forgetting.xs(279, level="ptpp")[1.0].agg(["min", "max"]).round().tolist() == [5, 9]

    target = ends.xs("target", level="eval").unstack("replay")
    assert (100 * (target[0.05] / target[0] - 1)).agg(["min", "max"]).round(1).tolist() == [-1.2, 1.1]

    between = np.log(plain).unstack("seed").dropna()
    spread = np.sqrt(((between[0] - between[1]) ** 2 / 2).groupby(level="eval").mean())
    assert (100 * spread).round(1).to_dict() == {"source": 0.8, "target": 1.2}

    def gain(rows):
        """Return what rows at the end of their runs gain over the plain run at the same tokens, in percent."""
        last = rows[rows["tokens"] == rows.groupby("run", observed=True)["tokens"].transform("max")]
        losses = last.set_index([*cell, "tokens"])["loss"]
        return 100 * (1 - losses / plain.reindex(losses.index)).dropna()

    decayed = gain(run[run["lr_schedule"] == "wsd"])
    assert (len(decayed), round(decayed.mean(), 1)) == (24, 4.6)
    assert (round(decayed.min(), 1), round(decayed.max(), 1)) == (2.2, 7.6)
    halved = gain(run[run["lr_peak"] == 0.0015])
    assert (len(halved), int((halved > 0).sum()), round(halved.mean())) == (16, 14, 3)
    assert (round(halved.min(), 1), round(halved.max(), 1)) == (-1.0, 5.8)


def test_pilot(pilot):
    assert len(pilot) == 1120
    assert pilot.frame["run"].nunique() == 125
    assert pilot.evals == ("source", "target")
    assert pilot.notes == ()
    summary = pilot.summary()["levels"]
    assert (summary["n_params"], summary["ptpp"], summary["replay"]) == (3, 5, 5)
    pilot.require(["n_params", "tokens", "ptpp"])
    pilot.require(["replay"], skip_base=True)
    with refused(DataError, "'replay'", "52 rows", "row 2"):
        pilot.require(["replay"])


def test_pilot_base_losses(pilot):
    base = pilot.base_losses("source")
    frame = pilot.frame
    rows = frame[
        (frame["tokens"] == 0) & (frame["eval"] == "source") & (frame["n_params"] == 45936) & (frame["ptpp"] == 15)
    ]
    mean = base.loc[(base["n_params"] == 45936) & (base["ptpp"] == 15), "loss"].item()
    assert mean == pytest.approx(rows["loss"].mean())
    assert len(pilot.adapted()) == 1120 - 52


def test_pilot_filter_is_that_of_pandas(pilot):
    frame = pilot.frame
    kept = pilot.where("ptpp <= 31 and replay in (0.1, 25%) and atpp >= 1.99")
    direct = (frame["ptpp"] <= 31) & frame["replay"].isin([0.1, 0.25]) & (frame["tokens"] / frame["n_params"] >= 1.99)
    assert kept.frame["loss"].tolist() == frame.loc[direct, "loss"].tolist()
    assert len(pilot.where("not run == 'base-46k-p15-s0'")) == 1118


def test_chinchilla():
    runs = read_runs(public("chinchilla_epoch.csv"))
    assert len(runs) == 245
    assert len(runs.notes) == 2
    assert runs.frame["n_params"].dtype == np.float64
    runs.require(["n_params", "tokens", "flops"])


def test_gadre():
    path = public("gadre_overtraining_c4.csv")
    runs = read_runs(path, target_eval="c4_val")
    assert any(not lacks(note, "'domain'", "eval") for note in runs.notes)
    told = read_runs(path, columns={"eval": "domain"}, target_eval="c4_val")
    assert told.frame["eval"].tolist() == runs.frame["eval"].tolist()
    assert len(runs) == 272
    assert len(runs.on("target")) == 34
    assert len(runs.evals) == 8
    # 6 * n_params * tokens of the largest run is beyond 64-bit integers for an int64 table.
    assert len(runs.where("flops > 5e21 and eval == 'c4_val'")) >= 1
    small = read_runs(path, columns={"eval": "domain", "n_params": "n_params_noembed"})
    assert small.n_params_kind == "non_embedding"
    assert (small.frame["n_params"] < runs.frame["n_params"]).all()


def test_olmo_ladder():
    runs = read_runs(public("olmo_ladder.csv"), columns={"eval": "domain"})
    assert (len(runs), len(runs.evals), runs.frame["run"].nunique()) == (220, 11, 20)
    assert len(runs.where("tokens_per_param <= 21 and lr_peak < 1e-3")) > 0


def test_delphi_midtraining():
    runs = read_runs(public("delphi_midtrain.csv"), columns={"eval": "domain"})
    assert len(runs) == 126
    assert runs.frame["replay"].dropna().between(0, 1).all()
    assert len(runs.base_losses("math_val_raw")) <= 1


def test_replay_curves_without_tokens():
    runs = read_runs(public("mixlaws_ct_pythia70m.csv"), columns={"eval": "domain"}, target_eval="python")
    assert len(runs) == 984
    with refused(DataError, "'tokens'"):
        runs.require(["tokens"])


def test_schedule_curves():
    runs = read_runs(public("mpl_lr_curves.csv"))
    assert len(runs) == 4162
    runs.require(["step", "lr"])
    assert len(runs.where("split == 'train' and n_params == 25M").frame["run"].unique()) >= 2


def test_a_wide_table_is_read_with_an_eval_per_column_of_losses():
    runs = read_runs(public("dmsl_slimpajama.csv"))
    assert {"arxiv", "book"} <= set(runs.evals)
    assert any(not lacks(note, "arxiv", "book", "--losses") for note in runs.notes)
    few = read_runs(public("dmsl_slimpajama.csv"), losses={"source": "book_loss", "target": "arxiv_loss"})
    assert few.evals == ("source", "target")
