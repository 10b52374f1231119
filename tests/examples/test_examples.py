"""The example runs: what their cards and schedules say follows from their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.schedules import read_schedules

FOLDER = Path(cl.examples.path("en-fr-pilot")).parent
COMPUTED = ("en-fr-ladder", "code-to-prose", "docs-to-manuals", "domains")


@pytest.mark.parametrize("name", COMPUTED)
def test_a_card_says_what_its_rows_say(name, named_study):
    script = named_study("measured_facts")
    assert set(script.NAMES) == set(COMPUTED)
    card = cl.examples.path(name).with_suffix(".md").read_text(encoding="utf-8")
    computed = card.partition(script.BEGIN)[2].partition(script.END)[0]
    assert computed.strip().splitlines() == script.facts(name)


@pytest.mark.parametrize("name", COMPUTED)
def test_runs_are_whole_and_their_schedules_are_theirs(name):
    frame = cl.examples.load(name).frame
    assert frame["loss"].between(0.5, 6).all()
    assert not frame.duplicated(["run", "eval", "step"]).any()
    runs = frame[frame["tokens"] > 0]
    based = set(frame.loc[frame["tokens"] == 0, "base"].astype(str))
    assert set(runs["base"].astype(str)) == based
    assert runs.groupby("run", observed=True)["eval"].nunique().eq(2).all()
    schedules = read_schedules(cl.examples.schedules(name))
    assert schedules.keys() == set(frame["run"].astype(str))
    for run, rows in runs.groupby("run", observed=True):
        schedule = schedules[str(run)]
        assert schedule.n_cpt == rows["step"].max()
        rates = schedule.lr[schedule.n_pretrain :][rows["step"].astype(int)]
        assert rates == pytest.approx(rows["lr"], rel=1e-5, abs=1e-9)
        per_step = (rows["tokens"] / rows["step"]).unique()
        assert per_step == pytest.approx([1024.0])
        assert np.isclose(schedule.lr[: schedule.n_pretrain].max(), rows["lr_pretrain"].iloc[0], rtol=1e-6)


def test_the_examples_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 6e6
    for name in cl.examples.EXAMPLES:
        assert cl.examples.path(name).with_suffix(".md").is_file()


def test_the_domains_have_the_nine_ratios():
    frame = cl.examples.load("domains").frame
    runs = frame[frame["tokens"] > 0]
    for _, cell in runs.groupby(["domain", "n_params"], observed=True):
        assert sorted(cell["replay"].round(4).unique()) == [0, 0.1, 0.2, 0.3333, 0.5, 0.6667, 0.8, 0.9, 1]
    assert runs["domain"].nunique() >= 4


def test_a_plan_takes_the_pretraining_rate_of_the_runs():
    """Tables that say it were refused by plans: nobody was asked for a rate that no plan can choose."""
    runs = cl.examples.load("code-to-prose").where("ptpp <= 124 and lr_schedule == 'constant' or tokens == 0")
    target, source = (cl.fit("shared-tokens", runs, on, restraint="none") for on in ("target", "source"))
    plan = cl.plan.trade_off(
        target, source, n_params=45936, ptpp=279, tokens=4e5, max_forgetting=0.2, base_source_loss=1.638, interval=None
    )
    assert plan.feasible
    assert 0 <= plan.replay <= 0.5
