"""Result files say with which code and data they were made, and what of it has changed since."""

import ast
import json

import pytest

from studies import provenance, remake


def digest(text):
    return provenance.plain(ast.parse(text))


def test_comments_docstrings_and_layout_are_no_code():
    bare = 'def f(x):\n    return f"{x:.2f}" + "a"\n'
    told = '"""Module."""\n# why\ndef f(x):\n    """Words."""\n\n    return (f"{x:.2f}"\n        + "a")\n'
    assert digest(bare) == digest(told)
    assert digest(bare) != digest(bare.replace("+", "-"))
    assert digest(bare) != digest(bare.replace(".2f", ".3f"))


@pytest.mark.dear("it reads every module")
def test_a_study_depends_on_what_it_imports_and_on_names_of_the_front_door():
    found = provenance.modules("studies.forecasts.what_holds")
    assert {"cptlaw_curves.forecasting", "cptlaw.examples", "cptlaw.runs", "studies.harness"} <= found
    assert not any(name.startswith(("cptlaw.answering", "cptlaw.cli", "cptlaw.importing")) for name in found)
    asked = provenance.modules("studies.forecasts.ten_questions")
    assert {"cptlaw.answering", "cptlaw.planning.solve"} <= asked
    assert {"cptlaw.laws.mix_joint", "cptlaw_published.atlas", "cptlaw_curves.laws.dynamics"} <= asked  # loaded by name
    assert provenance.modules("studies.training.skills") == {"studies.harness", "studies.training.skills"}


STUDY = "studies.training.skills"


@pytest.fixture
def held():
    """What a result file says that was made just now."""
    names = ["studies/measured/skills.csv", "../shared/data/not_there.csv"]
    made = {"command": "python -m studies skills --write", "data": provenance.data(names)}
    return made | {"probe": provenance.kept_numbers(STUDY), "tables": {}}


@pytest.fixture
def stamp():
    """Today's stamp of that file, with code that has changed since."""
    return provenance.code_at_start(STUDY) | {"code": "000000000000"}


def test_a_file_holds_where_its_probe_is_as_it_was(held, stamp):
    assert provenance.look(held, stamp) == provenance.code_at_start(STUDY)
    held["probe"][3] *= 1.0001  # which prints alike
    assert "moved" not in provenance.look(held, stamp)
    held["probe"][3] *= 1.1
    held["probe"][5] *= 1.2
    said = provenance.look(held, stamp)["moved"]
    assert said.split()[:3] == ["2", "of", str(len(held["probe"]))]
    assert said.endswith(f"{held['probe'][5]:.5g} -> {held['probe'][5] / 1.2:.5g}")


def test_what_was_found_is_kept_until_the_code_changes(held, monkeypatch):
    monkeypatch.setattr(provenance, "probed", lambda study: pytest.fail("the probe ran"))
    noted = provenance.code_at_start(STUDY) | {"moved": "1 of 3 probed numbers moved, most 1 -> 2"}
    assert provenance.look(held, noted) == noted


def test_a_file_is_out_of_date_once_its_study_or_its_data_has_changed(held, stamp):
    held["data"]["../shared/data/not_there.csv"] = "000000000000"  # cannot be told on this machine
    assert "moved" not in provenance.look(held, stamp)
    edited = provenance.look(held, stamp | {"own": "000000000000"})
    assert "edited" in edited["moved"]
    assert provenance.look(held, edited)["moved"] == edited["moved"]  # it is not forgotten when it is looked at again
    whole = held["data"]["studies/measured/skills.csv"]
    held["data"]["studies/measured/skills.csv"] = "000000000000"
    changed = provenance.look(held, edited)
    assert changed["moved"] == "changed: studies/measured/skills.csv"
    held["data"]["studies/measured/skills.csv"] = whole
    assert provenance.look(held, changed)["moved"] == edited["moved"]  # nor is the edit, beside a changed table
    assert "moved" not in provenance.look(held, changed | {"own": stamp["own"]})  # as it was, it holds again


def own_code_of(monkeypatch, tmp_path, text):
    path = tmp_path / "study.py"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(provenance, "_files", lambda: {"studies.mine": path})
    provenance._tree.cache_clear()
    return provenance.own_code("studies.mine")


def test_an_imported_name_is_no_edit_of_a_study(monkeypatch, tmp_path):
    text = "from cptlaw.runs import old, other\n\ndef tables():\n    return old(other(1))\n"
    before = own_code_of(monkeypatch, tmp_path, text)
    renamed = text.replace("old", "new").replace("cptlaw.runs", "cptlaw.runs.table")
    probe = "\n\ndef probe():\n    return 1\n"
    assert own_code_of(monkeypatch, tmp_path, renamed + probe) == before
    assert own_code_of(monkeypatch, tmp_path, text.replace("old(other(1))", "other(1)")) != before
    assert own_code_of(monkeypatch, tmp_path, text.replace("(1)", "(2)")) != before


def test_the_cost_stays_where_todays_is_much_the_same(held, monkeypatch):
    monkeypatch.setattr(provenance.time, "process_time", lambda: 20.0)
    monkeypatch.setattr(provenance.resource, "getrusage", lambda who: type("", (), {"ru_utime": 0, "ru_stime": 0}))
    found = [provenance.fingerprint(held["command"], held | {"seconds": old}) for old in (15, 30, 60, 300, 0)]
    cost = [each["seconds"] for each in found]
    assert found[0]["probe"] == held["probe"]
    assert cost == [15, 30, 60, 30, 30]


def test_numbers_count_as_changed_beyond_their_last_digit():
    def tables(*cells):
        return {"all": {"columns": ["law", "error"], "rows": [["a", cell] for cell in cells]}}

    old = tables("1.27 % (3 of 4)", "2.0 to 3.1", "1e-05", "holds")
    assert provenance.differing(old, tables("1.28 % (3 of 4)", "2.0 to 3.1", "1e-05", "holds")) == []
    found = provenance.differing(old, tables("1.29 % (3 of 4)", "2.0 to 3.1", "2e-05", "open"))
    assert len(found) == 3
    assert len(provenance.differing(old, tables("1.27 % (2 of 4)", "2.0 to 3.1", "1e-05", "holds"))) == 1
    assert len(provenance.differing(old, tables("1.27 % (3 of 4)"))) == 1
    assert len(provenance.differing(old, {})) == 1


def test_tables_that_are_read_are_noted(tmp_path):
    measured = provenance.ROOT / "studies" / "measured" / "skills.csv"
    assert provenance.table_name(measured) == "studies/measured/skills.csv"
    assert provenance.table_name(provenance.DATA / "marek_rates.csv") == "../shared/data/marek_rates.csv"
    assert provenance.table_name(tmp_path / "x.csv") is None
    assert provenance.table_name(provenance.ROOT / "studies" / "harness.py") is None
    assert provenance.table_name(provenance.RESULTS / "skills.json") is None


def test_the_list_of_result_files_can_be_asked(capsys, monkeypatch):
    monkeypatch.setattr(remake, "look", lambda held, stamp: stamp)
    assert remake.main(["skills", "seals"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["seals", "skills"]
    with pytest.raises(SystemExit) as ended:
        remake.main(["nothing"])
    assert ended.value.code == 2


def test_every_result_file_names_a_study_that_is_there():
    for path in provenance.RESULTS.glob("*.json"):
        assert provenance.study_of(json.loads(path.read_text(encoding="utf-8"))["command"])
