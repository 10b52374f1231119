"""A second command to the same table fits nothing, and prints what it would print without the first, to the byte."""

import os
from dataclasses import replace

import pytest
from cases import design
from counting import counted

import cptlaw as cl
from cptlaw import examples
from cptlaw.cli import kept_fits
from cptlaw.fitting.fit_cache import FITS

ROWS = "ptpp in (0, 31, 62) and tokens >= 200K and replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant'"
QUESTION = ("--n-params", "124672", "--ptpp", "279", "--tokens", "1M", "--max-forgetting")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Keep fits in a folder of this test; each command begins without those of the process, as a real one does."""
    monkeypatch.forget_fits()
    monkeypatch.delenv("CPTLAW_NO_CACHE")
    monkeypatch.setenv("CPTLAW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fits"


@pytest.fixture
def command(folder, call):
    def run(*words):
        FITS.clear()
        with counted() as counts:
            printed = call(*map(str, words))
        assert printed[0] == 0, printed
        return printed, counts["fits"]

    return run


@pytest.fixture
def fit_small(command, tmp_path):
    design("chinchilla", noise=0.01).to_csv(tmp_path / "runs.csv", index=False)
    words = ("fit", tmp_path / "runs.csv", "--law", "chinchilla", "--on", "target", "--restraint", "none", "-v")
    return lambda *more: command(*words, *more)


@pytest.mark.dear("two whole answers, one from kept fits and one without")
def test_an_answer_from_kept_fits_is_that_of_fresh_ones(command, folder, tmp_path):
    examples.load("en-fr-pilot").where(ROWS).frame.to_csv(tmp_path / "runs.csv", index=False)
    words = ("answer", tmp_path / "runs.csv", *QUESTION)
    fresh, made = command(*words, "25%", "--json")
    assert made > 0
    kept = sorted(folder.iterdir())
    assert command(*words, "25%", "--json") == (fresh, 0)
    other_limit, made = command(*words, "30%", "-v")
    assert (made, sorted(folder.iterdir())) == (0, kept)
    assert command(*words, "30%", "-v", "--no-cache")[0] == other_limit


@pytest.mark.parametrize("spoilt", [b"", b"{}\n{}", b"\x00\xff", None])
def test_a_file_that_is_not_whole_is_replaced(fit_small, folder, spoilt):
    fresh, _ = fit_small()
    (place,) = folder.glob("*.json")
    whole = place.read_bytes()
    place.write_bytes(whole.replace(b"1", b"2") if spoilt is None else spoilt)
    assert fit_small() == (fresh, 1)
    assert place.read_bytes() == whole
    assert fit_small() == (fresh, 0)


def test_edited_code_meets_no_fit_of_before(fit_small, monkeypatch):
    fresh, _ = fit_small()
    monkeypatch.setattr(kept_fits, "_code", lambda: b"edited")
    assert fit_small() == (fresh, 1)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_no_cache_reads_and_keeps_nothing(fit_small, folder, how, monkeypatch):
    more = ["--no-cache"] if how == "option" else []
    if not more:
        monkeypatch.setenv("CPTLAW_NO_CACHE", "1")
    assert fit_small(*more)[1] == fit_small(*more)[1] == 1
    assert not folder.exists()


def test_the_fits_that_nobody_used_for_longest_go(fit_small, folder, monkeypatch):
    fit_small("--starts", "4")
    (first,) = folder.glob("*.json")
    fit_small("--starts", "5")
    for age, path in enumerate(sorted(folder.glob("*.json"), key=lambda path: path != first), 1):
        os.utime(path, (age * 1e6, age * 1e6))
    assert fit_small("--starts", "4")[1] == 0
    monkeypatch.setattr(FITS, "in_all", 2.5 * first.stat().st_size / 200)
    fit_small("--starts", "6")
    assert len(list(folder.glob("*.json"))) == 2
    assert fit_small("--starts", "4")[1] == 0
    monkeypatch.setattr(FITS, "most_fits", 1)
    fit_small("--starts", "7")
    assert len(list(folder.glob("*.json"))) == 1


def test_a_folder_that_cannot_be_made_stops_no_command(fit_small, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("CPTLAW_CACHE", str(tmp_path / "runs.csv"))
    assert fit_small()[1] == 1


def test_a_question_has_one_key_in_every_process(folder):
    table = replace(cl.read_runs(design("chinchilla")), accounted_for=frozenset([8, 0]))
    other = replace(table, accounted_for=frozenset([0, 8]))
    assert list(table.accounted_for) != list(other.accounted_for)
    FITS.fitted(lambda: 1, table, "asked")
    assert FITS.fitted(lambda: 2, other, "asked") == 1
