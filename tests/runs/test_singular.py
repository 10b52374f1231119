"""One of a thing is said in the singular."""

import pandas as pd

import cptlaw as cl
from cptlaw.runs.understanding import understand
from cptlaw.units import counted

ROW = {"run": "a", "n_params": 1e9, "ptpp": 100.0, "tokens": 1e9, "replay": 0.1, "eval": "source", "loss": 2.3}


def test_one_and_many():
    assert [counted(n, "loss", "losses") for n in (0, 1, 2)] == ["0 losses", "1 loss", "2 losses"]
    assert counted(1, "base model") == "1 base model"


def test_a_table_of_one_run_has_one_run():
    table = pd.DataFrame([ROW])
    fit = cl.fit(table, on="source")
    said = [understand(table).title, dict(fit.lines)["data"], *(one.message for one in fit.findings)]
    assert not [text for text in said if any(f"1 {many}" in text for many in ("losses", "runs", "rows", "points"))]
    assert "1 loss of 1 run," in said[0]
