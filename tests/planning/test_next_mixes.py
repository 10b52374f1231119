"""Next runs where the mix is of k corpora: which mixes they have, and how they say so."""

import json

import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.law_fit import LawFit
from cptlaw.planning.next_runs.cells import MOST_MIXES, candidates
from cptlaw.runs.points import point

EXAMPLE = cl.examples.path("three-corpora")
ASKED = "n_params=1M,tokens=4M,mix_english=40%,mix_french=30%,mix_python=30%"
CORPORA = ["english", "french", "python"]


@pytest.fixture(scope="module")
def found():
    return cl.suggest("mix-joint", EXAMPLE, "english", at=f"{ASKED},ptpp=62", budget="2e13", starts=8)


def test_runs_of_several_mixes_are_chosen_and_shown(found, tmp_path):
    mixes = {tuple(cell.mix.values()) for cell in found.cells}
    assert len(mixes) > 1
    assert all(list(cell.mix) == CORPORA and sum(cell.mix.values()) == pytest.approx(1.0) for cell in found.cells)
    assert "mix_english 40%" in found.title
    (shown,) = found.tables
    assert shown.columns[2:5] == ("english", "french", "python")
    assert json.loads(found.to_json())["cells"][0]["mix"] == found.cells[0].mix
    written = pd.read_csv(found.save(tmp_path / "cells.csv"))
    assert written["mix_english"].tolist() == pytest.approx([cell.mix["english"] for cell in found.cells])
    assert "replay" not in written


def test_candidates_have_the_asked_mix_and_fitted_ones_far_apart():
    fit = cl.fit("mix-joint", EXAMPLE, on="english", starts=4, restraint="none")
    assert isinstance(fit, LawFit)
    asked = point(f"{ASKED},ptpp=62").iloc[0]
    mixes = {tuple(cell.mix.items()) for cell in candidates(fit, fit.data, asked)}
    names = [f"mix_{name}" for name in CORPORA]
    fitted = {tuple(shares) for shares in fit.data[names].dropna().itertuples(index=False)}
    assert len(mixes) <= MOST_MIXES
    assert tuple(asked[names]) in {tuple(share for _, share in mix) for mix in mixes}
    assert all(tuple(share for _, share in mix) in fitted | {tuple(asked[names])} for mix in mixes)
    pure = {(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)} & fitted
    assert pure
    assert pure <= {tuple(share for _, share in mix) for mix in mixes}  # corners are the farthest
