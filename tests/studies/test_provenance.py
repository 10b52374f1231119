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


def test_a_study_depends_on_what_it_imports_and_on_names_of_the_front_door():
    found = provenance.modules("studies.forecasts.what_holds")
    assert {"cptlaw.forecasting.curves", "cptlaw.examples", "cptlaw.runs", "studies.harness"} <= found
    assert not any(name.startswith(("cptlaw.answering", "cptlaw.cli", "cptlaw.importing")) for name in found)
    asked = provenance.modules("studies.forecasts.ten_questions")
    assert {"cptlaw.answering", "cptlaw.planning.solve"} <= asked
    assert "cptlaw.laws.others.kaplan" in asked or any(".laws.others." in name for name in asked)  # loaded by name
    assert set(provenance.code("studies.training.skills")) == {"studies.harness", "studies.training.skills"}


@pytest.fixture
def held():
    """What a result file says that was made just now."""
    command = "python -m studies skills --write"
    names = ["studies/measured/skills.csv", "../shared/data/not_there.csv"]
    return {
        "command": command,
        "code": provenance.code(provenance.study_of(command)),
        "data": provenance.data(names),
        "tables": {},
    }


def test_a_file_is_out_of_date_once_its_code_or_data_has_changed(held):
    assert provenance.changes(held) == []
    held["data"]["../shared/data/not_there.csv"] = "000000000000"  # cannot be told on this machine
    assert provenance.changes(held) == []
    held["data"]["studies/measured/skills.csv"] = "000000000000"
    held["code"]["studies.harness"] = "000000000000"
    held["code"]["cptlaw.fitting"] = "000000000000"  # no longer used
    assert provenance.changes(held) == ["cptlaw.fitting", "studies.harness", "studies/measured/skills.csv"]
    assert len(provenance.changes({"command": held["command"]})) == 1


def test_the_cost_stays_where_todays_is_much_the_same(held, monkeypatch):
    monkeypatch.setattr(provenance.time, "process_time", lambda: 20.0)
    monkeypatch.setattr(provenance.resource, "getrusage", lambda who: type("", (), {"ru_utime": 0, "ru_stime": 0}))
    cost = [provenance.fingerprint(held["command"], {"seconds": old})["seconds"] for old in (15, 30, 60, 300, 0)]
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


def test_the_list_of_result_files_can_be_asked(capsys):
    assert remake.main(["skills", "seals"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["seals", "skills"]
    with pytest.raises(SystemExit) as ended:
        remake.main(["nothing"])
    assert ended.value.code == 2


def test_every_result_file_names_a_study_that_is_there():
    for path in provenance.RESULTS.glob("*.json"):
        assert provenance.study_of(json.loads(path.read_text(encoding="utf-8"))["command"])
