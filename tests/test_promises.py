"""What users type where the interface says that anything of the kind may be typed: units, aliases, tables, streams."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.errors import DataError, UsageError

CHINCHILLA = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}
CSV = "run,eval,loss,n_params,tokens\n" + "".join(
    f"run-{n}-{k},{on},{1.8 + 480 / n**0.35 + 2100 / d**0.37},{n},{d}\n"
    for n in (10**7, 10**8, 10**9)
    for k, d in enumerate((10**9, 10**10, 10**11))
    for on in ("source", "target")
)


@pytest.fixture
def given():
    return cl.given_fit("chinchilla", CHINCHILLA, "target")


@pytest.fixture(scope="module")
def runs_csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "runs.csv"
    path.write_text(CSV, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"n_params": ["70B"], "tokens": ["1.4T"]}),
        pd.DataFrame({"N": [70e9], "D": ["1.4T"]}),
        {"n_params": 70e9, "tokens": "1.4T"},
        "n_params=70B,tokens=1.4T",
        pd.DataFrame({"n_params": pd.array([70_000_000_000], dtype="Int64"), "tokens": [1.4e12]}),
    ],
    ids=["units", "aliases", "mapping", "text", "nullable"],
)
def test_every_frame_takes_aliases_and_units(given, rows):
    expected = 1.8172 + 477.83 / 70e9**0.34731 + 2143.42 / 1.4e12**0.36717
    assert cl.law("chinchilla").predict(CHINCHILLA, rows) == pytest.approx([expected])
    assert given.predict(rows) == pytest.approx([expected])
    assert given.forecast(rows)["loss"].tolist() == pytest.approx([expected])
    assert cl.forecast(given, rows)["loss"].tolist() == pytest.approx([expected])


def test_polars_frames_are_forecast(given):
    polars = pytest.importorskip("polars")
    assert len(given.forecast(polars.DataFrame({"N": [1e9, 2e9], "D": ["20B", "40B"]}))) == 2


def test_a_forecast_keeps_index_and_other_columns(given):
    rows = pd.DataFrame({"N": ["1B", "2B"], "D": [1e10, 1e10], "note": ["a", "b"]}, index=[7, 9])
    found = given.forecast(rows, interval="80%")
    assert found.index.tolist() == [7, 9]
    assert found["note"].tolist() == ["a", "b"]
    assert found["n_params"].tolist() == [1e9, 2e9]
    assert rows["N"].tolist() == ["1B", "2B"]


def test_numbers_that_cannot_be_read_in_a_frame_are_named(given):
    with pytest.raises(DataError, match=r"row 1, column 'n_params'.*'many'"):
        given.predict(pd.DataFrame({"n_params": ["1B", "many"], "tokens": [1e9, 1e9]}))
    with pytest.raises(UsageError, match="90%"):
        given.forecast({"n_params": 1e9, "tokens": 1e9}, interval="90")
    with pytest.raises(UsageError, match="this eval measures"):
        cl.law("dcpt-l3").bind(pd.DataFrame({"n_params": [1e9], "tokens": [1e9], "replay": [0.1]}), "other")


def test_options_take_units(call, runs_csv, tmp_path):
    fit = str(tmp_path / "fit.json")
    code, out, _ = call("fit", runs_csv, "--law", "chinchilla", "--on", "target", "--delta", "2%", "-o", fit, "--json")
    assert code == 0
    assert json.loads(out)["delta"] == 0.02
    code, out, _ = call("forecast", fit, "--at", "N=8.1B,D=100B", "--interval", "80%", "--json")
    assert code == 0
    assert set(json.loads(out)["points"][0]) >= {"n_params", "tokens", "loss", "lo", "hi", "findings"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--seed", "-1"), "--seed"),
        (("--delta", "0"), "delta (--delta)"),
        (("--delta", "small"), "not a number"),
        (("--prior", "E=1.8"), "--prior E=1.8: expected MEAN:SD"),
        (("--bound", "E=1"), "--bound E=1: expected LOW:HIGH"),
        (("--where", ""), "filter is empty"),
    ],
)
def test_mistakes_in_options_are_explained(call, runs_csv, options, expected):
    code, out, err = call("fit", runs_csv, "--law", "chinchilla", "--on", "target", *options)
    assert (code, out) == (2, "")
    assert expected in err


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 0.5), ("starts", 0), ("delta", 0), ("delta", "x")])
def test_the_library_checks_the_same(runs_csv, name, value):
    with pytest.raises(UsageError, match=name):
        cl.fit("chinchilla", runs_csv, on="target", **{name: value}, restraint="none")
    with pytest.raises(UsageError, match=name):
        cl.compare(["chinchilla"], runs_csv, on="target", cv="leave-one-out:n_params", **{name: value})


def test_a_split_takes_aliases(runs_csv):
    found = cl.compare(["chinchilla"], runs_csv, on="target", cv="leave-one-out:D", starts=8)
    assert set(found["n_test"]) == {9}


def test_the_next_command_keeps_what_was_said(call, runs_csv):
    where = "tokens <= 10B or n_params > 1M"
    rows = ("--on", "target", "--where", where, "--fix", "alpha=0.35")
    _, _, err = call("check", runs_csv, "--law", "chinchilla", *rows)
    assert (
        f"next: cptlaw fit {runs_csv} --law chinchilla --on target --where '{where}' --fix alpha=0.35 -o target.json"
        in err
    )
    _, _, err = call(
        *("compare", runs_csv, "--laws", "chinchilla", "--on", "target", "--starts", "8"),
        *("--fit-where", "n_params < 1B", "--test-where", "n_params == 1B"),
    )
    assert "--law chinchilla --where 'n_params < 1B' -o target.json" in err


def test_every_verb_prints_one_json_object(call, tmp_path):
    code, out, _ = call("example", "--json")
    assert code == 0
    assert list(json.loads(out)["examples"])[:2] == ["en-fr-pilot", "docs-to-code"]
    params = ",".join(f"{name}={value}" for name, value in CHINCHILLA.items())
    path = str(tmp_path / "given.json")
    code, out, _ = call("given", "chinchilla", "--on", "target", "--params", params, "-o", path, "--json")
    assert code == 0
    assert json.loads(out)["params"] == CHINCHILLA


def test_an_unknown_question_is_corrected(call):
    code, _, err = call("plan", "pareot")
    assert code == 2
    assert "'pareto'" in err


def test_runs_are_read_from_standard_input(runs_csv):
    command = [sys.executable, "-m", "cptlaw", "check", "-", "--law", "chinchilla", "--on", "target", "--json"]
    done = subprocess.run(command, input=CSV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_points"] == 9
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is empty" in done.stderr


def test_aliases_in_a_table_of_points_are_told(call, given, tmp_path):
    fit, points = tmp_path / "fit.json", tmp_path / "points.csv"
    given.save(fit)
    points.write_text("N,D\n1B,20B\n", encoding="utf-8")
    code, _, err = call("forecast", str(fit), "--points", str(points))
    assert code == 0
    assert lacks(err, "note: ", "n_params from 'N'", "tokens from 'D'") == []


def test_one_mistake_is_told_once():
    rows = {"run": ["a", "a"], "eval": ["target", "target"], "loss": [2.0, 1.9], "tokens": ["1,00,0", "2,00,0"]}
    with pytest.raises(DataError) as raised:
        cl.read_runs(pd.DataFrame(rows))
    assert "again" not in str(raised.value)
    with refused(DataError, "column 'eval'", "'target'"):
        cl.read_runs(pd.DataFrame({"run": ["a", "a"], "loss": [2.0, 1.9], "tokens": [1e9, 1e9]}))
    named = pd.DataFrame({"run": ["a"], "eval": ["fr"], "loss": [2.0], "tokens": [1e9]})
    with pytest.raises(DataError, match=r"target_eval= \(--target-eval\)"):
        cl.read_runs(named).on("target")


def test_the_front_has_as_many_points_in_the_library_as_on_the_command_line():
    from cptlaw.cli.plan import pareto
    from cptlaw.planning.scenario import Pareto, options_of

    asked = next(parameter.default for parameter in pareto.params if parameter.name == "points")
    assert asked == 20
    assert options_of(Pareto)["points"].default == asked


def test_numbers_of_any_origin_stay_exact():
    frame = pd.DataFrame({"n_params": np.array([8_100_000_000]), "tokens": ["72B"]})
    assert cl.law("chinchilla").predict(CHINCHILLA, frame) == pytest.approx(
        cl.law("chinchilla").predict(CHINCHILLA, frame.assign(tokens=72e9)), rel=0, abs=0
    )


# laws.md 3.11 for the target; a source law whose loss falls with replay.
GATED = {"E": 1.2, "A": 0.5, "alpha": 0.3, "B": 0.8, "nu": 0.6, "beta": 0.25, "C": 0.02, "gamma": 0.4}
GATED |= {"F": 0.9, "eta": 0.5, "lambda": 0.6, "zeta": 0.7}
FLOOR = {"E": 1.3, "A": 0.5, "alpha": 0.3, "B": 0.25, "nu": 0.2, "beta": 0.25, "C": 0.12, "gamma": 0.5}
FLOOR |= {"F": 0.9, "eta": 0.5}


def test_published_parameters_alone_make_plans(tmp_path):
    target = cl.given_fit("ptpp-gated-floor", GATED, "target")
    source = cl.given_fit("ptpp-floor", FLOOR, "source")
    model = {"n_params": "8.1B", "ptpp": 279}
    plan = cl.plan.min_tokens(target, source, **model, max_target_loss=1.9, max_forgetting="5%", base_source_loss=1.75)
    replay = np.linspace(1e-4, 1, 20_001)
    exponent = 0.25 * (1 - 0.6 * 279**0.7 / (1 + 279**0.7))
    floors = 0.5 / 8.1**0.3 + 0.9 / 279**0.5
    room = 1.9 - (1.2 + floors + 0.02 / (replay + 1e-5) ** 0.4)
    spare = 1.75 * 1.05 - (1.3 + floors + 0.12 / (replay + 1e-5) ** 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_target = np.where(room > 0, (0.8 * replay**0.6 / room) ** (1 / exponent), np.inf)
        by_source = np.where(spare > 0, (0.25 * replay**0.2 / spare) ** (1 / 0.25), np.inf)
    needed = np.maximum(by_target, by_source)
    best = needed.argmin()
    assert plan.feasible
    assert plan.tokens == pytest.approx(1e9 * needed[best], rel=1e-3)
    assert plan.replay == pytest.approx(replay[best], abs=1e-3)
    assert (plan.target_loss_lo, plan.target_loss_hi) == (None, None)
    assert {item.code for item in plan.findings} >= {"no-interval"}
    asked = {**model, "base_source_loss": 1.75}
    assert cl.plan.trade_off(target, source, tokens="72B", max_forgetting="5%", **asked).feasible
    assert 0 <= cl.plan.limited_data(target, target_tokens="5B", **model).replay <= 0.95
    assert cl.plan.pareto(target, source, budget="1e21", **asked).points
    with pytest.raises(UsageError, match="risk"):
        cl.plan.min_tokens(target, **model, max_target_loss=1.9, risk=0.9)
    path = target.save(tmp_path / "target.json")
    assert cl.plan.limited_data(path, target_tokens="5B", **model).replay == pytest.approx(
        cl.plan.limited_data(target, target_tokens="5B", **model).replay
    )


def test_usage_two_of_the_dcpt_law_is_the_minimum_of_its_equation():
    from scipy.optimize import minimize_scalar

    params = {"E": 1.5, "A": 0.7, "alpha": 0.3, "B": 0.4, "beta": 0.3, "C": 0.02, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
    plan = cl.plan.limited_data(cl.given_fit("dcpt-l3", params, "target"), n_params="1.8B", target_tokens="5B")
    loss = minimize_scalar(
        lambda r: 1.5 + 0.7 / 1.8**0.3 + 0.4 * r**1.6 / 5**0.3 + 0.02 / (r + 0.1) ** 0.5,
        bounds=(0.05, 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert plan.target_loss == pytest.approx(loss.fun, rel=1e-9)
    assert 1 - plan.replay == pytest.approx(loss.x, abs=1e-4)
    assert plan.tokens == pytest.approx(5e9 / loss.x, rel=1e-3)


def test_strict_ends_plans_and_comparisons_whose_findings_are_errors(call, tmp_path):
    path = cl.given_fit("chinchilla", CHINCHILLA, "target").save(tmp_path / "target.json")
    asked = ("plan", "min-tokens", "--target", str(path), "--n-params", "1B", "--max-target-loss", "2.1755")
    code, out, _ = call(*asked, "--json")
    assert code == 0
    assert "out-of-reach" in {item["code"] for item in json.loads(out)["findings"] if item["severity"] == "error"}
    assert call(*asked, "--strict")[0] == 4
    assert call(*asked[:-1], "2.17", "--strict")[0] == 3  # infeasible comes first


def test_a_loss_that_no_model_has_is_an_error(call, tmp_path):
    path = cl.given_fit("ptpp-floor", {**FLOOR, "gamma": 3.0}, "source").save(tmp_path / "source.json")
    at = "n_params=8.1B,tokens=72B,ptpp=279,replay="
    code, out, _ = call("forecast", str(path), "--at", f"{at}0", "--strict")
    assert code == 4
    assert "[absurd-loss]" in out
    assert "1.2e+14" in out
    assert call("forecast", str(path), "--at", f"{at}34%", "--strict")[0] == 0
    path = cl.given_fit("chinchilla", {**CHINCHILLA, "E": 0.0, "A": 0.0, "B": 0.01}, "target").save(
        tmp_path / "low.json"
    )
    code, out, _ = call("forecast", str(path), "--at", "n_params=1B,tokens=1T", "--strict")
    assert code == 4
    assert "none that text leaves" in out


def test_every_verb_is_one_function_of_the_library():
    """Verbs that are words of Python or modules have another name; `plan` and `laws` hold one function a question."""
    from cptlaw.cli import commands

    names = {"import": "import_logs", "given": "given_fit", "example": "examples", "laws": "law"}
    verbs = {names.get(str(command.name), str(command.name)) for command in commands()}
    assert verbs <= set(dir(cl))
    assert [name for name in sorted(verbs) if getattr(cl, name, None) is None] == []
