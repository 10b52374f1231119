"""What is told of an optimum and of the design behind it, without a fit or on a fit of few rows."""

import numpy as np
import pandas as pd
import pytest
from cases import design

import cptlaw as cl
from cptlaw.fitting.checking.optimum import check_search


@pytest.mark.parametrize(
    ("converged", "agree", "starts", "codes"),
    [
        (True, 2, 32, []),
        (False, 2, 32, ["not-converged"]),
        (True, 1, 32, ["few-starts-agree"]),
        (True, 2, 60, ["few-starts-agree"]),  # of many starts a twentieth
        (True, 1, 1, []),
    ],
)
def test_a_search_that_ended_early_or_found_its_best_by_luck_is_told(converged, agree, starts, codes):
    found = [*check_search(converged, agree, starts)]
    assert [one.code for one in found] == codes
    assert all(one.remedy.value == 4 * starts for one in found if one.code == "few-starts-agree")


def test_size_and_tokens_that_grow_together_are_told():
    rows = [(n, ratio * n) for n in (1e7, 3e7, 1e8, 3e8) for ratio in (20.0, 22.0)]
    frame = pd.DataFrame(rows, columns=["n_params", "tokens"]).assign(eval="target")
    frame["loss"] = 1.7 + 400 / frame["n_params"] ** 0.34 + 400 / frame["tokens"] ** 0.28
    assert "confounded" in [one.code for one in cl.check("chinchilla", frame, on="target").findings]
    apart = frame.assign(tokens=np.tile([1e9, 4e9], 4))
    assert "confounded" not in [one.code for one in cl.check("chinchilla", apart, on="target").findings]


def test_a_term_that_the_rows_do_not_show_is_told():
    frame = design("chinchilla", noise=0.0)
    frame = frame.assign(loss=1.7 + 4.0 / (frame["n_params"] / 1e6) ** 0.3)
    found = cl.fit("chinchilla", frame, on="target", starts=4, restraint="none").findings
    (told,) = [one for one in found if one.code == "term-at-zero"]
    assert told.data == {"parameters": ["B"]}
    assert told.remedy.value == "B=0"


def test_given_parameters_are_no_fit():
    found = cl.given_fit("chinchilla", {"E": 1.7, "A": 400, "B": 2000, "alpha": 0.34, "beta": 0.36}, "target").findings
    assert [one.code for one in found] == ["given-parameters"]
