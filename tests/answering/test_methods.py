"""Runs of several kinds, ways of adapting and vocabularies, are never fitted together."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counting import counted
from facts import lacks, refused

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.fitting.auto.rows import choose_rows
from cptlaw.runs.kinds import kinds

MEASURED = Path(cl.__file__).parents[1] / "studies" / "measured"
ASKED = {"n_params": 1e8, "ptpp": 20, "tokens": "2B", "max_forgetting": "20%"}


def rows(method="full", gain=0.4, rise=0.2, bases=True):
    """Return runs of one method: a target that falls by its share, a source that rises by its own."""
    listed = []
    for replay in (0.0, 0.1, 0.3):
        for tokens in (5e8, 1e9, 2e9, 4e9):
            size = 1 - np.exp(-tokens / 1e9)
            losses = {"target": 3.0 * (1 - gain * size * (1 - replay) ** 0.2)}
            losses["source"] = 2.0 * (1 + rise * size * (1 - replay) ** 4)
            listed += [
                {"run": f"{method}-{replay}", "eval": role, "loss": loss, "tokens": tokens, "replay": replay}
                for role, loss in losses.items()
            ]
    if bases:
        of_base = {"run": "base", "tokens": 0.0, "replay": np.nan}
        listed += [{**of_base, "eval": "target", "loss": 3.0}, {**of_base, "eval": "source", "loss": 2.0}]
    frame = pd.DataFrame(listed).assign(n_params=1e8, ptpp=20.0)
    frame["method"] = np.where(frame["tokens"] > 0, method, None)
    return frame


def table(*parts, **more):
    return cl.read_runs(pd.concat(parts, ignore_index=True).assign(**more), n_params_kind="total")


@pytest.fixture(scope="module")
def both():
    return table(rows(gain=0.3), rows("frozen", gain=0.45, rise=0.1, bases=False))


def test_kinds_share_the_base_models_that_name_none(both):
    one, two = kinds(both)
    assert (str(one), str(two)) == ("method frozen", "method full")
    base = (both.frame["tokens"] == 0).to_numpy()
    assert one.mask[base].all()
    assert two.mask[base].all()
    assert not (one.adapted & two.adapted).any()
    for kind in (one, two):
        assert len(both.where(kind.query)) == kind.mask.sum()


def test_the_base_model_of_one_method_is_that_of_the_others_too():
    other = rows("frozen", bases=False)
    named = rows().assign(method="full")
    assert [(kind.mask & ~kind.adapted).sum() for kind in kinds(table(named, other))] == [2, 2]
    grown = rows("grown").assign(method="grown")
    several = pd.concat([named, grown.assign(run="new " + grown["run"])])
    without = next(kind for kind in kinds(table(several, other)) if kind.levels["method"] == "frozen")
    assert not (without.mask & ~without.adapted).any()  # of two that differ nothing says which it is


def test_an_empty_method_is_training_of_all_weights():
    mixed = table(rows(None), rows("frozen", bases=False))
    _, two = kinds(mixed)
    assert two.levels == {"method": "full"}
    assert len(mixed.where(two.query)) == two.mask.sum()


def test_a_method_that_ranks_and_weights_tell_is_no_kind():
    adapters = rows("lora", bases=False).assign(lora_rank=16.0)
    merges = rows("merge", bases=False).assign(merge_weight=0.5)
    assert len(kinds(table(rows(), adapters, merges))) == 1
    # Two methods with ranks are told apart by the method alone.
    assert len(kinds(table(rows(), adapters, rows("dora", bases=False).assign(lora_rank=16.0)))) == 3


def test_a_method_of_its_own_for_every_run_is_the_name_of_the_run():
    ideas = pd.concat([rows(), *(rows(f"idea {number}", bases=False) for number in range(3))])
    ideas["method"] = ideas["run"].where(ideas["tokens"] > 0, None)
    assert len(kinds(table(ideas))) == 1
    ideas["method"] = ideas["run"].str[0].where(ideas["tokens"] > 0, None)
    assert len(kinds(table(ideas))) == 2


def adapted(frame):
    return set(frame.loc[frame["tokens"] > 0, "run"])


def test_a_fit_takes_one_kind_and_says_so(both):
    alone = choose_rows(both.where('method == "frozen" or tokens == 0'), "target", None)
    for where in ('method == "frozen" or tokens == 0', 'method == "frozen"'):
        chosen = choose_rows(both, "target", where)
        assert "main-kind" not in {one.code for one in chosen.findings}
        assert adapted(chosen.frame) == adapted(alone.frame)
    more = table(rows(), rows("frozen", bases=False).query("replay > 0"))
    fitted = cl.fit(more, on="target")
    note = next(one for one in fitted.findings if one.code == "main-kind")
    assert "method full" in note.message
    assert note.remedy.value == '(method == "frozen" or tokens == 0)'
    assert {name.split("-")[0] for name in fitted.data["run"]} == {"full"}
    assert "main-kind" in {one.code for one in cl.check(more, on="target").findings}


@pytest.mark.dear("both losses of two kinds are fitted")
def test_an_answer_takes_the_best_kind_and_shows_the_others(both):
    best = cl.answer(both, **ASKED)
    assert (best.feasible, best.method) == (True, "frozen")
    (other,) = best.other_kinds
    assert other["target_loss"] > best.target_loss
    assert other["change"].startswith("method full: 2B tokens")
    assert "method frozen" in dict(best.lines)["answer"]
    assert dict(best.lines)["or"].startswith("method full: 2B tokens, ")
    assert f"source loss {other['source_loss']:.4g}" in dict(best.lines)["or"]
    assert "bases-differ" not in {one.code for one in best.findings}
    full = cl.answer(both, **ASKED, method="full")
    assert (full.method, full.other_kinds) == ("full", ())
    assert full.target_loss == pytest.approx(other["target_loss"])
    # What is said of it stands in the commands that repeat it.
    assert any("method ==" in step for step in full.commands)
    with refused(UsageError, "--method lora", "frozen", "full"):
        cl.answer(both, **ASKED, method="lora")
    with refused(UsageError, "--method"):
        cl.answer(n_params="8B", ptpp=20, tokens="2B", method="lora")


def vocabularies():
    measured = pd.read_csv(MEASURED / "vocabulary.csv")
    measured = measured.query("seed == 0 and vocab_added != 128 and method in ('none', 'mean', 'random')")
    return measured, {"n_params": 55_152, "ptpp": 31, "tokens": "400K"}


def test_two_vocabularies_are_compared_per_byte_alone():
    measured, asked = vocabularies()
    with refused(UsageError, "512", "--vocab-added", "nats_per_byte"):
        cl.answer(cl.read_runs(measured.drop(columns="metric"), n_params_kind="total"), **asked)


@pytest.mark.nightly
def test_the_best_of_two_vocabularies_is_told():
    measured, asked = vocabularies()
    best = cl.answer(cl.read_runs(measured, n_params_kind="total"), **asked)
    assert (best.method, best.vocab_added) == ("mean", 512)
    assert lacks(dict(best.lines)["answer"], "mean", "512") == []
    assert {one["change"].split(":")[0] for one in best.other_kinds} == {
        "method random, vocab_added 512",
        "method none, vocab_added 0",
    }
    forecasts = [one["target_loss"] for one in best.other_kinds]
    assert forecasts == sorted(forecasts)
    assert "bases-differ" in {one.code for one in best.findings}  # rows that start as noise raise the loss before
    with counted() as counts, pytest.raises(UsageError, match=r"2\.024 to .*method mean"):
        cl.answer(cl.read_runs(measured, n_params_kind="total"), **asked, max_forgetting="30%")
    assert counts["fits"] == 0  # refused before anything is fitted
    # The base models of the others are none of its own.
    alone = cl.answer(cl.read_runs(measured, n_params_kind="total"), **asked | {"n_params": 73_584}, vocab_added=512)
    own = measured.query("method == 'mean' and tokens == 0 and eval == 'source'")["loss"]
    assert alone.base_source_loss == pytest.approx(own.mean(), rel=1e-6)
