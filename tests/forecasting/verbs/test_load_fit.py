"""Fits are read back as they were written, and damaged files are refused in words."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from cases import design
from counting import counted

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.findings import Finding


def test_fit_files_round_trip(tmp_path):
    frame = design("ptpp-gate", noise=0.01)
    fitted = cl.fit(
        "ptpp-gate:unit_tokens=1e6", frame, on="target", where="replay < 0.9", prior={"E": "1.2:0.5"}, restraint="none"
    )
    path = fitted.save(tmp_path / "fit.json")
    again = cl.load_fit(path)
    points = pd.DataFrame({"n_params": [2e9], "tokens": [5e9], "replay": [0.2], "ptpp": [500.0]})
    pd.testing.assert_frame_equal(again.forecast(points), fitted.forecast(points))
    assert again.to_dict() == fitted.to_dict()
    assert again.law.units["tokens"] == 1e6
    document = json.loads(path.read_text())
    assert document["units"] == {"n_params": 1e9, "tokens": 1e6}
    assert set(document) >= {"law_version", "provenance", "settings", "data"}
    assert not list(tmp_path.glob(".*"))


def test_a_file_keeps_what_a_forecast_needs(tmp_path):
    """Nothing is fitted or rolled out anew from it; files of earlier versions are, with the same numbers."""
    frame = design("ptpp-floor", noise=0.01)
    point = pd.DataFrame({"n_params": [2e9], "tokens": [5e9], "replay": [0.2], "ptpp": [500.0]})
    for law in ("auto", "ptpp-floor"):
        fitted = cl.fit(law, frame, on="target")
        path = fitted.save(tmp_path / "fit.json")
        with counted() as counts:
            loaded = cl.load_fit(path)
            forecast = loaded.forecast(point)
        # The curvature at the optimum of each law, with its priors and without.
        assert counts == {"fits": 0, "evaluations": 2 * len(fitted.members), "rows": counts["rows"]}
        pd.testing.assert_frame_equal(forecast, fitted.forecast(point), check_exact=True)
        document = json.loads(path.read_text())
        for one in (document, *(member["fit"] for member in document.get("members", ()))):
            one.pop("inner_errors", None)
        path.write_text(json.dumps(document))
        with counted() as counts:
            pd.testing.assert_frame_equal(cl.load_fit(path).forecast(point), forecast, check_exact=True)
        assert counts["evaluations"] > 10


def test_a_file_keeps_how_serious_findings_are(tmp_path):
    """Of several findings of one code the most serious one is shown, also after the file."""
    found = [Finding("info", "far", f"row {degree}", degree=degree) for degree in (1.0, 3.0, 2.0)]
    fitted = replace(cl.fit("chinchilla", design("chinchilla"), on="target", restraint="none"), findings=tuple(found))
    loaded = cl.load_fit(fitted.save(tmp_path / "fit.json"))
    assert [one.degree for one in loaded.findings] == [1.0, 3.0, 2.0]
    with pytest.raises(ValueError, match="no finding"):
        Finding("info", "far", "row 1", degree="1")


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "not a readable fit"), ("{}", "not a cptlaw fit"), ('{"format": "cptlaw-fit"}', "damaged")],
)
def test_bad_fit_files(tmp_path, content, words):
    path = tmp_path / "fit.json"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        cl.load_fit(path)


def test_missing_fit_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        cl.load_fit(tmp_path / "nothing.json")
    fitted = cl.fit("chinchilla", design("chinchilla"), on="target", restraint="none")
    with pytest.raises(DataError, match="cannot be written"):
        fitted.save(tmp_path / "no folder" / "fit.json")


def test_a_fit_with_held_and_tied_parameters_is_read_back(tmp_path):
    runs = cl.examples.load("en-fr-pilot").where("ptpp == 279 and replay > 0 and atpp >= 1.9")
    for restraint in ({"fix": {"A": 0.0, "alpha": 0.3}}, {"tie": [("alpha", "beta")]}):
        fit = cl.fit("ptpp-blind", runs, "target", starts=8, **restraint, restraint="none")
        read = cl.load_fit(fit.save(tmp_path / "fit.json"))
        assert read.params == pytest.approx(fit.params)


def test_a_fit_whose_numbers_no_search_finds_is_damaged(tmp_path):
    path = cl.fit("chinchilla", design("chinchilla"), on="target", restraint="none").save(tmp_path / "fit.json")
    sound = json.loads(path.read_text())

    def spoilt(**changes):
        path.write_text(json.dumps({**sound, **changes}))
        with pytest.raises(DataError, match="damaged"):
            cl.load_fit(path)

    spoilt(data={name: cells for name, cells in sound["data"].items() if name != "run"})
    for name, value in (("E", 1e300), ("A", -1e300), ("alpha", -1e300), ("E", -5.0), ("B", 1e12)):
        spoilt(params={**sound["params"], name: value})
