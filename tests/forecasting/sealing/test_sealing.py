"""Sealed forecasts: what is written down before, cannot be changed unseen, and is scored on runs not seen before."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import cptlaw as cl
from cptlaw import writing
from cptlaw.cli import cli, main
from cptlaw.errors import CptlawError
from cptlaw.fitting.solving.origin import origin

ROWS = "replay in (0.1, 0.25, 0.5) and atpp >= 1.9 and lr_schedule == 'constant' and n_params < 100000"


@pytest.fixture(scope="module")
def runs() -> cl.Runs:
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def fit(runs: cl.Runs) -> cl.Fit:
    return cl.fit("ptpp-floor", runs, "target", f"{ROWS} and ptpp <= 62", starts=8, restraint="none")


@pytest.fixture(scope="module")
def document(fit: cl.Fit) -> dict:
    points = pd.DataFrame({"n_params": [45936.0, 75072.0], "tokens": 7.3e5, "replay": 0.25, "ptpp": 279.0})
    found = cl.forecast(fit, points.assign(tokens=[7.35e5, 1.2e6]))
    records = json.loads(found.drop(columns="findings").to_json(orient="records"))
    return {"points": records, "interval": 0.9, "intervals": [{"law": fit.law.spec, "on": fit.on, **origin(fit)}]}


def sealed(document: dict, folder: Path, name: str = "sealed.json") -> Path:
    path = folder / name
    cl.register(document, path)
    return path


def refused(call, *words: str) -> None:
    with pytest.raises(cl.CptlawError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_a_seal_is_read_back_as_it_was_written(document, tmp_path):
    path = tmp_path / "sealed.json"
    seal = cl.register(document, path)
    read = cl.load_seal(path)
    assert read == seal
    assert read.sha256 == json.loads(path.read_text())["sha256"]
    assert read.points[0]["loss"] == document["points"][0]["loss"]
    assert read.laws[0]["fingerprint"] == document["intervals"][0]["fingerprint"] is not None


def test_of_two_seals_at_once_under_one_name_the_first_stays(document, tmp_path, monkeypatch):
    to_disk, path, meanwhile = writing.flush_to_disk, tmp_path / "sealed.json", []

    def slow(part):
        if not meanwhile:
            meanwhile.append(None)
            meanwhile.append(cl.register({**document, "interval": 0.8}, path))
        to_disk(part)

    monkeypatch.setattr(writing, "flush_to_disk", slow)
    refused(lambda: cl.register(document, path, timestamp=tmp_path / "stamp"), "exists", "never written over")
    assert cl.load_seal(path) == meanwhile[1]
    assert [each.name for each in tmp_path.iterdir()] == ["sealed.json"]


def test_layout_may_change_and_no_value_may(document, tmp_path):
    path = sealed(document, tmp_path)
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(kept.items()))))
    cl.load_seal(path)
    for change in (
        lambda content: content["points"][1].update(hi=9.0),
        lambda content: content.update(sealed="2020-01-01T00:00:00+00:00"),
        lambda content: content["laws"][0].update(fingerprint="0"),
        lambda content: content.pop("sha256"),
    ):
        content = json.loads(json.dumps(kept))
        change(content)
        path.write_text(json.dumps(content))
        refused(lambda: cl.load_seal(path), "changed after it was sealed", "commit")


WRONG = (None, "x", [], {}, [[1]], True, -1, 10**400, 1e308)


@pytest.mark.parametrize(
    "place",
    [
        ("format_version",),
        ("interval",),
        ("laws",),
        ("laws", 0),
        ("laws", 0, "law"),
        ("laws", 0, "on"),
        ("laws", 0, "fitted_runs"),
        ("sealed",),
        ("points",),
        ("points", 0),
        ("points", 0, "on"),
        ("points", 0, "law"),
        ("points", 0, "loss"),
        ("points", 0, "lo"),
        ("points", 0, "tokens"),
        ("points", 0, "replay"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_a_forger_who_computes_the_hash_anew_gets_scores_or_a_message(document, runs, tmp_path, place):
    path = sealed(document, tmp_path)
    whole = json.loads(path.read_text())
    for wrong in WRONG:
        content = json.loads(json.dumps(whole))
        part = content
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = wrong
        del content["sha256"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
        assert len(outcome(lambda: cl.score(path, runs, "lr_schedule == 'constant'"))) < 5000
        # Nor does a forecast with such a value become a seal that breaks later.
        forecast = {**content, "intervals": content.get("laws"), "format": None}
        assert outcome(lambda forecast=forecast: cl.register(forecast))


def outcome(call) -> str:
    """Return what a call gives, or its message; an error that is not the package's own fails."""
    try:
        return str(call())
    except cl.CptlawError as error:
        return str(error)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"points": ' + "[" * 100_000 + "]" * 100_000 + "}", "9" * 9999])
def test_a_file_nested_a_thousandfold_is_refused(text, tmp_path):
    (tmp_path / "seal.json").write_text(text)
    refused(lambda: cl.load_seal(tmp_path / "seal.json"), "seal.json", "not readable JSON")
    refused(lambda: cl.register(tmp_path / "seal.json"), "seal.json", "not readable JSON")


def test_half_a_character_makes_no_seal(document, tmp_path):
    (tmp_path / "seal.json").write_text('{"points": "\\ud800"}')
    refused(lambda: cl.load_seal(tmp_path / "seal.json"), "seal.json", "\\ud800")
    refused(lambda: cl.register(tmp_path / "seal.json"), "seal.json", "\\ud800")
    halved = {**document, "points": [{**document["points"][0], "domain": "fr\ud800"}]}
    refused(lambda: cl.register(halved), "\\ud800")
    whole = {**document, "points": [{**document["points"][0], "domain": "fr\U0001f600"}]}
    assert cl.register(whole).points[0]["domain"] == "fr\U0001f600"


@pytest.mark.parametrize(
    ("name", "value"),
    [("mix_code", "half"), ("mix_code", 1.5), ("mix_code", True), ("replay", -0.1), ("replay", 2.0), ("tokens", -1.0)],
)
def test_an_input_that_no_table_holds_makes_no_seal(document, name, value):
    odd = {**document, "points": [{**document["points"][0], name: value}]}
    refused(lambda: cl.register(odd), f"`{name}` is {value!r}", "0")
    sound = {**document, "points": [{**document["points"][0], "mix_code": 0.25, "mix_id": "seventh"}]}
    assert cl.register(sound).points[0]["mix_code"] == 0.25


def test_scores_are_those_of_the_rows(document, runs, tmp_path):
    found = cl.score(sealed(document, tmp_path), runs, "lr_schedule == 'constant'")
    frame = runs.frame
    at = frame[
        (frame["eval"] == "target")
        & (frame["ptpp"] == 279)
        & (frame["replay"] == 0.25)
        & (frame["lr_schedule"] == "constant")
        & frame["n_params"].isin([45936, 75072])
        & (frame["tokens"] / frame["n_params"]).between(15.9, 16.1)
    ]
    assert sorted(found.frame["measured"]) == pytest.approx(sorted(at["loss"]))
    assert set(found.frame["run"]) == set(at["run"].astype(str))
    error = found.frame["loss"] / found.frame["measured"] - 1
    total = found.totals.iloc[0]
    assert total["mean_absolute_error"] == pytest.approx(error.abs().mean())
    assert total["mean_error"] == pytest.approx(error.mean())
    held = (found.frame["measured"] >= found.frame["lo"]) & (found.frame["measured"] <= found.frame["hi"])
    assert total["inside"] == pytest.approx(held.mean())
    assert total["asked"] == 0.9
    assert not found.findings


def test_runs_that_were_fitted_are_not_scored(document, runs, tmp_path):
    known = json.loads(json.dumps(document))
    known["points"][0]["ptpp"] = 62.0
    found = cl.score(sealed(known, tmp_path), runs, "lr_schedule == 'constant'")
    assert [finding.code for finding in found.findings] == ["known-before"]
    assert set(found.frame["ptpp"]) == {279.0}
    known["points"] = known["points"][:1]
    refused(lambda: cl.score(sealed(known, tmp_path, "second.json"), runs), "nothing to score", "had been fitted")


def test_what_is_not_measured_is_told_or_refused(document, runs, tmp_path):
    ahead = json.loads(json.dumps(document))
    ahead["points"][1]["n_params"] = 8.1e9
    found = cl.score(sealed(ahead, tmp_path), runs, "lr_schedule == 'constant'")
    assert [finding.code for finding in found.findings] == ["not-measured"]
    assert "8.1B" in found.findings[0].message
    ahead["points"] = ahead["points"][1:]
    refused(lambda: cl.score(sealed(ahead, tmp_path, "second.json"), runs), "nothing to score", "8.1B")


def test_a_table_without_the_eval_or_an_input_is_refused(document, runs, tmp_path):
    path = sealed(document, tmp_path)
    refused(lambda: cl.score(path, runs.where("eval == 'source'")), "'target'", "Its evals: source")
    lacking = runs.frame.drop(columns="ptpp").reset_index(drop=True)
    refused(lambda: cl.score(path, cl.read_runs(lacking, n_params_kind="total")), "no column 'ptpp'")
    refused(lambda: cl.score([], runs), "cptlaw register")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", ["no JSON object"]),
        ("{nonsense", ["not readable JSON"]),
        ('{"format": "cptlaw-fit"}', ["this is a fit"]),
        ('{"points": []}', ["no `points`"]),
        ('{"points": [{"loss": 2.0, "n_params": 1}]}', ["point 1", "`on`"]),
        ('{"points": [{"on": "target", "loss": 0, "n_params": 1}]}', ["point 1", "above zero"]),
        ('{"points": [{"on": "target", "loss": NaN, "n_params": 1}]}', ["not readable", "NaN"]),
        ('{"points": [{"on": "target", "loss": 2, "n_params": 1}], "interval": 90}', ["`interval`", "between 0 and 1"]),
        ('{"points": [{"on": "target", "loss": 2, "lo": 2.1, "hi": 3, "n_params": 1}]}', ["outside its interval"]),
        ('{"points": [{"on": "target", "loss": 2}]}', ["no inputs"]),
        ('{"points": [{"on": "target", "loss": 2, "n_params": 1}], "intervals": 3}', ["`intervals`"]),
    ],
)
def test_what_is_no_forecast_is_refused(content, words, tmp_path):
    path = tmp_path / "forecast.json"
    path.write_text(content)
    refused(lambda: cl.register(path, tmp_path / "sealed.json"), str(path), *words)
    assert not (tmp_path / "sealed.json").exists()


def test_a_mapping_that_json_cannot_hold_is_refused(document):
    refused(lambda: cl.register({**document, "interval": float("nan")}), "forecast: not readable JSON", "NaN")


def test_a_seal_is_not_written_over_nor_sealed_again(document, tmp_path):
    path = sealed(document, tmp_path)
    before = path.read_bytes()
    refused(lambda: cl.register(document, path), "never written over")
    refused(lambda: cl.register(path, tmp_path / "again.json"), "sealed already", "cptlaw score")
    assert path.read_bytes() == before
    refused(lambda: cl.load_seal(tmp_path / "missing.json"), "no such file")


def test_from_the_command_line(fit, tmp_path):
    example = str(cl.examples.path("en-fr-pilot"))
    fit.save(tmp_path / "fit.json")
    main_commands(["laws", "chinchilla"])
    at = "n_params=45936,tokens=735K,replay=25%,ptpp=279"
    out = CliRunner().invoke(cli, ["forecast", str(tmp_path / "fit.json"), "--at", at, "--json"])
    (tmp_path / "forecast.json").write_text(out.stdout)
    seal = str(tmp_path / "sealed.json")
    out = CliRunner().invoke(cli, ["register", str(tmp_path / "forecast.json"), "-o", seal])
    assert out.exit_code == 0
    assert json.loads(Path(seal).read_text())["sha256"] in out.stdout
    where = ["--where", "lr_schedule == 'constant'"]
    out = CliRunner().invoke(cli, ["score", seal, "--runs", example, "--n-params-kind", "total", *where, "--json"])
    assert out.exit_code == 0
    found = json.loads(out.stdout)
    assert found["totals"][0]["measured"] == len(found["rows"]) >= 3
    out = CliRunner().invoke(cli, ["score", seal, "--runs", example, *where])
    assert "mean absolute error" in out.stdout
    assert "46k-p279-r0.25-const-s0" in out.stdout
    assert "  25%  " in out.stdout  # replay as everywhere else
    one = [*where[:1], f"{where[1]} and run == '46k-p279-r0.25-const-s0'"]
    out = CliRunner().invoke(cli, ["score", seal, "--runs", example, *one])
    assert out.stdout.startswith("1 score")


def main_commands(arguments: list[str]) -> None:
    """Run the program once, which is what gives the group its verbs."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_two_seals_of_one_law_are_scored_apart(document, runs, tmp_path):
    first = cl.register(document, tmp_path / "first.json")
    moved = json.loads(json.dumps(document))
    for point in moved["points"]:
        for name in ("loss", "lo", "hi"):
            point[name] = point[name] and 1.1 * point[name]
    second = cl.register(moved, tmp_path / "second.json")
    totals = cl.score([first, second], runs, "lr_schedule == 'constant'").totals
    alone = [cl.score(one, runs, "lr_schedule == 'constant'").totals for one in (first, second)]
    assert set(totals["seal"]) == {first.label, second.label}
    for one, label in zip(alone, (first.label, second.label), strict=True):
        of_seal = totals[totals["seal"] == label]
        assert sorted(of_seal["mean_error"]) == pytest.approx(sorted(one["mean_error"]))
    with pytest.raises(CptlawError, match="given twice"):
        cl.score([first, first], runs)


def test_an_interval_that_holds_whatever_is_measured_is_not_sealed_and_never_counts_as_held(document, runs, tmp_path):
    wide = json.loads(json.dumps(document))
    wide["points"][0]["hi"] = 1e300
    with pytest.raises(CptlawError, match="1e\\+300"):
        cl.register(wide)
    seal = cl.register(document, tmp_path / "early.json")  # some early seals hold such intervals
    early = dataclasses.replace(seal, points=({**seal.points[0], "hi": 1e300}, *seal.points[1:]))
    first = cl.score(early, runs, "lr_schedule == 'constant'").frame.iloc[0]
    assert first["hi"] == 1e300
    assert first["inside"] is None


def test_seals_that_no_register_writes_are_refused(document, tmp_path):
    def forged(change):
        content = cl.register(document).to_dict()
        del content["sha256"]
        change(content)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / "seal.json").write_text(json.dumps(content))
        with pytest.raises(CptlawError) as caught:
            cl.load_seal(tmp_path / "seal.json")
        return str(caught.value)

    assert "lies ahead" in forged(lambda seal: seal.update(sealed="2999-01-01T00:00:00+00:00"))
    assert "no date" in forged(lambda seal: seal.update(sealed="soon"))
    assert "what point 1 does" in forged(lambda seal: seal["points"].append(dict(seal["points"][0])))
    (tmp_path / "seal.json").write_text('{"format": "x", "format": "cptlaw-sealed-forecast"}')
    with pytest.raises(CptlawError, match="is there twice"):
        cl.load_seal(tmp_path / "seal.json")


def test_a_seal_names_the_commit_of_its_table_and_a_file_to_stamp(document, tmp_path, monkeypatch):
    table = tmp_path / "runs.csv"
    table.write_text("run,eval,loss\na,target,2.0\n")
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "a")
        monkeypatch.setenv(f"{name}_EMAIL", "a@b")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(CptlawError, match="Commit it first"):
        cl.register(document, git=table)
    for words in (["add", "runs.csv"], ["commit", "-qm", "runs"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    seal = cl.register(document, tmp_path / "s.json", git=table, timestamp=tmp_path / "s.sha256")
    head = subprocess.run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert seal.commit == cl.load_seal(tmp_path / "s.json").commit == head.stdout.strip()
    assert "not when it was written" in seal.summary()
    whole = hashlib.sha256((tmp_path / "s.json").read_bytes()).hexdigest()
    assert (tmp_path / "s.sha256").read_text() == f"{whole}  s.json\n"
    (tmp_path / "sub").mkdir()
    for same in ("t.json", "sub/../t.json"):
        with pytest.raises(CptlawError, match="Give --timestamp another name"):
            cl.register(document, tmp_path / "t.json", timestamp=tmp_path / same)
    with pytest.raises(CptlawError, match="does not exist"):
        cl.register(document, tmp_path / "t.json", timestamp=tmp_path / "no" / "t.sha256")
    assert not (tmp_path / "t.json").exists()  # nothing is sealed where its hash could not be written
    table.write_text("run,eval,loss\na,target,2.1\n")
    with pytest.raises(CptlawError, match="Commit it first"):
        cl.register(document, git=table)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"n_params": "1e6"}, "a finite number above 0"),
        ({"tokens": "ten"}, "a finite number, 0 or more"),
        ({"replay": ""}, "a number from 0 to 1"),
        ({"ptpp": True}, "a finite number above 0"),
    ],
)
def test_text_in_the_place_of_a_number_is_not_sealed(entries, expected):
    point = {"on": "target", "law": "ptpp-floor", "n_params": 1e6, "tokens": 1e7, "loss": 2.0, "lo": 1.9, "hi": 2.1}
    laws = [{"law": "ptpp-floor", "on": "target", "fitted_runs": "0123456789ab"}]
    assert cl.register({"points": [point | {"domain": "fr"}], "interval": 0.9, "intervals": laws}).sha256
    with pytest.raises(CptlawError, match=f"Expected {expected} "):
        cl.register({"points": [point | entries], "interval": 0.9, "intervals": laws})
