"""The bench: frozen splits, converters of public tables, and the promised rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused

from cptlaw.errors import DataError, UsageError
from cptlaw_published.benching import bench
from cptlaw_published.benching.run import COLUMNS, Bench
from cptlaw_published.benching.splits import SPLITS
from cptlaw_published.benching.tables import OWN, TABLES, load

KEYS = {"study", "split", "on", "law", "n_fit", "n_test", "mae_rel", "coverage_50", "coverage_90", "width_90",
        "base_rel", "shift_rel", "regret", "cpu_s"}  # fmt: skip

ROWS = {
    "chinchilla": {"run_id": [f"c{i}" for i in range(7)], "n_params": 1e9, "tokens": [1e9 * i for i in range(1, 8)]},
    "gadre": {"run_id": ["a", "a"], "n_params": 1e8, "tokens": 5e9, "domain": ["c4_val", "val_tok_mult/openlm"]},
    "olmo": {"run_id": ["190M-1xC", "190M-1xC-rerun"], "n_params": 1.9e8, "tokens": 4e9, "domain": "pile"},
    "dmsl": {"run_id": ["x", "y", "z"], "mix_id": 0, "n_params": [1e8, 3e8, 6e8], "tokens": 1e9, "c4_loss": 3.0,
             "github_loss": 2.0},
    "watts": {"run_id": ["w"], "optimizer": "adamw", "n_params": 6e7, "cpt_tokens": 2e7, "ptpp": 800.0,
              "cpt_peak_lr": 2e-4, "pretrain_lr": 6e-4, "replay_ratio": 0.0, "source_loss": 4.0, "target_loss": 1.5},
    "delphi": {"run_id": ["d"], "n_params": 4e8, "cpt_tokens": 7e8, "replay_ratio": 0.33, "ptpp": 4.3,
               "lr_factor": 0.5, "series": "k0p20", "domain": "math_val_raw"},
    "mixlaws-ct": {"run_id": ["m"], "n_params": 7e7, "pt_steps": 20000, "pt_tokens": 4.2e10, "replay_ratio": 0.25,
                   "step": 1000, "domain": "python"},
}  # fmt: skip


@pytest.mark.parametrize("study", list(TABLES))
def test_converters_give_runs_tables(study: str, tmp_path: Path) -> None:
    known = TABLES[study]
    frame = pd.DataFrame(ROWS[study])
    frame = frame if "loss" in frame or study in ("dmsl", "watts") else frame.assign(loss=3.0)
    assert set(known.columns) <= set(frame.columns)
    frame.to_csv(tmp_path / known.file, index=False)
    runs = load(study, tmp_path)
    assert runs is not None
    assert (runs.frame["loss"] > 0).all()
    assert {"run", "eval", "n_params", "tokens"} <= set(runs.frame.columns)


def test_converters_read_what_they_say(tmp_path: Path) -> None:
    frame = TABLES["watts"].convert(pd.DataFrame(ROWS["watts"]))
    row = frame[(frame["eval"] == "target")].iloc[0]
    assert (row["lr_peak"], row["lr_pretrain"], row["tokens"], row["loss"]) == (2e-4, 6e-4, 2e7, 1.5)
    assert set(frame.loc[frame["tokens"] == 0, "loss"]) == {3.4466, 3.4263, 3.4098}
    assert list(TABLES["olmo"].convert(pd.DataFrame(ROWS["olmo"]).assign(loss=3.0))["run"]) == ["190M-1xC"]
    tokens = TABLES["mixlaws-ct"].convert(pd.DataFrame(ROWS["mixlaws-ct"]).assign(loss=2.0))["tokens"]
    assert tokens.tolist() == [4.2e10 / 20]
    assert len(TABLES["chinchilla"].convert(pd.DataFrame(ROWS["chinchilla"]).assign(loss=2.0))) == 2


def test_a_table_without_its_columns_is_named(tmp_path: Path) -> None:
    (tmp_path / TABLES["gadre"].file).write_text("run_id,loss\na,3\n")
    with pytest.raises(DataError, match="n_params"):
        load("gadre", tmp_path)


@pytest.mark.nightly
def test_own_tables_run_without_a_folder_and_give_the_promised_rows() -> None:
    found = bench(laws="auto,ptpp-blind", splits=["en-fr-pilot/budget 279 from 31, 62, 124"])
    rows = found.to_dict()["rows"]
    assert all(set(row) == KEYS for row in rows)
    laws = {row["law"] for row in rows}
    assert {"auto", "ptpp-blind", "nearest-run", "nearest-budget", "largest-scale"} == laws
    auto = [row for row in rows if row["law"] == "auto"]
    assert [row["on"] for row in auto] == ["target", "source"]
    assert all(row["mae_rel"] < 0.02 and row["coverage_90"] >= 0.8 and row["cpu_s"] > 0 for row in auto)
    # What is missed of the base model and of the shift from it, apart: together they are the whole, or hide each other.
    assert all(0 < row["mae_rel"] <= row["base_rel"] + row["shift_rel"] + 1e-4 for row in auto)
    assert all(row["base_rel"] is None for row in rows if row["law"] not in ("auto", "ptpp-blind"))
    nearest = {row["on"]: row["mae_rel"] for row in rows if row["law"] == "nearest-budget"}
    assert all(row["mae_rel"] < nearest[row["on"]] for row in auto)
    assert all(
        value is None or math.isfinite(value) for row in rows for value in row.values() if not isinstance(value, str)
    )


def test_public_studies_that_are_not_there_are_said() -> None:
    found = bench(laws="auto", splits="chinchilla")
    assert found.frame.empty
    assert [finding.code for finding in found.findings] == ["no-table"]


def test_unknown_names_are_refused() -> None:
    with refused(UsageError, "'gadre'"):
        bench(splits="gadr")
    with pytest.raises(UsageError, match="no law"):
        bench(laws="chinchila", splits="gadre")


@pytest.mark.dear("two splits of measured tables")
def test_names_of_splits_may_hold_commas() -> None:
    found = bench(laws="ptpp-blind", splits="en-fr-pilot/budget 279 from 31, 62, 124,docs-to-code/largest size")
    assert list(found.frame["split"].unique()) == ["budget 279 from 31, 62, 124", "largest size"]
    rows = found.to_dict()["rows"]
    assert all(set(row) == KEYS for row in rows)
    assert {row["law"] for row in rows} == {"ptpp-blind", "nearest-run", "nearest-budget", "largest-scale"}
    assert all(row["base_rel"] is None for row in rows if row["law"] != "ptpp-blind")


def test_intervals_without_ends_are_said() -> None:
    row = ["s", "t", "target", "law", 9, 2, 0.01, 1.0, 1.0, np.inf, np.nan, np.nan, np.nan, 0.1]
    rows = pd.DataFrame([row], columns=list(COLUMNS))
    assert "open" in Bench(rows, ()).tables[0].rows[0]


def test_splits_forecast_what_they_do_not_fit() -> None:
    for split in SPLITS:
        if split.study not in OWN:
            continue
        runs = load(split.study)
        assert runs is not None
        rows = runs.on(split.on)
        fit, test = rows.where(split.fit).frame, rows.where(split.test).frame
        assert not np.isin(test.index, fit.index).any(), split


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        bench(tmp_path / "nowhere", "auto", "gadre")
