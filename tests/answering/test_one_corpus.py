"""A question about one of several corpora of a table."""

import pytest
from facts import refused
from thinned import thinned

import cptlaw as cl
from cptlaw.answering.one_corpus import rows_of_corpus

ASKED = {"n_params": 75_000, "ptpp": 62, "tokens": "1M", "max_forgetting": "20%"}


@pytest.fixture(scope="module")
def small():
    """Two corpora at two small sizes."""
    return thinned(cl.examples.load("domains").where('not domain in ("german", "c") and n_params < 50000'))


def test_the_rows_of_a_corpus_are_its_runs_and_its_base_models():
    runs = cl.examples.load("domains")
    where = rows_of_corpus(runs, "french", "n_params < 50000")
    rows = runs.where(where).frame
    assert set(rows["domain"].dropna()) == {"french"}
    bases = rows[rows["tokens"] == 0]
    assert {"source", "target"} == set(bases["eval"])
    assert len(bases[bases["eval"] == "target"]) == bases["n_params"].nunique()


def test_corpora_are_never_pooled(small):
    with refused(cl.UsageError, "--domain", "french", "python"):
        cl.answer(small, **ASKED)
    one = 'not domain in ("python")'
    assert rows_of_corpus(small, None, one) == one
    assert rows_of_corpus(cl.examples.load("en-fr-pilot"), None, None) is None


@pytest.mark.dear("an answer from a table of its own")
def test_an_answer_for_a_corpus_is_that_of_its_rows(small):
    answer = cl.answer(small, domain="french", **ASKED)
    fits = [command for command in answer.commands if command.startswith("cptlaw fit ")]
    assert len(fits) == 2
    assert all(rows_of_corpus(small, "french", None) in command for command in fits)


@pytest.mark.nightly
def test_answers_for_two_corpora_differ(small):
    french, python = (cl.answer(small, domain=name, **ASKED) for name in ("french", "python"))
    assert french.replay != pytest.approx(python.replay, abs=0.01)


def test_a_corpus_that_is_not_there_is_refused(call, tmp_path, small):
    table = tmp_path / "runs.csv"
    small.frame.to_csv(table, index=False)
    options = ["--n-params", "75K", "--ptpp", "62", "--tokens", "1M", "--max-forgetting", "20%"]
    code, _, said = call("answer", str(table), "--domain", "frensh", *options)
    assert code == 2
    assert "french" in said
    code, _, said = call("answer", "--domain", "french", *options)
    assert code == 2
    assert "--domain" in said
    with pytest.raises(cl.UsageError):
        cl.answer(cl.examples.load("en-fr-pilot"), domain="french", **ASKED)
