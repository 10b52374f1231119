"""The next runs from a fit or its file: the same as from the runs that it was made of."""

import json

import pytest

import cptlaw as cl

ROWS = "ptpp in (15, 31) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9"
ASK = {"at": "n_params=125K,tokens=1M,replay=25%,ptpp=279", "budget": "1e13", "n": 2}


@pytest.fixture(scope="module")
def fit():
    return cl.fit("ptpp-floor", cl.examples.load("en-fr-pilot"), on="target", where=ROWS, starts=8)


def test_a_fit_stands_for_its_runs(fit, tmp_path, call):
    path = fit.save(tmp_path / "t.json")
    from_runs = cl.suggest("ptpp-floor", cl.examples.load("en-fr-pilot"), on="target", where=ROWS, starts=8, **ASK)
    for source in (fit, path):
        found = cl.suggest(source, **ASK)
        assert (*found.interval_before, *found.interval_after) == pytest.approx(
            (*from_runs.interval_before, *from_runs.interval_after), rel=1e-6
        )
    code, out, _ = call("suggest", str(path), "--at", ASK["at"], "--budget", "1e13", "-n", "2", "--json")
    assert code == 0
    assert [cell["replay"] for cell in json.loads(out)["cells"]] == [cell.replay for cell in from_runs.cells]


def test_how_to_fit_is_not_said_of_a_fit(fit):
    with pytest.raises(cl.UsageError, match="where"):
        cl.suggest(fit, where="ptpp > 3", **ASK)
    with pytest.raises(cl.UsageError, match="runs"):
        cl.suggest(cl.fit(None, n_params="8B"), **ASK)


def test_a_fit_in_the_place_of_runs_is_named(fit, tmp_path, call):
    path = str(fit.save(tmp_path / "t.json"))
    code, _, err = call("answer", path, "--n-params", "125K", "--tokens", "1M")
    assert code == 2
    assert f"plan min-tokens --target {path}" in err
