"""check without a law: what law auto would find."""

import json

import pytest
from facts import lacks, refused

import cptlaw as cl

ONE_MODEL = "n_params == 75072 and ptpp == 62"


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


def test_it_names_the_laws_that_a_fit_averages(runs):
    found = cl.check("auto", runs, "target", "ptpp in (31, 62)")
    fitted = cl.fit(runs, on="target", where="ptpp in (31, 62)")
    read = {one.law.replace("damage=true:", "") for one in found.laws}
    assert {member.fit.law.spec.replace("damage=true:", "") for member in fitted.members} <= read
    assert found.n_points == fitted.n_points
    assert set(found.along) == {fold.direction for fold in fitted.folds}
    assert {"two-budgets", "transient"} <= {finding.code for finding in found.findings}


def test_six_runs_of_one_model_are_no_error(runs):
    found = cl.check("auto", runs, "target", ONE_MODEL)
    assert (found.n_runs, found.n_points) == (6, 24)
    assert "error" not in {finding.severity for finding in found.findings}
    assert {"one-level", "few-at-small-replay"} <= {finding.code for finding in found.findings}
    assert all(0 < one.rank <= one.n_free for one in found.laws)
    assert json.loads(found.to_json())["law"] == "auto"


def test_a_point_far_out_is_said(runs):
    near = cl.check("auto", runs, "target", ONE_MODEL, at="n_params=75072,tokens=1M,ptpp=62,replay=25%,lr_peak=3e-3")
    far = cl.check("auto", runs, "target", ONE_MODEL, at="n_params=8B,tokens=1T,ptpp=62,replay=25%,lr_peak=3e-3")
    assert "extrapolation" not in {finding.code for finding in near.findings}
    assert "extrapolation" in {finding.code for finding in far.findings}


def test_what_is_about_one_law_is_refused(runs):
    with refused(cl.UsageError, "fix (--fix)", "law auto"):
        cl.check("auto", runs, "target", fix="alpha=0.3")


def test_the_command_needs_no_law(call):
    code, out, err = call("check", str(cl.examples.path("en-fr-pilot")), "--on", "target", "--where", ONE_MODEL)
    assert code == 0
    assert lacks(out.partition("\n")[0], "auto", "target", "24 points", "6 runs") == []
    assert "next: cptlaw fit" in err


def test_few_rows_are_told_before_a_fit(runs):
    one = runs.frame[(runs.frame["eval"] == "target") & (runs.frame["tokens"] > 0)].head(1)
    found = cl.check("auto", cl.read_runs(one), "target")
    assert [finding.code for finding in found.findings if finding.severity == "warning"] == ["few-runs"]


def test_a_reason_that_all_laws_share_is_said_once(runs):
    without = cl.read_runs(runs.frame[["run", "eval", "loss", "tokens", "replay", "ptpp"]])
    for call in (cl.check, cl.fit):
        with pytest.raises(cl.CptlawError, match="no law can be fitted") as error:
            call("auto", without, "target")
        assert str(error.value).count("Rename the column") == 1
