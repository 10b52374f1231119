"""The four requirements of the D-CPT paper, put to laws of which it says itself what they break."""

from __future__ import annotations

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.errors import DataError
from studies import simulate
from studies.papers.requirements import requirements


@pytest.fixture(scope="module")
def runs():
    return cl.read_runs(simulate.dcpt_runs(("code",), 9, noise=0.0))


@pytest.mark.parametrize(
    ("law", "implicit", "consistent"),
    [("dcpt-l1", 0.0, 1.0), ("dcpt-l2", 1.0, 0.0), ("dcpt-l3", 1.0, 1.0), ("dcpt-l5", 0.0, 0.0), ("dcpt-l6", 1.0, 1.0)],
)
def test_laws_break_what_the_paper_says_they_break(runs, law, implicit, consistent):
    found = requirements(cl.fit(law, runs, "target", "tokens > 0", starts=3, restraint="none"))
    assert (found["implicit trend"], found["consistency"]) == (implicit, consistent)
    assert found["size"] == found["tokens"] == 1.0


def test_trends_are_those_of_the_formula(runs):
    for on in ("source", "target"):
        fit = cl.fit("dcpt-l1", runs, on, "tokens > 0", starts=8, restraint="none")
        assert requirements(fit)["own corpus"] == 1.0  # no ratio beside tokens: all terms fall
        fit = cl.fit("dcpt-l3", runs, on, "tokens > 0", starts=8, restraint="none")
        found = requirements(fit)
        assert found["adaptability"] > 0.999
        # B r^eta / D^beta rises with the share r, which is where L3 can say that more of a corpus harms its loss.
        points = fit.data[fit.data["replay"].between(0.05, 0.95)]
        r = points["replay"] if on == "source" else 1 - points["replay"]
        p, tokens = fit.params, points["tokens"] / fit.law.units["tokens"]
        slope = p["B"] * p["eta"] * r ** (p["eta"] - 1) / tokens ** p["beta"]
        slope = slope - p["C"] * p["gamma"] * (r + p.get("eps", 0.0)) ** (-p["gamma"] - 1)
        assert found["own corpus"] == pytest.approx(float(np.mean(slope <= 0)), abs=0.1)


def test_a_law_of_one_budget_asks_for_replay(runs):
    frame = runs.frame[runs.frame["replay"] == 0.5].drop(columns="replay")
    with pytest.raises(DataError, match="no replay"):
        requirements(cl.fit("chinchilla", frame[frame["eval"] == "target"], "target", "tokens > 0", restraint="none"))
