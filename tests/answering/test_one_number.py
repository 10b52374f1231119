"""One question has one answer, to the printed digit: answer, --json, the commands of --explain, report and figures."""

import json
import shlex
from pathlib import Path

import pytest

import cptlaw as cl

DIGITS = 1e-4  # four digits are printed
LOSSES = ("target", "source")
QUESTIONS = {
    "en_fr_pilot": {"n_params": 124_672, "ptpp": 280, "tokens": "1M", "max_forgetting": "25%"},
    "docs_to_code": {"n_params": 124_672, "ptpp": 200, "tokens": "2M", "max_forgetting": "20%"},
    "code_to_prose": {
        "n_params": 150_000, "ptpp": 279, "tokens": "1M", "max_forgetting": "50%", "base_source_loss": 1.3,
    },
}  # fmt: skip


def near(value):
    return pytest.approx(value, rel=DIGITS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_surface_says_the_same_number(name, call, tmp_path, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    table = Path(cl.__file__).parent / "examples" / f"{name}.csv"
    said = cl.answer(str(table), **QUESTIONS[name])
    assert said.feasible
    asked = [word for key, value in QUESTIONS[name].items() for word in (f"--{key.replace('_', '-')}", str(value))]
    code, out, _ = call("answer", str(table), *asked, "--json")
    assert code == 0
    assert json.loads(out)["replay"] == said.replay
    assert f"{said.forgetting:.0%}" in said.summary()

    for step in said.steps:
        verb, *words = shlex.split(step)[1:]
        if verb == "suggest":
            continue
        code, out, err = call(verb, *words, "--json")
        assert code == 0, (step, err)
        if verb == "forecast":
            for role, point in zip(LOSSES, json.loads(out)["points"], strict=True):
                for end, key in (("", "loss"), ("_lo", "lo"), ("_hi", "hi")):
                    assert point[key] == near(getattr(said, f"{role}_loss{end}")), (step, role, end)
        if verb == "plan":
            plan = json.loads(out)
            for key in ("replay", "tokens", "target_loss", "source_loss", "source_loss_hi", "forgetting"):
                assert plan[key] == near(getattr(said, key)), (step, key)

    page = said._page()
    of_page = page.forecasts.set_index("on")["loss"]
    for role in LOSSES:
        assert of_page[role] == near(getattr(said, f"{role}_loss"))
    assert page.plan is said.plan
    drawn = {figure.name: figure.data for figure in page.figures}
    along = next((data for key, data in drawn.items() if key == "losses-by-replay"), None)
    if along is not None:
        nearest = along.iloc[(along["replay"] - said.replay).abs().argsort()[:1]]
        for role in LOSSES:
            assert float(nearest[f"{role}_loss"].iloc[0]) == pytest.approx(getattr(said, f"{role}_loss"), rel=5e-3)
