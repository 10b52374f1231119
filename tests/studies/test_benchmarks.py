"""Timings and back-tests run, in a size that says nothing about speed."""

import contextlib
import importlib
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from studies.__main__ import studies

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = ROOT.parent / "shared" / "data"


def run(name: str, *arguments: str) -> str:
    """Run a study in this process, as ``python -m studies`` would in its own."""
    path = studies()[name]
    module = importlib.import_module(f"studies.{path.parent.name}.{name}")
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()) as printed:
        patched.chdir(ROOT)
        patched.setattr(sys, "argv", [str(path), *arguments])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with contextlib.suppress(SystemExit):  # where data is absent, with 0
                assert not module.main()
    return printed.getvalue()


@pytest.mark.nightly
def test_starts_of_dcpt() -> None:
    printed = run("dcpt_starts", "--data-seeds", "1", "--starts", "2", "--quick")
    assert "| **cptlaw** | 2 (2 to 2) | 2 (2 to 2) |" in printed


@pytest.mark.nightly
def test_times_of_what_users_call() -> None:
    assert re.search(r"\n\| plan min-tokens on these, point \| [\d.]+ \|\n", run("what_users_call", "--quick"))


@pytest.mark.parametrize("name", sorted(studies()))
def test_every_study_can_be_imported(name: str, named_study: Callable[[str], ModuleType]) -> None:
    try:
        module = named_study(name)
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] in ("cptlaw", "studies"):
            raise
        pytest.skip(f"needs {missing.name}")
    assert callable(getattr(module, "main", None))


def test_absent_data_is_said_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "studies", "chinchilla_fit", "--data", str(tmp_path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("skipped: chinchilla_epoch.csv")
    assert len(printed.splitlines()) == 1


@pytest.mark.nightly
def test_curve_fits(tmp_path: Path) -> None:
    printed = run("curve_fits", "--data", str(tmp_path))
    assert printed.startswith("skipped: mpl_lr_curves.csv")
    if PUBLIC.exists():
        assert "| multi-power, 25M |" in run("curve_fits", "--quick", "--data", str(PUBLIC))


@pytest.mark.nightly
def test_growth() -> None:
    printed = run("growth", "--quick")
    assert [line.split(" | ")[0].strip("| ") for line in printed.splitlines()[2:]] == [
        "rows", "runs", "curves", "cells", "jobs", "printed",
    ]  # fmt: skip


@pytest.mark.nightly
def test_forecasts_inside_the_cpt_tables() -> None:
    printed = run("cpt_forecasts", "--tables", "code-to-prose", "--kinds", "budget,size-based", "--most", "1")
    errors, held, base = (part for part in printed.split("law auto\n")[1].split("\n\n") if part.startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (errors + "\n" + held).splitlines()]
    by_kind = [
        line for line in cells if line[0] in ("a budget ahead, from three", "one size ahead, its base models known")
    ]
    assert [line[1] for line in by_kind] == ["1"] * 4  # one forecast of each kind, errors and coverage
    shown = [[float(value) for value in line[2].split(" / ")] for line in by_kind]
    assert all(0 < error < 5 for line in shown[:2] for error in line)
    assert all(0 <= share <= 100 for line in shown[2:] for share in line)
    every = [line.strip("| ").split(" | ") for line in base.splitlines()[2:]]
    of_all = [line for line in every if line[1] == "all"]
    assert [line[:3] for line in of_all] == [["source", "all", "4"], ["target", "all", "4"]]
    assert all(np.isfinite(float(value)) for line in of_all for value in line[3:])


def test_forecasts_inside_look_at_nothing_that_judges() -> None:
    from studies.forecasts.cpt_forecasts import KINDS, cuts, load

    pilot, ladder = load("en-fr-pilot"), load("en-fr-ladder")
    assert pilot.frame["ptpp"].max() < 279
    assert ladder.frame["n_params"].max() < 4e5
    found = list(cuts(ladder))
    assert {cut.kind for cut in found} == set(KINDS)
    for cut in found:
        fitted, test = ladder.on("source").where(cut.fit).frame, ladder.on("source").where(cut.test).frame
        assert not set(fitted.index[fitted["tokens"] > 0]) & set(test.index)


COLUMNS = ["curves", "seen", "others", "n", "ours", "last", "line", "to the better", "held", "half-width"]


def back_test(*only: str) -> pd.DataFrame:
    """Return the table of the back-test of unfinished runs for four curves of each group."""
    lines = run("unfinished_runs", "--most", "4", "--only", *only).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:] if line.startswith("|")]
    return pd.DataFrame(cells, columns=COLUMNS).astype(dict.fromkeys(COLUMNS[3:], float))


@pytest.mark.nightly
def test_unfinished_runs_of_the_pilot() -> None:
    found = back_test("pilot, target")
    helped = found[found["others"] == "yes"]
    assert (helped["ours"] < 0.5 * helped["last"]).all()
    assert np.average(found["held"], weights=found["n"]) >= 75


@pytest.mark.nightly
@pytest.mark.skipif(not (PUBLIC / "mpl_lr_curves.csv").exists(), reason="mpl_lr_curves.csv is not in ../shared/data")
def test_unfinished_runs_of_public_curves() -> None:
    found = back_test("nine")
    helped = found[found["others"] == "yes"]
    assert list(helped["seen"]) == ["20%", "40%", "60%"]
    assert (helped["ours"] < helped["line"]).all()
    assert (helped["ours"] < helped["last"]).all()
    assert np.average(found["held"], weights=found["n"]) >= 75


@pytest.mark.nightly
def test_unfinished_runs_without_the_public_curves(tmp_path: Path) -> None:
    assert not run("unfinished_runs", "--only", "nine", "--data", str(tmp_path)).strip()


def test_mixes_without_the_public_tables(tmp_path: Path) -> None:
    assert run("mixes", "--data", str(tmp_path)).startswith("skipped: dmsl_slimpajama.csv")


@pytest.mark.nightly
@pytest.mark.skipif(
    not (PUBLIC / "dmsl_slimpajama.csv").exists(), reason="dmsl_slimpajama.csv is not in ../shared/data"
)
def test_the_best_mix_of_a_size_that_was_not_fitted() -> None:
    """Fitted at 122M and 310M, the additive law names a mix at 680M that is the best measured one to the seed noise."""
    from cptlaw.runs.schema import mix_columns
    from studies.forecasts.mixes import SEED_NOISE, by_law, slimpajama

    study = slimpajama(PUBLIC)
    shares = [*mix_columns(study.held.columns)]
    held = study.held[study.held["eval"] == "github"].reset_index(drop=True)
    forecast = by_law("mix-additive")(study.fitted, "github", held)
    assert len(held[shares].drop_duplicates()) == 40
    assert held["loss"][int(np.argmin(forecast))] - held["loss"].min() <= SEED_NOISE
    assert np.corrcoef(forecast, held["loss"])[0, 1] > 0.995


def test_accuracy_says_which_files_are_absent(tmp_path: Path) -> None:
    printed = run("accuracy", "--data", str(tmp_path))
    assert printed.count("skipped: ") == 3


def rollouts_of(*beyond: np.ndarray) -> pd.DataFrame:
    """Return six rollouts of each of eight studies, missed in turn by these shares of the half-width."""
    names = ("error", "half_50", "half_90", "inside_50", "inside_90", "score_50", "score_90")
    parts = [
        {"study": f"study {i}", "series": "loss", "cut": f"cut {j}", **dict.fromkeys(names, 0.01)}
        | {"beyond": beyond[(i * 6 + j) % len(beyond)]}
        for i in range(8)
        for j in range(6)
    ]
    return pd.DataFrame(parts)


def test_points_that_err_together_put_few_studies_near_nine_of_ten() -> None:
    from studies.forecasts.whole_studies import by_luck, tables

    alone = np.linspace(0.1, 1.0, 10)  # after widening, nine of ten in every rollout
    assert by_luck(rollouts_of(2.0 * alone)).mean() == 8
    together = [np.full(10, 0.5)] * 9 + [np.full(10, 5.0)]  # all of a rollout or nothing: of six, 83 or 100 %
    rows = rollouts_of(*together)
    assert by_luck(rows).mean() == 0
    assert tables(rows)["studies"].iloc[0, :3].tolist() == ["study 0", 6, "0.01"]


@pytest.mark.nightly
def test_auto_with_schedules_beside_auto_without() -> None:
    row = run("auto_schedules", "--only", "dynamics/WSD/source").splitlines()[2]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[3]) < float(cells[5])
    assert float(cells[4]) >= 80
