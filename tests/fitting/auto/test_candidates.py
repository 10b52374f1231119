"""What forms count before rollouts: their shares, and how plausible their exponents are by other studies."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.auto.candidates import INDEPENDENT, MOST_ALIKE, Candidate, middle_of_pre_training, tighten_priors
from cptlaw.fitting.solving.restraint import Prior
from cptlaw.laws import law


def fit(token_exponent, tied):
    rows = [(n, d) for n in (1e8, 3e8, 1e9) for d in (2e9, 6e9, 2e10, 6e10)]
    n, d = np.array(rows).T
    loss = 1.8 + 0.6 * (n / 1e9) ** -0.3 + 0.5 * (d / 1e10) ** -token_exponent
    frame = pd.DataFrame({"run": np.arange(len(rows)).astype(str), "n_params": n, "tokens": d, "loss": loss})
    return cl.fit("chinchilla", frame.assign(eval="loss"), on="loss", tie=tied, starts=4)


def test_a_tie_that_carries_an_unusual_exponent_over_counts_less():
    candidate = Candidate(law("chinchilla"), (("alpha", "beta"),), 1.0, ("alpha", "beta"))
    usual, odd = (candidate.share_of(fit(exponent, [("alpha", "beta")])) for exponent in (0.28, 1.3))
    assert usual == pytest.approx(1.0, abs=0.1)
    assert odd < 0.5 * usual


def test_without_parameters_to_judge_the_share_stays():
    assert middle_of_pre_training().share_of(fit(1.3, None)) == 1.0


def test_many_rows_do_not_outvote_other_studies():
    priors = {"E": Prior(2.0, 0.2, "log"), "alpha": Prior(0.3, 0.3, "log")}
    few, many, most = (tighten_priors(priors, count) for count in (5, 4 * INDEPENDENT, 10**6))
    assert few["alpha"] == priors["alpha"]
    assert few["E"].sd < priors["E"].sd
    assert many["alpha"].sd == pytest.approx(few["alpha"].sd / 2)
    assert most["E"].sd == pytest.approx(few["E"].sd / MOST_ALIKE**0.5)
    assert most["alpha"].mean == priors["alpha"].mean
