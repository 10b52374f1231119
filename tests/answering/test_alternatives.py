"""What else saves the source: the numbers follow from the measured tables, and answers hold them beside the plan."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.answering import alternatives as room
from cptlaw.answering.answer_text import short_tables

ROOT = Path(__file__).parents[2]
NUMBERS = json.loads(Path(room.__file__).with_name("alternatives.json").read_text(encoding="utf-8"))


def test_the_numbers_are_those_of_the_measured_tables(named_study):
    assert named_study("merge_law").chosen_numbers() == NUMBERS["merge"]
    assert named_study("adapters").learned() == NUMBERS["lora"]


def test_the_chosen_form_forecasts_what_it_has_not_seen_better_than_a_line(named_study):
    found = named_study("merge_law").comparison().set_index(["loss", "form"])
    for role in ("source", "target"):
        assert (found.loc[role, "tokens"] < found.loc[role, "line"]).all()


@pytest.mark.parametrize("role", ["source", "target"])
def test_a_merge_begins_at_the_base_model_and_ends_at_the_adapted_one(role):
    for per_param in (1e-3, 0.5, 16.0, 1e4):
        shares = [room.share_of_change(role, weight, per_param, 1e5) for weight in (0.0, 0.5, 1.0)]
        assert shares[0] == (0.0, 0.0)
        assert shares[2] == (1.0, 0.0)
        assert 0 < shares[1][0] < 1
        assert shares[1][1] == pytest.approx(NUMBERS["merge"][role]["half_width"])


@pytest.fixture(scope="module")
def found():
    runs = cl.examples.load("en-fr-pilot").where("ptpp in (15, 31, 62) and n_params < 80K")
    return cl.answer(runs, n_params="75072", ptpp=62, tokens="1M", max_forgetting="25%")


def test_an_answer_from_runs_has_them(found):
    merge, *adapters = (one for one in found.to_dict()["alternatives"] if one["method"] != "mix")
    assert merge["method"] == "merge"
    assert merge["forgetting_lo"] < merge["forgetting"] < merge["forgetting_hi"]
    assert merge["target_loss_lo"] < merge["target_loss"] < merge["target_loss_hi"]
    steps = merge["forgetting"] - found.forgetting
    assert abs(steps) < 0.05  # of nine weights the nearest to the plan's own forgetting
    assert {one["method"] for one in adapters} == {"lora"}
    assert all(one["measured_on"] for one in (merge, *adapters))
    assert any(label == "or no replay" for label, _ in found.details)


def test_nothing_is_said_without_a_base_model_or_without_replay(found):
    point = {"n_params": 75072.0, "ptpp": 62.0, "tokens": 1e6, "replay": 0.2}
    losses = {"base_target_loss": 2.9, "base_source_loss": 2.0, "forgetting": 0.1}
    assert room.alternatives({"target": None}, point, **losses) == ()
    assert room.alternatives({"target": None, "source": None}, point, **{**losses, "base_target_loss": None}) == ()
    assert room.alternatives({"target": None, "source": None}, {**point, "replay": 0.0}, **losses) == ()


@pytest.mark.parametrize(("spread", "kinds"), [(0.2, {"merge", "lora"}), (1.6, set())])
def test_what_nothing_bounds_is_no_alternative(spread, kinds):
    """From a table of one run forgetting after a merge was said to be -19% to 699%."""

    class Forecast:
        def log_quantiles(self, rows, probabilities):
            return np.log(2.5) + spread * (np.asarray(probabilities)[:, None] - 0.5)

    point = {"n_params": 75072.0, "ptpp": 62.0, "tokens": 1e6, "replay": 0.2}
    losses = {"base_target_loss": 2.9, "base_source_loss": 2.0, "forgetting": 0.1}
    found = room.alternatives({"target": Forecast(), "source": Forecast()}, point, **losses)
    assert {one["method"] for one in found} == kinds


def test_alternatives_that_are_told_apart_are_in_the_right_order(named_study):
    study = named_study("alternatives_held_out")
    found = study.forecasts()
    assert found["case"].nunique() == 3
    judged = [study.judged(rows) for _, rows in found.groupby(["case", "eval"])]
    assert sum(each["apart"] for each in judged) >= 40
    assert all(each["right"] == each["apart"] for each in judged)
    assert found["measured"].between(found["lo"], found["hi"]).mean() >= 0.8


def test_the_sealed_forecasts_at_204k_came_out_as_the_page_says(named_study):
    merges = named_study("merge_law").scored(ROOT / "studies" / "sealed" / "merging_204k.json")
    with_size = merges[(merges["form"] == "tokens and size")]
    assert (with_size["error"] < 1).all()
    assert (with_size["inside"] == 1).all()
    assert (merges.loc[(merges["form"] == "tokens") & (merges["eval"] == "target"), "error"] > 4).all()
    adapter = named_study("adapters").scored(ROOT / "studies" / "sealed" / "adapters_204k.json")
    assert adapter["inside"].all()
    assert adapter["error"].abs().max() == pytest.approx(3.3, abs=0.05)


def test_a_lower_rate_saves_what_the_page_says():
    folder = ROOT / "studies" / "measured"
    runs = pd.read_csv(folder / "rates.csv")
    low = runs[(runs["run"] == "46k-p124-s0-french-r0-constant-lr0.00075") & ((runs["tokens"] / 45936).round() == 16)]
    assert low.set_index("eval")["loss"].round(3).to_dict() == {"source": 2.498, "target": 1.908}
    merged = pd.read_csv(folder / "merging.csv")
    for replay, losses in (("0", {"source": 2.716, "target": 1.896}), ("0.05", {"source": 2.494, "target": 1.896})):
        rows = merged[merged["run"] == f"46k-p124-s0-french-r{replay}-constant-lr0.003"]
        last = rows[(rows["tokens"] == rows["tokens"].max()) & (rows["merge_weight"] == 1)]
        assert last.set_index("eval")["loss"].round(3).to_dict() == losses


@pytest.mark.parametrize(("tokens", "words"), [(1e6, []), (4e5, ["training less"]), (2e6, [])])
def test_a_safer_run_that_costs_less_says_that_it_trains_less(found, tokens, words):
    safer = next(one for one in found.alternatives if one["name"] == "safer") | {"tokens": tokens}
    (table,) = short_tables(replace(found, tokens=1e6, alternatives=(safer,)))
    assert [word for word in ["training less"] if word in table.rows[0][0]] == words
