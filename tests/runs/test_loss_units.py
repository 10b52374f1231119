"""The unit of losses: what the table says, and nats per token where it says nothing."""

import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.runs.metrics import loss_unit, unit_of


@pytest.mark.parametrize(
    ("columns", "unit"),
    [
        ({}, "nats per token"),
        ({"tokenizer": "bytes"}, "nats per byte"),
        ({"tokenizer": "gpt2"}, "nats per token"),
        ({"metric": "nats per byte"}, "nats per byte"),
        ({"metric": "bits_per_byte"}, "bits per byte"),
        ({"metric": "bits_per_byte", "tokenizer": "bytes"}, "bits per byte"),
    ],
)
def test_the_table_says_the_unit_and_fits_keep_it(columns, unit):
    shares = [0.05, 0.1, 0.2, 0.35, 0.5]
    frame = pd.DataFrame(
        {
            "run": [f"r{place}" for place in range(5)],
            "eval": "target",
            "n_params": 1e6,
            "replay": shares,
            "loss": [1.2 + 0.2 * share**1.3 for share in shares],
        }
    ).assign(**columns)
    runs = cl.read_runs(frame)
    assert loss_unit(runs.on("target").frame) == unit
    assert unit in str(runs)
    fit = cl.fit("mixing", runs, on="target", starts=4, restraint="none")
    assert unit_of(fit) == unit
    assert unit in str(fit.forecast({"replay": [0.1]}).answer)


def test_several_fits_in_one_unit_name_it_once_and_none_the_usual():
    assert unit_of(None) == "nats per token"
    assert unit_of(None, None) == unit_of()


@pytest.mark.parametrize("name", cl.examples.EXAMPLES)
def test_the_examples_say_what_a_token_is(name):
    runs = cl.examples.load(name)
    unit = "nats per token" if name in ("delphi-midtrain", "watts-sizes") else "nats per byte"
    assert {loss_unit(runs.on(eval).frame) for eval in runs.evals} == {unit}


def test_a_split_of_compute_names_the_unit():
    runs = cl.examples.load("en-fr-pilot").where("tokens > 0 and seed == 0")
    fit = cl.fit("chinchilla", runs, on="target", starts=4, restraint="none")
    plan = cl.plan.allocate(fit, budget="1e12", interval=None)
    assert dict(plan.lines)["target loss"].endswith("nats per byte")
    assert plan.to_dict()["unit"] == "nats per byte"
