"""Each grammar of log lines reads its sample, and no other does; whose sample it is stands in the file."""

import math
from pathlib import Path

import pytest

from cptlaw.importing.grammar import grammars
from cptlaw.importing.line_log import GRAMMARS, _grammars_of, read_log
from cptlaw.importing.reader import readers

KNOWN = list(grammars())


@pytest.fixture
def sample(request, tmp_path):
    name = "README.md" if request.param.files[0] == "README.md" else "run.txt"
    (tmp_path / name).write_text(request.param.sample, encoding="utf-8")
    return request.param, tmp_path / name


every = pytest.mark.parametrize("sample", KNOWN, indirect=True, ids=[one.name for one in KNOWN])


@every
def test_a_sample_is_read(sample):
    grammar, path = sample
    values = {}
    for record in read_log(grammar, path, "run").records:
        values |= {(record.step, name): value for name, value in record.values.items()}
    for step, metric, value in grammar.reads:
        assert math.isclose(values[step, metric], value, rel_tol=1e-6)


@every
def test_a_sample_is_of_one_kind(sample):
    grammar, path = sample
    assert _grammars_of(path) == {grammar.name}
    (found,) = [kind for kind in readers() if kind.name == grammar.name]
    assert found.find(path) == found.find(path.parent) == [path]


@every
def test_a_log_that_breaks_off_anywhere_is_read_or_not_known(sample):
    grammar, path = sample
    for end in range(0, len(grammar.sample), 7):
        path.write_text(grammar.sample[:end], encoding="utf-8")
        for record in read_log(grammar, path, "run").records:
            assert all(isinstance(value, float) for value in record.values.values())


def test_each_grammar_is_a_reader_and_says_how_to_measure():
    assert {kind.name for kind in readers()} >= set(GRAMMARS)
    assert all(len(one.switch_on) > 20 and one.looks_for for one in KNOWN)


def test_the_page_names_every_kind():
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    assert [kind.name for kind in readers() if f"`{kind.name}`" not in page] == []
